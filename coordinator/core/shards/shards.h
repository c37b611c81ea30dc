// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/shards.h -- shards of a job: hellos, admission, the
// map.
//
// A psserver says hello (ShardHello) of a shard that it has in memory (live),
// has loaded, or could not load. On a hello: K5; live and newest: renew; else
// K7, commit the incarnation (I1), Admit, evidence := what the hello has
// counted (C2), void the shard's unpublished report; closures are then issued
// again by C3.
//
// Threads  the loop.
// Memory   a hello that waits for a manifest is copied, for the shard. Messages
//          are borrowed for the call.
// Errors   A number above the journal pauses its job (I7): behind.h. A journal
//          that cannot be written or read is fatal, and so is want of memory in
//          shards_move: callers look at c->dead. Without memory to keep a
//          hello its member is sent away, and comes back. No pointer is NULL.
#ifndef COORDINATOR_CORE_SHARDS_SHARDS_H
#define COORDINATOR_CORE_SHARDS_SHARDS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/shards/shard_rows.h"
#include "coordinator/rules/evidence.h"
#include "plan/schedule.h"
#include "proto/wire.h"

// The last report of a shard about its present incarnation; as ShardCounts.
struct job_counts {
    uint64_t version, applied, skipped, counted, duplicates, refused, low;
    uint64_t stale, late;
    uint64_t staleness[WIRE_STALENESS_BUCKETS];
};

// Processes of a psserver that were lost in a row.
struct job_losses {
    uint64_t process; // the present or last process; 0: not known
    uint64_t steps;   // steps of the job when that process came,
    uint64_t cuts;    // and cuts that it had published
    // processes lost without a step, or a cut, between
    uint32_t stepless, cutless;
};

// A shard beside a ring, in the present generation (ring_rows.h).
struct shard_beside {
    bool asked;   // for a hello, when all ranks had answered,
    bool heard;   // and it has answered
    bool settled; // it was admitted
    bool due;     // it came anew since then
};

// The replica of a shard, as the journal has it (replicas.h).
struct shard_replica {
    // Its psserver, or the shard's own, which was the replica (P4); owned;
    // NULL: there is none.
    char *psserver;
    uint64_t feed;     // number of the feed that it follows, or followed
    uint64_t lag;      // operations that it lacked when its owner last said so
    uint64_t again_ms; // no new one begins before
    unsigned failed;   // tries to make one, in a row
    // Why acknowledgements of this feed are missing, by its owner, which waits
    // for the replica to leave; owned; NULL: none are.
    char *missed;
    bool bereft; // the shard's psserver has lost its memory, and waits for it
    uint64_t bereft_ms; // since when
};

// A shard, on whichever psserver it lies.
struct job_shard {
    char *psserver; // by name; owned
    uint64_t elements;
    uint32_t fragment;      // of the job's, that it leaves with (L8)
    uint64_t server;        // member that serves it now; 0: none
    uint64_t silent_server; // member that served it and is only silent; 0: none
    uint64_t since_ms;      // when that began, or ended
    bool was_lost;          // lost its server in this term, and has none yet
    // The server and incarnation that workers were sent, and the version of the
    // map that named them first.
    uint64_t told_server, told_incarnation, told_version;
    // highest incarnation committed in the journal (I1), or less
    uint64_t reserved;
    uint64_t process;      // process admitted last, in this term; 0: none
    struct wire_tag cut;   // the tag that the last cut names
    char *failure;         // owned: what its psserver could not load
    uint64_t asked;        // member last asked to take the shard; 0: none
    uint64_t place_ms;     // when that was
    uint64_t move_ms;      // it does not move before (move.h)
    uint32_t moves_failed; // in a row
    bool by_files;         // its last move failed while it was fed
    bool moving;  // a move has stopped it, and no psserver serves it yet
    bool stopped; // a move may have stopped it: an admission sets it going
    struct shard_replica replica;
    struct job_losses losses; // losses of its psserver, in the first shard
    struct job_counts counts;
    // Of the last report: 1 above the closure of the moments that it keeps (0:
    // none), and the closures that were counted since.
    uint64_t moments_of, moments_age;
    struct shard_rows rows;
    struct shard_beside beside;
    bool recounts; // asked for its counted set, and has not answered
    // the highest first closure of a rate that the shard knows; 0: none
    uint64_t rates_known;
    Sluice__V1__ShardHello *waiting; // K5; owned
    uint64_t waiting_member;
};

// The shards of a job, and what the coordinator knows of them once the job is
// placed.
struct job_shards {
    bool placed;
    Sluice__V1__CheckpointsReply *layout; // variables and pieces; owned
    struct schedule schedule;
    uint64_t parameters;
    uint32_t count;
    uint32_t parts;         // the first so many lie on workers (job_on_workers)
    uint32_t looked;        // shards at the front that place.c need not ask for
    struct job_shard *list; // owned
    uint64_t evens_ms;      // no shard moves before to even psservers out
    struct evidence evidence;
};

// The version of a job's map.
struct job_map {
    uint64_t version;
    bool changed; // workers were not sent the last change
};

// Answers the hello of a shard, of any job, also of an unknown one
// (behind_list): admits it, with an event unless it is the first time or kept
// its memory; lets it wait for a manifest (K5), or in allreduce for the ring
// (mode.h, `hello`); refuses it; or leaves it alone, as one of a job that
// cannot be read or is paused by I7. A shard that could not be loaded is noted
// (job_shard.failure), with an event if the reason is new, and asked for again
// by place_again. The answer to a recount changes the evidence and the counts
// alone (recount_heard, which may end the job). Returns the job, which may have
// ended, if the caller has to call advance_job for it, else NULL.
struct job *shards_hello(struct coord *c, struct member *m,
                         const Sluice__V1__ShardHello *hello);

// Admits a shard beside a ring, which said this hello, to the ring's generation
// with its base, takes its counts from the hello, and sends m Admit, Keep and
// the reduced rates (monitor_admits); the map changes. The number is in the
// journal (R1); the evidence is that of all of the state, once a rank has told
// it.
void shards_settle(struct coord *c, struct member *m, struct job *job,
                   const Sluice__V1__ShardHello *hello);

// Takes a shard's counts from its report (job_counts_take), of a job that goes
// on or has ended, and what it says of its tables, its moments and its rounds,
// which may complete closures; the job moves on with the next advance_job. Of
// an ended job calls io.changed (status_final_report). Ignores a report that is
// not of the shard's newest incarnation, or not from the psserver that serves
// it; of an ended job, one of a psserver that was not told to close it
// (ended_report).
void shards_report(struct coord *c, struct member *m,
                   const Sluice__V1__ShardReport *report);

// Answers the job's hellos that waited for a manifest (K5), once that is
// settled, as shards_hello would, which may end the job; drops those of members
// that have gone, and all if the job is paused by I7. The caller calls
// advance_job afterwards.
void shards_retry(struct coord *c, struct job *job);

// Notes that psserver m, which is silent or gone, serves its shards no more,
// with an event for each job, but not again when a silent one is lost. `lost`:
// for good, which is counted once in each job (counters.psservers_lost); false:
// it is only silent (shards_back). The map changes (shards_flush_map).
void shards_down(struct coord *c, struct member *m, bool lost);

// Notes that psserver m, which was silent, serves its shards again, with the
// memory that it had; adds an event for each job. The map changes. Shards that
// got another owner meanwhile stay with that.
void shards_back(struct coord *c, struct member *m);

// Returns the bytes of a shard, as far as they are known: of its values, of its
// slots and of its rows. The shard has its elements.
uint64_t shards_bytes(const struct job *job, const struct job_shard *s);

// Returns what a shard weighs, where psservers are to have about as much:
// shards_bytes, and SHARDS_EACH, since each has a message of every step.
uint64_t shards_weight(const struct job *job, const struct job_shard *s);

#define SHARDS_EACH (UINT64_C(64) << 10)

// Adds up what the shards and replicas of jobs that have not ended weigh on
// each psserver of the map by_name: from its name to the caller's uint64_t,
// which the call raises. Psservers that are not in the map are left out.
void shards_weigh(const struct coord *c, const struct strmap *by_name);

// Notes that no psserver serves the shard, though its counts are safe: its
// owner stops, to write its last snapshot here (M1), or its replica is to take
// over (P4). Cuts wait for it (job_is_moving). Sends nothing: the map goes with
// shards_flush_map.
void shards_stop(struct coord *c, struct job *job, uint32_t shard);

// Notes that psserver m is the owner of the shard, which the journal has (M2),
// and forgets what was known of it where it was. It is served once m has loaded
// it and is admitted; the caller asks m for that (place_moved). Until then cuts
// wait for it (job_is_moving); the map changes with the admission alone.
void shards_move(struct coord *c, struct job *job, uint32_t shard,
                 const struct member *m);

// Notes that a move of the shard was given up: cuts wait for it no longer
// (job_is_moving), and it is not to move again before `now` + `ms`, or twice as
// late for each of its last moves that failed as well (up to 64 times `ms`;
// shards_move counts anew). Sends nothing: a shard that has or may have stopped
// stays so until it is admitted, so the caller asks its psserver for a hello.
// `fed`: it was given up in MOVE_FEEDS, so the next one goes by files, and the
// one after that is fed again.
void shards_stay(struct job *job, uint32_t shard, bool fed, uint64_t now,
                 uint64_t ms);

// Notes at time `now` (coord_now) that a replica of the shard could not begin:
// none is to for `ms`, and twice as long each time that follows (up to 16 times
// `ms`).
void shards_no_replica(struct job *job, uint32_t shard, uint64_t now,
                       uint64_t ms);

// Sends the changes of the job's map since the last time, as one message per
// worker: if every shard is served, or if `tick` is true. Else does nothing,
// and the next tick sends them. Does nothing for a job that has ended.
void shards_flush_map(struct coord *c, struct job *job, bool tick);

// Sends worker m, which asked for it, the changes of the job's map since
// version `have`, or the whole map (send_map).
void shards_send_map(struct coord *c, const struct member *m, struct job *job,
                     uint64_t have);

#endif
