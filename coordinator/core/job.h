// SPDX-License-Identifier: Apache-2.0
// coordinator/core/job.h -- one job: its spec, its state, and all that is known
// of it.
//
// The states are those of jobs.proto. An ended job keeps its last status, its
// shards and its cuts; what only a running one needs is released
// (job_release_work). Soon only a record is left of it (past_jobs.h).
//
// Threads  the loop.
// Memory   job_free frees all. Members point at jobs only through leases and
//          `opened`, which end_job and the coordinator clear first. No pointer
//          is NULL but where it is said. What is returned is the job's, or a
//          literal.
// Units    *_ms monotonic, *_us wall clock. A `shard` is below job->shards, and
//          so of a placed job.
#ifndef COORDINATOR_CORE_JOB_H
#define COORDINATOR_CORE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/history.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "coordinator/core/leases/bad.h"
#include "coordinator/core/recovery/behind.h"
#include "coordinator/core/modes/copies.h"
#include "coordinator/core/cuts/cuts.h"
#include "coordinator/core/leases/doubts.h"
#include "coordinator/core/leases/guard.h"
#include "coordinator/core/cuts/evaluations.h"
#include "coordinator/core/figures.h"
#include "coordinator/core/job_queue.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/modes/mode_sync.h"
#include "coordinator/core/cuts/monitor.h"
#include "coordinator/core/leases/offers.h"
#include "coordinator/core/leases/paces.h"
#include "coordinator/core/pause.h"
#include "coordinator/core/quotas.h"
#include "coordinator/core/leases/recount.h"
#include "coordinator/core/leases/reports.h"
#include "coordinator/core/modes/rings.h"
#include "coordinator/core/leases/serve.h"
#include "coordinator/core/shards/shards.h"
#include "coordinator/core/leases/suspects.h"
#include "coordinator/rules/callbacks.h"
#include "coordinator/rules/cut.h"
#include "coordinator/rules/evaluation.h"
#include "coordinator/journal/journal.h"
#include "coordinator/rules/meeting.h"
#include "coordinator/rules/meter.h"
#include "coordinator/rules/pace.h"
#include "coordinator/rules/group.h"
#include "coordinator/rules/ring_results.h"
#include "coordinator/rules/work.h"
#include "proto/wire.h"

struct mode;

typedef unsigned long long ull; // the type that %llu prints

// Adds an event to the history (HISTORY): the job's number and uid, then what
// `format`, a literal that is "" or begins with a space, makes of the other
// arguments. `job` is evaluated twice.
#define JOB_HISTORY(job, event, format, ...)                                   \
    HISTORY(event, "job=%llu uid=%llx" format, (ull)(job)->id,                 \
            (ull)(job)->uid, ##__VA_ARGS__)

enum job_state { // values as in JobState
    // waits for the facts of its data, its turn, psservers, or shards to load
    JOB_PLACING = 1,
    JOB_RUNNING,   // closures are issued while every shard is served
    JOB_FINISHING, // all is counted: waits for its cut, and evaluations
    JOB_FINISHED,  // this and what follows: ended, for good
    JOB_FAILED,
    JOB_STOPPED,
    JOB_STATES,
};

// The states that may follow each state (moves.h).
extern const unsigned job_moves[JOB_STATES];

// Warnings to people about a job that goes on all the same.
enum job_warning {
    JOB_WARN_METRICS,    // a worker reports impossible metrics
    JOB_WARN_VALUES,     // parameters are not finite
    JOB_WARN_EVALUATION, // the last evaluation failed
    JOB_WARN_DATA,       // a worker reports against the job or its data
    JOB_WARN_SAMPLE,     // a sample is not finite
    JOB_WARN_BAD,        // samples cannot be read, and are passed over
    // no worker gets on, as one cannot reach a psserver; or ranks cannot sum
    JOB_WARN_REACH,
    JOB_WARN_MEMORY,     // a psserver has less memory than its shards need
    JOB_WARN_KERNELS,    // two workers compute it with different kernels
    JOB_WARN_FULL,       // a full table takes rows away for new ones
    JOB_WARN_UNADMITTED, // most gradients of a table change no row
    JOB_WARNINGS,
};

// What a table's shards have done since they were loaded.
struct table_done {
    uint64_t evicted; // rows that gave their place to new ones
    uint64_t gradients, unadmitted;
    uint32_t shards; // that have reported the table
};

// The last look at a job's tables, and when warnings were told.
struct table_looks {
    struct table_done *done; // owned; by table; NULL: there was no look
    uint64_t looked_ms, full_told_ms, unadmitted_told_ms;
};

// The end of a job; all zeroes before it.
struct job_end {
    uint64_t us;                   // when it ended, by the wall clock,
    uint64_t ms;                   // and monotonic
    char *reason;                  // owned; NULL: none, or no memory for it
    Sluice__V1__JobStatus *status; // the last one; owned
    bool changed;                  // the journal has an older `status`
};

// A worker's part in a job: the value of member.opened. The first two are of
// the messages that it was sent.
struct opened {
    bool placed; // JobOpen had layout and facts; else it was before the probe
    uint64_t map_version; // version of the last map sent
    uint64_t left_out;    // LeaseProgress.left_out_set; 0: not said yet
    struct pace pace;     // of its steps, in mode local
};

// All files read it. The files that change a group of fields are named above
// it, and tests/house/owners.py checks that; job.c makes and load.c loads the
// struct.
struct job {
    struct list_node on_active; // link in coord.jobs.active or .ending

    // Its identity and spec. Changed by: submit, unreadable.
    uint64_t id, uid, incarnation; // the uid is random (ShardSpec.job_uid)
    char id_text[24];              // "j-7"
    char *name, *request_id;
    Sluice__V1__JobSpec *spec;
    // Its start instead of the seed; owned, one of them at most.
    Sluice__V1__ResumeSource *resume; // a cut
    // Values alone: its `weights`, its `tables`, or both.
    Sluice__V1__ResumeSource *weights;
    const struct mode *mode; // the row of train.mode
    bool external;           // its gradients are computed by programs of users
    uint32_t edition;        // edition of the layers that its workers must know
    uint64_t submitted_us;

    // Its state. Changed by: advance, end_job.
    enum job_state state;
    // start of its running clock; 0: the clock stands
    uint64_t running_since_ms;

    // Its end. Changed by: end_job, status_final, unreadable.
    struct job_end end;

    // Its rows cannot be read: it counts as ended. Changed by: unreadable.
    bool unreadable;

    // Ended, and read from the journal for one answer. Changed by: past_jobs.
    bool lent;

    // Whether a member shows more of it than the journal knows. Changed by:
    // behind.
    struct job_behind behind;

    // Its place in a queue. Changed by: job_queue.
    struct job_queue queue;

    // What quotas count of it until it is placed. Changed by: quotas.
    struct job_measured measured;

    // Its shards, once it is placed. Changed by: shards, place, publish, send,
    // rings, behind, recount, monitor, memory, mode_sync, mode_open, replicas,
    // move.
    struct job_shards shards;

    // Its map. Changed by: shards, submit, behind.
    struct job_map map;

    // Its closures in work. Changed by: leases, coord, monitor, mode_sync.
    struct job_leases leases;

    // Where the next one is looked for. Changed by: offers.
    struct job_offers offers;

    // Whether it still has one in this pass. Changed by: serve.
    struct job_pass pass;

    // Copies of slots, in sync mode. Changed by: leases, copies.
    struct job_copies copies;

    // Shards that are asked for their counted sets. Changed by: recount.
    struct job_recount recount;

    // Results of audited rounds, and what workers contributed. Changed by:
    // suspects, tainted.
    struct job_audit audit;

    // What contributions changed, in mode local; owned, NULL: nothing is known.
    // Changed by: guard.
    struct changes *guard;

    // Results of audited rounds that are not counted yet, in allreduce. Changed
    // by: ring_audit, rings.
    struct ring_results results;

    // Times of its rounds, in sync mode. Changed by: mode_sync.
    struct job_sync sync;

    // Closures of its contributions, in local mode with a quorum. Changed by:
    // mode_open, paces.
    struct job_paces paces;

    // When its open rounds are ended, in local mode with a quorum. Changed by:
    // mode_open.
    struct meeting meeting[FRAGMENTS_MOST]; // by fragment

    // Reports of workers. Changed by: reports, stall, rings.
    struct job_reports reports;

    // Its ring, in allreduce mode. Changed by: rings, mode_allreduce.
    struct ring ring;
    struct job_rounds rounds;

    // Its groups, in hybrid mode. Changed by: groups.
    struct groups groups;

    // Its cuts, and clients' wishes for one. Changed by: cuts, publish,
    // advance, calls.
    struct job_cuts cuts;

    // A client has paused it, or the coordinator holds it (memory.h). Changed
    // by: pause, end_job.
    struct job_pause pause;

    // Its evaluations. Changed by: evaluations.
    struct job_evaluations evaluations;

    // Its callbacks. Changed by: monitor, rings.
    struct job_monitor monitor;

    // The most that it had counted in this term. Changed by: figures.
    struct job_figured figured;

    // The newest warning of each kind; owned, NULL: none. Changed by: jobs.
    char *warnings[JOB_WARNINGS];

    // The event of skipped updates was told in this term. Changed by: skipped.
    bool skips_told;

    // What its tables had done by the last look at them. Changed by:
    // table_warnings.
    struct table_looks tables;

    // When its curve was last sampled. Changed by: job_curves.
    uint64_t sampled_ms;

    // Samples that cannot be read. Changed by: bad.
    struct job_bad bad;

    // Other data that workers found. Changed by: doubts.
    struct job_doubts doubts;

    // Numbers. Changed by: jobs, advance, cuts, end_job, groups, leases,
    // publish, reports, rings, shards, status_final, behind, recount, recover,
    // pause, job_queue, monitor, guard, replicas.
    struct journal_counters counters;
    bool counters_changed;
    uint64_t changes; // rises with everything a watcher may see
};

// Makes a job of this mode: JOB_PLACING, not placed, and in no list or map yet;
// calls mode->made. Copies name and request id (NULL: ""), takes over the spec,
// a heap message, and borrows `mode` for good. The spec has `train`; its model
// and optimizer may be NULL. The caller sets submitted_us and, for a job that
// goes on, map.version. For job_free. NULL: no memory, and the spec is still
// the caller's.
struct job *job_new(uint64_t id, uint64_t uid, uint64_t incarnation,
                    const char *name, const char *request_id,
                    Sluice__V1__JobSpec *spec, const struct mode *mode);
// Frees a job that is in no list or map any more and has no lease (asserted),
// with its works, its evaluation and a cut that is being made. NULL is allowed.
void job_free(struct job *job);

// Sets what a new job starts from, once; takes the heap message over. A source
// with `cut` becomes job->resume, one without it job->weights. NULL: the job
// starts from the seed.
void job_start_from(struct job *job, Sluice__V1__ResumeSource *source);

// Sets the state of a job that has not ended. `next` must be a state that may
// follow (job_moves; asserted). Counts as a change (job->changes), but journals
// and sends nothing: end_job does, for an end.
void job_enter(struct job *job, enum job_state next);

// Sets the state of a new job, which is JOB_PLACING (asserted), to `ended`, the
// end state that it had before a restart of the coordinator.
void job_restore(struct job *job, enum job_state ended);

// Says whether the job is FINISHED, FAILED or STOPPED.
bool job_ended(const struct job *job);

// Returns true if worker m's program is new enough for the job's layers and,
// for an external job, can take part in its mode. Does not look whether m runs
// external models (job_suits).
bool job_able(const struct job *job, const struct member *m);

// Returns how many leases with steps that are taken a worker of the job may
// hold, as fragments of them have yet to leave or to arrive (L8): one more than
// the spec has fragments. 0: contributions leave whole.
uint32_t job_streams(const struct job *job);

// Returns the lowest edition (MODEL_EDITION_*) that a psserver with a shard of
// the job must know, for what mode, model, optimizer and replicas ask of it; 0:
// any will do. Here and in the next function spec_check has accepted the spec.
unsigned job_shard_edition(const struct job *job);
// Returns true if psserver m is new enough to hold a shard of the job. One that
// does not know tables would keep no rows, and not say so.
bool job_shard_able(const struct job *job, const struct member *m);

// Returns true if worker m may be given leases of the job at all: it runs
// external models if and only if the job is external, is able (job_able), and
// takes this job (m->only_job). Whether m is ready, or holds leases, does not
// count.
bool job_suits(const struct job *job, const struct member *m);

// Returns true if the job gives no work, as a pause holds (by a client or the
// coordinator) or it is paused by I7; also if it ended so.
bool job_rests(const struct job *job);

// Returns the state's name in lower case; "unknown" for no state.
const char *job_state_name(enum job_state state);

// Returns the word for the job's state that people are shown: the state's name,
// or "paused" for a job that rests and has not ended.
const char *job_word(const struct job *job);

// Frees the memory that only a running job needs: works, running evaluation,
// evidence, ring, groups, results of audits, what workers contributed. The
// evaluations that have ended stay. The job has ended, or is about to be freed,
// and has no leases (asserted). Functions that read evidence (job_steps,
// evidence_*) must not be called any more; shards, layout and cuts stay, also a
// cut under way. A second call does nothing.
void job_release_work(struct job *job);

// Sets layout, schedule, shards and evidence (with nothing counted) of a job
// that is not placed and has job_samples, and what its mode sets up then. Takes
// the layout message on success; its pieces lie in shards below `shards`, which
// is not 0. names[s] is the psserver of shard s ("" of a part on workers), and
// is copied. Raises job->changes; journals nothing. SL_EINVAL, SL_ERANGE: the
// schedule is invalid (schedule_check); SL_ENOMEM. On failure the job is not
// placed, and only its schedule is set.
enum sl_err job_place(struct job *job, Sluice__V1__CheckpointsReply *layout,
                      const char *const *names, uint32_t shards,
                      struct sl_error *err);

// Returns the training samples in an epoch, as the probe found or the spec of
// an external job says; 0: not known yet.
uint64_t job_samples(const struct job *job);

// Returns the facts of a message in the form in which the journal keeps them.
struct journal_facts job_facts_of(const Sluice__V1__DataFacts *facts);

// Returns true if the shard is a part of a state that lies on workers: no
// psserver has it. Those come first; the others lie on psservers.
bool job_on_workers(const struct job *job, uint32_t shard);

// Returns how many shards the job has on psservers; 0 if it is not placed.
uint32_t job_psserver_shards(const struct job *job);

// Returns how many of the job's shards are placed on psserver m, by its name,
// whether or not m serves them; 0 if m is a worker, or the job is not placed.
uint32_t job_lies_on(const struct job *job, const struct member *m);

// Returns true if the shards of the job are to have replicas
// (placement.replicas). The spec has `placement`.
bool job_has_replicas(const struct job *job);

// Returns the name of the psserver with the shard's replica that is in the set,
// and may take over (P2); NULL: there is none.
const char *job_replica(const struct job_shard *s);

// Returns true if a replica of one of the job's shards is in the set on
// psserver m, by its name.
bool job_has_replica_on(const struct job *job, const struct member *m);

// Returns the number of the feed of which the shard's psserver has the memory,
// or is to show, since it was the replica (P4); 0: it was none.
uint64_t job_replica_memory(const struct job_shard *s);

// Returns true if every shard is served (job_shard.server), and what the mode
// needs runs too (mode.h, `runs`). A silent psserver serves none; parts on
// workers are served by members of the ring. False for a job that is not
// placed.
bool job_served(const struct job *job);

#define JOB_MOVING_MS 120000 // how long a cut waits for a shard that moves

// Returns true if a shard of the job was stopped, or got another owner, by a
// move or for its replica (shards_stop, shards_move) less than JOB_MOVING_MS
// before `now` (coord_now) and no psserver serves it yet: the shard's counts
// are safe, and the cut of a stop or a pause waits for it.
bool job_is_moving(const struct job *job, uint64_t now);

// Takes a shard's counts, of its newest incarnation, into
// job->shards.list[shard].counts. Counts of one incarnation only grow: if the
// counted steps, the version, or the sum of duplicates and refused are lower
// than what is known, or a count is impossible, all are dropped. Else raises
// job->changes. Not after job_release_work.
void job_counts_take(struct job *job, uint32_t shard,
                     const Sluice__V1__ShardCounts *counts);

// Clears the counts of a shard that has a new incarnation, and what is known of
// the rows of its tables (shard_rows.h).
void job_counts_reset(struct job *job, uint32_t shard);

// Returns the number of steps that are counted on every shard: the lowest one
// of all shards, each by its own report or by evidence, whichever is higher; 0
// for a job that is not placed. Not after job_release_work.
uint64_t job_steps(const struct job *job);

// Returns the number of steps in the cut that the job was resumed from; 0: it
// was not, also if it started with weights.
uint64_t job_resumed_steps(const struct job *job);

// Returns the cut that the job has ended with: the best one if the job is
// FINISHED, a callback restores that and the cut is kept; else the last one.
// NULL: it has no cut.
const struct job_cut *job_final_cut(const struct job *job);

// Returns the last published cut, or NULL. This and all other pointers to cuts
// hold until a cut is added or removed.
const struct job_cut *job_last_cut(const struct job *job);

// Returns the file of weights of variables that the job starts with; NULL: it
// starts without one, though tables may have files.
const Sluice__V1__WeightsFile *job_weights_file(const struct job *job);

// Returns the published cut number n; NULL: there is none, or it was dropped.
const struct job_cut *job_find_cut(const struct job *job, uint64_t n);

// Returns the newest published cut that grants the wish; if the wish is not
// made, the last cut. NULL: there is none yet.
const struct job_cut *job_granted(const struct job *job,
                                  const struct cut_wish *wish);

// Returns true if the last published cut holds all steps of the job; false if
// it does not, or there is none.
bool job_cut_complete(const struct job *job);

// Appends a published cut, newer than the others, to the job's list, and raises
// job->changes; journals nothing. Returns SL_OK, and the job owns what `cut`
// owned; or SL_ENOMEM, and that is still the caller's.
enum sl_err job_add_cut(struct job *job, const struct job_cut *cut);

// Removes and releases job->cuts.list[index], index < job->cuts.count; later
// cuts move down by one. Journals nothing, removes no file, and leaves
// job->changes.
void job_remove_cut(struct job *job, size_t index);

// Frees what `cut` owns and leaves it all zeroes.
void job_cut_release(struct job_cut *cut);

// Makes room for `more` evaluations beside those that the job has, for
// job_add_evaluation; pointers to evaluations are invalid then. SL_ENOMEM:
// nothing is changed.
enum sl_err job_reserve_evaluations(struct job *job, size_t more);

// Appends a copy of `row` to the job's evaluations, for which there is room,
// and raises job->changes; journals nothing.
void job_add_evaluation(struct job *job, const struct journal_evaluation *row);

// Returns for how long the job has been running, in ms, from when it first was
// RUNNING until now or its end; pauses, and times in which the coordinator was
// away, count too. `now_ms` is coord_now, here and below.
uint64_t job_elapsed_ms(const struct job *job, uint64_t now_ms);

// Returns for how many ms pauses of the job have held in all, also one that
// holds now; pauses by I7 are not counted.
uint64_t job_paused_ms(const struct job *job, uint64_t now_ms);

#endif
