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
// If it is audited, waits for all parameters. `with` is what gradients depend
// on beside them, such as a loss scale. Errors of hybrid_fresh.
enum sl_err hybrid_audit_begin(struct hybrid_audit *a, struct hybrid_step *s,
                               uint64_t with, struct sl_error *err);

// Begins share shares[i] of an audited step; 0 is the own one, and comes last.
// Returns false if that member has no share of the step: then nothing is to be
// computed.
bool hybrid_audit_share(struct hybrid_audit *a, const struct hybrid_step *s,
                        uint32_t i);

// Takes a range of the share's gradient from the vector, as it is computed; in
// any order, each once. The step is audited, here and in the next.
void hybrid_audit_range(struct hybrid_audit *a, const struct hybrid_step *s,
                        uint32_t range, bool finite);

// Notes the share's result. `kind` is equal where the same inputs give the same
// bits.
void hybrid_audit_note(struct hybrid_audit *a, const struct hybrid_step *s,
                       uint64_t kind);

// Says whether this member's own share has two results, of which one must be
// wrong: the step is to fail.
bool hybrid_audit_differs(const struct hybrid_audit *a);

// Tells the coordinator the results, before the ring lease ends; once. Does
// nothing if there are none.
void hybrid_audit_say(struct hybrid_audit *a, const struct hybrid *h);

// Frees, and leaves all zeroes.
void hybrid_audit_release(struct hybrid_audit *a);

#endif
