// SPDX-License-Identifier: Apache-2.0
// trainer/lease/hybrid_audit.h -- audited steps of a group: which shares a
// member computes, and what is said of each (A1, A5).
//
// In an audited closure (plan/audited.h) a member computes the shares of the
// next two members before its own, from the parameters that the leader has
// spread; nothing of them is summed (A3). When the step was summed, the member
// tells the coordinator what it got. Members of one host are no independent
// witnesses, so in a job that groups them by host a member computes its own
// share twice instead: if the results differ, the member leaves the group
// before its share is summed to its end, and is suspect by its own word.
//
//   hybrid_audit_begin        which shares; none if the step is not audited
//     hybrid_audit_share      a share, the own one last
//       hybrid_audit_range    a range of its gradient
//     hybrid_audit_note       its result
//   hybrid_audit_differs      the own share has two results
//   hybrid_audit_say
//
// Threads  the compute thread.
// Memory   hybrid_audit_release frees; all zeroes is a member that has computed
//          nothing yet. What is passed is borrowed for the call.
// Units    members of the generation, from 0; ranges of the sync.
// Errors   without memory results are left out.
#ifndef TRAINER_LEASE_HYBRID_AUDIT_H
#define TRAINER_LEASE_HYBRID_AUDIT_H

#include "trainer/lease/hybrid_step.h"
#include "trainer/lease/ring_repeats.h"

struct hybrid_audit {
    struct ring_repeats results;
    uint64_t shares[AUDITED_WORKERS]; // of which members: the own one first
    uint32_t count;                   // 0: the step is not audited
    uint32_t at;                      // index of the share under way
    bool twice;                       // `shares` is the own one, two times
    uint64_t params;                  // digest of what all shares depend on
};

// Begins a step, whose parameters are being spread, and forgets the one before.
// Sets a->count, 0 if the step is not audited, and a->shares. If it is audited,
// waits for all parameters. `with`: a digest of what gradients depend on beside
// them, such as a loss scale. Returns SL_OK, or an error of hybrid_fresh.
enum sl_err hybrid_audit_begin(struct hybrid_audit *a, struct hybrid_step *s,
                               uint64_t with, struct sl_error *err);

// Begins the share of member a->shares[i] in an audited step, i below a->count;
// 0 is the own one, and comes last. Returns false if that member has no share
// of the step: then nothing is to be computed.
bool hybrid_audit_share(struct hybrid_audit *a, const struct hybrid_step *s,
                        uint32_t i);

// Reads range number `range` of the share's gradient from the sync's vector
// (s->sync->grads), when it was computed; in any order, each once. `finite`:
// all its elements are. The step is audited, here and in the next.
void hybrid_audit_range(struct hybrid_audit *a, const struct hybrid_step *s,
                        uint32_t range, bool finite);

// Notes the result of the share under way, after all its ranges, and after the
// gradients of its rows were added (job_tables_add), which it merges
// (job_tables_merge). `kind` is equal where the same inputs give the same bits.
void hybrid_audit_note(struct hybrid_audit *a, const struct hybrid_step *s,
                       uint64_t kind);

// Returns true if this member computed its own share twice, with different
// results: one must be wrong, and the step is to fail.
bool hybrid_audit_differs(const struct hybrid_audit *a);

// Sends the coordinator the results, before the ring lease ends; once per step.
// Does nothing if the step is not audited.
void hybrid_audit_say(struct hybrid_audit *a, const struct hybrid *h);

// Frees the results, and leaves all zeroes.
void hybrid_audit_release(struct hybrid_audit *a);

#endif
