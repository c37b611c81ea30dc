// SPDX-License-Identifier: Apache-2.0
// tests/sim/groups.c -- the groups of a hybrid job, as their members are told
// of them: see groups.h.
#include "tests/sim/groups.h"

// What was sent last of the member's group.
struct group_member {
    uint64_t opened;
    uint32_t self, count; // count 0: it has not begun
    uint64_t process[SIM_HOSTS];
    bool goes;
};

void groups_new(struct groups_sent *g)
{
    g->member = calloc(SIM_SESSIONS, sizeof(*g->member));
    T_ASSERT(g->member != NULL);
}

void groups_free(struct groups_sent *g)
{
    free(g->member);
    g->member = NULL;
}

static struct group_member *of(struct groups_sent *g, uint64_t member)
{
    T_LT(member, SIM_SESSIONS);
    if (member >= g->end)
        g->end = member + 1;
    return &g->member[member];
}

// All who are to be in it are asked in one go.
static void opened(struct sim *s, struct groups_sent *g, uint64_t member,
                   const Sluice__V1__RingOpen *m)
{
    struct group_member *o = of(g, member);

    if (m->generation < s->group_newest || m->generation >> 32 != m->term)
        T_FAIL("hybrid: generation %llu is opened by term %llu after %llu",
               (unsigned long long)m->generation, (unsigned long long)m->term,
               (unsigned long long)s->group_newest);
    s->seen.groups += m->generation > s->group_newest;
    s->group_newest = m->generation;
    *o = (struct group_member){.opened = m->generation};
}

// Those who were told of it before, were told the same.
static void compare(const struct groups_sent *g, const struct group_member *o)
{
    for (uint64_t i = 0; i < g->end; i++) {
        const struct group_member *other = &g->member[i];

        if (other == o || other->opened != o->opened || other->count == 0)
            continue;
        T_EQ(other->count, o->count);
        T_NE(other->self, o->self);
        T_EQ(memcmp(other->process, o->process, sizeof(o->process)), 0);
    }
}

static void begun(struct sim *s, struct groups_sent *g, uint64_t member,
                  const Sluice__V1__RingBegin *m)
{
    struct group_member *o = of(g, member);

    T_EQ(o->opened, m->generation);
    T_EQ(o->count, 0);
    T_GE(m->n_ranks, 1);
    T_LE(m->n_ranks, s->knobs.group);
    T_LT(m->self, m->n_ranks);
    o->count = (uint32_t)m->n_ranks;
    o->self = m->self;
    for (uint32_t i = 0; i < o->count; i++) {
        o->process[i] = m->ranks[i]->process;
        if (s->knobs.by_host)
            T_STR(m->ranks[i]->host, m->ranks[0]->host);
        for (uint32_t k = 0; k < i; k++)
            T_NE(o->process[i], o->process[k]);
    }
    compare(g, o);
}

static void gone(struct groups_sent *g, uint64_t member,
                 const Sluice__V1__RingGo *m)
{
    struct group_member *o = of(g, member);

    T_EQ(o->opened, m->generation);
    T_GE(o->count, 1);
    o->goes = true;
}

static void leased(struct groups_sent *g, uint64_t member,
                   const Sluice__V1__Lease *lease)
{
    const struct group_member *o = of(g, member);

    if (lease->kind == SLUICE__V1__LEASE_KIND__LEASE_TRAIN &&
        (!o->goes || o->self != 0))
        T_FAIL("hybrid: closure %llu is leased to a worker that does not lead "
               "a group that goes",
               (unsigned long long)lease->closure);
}

void groups_down(struct sim *s, struct groups_sent *g, uint64_t member,
                 const Sluice__V1__AttendDown *m)
{
    switch (m->kind_case) {
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_OPEN:
        opened(s, g, member, m->ring_open);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_BEGIN:
        begun(s, g, member, m->ring_begin);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_GO:
        gone(g, member, m->ring_go);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_REVOKE:
        if (m->revoke->kind == SLUICE__V1__LEASE_KIND__LEASE_RING)
            *of(g, member) = (struct group_member){0};
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_LEASES:
        for (size_t i = 0; i < m->leases->n_lease; i++)
            leased(g, member, m->leases->lease[i]);
        break;
    default:
        break;
    }
}
