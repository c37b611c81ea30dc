// SPDX-License-Identifier: Apache-2.0
// Copies of a state over connections: what ends one, and what does not.
#include "trainer/ring/state_copy.h"

#include <stdatomic.h>

#include "tests/harness/t.h"
#include "tests/unit/trainer/rank_server.h"
#include "tests/unit/trainer/ring_world.h"

// Two members that hold the base, of which the first has not come so far that
// it gives it out, and one that wants it.
enum { HOLDERS = 2 };

struct scene {
    struct world w;
    struct rank_server holder[HOLDERS];
    Sluice__V1__RingRank member[HOLDERS], *members[HOLDERS];
    uint32_t holders[HOLDERS];
    struct rank from, to;
    struct copy_served served;
    struct loop *loop;
    struct ring_env env;
    struct seat *seat;
};

static void open_generation(struct scene *s, uint64_t generation)
{
    Sluice__V1__RingOpen m = SLUICE__V1__RING_OPEN__INIT;

    m.generation = generation;
    m.job_uid = UID;
    seat_open(s->seat, &m);
}

static void look(struct scene *s)
{
    struct seat_news news;

    seat_look(s->seat, &news);
}

// As when generation 4 begins, with what generation 3 has come to.
static void scene_init(struct scene *s)
{
    float g[ELEMENTS], fresh[ELEMENTS];
    struct once_step step = step_of(0);

    *s = (struct scene){.loop = NULL};
    world_init(&s->w, (char *)"adam");
    T_OK(rank_load(&s->from, &s->w.job, &s->w.begin, t_err()));
    T_OK(rank_load(&s->to, &s->w.job, &s->w.begin, t_err()));
    gradient(g, 0);
    T_OK(rank_round(&s->from, &step, 1, g, NULL, fresh, t_err()));
    rank_keep(&s->from, 4);
    for (uint32_t i = 0; i < HOLDERS; i++) {
        rank_server_open(&s->holder[i], i);
        sluice__v1__ring_rank__init(&s->member[i]);
        s->member[i].address = s->holder[i].address;
        s->members[i] = &s->member[i];
        s->holders[i] = i;
    }
    s->w.begin.generation = 4;
    s->w.base = wire_tag_msg(s->from.tag);
    s->w.begin.ranks = s->members;
    s->w.begin.n_ranks = HOLDERS;
    s->w.begin.holders = s->holders;
    s->w.begin.n_holders = HOLDERS;
    T_OK(copy_serve(&s->served, s->holder[1].ranks,
                    &(struct ranks_of){.job = s->w.begin.job, .generation = 4},
                    &s->from, t_err()));
    T_OK(loop_new(&s->loop, t_err()));
    s->env = (struct ring_env){
        .loop = s->loop, .clock = sl_clock_real(), .io = s->holder[0].io};
    T_OK(seat_new(&s->seat, &s->env, s->w.begin.job, 1));
    open_generation(s, 4);
    look(s);
}

static void scene_release(struct scene *s)
{
    copy_unserve(&s->served);
    seat_retire(s->seat);
    loop_free(s->loop);
    for (uint32_t i = 0; i < HOLDERS; i++)
        rank_server_close(&s->holder[i]);
    rank_release(&s->from);
    rank_release(&s->to);
}

static enum sl_err receive(struct scene *s)
{
    return copy_receive(&s->to, &s->w.job, s->seat, &s->w.begin, t_err());
}

// A request for a file of a cut comes, and a lease of something else.
TEST(copy, goes_on_whatever_else_comes_to_the_seat)
{
    Sluice__V1__SnapshotRequest wish = SLUICE__V1__SNAPSHOT_REQUEST__INIT;
    struct scene s;

    scene_init(&s);
    wish.incarnation = 3;
    seat_snapshot(s.seat, &wish);
    seat_wake(s.seat, false);
    T_TRUE(seat_has_news(s.seat));
    T_FALSE(seat_has_ended(s.seat));
    T_OK(receive(&s));
    T_TRUE(same_state(&s.from, &s.to));
    scene_release(&s);
}

// A holder that has the state only after a while.
#define LATE_MS 100

struct late {
    struct rank_view view;
    _Atomic uint64_t from_ms; // of the first ask; 0: none yet
    _Atomic unsigned asked;
};

static enum sl_err read_late(void *arg, uint64_t offset, size_t bytes, void *to)
{
    struct late *l = arg;
    uint64_t now = sl_now_ms(sl_clock_real());

    if (atomic_load(&l->from_ms) == 0)
        atomic_store(&l->from_ms, now);
    if (now - atomic_load(&l->from_ms) < LATE_MS) {
        atomic_fetch_add(&l->asked, 1);
        return SL_EUNAVAIL;
    }
    return rank_view_read(&l->view, offset, bytes, to);
}

TEST(copy, asks_with_pauses_whatever_else_comes_to_the_seat)
{
    const struct ranks_of of = {.job = 7, .generation = 4};
    struct late late = {.asked = 0};
    struct scene s;

    scene_init(&s);
    copy_unserve(&s.served);
    T_OK(rank_view_init(&late.view, &s.from));
    T_OK(ranks_serve_state(s.holder[1].ranks, &of, read_late, &late));
    seat_wake(s.seat, false);
    T_TRUE(seat_has_news(s.seat));
    T_OK(receive(&s));
    T_TRUE(same_state(&s.from, &s.to));
    // A pause is 20 ms at least, and the holders are asked in turn.
    T_GE(late.asked, 1);
    T_LE(late.asked, LATE_MS / 40 + 1);
    ranks_stop_state(s.holder[1].ranks, of.job, of.generation);
    rank_view_release(&late.view);
    scene_release(&s);
}

TEST(copy, R2_ends_with_its_generation)
{
    struct scene s;

    scene_init(&s);
    open_generation(&s, 5);
    T_TRUE(seat_has_ended(s.seat));
    T_FAILS(SL_ESTALE, receive(&s));
    T_EQ(s.to.tag.sequence, 0); // nothing has changed
    look(&s);
    T_FALSE(seat_has_ended(s.seat)); // but for the generation after that
    scene_release(&s);
}

TEST(copy, ends_when_the_lease_is_taken)
{
    struct scene s;

    scene_init(&s);
    seat_wake(s.seat, true);
    T_FAILS(SL_ESTALE, receive(&s));
    scene_release(&s);
}
