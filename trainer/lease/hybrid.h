// SPDX-License-Identifier: Apache-2.0
// trainer/lease/hybrid.h -- this worker's place in a group that computes steps
// together (train.mode hybrid).
//
// A group is a ring (trainer/ring/seat.h) without a state: parameters live on
// psservers. Its first member leads: it holds training leases as a worker of an
// asynchronous job does, and pushes what the group has computed. The others
// follow. Each step of the leader's is a fixed series of sums over the group:
//
//   head            which step, or that there is none now      spread
//   parameters      range by range                             spread
//   rows            of tables (hybrid_rows.h), by micro-batch  spread
//   gradients       range by range, from the last; of rows     summed
//   tail            digest, loss and right ones of each        summed
//
// A member's share of a step comes from a contributor (contributor.h): a
// program of layers here (hybrid_ours.h), or a program of the user's (lib).
//
// All numbers of head and tail are bytes, one to an element, so no wire rounds
// them. A step that does not get to its end counts for no member: the leader
// computes it again, with the members of the next generation. A member that is
// lost, a generation that is opened and a lease that is taken end all waits.
//
// Threads  the compute thread. Sums are begun and waited for while HYBRID_RUNS
//          only.
// Memory   hybrid_free; what is spread or summed is the group's until
//          hybrid_wait, or until the generation is left (hybrid_look,
//          hybrid_broken, hybrid_fail, hybrid_exit).
// Units    ranges of the job (job.h).
// Errors   Those of group_wait, with h->lost: the generation is over for this
//          member, and hybrid_broken is to be called. SL_ENOMEM without
//          h->lost: a sum was not begun. Data of a sum that failed is
//          undefined. `err` may be NULL, but where it is said. A sum whose
//          start failed was given a number all the same: the generation is to
//          be left then (hybrid_fail).
#ifndef TRAINER_LEASE_HYBRID_H
#define TRAINER_LEASE_HYBRID_H

#include "trainer/lease/contributor.h"
#include "trainer/lease/lease.h"
#include "trainer/ring/say.h"

enum hybrid_stage {
    HYBRID_OUT,   // the worker is in no generation
    HYBRID_ASKED, // has answered: waits for the generation's beginning
    HYBRID_READY, // waits until all members are ready
    HYBRID_RUNS,
};

struct hybrid_rows;
struct rank_group;

struct hybrid {
    // The ring lease; NULL: this worker has none and computes steps alone.
    struct lease *lease;
    struct contributor *by; // computes the shares; set with `lease`
    struct say_job say;
    enum hybrid_stage stage;
    uint64_t opened; // the newest generation that was answered

    // The generation.
    struct rank_group *group; // NULL: alone
    uint32_t members, self;
    // Numbers of the next sum, of the first not waited for.
    uint64_t number, waited;
    uint64_t sent;       // bytes that hybrid_sent has told
    bool lost;           // a sum has failed
    bool failed;         // the member has failed: its ring lease ends
    struct sl_error why; // reason for `failed`
    float *digits;       // space for numbers as bytes; owned
    size_t digits_most;  // elements of it
    bool marks;          // `present` is summed in this generation
    // By variable, how many of the step's micro-batches have a gradient; owned.
    // NULL: all have one.
    float *present;
    uint32_t variables;
    struct hybrid_rows *rows; // the caller's; NULL: the job has no tables
};

// A step as its leader announces it.
struct hybrid_head {
    bool any; // false: the leader has no step now
    uint64_t closure;
    uint32_t step;
    float loss_scale;
};

// Sums over a member's share; after hybrid_tail over the whole step.
struct hybrid_sums {
    uint64_t digest;
    double loss_sum, right_sum;
};

// Makes a place that is in no group yet. SL_ENOMEM leaves *out as it was.
enum sl_err hybrid_new(struct hybrid **out);
// Leaves the generation, and waits until no thread uses its data; frees. A ring
// lease that was entered is still there, or hybrid_exit was called. NULL is
// allowed.
void hybrid_free(struct hybrid *h);

// Begins a ring lease: asks the coordinator to join. `by` outlives the lease;
// its `place` is called when a generation was joined, its `hurry` when one is
// over. `l` has a seat (lease_sit). Called when no ring lease is entered: at
// first, or after hybrid_exit.
void hybrid_enter(struct hybrid *h, struct lease *l, struct contributor *by);
// Leaves the generation, without a word to the coordinator, and forgets lease
// and contributor, which stay the caller's, as does the lease's outcome. Waits
// until no thread uses the group's data. May be called without one; `failed`
// and `why` stay until the next hybrid_enter.
void hybrid_exit(struct hybrid *h);

// Takes the news that the loop has brought to the seat of h->lease, which must
// be there: leaves, answers or joins generations, and logs those that it
// joined. Called between steps, when each sum that was begun was waited for or
// has failed: a generation that it leaves takes their numbers with it. Where
// it leaves one it waits until no thread uses the group's data; it waits for
// no other member. If a generation cannot be joined, `failed` is set
// (hybrid_fail).
void hybrid_look(struct hybrid *h);

// Returns true if a generation runs and this worker is its first member.
static inline bool hybrid_leads(const struct hybrid *h)
{
    return h->stage == HYBRID_RUNS && h->self == 0;
}

// Returns true if a generation runs and this worker is another member of it.
static inline bool hybrid_follows(const struct hybrid *h)
{
    return h->stage == HYBRID_RUNS && h->self > 0;
}

// Leaves the generation for the reason in *err (not NULL, here and in the next
// two functions), logs that and reports it, with the member that could not be
// reached, unless the coordinator knows it already (say_is_broken).
void hybrid_broken(struct hybrid *h, const struct sl_error *err);
// Does the same as hybrid_broken, but always reports, and names member
// `suspect` as the cause; UINT32_MAX: none.
void hybrid_accuse(struct hybrid *h, uint32_t suspect,
                   const struct sl_error *err);

// Leaves the generation for an error that is not the generation's, without a
// word to the coordinator: sets `failed`, and `why` to a copy of *err (not
// NULL) with code `rc`. The caller ends the ring lease then: hybrid_exit, and
// from `why` its outcome, handed back for SL_ECANCELED, else failed. The group
// goes on without this member. A second call replaces the reason.
void hybrid_fail(struct hybrid *h, enum sl_err rc, const struct sl_error *err);

// ---- the sums of a step, in their order, the same on all members

// Sends the leader's *head to all members: followers have it in *head
// afterwards. Waits for it. On failure *head is untouched. Does nothing for a
// worker alone.
enum sl_err hybrid_agree(struct hybrid *h, struct hybrid_head *head,
                         struct sl_error *err);

// Begins to copy the leader's `count` elements of `data` to all members, in
// place; hybrid_wait waits for the end. Does nothing for a worker alone.
enum sl_err hybrid_spread(struct hybrid *h, float *data, uint64_t count,
                          struct sl_error *err);
// Begins to replace `count` elements of `data` by their sum over all members,
// in place; hybrid_wait waits for the end. Does nothing for a worker alone.
enum sl_err hybrid_sum(struct hybrid *h, float *data, uint64_t count,
                       struct sl_error *err);

// Waits until all sums with numbers below `until` (h->number when they were
// begun) are done; `until` is at most h->number. On failure the rest are not
// waited for.
enum sl_err hybrid_wait(struct hybrid *h, uint64_t until, struct sl_error *err);

// Makes words of one member known to all: each of the `count` words is not 0 on
// one member at most, and afterwards is the same on all. Any word may come from
// another member. Waits for all sums begun before. Words stay for a worker
// alone, and on failure.
enum sl_err hybrid_gather(struct hybrid *h, uint64_t *words, size_t count,
                          struct sl_error *err);

// Replaces the sums of this member's share in *s by those of the whole step.
// Waits for all sums of the step. *s stays for a worker alone, and on failure.
enum sl_err hybrid_tail(struct hybrid *h, struct hybrid_sums *s,
                        struct sl_error *err);

// Returns how many bytes were sent to other hosts in this generation, since the
// last call of this function if it was called in it.
uint64_t hybrid_sent(struct hybrid *h);

#endif
