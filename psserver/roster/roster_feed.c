// SPDX-License-Identifier: Apache-2.0
// psserver/roster/roster_feed.c -- shards that are fed to another psserver
// (M5).
#include <inttypes.h>

#include "common/base/fault.h"
#include "common/run/log.h"
#include "psserver/roster/feeder.h"
#include "psserver/roster/roster_inner.h"
#include "state/shard/replica.h"

void roster_replica_out(struct roster *r, const Sluice__V1__ReplicaOut *m)
{
    struct hosted *h = pairmap_get(&r->hosted, m->job, m->shard);

    if (!roster_term_holds(r, m->term, "ReplicaOut") || h == NULL ||
        h->shard == NULL)
        return;
    if (h->feeds.replica && h->feeds.order == m->order)
        hosted_feed_drop(h);
    else // it has begun, and no psserver follows it yet
        shard_feed_stop(h->shard, m->order, "it was given up");
    if (!replica_free(h->shard, m->order))
        return;
    LOG(WARN, "replica left", HOLD_PAIRS " order=%" PRIu64, HOLD_VALUES(h),
        m->order);
    if (r->setup.acked != NULL)
        r->setup.acked(r->setup.acked_arg, h->shard);
}

// How the shard's feed ended; the coordinator decides what follows from it.
static void hosted_feed_ended(void *arg, enum sl_err rc,
                              const struct sl_error *why)
{
    struct hosted *h = arg;

    if (h->feeds.replica) {
        hosted_replica_lost(h, why);
        return;
    }
    if (rc == SL_OK)
        LOG(INFO, "shard fed", HOLD_PAIRS " order=%" PRIu64, HOLD_VALUES(h),
            h->feeds.order);
    else
        LOG(WARN, "feed given up", HOLD_PAIRS " order=%" PRIu64 " why=%s",
            HOLD_VALUES(h), h->feeds.order, why->text);
    FAULT("feed.told");
    hosted_send_feed_ended(h, rc == SL_OK ? "" : why->text);
    hosted_feed_drop(h);
}

static void hosted_replica_ready(void *arg)
{
    hosted_tell_replica(arg);
}

static enum sl_err hosted_feed(struct hosted *h, const Sluice__V1__Feed *m,
                               struct sl_error *err)
{
    const struct roster_setup *setup = &h->roster->setup;
    const struct feeder_setup how = {.links = &h->roster->links,
                                     .shard = h->shard,
                                     .incarnation = m->incarnation,
                                     .order = m->order,
                                     .address = m->address,
                                     .replica = m->replica,
                                     .follow = m->follow,
                                     .acked = setup->acked,
                                     .acked_arg = setup->acked_arg,
                                     .ready = hosted_replica_ready,
                                     .ended = hosted_feed_ended,
                                     .arg = h};

    if (h->state != HOSTED_ADMITTED)
        return sl_fail(err, SL_ESTATE, "the shard is not admitted here");
    if (setup->io == NULL)
        return sl_fail(err, SL_ENOTSUP, "this psserver feeds no shard");
    return feeder_new(&h->feeds.feeder, &how, err);
}

void roster_feed(struct roster *r, const Sluice__V1__Feed *m)
{
    struct hosted *h = pairmap_get(&r->hosted, m->job, m->shard);
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    if (!roster_term_holds(r, m->term, "Feed") || h == NULL ||
        (h->feeds.feeder != NULL && h->feeds.order == m->order))
        return;
    feeder_free(h->feeds.feeder);
    h->feeds = (struct hosted_feeds){.order = m->order,
                                     .incarnation = m->incarnation,
                                     .replica = m->replica};
    rc = hosted_feed(h, m, &err);
    if (rc == SL_OK)
        feeder_start(h->feeds.feeder);
    else
        hosted_feed_ended(h, rc, &err);
}
