// SPDX-License-Identifier: Apache-2.0
// coordinator/core/job.h -- one job: what it is, where it stands, what is
// known.
//
// The states are those of jobs.proto. An ended job keeps its last status and
// its cuts; everything else is released. Soon only a record is left of it
// (ended.h).
//
// Threads  the loop.
// Memory   job_free frees all. Members point at jobs only through leases and
//          `opened`, which job_end and the coordinator clear first.
// Units    *_ms monotonic, *_us wall clock.
#ifndef COORDINATOR_CORE_JOB_H
#define COORDINATOR_CORE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/history.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/plan/schedule.h"
#include "coordinator/rules/callbacks.h"
#include "coordinator/rules/cut.h"
#include "coordinator/rules/evaluation.h"
#include "coordinator/rules/evidence.h"
#include "coordinator/journal/journal.h"
#include "coordinator/rules/meter.h"
#include "coordinator/rules/group.h"
#include "coordinator/rules/work.h"
#include "proto/wire.h"

typedef unsigned long long ull; // of %llu

// An event of the history that names its job first.
#define JOB_HISTORY(job, event, format, ...)                                   \
    HISTORY(event, "job=%llu uid=%llx" format, (ull)(job)->id,                 \
            (ull)(job)->uid, ##__VA_ARGS__)

enum job_state { // numbers as in JobState
    JOB_PLACING = 1,
    JOB_RUNNING,
    JOB_FINISHING,
    JOB_FINISHED,
    JOB_FAILED,
    JOB_STOPPED,
    JOB_STATES,
};

// Which states may follow each (moves.h).
extern const unsigned job_moves[JOB_STATES];

// What people should know of a job that goes on all the same.
enum job_warning {
    JOB_WARN_METRICS,    // a worker's numbers cannot be
    JOB_WARN_VALUES,     // parameters are not finite
    JOB_WARN_EVALUATION, // the last one failed
    JOB_WARN_DATA,       // a worker cannot read the data
    JOB_WARN_SAMPLE,     // a sample is not finite
    JOB_WARN_BAD,        // samples cannot be read, and are passed over
    JOB_WARN_REACH,      // a worker cannot reach a psserver, and nobody moves
    JOB_WARN_MEMORY,     // a psserver has less memory than its shards need
    JOB_WARNINGS,
};

// Rounds that may be under way, as completions come several at a time.
#define ROUND_TIMES 8

// Samples that cannot be read (bad.h).
#define JOB_BAD_NAMES 100
struct job_bad {
    struct map by_key;                // -> what is wrong with it, owned
    const char *names[JOB_BAD_NAMES]; // of the first
    size_t names_count;
};

// Workers that found other data than the first one (doubts.h).
#define JOB_DOUBTS 16
struct job_doubts {
    uint64_t first; // the first one, a witness; 0: not known in this term
    char name[140]; // and its name and host
    size_t count;
    struct doubt {
        uint64_t witness;
        struct journal_facts facts;
    } other[JOB_DOUBTS];
};

// What a shard said last about its present incarnation.
struct job_counts {
    uint64_t version, applied, skipped, counted, duplicates, refused, low;
    uint64_t stale, late;
    uint64_t staleness[WIRE_STALENESS_BUCKETS];
};

// Processes of a psserver that were lost in a row.
struct job_losses {
    uint64_t process;           // that is or was there last; 0: not known
    uint64_t steps;             // where the job was when that came,
    uint64_t cuts;              // and how many it had published
    uint32_t stepless, cutless; // lost without a step, or a cut, between
};

struct job_shard {
    char *psserver; // by name; owned
    uint64_t elements;
    uint64_t server;        // member that serves it now; 0: nobody
    uint64_t silent_server; // served it and is only silent; 0: none
    uint64_t since_ms;      // when that began, or ended
    bool was_lost;          // it was served in this term, and then was not
    // What workers were told, and the version of the map that said it first.
    uint64_t told_server, told_incarnation, told_version;
    uint64_t reserved;   // I1: the newest incarnation in the journal, or less
    uint64_t process;    // that was admitted last, in this term; 0: none
    struct wire_tag cut; // that the last cut names
    char *failure;       // owned: what its psserver could not load
    uint64_t asked;      // member that was last asked to take it; 0: nobody
    uint64_t place_ms;   // when that was
    struct job_losses losses; // of its psserver, in that one's first shard
    struct job_counts counts;
    bool recounts;        // asked what it has counted, and has not said it
    uint64_t rates_known; // up to the one of this closure; 0: none
    Sluice__V1__ShardHello *waiting; // K5; owned
    uint64_t waiting_member;
};

// A published cut that was not dropped.
struct job_cut {
    uint64_t n;
    uint32_t epochs;                    // whole in every file
    char *path;                         // owned
    Sluice__V1__Checkpoint *checkpoint; // owned
    Sluice__V1__JobStatus *counts;      // owned: of its files, with epochs
};

// What a worker was sent of a job: the value of member.opened.
struct opened {
    bool placed;          // with layout and facts; else before the probe
    uint64_t map_version; // of the map that was sent last
};

// A part of what was trained since the last evaluation, as workers told it.
struct job_told {
    uint64_t cut; // the first that holds it
    struct journal_trained trained;
};

#define JOB_TOLD 8

// Not I7's (`paused`): somebody wants it to lie still (pause.h).
struct job_pause {
    struct journal_pause row; // as it is journalled
    uint64_t from_ms;     // it holds since then, in this term; 0: it does not
    struct cut_wish wish; // wanted: for the cut that comes first
};

// All read it. Who changes a group is said above it, and tests/house/owners.py
// checks that; job.c makes and load.c loads it.
struct job {
    struct list_node on_active; // in coord.jobs.active, or .ending

    // What it is. Changed by: submit, unreadable.
    uint64_t id, uid, incarnation;
    char id_text[24]; // "j-7"
    char *name, *request_id;
    Sluice__V1__JobSpec *spec;
    // What it starts from instead of the seed; owned, one of them at most.
    Sluice__V1__ResumeSource *resume;  // a cut
    Sluice__V1__ResumeSource *weights; // values alone: its `weights`
    bool external;
    uint32_t edition; // of the layers, that its workers must know
    bool allreduce;   // its shards are parts of a state that every rank keeps
    bool hybrid;      // its workers compute in groups
    uint64_t submitted_us;

    // Where it stands, and its end. Changed by: advance, end, status_final,
    // unreadable.
    enum job_state state;
    uint64_t running_since_ms; // its clock goes since then; 0: it does not
    uint64_t ended_us, ended_ms;
    char *reason;                 // of the end; owned, may be NULL
    Sluice__V1__JobStatus *final; // ended: the last status
    bool final_changed;           // and the journal has an older one

    // Its rows cannot be read: it counts as ended. Changed by: unreadable.
    bool unreadable;

    // Ended, and read from the journal for one answer. Changed by: ended.
    bool lent;

    // I7: somebody shows more of it than the journal knows. Changed by: behind.
    bool paused;
    char *paused_why; // what was seen; owned, may be NULL

    // Its place in the queue, of those of one tenant. Changed by: queue.
    enum journal_turn turn;
    char queue[JOURNAL_TENANT];

    // Its shards, once it is placed. Changed by: shards, place, publish, send,
    // rings, behind, recount, monitor, memory.
    bool placed;
    Sluice__V1__CheckpointsReply *layout; // variables and pieces
    struct schedule schedule;
    uint64_t parameters;
    uint32_t shards;
    uint32_t looked; // of them, at the front: place.c has nothing to ask for
    struct job_shard *shard;
    struct evidence evidence;

    // Its map. Changed by: shards, submit, behind.
    uint64_t map_version;
    bool map_changed; // the workers do not know yet

    // Its closures in work. Changed by: leases, serve, offers, coord, monitor.
    struct work probe;
    struct map active;          // closure -> struct work: leased, or with blame
    uint32_t held;              // leases
    struct map holders;         // member -> leases it holds, as a number
    uint64_t leased_end;        // nothing at or above it is leased
    uint64_t served;            // how often it was given a worker: see
    uint64_t served_by;         // dispatch.h; and which was last, 0: none
    uint64_t scan_from;         // nothing to issue lies below
    uint64_t freed;             // rises when something below may be, again
    uint64_t scanned;           // what that was then
    struct list_node on_offers; // in coord.offers.list, while a pass lasts
    bool spent;                 // in this pass nothing is left for anybody

    // Copies of slots, in sync mode. Changed by: leases, copies.
    uint32_t copies; // leased
    double slot_ms;  // that a contribution takes, lately; 0: not known

    // Shards are asked what they have counted: so many have not said it; since
    // when. Changed by: recount.
    uint32_t recount_missing;
    uint64_t recount_ms;

    // What workers say of it. Changed by: reports, stall, rings.
    bool has_facts;
    struct journal_facts facts;
    uint64_t moved_ms;   // when any holder last got on
    uint64_t good_steps; // that were applied
    double loss_scale;   // the last reported; 0: none
    struct meter meter;
    // Sync: when contributions of the last few rounds were there, by the
    // round's number; how long the last of one takes after the first, lately.
    struct round_times {
        uint64_t first; // its first closure
        uint64_t from_ms, to_ms;
        uint32_t count; // of those that are there
    } round_times[ROUND_TIMES];
    double round_last_ms;

    // Its ring, in allreduce mode. Changed by: rings.
    struct ring ring;
    uint32_t contributions; // of a round, in this generation; 0: not settled
    bool based;             // the evidence is of this generation's base,
    uint64_t rounds;        // and of so many rounds in all
    uint64_t redone;        // steps that ranks had applied and lost
    double round_ms;        // that a round takes, lately; 0: not known
    uint64_t round_at_ms;   // when progress was last seen, and
    uint64_t rounds_at;     // what it was

    // Its groups, in hybrid mode. Changed by: groups, leases.
    struct groups groups;

    // Its cut and those that were published. Changed by: cuts, publish,
    // advance.
    struct cut *cut;       // being made
    uint64_t cut_after_ms; // not before (after a failure)
    char *cut_why;         // the last one was given up; owned, NULL: it was not
    uint64_t cut_round;    // of a ring: after this round; 0: now
    uint32_t cut_misses;   // of a ring: in a row, and
    uint64_t cut_seen;     // where a rank was at the last one
    uint64_t cut_last_ms;
    uint64_t last_cut; // highest number used
    struct job_cut *cuts;
    size_t cuts_count;
    uint64_t cuts_published; // ever

    // A client has paused it, or the coordinator holds it (memory.h). Changed
    // by: pause, end.
    struct job_pause pause;

    // What clients want: a cut; after it, the end. Not journalled: who asked
    // waits for it, and asks again. Changed by: calls, cuts.
    struct cut_wish wish;
    bool stop_wanted;

    // Its evaluations. Changed by: evaluations.
    struct evaluation *evaluation; // running
    struct journal_evaluation *evaluations;
    size_t evaluations_count;

    // Its callbacks, as of the last of them; shards that do not know the rates
    // yet, and of a ring the last rate that its generation began with: the
    // closure, or 0. Changed by: monitor, rings.
    struct spec_callbacks watched;
    struct callbacks callbacks;
    uint32_t rates_unknown;
    uint64_t ring_rates;
    uint64_t trained_ms; // what was trained was journalled last
    // The parts of `counters.trained`, by cut, and the one that no cut holds
    // yet.
    struct job_told told[JOB_TOLD];
    size_t told_count;
    struct journal_trained fresh;

    // The most that was counted of it in this term. Changed by: figures.
    bool figured;
    uint64_t figured_closures, figured_samples;
    uint64_t figured_ms; // when it was last more

    // The newest of each kind; owned, NULL: there is none. Changed by: jobs.
    char *warnings[JOB_WARNINGS];

    // The event of skipped updates was told in this term. Changed by: skipped.
    bool skips_told;

    // When its curve was last sampled. Changed by: curves.
    uint64_t sampled_ms;

    // Samples that cannot be read. Changed by: bad.
    struct job_bad bad;

    // What others found where its data should be. Changed by: doubts.
    struct job_doubts doubts;

    // Numbers. Changed by: jobs, advance, cuts, end, groups, leases, publish,
    // reports, rings, shards, status_final, behind, recount, recover, pause,
    // queue, monitor.
    struct journal_counters counters;
    bool counters_changed;
    uint64_t changes; // rises with everything a watcher may see
};

// Takes the name, request id and spec (which it then owns). NULL: no memory,
// and the spec is still the caller's.
struct job *job_new(uint64_t id, uint64_t uid, uint64_t incarnation,
                    const char *name, const char *request_id,
                    Sluice__V1__JobSpec *spec);
void job_free(struct job *job); // NULL is allowed

// What a new job starts from; takes it (NULL is allowed).
void job_start_from(struct job *job, Sluice__V1__ResumeSource *source);

// The only way to change the state of a job that lives.
void job_enter(struct job *job, enum job_state next);
// A new job is one that had ended before a restart.
void job_restore(struct job *job, enum job_state ended);
bool job_ended(const struct job *job);

// Is it new enough: for the job's layers, or to be a rank of its program's?
bool job_able(const struct job *job, const struct member *m);

// May this worker be given of it, whatever it holds and however it fares?
bool job_suits(const struct job *job, const struct member *m);

// Nothing of it is given to anybody: a client has paused it, or I7 has.
bool job_rests(const struct job *job);
const char *job_state_name(enum job_state state);
// The same, or that it is paused.
const char *job_word(const struct job *job);

// Releases what only a job that has not ended needs; leases are gone already.
void job_release_work(struct job *job);

// Fixes layout, schedule, shards and evidence (with nothing counted). Takes
// the layout message on success. names[s] is the psserver of shard s.
enum sl_err job_place(struct job *job, Sluice__V1__CheckpointsReply *layout,
                      const char *const *names, uint32_t shards,
                      struct sl_error *err);

// Samples in an epoch, which the probe found or an external spec says; 0: not
// known yet.
uint64_t job_samples(const struct job *job);

// Returns the facts as the journal keeps them.
struct journal_facts job_facts_of(const Sluice__V1__DataFacts *facts);

// How many of its shards a psserver has; 0 of a worker.
uint32_t job_lies_on(const struct job *job, const struct member *m);

// Every shard is served; the ring runs.
bool job_served(const struct job *job);

// Notes what a shard said about its newest incarnation: facts of one
// incarnation only grow, so the larger report is the newer one.
void job_counts_take(struct job *job, uint32_t shard,
                     const Sluice__V1__ShardCounts *counts);
// A new incarnation: what was said before is void.
void job_counts_reset(struct job *job, uint32_t shard);

// Steps counted on every shard, by reports or by evidence.
uint64_t job_steps(const struct job *job);

// Steps that the cut held from which it was resumed.
uint64_t job_resumed_steps(const struct job *job);

// The cut that it has ended with: the best one, where a callback restores that;
// or the last one; or NULL.
const struct job_cut *job_final_cut(const struct job *job);

// The last published cut, or NULL; one by its number, or NULL.
const struct job_cut *job_last_cut(const struct job *job);
const struct job_cut *job_find_cut(const struct job *job, uint64_t n);

// The newest published cut that is what was wanted; NULL: there is none yet.
const struct job_cut *job_granted(const struct job *job,
                                  const struct cut_wish *wish);

// The last published cut holds all that there is to count.
bool job_cut_complete(const struct job *job);

// Appends a published cut; takes what `cut` owns on success.
enum sl_err job_add_cut(struct job *job, const struct job_cut *cut);
void job_remove_cut(struct job *job, size_t index);
void job_cut_release(struct job_cut *cut);

enum sl_err job_add_evaluation(struct job *job,
                               const struct journal_evaluation *row);

// Its clock: since it ran first, whoever of us was away meanwhile.
uint64_t job_elapsed_ms(const struct job *job, uint64_t now_ms);

// How much of that it was paused.
uint64_t job_paused_ms(const struct job *job, uint64_t now_ms);

#endif
