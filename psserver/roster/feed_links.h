// SPDX-License-Identifier: Apache-2.0
// psserver/roster/feed_links.h -- connections to psservers that follow shards
// of this one.
//
// All shards that an address follows share a few connections: a replica is fed
// as long as its job lives, and a host may have so many connections alone. They
// are as many as the I/O threads, up to FEED_LINKS_MOST, since the follower
// applies what comes over one on one thread.
//
// Threads  the loop; feed_link_enter and feed_link_leave: any.
// Memory   a link is freed with its last user.
// Units    bytes, ms.
// Errors   SL_EINVAL: it is no address; SL_EDENIED: without certificates it
//          must be a local one; those of reading the certificates; SL_ENOMEM.
//          `err` may be NULL.
#ifndef PSSERVER_ROSTER_FEED_LINKS_H
#define PSSERVER_ROSTER_FEED_LINKS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/list.h"
#include "common/base/status.h"
#include "common/net/rpc.h"
#include "common/run/loop.h"

#define FEED_LINKS_MOST 4

struct feed_links {
    struct loop *loop;
    struct rpc_io *io;         // NULL: nothing is fed
    const struct rpc_tls *tls; // borrowed
    struct list links;         // those that have users
    bool ending;               // feed_links_release waits for them
};

struct feed_link {
    struct feed_links *links;
    struct list_node node;
    struct rpc_channel *channel; // NULL: feed_links_release has freed it
    unsigned number; // number of the link, among the links to its address
    unsigned users;
    _Atomic size_t bytes; // of calls under way
    char address[];
};

// Makes an empty set, which must not move; loop, io and tls (NULL: no
// certificates) are borrowed until feed_links_release.
void feed_links_init(struct feed_links *l, struct loop *loop, struct rpc_io *io,
                     const struct rpc_tls *tls);
// Ends all connections and their calls, which are answered by an error, and
// runs the loop until the last user is gone (feed_link_put); none comes any
// more. Not from a handler of the loop.
void feed_links_release(struct feed_links *l);

// Finds or makes a link to the address, and counts the caller as a user of it,
// until feed_link_put. Callers of several `which`, any numbers, share
// FEED_LINKS_MOST links at most. l->io is not NULL. `address` is copied;
// nothing is dialled before the first call. Returns SL_OK; on failure *out is
// as it was.
enum sl_err feed_links_take(struct feed_link **out, struct feed_links *l,
                            const char *address, uint64_t which,
                            struct sl_error *err);
// Takes one user off a link; the last one closes its connection, which cancels
// calls and waits for their callbacks, and frees it, and stops the loop
// (loop_stop) if feed_links_release waits.
void feed_link_put(struct feed_link *link);

// Notes that a call of so many bytes begins. Returns the ms to add to its
// deadline, for the bytes of the calls that are before it. feed_link_leave
// follows when it has ended.
int64_t feed_link_enter(struct feed_link *link, size_t bytes);
// Notes that a call of so many bytes has ended.
void feed_link_leave(struct feed_link *link, size_t bytes);

#endif
