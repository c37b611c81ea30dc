// SPDX-License-Identifier: Apache-2.0
// coordinator/service/costs.h -- what the bearer of a certificate may cost on
// its streams: time of the threads that take its messages, streams, lines of
// the log.
//
// Who sends more than is taken in its part of the time is slowed down, by not
// reading it for a while: nothing is lost, and it is heard of as before. A part
// is large, since who works alone may have much to say; a burst, as of a
// psserver that shows all its shards, has more.
//
// A certificate for any name is shown by many: the time is then each stream's.
//
// Threads  the caller's.
// Memory   one account per certificate. When there are COSTS_ACCOUNTS all begin
//          anew: a pointer holds until the next costs_of.
// Units    us of work, ms of a monotonic clock.
// Errors   SL_EBUSY says how often it may; NULL: no memory.
#ifndef COORDINATOR_SERVICE_COSTS_H
#define COORDINATOR_SERVICE_COSTS_H

#include "common/base/map.h"
#include "common/run/log.h"
#include "proto/access.h"

#define COSTS_PART 2          // it has one of so many parts of the time,
#define COSTS_BURST_US 200000 // beside so much at once,
#define COSTS_WAIT_MS 250     // and waits no longer
#define COSTS_OPENS 120       // streams a minute, of a name
#define COSTS_OPENS_ANY 6000  // of a certificate for any
#define COSTS_ACCOUNTS 4096

// What messages cost.
struct cost_time {
    uint64_t us, at_ms;     // of work that its part has not paid yet
    struct log_share lines; // that were written while they were handled
};

struct cost {
    struct cost_time time;
    struct log_share lines; // of what it was refused
    struct log_share slow;  // of its being slowed down
    uint64_t opens_ms;
    unsigned opens; // since then
};

struct costs {
    struct map of; // by role and name
};

void costs_init(struct costs *c);
void costs_release(struct costs *c);

// The account of who shows this certificate; of all of this host who show none.
struct cost *costs_of(struct costs *c, const struct access_who *who);

// So much was done for it: for how long it is not read.
uint32_t cost_time_spend(struct cost_time *t, uint64_t us, uint64_t now_ms);

// It opens one more stream. SL_EBUSY: too many within a minute.
enum sl_err cost_open(struct cost *c, const struct access_who *who,
                      uint64_t now_ms, struct sl_error *err);

#endif
