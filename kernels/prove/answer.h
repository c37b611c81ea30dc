// SPDX-License-Identifier: Apache-2.0
// kernels/prove/answer.h -- what a proof has shown, in words: of a log, and of
// the file that keeps plans and proofs (kernels/plans.h).
//
// Threads  any.
// Memory   texts are the caller's, but those of answer_log and answer_again.
#ifndef KERNELS_PROVE_ANSWER_H
#define KERNELS_PROVE_ANSWER_H

#include "common/base/buf.h"

#define ANSWER_KIND "proof" // of a line of the file
#define ANSWER_WRONG "wrong "
#define ANSWER_WHY 600   // bytes of a reason
#define ANSWER_OF " of " // in a reason, behind the kernel's name

// What a proof has shown.
enum proof_shows {
    PROOF_WRONG,
    PROOF_RIGHT,
    PROOF_ONCE,   // it was wrong, and right when it was checked again: no file
                  // keeps that, and it is left out until the device is closed
    PROOF_UNSURE, // it was wrong, and could not be checked again; as PROOF_ONCE
    PROOF_REFUSED, // it did not run; as PROOF_ONCE, but not counted as wrong
};

// Returns what a log says of a kernel that is left out for what a proof has
// shown; never NULL, "" for PROOF_RIGHT.
const char *answer_log(enum proof_shows shows);
// Returns what the end of a reason says of a second check; never NULL, and
// empty for what needs no such words.
const char *answer_again(enum proof_shows shows);

// Appends the payload of a line of the file: the kernel is right, or it is
// wrong and `why` (NULL: not said; not read if it is right). Returns SL_OK or
// SL_ENOMEM.
enum sl_err answer_write(struct buf *out, bool right, const char *why);

// Reads a payload and returns true: *right says whether the kernel is right,
// and *why is the reason if it is wrong, within `text`, else NULL. Returns
// false if `text` is no payload; *right is then false and *why NULL.
bool answer_read(const char *text, bool *right, const char **why);

// Writes to why[ANSWER_WHY] that kernel `impl` of device `on` computed `got`
// instead of `want` in element `element` of output number `output` (from 0) of
// the op that `shape` describes; element -1: that it wrote beside a tensor, and
// the numbers say nothing. `again` is answer_again's text.
void answer_explain(char *why, const char *impl, const char *on,
                    const char *shape, int64_t element, int output, double got,
                    double want, const char *again);

// Writes to why[ANSWER_WHY] that kernel `impl` of device `on` computes nothing
// for the op that `shape` describes, as it refuses to run: `said` is the
// reason.
void answer_refused(char *why, const char *impl, const char *on,
                    const char *shape, const char *said);

#endif
