// SPDX-License-Identifier: Apache-2.0
// trainer/ring/rank.h -- a rank's copy of a job's state.
//
// In all-reduce mode there is no psserver that keeps the parameters: each rank
// has the whole state and applies each round's average. The state is cut into
// the parts that psservers would hold as shards, with the same arithmetic and
// the same files (state/); all parts of a rank are at the same round, so one
// counted set is true of all of them.
//
// The tag of a state is (generation in which it came into place, rounds applied
// in the job). It changes when all of the new state is in place (R3): if
// rank_load or rank_receive fails, the old state stays under its old tag.
//
// Threads  the compute thread. rank_view_read: any, between rank_view_init and
//          the next change of the state, which its caller rules out.
// Memory   rank_release frees; while an image of a part is written the part
//          lives on. rank_receive and rank_load hold both states for a moment.
// Units    elements of the flat vector; bytes of a view.
// Errors   SL_ECORRUPT and SL_ENOENT name the file; SL_ESTATE: rows that have
//          counted different steps are never one state. `err` may be NULL;
//          SL_ENOMEM may leave it without text.
#ifndef TRAINER_RING_RANK_H
#define TRAINER_RING_RANK_H

#include "common/base/buf.h"
#include "common/base/fs.h"
#include "state/shard/update.h"

struct rank_away; // rank_away.c

struct rank {
    struct shard **parts; // by number, owned; NULL: no state. Their values lie
                          // one behind the other
    uint32_t count;
    uint64_t job, job_incarnation; // the job of the state
    struct wire_tag tag;           // (0, 0) without a state
    bool skipped;                  // its last round, if it was applied here
    // Set by rank_lend; owned. NULL: the state is in host memory.
    struct rank_away *away;
};

// The job and the folders that a state is made from; borrowed for a call.
struct rank_job {
    const Sluice__V1__JobOpen *open; // with pieces and a geometry
    uint64_t uid;
    struct fs *fs;
    const char *store; // folder of our files; NULL: none
    // Learning rates as callbacks have reduced them, or NULL.
    const struct rates *rates;
    // Weights that may be read, and a check for an early end (struct
    // snap_from).
    const struct roots *weights;
    bool (*stopped)(void *arg);
    void *arg;
};

// Makes the plans of all parts, each from the ShardSpec that a psserver would
// be sent for it, with the job's optimizer; `begin` names the sources of a
// start (NULL: none). `j` is read during the call. Sets *out, for
// rank_plans_free, and *count, at least 1. SL_EINVAL, SL_ENOMEM: they are
// untouched.
enum sl_err rank_plans(struct plan **out, uint32_t *count,
                       const struct rank_job *j,
                       const Sluice__V1__RingBegin *begin,
                       struct sl_error *err);
// Frees `count` plans and their array. NULL is allowed.
void rank_plans_free(struct plan *plans, uint32_t count);

// Frees the state, also one that is away; `r` has none then. No view of it is
// open. All zeroes is allowed.
void rank_release(struct rank *r);

// Returns true if there is a state, in host memory or away on a device.
static inline bool rank_has_state(const struct rank *r)
{
    return r->parts != NULL;
}

// Returns what all parts have counted. `r` has a state.
static inline const struct once *rank_once(const struct rank *r)
{
    return &r->parts[0]->once;
}

// Returns the parameters as one flat vector, valid as long as the state, which
// `r` must have. Each round changes it, but not while the state is on a device.
// The caller does not write to it.
float *rank_flat(const struct rank *r);

// Gives all parts a copy of `rates`, not NULL: the learning rates that
// callbacks have reduced. Does nothing without a state.
void rank_rates(struct rank *r, const struct rates *rates);

// Copies the parameters to `flat`, from the host or the device. `r` has a
// state. Returns SL_OK; SL_ELOST: the device lost it, and `flat` is undefined.
enum sl_err rank_values(const struct rank *r, float *flat,
                        struct sl_error *err);

// ---- the base of a generation

// Returns true if r has a state, and that is the one with the tag `base`.
bool rank_holds(const struct rank *r, struct wire_tag base);

// Makes r's state, which is the base, the state of this generation: its tag is
// (generation, rounds) from now on. `r` has a state.
void rank_keep(struct rank *r, uint64_t generation);

// Loads a base that no rank holds: the files of the cut that `begin` names,
// each in the folder that it says or in our own store; or, if the base is (0,
// 0), those of another job that this one was resumed from; or the seed values.
// On SL_OK the tag is (generation, the base's rounds). On failure the old state
// stays. Reads files, which may take long. SL_EINVAL also if the cut has not
// one file for each part; SL_ECANCELED: j->stopped ended it; SL_ENOMEM; and the
// errors above.
enum sl_err rank_load(struct rank *r, const struct rank_job *j,
                      const Sluice__V1__RingBegin *begin, struct sl_error *err);

// Fetches `bytes` bytes at `offset` of a view of the base, from a rank that
// holds it.
typedef enum sl_err (*rank_fetch_fn)(void *arg, uint64_t offset, size_t bytes,
                                     void *into, struct sl_error *err);
// Copies the whole base that `begin` names with `fetch(arg, ...)`, piece by
// piece in order, and puts it into place under the tag of this generation. On
// failure the old state stays: an error of `fetch`; SL_ECORRUPT: what came is
// no state of this job; SL_EINVAL (rank_plans), SL_ENOMEM. Waits as long as
// `fetch` does.
enum sl_err rank_receive(struct rank *r, const struct rank_job *j,
                         const Sluice__V1__RingBegin *begin,
                         rank_fetch_fn fetch, void *arg, struct sl_error *err);

// A view: a state as plain bytes, what it has counted and then the memory of
// its parts. The state must not change or go before rank_view_release.
struct rank_view {
    const struct rank *rank;
    struct buf head;
    uint64_t bytes; // length of the view
};
// Begins a view of the state of `r`, which it must have, for rank_view_read. If
// the state is on a device, rank_bring must be called before. Returns SL_OK;
// SL_ENOMEM: *v is zeroes.
enum sl_err rank_view_init(struct rank_view *v, const struct rank *r);
void rank_view_release(struct rank_view *v); // all zeroes is allowed

// Copies `bytes` bytes of the view, from `offset` on, to `into`. SL_OK;
// SL_ERANGE beyond the end; SL_ESTALE if rounds were applied on a device and
// rank_bring was not called since. `into` is undefined on failure.
enum sl_err rank_view_read(const struct rank_view *v, uint64_t offset,
                           size_t bytes, void *into);

// ---- rounds

// Applies one round to all parts: the average `g` (flat, finite; not read if
// the steps skip), and counts all its keys (update.h). The new parameters go to
// `fresh`, too, if it is not NULL. The tag's rounds rise by one. The skip of
// the first step stands for all. Fails only for memory, or if a device is lost
// (SL_ELOST), and then parts may be at different rounds: the state is given up,
// and its tag is (0, 0). If the state is away, `g` was given to the device
// before (resident_gradient), and `fresh` and `present` are NULL. `present`, or
// NULL: by variable, 0 where no contribution has a gradient. `r` has a state,
// and `count` is 1 or more.
enum sl_err rank_round(struct rank *r, const struct once_step *steps,
                       size_t count, const float *g, const float *present,
                       float *fresh, struct sl_error *err);

// Sets a bit in `bits` for each piece of a part's plan `p` that has no gradient
// (wire_absent), and clears the others: `present` has a number by variable, 0
// for those without; NULL: all have one. `bits` has space for one bit per
// piece. Returns how many bytes have to be sent; 0: all pieces have a gradient.
size_t rank_absent(uint8_t *bits, const struct plan *p, const float *present);

#define RANK_FORESEE_SPACE OPTIM_SLOTS_MAX
// Writes the first `elements` parameters to `out`, as rank_round with these
// arguments (and `present` NULL) would leave them; the state stays. `elements`
// is at most that of the state. `space` has room for RANK_FORESEE_SPACE vectors
// of as many elements; of `g` no more is read. `r` has a state. SL_ESTATE: the
// state is away; other errors of update_foresee. `out` is undefined on failure.
enum sl_err rank_foresee(struct rank *r, const struct once_step *steps,
                         size_t count, const float *g, uint64_t elements,
                         float *out, float *space, struct sl_error *err);

// Makes *out an image of one part at this instant, under the tag of the state,
// for shard_image_release; calls rank_bring_part before. SL_ERANGE: no such
// part; SL_EBUSY: an image of it exists already; SL_ELOST (rank_bring_part);
// SL_ENOMEM; others of shard_freeze_as. On failure *out owns nothing.
enum sl_err rank_freeze(struct rank *r, uint32_t part, struct shard_image *out,
                        struct sl_error *err);

// ---- a state that is away, on a device (worker/lease/rank_away.h)

// Copies one part's values and slots from the device to host memory, if these
// are behind what has been counted; the state stays away. Does nothing for a
// state in host memory. SL_ELOST: the device lost the state, and the part's
// memory here is still behind: no more rounds can be applied.
enum sl_err rank_bring_part(struct rank *r, uint32_t part,
                            struct sl_error *err);
// Calls rank_bring_part for all parts, up to the first failure.
enum sl_err rank_bring(struct rank *r, struct sl_error *err);

// Copies the state from the device to host memory, where it stays: later rounds
// are applied there. SL_ELOST: the state is lost and was released. Does nothing
// for a state in host memory.
enum sl_err rank_take_back(struct rank *r, struct sl_error *err);

#endif
