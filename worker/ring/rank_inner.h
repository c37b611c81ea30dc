// SPDX-License-Identifier: Apache-2.0
// worker/ring/rank_inner.h -- what rank.c shares with the files that bring a
// state into place.
//
// Threads  the compute thread.
// Memory   a set belongs to the caller until rank_set_take.
#ifndef WORKER_RING_RANK_INNER_H
#define WORKER_RING_RANK_INNER_H

#include "worker/ring/rank.h"

// New parts of seed values, with nothing counted. Plans take the sources of
// `begin`, if it is there.
enum sl_err rank_set_new(struct shard ***out, uint32_t *count,
                         const struct rank_job *j,
                         const Sluice__V1__RingBegin *begin,
                         struct sl_error *err);
void rank_set_free(struct shard **parts, uint32_t count); // NULL is allowed

// The set becomes the state of that job, under that tag; the old state goes.
void rank_set_place(struct rank *r, struct shard **parts, uint32_t count,
                    uint64_t job, uint64_t job_incarnation,
                    struct wire_tag tag);

// The same of the job that `j` says.
void rank_set_take(struct rank *r, struct shard **parts, uint32_t count,
                   const struct rank_job *j, struct wire_tag tag);

// A state that is away: whoever took it there knows how it is reached
// (rank_away.c). By a table, so that programs without devices need no code of
// theirs.
struct rank_away_ops {
    // The round's average is applied there.
    enum sl_err (*apply)(struct rank *r, const struct once_step *steps,
                         struct sl_error *err);
    enum sl_err (*bring)(struct rank *r, uint32_t part, struct sl_error *err);
    enum sl_err (*values)(const struct rank *r, float *flat,
                          struct sl_error *err);
    void (*free)(struct rank_away *a);
};

struct rank_away {
    const struct rank_away_ops *ops;
};

#endif
