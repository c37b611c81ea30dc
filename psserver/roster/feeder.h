// SPDX-License-Identifier: Apache-2.0
// psserver/roster/feeder.h -- sends the feed of a shard to the psserver that
// follows it (M5).
//
// One call at a time: the records behind those that are acknowledged, until
// little is left. Then the shard stops (M1) and the rest goes, with the end. A
// replica is fed as long as it lasts: once it has what was in the log at the
// start, or the log is half full, the shard's answers are bound to it (P1), so
// that workers wait for a follower that is slower; and each operation goes when
// no call is under way. Where answers do not wait, it goes behind the answer
// (P6).
//
// Threads  the loop; calls end on I/O threads, and go on there.
// Memory   feeder_free frees, when its last call has ended; the address is
//          copied, the rest borrowed until feed_links_release. It holds a
//          reference to the shard, and is a user of a link.
// Units    bytes, ms.
// Errors   a call that fails ends the feed: nothing is sent twice.
#ifndef PSSERVER_ROSTER_FEEDER_H
#define PSSERVER_ROSTER_FEEDER_H

#include "common/base/status.h"
#include "psserver/roster/feed_links.h"
#include "state/shard/shard.h"

#define FEEDER_LEFT_BYTES ((size_t)256 << 10) // in the log when a shard stops
#define FEEDER_CALL_MS 5000
#define FEEDER_REPLICA_MS 2000 // for a call to a replica; and feed_link_enter

struct feeder;

struct feeder_setup {
    struct feed_links *links;
    struct shard *shard;
    uint64_t incarnation, order; // of the shard; of the feed
    const char *address;         // of the psserver that follows
    bool replica;
    bool follow; // with it: the shard's answers do not wait (P6)
    // Hears, on any thread, that a replica has acknowledged more; not called
    // for a feed that is a move. NULL: nothing has to.
    void (*acked)(void *arg, struct shard *shard);
    void *acked_arg;
    // Hears once, on the loop, that a replica has all that was answered (P2).
    // It may call feeder_free. Not called, and may be NULL, unless `replica`.
    void (*ready)(void *arg);
    // Hears once, on the loop and not within feeder_start, how it ended: SL_OK
    // if the follower holds what the shard holds, which has stopped. It may
    // call feeder_free, without which the feeder stays. Not NULL.
    void (*ended)(void *arg, enum sl_err rc, const struct sl_error *why);
    void *arg;
};

// Makes a feeder, which sends nothing yet, of a copy of the setup; takes a
// reference to the shard. setup->links has an `io`. Returns SL_OK; SL_ENOMEM;
// SL_EINVAL: the address is none; else what making a connection says
// (feed_links_take). *out is untouched then.
enum sl_err feeder_new(struct feeder **out, const struct feeder_setup *setup,
                       struct sl_error *err);
// Begins to send: the log of feed setup.order, which the shard has
// (shard_feed_begin). Sets the shard's shard_feed_wake if it is a replica's.
// Once.
void feeder_start(struct feeder *f);
// Ends the sending: cancels the call under way, takes the shard_feed_wake of a
// replica's away, and frees the feeder once that call has ended, which `acked`
// may hear; `ready` and `ended` are not called any more. Waits for a call that
// is being started. The shard's log stays (shard_feed_stop). On the loop. NULL
// is allowed.
void feeder_free(struct feeder *f);

#endif
