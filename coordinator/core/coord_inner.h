// SPDX-License-Identifier: Apache-2.0
// coordinator/core/coord_inner.h -- struct coord: what all parts of the core
// stand on.
//
// From the lowest: each calls only those above it in this list.
//
//   job, resume      a job and its state; may a job start from a cut
//   coord_inner      journal, clock, members; the end of it all
//   jobs             the table of jobs; their counters
//   send             messages downwards
//   leases           closures in work: given, ended, revoked
//   excluded         workers that a job gives nothing for a while
//   evaluations      of cuts, epoch by epoch
//   publish, cuts    snapshots -> manifest -> what to keep
//   status, status_final   what is said of one job
//   end              the end of a job
//   blame            attempts that ended badly; poison
//   gone, stall      workers that are lost, or get nowhere
//   reports          what workers say of their leases
//   shards           hellos, admission, the map
//   place, resumed   which psserver takes which shard; the cut it starts from
//   advance          what moves a job on
//   serve            who is given which lease
//   submit, calls    what clients ask
//   recover          from the journal
//   coord            who comes, speaks and goes; time
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

struct coord_link; // shared with work that may end after us
struct job;

struct coord {
    struct coord_options options;
    struct coord_io io;
    struct journal *journal;
    char *store, *state_dir; // owned
    uint64_t term;
    uint64_t started_ms;
    bool dead; // fatal was called
    struct coord_link *link;
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
enum sl_err coord_fatal(struct coord *c, const struct sl_error *err);

// SL_OK passes; a failure of the journal is fatal. True if it was SL_OK.
bool coord_wrote(struct coord *c, enum sl_err rc, const struct sl_error *err);

#endif
