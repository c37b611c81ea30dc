// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/ring.c -- the generations of a ring, as a state machine
// that only its caller's events move.
#include "coordinator/rules/ring.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

void ring_init(struct ring *r, uint64_t generation, uint32_t min,
               uint32_t settle_ms, uint64_t most)
{
    *r = (struct ring){
        .generation = generation,
        .min = min,
        .settle_ms = settle_ms,
        .most = most,
    };
}

void ring_release(struct ring *r)
{
    sl_free(r->rank);
    memset(r, 0, sizeof(*r));
}

// ---- ranks and members

struct ring_rank *ring_find(const struct ring *r, uint64_t member)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->rank[i].member == member)
            return &r->rank[i];
    }
    return NULL;
}

struct ring_rank *ring_member(const struct ring *r, uint32_t index)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->rank[i].in && index-- == 0)
            return &r->rank[i];
    }
    return NULL;
}

uint32_t ring_index(const struct ring *r, uint64_t member)
{
    uint32_t index = 0;

    for (uint32_t i = 0; i < r->count; i++) {
        if (r->rank[i].member == member && r->rank[i].in)
            return index;
        index += r->rank[i].in;
    }
    return UINT32_MAX;
}

bool ring_lanes(const struct ring *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->rank[i].in && !r->rank[i].lanes)
            return false;
    }
    return r->members > 0;
}

bool ring_marks(const struct ring *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->rank[i].in && !r->rank[i].marks)
            return false;
    }
    return r->members > 0;
}

bool ring_tokens(const struct ring *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->rank[i].in && !r->rank[i].tokens)
            return false;
    }
    return r->members > 0;
}

static enum sl_err ring_grow_ranks(struct ring *r)
{
    uint32_t space = r->space == 0 ? 8 : r->space * 2;
    struct ring_rank *more;

    if (r->count < r->space)
        return SL_OK;
    more = sl_realloc_array(r->rank, space, sizeof(*more));
    if (more == NULL)
        return SL_ENOMEM;
    r->rank = more;
    r->space = space;
    return SL_OK;
}

enum sl_err ring_join(struct ring *r, uint64_t member, uint64_t process,
                      uint64_t now_ms)
{
    enum sl_err rc = ring_grow_ranks(r);

    if (rc != SL_OK)
        return rc;
    (void)ring_leave(r, member);
    r->rank[r->count++] = (struct ring_rank){
        .member = member,
        .process = process,
        .joined_ms = now_ms,
    };
    return SL_OK;
}

bool ring_leave(struct ring *r, uint64_t member)
{
    struct ring_rank *rank = ring_find(r, member);

    if (rank == NULL)
        return false;
    if (rank->in) {
        r->members--;
        r->torn = true;
    }
    r->count--;
    memmove(rank, rank + 1,
            (size_t)(&r->rank[r->count] - rank) * sizeof(*rank));
    // The accused rank is gone too: nothing is left that a new generation would
    // have to wait for.
    if (r->members == 0) {
        r->state = RING_NONE;
        r->accused_ms = 0;
    }
    return true;
}

// ---- newcomers, and when a generation is due

struct ring_rank *ring_copier(const struct ring *r)
{
    if (r->state != RING_RUNNING || r->torn || r->members < r->min)
        return NULL;
    for (uint32_t i = 0; i < r->count; i++) {
        struct ring_rank *rank = &r->rank[i];

        if (!rank->in && rank->able && !rank->copies)
            return rank;
    }
    return NULL;
}

void ring_copies(struct ring *r, struct ring_rank *rank)
{
    assert(r->state == RING_RUNNING && !rank->in);
    rank->copies = true;
    rank->able = false; // once per generation
}

enum sl_err ring_copied(struct ring *r, uint64_t member, uint64_t generation)
{
    struct ring_rank *rank = ring_find(r, member);

    if (rank == NULL || rank->in || !rank->copies ||
        generation != r->generation)
        return SL_ESTALE;
    rank->copies = false;
    return SL_OK;
}

// Says whether a newcomer still copies, so that those that come together are
// members of one generation.
static bool copies(const struct ring *r, uint64_t now_ms)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (!r->rank[i].in && r->rank[i].copies &&
            now_ms < r->rank[i].joined_ms + RING_COPY_MS)
            return true;
    }
    return false;
}

// Returns since when the first newcomer waits; UINT64_MAX: none does.
static uint64_t waits_since(const struct ring *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (!r->rank[i].in)
            return r->rank[i].joined_ms;
    }
    return UINT64_MAX;
}

// A generation that has begun is not disturbed while it copies its base: a rank
// that comes meanwhile is a member of the next one.
bool ring_due(const struct ring *r, uint64_t now_ms)
{
    uint64_t since = waits_since(r);

    // The other members wait for the one that left. One that is accused goes
    // first.
    if (r->state != RING_NONE && r->torn)
        return true;
    if (r->accused_ms != 0)
        return false;
    if (since == UINT64_MAX || r->count < r->min)
        return false;
    if (r->state == RING_NONE)
        return now_ms >= since + r->settle_ms;
    if (r->members < r->min)
        return true;
    return r->state == RING_RUNNING && now_ms >= since + RING_SETTLE_MS &&
           !copies(r, now_ms);
}

// ---- a generation

void ring_open(struct ring *r, uint64_t generation)
{
    assert(generation > r->generation && r->count > 0);
    for (uint32_t i = 0; i < r->count; i++) {
        struct ring_rank *rank = &r->rank[i];

        rank->in = true;
        rank->copies = rank->able = false;
        rank->answered = rank->holds = rank->ready = rank->skipped = false;
        rank->tag = (struct wire_tag){0, 0};
        rank->rounds = rank->accuses = 0;
    }
    r->generation = generation;
    r->last = r->most;
    r->members = r->count;
    r->state = RING_OPENING;
    r->torn = false;
    r->accused_ms = 0;
}

// Returns the member's rank if it speaks of the present generation, or NULL.
static struct ring_rank *speaker(const struct ring *r, uint64_t member,
                                 uint64_t generation)
{
    struct ring_rank *rank = ring_find(r, member);

    return rank != NULL && rank->in && generation == r->generation ? rank
                                                                   : NULL;
}

bool ring_may_have(const struct ring *r, struct wire_tag tag)
{
    uint64_t most = tag.incarnation == 0               ? 0
                    : tag.incarnation == r->generation ? r->last
                                                       : r->most;

    return tag.incarnation <= r->generation && tag.sequence <= most;
}

enum sl_err ring_answer(struct ring *r, uint64_t member, uint64_t generation,
                        struct wire_tag tag)
{
    struct ring_rank *rank = speaker(r, member, generation);

    if (rank == NULL || r->state != RING_OPENING || rank->answered)
        return SL_ESTALE;
    if (tag.incarnation >= generation)
        return SL_EINVAL; // it has joined no such generation here
    if (!ring_may_have(r, tag))
        return SL_ERANGE;
    rank->tag = tag;
    rank->answered = true;
    return SL_OK;
}

bool ring_answered(const struct ring *r)
{
    if (r->state != RING_OPENING || r->members < r->min)
        return false;
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->rank[i].in && !r->rank[i].answered)
            return false;
    }
    return true;
}

struct wire_tag ring_highest(const struct ring *r)
{
    struct wire_tag tag = {0, 0};

    for (uint32_t i = 0; i < r->count; i++) {
        if (r->rank[i].in && wire_tag_cmp(r->rank[i].tag, tag) > 0)
            tag = r->rank[i].tag;
    }
    return tag;
}

void ring_choose(struct ring *r, struct wire_tag cut, bool back)
{
    struct wire_tag base = ring_highest(r);

    assert(ring_answered(r));
    r->base_is_file = base.incarnation == 0;
    if (back || wire_tag_cmp(cut, base) > 0) {
        base = cut;
        r->base_is_file = true;
    }
    r->base = base;
    r->base_skipped = false;
    for (uint32_t i = 0; i < r->count; i++) {
        struct ring_rank *rank = &r->rank[i];

        // Equal rounds of another generation are another state.
        rank->holds =
            rank->in && !r->base_is_file && wire_tag_cmp(rank->tag, base) == 0;
        rank->rounds = base.sequence;
        r->base_skipped = r->base_skipped || (rank->holds && rank->skipped);
    }
    r->progress = r->highest = base.sequence; // R5
    r->state = RING_COPYING;
}

enum sl_err ring_ready(struct ring *r, uint64_t member, uint64_t generation,
                       struct wire_tag tag)
{
    struct ring_rank *rank = speaker(r, member, generation);

    if (rank == NULL || r->state != RING_COPYING || rank->ready)
        return SL_ESTALE;
    if (tag.incarnation != generation || tag.sequence != r->base.sequence)
        return SL_EINVAL;
    rank->ready = true;
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->rank[i].in && !r->rank[i].ready)
            return SL_OK;
    }
    r->state = RING_RUNNING;
    return SL_OK;
}

// Returns the rounds that all members have reported (R5). A rank that has left
// does not count, and neither does what it alone reported: its generation is
// over, and the next sets progress to its base.
static uint64_t reported_by_all(const struct ring *r)
{
    uint64_t rounds = UINT64_MAX;

    for (uint32_t i = 0; i < r->count; i++) {
        if (r->rank[i].in && r->rank[i].rounds < rounds)
            rounds = r->rank[i].rounds;
    }
    return rounds;
}

enum sl_err ring_step(struct ring *r, uint64_t member, uint64_t generation,
                      uint64_t rounds)
{
    struct ring_rank *rank = speaker(r, member, generation);

    if (rank == NULL || r->state != RING_RUNNING || r->torn)
        return SL_ESTALE;
    if (rounds < r->base.sequence)
        return SL_EINVAL;
    if (rounds > r->last)
        return SL_ERANGE;
    if (rounds > rank->rounds)
        rank->rounds = rounds;
    if (rounds > r->highest)
        r->highest = rounds;
    r->progress = reported_by_all(r);
    return SL_OK;
}

// ---- ranks that do not answer the others

enum sl_err ring_accuse(struct ring *r, uint64_t member, uint64_t generation,
                        uint32_t suspect, uint64_t now_ms)
{
    struct ring_rank *rank = speaker(r, member, generation);
    const struct ring_rank *other =
        suspect == RING_SELF ? rank : ring_member(r, suspect);

    if (rank == NULL || r->state < RING_COPYING || r->torn)
        return SL_ESTALE;
    if (other == NULL || (other == rank && suspect != RING_SELF))
        return SL_EINVAL;
    rank->accuses = other->member;
    if (r->accused_ms == 0)
        r->accused_ms = now_ms == 0 ? 1 : now_ms;
    return SL_OK;
}

static uint32_t accusers(const struct ring *r, uint64_t member)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < r->count; i++)
        count += r->rank[i].accuses == member;
    return count;
}

// Ranks that cannot reach a member say so one after the other, and a rank with
// a broken network accuses another one too. Among equals the last one goes.
uint64_t ring_accused(const struct ring *r, uint64_t now_ms)
{
    uint32_t most = 0;
    uint64_t who = 0;

    if (r->accused_ms == 0 || r->torn)
        return 0;
    for (uint32_t i = 0; i < r->count; i++) {
        uint32_t count = accusers(r, r->rank[i].member);

        if (count > 0 && count >= most) {
            most = count;
            who = r->rank[i].member;
        }
    }
    return most + 1 == r->members || now_ms >= r->accused_ms + RING_ACCUSED_MS
               ? who
               : 0;
}
