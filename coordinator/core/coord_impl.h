// SPDX-License-Identifier: Apache-2.0
// coordinator/core/coord_impl.h -- what the coord_*.c files share. Nobody else
// includes it.
//
//   coord.c         making, attach, detach, hear, tick
//   coord_send.c    messages downwards
//   coord_place.c   probe's facts, placement, telling psservers
//   coord_resume.c  the cut that a job starts from
//   coord_shard.c   hellos, admission, the map
//   coord_lease.c   offers, leases
//   coord_report.c  completions, failures, losses
//   coord_stall.c   leases that stand still
//   coord_conduct.c workers that are put aside
//   coord_cut.c     snapshots, manifests, what to keep
//   coord_eval.c    evaluations
//   coord_job.c     submit, advance, end, delete
//   recover.c       from the journal
//   status.c, status_cluster.c, status_final.c   what clients see
#ifndef COORDINATOR_CORE_COORD_IMPL_H
#define COORDINATOR_CORE_COORD_IMPL_H

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "coordinator/rules/conduct.h"
#include "coordinator/core/coord.h"
#include "coordinator/rules/dispatch.h"
#include "coordinator/core/job.h"
#include "coordinator/rules/member.h"
#include "proto/spec.h"

// Shards that could not load what is needed are asked again.
#define COORD_PLACE_AGAIN_MS 10000
#define COORD_CUTS_MAX 4096 // kept cuts of one job
#define COORD_REPLACED_MAX 1024

struct coord_link; // shared with work that may end after us

struct coord {
    struct coord_options options;
    struct coord_io io;
    struct journal *journal;
    char *store, *state_dir; // owned
    uint64_t term;
    uint64_t attempts; // of this term: n of the next is one more
    uint64_t requests; // snapshot requests of this term
    uint64_t turn;     // of dispatch
    uint64_t last_job; // highest number ever given
    uint64_t draws;    // random numbers drawn
    uint64_t started_ms, ticked_ms;
    uint64_t first_psserver_ms; // since when one is there; 0: none is
    struct members members;
    struct map jobs;     // id -> struct job
    struct list active;  // those that have not ended, oldest first
    struct map replaced; // processes that a newer one of their name sent away
    struct map debts;    // process -> struct member_debt, of those that left
    struct coord_link *link;
    bool dead; // fatal was called
};

static inline uint64_t coord_now(const struct coord *c)
{
    return sl_now_ms(c->options.clock);
}

struct job *coord_job(const struct coord *c, uint64_t id); // or NULL
// As above, of this incarnation and not ended.
struct job *coord_live_job(const struct coord *c, uint64_t id,
                           uint64_t incarnation);
uint64_t coord_random(struct coord *c);

// What cannot be gone on with. Returns err->code.
enum sl_err coord_fatal(struct coord *c, const struct sl_error *err);

// SL_OK passes; a failure of the journal is fatal. True if it was SL_OK.
bool coord_wrote(struct coord *c, enum sl_err rc, const struct sl_error *err);

// ---- coord_send.c

void send_welcome(struct coord *c, const struct member *m);
void send_ack(struct coord *c, const struct member *m, uint64_t seq);
void send_goodbye(struct coord *c, const struct member *m, const char *why);
void send_place(struct coord *c, const struct member *m, struct job *job,
                uint32_t shard);
void send_admit(struct coord *c, const struct member *m, const struct job *job,
                uint32_t shard);
void send_refuse(struct coord *c, const struct member *m, uint64_t job,
                 uint32_t shard, const char *why, const struct wire_tag *load);
void send_snapshot(struct coord *c, uint64_t member, const struct job *job,
                   uint32_t shard);
void send_keep(struct coord *c, uint64_t member, const struct job *job,
               uint32_t shard);
void send_close(struct coord *c, const struct member *m, uint64_t job,
                uint64_t uid, bool delete_snapshots);
void send_job_open(struct coord *c, const struct member *m,
                   const struct job *job);
void send_map(struct coord *c, const struct member *m, const struct job *job);
// Those of its leases that it was not sent yet.
void send_leases(struct coord *c, struct member *m);
void send_revoke(struct coord *c, const struct member *m, const struct work *w,
                 const char *why);
void send_revoke_job(struct coord *c, const struct member *m,
                     const struct job *job, const char *why);

// ---- coord_place.c

// Cuts the model and names psservers; does nothing while it cannot be.
void coord_place_job(struct coord *c, struct job *job);
// Tells a psserver that has come which shards it has to take, and which jobs
// are gone.
void coord_place_member(struct coord *c, struct member *m);
void coord_place_again(struct coord *c, struct job *job);
enum sl_err coord_explain(struct coord *c, const Sluice__V1__JobSpec *spec,
                          struct buf *out, struct sl_error *err);
// The psserver of that name if it is attached and heard of, or NULL.
struct member *coord_psserver(struct coord *c, const char *name);

// May a job of this spec start from that cut, on the psservers of now?
enum sl_err coord_place_check(struct coord *c, const Sluice__V1__JobSpec *spec,
                              const Sluice__V1__ResumeSource *from,
                              struct sl_error *err);

// ---- coord_resume.c

// Reads the cut that a submission wants to start from (a manifest's path, or a
// job whose last cut is meant), and refuses what would not go on with it.
enum sl_err coord_resume_read(struct coord *c, const char *what,
                              const Sluice__V1__JobSpec *spec,
                              Sluice__V1__ResumeSource **out,
                              struct sl_error *err);
// A job that still needs the files of this one, or NULL.
const struct job *coord_resumed_by(struct coord *c, const struct job *job);

// ---- coord_shard.c

void coord_shard_hello(struct coord *c, struct member *m,
                       const Sluice__V1__ShardHello *hello);
void coord_shard_report(struct coord *c, struct member *m,
                        const Sluice__V1__ShardReport *report);
// K5 is over: answers the hellos that waited.
void coord_shard_retry(struct coord *c, struct job *job);
// The psserver is silent or gone: nobody serves its shards. `lost`: for good.
void coord_shards_down(struct coord *c, struct member *m, bool lost);
// It was only slow: its memory is what it was.
void coord_shards_back(struct coord *c, struct member *m);
void coord_map_changed(struct coord *c, struct job *job);
void coord_map_flush(struct coord *c, struct job *job);

// ---- coord_lease.c

void coord_dispatch(struct coord *c);

// ---- coord_report.c

void coord_complete(struct coord *c, struct member *m,
                    const Sluice__V1__Complete *message);
void coord_failed(struct coord *c, struct member *m,
                  const Sluice__V1__AttemptFailed *message);
void coord_hand_back(struct coord *c, struct member *m,
                     const Sluice__V1__HandBack *message);
void coord_progress(struct coord *c, struct member *m,
                    const Sluice__V1__LeaseProgress *message);

// Why a worker's leases are taken from it.
enum leases_why {
    LEASES_LOST,    // it is gone or silent: what it computed is suspect
    LEASES_REDIAL,  // the same process came back on a new stream
    LEASES_JOB_END, // not its fault at all
};
void coord_take_leases(struct coord *c, struct member *m, enum leases_why why);
// Takes one lease away: closure and holder no longer know each other.
void coord_unlease(struct work *w);
// A training closure that needs no memory any more goes.
void coord_settle_work(struct coord *c, struct work *w);

// After closure_lost or a failure: blame is journalled; poison ends the job.
void coord_bad_end(struct coord *c, struct work *w, const char *who,
                   const char *how);

// ---- coord_stall.c

void coord_stall_begin(struct coord *c, struct work *w); // it was leased
// Before its metrics are taken.
void coord_stall_heard(struct coord *c, struct work *w,
                       const Sluice__V1__LeaseProgress *message);
// The worker says how an attempt ended.
void coord_stall_answer(struct member *m, uint64_t job,
                        const Sluice__V1__Attempt *attempt);
void coord_stall_check(struct coord *c);
// A process leaves without having answered, and perhaps comes back: on a new
// stream it is as stuck as it was.
void coord_stall_left(struct coord *c, const struct member *m);
void coord_stall_back(struct coord *c, struct member *m);
// The coordinator slept: nobody could be heard of.
void coord_stall_forgive(struct member *m, uint64_t slept_ms, uint64_t now_ms);
// Takes a lease back; nobody is blamed.
void coord_revoke(struct coord *c, struct member *m, struct work *w,
                  const char *why);

// ---- coord_conduct.c

// How the worker does with the job; NULL: no memory.
struct conduct *coord_conduct(struct member *m, const struct job *job);
bool coord_aside(struct coord *c, const struct member *m,
                 const struct job *job);
// Gives it nothing of the job for a while, and takes what it has of it.
void coord_put_aside(struct coord *c, struct member *m, struct job *job,
                     enum conduct_why why);
// Puts it aside if that is due, and somebody else can go on.
void coord_conduct_judge(struct coord *c, struct member *m, struct job *job);
// That its numbers are not finite is its own fault, not the job's.
bool coord_conduct_excuses(struct coord *c, struct member *m,
                           const struct job *job);
// It is given something of the job: is it the first time after a while?
void coord_second_chance(struct coord *c, struct member *m,
                         const struct job *job);
// Why it is given nothing, for people; without memory a part of it.
void coord_conduct_reason(struct coord *c, const struct member *m,
                          struct buf *out);

// ---- coord_cut.c

void coord_cut_check(struct coord *c, struct job *job);
void coord_snapshot_report(struct coord *c, struct member *m,
                           const Sluice__V1__SnapshotReport *report);
// The shard was admitted: asks it (again) if a cut is being made.
void coord_cut_admitted(struct coord *c, struct job *job, uint32_t shard,
                        bool renewed);
void coord_cut_give_up(struct coord *c, struct job *job, const char *why);
bool coord_cut_complete(const struct job *job); // the last published cut is

// ---- coord_eval.c

void coord_eval_check(struct coord *c, struct job *job);
// True while an evaluation runs or is due.
bool coord_eval_pending(const struct job *job);
enum sl_err coord_eval_result(struct coord *c, struct job *job,
                              const Sluice__V1__Complete *message);
void coord_eval_needs(const struct job *job, bool *needed);

// ---- coord_job.c

// Looks at everything that may move a job forward.
void coord_advance(struct coord *c, struct job *job);
void coord_end_job(struct coord *c, struct job *job, enum job_state how,
                   const char *reason);
void coord_fail_job(struct coord *c, struct job *job, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void coord_count(struct job *job, uint64_t *counter);
void coord_flush_counters(struct coord *c, struct job *job);

// ---- recover.c

enum sl_err coord_recover(struct coord *c, struct sl_error *err);

// ---- status.c

// A status on the heap; NULL: no memory.
Sluice__V1__JobStatus *status_job(struct coord *c, struct job *job,
                                  bool with_shards, bool with_spec);

// Of a job that has ended: samples per second of the whole run, without those
// that a cut brought along.
void status_average(Sluice__V1__JobStatus *m, const struct job *job);

// Of a job that ends: numbers that belong together (status_final.c).
void status_settle(Sluice__V1__JobStatus *m, const struct job *job);
// A shard of an ended job says what it had counted.
void coord_final_report(struct coord *c, const struct member *m,
                        struct job *job, const Sluice__V1__ShardReport *report);

// What it waits for, or "" while it moves.
void status_reason(struct coord *c, const struct job *job, char *out,
                   size_t size);

#endif
