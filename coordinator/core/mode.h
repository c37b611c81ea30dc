// SPDX-License-Identifier: Apache-2.0
// coordinator/core/mode.h -- what train.mode decides of a job: one row of facts
// and functions per mode.
//
// The other files of the core ask a job's row and never which mode it is, so a
// new mode is one file in modes/ and one line in modes/modes.c. A function that
// a row leaves NULL does nothing, or what the comment beside it says; `offer`
// and `offers` are never NULL, nor is `slot` in a row that offers work by
// offers_work.
//
// Threads  the loop.
// Memory   rows are constants. Arguments are never NULL but where it is said,
//          and borrowed for the call.
// Errors   as the part that calls the function says. Functions with a `c` may
//          write the journal; a failure is fatal, and callers look at c->dead.
#ifndef COORDINATOR_CORE_MODE_H
#define COORDINATOR_CORE_MODE_H

#include "coordinator/core/coord_inner.h"
#include "proto/wire.h"

struct job;
struct offer;
struct work;

// The closures that may be issued now.
struct mode_span {
    uint64_t limit; // closures below this number may be issued (C5)
    uint64_t open;  // a closure below this number goes before later ones (Y4)
};

struct mode {
    const char *name; // value of train.mode
    // The row of jobs with open rounds (spec_open). NULL: they are not.
    const struct mode *open;

    // ---- facts

    // Its variables are parts of a state that lies on the job's workers and
    // goes with them. No psserver has any (job_on_workers): workers get no map
    // of them, and learn a reduced rate when they begin anew.
    bool on_workers;
    // Several contributions become one update and are counted as a round (Y2).
    bool by_round;
    // A contribution is what a worker's own optimizer changed of the
    // parameters. Shards update by the job's outer optimizer, and take
    // statistics as they are told: the mean of what the workers have.
    bool changes;
    const char
        *seat; // word for the place that a worker keeps; NULL: it has none
    const char *where; // line about its placing, for people; NULL: none

    // ---- place: may it begin, and where does its state lie

    // Returns true if an external worker's program can take part. NULL: any
    // can. Not asked for workers that are not external.
    bool (*able)(const struct member *m);
    // Checks that the attached workers could run a job of this spec. Returns
    // SL_OK, or why not. NULL: they could.
    enum sl_err (*judge)(const struct coord *c, const Sluice__V1__JobSpec *spec,
                         struct sl_error *err);
    // Checks that a job may begin with the state of a cut. Returns SL_OK, or
    // why not. NULL: it may.
    enum sl_err (*resumes)(const Sluice__V1__ResumeSource *from,
                           struct sl_error *err);
    // Returns the number of parts of the state. NULL: shards are spread over
    // psservers.
    uint32_t (*parts)(const struct coord *c, const Sluice__V1__JobSpec *spec);
    void (*made)(struct job *job); // sets up the mode's fields of a new job
    // Sets up the mode's fields as job_place places the job: schedule, shards
    // and evidence are there, the layout is not yet.
    void (*placed)(struct job *job);
    // Reads what the journal has of a placed job beside its shards;
    // `incarnation` is that of shard 0 there. Returns SL_OK or the journal's
    // error.
    enum sl_err (*load)(const struct coord *c, struct job *job,
                        uint64_t incarnation, struct sl_error *err);

    // ---- offer: work for one worker, or for any, of a placed job

    // Returns true if the worker computes closures of the job. NULL: all do.
    bool (*computes)(const struct job *job, const struct member *m);
    // Returns the job's offer for worker m now; kind WORK_NONE: none.
    struct offer (*offer)(struct coord *c, struct job *job,
                          const struct member *m);
    // Returns true if `offer` would have something for some worker: for one
    // without leases of the job (`newcomer`), or for one with some.
    bool (*offers)(struct coord *c, struct job *job, bool newcomer);
    // Returns the training offer for a worker of a running job, without ranges
    // of evaluations; kind WORK_NONE: none.
    struct offer (*slot)(struct coord *c, struct job *job,
                         const struct member *m);
    // Seats a worker in the place (WORK_RING) that it is about to be leased.
    // Returns false without memory: it is not leased then. NULL: it needs no
    // seat.
    bool (*sit)(struct job *job, struct member *m, const struct work *w);
    // Takes a worker out of the place of which the lease ends (leases_end).
    void (*rise)(struct job *job, struct member *m, const struct work *w);
    // Returns which closures may be issued to worker m, or to some worker if m
    // is NULL. Function NULL: those in the window.
    struct mode_span (*span)(const struct job *job, const struct member *m);
    // Returns true if workers have leases ahead of what can be computed. NULL:
    // they have none.
    bool (*ahead)(const struct job *job);

    // ---- report: what its workers say, and what follows

    // Takes a message of a worker about its ring. Returns true if the job may
    // move on by it: the caller calls advance_job. NULL: it is dropped.
    bool (*receive)(struct coord *c, struct member *m, struct job *job,
                    const Sluice__V1__AttendUp *message);
    // Takes the hello of a shard, which is kept in job_shard.waiting, and
    // admits the shard when it is time. NULL: it is judged and admitted at
    // once.
    void (*hello)(struct coord *c, struct job *job, uint32_t shard);
    // Returns true if a worker reports a part that it cannot have: its lease
    // goes, and the report is dropped.
    bool (*refuse)(struct coord *c, struct member *m, struct job *job,
                   const Sluice__V1__SnapshotReport *report);
    // Does what is due of the job's rings (their generations), or of its open
    // rounds (their ends). May end the job. Called often, also for jobs that
    // are not placed, and perhaps once c is dead.
    void (*check)(struct coord *c, struct job *job);
    // Takes back leases of rounds behind the open one, if a slot of that has no
    // worker, and of rounds too far ahead (Y4).
    void (*recheck)(struct coord *c, struct job *job);
    // Notes that a worker has completed a closure, also one that is not counted
    // on every shard by that, and when its attempt ended.
    void (*completed)(struct job *job, uint64_t closure, uint64_t ended_ms);
    // Returns true if workers have a state that would be lost with them. NULL:
    // they have none.
    bool (*has_state)(const struct job *job);
    // Returns true if the job can count steps, provided that every shard is
    // served, which job_served checks itself. NULL: it can.
    bool (*runs)(const struct job *job);
    // Returns the round that all files of a cut are of; 0: the present one.
    // NULL: files need not be of one round.
    uint64_t (*cut_round)(const struct job *job);
    // Tells those that may hold files of the shard which of them to keep. NULL:
    // its psserver.
    void (*keep)(struct coord *c, struct job *job, uint32_t shard);

    // ---- status

    // Writes why a job that is placed does not run. NULL: its shards say it.
    // `out` has `size` bytes.
    void (*waits)(const struct coord *c, const struct job *job, char *out,
                  size_t size);
    // Sets the mode's fields of a status of a placed job.
    void (*fill)(Sluice__V1__JobStatus *m, const struct job *job);
};

// Returns the row of a spec's mode, or that row's `open` if the spec's rounds
// are open (spec_open). A spec that names none, or one that this program does
// not know, has the first row.
const struct mode *mode_of(const struct coord *c,
                           const Sluice__V1__JobSpec *spec);

// Returns true if a job of this mode and spec has shards on psservers.
bool mode_wants_psservers(const struct mode *mode,
                          const Sluice__V1__JobSpec *spec);

#endif
