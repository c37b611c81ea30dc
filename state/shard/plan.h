// SPDX-License-Identifier: Apache-2.0
// state/shard/plan.h -- the settings of a shard, as plain values.
//
// Made of the ShardSpec that the coordinator sends and never changed
// afterwards. A shard is one contiguous range of the job's flat vector; its
// pieces lie in it one after another, as in every payload. Neighbouring
// pieces that are updated alike are one run, so that the optimizer is called
// per run and not per variable.
//
// Threads  read-only after plan_read: any.
// Memory   plan_release frees; no pointer into the message is kept.
// Units    elements are f32, counted in the shard unless it says otherwise.
// Errors   SL_EINVAL names the number of the spec that does not fit; *out is
//          untouched then. `err` may be NULL.
#ifndef STATE_SHARD_PLAN_H
#define STATE_SHARD_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/hash.h"
#include "plan/rate.h"
#include "plan/rates.h"
#include "plan/schedule.h"
#include "common/base/status.h"
#include "kernels/optim.h"
#include "proto/wire.h"
#include "state/rows/rowset.h"
#include "state/shard/coded.h"
#include "state/shard/stale.h"

// Limit of a shard's payload, which travels in one message.
#define PLAN_MAX_BYTES WIRE_PAYLOAD_BYTES

// A shard counts per epoch, and its report must fit a message.
#define PLAN_MAX_EPOCHS 65536

struct plan_piece {
    char *name;        // name of the variable; owned
    uint32_t variable; // number of the variable in the model
    unsigned rank;
    uint64_t shape[WIRE_RANK_MAX]; // of the piece: shape[0] is `rows`
    uint64_t first_row, rows;
    uint64_t first, elements;
    uint64_t offset;  // element of the variable where the piece begins
    uint64_t of_rows; // rows of the whole variable
    // Axis i of Keras' layout is our axis keras_order[i]; rank 0: same order.
    unsigned keras_rank;
    uint32_t keras_order[WIRE_RANK_MAX];
    bool moving;     // moving statistic: averaged, not optimized
    double momentum; // momentum of a moving statistic
    uint32_t group;  // index in plan.groups
    Sluice__V1__InitKind init;
    double init_a, init_b;
};

struct plan_run {
    uint64_t first, elements;
    bool moving;
    double momentum;
    uint32_t group; // index in plan.groups; 0 for a moving statistic
};

// Optimizer of a group of variables, and the factor of their learning rate.
struct plan_group {
    struct optim optim;
    double scale;
};

// Source of initial values: a snapshot of another job that holds rows of this
// shard, or (weights) a file of whole variables, of which only values are used,
// or of rows of one sparse table.
struct plan_source {
    bool weights;
    char *table;         // of weights: its name, owned; "": variables
    uint64_t most_bytes; // limit of a weights file; 0: none given
    char *folder, *file; // owned
    uint8_t sha256[SHA256_BYTES];
};

// A sparse table: what its rows on this shard are made with.
struct plan_table {
    char *name; // owned
    struct rowset_spec spec;
};

// Returns a run of this piece alone.
static inline struct plan_run plan_run_of(const struct plan_piece *piece)
{
    return (struct plan_run){.first = piece->first,
                             .elements = piece->elements,
                             .moving = piece->moving,
                             .momentum = piece->momentum,
                             .group = piece->group};
}

struct plan {
    uint64_t job, job_incarnation, job_uid, seed;
    uint32_t shard;
    char *job_name; // owned
    struct plan_piece *pieces;
    size_t piece_count;
    struct plan_run *runs;
    size_t run_count;
    uint64_t elements;
    struct optim optim;
    struct plan_group *groups; // group 0 is `optim`; all have its slots. Of
                               // muon, each has a twin behind them all, for
                               // variables that are no matrices
    size_t group_count;
    struct rate rate;
    struct rates rates; // rates that callbacks had reduced at its start
    struct stale_rule stale;
    uint32_t contributions; // slots of a round; 0: each step is an update
    bool decided;           // its rounds are those of a ring (shard_decide)
    enum wire_type down;    // code of what workers are sent; WIRE_F32: all
    struct coded coded;     // form of its coded payloads
    uint32_t open;    // most contributions of an open round; 0: there is none
    bool aged;        // older contributions to an open round weigh less
    bool directions;  // of contributions are averaged (mean.h), not elements
    unsigned moments; // vectors of a worker's optimizer that are kept
    enum wire_type moments_wire;
    struct schedule schedule;
    uint32_t accumulate;         // micro-batches of a step; at least 1
    struct plan_source *sources; // sources of its start, instead of the seed
    size_t source_count;
    uint32_t shards;           // of the job; 0: not said, and without tables
    uint32_t first_rows;       // shards before this one have no rows
    struct plan_table *tables; // all of the job, in the order of their numbers
    size_t table_count;
    char *tenant; // owned; pays for their rows; NULL: not known, or no tables
};

// Makes the plan of a ShardSpec, which is read during the call, for
// plan_release. Returns SL_OK; SL_EINVAL; SL_ERANGE: too many steps
// (schedule_check); SL_ENOMEM; *out is untouched then.
enum sl_err plan_read(struct plan *out, const Sluice__V1__ShardSpec *spec,
                      struct sl_error *err);
// Reads the sparse tables of a spec into a plan that has everything else; for
// plan_read (plan_tables.c). Returns SL_OK; SL_EINVAL names the table;
// SL_ENOMEM. After a failure *p has some of it, for plan_release.
enum sl_err plan_read_tables(struct plan *p, const Sluice__V1__ShardSpec *spec,
                             struct sl_error *err);
// Frees the tables of a plan and its tenant, and leaves the pointers; for
// plan_release.
void plan_release_tables(struct plan *p);
// Sets *out to a list of reduced rates, the first RATES_MAX of `steps`; those
// beyond are not looked at. Returns SL_OK; SL_EINVAL, with *out untouched:
// their closures do not rise, or a rate is negative or not finite. `steps` may
// be NULL if `count` is 0.
enum sl_err plan_rates(struct rates *out, Sluice__V1__RateStep *const *steps,
                       size_t count, struct sl_error *err);
// Frees what the plan owns; it is all zeroes then. All zeroes is allowed.
void plan_release(struct plan *p);

// Returns the piece that holds an element of the shard, which is below
// p->elements.
const struct plan_piece *plan_piece_of(const struct plan *p, uint64_t element);

// Returns the number of micro-batches in a step of `samples` samples, from 1
// (also for 0 samples) to p->accumulate. The last one may be short.
uint32_t plan_micro_batches(const struct plan *p, uint64_t samples);

// Writes the initial values of all p->elements elements: a function of (seed,
// variable, element of the variable), so the same for every number of shards.
// Returns SL_OK; SL_ENOMEM, after some: an orthogonal matrix found no memory.
enum sl_err plan_seed(const struct plan *p, float *values);

// Returns the bytes of the values in memory, f32.
static inline size_t plan_values_bytes(const struct plan *p)
{
    return p->elements * sizeof(float);
}

// Returns the bytes of a payload of this type, which is no code.
static inline size_t plan_wire_bytes(const struct plan *p, enum wire_type type)
{
    return p->elements * wire_type_bytes(type);
}

#endif
