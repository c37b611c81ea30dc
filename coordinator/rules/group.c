// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/group.c -- places in groups, found and given up.
#include "coordinator/rules/group.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"

void groups_init(struct groups *g, uint32_t size, bool by_host)
{
    assert(size > 0 && size <= 64);
    *g = (struct groups){.size = size, .by_host = by_host};
}

void groups_release(struct groups *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        ring_release(&g->group[i]->ring);
        sl_free(g->group[i]);
    }
    sl_free(g->group);
    memset(g, 0, sizeof(*g));
}

static bool group_has_place_for(const struct groups *g,
                                const struct group *group, const char *host)
{
    return group_places_taken(group) < g->size &&
           (group->taken == 0 || !g->by_host || strcmp(group->host, host) == 0);
}

uint64_t groups_place(const struct groups *g, const char *host)
{
    uint32_t best = g->count, most = 0;

    for (uint32_t i = 0; i < g->count; i++) {
        const struct group *group = g->group[i];

        if (!group_has_place_for(g, group, host))
            continue;
        if (best < g->count && group_places_taken(group) <= most)
            continue;
        best = i;
        most = group_places_taken(group);
    }
    return (uint64_t)best * g->size +
           (best == g->count ? 0 : __builtin_ctzll(~g->group[best]->taken));
}

static enum sl_err groups_add_group(struct groups *g)
{
    struct group *group = sl_calloc(1, sizeof(*group));
    uint32_t space = g->space == 0 ? 8 : g->space * 2;
    struct group **more = g->group;

    if (group == NULL)
        return SL_ENOMEM;
    if (g->count == g->space) {
        more = sl_realloc_array(g->group, space, sizeof(*more));
        if (more == NULL) {
            sl_free(group);
            return SL_ENOMEM;
        }
        g->group = more;
        g->space = space;
    }
    ring_init(&group->ring, 0, 1, RING_SETTLE_MS, 0);
    g->group[g->count++] = group;
    return SL_OK;
}

enum sl_err groups_take(struct groups *g, uint64_t place, const char *host)
{
    struct group *group;

    if (place / g->size == g->count && groups_add_group(g) != SL_OK)
        return SL_ENOMEM;
    group = groups_at(g, place);
    assert(group != NULL);
    if (group->taken == 0)
        snprintf(group->host, sizeof(group->host), "%s", host);
    group->taken |= UINT64_C(1) << place % g->size;
    return SL_OK;
}

void groups_leave(struct groups *g, uint64_t place, uint64_t member)
{
    struct group *group = groups_at(g, place);

    if (group == NULL)
        return;
    group->taken &= ~(UINT64_C(1) << place % g->size);
    (void)ring_leave(&group->ring, member);
}

struct group *groups_at(const struct groups *g, uint64_t place)
{
    uint64_t at = g->size == 0 ? g->count : place / g->size;

    return at < g->count ? g->group[at] : NULL;
}

static bool group_is_settled(const struct group *g)
{
    return g->ring.state == RING_RUNNING && !g->ring.torn &&
           g->ring.count == group_places_taken(g) &&
           g->ring.members == g->ring.count;
}

static bool group_fits_into(const struct groups *g, const struct group *small,
                            const struct group *other)
{
    uint32_t some = group_places_taken(small), more = group_places_taken(other);

    return small != other && some <= more && some + more <= g->size &&
           (!g->by_host || strcmp(small->host, other->host) == 0) &&
           group_is_settled(other);
}

struct group *groups_spare(const struct groups *g)
{
    for (uint32_t i = g->count; i-- > 0;) {
        for (uint32_t k = 0; group_is_settled(g->group[i]) && k < g->count;
             k++) {
            if (group_fits_into(g, g->group[i], g->group[k]))
                return g->group[i];
        }
    }
    return NULL;
}

bool group_leads(const struct group *g, uint64_t member)
{
    const struct ring_rank *first = ring_member(&g->ring, 0);

    return g->ring.state == RING_RUNNING && !g->ring.torn && first != NULL &&
           first->member == member;
}
