// SPDX-License-Identifier: Apache-2.0
// tests/sim/feeds.c -- a rank's feed, and who copies from it.
#include "tests/sim/feeds.h"

#include "trainer/ring/feed.h"
#include "trainer/ring/rank_inner.h"

#define ELEMENTS_MAX 256
#define PIECE_MAX 4096

// ---- a rank

struct give {
    struct sim *sim;
    struct rank rank;
    struct ring_feed *feed; // of the generation that went last, or NULL
};

struct give *give_new(struct sim *s, const Sluice__V1__JobOpen *open)
{
    const struct rank_job j = {.open = open};
    struct give *g = calloc(1, sizeof(*g));
    struct shard **parts = NULL;
    uint32_t count = 0;

    T_ASSERT(g != NULL);
    g->sim = s;
    T_OK(rank_set_new(&parts, &count, &j, NULL, t_err()));
    rank_set_take(&g->rank, parts, count, &j, (struct wire_tag){0, 0});
    return g;
}

void give_end(struct give *g)
{
    if (g == NULL)
        return;
    ring_feed_free(g->feed);
    g->feed = NULL;
}

void give_free(struct give *g)
{
    if (g == NULL)
        return;
    give_end(g);
    rank_release(&g->rank);
    free(g);
}

static void count(struct give *g, const struct rank_state *state)
{
    for (uint32_t i = 0; i < g->rank.count; i++) {
        struct counted *c = &g->rank.parts[i]->once.counted;

        counted_release(c);
        T_OK(counted_copy(c, &state->counted));
    }
    g->rank.tag = state->tag;
}

void give_begin(struct give *g, const struct rank_state *state)
{
    give_end(g);
    rank_keep(&g->rank, state->tag.incarnation);
    count(g, state);
    if (!counted_full(&state->counted))
        T_OK(ring_feed_new(&g->feed, &g->rank, &g->sim->clock.clock));
}

void give_round(struct give *g, const struct rank_state *state,
                const struct round_key *keys, uint32_t n)
{
    static const float average[ELEMENTS_MAX];
    struct once_step steps[SIM_STEPS] = {0};
    uint64_t elements = 0;

    for (uint32_t i = 0; i < g->rank.count; i++)
        elements += g->rank.parts[i]->plan.elements;
    T_LE(elements, ELEMENTS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        steps[i].closure = keys[i].closure;
        steps[i].step = keys[i].step;
    }
    count(g, state);
    if (g->feed != NULL)
        ring_feed_round(g->feed, &g->rank, steps, n, average, NULL);
}

bool give_lags(struct give *g)
{
    return g->feed != NULL && ring_feed_lags(g->feed);
}

struct shard_image *give_freeze(struct give *g, uint32_t part)
{
    struct shard_image *image = calloc(1, sizeof(*image));

    T_ASSERT(image != NULL);
    if (g->feed != NULL)
        ring_feed_forget_silent(g->feed);
    if (rank_freeze(&g->rank, part, image, t_err()) == SL_OK)
        return image;
    free(image);
    return NULL;
}

// ---- a newcomer

struct take {
    struct sim *sim;
    uint64_t follower, generation;
    uint32_t next; // part
    struct {
        struct feed_image head;
        uint64_t have, rounds, steps;
        bool whole;
    } part[SIM_SHARDS];
};

struct take *take_new(struct sim *s, uint64_t follower, uint64_t generation)
{
    struct take *t = calloc(1, sizeof(*t));

    T_ASSERT(t != NULL);
    t->sim = s;
    t->follower = follower;
    t->generation = generation;
    return t;
}

void take_free(struct take *t)
{
    free(t);
}

bool take_begun(const struct take *t)
{
    bool begun = false;

    for (uint32_t i = 0; i < t->sim->shards; i++)
        begun = begun || t->part[i].have > 0;
    return begun;
}

uint32_t take_part(const struct take *t)
{
    return t->next;
}

static uint64_t steps_at(const struct take *t, uint64_t rounds)
{
    return rings_steps(t->sim, (struct wire_tag){t->generation, rounds});
}

// Its head, what it counts, its memory: a call each.
static enum sl_err call_image(struct take *t, struct give *from)
{
    const struct feed_image *head = &t->part[t->next].head;
    uint64_t have = t->part[t->next].have;
    uint64_t counts = head->set_bytes + head->counts_bytes;
    struct feed_ask ask = {
        .follower = t->follower, .part = t->next, .offset = have};
    uint8_t piece[PIECE_MAX];
    enum sl_err rc;

    ask.bytes = (size_t)(have == 0               ? sizeof(*head)
                         : have == sizeof(*head) ? counts
                                                 : head->memory_bytes);
    T_LE(ask.bytes, sizeof(piece));
    rc = ring_feed_read(from->feed, &ask, piece, t_err());
    if (rc != SL_OK)
        return rc;
    if (have == 0)
        memcpy(&t->part[t->next].head, piece, sizeof(*head));
    t->part[t->next].have += ask.bytes;
    if (have > sizeof(*head)) {
        T_EQ(head->magic, FEED_IMAGE_MAGIC);
        t->part[t->next].whole = true;
        t->part[t->next].rounds = head->rounds;
        t->part[t->next].steps = steps_at(t, head->rounds);
    }
    return SL_OK;
}

// R4: the round after what it has.
static enum sl_err call_record(struct take *t, struct give *from)
{
    struct feed_record record;
    struct feed_ask ask = {.follower = t->follower,
                           .part = t->next,
                           .record = true,
                           .after = t->part[t->next].steps,
                           .bytes = sizeof(record)};
    enum sl_err rc = ring_feed_read(from->feed, &ask, &record, t_err());

    if (rc != SL_OK)
        return rc;
    T_EQ(record.magic, FEED_RECORD_MAGIC);
    T_EQ(record.rounds, t->part[t->next].rounds + 1);
    T_EQ(record.after, steps_at(t, record.rounds));
    t->part[t->next].rounds = record.rounds;
    t->part[t->next].steps = record.after;
    return SL_OK;
}

enum sl_err take_call(struct take *t, struct give *from)
{
    enum sl_err rc;

    if (from->feed == NULL)
        return SL_ESTALE;
    rc = t->part[t->next].whole ? call_record(t, from) : call_image(t, from);
    if (rc == SL_OK || rc == SL_EBUSY)
        t->next = (t->next + 1) % t->sim->shards;
    return rc;
}

bool take_is_level(const struct take *t, uint64_t steps)
{
    for (uint32_t i = 0; i < t->sim->shards; i++)
        if (!t->part[i].whole || t->part[i].steps != steps)
            return false;
    return true;
}
