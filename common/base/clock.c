// SPDX-License-Identifier: Apache-2.0
// common/base/clock.c -- the monotonic and wall clocks of the system, and those
// that a test drives.
#include "common/base/clock.h"

#include <stddef.h>
#include <stdio.h>
#include <time.h>

static uint64_t read_us(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static uint64_t real_now(const struct sl_clock *c)
{
    return read_us(CLOCK_MONOTONIC);
}

static uint64_t real_wall(const struct sl_clock *c)
{
    return read_us(CLOCK_REALTIME);
}

static uint64_t boot_now(const struct sl_clock *c)
{
    return read_us(CLOCK_BOOTTIME);
}

const struct sl_clock *sl_clock_real(void)
{
    static const struct sl_clock real = {real_now, real_wall};

    return &real;
}

const struct sl_clock *sl_clock_boot(void)
{
    static const struct sl_clock boot = {boot_now, real_wall};

    return &boot;
}

static const struct clock_fake *fake_of(const struct sl_clock *c)
{
    return (const struct clock_fake *)((const char *)c -
                                       offsetof(struct clock_fake, clock));
}

static uint64_t fake_now(const struct sl_clock *c)
{
    return atomic_load(&fake_of(c)->now_us);
}

static uint64_t fake_wall(const struct sl_clock *c)
{
    return atomic_load(&fake_of(c)->wall_us);
}

void clock_fake_init(struct clock_fake *f, uint64_t now_us, uint64_t wall_us)
{
    f->clock = (struct sl_clock){fake_now, fake_wall};
    atomic_init(&f->now_us, now_us);
    atomic_init(&f->wall_us, wall_us);
}

void clock_fake_advance_us(struct clock_fake *f, uint64_t us)
{
    atomic_fetch_add(&f->now_us, us);
    atomic_fetch_add(&f->wall_us, us);
}

void clock_fake_advance_ms(struct clock_fake *f, uint64_t ms)
{
    clock_fake_advance_us(f, ms * 1000);
}

void sl_rfc3339(char out[CLOCK_RFC3339], uint64_t wall_us)
{
    time_t seconds = (time_t)(wall_us / 1000000);
    char text[64];
    struct tm tm;
    size_t n;

    gmtime_r(&seconds, &tm);
    n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + n, sizeof(text) - n, ".%06uZ",
             (unsigned)(wall_us % 1000000));
    snprintf(out, CLOCK_RFC3339, "%.27s", text);
}
