// SPDX-License-Identifier: Apache-2.0
// coordinator/service/costs.c -- accounts of certificates.
#include "coordinator/service/costs.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"

#define MINUTE_MS 60000

void costs_init(struct costs *c)
{
    map_init(&c->of);
}

void costs_release(struct costs *c)
{
    map_release_owned(&c->of);
}

struct cost *costs_of(struct costs *c, const struct access_who *who)
{
    uint64_t key = sl_hash64(who->name, strlen(who->name)) + who->role;
    struct cost *one = map_get(&c->of, key);

    if (one != NULL)
        return one;
    if (c->of.len >= COSTS_ACCOUNTS)
        map_release_owned(&c->of);
    one = sl_calloc(1, sizeof(*one));
    if (one == NULL || map_put(&c->of, key, one) == SL_OK)
        return one;
    sl_free(one);
    return NULL;
}

uint32_t cost_time_spend(struct cost_time *t, uint64_t us, uint64_t now_ms)
{
    uint64_t paid = (now_ms - t->at_ms) * 1000 / COSTS_PART;
    const uint64_t most = COSTS_BURST_US + COSTS_WAIT_MS * 1000 / COSTS_PART;

    t->us = (t->us > paid ? t->us - paid : 0) + us;
    t->at_ms = now_ms;
    if (t->us > most)
        t->us = most;
    if (t->us <= COSTS_BURST_US)
        return 0;
    return (uint32_t)((t->us - COSTS_BURST_US) * COSTS_PART / 1000);
}

enum sl_err cost_open(struct cost *c, const struct access_who *who,
                      uint64_t now_ms, struct sl_error *err)
{
    bool any = strcmp(who->name, ACCESS_ANY) == 0;
    unsigned most = any ? COSTS_OPENS_ANY : COSTS_OPENS;

    if (who->role == ACCESS_LOCAL)
        return SL_OK;
    if (c->opens == 0 || now_ms - c->opens_ms >= MINUTE_MS) {
        c->opens_ms = now_ms;
        c->opens = 0;
    }
    if (c->opens == most)
        return sl_fail(err, SL_EBUSY,
                       "%s '%s' has attached %u times within a minute, as "
                       "often as its certificate may; try again later",
                       access_role_name(who->role), who->name, most);
    c->opens++;
    return SL_OK;
}
