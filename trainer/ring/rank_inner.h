// SPDX-License-Identifier: Apache-2.0
// trainer/ring/rank_inner.h -- what rank.c shares with the files that bring a
// state into place.
//
// Threads  the compute thread.
// Memory   a set belongs to the caller until rank_set_place or rank_set_take.
// Errors   SL_ENOMEM, SL_EINVAL (plan_read). `err` may be NULL; SL_ENOMEM may
//          leave it without text.
#ifndef TRAINER_RING_RANK_INNER_H
#define TRAINER_RING_RANK_INNER_H

#include "trainer/ring/rank.h"

// Makes *count new parts with seed values, of which no step is counted, and
// sets *out to them. `begin`: names the sources of the values, or NULL. Outputs
// are untouched on failure.
enum sl_err rank_set_new(struct shard ***out, uint32_t *count,
                         const struct rank_job *j,
                         const Sluice__V1__RingBegin *begin,
                         struct sl_error *err);
// Frees a set that was not given to a rank. NULL is allowed.
void rank_set_free(struct shard **parts, uint32_t count);

// Makes the parts, which it takes over, the state of `r`, of that job and under
// that tag; frees the old state.
void rank_set_place(struct rank *r, struct shard **parts, uint32_t count,
                    uint64_t job, uint64_t job_incarnation,
                    struct wire_tag tag);

// Makes the parts the state of `r`, as rank_set_place does, for the job that
// `j` names.
void rank_set_take(struct rank *r, struct shard **parts, uint32_t count,
                   const struct rank_job *j, struct wire_tag tag);

// The calls to a state that is away (rank_away.c). A table, so that programs
// without devices need no code for them.
struct rank_away_ops {
    // Applies the round's average on the device. Not called for a round that
    // skips. Fails only if the device is lost (SL_ELOST) or for memory: then
    // the caller releases the state.
    enum sl_err (*apply)(struct rank *r, const struct once_step *steps,
                         struct sl_error *err);
    // Copies a part's values and slots to host memory, if these are behind.
    // SL_ELOST, here and below.
    enum sl_err (*bring)(struct rank *r, uint32_t part, struct sl_error *err);
    // Copies the parameters to `flat`.
    enum sl_err (*values)(const struct rank *r, float *flat,
                          struct sl_error *err);
    void (*free)(struct rank_away *a);
};

struct rank_away {
    const struct rank_away_ops *ops;
};

#endif
