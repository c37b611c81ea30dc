// SPDX-License-Identifier: Apache-2.0
// common/base/clock.h -- time, real or driven by hand.
//
// Timeouts and leases use the monotonic clock; the wall clock is for log
// lines and file names only, so that a jump of it changes nothing.
//
// Threads  any, for both kinds.
// Units    now_* counts from an arbitrary point; wall_us from 1970, UTC.
#ifndef COMMON_BASE_CLOCK_H
#define COMMON_BASE_CLOCK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct sl_clock {
    uint64_t (*now_us)(const struct sl_clock *c);  // monotonic
    uint64_t (*wall_us)(const struct sl_clock *c); // since 1970
};

const struct sl_clock *sl_clock_real(void);

static inline uint64_t sl_now_us(const struct sl_clock *c)
{
    return c->now_us(c);
}

static inline uint64_t sl_now_ms(const struct sl_clock *c)
{
    return c->now_us(c) / 1000;
}

static inline uint64_t sl_wall_us(const struct sl_clock *c)
{
    return c->wall_us(c);
}

// A clock that stands still until a test moves it. &fake.clock is the clock.
struct clock_fake {
    struct sl_clock clock;
    _Atomic uint64_t now_us;
    _Atomic uint64_t wall_us;
};

void clock_fake_init(struct clock_fake *f, uint64_t now_us, uint64_t wall_us);
void clock_fake_advance_us(struct clock_fake *f, uint64_t us); // both clocks
void clock_fake_advance_ms(struct clock_fake *f, uint64_t ms);

// Writes "2026-07-01T12:34:56.123456Z" to `out`.
#define CLOCK_RFC3339 28
void sl_rfc3339(char out[CLOCK_RFC3339], uint64_t wall_us);

#endif
