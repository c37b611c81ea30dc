// SPDX-License-Identifier: Apache-2.0
// coordinator/service/costs.h -- what the bearer of a certificate may cost on
// its streams: time of the threads that take its messages, streams, lines of
// the log.
//
// A bearer that sends more than its part of the time allows is slowed down, by
// not being read for a while: nothing is lost, and it still counts as heard of.
// The part is large, since a single worker may have much to say; a burst, as of
// a psserver that shows all its shards, has more.
//
// A certificate for any name is shown by many members: each stream then has a
// time of its own.
//
// Threads  the caller's.
// Memory   one account per certificate. When there are COSTS_ACCOUNTS and one
//          more is wanted, all begin anew: a pointer holds until the next
//          costs_of.
// Units    us of work, ms of a monotonic clock.
// Errors   SL_EBUSY says how often it may, and nothing was counted. `err` may
//          be NULL, no other pointer that is passed.
#ifndef COORDINATOR_SERVICE_COSTS_H
#define COORDINATOR_SERVICE_COSTS_H

#include "common/base/map.h"
#include "common/run/log.h"
#include "proto/access.h"

#define COSTS_PART 2          // a bearer has one of so many parts of the time,
#define COSTS_BURST_US 200000 // and this much more at once,
#define COSTS_WAIT_MS 250     // and is never unread for longer
#define COSTS_OPENS 120       // streams a minute, for a certificate with a name
#define COSTS_OPENS_ANY 6000  // for a certificate for any name
#define COSTS_ACCOUNTS 4096

// The cost of messages.
struct cost_time {
    uint64_t us, at_ms;     // work that its part of the time has not paid yet
    struct log_share lines; // logged while its messages were handled
};

struct cost {
    struct cost_time time;
    struct log_share lines; // logged when it was refused
    struct log_share slow;  // logged when it was slowed down
    uint64_t opens_ms;      // when its present minute began
    unsigned opens;         // streams opened since opens_ms
};

struct costs {
    struct map of; // by role and name
};

// Sets *c to no accounts; allocates nothing.
void costs_init(struct costs *c);

// Frees all accounts; pointers to them are invalid then.
void costs_release(struct costs *c);

// Returns the account of the bearer of this certificate, or the one account of
// all processes of this host without a certificate; makes it if it is missing.
// All bearers of a certificate for any name have one. NULL: no memory.
struct cost *costs_of(struct costs *c, const struct access_who *who);

// Charges `us` of work to `t` (all zeroes at first), and returns for how many
// ms the bearer is not read, 0 to COSTS_WAIT_MS; work that a longer wait would
// pay for is forgiven. `now_ms` is never below that of the call before.
uint32_t cost_time_spend(struct cost_time *t, uint64_t us, uint64_t now_ms);

// Counts one more stream; a local caller's is not counted. SL_EBUSY: too many
// within a minute.
enum sl_err cost_open(struct cost *c, const struct access_who *who,
                      uint64_t now_ms, struct sl_error *err);

#endif
