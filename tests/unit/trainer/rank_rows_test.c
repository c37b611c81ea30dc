// SPDX-License-Identifier: Apache-2.0
// A rank's half of rows beside a ring: shards of a psserver in this process,
// over real RPC, which hold what they are given.
#include "trainer/lease/rank_rows.h"

#include "tests/harness/t.h"
#include "tests/unit/trainer/fake_ps.h"
#include "trainer/push/sync_ps.h"

#define JOB 7
#define SHARDS 2
#define CLOSURES 32

struct world {
    struct rpc_io *io;
    struct fake_ps *ps;
    struct peers *peers;
    struct rank_rows rows;
    char address[600];
    uint64_t incarnation,
        next;  // of the shards; `next`: when a map is asked for
    bool over; // the generation ends when a map is asked for
};

static void world_map(struct world *w, uint64_t have)
{
    struct sync_map_entry entries[SHARDS];

    for (uint32_t i = 0; i < SHARDS; i++)
        entries[i] = (struct sync_map_entry){.incarnation = w->incarnation,
                                             .address = w->address};
    w->rows.sync->ops->map(w->rows.sync, have + 1, entries, SHARDS);
}

static void shards_enter(struct world *w, uint64_t incarnation)
{
    struct fake_shard *shard = fake_ps_lock(w->ps);

    w->incarnation = incarnation;
    for (uint32_t i = 0; i < SHARDS; i++)
        shard[i].incarnation = incarnation;
    fake_ps_unlock(w->ps);
}

static void want_map(void *arg, uint64_t job, uint64_t have)
{
    struct world *w = arg;

    T_EQ(job, JOB);
    if (w->over)
        rank_rows_hurry(&w->rows);
    if (w->next != 0)
        shards_enter(w, w->next);
    world_map(w, have);
}

static void shards_hold(struct world *w, bool hold)
{
    struct fake_shard *shard = fake_ps_lock(w->ps);

    for (uint32_t i = 0; i < SHARDS; i++)
        shard[i].holds = hold;
    fake_ps_unlock(w->ps);
}

// The shards are of generation 4, hold, and have nothing but rows.
static void world_open(struct world *w)
{
    static const struct elements ranges[SHARDS];
    static const size_t counts[SHARDS];
    struct rpc_io_options io = {.threads = 1};
    struct fake_ps_options ps = {.shards = SHARDS,
                                 .counts = counts,
                                 .job = JOB,
                                 .job_incarnation = 1,
                                 .rate = 0.5f,
                                 .dims = {3, 8}};
    struct sync_ps_options o = {.job = JOB,
                                .job_incarnation = 1,
                                .shards = ranges,
                                .shards_count = SHARDS,
                                .contributions = 2,
                                .schedule = {CLOSURES, 1, 1, 1},
                                .tables = true,
                                .clock = sl_clock_real(),
                                .want_map = want_map,
                                .arg = w};
    struct sync *sync;

    *w = (struct world){.io = NULL};
    snprintf(w->address, sizeof(w->address), "unix:%s/ps", t_tmpdir());
    T_OK(rpc_io_new(&w->io, &io, t_err()));
    ps.address = w->address;
    w->ps = fake_ps_new(w->io, &ps);
    T_OK(peers_new(&w->peers, w->io, NULL, t_err()));
    o.peers = w->peers;
    T_OK(sync_ps_new(&sync, &o, t_err()));
    rank_rows_init(&w->rows, sync, NULL, NULL);
    shards_enter(w, 4);
    shards_hold(w, true);
    world_map(w, 0);
}

static void world_close(struct world *w)
{
    struct sync *sync = w->rows.sync;

    rank_rows_end(&w->rows);
    sync->ops->free(sync);
    fake_ps_free(w->ps);
    peers_free(w->peers);
    rpc_io_free(w->io);
}

static enum sl_err contribute(struct world *w, uint64_t closure,
                              struct sl_error *err)
{
    struct once_step step = {
        .closure = closure, .samples = 1, .digest = closure};
    const struct ring_round round = {.steps = &step};

    T_OK(rank_rows_begin(&w->rows, (struct round_key){closure, 0}, t_err()));
    return rank_rows_push(&w->rows, &round, 0, err);
}

// Of rows as another generation left them a rank would compute a round that is
// not its state's next.
TEST(rank_rows, R8_rows_are_those_of_the_rank_s_generation)
{
    uint64_t of[SHARDS];
    struct world w;

    world_open(&w);
    w.next = 5;
    rank_rows_place(&w.rows, 5);
    T_OK(rank_rows_begin(&w.rows, (struct round_key){0, 0}, t_err()));
    w.rows.sync->ops->evidence(w.rows.sync, of);
    T_EQ(of[0], 5);
    T_EQ(of[1], 5);
    world_close(&w);
}

TEST(rank_rows, R8_a_push_ends_when_every_shard_holds_it)
{
    const struct fake_shard *shard;
    struct world w;

    world_open(&w);
    rank_rows_place(&w.rows, 4);
    fake_ps_luck(w.ps, 300, 0);
    for (uint64_t closure = 0; closure < CLOSURES; closure++) {
        T_OK(contribute(&w, closure, t_err()));
        shard = fake_ps_lock(w.ps);
        for (uint32_t i = 0; i < SHARDS; i++) {
            T_TRUE(shard[i].counted[closure][0]);
            T_EQ(shard[i].digest[closure][0], closure);
            T_EQ(shard[i].applied, closure + 1);
        }
        fake_ps_unlock(w.ps);
    }
    world_close(&w);
}

// A shard that does not know that it is beside a ring: the other ranks may
// never have the round.
TEST(rank_rows, R8_a_shard_that_counts_rows_at_once_is_an_error)
{
    struct sl_error err = SL_ERROR_INIT;
    struct world w;

    world_open(&w);
    rank_rows_place(&w.rows, 4);
    T_OK(contribute(&w, 0, t_err()));
    shards_hold(&w, false);
    T_FAILS(SL_EINTERNAL, contribute(&w, 1, &err));
    T_HAS(err.text, "counted rows of a round that is under way");
    world_close(&w);
}

TEST(rank_rows, a_generation_that_is_over_ends_its_waits)
{
    struct sl_error err = SL_ERROR_INIT;
    struct world w;

    world_open(&w);
    rank_rows_place(&w.rows, 3); // of which no shard is any more
    w.over = true;
    T_FAILS(SL_ECANCELED,
            rank_rows_begin(&w.rows, (struct round_key){0, 0}, &err));
    w.over = false;
    rank_rows_place(&w.rows, 4);
    T_OK(contribute(&w, 0, t_err()));
    world_close(&w);
}
