// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/judge.h -- an engine or algorithm proves itself on the device
// before it computes for a job.
//
// A library may be wrong for one shape, on one GPU, in one version, and nothing
// would say so. So each candidate for an op runs twice on random data, which a
// kernel makes on the device: at multiples of 256 bytes, and KERN_ALIGN beyond
// them. Outputs hold NaN, or what the op adds to, and the workspace holds NaN.
// What comes out is compared with sums in f64 (oracle.cu) within the bound of
// conformance (kernels/prove/allow.h): all elements of a small output, else its
// last tile, its first one, and random ones, as many as the length of the sums
// allows. Answers are kept for this process, and in the file of plans.
//
// Threads  that of the dev.
// Memory   a judge has the op's tensors and the workspace on the device, from
//          the first candidate that nothing is known of, until judge_release.
// Errors   a wrong candidate is an answer, with a log line of its own.
#ifndef KERNELS_CUDA_JUDGE_H
#define KERNELS_CUDA_JUDGE_H

#include "kernels/cuda/cuda.h"
#include "kernels/prove/answer.h"
#include "kernels/prove/prove.h"

struct judge_answer {
    uint64_t key; // of an op, an implementation and all that it depends on
    uint64_t op;  // hash of its descriptor
    char *why;    // its mistake or refusal in words; owned; NULL: a right one
    bool once;    // no file keeps it: wrong once, or without memory to run
};

// What is known of implementations on this device. Zeroed: nothing.
struct judge_book {
    struct judge_answer *at; // owned
    size_t count, space;
    struct proofs counts;
};

// Frees what is known; the book is empty then, and may be used again.
void judge_book_release(struct judge_book *b);

// Returns the words about implementation number `i`, from 0, of those that are
// left out for *d, as wrong or refused, or, if `d` is NULL, for any op that was
// planned; NULL: there are no more. The book owns them, until the next proof.
const char *judge_left_out(const struct judge_book *b,
                           const struct kern_desc *d, unsigned i);

// Returns true unless a candidate for *d was wrong only once, or had no memory
// to run: then what was chosen instead is not to be kept for later starts.
bool judge_sure(const struct judge_book *b, const struct kern_desc *d);

// Keeps in the file, beside a plan for *d that is kept under `key`, which
// implementations were left out for it; writes nothing if there are none, now
// or in the file, and without a file. The caller has asked judge_sure.
// `version` is the library's.
void judge_keep_left_out(struct cuda_dev *dev, const struct kern_desc *d,
                         size_t version, uint64_t key);
// Notes what judge_keep_left_out kept under `key`, when the kept plan is used
// again: it asks about no other candidates, so judge_left_out would not know of
// them. Does nothing if something is known for *d, or with prove=0.
void judge_recall_left_out(struct cuda_dev *dev, const struct kern_desc *d,
                           size_t version, uint64_t key);

// An implementation of an op.
struct judge_candidate {
    // Enqueues it on `s`. SL_EINTERNAL, SL_ENOTSUP and SL_ENOMEM are refusals;
    // judge_try returns others.
    enum sl_err (*run)(void *arg, unsigned i, cudaStream_t s, void *const *io,
                       void *workspace);
    void *arg;
    unsigned i;
    const char *impl;  // for logs
    uint64_t identity; // hash of its settings: equal only for equal kernels
    size_t version;    // of its library
};

// What a candidate computed wrongly.
struct judge_fault {
    unsigned side, again; // numbers of output and run
    struct oracle_verdict verdict;
};

// The elements of one output that are compared.
struct judge_side {
    unsigned out; // index of io[]
    int64_t count;
    size_t at, want, bound, verdict; // places in the judge's memory
};

struct judge {
    struct cuda_dev *dev;
    struct kern_desc desc;
    size_t workspace_bytes; // of the hungriest candidate
    uint64_t host;          // hash of the op, the device and the driver
    struct kern_stream *stream;
    struct kern_mem mem; // empty: nothing was tried yet
    size_t place[KERN_IO], workspace;
    struct judge_side side[2];
    unsigned sides;
    struct judge_fault fault; // of the last candidate that was wrong
    char why[ANSWER_WHY];     // the same in words
};

// Makes a judge of the candidates for *d (copied), none of which wants more
// workspace than workspace_bytes, on a dev with a vendor (vendor.h), as the
// functions below want it; allocates nothing. Call judge_release in any case.
void judge_init(struct judge *j, struct cuda_dev *dev,
                const struct kern_desc *d, size_t workspace_bytes);
// Frees the judge's memory on the device and its stream. May be called again.
void judge_release(struct judge *j);

// Returns true if the candidate is known to be right, or if this dev was opened
// with prove=0. Runs nothing.
bool judge_trusts(const struct judge *j, const struct judge_candidate *c);

// Sets *right to whether the candidate is right, by what is known or by running
// it (it waits). One that is wrong is checked once more, in other memory; it is
// left out for good if it is wrong again, else for this process. *right is
// false, too, if its library refuses to run it, which is logged once: take the
// next; it is not asked again in this process. One that there is no room to
// check counts as right, with a warning, and is checked at the next start; with
// prove=0 any is right. Returns SL_OK; or, with *right undefined, SL_ENOMEM: no
// memory to note what was learned; SL_ELOST; another error of the candidate's
// run.
enum sl_err judge_try(bool *right, struct judge *j,
                      const struct judge_candidate *c);

// Fills *err with the text of `rc`, an error of judge_try, and returns `rc`.
enum sl_err judge_fail(const struct judge *j, enum sl_err rc,
                       struct sl_error *err);

// Returns how many elements of an output of shape *s are compared, and writes
// their numbers, some of them perhaps twice, to at[] unless it is NULL: a
// function of the shape, of `terms`, the length of the sum that an element is,
// and of the number of the device's multiprocessors.
int64_t judge_choose(int64_t *at, const struct kern_shape *s, int64_t terms,
                     int multiprocessors);

#endif
