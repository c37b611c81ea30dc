// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal.h -- decisions that survive a restart.
//
// A decision that is in the journal was made; one that is not, was not. Each
// function that writes is one transaction, durable when it returns SL_OK: WAL
// with synchronous=FULL (NORMAL may lose committed rows when the power fails).
// A write that fails is final, because a failed fsync has thrown the pages
// away: the journal then refuses every call, and the coordinator stops with
// exit code 1 rather than acknowledge the write later; or, where only space was
// lacking, begins anew from what is committed when there is space again.
//
// Rows that no answer depends on (counters, blame) are queued: they are durable
// with the next write, or with journal_flush, in one commit for all of them.
// A write that fails because no row fits it may have committed them. Without
// memory for the queue such a row is a write of its own. Reads do not see rows
// that are queued, but where it is said.
//
// It holds: the term; jobs with spec, state, facts of their data, layout and
// counters; per shard its psserver, its newest incarnation (I1) and the tag
// that the last cut names (K7); cuts as intent, published, aborted (K4, K6);
// evaluations; which queued jobs have had their turn; workers that a closure
// took down; deleted jobs, for psservers that were away; the cluster's id, and
// numbers that other journals gave. No row per step or closure: the shards are
// the authority on what was counted.
//
// Threads  the loop. Writes wait for the disk; queued rows do not.
// Memory   rows are borrowed: what a reader's callback gets holds until it
//          returns. Strings and blobs that are passed are borrowed for the
//          call. Callbacks are never NULL.
// Units    *_us since 1970 (wall clock, for people only); *_ms durations.
// Errors   SL_EIO or SL_ECORRUPT with SQLite's words: stop. SL_EUNAVAIL: no
//          space left. A read that SQLite fails, and a row that SQLite refuses
//          because its key is there already, are as final as a write that
//          fails: later calls are SL_EIO. SL_ENOENT: no such row. SL_ENOTSUP:
//          written by a newer version. A call that fails has written nothing
//          and leaves its outputs alone, but where it is said; `err` may be
//          NULL, and a string only where it is said. That a job has a row is
//          the caller's to know: writes do not check it, and a write to the row
//          of an unknown job or shard is SL_OK and changes nothing; what has a
//          row of its own (classes, a pause, a replica, evaluations, ..) is
//          written all the same. SL_ENOENT of a read has no text in *err.
#ifndef COORDINATOR_JOURNAL_JOURNAL_H
#define COORDINATOR_JOURNAL_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/status.h"
#include "proto/spec.h"
#include "proto/wire.h"

#define JOURNAL_SCHEMA 3 // 1: without jobs.resume; 2: without callbacks

struct journal;
struct journal_kind;

extern const struct journal_kind journal_kind_own; // of this page's rows

// Opens the journal at `path`, making the file if it is missing, and making or
// upgrading its tables; only its owner may read the file from then on, also one
// that was there. ":memory:" is allowed, for tests. Waits up to 10 s for the
// lock of another process. *out is for journal_close. Also SL_ENOMEM. After a
// failure *out is as it was, and a file that was made stays.
enum sl_err journal_open(struct journal **out, const char *path,
                         struct sl_error *err);

// Writes queued rows, unless a write failed before, and frees j; that they
// cannot be written is not told. NULL is allowed.
void journal_close(struct journal *j);

// Sets *term to the term in force, 0 in a new journal. SL_ECORRUPT: there is no
// term.
enum sl_err journal_term(struct journal *j, uint64_t *term,
                         struct sl_error *err);

// Writes the next term and sets *term to it: one above the higher of the term
// in force and the highest that was seen (journal_cluster).
enum sl_err journal_next_term(struct journal *j, uint64_t *term,
                              struct sl_error *err);

// Sets *id to the highest job number that was ever given, also to deleted jobs,
// or skipped; 0: none.
enum sl_err journal_last_job(struct journal *j, uint64_t *id,
                             struct sl_error *err);

// Returns true if a write or a read failed, so that the journal is not to be
// believed: calls that read or write are SL_EIO from then on, and only
// journal_close is of use.
bool journal_failed(const struct journal *j);

// Returns true if a write failed for want of space. Nothing of the write is in
// the file, and the journal can be opened again once there is space.
bool journal_full(const struct journal *j);

struct histogram;

// Returns how long each commit that succeeded took until it was on the disk, in
// microseconds of the real clock, since j was opened; j owns the histogram.
const struct histogram *journal_commits(const struct journal *j);

// The identity of the cluster; all zero in a new journal and in one of an older
// version.
struct journal_cluster {
    uint64_t id;        // id that every hello has to show
    uint64_t store;     // hash of the path of the store that bears the id
    uint64_t seen_term; // highest term that a member showed; 0: none above ours
    uint64_t key[4];    // key of the jobs' tokens; zeros: none
    uint64_t required;  // 1: no call without a token, since the cluster began
};

// Reads the identity of the cluster into *out.
enum sl_err journal_cluster(struct journal *j, struct journal_cluster *out,
                            struct sl_error *err);

// Writes all fields of the cluster's identity, in one transaction.
enum sl_err journal_cluster_set(struct journal *j,
                                const struct journal_cluster *now,
                                struct sl_error *err);

// Sets *id to the highest job number that this journal gave itself; unlike
// journal_last_job without numbers that were skipped above it. 0: none.
enum sl_err journal_given_job(struct journal *j, uint64_t *id,
                              struct sl_error *err);

// Skips job numbers first..last, both included, which a newer journal gave
// (I7). The next job comes after them. `first` was not skipped before: else the
// call fails the journal.
enum sl_err journal_jobs_skip(struct journal *j, uint64_t first, uint64_t last,
                              struct sl_error *err);

// Sets *skipped to true if the number `job` was skipped (journal_jobs_skip),
// else to false, also for a number that was never given.
enum sl_err journal_job_skipped(struct journal *j, uint64_t job, bool *skipped,
                                struct sl_error *err);

// Bytes of a column, borrowed.
struct journal_blob {
    const void *data;
    size_t bytes;
};

// ---- jobs

// Samples of a job's data sets, and hashes of names, sizes and shapes in them.
struct journal_facts {
    uint64_t train_samples, test_samples, train_hash, test_hash;
};

struct journal_counters {
    // events in the life of the job; `restarts` of the coordinator
    uint64_t closures_retried, workers_lost, psservers_lost, restarts;
    uint64_t elapsed_ms; // running time since its first start
    // the wall clock then; 0: it does not run. Not read with the job's row, but
    // by journal_clock_read
    uint64_t seen_us;
    // Sums of training since the last evaluation, as far as workers reported
    // them.
    struct journal_trained {
        uint64_t samples, correct;
        double loss_sum;
        // kept as one bit: every one of some steps was skipped
        uint64_t steps, skipped;
    } trained;
};

struct journal_job {
    uint64_t id, uid, incarnation;
    const char *name, *request_id, *reason;
    const char *tenant;         // written by journal_job_add; not read
    bool queued;                // likewise
    int state;                  // enum JobState of jobs.proto
    struct journal_blob spec;   // packed JobSpec, checked
    struct journal_blob layout; // packed CheckpointsReply: variables, pieces
    struct journal_blob final;  // packed JobStatus, of a job that has ended
    struct journal_blob resume; // packed ResumeSource; empty: from the seed
    bool has_facts;
    struct journal_facts facts;
    uint64_t submitted_us, ended_us;
    struct journal_counters counters;
};

// Adds a job and sets *id to its new number, above all that were given or
// skipped. Writes uid, incarnation, name, request_id, tenant, queued, state,
// reason, spec, resume and submitted_us of *job. The name may not be empty;
// request_id, tenant and reason may be NULL. Does not check whether the
// request_id is there already: the caller does (journal_job_by_request), for
// such a call fails the journal.
enum sl_err journal_job_add(struct journal *j, const struct journal_job *job,
                            uint64_t *id, struct sl_error *err);

#define JOURNAL_TENANT 65 // bytes of a tenant, with the 0

// Reads a job's tenant; "" for a job without one, and for an unknown job.
enum sl_err journal_job_tenant(struct journal *j, uint64_t id,
                               char out[JOURNAL_TENANT], struct sl_error *err);

// The turn of a job that was added as a queued one: it waits, until its turn
// has come.
enum journal_turn {
    JOURNAL_TURN_NONE, // it is not queued
    JOURNAL_TURN_WAITS,
    JOURNAL_TURN_CAME,
};

// Sets *out to the turn of a job; JOURNAL_TURN_NONE, with SL_OK, for one that
// was never queued or is not known. A turn that this version does not know
// becomes JOURNAL_TURN_CAME.
enum sl_err journal_job_turn(struct journal *j, uint64_t id,
                             enum journal_turn *out, struct sl_error *err);

// Writes that the turn of a queued job has come; changes nothing for a job that
// is not queued.
enum sl_err journal_job_turn_came(struct journal *j, uint64_t id,
                                  struct sl_error *err);

// Sets *id to the number of the job that came with this request id. SL_ENOENT:
// none did, or request_id is "" or NULL.
enum sl_err journal_job_by_request(struct journal *j, const char *request_id,
                                   uint64_t *id, struct sl_error *err);

// Writes the facts of a job's data, as its probe found them, in place of
// earlier ones; has_facts of its row is true then.
enum sl_err journal_job_facts(struct journal *j, uint64_t id,
                              const struct journal_facts *facts,
                              struct sl_error *err);

// Writes the names of a job's classes, a packed DataFacts that holds nothing
// else, in place of earlier ones.
enum sl_err journal_job_classes(struct journal *j, uint64_t id,
                                struct journal_blob facts,
                                struct sl_error *err);

// Appends the names of a job's classes to *out, as journal_job_classes wrote
// them; nothing for a job that has none. SL_ENOMEM.
enum sl_err journal_job_classes_of(struct journal *j, uint64_t id,
                                   struct buf *out, struct sl_error *err);

// Writes the layout of a job, and a row for each of its `shards` shards:
// names[s] is the psserver of shard s; "" for a part of a ring. To be called
// once for each job: a second call fails the journal.
enum sl_err journal_job_place(struct journal *j, uint64_t id,
                              struct journal_blob layout,
                              const char *const *names, uint32_t shards,
                              struct sl_error *err);

// Queues a job's counters for the next commit; earlier ones that still wait are
// replaced. A full queue is committed first. With counters->seen_us 0 what
// journal_clock_read reads stays. SL_EIO: a write failed before; errors of that
// commit.
enum sl_err journal_job_counters(struct journal *j, uint64_t id,
                                 const struct journal_counters *counters,
                                 struct sl_error *err);

// Writes the state of a job that goes on (enum JobState of jobs.proto);
// journal_job_end writes an end.
enum sl_err journal_job_state(struct journal *j, uint64_t id, int state,
                              struct sl_error *err);

// Reads when the job was last known to run: *elapsed_ms, its running time then,
// and *seen_us, the wall clock then; without counters that are still queued.
// Both are 0 if this version never wrote them (under an older one the running
// time is in the job's counters alone).
enum sl_err journal_clock_read(struct journal *j, uint64_t id,
                               uint64_t *elapsed_ms, uint64_t *seen_us,
                               struct sl_error *err);

// Writes that the member of this role (its number in enum member_role) and name
// is drained, for the reason `why`, in place of an earlier drain. `who` is the
// caller that drained it; NULL removes the drain, if there is one, and `why`,
// otherwise not NULL, is not read.
enum sl_err journal_drain(struct journal *j, int role, const char *name,
                          const char *who, const char *why,
                          struct sl_error *err);

// Receives one drain; its texts are not NULL and hold until the call returns.
// It may use the journal. Anything but SL_OK ends the walk, which returns that.
typedef enum sl_err (*journal_drain_fn)(void *arg, int role, const char *name,
                                        const char *who, const char *why,
                                        struct sl_error *err);

// Calls fn(arg, ...) for each drain, by role and name. Returns SL_OK, also if
// there is none; else the first other result of `fn`, or an error of the read.
enum sl_err journal_each_drain(struct journal *j, journal_drain_fn fn,
                               void *arg, struct sl_error *err);

// Writes what the suspect worker `name` contributed to a job, as a packed
// TaintedWork, in place of what is there of both.
enum sl_err journal_taint(struct journal *j, const char *name, uint64_t job,
                          struct journal_blob work, struct sl_error *err);

// Removes what journal_taint wrote of a worker, for all jobs; SL_OK also if
// there is nothing.
enum sl_err journal_untaint(struct journal *j, const char *name,
                            struct sl_error *err);

// Receives one row of journal_taint, which holds until the call returns. It may
// use the journal. Anything but SL_OK ends the walk with that.
typedef enum sl_err (*journal_taint_fn)(void *arg, struct journal_blob work,
                                        struct sl_error *err);

// Calls fn(arg, ...) for each row of journal_taint, by worker and job. Returns
// as journal_each_drain does.
enum sl_err journal_each_taint(struct journal *j, journal_taint_fn fn,
                               void *arg, struct sl_error *err);

// A pause that a client asked for.
enum journal_pause_state {
    JOURNAL_PAUSE_NONE,   // the job runs; total_ms has its pauses
    JOURNAL_PAUSE_WANTED, // a cut is to be made first
    JOURNAL_PAUSE_HOLDS,
};

#define JOURNAL_PAUSE_TEXT 256 // bytes, with the 0; texts are cut there

struct journal_pause {
    enum journal_pause_state state;
    char who[JOURNAL_PAUSE_TEXT], why[JOURNAL_PAUSE_TEXT];
    char note[JOURNAL_PAUSE_TEXT]; // a note for people
    uint64_t since_us;             // when it began to hold
    uint64_t total_ms;             // length of earlier pauses
};

// Writes a job's pause, in place of the one before.
enum sl_err journal_pause_set(struct journal *j, uint64_t id,
                              const struct journal_pause *pause,
                              struct sl_error *err);

// Reads a job's pause into *out; all zeroes: there was none. A state that this
// version does not know becomes JOURNAL_PAUSE_HOLDS.
enum sl_err journal_pause_read(struct journal *j, uint64_t id,
                               struct journal_pause *out, struct sl_error *err);

// Replaces the last status of an ended job, a packed JobStatus, as late reports
// changed it.
enum sl_err journal_job_final(struct journal *j, uint64_t id,
                              struct journal_blob final, struct sl_error *err);

// Ends a job: writes a terminal state, with its reason, its last status and its
// counters, in one commit. `reason` may be "". Errors of journal_job_counters.
enum sl_err journal_job_end(struct journal *j, uint64_t id, int state,
                            const char *reason, uint64_t ended_us,
                            struct journal_blob final,
                            const struct journal_counters *counters,
                            struct sl_error *err);

// Forgets the job and all that belongs to it, but for what journal_taint wrote;
// leaves a row per psserver that has to be notified (journal_each_deleted), and
// the folder of its manifests. The rows of its shards, cuts, evaluations and
// blames, of which there may be many, are left to journal_sweep: no job reads
// them. SL_OK also if there is no such job.
enum sl_err journal_job_delete(struct journal *j, uint64_t id,
                               struct sl_error *err);

#define JOURNAL_SWEEP 1000

// Removes up to JOURNAL_SWEEP rows of a deleted job (a cut counts for 250), in
// one commit, also of one that a process before has deleted. Does nothing if
// there are none: after a call that found none it does not read until the next
// journal_job_delete, and is SL_OK. Called once per tick.
enum sl_err journal_sweep(struct journal *j, struct sl_error *err);

// Queues that the psserver has deleted the job of this number and uid, so that
// it is not told to again once that is committed. Errors: as journal_blame.
enum sl_err journal_deleted(struct journal *j, uint64_t job, uint64_t uid,
                            const char *psserver, struct sl_error *err);

// ---- shards

// The new incarnation of one shard.
struct journal_incarnation {
    uint32_t shard;
    uint64_t incarnation;
};

// Commits new incarnations of a job's shards, all or none, before one of them
// is sent (I1). SL_EINTERNAL: one does not rise, or there is no such shard.
enum sl_err journal_shard_incarnations(struct journal *j, uint64_t job,
                                       const struct journal_incarnation *list,
                                       size_t count, struct sl_error *err);

// Commits that the shard has a replica on this psserver, which follows it by
// the feed of this number (P2), before either psserver is told; in place of the
// row of an earlier one.
enum sl_err journal_shard_replica(struct journal *j, uint64_t job,
                                  uint32_t shard, const char *psserver,
                                  uint64_t feed, struct sl_error *err);

// What becomes of one shard that has a replica.
struct journal_outcome {
    uint32_t shard;
    const char *owner; // psserver of the replica, which owns the shard now; its
                       // row stays (P4). NULL: the replica has left the set
};

// Commits what becomes of a job's shards with replicas, all or none, before any
// psserver is told (P3, P4).
enum sl_err journal_shard_outcomes(struct journal *j, uint64_t job,
                                   const struct journal_outcome *list,
                                   size_t count, struct sl_error *err);

// Commits that the shard lies on this psserver from now on, before either
// psserver is told (M2). A row of its replica stays.
enum sl_err journal_shard_move(struct journal *j, uint64_t job, uint32_t shard,
                               const char *psserver, struct sl_error *err);

// Writes `generation` as the next generation of a job's ring, which is the
// incarnation of all its parts (I1, R1); after journal_job_place. To be called
// before any worker is asked to join it. SL_EINTERNAL: no part has a lower
// one; nothing is written then.
enum sl_err journal_ring_open(struct journal *j, uint64_t job,
                              uint64_t generation, struct sl_error *err);

// Writes how many contributions a round of the job's ring has, once that is
// settled.
enum sl_err journal_ring_contributions(struct journal *j, uint64_t job,
                                       uint32_t contributions,
                                       struct sl_error *err);

// Sets *contributions to what journal_ring_contributions wrote; 0: it is not
// settled yet.
enum sl_err journal_ring_read(struct journal *j, uint64_t job,
                              uint32_t *contributions, struct sl_error *err);

// Writes how many steps ranks of the job had applied and lost, in all
// generations.
enum sl_err journal_ring_redone(struct journal *j, uint64_t job, uint64_t steps,
                                struct sl_error *err);

// Sets *steps to what journal_ring_redone wrote; 0: nothing was written.
enum sl_err journal_ring_redone_read(struct journal *j, uint64_t job,
                                     uint64_t *steps, struct sl_error *err);

struct journal_shard {
    uint32_t shard;
    const char *psserver; // "": it is a part of a ring
    uint64_t incarnation;
    struct wire_tag cut; // (0, 0): no cut names it
    // The psserver of its replica, or `psserver` itself, which was the replica
    // (P4), and the number of the feed; "": it has none.
    const char *replica;
    uint64_t feed;
};

// ---- cuts

enum journal_cut_state {
    JOURNAL_CUT_INTENT,
    JOURNAL_CUT_PUBLISHED,
    JOURNAL_CUT_ABORTED,
    JOURNAL_CUT_DROPPED, // published once, deleted since
};

struct journal_cut {
    uint64_t cut;
    enum journal_cut_state state;
    const char *path;
    uint32_t epochs;                // whole epochs in every file
    uint64_t low;                   // durable watermark, in closures (C4)
    struct journal_blob checkpoint; // packed CheckpointsReply of this cut
    struct journal_blob counts;     // packed JobStatus: shards with counts
};

// Writes the intent of a cut. Rows of older dropped or aborted cuts are deleted
// with it: a job keeps the rows of the cuts that it has, however many there
// were. The job has no row of this number yet; cut->path is not empty, and
// cut->state is not read.
enum sl_err journal_cut_intent(struct journal *j, uint64_t job,
                               const struct journal_cut *cut,
                               struct sl_error *err);

// Writes the outcome of a cut (K4, K6): published. tags[s] is the tag that the
// cut names for shard s of the `shards` shards of the job; journal_each_shard
// reads it. SL_ENOENT: there is no intent of this cut.
enum sl_err journal_cut_publish(struct journal *j, uint64_t job, uint64_t cut,
                                const struct wire_tag *tags, uint32_t shards,
                                struct sl_error *err);

// Writes the outcome of a cut: aborted. SL_ENOENT: there is no intent of it.
enum sl_err journal_cut_abort(struct journal *j, uint64_t job, uint64_t cut,
                              struct sl_error *err);

// Writes that a published cut was dropped: its files may go. SL_ENOENT: no
// published cut has this number.
enum sl_err journal_cut_drop(struct journal *j, uint64_t job, uint64_t cut,
                             struct sl_error *err);

// Sets *count to how many cuts of the job were published and have no row any
// more.
enum sl_err journal_cuts_past(struct journal *j, uint64_t job, uint64_t *count,
                              struct sl_error *err);

// Notes that a job is about to be loaded, and sets *times to how often that was
// noted in a row, this time included, without a journal_loaded: that often the
// process ended while it loaded the job. Waits for no disk (but for etcd, if
// the journal is there), but a process that is killed leaves the note. Queued
// rows are written with it, and are durable with the next write.
enum sl_err journal_loading(struct journal *j, uint64_t job, uint64_t *times,
                            struct sl_error *err);

// Removes the note of journal_loading, after the job was loaded; waits as that
// does. SL_OK also without a note.
enum sl_err journal_loaded(struct journal *j, uint64_t job,
                           struct sl_error *err);

// Deletes old rows of cuts, those that journal_cut_intent would delete and
// journals of older programs still have, and frees the space of a file that is
// mostly empty, if that can be: a failure to do so is no error. May take long.
// To be called once all is read.
enum sl_err journal_tidy(struct journal *j, struct sl_error *err);

// ---- evaluations

struct journal_evaluation {
    uint32_t epoch; // whole epochs by then
    uint64_t cut, samples;
    double loss, accuracy; // NAN: not known, as where `samples` is 0
    uint64_t steps; // steps counted by then; 0: written by an older version
    // Training since the evaluation before, over steps that were applied. Means
    // are NAN without any; and where more steps were skipped than applied,
    // `train_broken`, no callback takes them for a best.
    uint64_t train_samples;
    double train_loss, train_accuracy;
    bool train_broken; // this and the next field are not kept
    bool not_finite;   // some parameter of the cut is NaN or infinite
    uint32_t metrics;  // bits: which of `metric` are set
    double metric[SPEC_METRIC_COUNT];
};

// Adds all `count` rows in one transaction, with the callbacks' state after
// them (D2), a packed CallbacksStatus, in place of the one before; empty: the
// job has no callbacks, and a state that is there stays. A row takes the place
// of the job's evaluation of the same epoch and steps, with its metrics.
// `count` may be 0.
enum sl_err journal_evaluations_add(struct journal *j, uint64_t job,
                                    const struct journal_evaluation *rows,
                                    size_t count, struct journal_blob callbacks,
                                    struct sl_error *err);

// Appends the state that journal_evaluations_add wrote last, a packed
// CallbacksStatus, to *out; nothing if there is none.
enum sl_err journal_callbacks_read(struct journal *j, uint64_t job,
                                   struct buf *out, struct sl_error *err);

// ---- workers that a closure took down (training closures only); queued

// Queues that the closure took down `worker`, a number of witness.h; the same
// pair again changes nothing. A full queue is committed first. SL_EIO: a write
// failed before; errors of that commit.
enum sl_err journal_blame(struct journal *j, uint64_t job, uint64_t closure,
                          uint64_t worker, struct sl_error *err);

// Queues that all blame of the closure is forgotten. Errors: as journal_blame.
enum sl_err journal_absolve(struct journal *j, uint64_t job, uint64_t closure,
                            struct sl_error *err);

// Commits queued rows; does nothing if there are none, which is SL_OK also
// where the journal has failed. To be called once per tick. After a failure
// they stay queued.
enum sl_err journal_flush(struct journal *j, struct sl_error *err);

// ---- reading, after a start: in order of their numbers. A callback that
// returns anything but SL_OK ends the walk, which then returns that. It may use
// the journal.

// Receivers of one row of a kind each, borrowed for the call. Texts that were
// not written are "".
typedef enum sl_err (*journal_job_fn)(void *arg, const struct journal_job *row,
                                      struct sl_error *err);
typedef enum sl_err (*journal_shard_fn)(void *arg,
                                        const struct journal_shard *row,
                                        struct sl_error *err);
typedef enum sl_err (*journal_cut_fn)(void *arg, const struct journal_cut *row,
                                      struct sl_error *err);
typedef enum sl_err (*journal_evaluation_fn)(
    void *arg, const struct journal_evaluation *row, struct sl_error *err);
typedef enum sl_err (*journal_blame_fn)(void *arg, uint64_t closure,
                                        uint64_t worker, struct sl_error *err);

// Receives a deleted job that one psserver still has.
typedef enum sl_err (*journal_deleted_fn)(void *arg, uint64_t job, uint64_t uid,
                                          const char *psserver,
                                          struct sl_error *err);

// Calls fn(arg, row, err) for each job that has not ended or has a cut without
// an outcome. Writes queued rows first, so that the counters are the newest.
enum sl_err journal_each_job(struct journal *j, journal_job_fn fn, void *arg,
                             struct sl_error *err);

// Calls `fn` for each job that has ended, in any order; of *row only id, uid,
// state and name are set (other texts are NULL).
enum sl_err journal_each_ended(struct journal *j, journal_job_fn fn, void *arg,
                               struct sl_error *err);

// The jobs of a list: numbers below `before`, of that tenant and that name.
struct journal_list {
    uint64_t before;           // 0: no job
    const char *tenant, *name; // NULL: any; name "": any, too. No job is of
                               // the tenant ""
};

// Sets out[0 .. *count - 1] to the numbers of the jobs of the list `which`, the
// highest first; at most `most`, for which `out` has room. *count is 0 if there
// is none. A failure leaves both outputs undefined. Takes time for the jobs
// that are found; with both a tenant and a name, for all jobs of the tenant.
enum sl_err journal_jobs_list(struct journal *j,
                              const struct journal_list *which, uint64_t *out,
                              size_t most, size_t *count, struct sl_error *err);

// Calls `fn` once with the job's row, whatever its state; if there is none,
// does not call it and returns SL_OK. Writes queued rows first, as
// journal_each_job.
enum sl_err journal_job_read(struct journal *j, uint64_t id, journal_job_fn fn,
                             void *arg, struct sl_error *err);

// Calls `fn` for each of a job's shards, or of the parts of its ring.
enum sl_err journal_each_shard(struct journal *j, uint64_t job,
                               journal_shard_fn fn, void *arg,
                               struct sl_error *err);

// Calls `fn` for each of a job's cuts that has a row, whatever its state.
enum sl_err journal_each_cut(struct journal *j, uint64_t job, journal_cut_fn fn,
                             void *arg, struct sl_error *err);

// Calls `fn` for each of a job's cuts as journal_each_cut does, but without
// reading `checkpoint` and `counts`, which are empty.
enum sl_err journal_each_cut_path(struct journal *j, uint64_t job,
                                  journal_cut_fn fn, void *arg,
                                  struct sl_error *err);

// Calls `fn` for each of a job's evaluations, by epoch and steps.
enum sl_err journal_each_evaluation(struct journal *j, uint64_t job,
                                    journal_evaluation_fn fn, void *arg,
                                    struct sl_error *err);

// Calls `fn` for each blame of the job's closures that was not absolved, by
// closure and worker; without those that are still queued.
enum sl_err journal_each_blame(struct journal *j, uint64_t job,
                               journal_blame_fn fn, void *arg,
                               struct sl_error *err);

// Calls `fn` for each deleted job that this psserver still has; also for one
// for which journal_deleted is still queued.
enum sl_err journal_each_deleted(struct journal *j, const char *psserver,
                                 journal_deleted_fn fn, void *arg,
                                 struct sl_error *err);

// Calls `fn` for each psserver that still has this deleted job, in any order;
// also for one for which journal_deleted is still queued.
enum sl_err journal_each_deleted_of(struct journal *j, uint64_t job,
                                    journal_deleted_fn fn, void *arg,
                                    struct sl_error *err);

#endif
