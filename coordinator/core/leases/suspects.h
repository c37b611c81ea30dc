// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/suspects.h -- the audit of hosts: results of audited
// rounds are compared, and a worker that computed one wrongly is suspect.
//
// A slot is a contribution to a round, or a member's share of a step of its
// group; a result is what a worker computed of one. Right results of hosts of
// one kind have the same bits (rules/votes.h).
//
// A suspect worker is drained (drains.h) with `who` "": it is given nothing, of
// any job, whichever process has its name, until it is undrained. Its leases
// are taken back at once. The journal holds that; the votes are volatile. No
// count depends on any of it (A3).
//
// Threads  the loop.
// Memory   messages are borrowed for the call; job->audit is the job's. No
//          pointer is NULL.
// Errors   a journal that fails is fatal (c->dead). Without memory nothing is
//          compared. If a thousand workers are suspect already, or DRAINS_MAX
//          members are drained, the event alone says which worker is wrong.
#ifndef COORDINATOR_CORE_LEASES_SUSPECTS_H
#define COORDINATOR_CORE_LEASES_SUSPECTS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/rules/differences.h"

// What audits of a job came to.
struct job_audit {
    struct votes votes;
    struct differences differences;       // that have found no worker wrong yet
    uint64_t compared, differed, decided; // slots; see AuditStatus
    // worker -> struct contributed, owned (tainted.h)
    struct map contributed;
};

// Compares the results that m's completion of a slot has of audited slots with
// those of other workers; m had the lease of that slot. Results of slots that m
// was not to compute are ignored. A worker that is found wrong becomes suspect;
// where m's results are right, what m contributed before is not in doubt
// (tainted_clean). In modes without rounds: suspects_take_own.
void suspects_take(struct coord *c, struct member *m, struct job *job,
                   const Sluice__V1__Complete *message);

// Compares the `n` results that m says it got of steps of audited closure
// `closure`, of a job in a mode without rounds (mode.by_round), of which it had
// the lease: two of one kind and of the same inputs that differ make m suspect
// by its own word (A5), two that agree are noted by tainted_clean. Counts what
// came of it, as suspects_vote does. Anything else is ignored, as are more or
// fewer than two.
void suspects_take_own(struct coord *c, struct member *m, struct job *job,
                       uint64_t closure, Sluice__V1__Repeat *const *repeats,
                       size_t n);

// Returns true if the worker of that name is suspect: drained by an audit.
bool suspects_is(const struct coord *c, const char *name);

// Makes the worker of that name, attached or not, suspect: logs why, drains it,
// which is journalled and replaces an admin's drain, lists what it contributed
// (tainted_keep), and then takes its leases back (A4): pointers to these works
// may be gone then. If it cannot be drained, only the log and the event are
// there. Its event is of `job`, or of none if that is NULL.
void suspects_make(struct coord *c, const char *name, const struct job *job,
                   const char *why);

enum suspects_said { SUSPECTS_NOTHING, SUSPECTS_AGREES, SUSPECTS_DIFFERS };

// Compares a result of m, of a slot that it was to compute (A1), with those of
// other workers, and makes a worker suspect if it is wrong by that. Counts what
// came of it (job->audit, figures_audit); a difference is logged, and an event,
// and has m meet other workers next, if no worker was found wrong (m->yields).
// `round` is the number of slots in a round of the job, as in votes_take.
// Returns SUSPECTS_DIFFERS if a result of an independent worker differs from
// it, or a worker was found wrong; else SUSPECTS_AGREES if one agrees;
// SUSPECTS_NOTHING if there is none to compare, m's result is not taken
// (votes_take), as where one of that slot was before, or m is suspect already.
enum suspects_said suspects_vote(struct coord *c, struct member *m,
                                 struct job *job, uint32_t round,
                                 const Sluice__V1__Repeat *repeat);

// Returns the number of workers that are suspect, attached or not.
uint64_t suspects_count(const struct coord *c);

// Sets m->audit to what the job's audits came to; leaves it NULL if the job is
// not audited, or without memory.
void suspects_fill(Sluice__V1__JobStatus *m, const struct job *job);

#endif
