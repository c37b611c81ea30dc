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

// Computes this member's share into s->sums and the sums of the group: the
// contributor_ops.share of a contributor that begins with a struct hybrid_ours.
// Within hybrid_ours_step alone, which sets the share, so `step` is that or
// calls it. In an audited step it computes others' shares, too. Errors also
// those of hybrid_step.h.
enum sl_err hybrid_ours_share(struct contributor *by, struct hybrid_step *s,
                              struct sl_error *err);

// Computes a step: contributor_ops.step of such a contributor. Restricts the
// contribution, and what its run reads from now on (input_share), to this
// member's share. Afterwards the contribution has the digest and sums of the
// whole step, and of an audited one the coordinator was told the results
// (hybrid_audit_say).
enum sl_err hybrid_ours_step(struct contributor *by, struct hybrid_step *s,
                             struct sl_error *err);

#endif
