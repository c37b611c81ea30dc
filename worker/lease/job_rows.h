// SPDX-License-Identifier: Apache-2.0
// worker/lease/job_rows.h -- the layers of a model that have rows of sparse
// tables: what they read for a batch, and what the batch changes.
//
// A layer reads a column of ids. It gets one vector for each sample, the rows
// of the sample's bag combined, and gives back the gradient of this vector,
// which is that of each of these rows times the rows' weight in it.
//
//   job_rows_begin        a step begins (job_rows_again: another share of it);
//                         then, for each of its micro-batches,
//     job_rows_pull       before it: its rows, into the programs;
//     job_rows_meet       likewise, with the other members of a group;
//     job_rows_kept       likewise, those that it had before (A1)
//     job_rows_ahead      in it: asks for the rows of the next step
//     job_rows_take       after it: its gradients, out of the programs
//   job_rows_pack         sums, by shard: what the step's pushes have
//     job_rows_fill       what goes with one shard, into its sync_step
//
// A team has a program for each member's samples (step.h).
//
// Threads  the compute thread.
// Memory   job_rows_free. Bags are those of the program's batch, and borrowed
//          for the call. Space grows to that of the largest batch.
// Units    samples of a batch; ranges of the sync.
// Errors   as trainer/push/job_tables.h; `err` may be NULL.
#ifndef WORKER_LEASE_JOB_ROWS_H
#define WORKER_LEASE_JOB_ROWS_H

#include "proto/model.h"
#include "trainer/lease/hybrid_rows.h"
#include "worker/data/ids.h"
#include "worker/device/step.h"

struct job_rows;

// Sets *out to the rows' part of a job, for job_rows_free; to NULL if no layer
// has rows of a table. `spec` was checked, is that of `model`, and is borrowed
// until job_rows_free; `shards` is how many shards the job has. SL_EINVAL: the
// spec was not checked; SL_ENOMEM.
enum sl_err job_rows_new(struct job_rows **out, const Sluice__V1__JobSpec *spec,
                         const struct model *model, uint32_t shards,
                         struct sl_error *err);
// Returns what a member of a group needs of them; NULL for NULL, and for a job
// without groups. It lives as long as they do.
struct hybrid_rows *job_rows_group(struct job_rows *r);
// Frees them behind the sync that they pulled with; NULL is allowed.
void job_rows_free(struct job_rows *r);
// Returns the bytes of r's space for the rows of a batch, without those of its
// tables; 0 for NULL.
uint64_t job_rows_bytes(const struct job_rows *r);

// Which rows are pulled, and where from.
struct rows_from {
    struct sync *sync;
    uint32_t step; // of the closure that is open
    // For a cut, one per range, while no closure is open; NULL: the present
    // rows.
    const struct wire_tag *tags;
    struct gate *gate; // with tags
};
// Forgets the gradients of the step before, when no range of the sync is under
// way. NULL is allowed.
void job_rows_begin(struct job_rows *r);
// Pulls the rows of a batch, with one call for each shard (of a cut, for each
// table of it), and writes what the layers read. Rows that were asked for ahead
// are not pulled again. Called when no range of the sync is under way. Result
// and *err are those of sync_rows, or SYNC_FAILED.
enum sync_result job_rows_pull(struct job_rows *r, const struct rows_from *from,
                               const struct step_program *p,
                               const struct id_bag *bags, struct sl_error *err);
// Brings the rows of a batch as job_rows_pull does, with the other members of
// the group that computes step `s` (hybrid_rows_pull).
enum sl_err job_rows_meet(struct job_rows *r, struct hybrid_step *s,
                          const struct step_program *p,
                          const struct id_bag *bags, struct sl_error *err);
// Brings the rows of a batch as job_rows_meet does, to be used by job_rows_kept
// alone: nothing is written to programs.
enum sl_err job_rows_foresee(struct job_rows *r, struct hybrid_step *s,
                             const struct id_bag *bags, struct sl_error *err);
// Keeps the rows that job_rows_pull has brought last, for job_rows_kept.
// SL_ENOMEM.
enum sl_err job_rows_keep(struct job_rows *r, struct sl_error *err);
// Forgets what was kept. NULL is allowed.
void job_rows_unkeep(struct job_rows *r);
// Writes what the layers read for a batch, which has the ids of the step's
// micro-batch `at`, from the rows that were kept for that. SL_EINVAL: it has
// others.
enum sl_err job_rows_kept(struct job_rows *r, uint32_t at,
                          const struct step_program *p,
                          const struct id_bag *bags, struct sl_error *err);
// Begins another share of a step of a group: forgets the gradients that were
// taken, and adds one of zeros for each row that is kept (job_tables_again).
// Called when no range of the sync is under way; job_rows_kept and
// job_rows_take follow. SL_ENOMEM, SL_ERANGE: some may have been added.
enum sl_err job_rows_again(struct job_rows *r, struct sl_error *err);
// Asks for the present rows of a later step, which has `bags`, and waits for
// nothing; from->tags is NULL. Does nothing if some were asked for already, or
// if it fails: job_rows_pull pulls them then. Between job_rows_pull of a step
// and its end.
void job_rows_ahead(struct job_rows *r, const struct rows_from *from,
                    const struct id_bag *bags);
// Forgets that rows were asked for ahead; before a begin of the sync, which
// gives those calls up, and after its close. NULL is allowed.
void job_rows_forget(struct job_rows *r);
// Takes the gradients of the batch's ids, divided by the loss scale, out of the
// programs (program_row_grads), and adds them to the step's (job_tables_add).
// Once per batch. NULL is allowed.
enum sl_err job_rows_take(struct job_rows *r, const struct step_program *p,
                          const struct id_bag *bags, struct sl_error *err);
// Sums up the gradients of each id of the step, for pushes with these ranges,
// and clears *finite if a sum is not finite; else leaves it. Once per step.
// NULL is allowed.
enum sl_err job_rows_pack(struct job_rows *r, const struct elements *ranges,
                          bool *finite, struct sl_error *err);
// Returns the tables of the job; NULL if `r` is, as it has none then.
struct job_tables *job_rows_tables(const struct job_rows *r);
// Sets in *step what is pushed of rows with range `range`, after job_rows_pack.
// `r` may be NULL: nothing.
void job_rows_fill(const struct job_rows *r, uint32_t range,
                   struct sync_step *step);

#endif
