// SPDX-License-Identifier: Apache-2.0
// tests/sim/grouper.h -- a worker's place in a group of a hybrid job: the
// trainer's ring lease and the leader's steps (trainer/lease/hybrid_*.h) run on
// it.
//
// A member's share of a step takes knobs.compute_us; its gradient is what
// truth.h says, times its samples. The sum over the group must be that of all
// samples of the step, and each member must have the leader's parameters.
#ifndef TESTS_SIM_GROUPER_H
#define TESTS_SIM_GROUPER_H

#include "tests/sim/hand.h"
#include "trainer/lease/hybrid.h"
#include "trainer/lease/hybrid_audit.h"
#include "trainer/lease/steps.h"

struct grouper {
    struct contributor base;
    struct hand *hand;
    struct hybrid *hybrid;     // owned
    struct hybrid_audit audit; // of the step under way; owned
};

// Makes a worker's place in groups, which is in none.
struct grouper *grouper_new(struct hand *h);

// Frees g, whose threads have ended. NULL is allowed.
void grouper_free(struct grouper *g);

// Runs a ring lease to its outcome; what is leased to a leader runs within it.
void grouper_run(struct grouper *g, struct sync *sync, struct lease *l);

// Returns true while there is a ring lease: then steps are the group's. NULL is
// allowed.
static inline bool grouper_is_in(const struct grouper *g)
{
    return g != NULL && g->hybrid->lease != NULL;
}

// Computes and pushes the step under way with the group that this worker leads.
// Returns SYNC_OK, or the result of what stopped it (trainer/push/sync.h).
// *parted is set as hybrid_lead_begin says: it leads none, and will not.
// *doubtful is set if the sum fails: true, with SYNC_STOPPED, if its own share
// of the step has two results, and the lease is to be handed back.
enum sync_result grouper_step(struct grouper *g, struct steps *t, bool *parted,
                              bool *doubtful);

#endif
