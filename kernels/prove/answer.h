// SPDX-License-Identifier: Apache-2.0
// kernels/prove/answer.h -- what a proof has shown, in words: of a log, and of
// the file that keeps plans and proofs (kernels/plans.h).
//
// Threads  any.
// Memory   texts are the caller's.
#ifndef KERNELS_PROVE_ANSWER_H
#define KERNELS_PROVE_ANSWER_H

#include "common/base/buf.h"

#define ANSWER_KIND "proof" // of a line of the file
#define ANSWER_WRONG "wrong "
#define ANSWER_WHY 600   // bytes of a reason
#define ANSWER_OF " of " // in a reason, behind the kernel's name
// What a log says of a kernel that is wrong each time, or was so once.
#define ANSWER_LOG_WRONG "a kernel computes wrong numbers here and is left out"
#define ANSWER_LOG_ONCE "a kernel was wrong, and right when checked again"
#define ANSWER_ONCE ", once: checked again, it was right"

// Appends the payload of a line of the file: the kernel is right, or it is
// wrong and `why` (NULL: not said; not read if it is right). SL_ENOMEM.
enum sl_err answer_write(struct buf *out, bool right, const char *why);

// Reads a payload and returns true: *right says whether the kernel is right,
// and *why is the reason if it is wrong, within `text`, else NULL. Returns
// false if `text` is no payload; *right is then false and *why NULL.
bool answer_read(const char *text, bool *right, const char **why);

// Writes to why[ANSWER_WHY] that kernel `impl` of device `on` computed `got`
// instead of `want` in element `element` of output number `output` (from 0) of
// the op that `shape` describes; `once`: it was right when it was checked
// again.
void answer_explain(char *why, const char *impl, const char *on,
                    const char *shape, int64_t element, int output, double got,
                    double want, bool once);

#endif
