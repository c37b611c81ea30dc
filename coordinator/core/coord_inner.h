// SPDX-License-Identifier: Apache-2.0
// coordinator/core/coord_inner.h -- struct coord, which all parts of the core
// work on.
//
// README.md beside this file lists the parts in their order.
//
// Threads  the loop.
// Memory   coord.c makes and frees it. No pointer is NULL.
// Errors   coord_fatal: from then on nothing is done or said any more.
#ifndef COORDINATOR_CORE_COORD_INNER_H
#define COORDINATOR_CORE_COORD_INNER_H

#include "common/base/list.h"
#include "common/base/map.h"
#include "coordinator/core/coord.h"
#include "coordinator/core/figures.h"
#include "coordinator/rules/member.h"
#include "coordinator/rules/test_vectors.h"

struct behind_job;
struct cluster_stranger;
struct job;
struct mode;
struct quotas;
struct resumed_reading;
struct stored;

// tests/house/owners.py checks which file changes what; coord.c makes and
// recover.c loads the struct.
struct coord {
    // Its options and tools. Changed by: coord.
    struct coord_options options;
    struct coord_io io;
    struct journal *journal;
    const struct mode *const *modes; // up to a NULL (modes/modes.h)
    char *store, *state_dir;         // owned
    struct stored *stored;           // used during recovery; else NULL
    uint64_t term;
    uint64_t started_ms, ticked_ms; // when it was made; the last tick
    struct members members;
    // processes that a newer process of the same name replaced
    struct map replaced;

    // The end of it: coord_fatal.
    bool dead;
    struct sl_error err; // error of a failed write or read, for coord_wrote

    // Its jobs. Changed by: submit, past_jobs, end_job, behind.
    struct {
        struct map by_id;   // id -> struct job, of active and ending
        struct list active; // jobs that have not ended, oldest first
        struct list ending; // jobs that ended lately, in that order
        struct map ended;   // id -> struct ended_job, of all others
        uint64_t last;      // highest number ever given, or skipped
        uint64_t given;     // highest number that this journal gave
    } jobs;

    // Quotas of tenants. Changed by: coord.
    struct quotas *quotas;

    // The tenant of the caller. Changed by: tenants.
    struct {
        char tenant[JOURNAL_TENANT];
        bool only;
    } asker;

    // Jobs that psservers show and the journal does not know (I7). Changed by:
    // behind.
    struct behind_job *unknown; // owned
    size_t unknown_count;

    // Members that an admin has drained (drains.h). Changed by: drains.
    struct list drains;

    // Test vectors of workers that joined. Changed by: arrivals.
    struct test_vectors vectors;

    // What workers that are suspect contributed (tainted.h). Changed by:
    // tainted.
    struct list tainted;

    // The cluster's identity, and members that were refused. Changed by:
    // cluster.
    struct journal_cluster cluster;
    struct cluster_stranger *strangers; // owned
    size_t strangers_count;

    // A job joined a queue or left it. Changed by: job_queue.
    bool queue_moved;

    // Counts of leases that were given. Changed by: leases.
    uint64_t attempts; // attempts of this term; the next one's n is one more
    uint64_t turn;     // highest job.leases.served (dispatch_served)

    // One pass over the workers. Changed by: serve.
    struct {
        // Jobs that have something for workers that hold none of their leases,
        // by whether these workers are external.
        struct list list[2];
        uint32_t jobs;     // jobs that may have an offer for a worker
        uint32_t wanting;  // jobs that were asked, in the last pass
        uint64_t compared; // comparisons of a job for a worker, ever
    } offers;

    // Snapshot requests of this term. Changed by: cuts, move.
    uint64_t requests;

    // Cuts that are being written. Changed by: publish.
    struct list publishing;

    // Manifests that are read for submissions, and the one of this call.
    // Changed by: start_from.
    struct list readings;
    struct resumed_reading *read;

    // Shards that move (move.h). Changed by: move.
    struct {
        struct list list;
        uint64_t look_ms; // no move begins before
    } moves;

    // Since when a psserver is attached; 0: none is. Changed by: place.
    uint64_t first_psserver_ms;
    uint32_t places; // shards that may still be asked for before the next tick

    // Random numbers drawn. Changed by: submit.
    uint64_t draws;

    // Process -> struct member_debt, of those that left. Changed by: stall.
    struct map debts;

    // Suspicions of closures, until it is known why a worker went. Changed by:
    // gone.
    struct list suspicions;

    // Counters since this coordinator began. Changed by: figures.
    struct figures figures;

    // Called when the outcome of a job's cut is in the journal: work that
    // waited for it goes on, also if the outcome is learned outside of any
    // other call. Changed by: coord.
    void (*cut_settled)(struct coord *c, struct job *job);
};

// Most processes that are remembered after they have gone.
#define COORD_REMEMBERED_MAX 1024

// Returns the time of the coord's clock, in ms, monotonic.
static inline uint64_t coord_now(const struct coord *c)
{
    return sl_now_ms(c->options.clock);
}

// Ends the daemon for an error that it cannot go on with: sets c->dead and
// calls io.fatal, once; again it does nothing. Returns err->code in any case. c
// stays as it is until coord_free: callers return, and look at c->dead before
// they go on.
static inline enum sl_err coord_fatal(struct coord *c,
                                      const struct sl_error *err)
{
    if (!c->dead) {
        c->dead = true;
        c->io.fatal(c->io.arg, err);
    }
    return err->code;
}

// Checks a write to the journal, or a read of it, that had &c->err for its
// `err`: a failure is fatal (coord_fatal). Returns true if rc is SL_OK.
static inline bool coord_wrote(struct coord *c, enum sl_err rc)
{
    if (rc != SL_OK)
        coord_fatal(c, &c->err);
    return rc == SL_OK;
}

#endif
