// SPDX-License-Identifier: Apache-2.0
// worker/lease/hybrid_ours.h -- a member of a group that computes its share of
// a step by a program of layers, here or on a device.
//
// Moving statistics are as if one worker had computed the step. In an audited
// step the shares of other members are computed, too (hybrid_audit.h).
//
// Threads  the compute thread.
// Memory   What the fields point at is the caller's.
// Errors   those of contribution.h; SL_ECANCELED: this member's share of an
//          audited step has two results, and the coordinator was told.
#ifndef WORKER_LEASE_HYBRID_OURS_H
#define WORKER_LEASE_HYBRID_OURS_H

#include "worker/lease/contribution.h"
#include "trainer/lease/hybrid_audit.h"

struct hybrid_ours {
    struct contributor base;   // first
    struct contribution *c;    // begun; no micro-batch was got yet
    struct hybrid_audit audit; // owned; hybrid_audit_release
};

// Computes the share of this member of the step that hybrid_ours_step runs
// (contributor_ops.share, which that calls; `by` is a struct hybrid_ours).
// Each range's gradient goes to the group's sum once it is whole. s->sums is
// then this member's digest, losses and right ones; after an error, what the
// contribution has by then. In an audited step it computes others' shares, too.
enum sl_err hybrid_ours_share(struct contributor *by, struct hybrid_step *s,
                              struct sl_error *err);

// Computes a step: contributor_ops.step of such a contributor. Restricts the
// contribution, and what its run reads from now on (input_share), to this
// member's share. Afterwards the contribution has the digest and sums of the
// whole step.
enum sl_err hybrid_ours_step(struct contributor *by, struct hybrid_step *s,
                             struct sl_error *err);

#endif
