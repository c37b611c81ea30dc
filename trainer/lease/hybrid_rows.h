// SPDX-License-Identifier: Apache-2.0
// trainer/lease/hybrid_rows.h -- rows of sparse tables in a step that a group
// computes (hybrid.h).
//
// Psservers know the leader alone: it pulls the rows of all members' ids and
// spreads them, and pushes the sum of all members' gradients, so an id stands
// once in the step's push (T3). What the members say to each other for the k-th
// micro-batch of each, and at the end of the step:
//
//   counts     of distinct ids, by member and table            gathered
//   ids        of each member                                  gathered
//   whether the leader has the rows, and the rows              spread
//   ...
//   gradients  of all ids of the step                          summed
//
// Ids come in the order of their hashes on all members, so their rows and
// gradients are vectors of one layout.
//
// If the leader cannot pull the rows it says so, and all let go of the step
// (hybrid_step.dropped): it counts for nothing, and the generation goes on.
//
// Threads  the compute thread.
// Memory   hybrid_rows_free; tables are borrowed. Space grows to that of the
//          largest micro-batch of a group. Gradients are the group's until
//          hybrid_wait.
// Units    micro-batches; ids; elements.
// Errors   those of hybrid.h, and of job_tables.h. SL_ERANGE: the members have
//          more ids than can be pulled at once. `err` may be NULL.
#ifndef TRAINER_LEASE_HYBRID_ROWS_H
#define TRAINER_LEASE_HYBRID_ROWS_H

#include "trainer/lease/hybrid_step.h"
#include "trainer/push/job_tables.h"

struct hybrid_rows;

// The ids of a table that a micro-batch has, in any order; borrowed.
struct hybrid_ids {
    const uint64_t *ids;
    size_t count;
};

// Makes what a member needs for `tables` (not NULL), on `shards` shards; their
// rows travel as elements of type `wire`. SL_ENOMEM leaves *out as it was.
enum sl_err hybrid_rows_new(struct hybrid_rows **out, struct job_tables *tables,
                            uint32_t shards, enum wire_type wire,
                            struct sl_error *err);
// Frees it, when no step is under way; NULL is allowed.
void hybrid_rows_free(struct hybrid_rows *r);

// Returns the job's tables; NULL for NULL.
struct job_tables *hybrid_rows_tables(struct hybrid_rows *r);

// Forgets the gradients and the kept rows of the step before; the leader has
// waited for all ranges. NULL is allowed.
void hybrid_rows_begin(struct hybrid_rows *r);
// Keeps all rows that the group brings for the step from now on
// (job_tables_keep), those of other members, too. Before its first
// hybrid_rows_pull: a member that audits the step brings the rows of all
// micro-batches before it computes any share. NULL is allowed.
void hybrid_rows_keep(struct hybrid_rows *r);

// Brings the rows of our next micro-batch, with `mine` for each table (NULL: we
// have none left); hybrid_rows_copy hands them out. Counts it in s->met, and
// adds a gradient of zeros for each id of all members. The job has tables.
// Waits for all members. An error with s->dropped, here and in
// hybrid_rows_rest: the leader could not pull them, s->pulled of the leader
// says why; no sum is under way then. It is SL_ECANCELED, but on a leader with
// a failed pull, which returns the error of that.
enum sl_err hybrid_rows_pull(struct hybrid_step *s,
                             const struct hybrid_ids *mine,
                             struct sl_error *err);
// Copies rows to `rows`, dim elements for each of our ids of a table, in the
// order of mine[table]: after hybrid_rows_pull with these, and before the next.
void hybrid_rows_copy(const struct hybrid_rows *r, uint32_t table, float *rows);
// Takes part while other members have micro-batches left: when our last one has
// its rows, and before the first hybrid_whole. Does nothing without tables.
enum sl_err hybrid_rows_rest(struct hybrid_step *s, struct sl_error *err);

// Begins the sums of the gradients that members have added (job_tables_add):
// behind hybrid_whole of all ranges. Behind hybrid_tail they are those of the
// whole step, for job_tables_pack. Does nothing without tables; for a worker
// alone it only merges what was added (job_tables_merge).
enum sl_err hybrid_rows_sum(struct hybrid *h, struct sl_error *err);

#endif
