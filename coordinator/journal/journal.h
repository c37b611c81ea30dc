// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal.h -- decisions that survive a restart.
//
// What is here was decided; what is not, was not. Each function that writes is
// one transaction, durable when it returns SL_OK: WAL with synchronous=FULL
// (NORMAL may lose what was committed when the power fails). A write that fails
// is final, because a failed fsync has thrown the pages away: the journal then
// refuses everything, and the coordinator stops with exit code 1 rather than
// acknowledge it later; or, where only space was lacking, begins anew from what
// is committed when there is space again.
//
// What nobody is answered by (counters, blame) is queued: it is durable with
// the next write, or with journal_flush, in one commit for all of it.
//
// In it: the term; jobs with spec, state, facts of their data, layout and
// counters; per shard its psserver, its newest incarnation (I1) and the tag
// that the last cut names (K7); cuts as intent, published, aborted (K4, K6);
// evaluations; which queued jobs have had their turn; whom a closure took down;
// jobs that were deleted, so that a psserver that was away is sent it; the
// cluster's id, and numbers that only others know. No row per step or closure:
// the shards are the authority on what was counted.
//
// Threads  the loop.
// Memory   rows are borrowed: what a reader's callback gets holds until it
//          returns.
// Units    *_us since 1970 (wall clock, for people only); *_ms durations.
// Errors   SL_EIO or SL_ECORRUPT with SQLite's words: stop. SL_EUNAVAIL: no
//          space left. SL_ENOENT: no such row. SL_ENOTSUP: written by a newer
//          version.
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

// ":memory:" is allowed, for tests.
enum sl_err journal_open(struct journal **out, const char *path,
                         struct sl_error *err);
void journal_close(struct journal *j); // NULL is allowed

// The term in force: 0 in a new journal. The next one is above any that was
// seen (journal_cluster).
enum sl_err journal_term(struct journal *j, uint64_t *term,
                         struct sl_error *err);
enum sl_err journal_next_term(struct journal *j, uint64_t *term,
                              struct sl_error *err);

// The highest job number that was ever given, also to deleted jobs.
enum sl_err journal_last_job(struct journal *j, uint64_t *id,
                             struct sl_error *err);

// A write failed: nothing that the journal says is believed any more. It was
// for want of space: nothing of the write is there, so the journal can be
// opened again once there is some.
bool journal_failed(const struct journal *j);
bool journal_full(const struct journal *j);

// How long writes took until they were on the disk, since it was opened.
struct histogram;
const struct histogram *journal_commits(const struct journal *j);

// Which cluster this is; all zero in a new journal and in one of before.
struct journal_cluster {
    uint64_t id;        // in every hello
    uint64_t store;     // hash of the path of the store that bears the id
    uint64_t seen_term; // the newest that a member showed; 0: none above ours
    uint64_t key[4];    // of the tokens of jobs; zeros: there is none
    uint64_t required;  // 1: no call without a token, since the cluster began
};

enum sl_err journal_cluster(struct journal *j, struct journal_cluster *out,
                            struct sl_error *err);
enum sl_err journal_cluster_set(struct journal *j,
                                const struct journal_cluster *now,
                                struct sl_error *err);

// The highest number that this journal gave itself: journal_last_job without
// what was skipped above it.
enum sl_err journal_given_job(struct journal *j, uint64_t *id,
                              struct sl_error *err);

// I7: jobs first..last are not given to anybody: a newer journal gave them. The
// next job comes after them.
enum sl_err journal_jobs_skip(struct journal *j, uint64_t first, uint64_t last,
                              struct sl_error *err);
enum sl_err journal_job_skipped(struct journal *j, uint64_t job, bool *skipped,
                                struct sl_error *err);

struct journal_blob {
    const void *data;
    size_t bytes;
};

// ---- jobs

struct journal_facts {
    uint64_t train_samples, test_samples, train_hash, test_hash;
};

struct journal_counters {
    uint64_t closures_retried, workers_lost, psservers_lost, restarts;
    uint64_t elapsed_ms; // since it ran first
    uint64_t seen_us;    // the wall clock then; 0: it does not run
    // What was trained since the last evaluation, as far as workers told it.
    struct journal_trained {
        uint64_t samples, correct;
        double loss_sum;
        uint64_t steps, skipped; // kept: whether all of some were skipped
    } trained;
};

struct journal_job {
    uint64_t id, uid, incarnation;
    const char *name, *request_id, *reason;
    const char *tenant;         // added with it; not read
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

// Takes uid, incarnation, name, request_id, tenant, queued, state, reason,
// spec, resume and submitted_us of *job; *id is the new number. The caller has
// looked for the request_id before.
enum sl_err journal_job_add(struct journal *j, const struct journal_job *job,
                            uint64_t *id, struct sl_error *err);

// Whose it is; "" for nobody's, and for a job that there is not.
#define JOURNAL_TENANT 65 // bytes, with the 0
enum sl_err journal_job_tenant(struct journal *j, uint64_t id,
                               char out[JOURNAL_TENANT], struct sl_error *err);

// Of a job that was added as a queued one: it waits, until its turn has come.
enum journal_turn {
    JOURNAL_TURN_NONE, // it is not queued
    JOURNAL_TURN_WAITS,
    JOURNAL_TURN_CAME,
};
enum sl_err journal_job_turn(struct journal *j, uint64_t id,
                             enum journal_turn *out, struct sl_error *err);
enum sl_err journal_job_turn_came(struct journal *j, uint64_t id,
                                  struct sl_error *err);

// SL_ENOENT if no job came with this request id.
enum sl_err journal_job_by_request(struct journal *j, const char *request_id,
                                   uint64_t *id, struct sl_error *err);

enum sl_err journal_job_facts(struct journal *j, uint64_t id,
                              const struct journal_facts *facts,
                              struct sl_error *err);

// Writes and reads the names of a job's classes, a packed DataFacts that holds
// nothing else; nothing is appended to *out for a job that has none.
enum sl_err journal_job_classes(struct journal *j, uint64_t id,
                                struct journal_blob facts,
                                struct sl_error *err);
enum sl_err journal_job_classes_of(struct journal *j, uint64_t id,
                                   struct buf *out, struct sl_error *err);

// The layout, and a row per shard: names[s] is the psserver of shard s; "" of a
// part of a ring.
enum sl_err journal_job_place(struct journal *j, uint64_t id,
                              struct journal_blob layout,
                              const char *const *names, uint32_t shards,
                              struct sl_error *err);

// Queued.
enum sl_err journal_job_counters(struct journal *j, uint64_t id,
                                 const struct journal_counters *counters,
                                 struct sl_error *err);
enum sl_err journal_job_state(struct journal *j, uint64_t id, int state,
                              struct sl_error *err);

// When it was seen last: its clock then, and the wall's. Zeros: never, by this
// program. (What it ran under one of before is in its counters alone.)
enum sl_err journal_clock_read(struct journal *j, uint64_t id,
                               uint64_t *elapsed_ms, uint64_t *seen_us,
                               struct sl_error *err);

// A member that an admin has drained, by its role (as members number them) and
// name. `who` NULL: it is no more.
enum sl_err journal_drain(struct journal *j, int role, const char *name,
                          const char *who, const char *why,
                          struct sl_error *err);
typedef enum sl_err (*journal_drain_fn)(void *arg, int role, const char *name,
                                        const char *who, const char *why,
                                        struct sl_error *err);
enum sl_err journal_each_drain(struct journal *j, journal_drain_fn fn,
                               void *arg, struct sl_error *err);

// A pause that a client asked for.
enum journal_pause_state {
    JOURNAL_PAUSE_NONE,   // it goes on; what it lay still before is total_ms
    JOURNAL_PAUSE_WANTED, // a cut is made first
    JOURNAL_PAUSE_HOLDS,
};

#define JOURNAL_PAUSE_TEXT 256 // bytes, with the 0; texts are cut there

struct journal_pause {
    enum journal_pause_state state;
    char who[JOURNAL_PAUSE_TEXT], why[JOURNAL_PAUSE_TEXT];
    char note[JOURNAL_PAUSE_TEXT]; // what people should know of it
    uint64_t since_us;             // when it began to hold
    uint64_t total_ms;             // of pauses before
};

enum sl_err journal_pause_set(struct journal *j, uint64_t id,
                              const struct journal_pause *pause,
                              struct sl_error *err);
// All zeroes: there was none.
enum sl_err journal_pause_read(struct journal *j, uint64_t id,
                               struct journal_pause *out, struct sl_error *err);

// What was said of an ended job after its end.
enum sl_err journal_job_final(struct journal *j, uint64_t id,
                              struct journal_blob final, struct sl_error *err);

// A terminal state, with its reason, its last status and its counters.
enum sl_err journal_job_end(struct journal *j, uint64_t id, int state,
                            const char *reason, uint64_t ended_us,
                            struct journal_blob final,
                            const struct journal_counters *counters,
                            struct sl_error *err);

// Forgets the job and all that belongs to it; leaves a row per psserver that
// has to be notified, and the folder of its manifests. The rows of its shards,
// cuts, evaluations and blames, of which there may be many, are left to
// journal_sweep: they are nobody's.
enum sl_err journal_job_delete(struct journal *j, uint64_t id,
                               struct sl_error *err);

// Removes up to JOURNAL_SWEEP rows of deleted jobs, in one commit, also of
// those that a process before has deleted. Does nothing if there are none.
// Called once per tick.
#define JOURNAL_SWEEP 1000
enum sl_err journal_sweep(struct journal *j, struct sl_error *err);

// The psserver has deleted it, and is not notified again. Queued.
enum sl_err journal_deleted(struct journal *j, uint64_t job, uint64_t uid,
                            const char *psserver, struct sl_error *err);

// ---- shards

struct journal_incarnation {
    uint32_t shard;
    uint64_t incarnation;
};

// Commits new incarnations of a job's shards, all or none, before one of them
// is sent (I1). SL_EINTERNAL: one does not rise, or there is no such shard.
enum sl_err journal_shard_incarnations(struct journal *j, uint64_t job,
                                       const struct journal_incarnation *list,
                                       size_t count, struct sl_error *err);

// I1, R1: the next generation of a ring is the incarnation of all its parts,
// before anybody is asked to join it.
enum sl_err journal_ring_open(struct journal *j, uint64_t job,
                              uint64_t generation, struct sl_error *err);

// Contributions of a round, once they are settled; 0: not yet.
enum sl_err journal_ring_contributions(struct journal *j, uint64_t job,
                                       uint32_t contributions,
                                       struct sl_error *err);
enum sl_err journal_ring_read(struct journal *j, uint64_t job,
                              uint32_t *contributions, struct sl_error *err);

// Steps that ranks had applied and lost, in all generations; 0: none.
enum sl_err journal_ring_redone(struct journal *j, uint64_t job, uint64_t steps,
                                struct sl_error *err);
enum sl_err journal_ring_redone_read(struct journal *j, uint64_t job,
                                     uint64_t *steps, struct sl_error *err);

struct journal_shard {
    uint32_t shard;
    const char *psserver;
    uint64_t incarnation;
    struct wire_tag cut; // (0, 0): no cut names it
};

// ---- cuts

enum journal_cut_state {
    JOURNAL_CUT_INTENT,
    JOURNAL_CUT_PUBLISHED,
    JOURNAL_CUT_ABORTED,
    JOURNAL_CUT_DROPPED, // published once, collected since
};

struct journal_cut {
    uint64_t cut;
    enum journal_cut_state state;
    const char *path;
    uint32_t epochs;                // whole in every file
    uint64_t low;                   // durable watermark, in closures (C4)
    struct journal_blob checkpoint; // packed CheckpointsReply of this one
    struct journal_blob counts;     // packed JobStatus: shards with counts
};

// Rows of cuts that were dropped or aborted before go with it: a job keeps the
// rows of the cuts that it has, however many there were.
enum sl_err journal_cut_intent(struct journal *j, uint64_t job,
                               const struct journal_cut *cut,
                               struct sl_error *err);

// K4, K6. Published also writes the tags that the cut names to the shards.
enum sl_err journal_cut_publish(struct journal *j, uint64_t job, uint64_t cut,
                                const struct wire_tag *tags, uint32_t shards,
                                struct sl_error *err);
enum sl_err journal_cut_abort(struct journal *j, uint64_t job, uint64_t cut,
                              struct sl_error *err);
enum sl_err journal_cut_drop(struct journal *j, uint64_t job, uint64_t cut,
                             struct sl_error *err);

// Published cuts of which there is no row any more.
enum sl_err journal_cuts_past(struct journal *j, uint64_t job, uint64_t *count,
                              struct sl_error *err);

// Notes that a job is about to be loaded, and that it is. *times counts this
// one and those before it that nothing followed: the process ended meanwhile,
// without a word. A process that is killed leaves the note; it waits for no
// disk.
enum sl_err journal_loading(struct journal *j, uint64_t job, uint64_t *times,
                            struct sl_error *err);
enum sl_err journal_loaded(struct journal *j, uint64_t job,
                           struct sl_error *err);

// Once all is read: what intents would clear away (as journals have it that an
// older program wrote), and the space of a file that is mostly empty.
enum sl_err journal_tidy(struct journal *j, struct sl_error *err);

// ---- evaluations

struct journal_evaluation {
    uint32_t epoch; // whole ones by then
    uint64_t cut, samples;
    double loss, accuracy; // NAN: not known
    uint64_t steps; // counted by then; 0: an older version did not write it
    // Of what was trained since the evaluation before: of steps that were
    // applied. Means are NAN where there is none; and where those that were
    // skipped are more, `train_broken`, no callback takes them for a best.
    uint64_t train_samples;
    double train_loss, train_accuracy;
    bool train_broken; // these two are not kept
    bool not_finite;   // a value of the cut's parameters
    uint32_t metrics;  // bits: which of these there are
    double metric[SPEC_METRIC_COUNT];
};

// All rows in one transaction, with what callbacks made of them (D2): the
// packed CallbacksStatus; empty: the job has none.
enum sl_err journal_evaluations_add(struct journal *j, uint64_t job,
                                    const struct journal_evaluation *rows,
                                    size_t count, struct journal_blob callbacks,
                                    struct sl_error *err);

// Appends what they made last; nothing, if there was no evaluation yet.
enum sl_err journal_callbacks_read(struct journal *j, uint64_t job,
                                   struct buf *out, struct sl_error *err);

// ---- whom a closure took down (training closures only); queued

enum sl_err journal_blame(struct journal *j, uint64_t job, uint64_t closure,
                          uint64_t worker, struct sl_error *err);
enum sl_err journal_absolve(struct journal *j, uint64_t job, uint64_t closure,
                            struct sl_error *err);

// Commits what is queued. Called once per tick.
enum sl_err journal_flush(struct journal *j, struct sl_error *err);

// ---- reading, after a start: in order of their numbers. A callback that
// returns anything but SL_OK ends the walk with that.

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

// A deleted job on one psserver.
typedef enum sl_err (*journal_deleted_fn)(void *arg, uint64_t job, uint64_t uid,
                                          const char *psserver,
                                          struct sl_error *err);

// Jobs that have not ended, and those that a cut without an outcome is of.
enum sl_err journal_each_job(struct journal *j, journal_job_fn fn, void *arg,
                             struct sl_error *err);

// Those that have ended: of each only id, uid, state and name.
enum sl_err journal_each_ended(struct journal *j, journal_job_fn fn, void *arg,
                               struct sl_error *err);

// Finds the jobs of a list: numbers below `before`, the highest first, at most
// `most` of them; of that tenant and that name (NULL: of any). Costs what is
// found, and where a tenant and a name are asked for the tenant's jobs.
struct journal_list {
    uint64_t before;
    const char *tenant, *name;
};
enum sl_err journal_jobs_list(struct journal *j,
                              const struct journal_list *which, uint64_t *out,
                              size_t most, size_t *count, struct sl_error *err);

// One row, whatever its state; no callback if there is none.
enum sl_err journal_job_read(struct journal *j, uint64_t id, journal_job_fn fn,
                             void *arg, struct sl_error *err);

enum sl_err journal_each_shard(struct journal *j, uint64_t job,
                               journal_shard_fn fn, void *arg,
                               struct sl_error *err);
enum sl_err journal_each_cut(struct journal *j, uint64_t job, journal_cut_fn fn,
                             void *arg, struct sl_error *err);

// As above, but without checkpoint and counts.
enum sl_err journal_each_cut_path(struct journal *j, uint64_t job,
                                  journal_cut_fn fn, void *arg,
                                  struct sl_error *err);
enum sl_err journal_each_evaluation(struct journal *j, uint64_t job,
                                    journal_evaluation_fn fn, void *arg,
                                    struct sl_error *err);
enum sl_err journal_each_blame(struct journal *j, uint64_t job,
                               journal_blame_fn fn, void *arg,
                               struct sl_error *err);

// Those of one psserver; or those of one job.
enum sl_err journal_each_deleted(struct journal *j, const char *psserver,
                                 journal_deleted_fn fn, void *arg,
                                 struct sl_error *err);
enum sl_err journal_each_deleted_of(struct journal *j, uint64_t job,
                                    journal_deleted_fn fn, void *arg,
                                    struct sl_error *err);

#endif
