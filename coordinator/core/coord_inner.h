// SPDX-License-Identifier: Apache-2.0
// coordinator/core/coord_inner.h -- struct coord: what all parts of the core
// stand on.
//
// README.md beside this file lists the parts in their order.
//
// Threads  the loop.
// Memory   coord.c makes and frees it.
// Errors   coord_fatal: from then on nothing is done or said any more.
#ifndef COORDINATOR_CORE_COORD_INNER_H
#define COORDINATOR_CORE_COORD_INNER_H

#include "common/base/list.h"
#include "common/base/map.h"
#include "coordinator/core/coord.h"
#include "coordinator/rules/member.h"

struct job;

struct coord {
    struct coord_options options;
    struct coord_io io;
    struct journal *journal;
    char *store, *state_dir; // owned
    uint64_t term;
    uint64_t started_ms;
    bool dead;              // fatal was called
    struct sl_error err;    // of the last write, for coord_wrote
    struct list publishing; // publish.c: cuts that are being written
    struct members members;
    struct {
        struct map by_id;   // id -> struct job
        struct list active; // those that have not ended, oldest first
        uint64_t last;      // highest number ever given
    } jobs;

    // Each of one part alone.
    uint64_t attempts;          // leases: of this term; n of the next is more
    uint64_t turn;              // leases: how often one was given
    uint64_t requests;          // cuts: snapshot requests of this term
    uint64_t first_psserver_ms; // place: since when one is there; 0: none is
    uint64_t draws;             // submit: random numbers drawn
    uint64_t ticked_ms;         // coord
    struct map debts;    // stall: process -> struct member_debt, of those gone
    struct map replaced; // coord: processes that a newer one sent away

    // The outcome of a job's cut is in the journal: what waited for it goes on
    // (coord.c), also when publish.c learns that outside of any other call.
    void (*cut_settled)(struct coord *c, struct job *job);
};

// Processes that are remembered after they have gone.
#define COORD_REMEMBERED_MAX 1024

static inline uint64_t coord_now(const struct coord *c)
{
    return sl_now_ms(c->options.clock);
}

// What cannot be gone on with. Returns err->code.
static inline enum sl_err coord_fatal(struct coord *c,
                                      const struct sl_error *err)
{
    if (!c->dead) {
        c->dead = true;
        c->io.fatal(c->io.arg, err);
    }
    return err->code;
}

// SL_OK passes; a failure of the journal, which is in c->err, is fatal. True if
// it was SL_OK.
static inline bool coord_wrote(struct coord *c, enum sl_err rc)
{
    if (rc != SL_OK)
        coord_fatal(c, &c->err);
    return rc == SL_OK;
}

#endif
