// SPDX-License-Identifier: Apache-2.0
// common/base/clock.h -- time, real or driven by hand.
//
// Timeouts and leases use the monotonic clock; the wall clock is for log
// lines and file names only, so that a jump of it changes nothing.
//
// Threads  any, for both kinds; none waits.
// Memory   a clock is borrowed, never NULL; a clock_fake is the caller's.
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

// Returns the clock of this system; never freed.
const struct sl_clock *sl_clock_real(void);

// Returns the clock of this system that goes on while the host is suspended,
// as clocks of other hosts do; never freed.
const struct sl_clock *sl_clock_boot(void);

// Returns the monotonic time of `c` in microseconds.
static inline uint64_t sl_now_us(const struct sl_clock *c)
{
    return c->now_us(c);
}

// Returns the monotonic time of `c` in milliseconds, rounded down.
static inline uint64_t sl_now_ms(const struct sl_clock *c)
{
    return c->now_us(c) / 1000;
}

// Returns the monotonic time of this system in microseconds.
static inline uint64_t sl_real_us(void)
{
    return sl_now_us(sl_clock_real());
}

// Returns the monotonic time of this system in milliseconds, rounded down.
static inline uint64_t sl_real_ms(void)
{
    return sl_now_ms(sl_clock_real());
}

// Returns the wall clock of `c` in microseconds since 1970, UTC.
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

// Sets both times of `f`, in microseconds, before its first use.
void clock_fake_init(struct clock_fake *f, uint64_t now_us, uint64_t wall_us);
// Moves the monotonic and the wall clock of `f` forward by `us` microseconds.
void clock_fake_advance_us(struct clock_fake *f, uint64_t us);
// Moves both forward by `ms` milliseconds.
void clock_fake_advance_ms(struct clock_fake *f, uint64_t ms);

#define CLOCK_RFC3339 28 // bytes of such a time, with the 0

// Writes `wall_us`, microseconds since 1970, to `out` as a time in UTC:
// "2026-07-01T12:34:56.123456Z". Years have four digits.
void sl_rfc3339(char out[CLOCK_RFC3339], uint64_t wall_us);

#endif
