// SPDX-License-Identifier: Apache-2.0
// kernels/prove/prove.h -- a plan proves itself on this host before it computes
// for a job.
//
// A kernel of a library, or a loop of ours, may be wrong for one shape, on one
// processor, in one version. So each plan of a host backend is run twice on
// random data, at two alignments, and compared with ref within the bound of
// conformance (bound.h). Some parts of a large op are compared: the first rows
// and columns, the last ones, where tiles are not full, and some in between
// (excerpt.h). A plan that is wrong is never used: its implementation is left
// out for this op, and the backend plans again.
//
// Threads  that of the device.
// Memory   prover_free frees what was learned; a file keeps it. A proof takes
//          at most some 4 MiB for each tensor, but for a few kinds (trial.h),
//          some 10 MiB for what ref computes, and the plan's workspace; all of
//          it goes back to the host.
// Units    milliseconds of the monotonic clock.
// Errors   a wrong plan is no error of these functions, but an answer.
#ifndef KERNELS_PROVE_PROVE_H
#define KERNELS_PROVE_PROVE_H

#include "common/base/buf.h"
#include "kernels/kern.h"
#include "kernels/prove/answer.h"

#define PROVE_SEED 20261127 // of the random data: every host has the same

struct prover; // what a device knows of its implementations

// What a plan computed wrongly.
struct proof_fault {
    int out;         // index of io[]
    int64_t element; // of it, in row-major order; -1: it wrote beside a tensor,
                     // and `out` and the numbers say nothing
    double got, want, bound;
    const char *when; // "the first time", "the second time", or these with ",
                      // of fewer rows" (a small op was run instead); NULL: it
                      // did not compute, or nothing of it is known to be wrong
};

// Makes a prover, for prover_free; NULL: no memory. With `path` (copied; NULL:
// none) it appends what proofs show to that file, beside the plans of a GPU,
// and reads what earlier starts have kept there, now (plans_open). `host` is a
// hash of all that a proof depends on but the op and the implementation: the
// processor, the versions, the options.
struct prover *prover_new(const char *path, uint64_t host);
// Frees what was learned; the file stays. NULL is allowed.
void prover_free(struct prover *p);

// Runs a plan of a host backend, which wants workspace_bytes of workspace,
// twice on random data and compares it with ref. SL_OK: it is right.
// SL_EINTERNAL: it is wrong, and *fault says where (fault->when is set). The
// error of a run that the plan refused, with fault->when NULL; SL_ENOMEM
// likewise. Beats (kernels/beat.h).
enum sl_err prove_plan(struct kern_plan *plan, size_t workspace_bytes,
                       const struct kern_desc *d, struct proof_fault *fault);

// Plans *d of a device backend, or an op of the same kind that is small enough
// to be copied, runs it twice at two alignments, waits for it and compares it
// with ref. SL_OK: it is right. SL_EINTERNAL: it is wrong, and *fault says
// where (fault->when is set); or the device refuses, and fault->when is NULL.
// SL_ENOMEM, or another error of the device. The rest of *fault is set with
// fault->when alone, and *err only if planning failed.
enum sl_err prove_on_device(struct kern_dev *dev, const struct kern_desc *d,
                            struct proof_fault *fault, struct sl_error *err);

// Returns true if implementation `impl` is known to be right for *d, now or
// from the file. False if it is unknown or wrong, and if `p` is NULL.
bool prover_trusts(struct prover *p, const struct kern_desc *d,
                   const char *impl);
// Returns true if implementation `impl` was found wrong for *d, now or at an
// earlier start, or if its proof in this process ended without its being right
// (it refused to run, say). False if it is unknown or right, and if `p` is
// NULL.
bool prover_avoids(struct prover *p, const struct kern_desc *d,
                   const char *impl);
// Notes what a proof of `impl` for *d has shown and that it took `ms`, counts
// it, and keeps it in the file if it is PROOF_RIGHT or PROOF_WRONG. `p` is not
// NULL. Returns SL_OK; SL_ENOMEM leaves what was known.
enum sl_err prover_learn(struct prover *p, const struct kern_desc *d,
                         const char *impl, enum proof_shows shows, uint64_t ms);

// Notes in words (copied) why implementation `impl`, which prover_learn was
// told not to be right for *d, is left out, and keeps them in the file after
// PROOF_WRONG; of any other it notes nothing. `p` is not NULL. Without memory
// there are no words.
void prover_explain(struct prover *p, const struct kern_desc *d,
                    const char *impl, const char *why);
// Returns the words about implementation number `i`, from 0, of those that are
// left out for *d or, if `d` is NULL, for any op that was planned; its name if
// no words were kept. NULL: there are no more, or `p` is NULL. The text is the
// prover's, until it learns more.
const char *prover_left_out(const struct prover *p, const struct kern_desc *d,
                            unsigned i);

// Appends what prover_keep kept under `kind`, a word, for *d to *out, now or at
// an earlier start, and returns true. False: nothing is kept, or there was no
// memory; so, too, if `p` is NULL.
bool prover_kept(const struct prover *p, const char *kind,
                 const struct kern_desc *d, struct buf *out);
// Keeps `what`, a text of one line, under `kind` for *d in the file, beside the
// answers and under the same host, instead of what was kept there. Does nothing
// without a file, or if `p` is NULL.
void prover_keep(struct prover *p, const char *kind, const struct kern_desc *d,
                 const struct buf *what);

// Appends a line, "left out: ...", to *out for each kernel that the file `path`
// of a prover says was found wrong, whatever the options were. A file that is
// not there has none; nor has one that cannot be read, which is logged. Returns
// SL_OK, or SL_ENOMEM: *out may hold a part.
enum sl_err proofs_list(struct buf *out, const char *path);

// Counts of the proofs so far.
struct proofs {
    unsigned checked, wrong;
    uint64_t ms;
};
// Returns the counts of the proofs so far; zeroes if `p` is NULL.
struct proofs prover_counts(const struct prover *p);

#endif
