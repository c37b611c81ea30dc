// SPDX-License-Identifier: Apache-2.0
// psserver/roster/roster_follow.c -- shards that follow another psserver (M5),
// and the end of a feed.
#include <inttypes.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/run/log.h"
#include "psserver/roster/feeder.h"
#include "psserver/roster/roster_inner.h"
#include "state/shard/replica.h"

void hosted_feed_drop(struct hosted *h)
{
    feeder_free(h->feeds.feeder);
    if (h->shard != NULL)
        shard_feed_stop(h->shard, h->feeds.order, "it was given up");
    h->feeds = (struct hosted_feeds){.feeder = NULL};
}

// The feed to a replica has ended. What is bound to it stays so until the
// coordinator says more (P3): it is told again with each heartbeat.
void hosted_replica_lost(struct hosted *h, const struct sl_error *why)
{
    LOG(WARN, "replica missed", HOLD_PAIRS " order=%" PRIu64 " why=%s",
        HOLD_VALUES(h), h->feeds.order, why->text);
    feeder_free(h->feeds.feeder);
    h->feeds.feeder = NULL;
    h->feeds.failure = *why;
    if (h->shard != NULL)
        shard_feed_stop(h->shard, h->feeds.order,
                        "acknowledgements are missing");
    FAULT("replica.missed");
    hosted_send_replica(h, false, why->text);
}

// A stream loses nothing, so what was told is known until the next attachment,
// except how far the replica is behind.
static void hosted_tell_ready(struct hosted *h)
{
    if (h->feeds.told && h->feeds.lag == replica_lag(h->shard))
        return;
    h->feeds.told = true;
    hosted_send_replica(h, true, "");
}

void hosted_tell_replica(struct hosted *h)
{
    struct sl_error over = SL_ERROR_INIT;

    if (!h->feeds.replica || h->shard == NULL ||
        replica_bound(h->shard) != h->feeds.order)
        return;
    if (h->feeds.feeder == NULL) {
        hosted_send_replica(h, false, h->feeds.failure.text);
    } else if (replica_stands(h->shard, h->feeds.order)) {
        sl_fail(&over, SL_ESTATE, "its feed is over");
        hosted_replica_lost(h, &over);
    } else if (replica_has_all(h->shard, h->feeds.order)) {
        hosted_tell_ready(h);
    }
}

void hosted_follow(struct hosted *h)
{
    if (h->prepares && h->follow != 0 &&
        wire_tag_cmp(h->shard->from, h->at_least) == 0)
        shard_follow_begin(h->shard, h->follow, h->follow_incarnation);
    else
        h->follow = 0;
}

// Shows what the shard has from its source as if a snapshot had held it.
static void hosted_show_followed(struct hosted *h)
{
    struct shard_brief brief;

    h->prepares = false;
    h->follow = 0;
    shard_brief(h->shard, true, &brief);
    HISTORY("followed",
            "job=%" PRIu64 " uid=%" PRIx64 " shard=%u from_i=%" PRIu64
            " from_n=%" PRIu64 " steps=%" PRIu64,
            h->spec->job, h->spec->job_uid, h->spec->shard,
            brief.from.incarnation, brief.from.sequence, brief.steps);
}

// What has followed its source to the end has all that it counted, and another
// preparation would have dropped it (M4).
bool hosted_followed(struct hosted *h)
{
    if (h->state != HOSTED_LOADED || !h->prepares ||
        !shard_followed(h->shard, h->follow))
        return false;
    hosted_show_followed(h);
    return true;
}

// The source is lost or unheard: the feed ends here, so the hello tells all
// steps that were counted.
bool hosted_takes_over(struct hosted *h, uint64_t order)
{
    if (h->state != HOSTED_LOADED || !h->prepares || h->follow != order ||
        !shard_follow_stop(h->shard, order))
        return false;
    FAULT("replica.shown");
    hosted_show_followed(h);
    return true;
}
