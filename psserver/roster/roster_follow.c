// SPDX-License-Identifier: Apache-2.0
// psserver/roster/roster_follow.c -- shards that follow another psserver (M5),
// and the end of a feed.
#include "psserver/roster/roster_inner.h"

void hosted_feed_drop(struct hosted *h)
{
    feeder_free(h->feeds.feeder);
    if (h->shard != NULL)
        shard_feed_stop(h->shard, h->feeds.order, "it was given up");
    h->feeds = (struct hosted_feeds){NULL, 0, 0};
}

void hosted_follow(struct hosted *h)
{
    if (h->prepares && h->follow != 0 &&
        wire_tag_cmp(h->shard->from, h->at_least) == 0)
        shard_follow_begin(h->shard, h->follow, h->follow_incarnation);
    else
        h->follow = 0;
}

// What has followed its source to the end has all that it counted, and another
// preparation would have dropped it: it is shown as if a snapshot had held it
// (M4).
bool hosted_followed(struct hosted *h)
{
    if (h->state != HOSTED_LOADED || !h->prepares ||
        !shard_followed(h->shard, h->follow))
        return false;
    h->prepares = false;
    h->follow = 0;
    return true;
}
