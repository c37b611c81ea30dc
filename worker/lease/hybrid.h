// SPDX-License-Identifier: Apache-2.0
// worker/lease/hybrid.h -- this worker's place in a group that computes steps
// together (train.mode hybrid).
//
// A group is a ring (worker/ring/seat.h) without a state: parameters live on
// psservers. Its first member leads: it holds training leases as a worker of an
// asynchronous job does, and pushes what the group has computed. The others
// follow. Each step of the leader's is a fixed series of sums over the group:
//
//   head            which step, or that there is none now      spread
//   parameters      range by range                             spread
//   gradients       range by range, from the last              summed
//   tail            digest, loss and right ones of each        summed
//
// Who computes a member's share of a step is another question (contributor.h):
// a program of layers here (hybrid_ours.h), or one of the user's (lib).
//
// All numbers of head and tail are bytes, one to an element, so no wire rounds
// them. A step that does not get to its end is of no one: the leader computes
// it again, with whoever is there then. A member that is lost, a generation
// that is opened and a lease that is taken end the waits of all.
//
// Threads  the compute thread.
// Memory   hybrid_free; what is spread or summed is the group's until
//          hybrid_wait, or hybrid_leave.
// Units    ranges of the job (job.h).
// Errors   SL_ESTALE, SL_EUNAVAIL, SL_ECORRUPT with h->lost: the generation is
//          over for this member, and hybrid_broken is to be called.
#ifndef WORKER_LEASE_HYBRID_H
#define WORKER_LEASE_HYBRID_H

#include "worker/lease/contributor.h"
#include "worker/lease/lease.h"
#include "worker/ring/say.h"

enum hybrid_stage {
    HYBRID_OUT,   // of any generation
    HYBRID_ASKED, // answered: waits for its beginning
    HYBRID_READY, // waits until all are
    HYBRID_RUNS,
};

struct group;

struct hybrid {
    // Of the ring lease; NULL: there is none, and steps are computed alone.
    struct lease *lease;
    struct contributor *by; // whose shares; of the ring lease
    struct say_job say;
    enum hybrid_stage stage;
    uint64_t opened; // the newest generation that was answered

    // Of the generation.
    struct group *group; // NULL: alone
    uint32_t members, self;
    uint64_t number, waited; // of the next sum; of the first not waited for
    uint64_t sent;           // bytes, as hybrid_sent has told
    bool lost;               // a sum has failed
    bool failed;             // more than that has: the ring lease ends by it
    struct sl_error why;     // failed
    float *digits;           // head and tail; owned
    bool marks;              // of the generation: `present` is summed
    // By variable, how many of the step's micro-batches have a gradient; owned.
    // NULL: all have one.
    float *present;
    uint32_t variables;
};

// What the leader says of a step.
struct hybrid_head {
    bool any; // false: there is none now
    uint64_t closure;
    uint32_t step;
    float loss_scale;
};

// Of a member's share; then of the whole step.
struct hybrid_sums {
    uint64_t digest;
    double loss_sum, right_sum;
};

enum sl_err hybrid_new(struct hybrid **out);
void hybrid_free(struct hybrid *h); // NULL is allowed

// A ring lease begins and ends. `by` outlives it; its `place` is called when a
// generation was joined, `hurry` when one is over.
void hybrid_enter(struct hybrid *h, struct lease *l, struct contributor *by);
void hybrid_exit(struct hybrid *h);

// Takes what the loop has: generations are left, answered, joined.
void hybrid_look(struct hybrid *h);

static inline bool hybrid_leads(const struct hybrid *h)
{
    return h->stage == HYBRID_RUNS && h->self == 0;
}

static inline bool hybrid_follows(const struct hybrid *h)
{
    return h->stage == HYBRID_RUNS && h->self > 0;
}

// The generation is over for this member, for the reason in *err: the member
// that it could not reach is said, or the one that it does not believe.
void hybrid_broken(struct hybrid *h, const struct sl_error *err);
void hybrid_accuse(struct hybrid *h, uint32_t suspect,
                   const struct sl_error *err);

// What went wrong here is not of a generation: the ring lease ends by it, and
// the group goes on without this member. SL_ECANCELED: it is handed back.
void hybrid_fail(struct hybrid *h, enum sl_err rc, const struct sl_error *err);

// ---- a step's sums, in their order, the same on all members

// The leader's head becomes everybody's. Waits.
enum sl_err hybrid_agree(struct hybrid *h, struct hybrid_head *head,
                         struct sl_error *err);

enum sl_err hybrid_spread(struct hybrid *h, float *data, uint64_t count,
                          struct sl_error *err);
enum sl_err hybrid_sum(struct hybrid *h, float *data, uint64_t count,
                       struct sl_error *err);

// Until all sums of numbers below this one (h->number when they were begun) are
// done.
enum sl_err hybrid_wait(struct hybrid *h, uint64_t until, struct sl_error *err);

// What was computed here becomes what the whole step is. Waits for all sums of
// the step.
enum sl_err hybrid_tail(struct hybrid *h, struct hybrid_sums *s,
                        struct sl_error *err);

// What was sent to other hosts since the last call.
uint64_t hybrid_sent(struct hybrid *h);

#endif
