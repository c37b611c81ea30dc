// SPDX-License-Identifier: Apache-2.0
// trainer/push/job_tables.h -- the sparse tables of a job, as a program's step
// uses them: rows that it pulls, gradients of rows that it pushes.
//
//   job_tables_begin          a step begins
//     job_tables_forget       as often as wanted, and so is what follows it:
//       job_tables_want       whose rows; once for each table
//       job_tables_ask        begins to pull them, ahead; may be left out
//       job_tables_pull       pulls them
//         job_tables_rows     of one table, in the order of the ids
//         job_tables_take     the same, if the step before has asked for them
//     job_tables_add          gradients of rows; as often as wanted
//   job_tables_merge        sums, to be added to those of others; may be left
//                           out
//   job_tables_pack           sums, by shard: what the step's pushes have
//     job_tables_fill         of one shard, into its sync_step
//
// A gradient is the sum over all that was added for its id (T3), in the order
// in which it was added.
//
// Threads  the compute thread.
// Memory   what is pushed and pulled lies here, where calls that are under way
//          read and write it: what is pushed until job_tables_begin, which
//          therefore follows the wait for all ranges; what is pulled until
//          job_tables_forget. All is freed behind the sync.
// Units    rows, elements; _bytes.
// Errors   SL_ERANGE: more than SYNC_ROWS_BYTES for one shard, unless said
//          otherwise; the text names a table. SL_ENOMEM. What was added or
//          wanted before is as it was, unless said otherwise. `err` may be
//          NULL.
#ifndef TRAINER_PUSH_JOB_TABLES_H
#define TRAINER_PUSH_JOB_TABLES_H

#include "plan/sketch.h"
#include "proto/spec.h"
#include "trainer/push/sync.h"

struct job_tables;

// Makes the tables of a job's model, on `shards` shards; *out is NULL if it has
// none. `model` has been checked, and is borrowed until job_tables_free.
// SL_EINVAL: it is of another version, and has a table without name, dimension
// or buckets, or of too large a dimension; SL_ENOMEM. *out is untouched then.
enum sl_err job_tables_new(struct job_tables **out,
                           const Sluice__V1__ModelSpec *model, uint32_t shards,
                           struct sl_error *err);
// Frees all of them; NULL is allowed.
void job_tables_free(struct job_tables *t);

// Returns the number of tables; 0 if t is NULL.
uint32_t job_tables_count(const struct job_tables *t);
// Returns the name of table number `table`, which must exist.
const char *job_tables_name(const struct job_tables *t, uint32_t table);
// Returns the dimension of table number `table`, which must exist.
uint32_t job_tables_dim(const struct job_tables *t, uint32_t table);

// Begins a step: forgets the gradients that were added for the one before. NULL
// is allowed.
void job_tables_begin(struct job_tables *t);

// Forgets which rows are wanted, and what was pulled. No pull may be under way:
// job_tables_pull has returned, or the sync's begin or close.
void job_tables_forget(struct job_tables *t);
// Adds the rows of n ids of a table, 1 to UINT32_MAX, in any order, to those
// that are wanted; each table once, tables in ascending order. They travel as
// elements of type `wire`: the job's, or WIRE_F32 for a cut. Returns SL_OK;
// SL_ERANGE or SL_ENOMEM: none of this table are wanted, and its list is lost
// (job_tables_rows and the like are not called for it); of others what was
// wanted before still is.
enum sl_err job_tables_want(struct job_tables *t, uint32_t table, size_t n,
                            const uint64_t *ids, enum wire_type wire,
                            struct sl_error *err);
// Begins to pull the wanted rows as they are now, and does not wait (sync.h,
// ask_rows).
void job_tables_ask(struct job_tables *t, struct sync *sync);
// Pulls the wanted rows of all tables, or ends the pull that job_tables_ask
// began; waits. Returns the result of sync_rows, and sets *err as that does.
enum sync_result job_tables_pull(struct job_tables *t, struct sync *sync,
                                 struct sl_error *err);
// Pulls the wanted rows as they are in a cut: tags[i] is the tag of shard i. No
// closure is open at the sync. Waits, until `gate` closes. Returns as
// job_tables_pull does.
enum sync_result job_tables_pull_cut(struct job_tables *t, struct sync *sync,
                                     const struct wire_tag *tags,
                                     struct gate *gate, struct sl_error *err);
// Copies the rows of a table, which were wanted and pulled, to `rows`: dim
// elements for each id, in the order of the ids.
void job_tables_rows(const struct job_tables *t, uint32_t table, float *rows);

// Copies the rows of a table as job_tables_rows does and returns true, if the
// step before has asked for those of these n ids in this order
// (job_tables_ask); once for each time that they were asked for. Else returns
// false. Call it after job_tables_pull has returned SYNC_OK: whether they have
// come is not checked.
bool job_tables_take(struct job_tables *t, uint32_t table, size_t n,
                     const uint64_t *ids, float *rows);

// Returns the rows of a table that are wanted, each once and by rising hash of
// their ids, as *elements elements; they are written by a pull, or by the
// caller, which has them from another worker. Valid from job_tables_want of the
// table to the next one of it.
float *job_tables_wanted(struct job_tables *t, uint32_t table,
                         size_t *elements);
// Copies rows as job_tables_rows does, of the ids at places [first, first + n)
// of the list of job_tables_want alone; the first goes to `rows`.
void job_tables_part(const struct job_tables *t, uint32_t table, size_t first,
                     size_t n, float *rows);

// Copies the gradients of n rows, n * dim elements, and their ids, to be pushed
// with the step. SL_ERANGE, here and in job_tables_add_wanted: more than
// UINT32_MAX of a table in one step.
enum sl_err job_tables_add(struct job_tables *t, uint32_t table, size_t n,
                           const uint64_t *ids, const float *grads,
                           struct sl_error *err);

// Adds a gradient of zeros for each id of the last job_tables_want of a table,
// each once.
enum sl_err job_tables_add_wanted(struct job_tables *t, uint32_t table,
                                  struct sl_error *err);
// Replaces what was added for a table by one sum for each id, and sets *sums to
// them, by rising hash of the ids: *elements elements, which the caller may
// change until job_tables_add, job_tables_pack or job_tables_begin. Without any
// *elements is 0, and *sums may be NULL.
enum sl_err job_tables_merge(struct job_tables *t, uint32_t table, float **sums,
                             size_t *elements, struct sl_error *err);

// Adds up what was added, as elements of type `wire`. `ranges` are the shards'
// parts of the dense gradient, which travel in the same message, as `dense`.
// Once per step, before job_tables_fill. After an error nothing is packed. `t`
// NULL: does nothing, SL_OK.
enum sl_err job_tables_pack(struct job_tables *t, enum wire_type wire,
                            enum wire_type dense, const struct elements *ranges,
                            struct sl_error *err);

// Sets in *step what is pushed of rows with range `shard`, after
// job_tables_pack. Returns true, also if `t` is NULL; false if one of the
// gradients is not finite.
bool job_tables_fill(const struct job_tables *t, uint32_t shard,
                     struct sync_step *step);

// Returns true if all gradients of the step are finite, after job_tables_pack.
// NULL is allowed.
bool job_tables_finite(const struct job_tables *t);

// ---- audited steps (A1)

// Keeps the rows of all tables that are wanted, as those of the next
// micro-batch of the step: after a pull, or where job_tables_wanted was
// written. SL_ENOMEM: call job_tables_unkeep, as the micro-batch is kept in
// part.
enum sl_err job_tables_keep(struct job_tables *t, struct sl_error *err);
// Forgets what was kept; NULL is allowed.
void job_tables_unkeep(struct job_tables *t);
// Copies rows as job_tables_rows does, of n ids of a micro-batch that was kept,
// from 0 on. SL_EINVAL: it was not kept, or had no row of one of them; `rows`
// is undefined then.
enum sl_err job_tables_kept_rows(const struct job_tables *t, uint32_t at,
                                 uint32_t table, size_t n, const uint64_t *ids,
                                 float *rows, struct sl_error *err);
// Forgets the gradients that were added, and adds one of zeros for each row
// that is kept, as job_tables_add_wanted does: a member of a group computes
// another share from these rows. SL_ENOMEM or SL_ERANGE, as that: some may have
// been added.
enum sl_err job_tables_again(struct job_tables *t, struct sl_error *err);

// Returns a digest of `before`, which is the digest of all else that a gradient
// depends on, and of the rows that are kept; without kept rows, or for `t`
// NULL, `before` itself.
uint64_t job_tables_inputs(const struct job_tables *t, uint64_t before);
// Returns a digest, not 0, of `before`, which is that of the dense gradient,
// and of all that job_tables_pack has made. If `t` is NULL: `before`, or 1 if
// that is 0.
uint64_t job_tables_output(const struct job_tables *t, uint64_t before);
// Adds to the sketch *s, of this `seed` (sketch_seed), all gradients of rows of
// the step, as elements from number `first` on: those that were added, in that
// order, or the sums of job_tables_merge, table by table. `t` may be NULL:
// none.
void job_tables_sketch(const struct job_tables *t, struct sketch *s,
                       uint64_t seed, uint64_t first);

#endif
