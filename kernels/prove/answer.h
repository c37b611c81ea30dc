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
#define ANSWER_WHY 600 // bytes of a reason

// Appends the payload of a line: the kernel is right, or wrong and why (NULL:
// not said). SL_ENOMEM.
enum sl_err answer_write(struct buf *out, bool right, const char *why);

// Reads a payload. False: it is none. *why, of a kernel that is wrong, points
// into the text; else it is NULL.
bool answer_read(const char *text, bool *right, const char **why);

// Writes why[ANSWER_WHY]: in what kernel `impl` of device `on` is wrong for the
// op that is `shape` in words.
void answer_explain(char *why, const char *impl, const char *on,
                    const char *shape, int64_t element, int output, double got,
                    double want);

#endif
