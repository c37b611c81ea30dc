// SPDX-License-Identifier: Apache-2.0
// What is sent before its layer has done with the parameters: the answer waits,
// or, where memory is shared, the call. The psserver is in this process, over
// real RPC.
#include "tests/harness/t.h"

#include <math.h>
#include <sched.h>

#include "common/base/mem.h"
#include "plan/tables.h"
#include "tests/unit/trainer/fake_ps.h"
#include "trainer/push/distinct.h"
#include "trainer/push/job_tables.h"
#include "trainer/push/sync_ps.h"
#include "trainer/push/sync_ps_inner.h"

#define JOB 7
#define SHARDS 2
#define COUNT 40 // of a shard
#define PATIENCE_US 60000000u

struct world {
    struct loop *loop;
    pthread_t thread; // runs it
    struct rpc_io *io;
    struct local *local; // NULL: nothing is shared
    struct fake_ps *ps;
    struct peers *peers;
    struct gate gate;
    struct sync *sync;
    float before[SHARDS * COUNT];
    uint64_t incarnation;                                // of shard 0
    float params[SHARDS * COUNT], grads[SHARDS * COUNT]; // WORLD_BY_RANGE
    char address[600];
    struct coded_stretch stretch; // WORLD_CODED: of each shard
    struct coded coded[SHARDS];
};

static const struct elements ranges[] = {{.first = 0, .count = COUNT},
                                         {.first = COUNT, .count = COUNT}};

static void want_map(void *arg, uint64_t job, uint64_t have)
{
    struct world *w = arg;
    struct sync_map_entry entries[] = {
        {.incarnation = w->incarnation, .address = w->address},
        {.incarnation = 1, .address = w->address}};

    (void)job;
    w->sync->ops->map(w->sync, have + 1, entries, SHARDS);
}

static void *run_loop(void *arg)
{
    loop_run(arg);
    return NULL;
}

static void share(struct world *w, struct fake_ps_options *ps)
{
    T_OK(local_new(&w->local, w->loop, t_path("l"), "ps-0", t_err()));
    ps->local = w->local;
}

enum {
    WORLD_SHARES = 1,
    WORLD_BY_RANGE = 2,
    WORLD_ROUNDS = 4,
    WORLD_CODED = 8, // topk2 up, e3m0 down
};

static enum sync_result begin_wait(struct sync *s, uint32_t *step, bool *done,
                                   struct sl_error *err)
{
    enum sync_result result;

    while ((result = s->ops->begin(s, step, done, err)) == SYNC_BUSY)
        s->ops->await(s);
    return result;
}

// A closure is open, and all parameters are there; by range none are.
static void world_open_as(struct world *w, enum wire_type wire, unsigned how)
{
    bool shares = how & WORLD_SHARES;
    static const size_t counts[] = {COUNT, COUNT};
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
                                .elements = SHARDS * COUNT,
                                .wire = wire,
                                .tables = true,
                                .clock = sl_clock_real(),
                                .want_map = want_map,
                                .arg = w};
    struct sync_closure c = {
        .attempt = {.term = 1, .n = 1}, .steps = 4, .gate = &w->gate};
    uint32_t step = 99;
    bool done = true;

    memset(w, 0, sizeof(*w));
    w->incarnation = 1;
    if (how & WORLD_ROUNDS) {
        o.contributions = 2;
        o.schedule = (struct schedule){
            .samples = 8, .batch = 1, .epochs = 1, .steps_per_closure = 1};
    }
    if (how & WORLD_CODED) {
        w->stretch = (struct coded_stretch){COUNT, false};
        w->coded[0] = w->coded[1] = (struct coded){&w->stretch, 1};
        o.coded = w->coded;
        o.up = WIRE_TOPK2;
        o.down = WIRE_E3M0;
    }
    if (how & WORLD_BY_RANGE) {
        o.by_range = true;
        o.params = w->params;
        o.grads = w->grads;
    }
    atomic_store(&w->gate.lease_ends_ms, UINT64_MAX);
    snprintf(w->address, sizeof(w->address), "unix:%s/ps", t_tmpdir());
    T_OK(loop_new(&w->loop, t_err()));
    T_OK(rpc_io_new(&w->io, &io, t_err()));
    if (shares)
        share(w, &ps);
    ps.address = w->address;
    w->ps = fake_ps_new(w->io, &ps);
    T_OK(peers_new(&w->peers, w->io, NULL, t_err()));
    if (shares)
        peers_share(w->peers, w->loop, sl_clock_real(), sizeof(float));
    T_ASSERT(pthread_create(&w->thread, NULL, run_loop, w->loop) == 0);
    o.peers = w->peers;
    T_OK(sync_ps_new(&w->sync, &o, t_err()));
    want_map(w, JOB, 0);
    T_EQ(w->sync->ops->open(w->sync, &c, t_err()), SYNC_OK);
    T_EQ(begin_wait(w->sync, &step, &done, t_err()), SYNC_OK);
    T_EQ(step, 0);
    T_FALSE(done);
    for (uint32_t i = 0; i < SHARDS * COUNT; i++)
        w->sync->grads[i] = 1;
    memcpy(w->before, w->sync->params, sizeof(w->before));
}

static void world_open(struct world *w, enum wire_type wire)
{
    world_open_as(w, wire, 0);
}

static void world_close(struct world *w)
{
    w->sync->ops->close(w->sync);
    w->sync->ops->free(w->sync);
    fake_ps_free(w->ps);
    loop_stop(w->loop);
    pthread_join(w->thread, NULL);
    local_free(w->local);
    peers_free(w->peers);
    rpc_io_free(w->io);
    loop_free(w->loop);
}

static void send_step(struct world *w, uint32_t range, uint32_t number,
                      uint32_t reads_until)
{
    struct sync_step step = {
        .step = number, .samples = 1, .digest = 5, .reads_until = reads_until};

    T_EQ(w->sync->ops->send(w->sync, range, &step, false, t_err()), SYNC_OK);
}

static void send(struct world *w, uint32_t range, uint32_t reads_until)
{
    send_step(w, range, 0, reads_until);
}

static struct sync_ps *inner(struct world *w)
{
    return sl_container_of(w->sync, struct sync_ps, sync);
}

static bool answered(struct world *w, uint32_t range)
{
    struct sync_ps *s = inner(w);
    bool is;

    pthread_mutex_lock(&s->shared.lock);
    is = s->shards[range].shared.answered;
    pthread_mutex_unlock(&s->shared.lock);
    return is;
}

static void wait_answered(struct world *w, uint32_t range)
{
    uint64_t until = sl_now_us(sl_clock_real()) + PATIENCE_US;

    while (!answered(w, range)) {
        T_ASSERT(sl_now_us(sl_clock_real()) < until);
        sched_yield();
    }
}

static bool is_old(const struct world *w, uint32_t range)
{
    size_t first = (size_t)range * COUNT;

    return memcmp(&w->sync->params[first], &w->before[first],
                  COUNT * sizeof(float)) == 0;
}

// What the psserver has now, as the wire can say it.
static void check_fresh(struct world *w, uint32_t range, double within)
{
    struct fake_shard *shard = &fake_ps_lock(w->ps)[range];

    T_EQ(shard->applied, 1);
    for (size_t i = 0; i < COUNT; i++)
        T_NEAR(w->sync->params[range * COUNT + i], shard->values[i], within);
    fake_ps_unlock(w->ps);
    T_FALSE(is_old(w, range));
}

static void answers_wait(enum wire_type wire, double within)
{
    struct world w;

    world_open(&w, wire);
    send(&w, 0, 7);
    send(&w, 1, 0);
    wait_answered(&w, 0);
    wait_answered(&w, 1);
    T_TRUE(is_old(&w, 0));
    // To wait for another takes only what may be taken.
    T_EQ(sync_wait(w.sync, 1, t_err()), SYNC_OK);
    check_fresh(&w, 1, within);
    w.sync->ops->past(w.sync, 6); // the last op that reads them is the 6th
    T_TRUE(answered(&w, 0));
    T_TRUE(is_old(&w, 0));
    w.sync->ops->past(w.sync, 7);
    T_EQ(sync_wait(w.sync, 0, t_err()), SYNC_OK);
    check_fresh(&w, 0, within);
    T_TRUE(w.sync->ops->counted(w.sync, 0));
    world_close(&w);
}

TEST(sync_ps, an_answer_waits_while_its_parameters_are_read)
{
    answers_wait(WIRE_F32, 0);
    answers_wait(WIRE_BF16, 0.01);
}

// Whichever comes first.
TEST(sync_ps, one_may_come_as_its_parameters_are_read_no_more)
{
    for (int i = 0; i < 20; i++) {
        struct world w;

        world_open(&w, WIRE_F32);
        send(&w, 0, 7);
        if (i % 2)
            sched_yield();
        w.sync->ops->past(w.sync, 7);
        T_EQ(sync_wait(w.sync, 0, t_err()), SYNC_OK);
        check_fresh(&w, 0, 0);
        world_close(&w);
    }
}

// A step that was given up halfway reads nothing any more.
TEST(sync_ps, settling_and_beginning_again_take_what_was_kept)
{
    for (int again = 0; again < 2; again++) {
        struct world w;
        uint32_t step;
        bool done;

        world_open(&w, WIRE_F32);
        send(&w, 0, 7);
        wait_answered(&w, 0);
        if (again)
            T_EQ(begin_wait(w.sync, &step, &done, t_err()), SYNC_OK);
        else
            T_EQ(sync_settle(w.sync, t_err()), SYNC_OK);
        check_fresh(&w, 0, 0);
        world_close(&w);
    }
}

TEST(sync_ps, closing_forgets_nothing_that_was_kept)
{
    struct world w;

    world_open(&w, WIRE_F32);
    send(&w, 0, 7);
    wait_answered(&w, 0);
    w.sync->ops->close(w.sync); // the leak checker looks
    check_fresh(&w, 0, 0);
    world_close(&w);
}

// Nothing travels there, so nothing is gained by an answer that has to wait.
TEST(sync_ps, what_shares_memory_is_sent_when_its_parameters_are_free)
{
    uint64_t until = sl_now_us(sl_clock_real()) + PATIENCE_US;
    struct ps_shard *p;
    struct world w;

    world_open_as(&w, WIRE_F32, WORLD_SHARES);
    p = &inner(&w)->shards[0];
    while (p->peer.buffer ==
           NULL) { // it takes a moment; what is counted is pulled
        T_ASSERT(sl_now_us(sl_clock_real()) < until);
        send(&w, 0, 0);
        T_EQ(sync_wait(w.sync, 0, t_err()), SYNC_OK);
    }
    check_fresh(&w, 0, 0);
    send_step(&w, 0, 1, 7);
    T_FALSE(p->calling);
    w.sync->ops->past(w.sync, 6);
    T_FALSE(p->calling);
    w.sync->ops->past(w.sync, 7);
    T_TRUE(p->calling);
    T_EQ(sync_wait(w.sync, 0, t_err()), SYNC_OK);
    T_TRUE(w.sync->ops->counted(w.sync, 1));
    send_step(&w, 0, 2, 7); // given up before it went
    w.sync->ops->close(w.sync);
    T_FALSE(p->calling);
    T_EQ(fake_ps_lock(w.ps)[0].applied, 2);
    fake_ps_unlock(w.ps);
    world_close(&w);
}

// ---- by range

static uint64_t pulls(struct world *w, uint32_t range)
{
    uint64_t n = fake_ps_lock(w->ps)[range].pulls;

    fake_ps_unlock(w->ps);
    return n;
}

TEST(sync_ps, by_range_nothing_is_pulled_that_nobody_wants)
{
    struct world w;

    world_open_as(&w, WIRE_F32, WORLD_BY_RANGE);
    T_EQ(pulls(&w, 0) + pulls(&w, 1), 0);
    T_EQ(sync_pull(w.sync, 1, 2, t_err()), SYNC_OK);
    T_EQ(pulls(&w, 0), 0);
    T_EQ(pulls(&w, 1), 1);
    T_TRUE(is_old(&w, 0));
    T_EQ(sync_pull(w.sync, 0, 2, t_err()), SYNC_OK); // one is there
    T_EQ(pulls(&w, 0), 1);
    T_EQ(pulls(&w, 1), 1);
    w.sync->ops->drop(w.sync, 1);
    T_EQ(sync_pull(w.sync, 1, 2, t_err()), SYNC_OK);
    T_EQ(pulls(&w, 1), 2);
    world_close(&w);
}

TEST(sync_ps, by_range_a_push_brings_no_parameters)
{
    struct world w;

    world_open_as(&w, WIRE_F32, WORLD_BY_RANGE);
    T_EQ(sync_pull(w.sync, 0, 1, t_err()), SYNC_OK);
    memcpy(w.before, w.params, sizeof(w.before));
    send(&w, 0, 0);
    T_EQ(sync_rest(w.sync, 0, t_err()), SYNC_OK);
    T_TRUE(w.sync->ops->counted(w.sync, 0));
    T_TRUE(is_old(&w, 0));
    T_EQ(pulls(&w, 0), 1);
    T_EQ(sync_pull(w.sync, 0, 1, t_err()), SYNC_OK);
    check_fresh(&w, 0, 0);
    send(&w, 0, 0); // it is counted: nothing is to be done
    T_EQ(sync_settle(w.sync, t_err()), SYNC_OK);
    T_EQ(fake_ps_lock(w.ps)[0].pushes, 1);
    fake_ps_unlock(w.ps);
    world_close(&w);
}

// The shard is another one, without what was pushed.
static void replace(struct world *w)
{
    struct fake_shard *s = &fake_ps_lock(w->ps)[0];

    s->incarnation = w->incarnation = 2;
    memset(s->counted, 0, sizeof(s->counted));
    fake_ps_unlock(w->ps);
}

// The step counts for nothing, and the program reads on until its end.
TEST(sync_ps, by_range_a_pull_goes_on_where_the_step_does_not_count)
{
    bool done = true;
    uint32_t step = 9;
    struct world w;

    world_open_as(&w, WIRE_F32, WORLD_BY_RANGE);
    send(&w, 0, 0);
    send(&w, 1, 0);
    T_EQ(sync_settle(w.sync, t_err()), SYNC_OK);
    replace(&w);
    send_step(&w, 0, 1, 0);
    T_EQ(sync_settle(w.sync, t_err()), SYNC_AGAIN);
    T_EQ(sync_pull(w.sync, 0, 2, t_err()), SYNC_OK);
    check_fresh(&w, 0, 0);
    T_EQ(sync_rest(w.sync, 0, t_err()), SYNC_OK);
    T_EQ(begin_wait(w.sync, &step, &done, t_err()), SYNC_OK);
    T_EQ(step, 0);
    T_FALSE(done);
    world_close(&w);
}

// ---- rows of tables

#define IDS 300 // that are drawn from; a list has each about three times
#define LIST 1000

static struct job_tables *two_tables(void)
{
    Sluice__V1__TableSpec spec[] = {SLUICE__V1__TABLE_SPEC__INIT,
                                    SLUICE__V1__TABLE_SPEC__INIT};
    Sluice__V1__TableSpec *list[] = {&spec[0], &spec[1]};
    Sluice__V1__ModelSpec model = SLUICE__V1__MODEL_SPEC__INIT;
    struct job_tables *t = NULL;

    spec[0].name = "users";
    spec[1].name = "items";
    spec[0].dim = 3;
    spec[1].dim = 8;
    spec[0].buckets = spec[1].buckets = FAKE_BUCKETS;
    model.tables = list;
    model.n_tables = 2;
    T_OK(job_tables_new(&t, &model, SHARDS, t_err()));
    T_EQ(job_tables_count(t), 2);
    return t;
}

struct drawn {
    uint64_t ids[LIST];
    float grads[LIST * FAKE_DIM];
    double sum[IDS]; // of what was pushed for each, all its elements alike
};

static void draw(struct drawn *d, struct rng *rng, uint32_t dim)
{
    for (unsigned i = 0; i < LIST; i++) {
        uint64_t n = rng_below(rng, IDS);

        d->ids[i] = n * UINT64_C(0x9e3779b97f4a7c15);
        for (uint32_t k = 0; k < dim; k++)
            d->grads[i * dim + k] = (float)(n % 7) - 3;
        d->sum[n] += (double)(n % 7) - 3;
    }
}

static uint64_t number_of(uint64_t id)
{
    uint64_t n = 0;

    while (n * UINT64_C(0x9e3779b97f4a7c15) != id)
        T_ASSERT(++n < IDS);
    return n;
}

static void pull_list(struct world *w, struct job_tables *t, uint32_t table,
                      size_t n, const uint64_t *ids, float *rows)
{
    job_tables_forget(t);
    T_OK(job_tables_want(t, table, n, ids, inner(w)->o.wire, t_err()));
    T_EQ(job_tables_pull(t, w->sync, t_err()), SYNC_OK);
    job_tables_rows(t, table, rows);
}

static void pull_rows(struct world *w, struct job_tables *t, uint32_t table,
                      const struct drawn *d, float *rows)
{
    pull_list(w, t, table, LIST, d->ids, rows);
}

// Each row is what it was at first, less half of what was pushed for it.
static void check_rows(const struct drawn *d, uint32_t table, uint32_t dim,
                       const float *rows)
{
    for (unsigned i = 0; i < LIST; i++) {
        double pushed = d->sum[number_of(d->ids[i])];

        for (uint32_t k = 0; k < dim; k++)
            T_EQ(rows[i * dim + k],
                 (double)fake_first(table, d->ids[i], k) - pushed / 2);
    }
}

static void send_with_rows(struct world *w, const struct job_tables *t,
                           uint32_t range, uint32_t number)
{
    struct sync_step step = {.step = number, .samples = 1, .digest = 5};

    T_TRUE(job_tables_fill(t, range, &step));
    T_GT(step.rows_bytes, 0);
    T_EQ(w->sync->ops->send(w->sync, range, &step, false, t_err()), SYNC_OK);
}

static void push_rows(struct world *w, struct job_tables *t, uint32_t number)
{
    T_OK(job_tables_pack(t, WIRE_F32, WIRE_F32, ranges, t_err()));
    for (uint32_t i = 0; i < SHARDS; i++)
        send_with_rows(w, t, i, number);
    T_EQ(sync_settle(w->sync, t_err()), SYNC_OK);
    job_tables_begin(t);
}

// Pulls, and pushes of two tables in each of four steps; calls and answers are
// lost on the way.
static void rows_come_and_go(unsigned how, unsigned unlucky)
{
    static struct drawn drawn[2];
    static float rows[LIST * FAKE_DIM];
    struct job_tables *t = two_tables();
    struct rng rng;
    struct world w;

    rng_init(&rng, t_seed(), 5);
    memset(drawn, 0, sizeof(drawn));
    world_open_as(&w, WIRE_F32, how);
    fake_ps_luck(w.ps, unlucky, unlucky);
    for (uint32_t step = 0; step < 4; step++) {
        for (uint32_t i = 0; i < 2; i++) {
            struct drawn before = drawn[i];
            uint32_t dim = job_tables_dim(t, i);

            draw(&drawn[i], &rng, dim);
            memcpy(before.ids, drawn[i].ids, sizeof(before.ids));
            pull_rows(&w, t, i, &drawn[i], rows);
            check_rows(&before, i, dim, rows);
            for (size_t n = 0; n < LIST; n += LIST / 4)
                T_OK(job_tables_add(t, i, LIST / 4, drawn[i].ids + n,
                                    drawn[i].grads + n * dim, t_err()));
        }
        push_rows(&w, t, step);
    }
    for (uint32_t i = 0; i < SHARDS; i++) {
        T_EQ(fake_ps_lock(w.ps)[i].applied, 4);
        fake_ps_unlock(w.ps);
    }
    world_close(&w);
    job_tables_free(t);
}

TEST(sync_ps, T1_rows_are_applied_once_with_their_step)
{
    rows_come_and_go(0, 0);
    rows_come_and_go(0, 200);
    rows_come_and_go(WORLD_SHARES, 200);
}

// Snapshots have f32, whatever the job's gradients travel as. The fake has one
// of each shard.
TEST(sync_ps, rows_of_a_cut_come_while_no_closure_is_open)
{
    struct wire_tag tags[SHARDS] = {{1, 1}, {1, 1}};
    struct sl_error err = SL_ERROR_INIT;
    static float rows[LIST * FAKE_DIM];
    struct job_tables *t = two_tables();
    static struct drawn d;
    struct rng rng;
    struct world w;

    rng_init(&rng, t_seed(), 6);
    world_open(&w, WIRE_BF16);
    draw(&d, &rng, 3);
    w.sync->ops->close(w.sync);
    job_tables_forget(t);
    T_OK(job_tables_want(t, 0, LIST, d.ids, WIRE_F32, t_err()));
    T_EQ(job_tables_pull_cut(t, w.sync, tags, &w.gate, t_err()), SYNC_OK);
    job_tables_rows(t, 0, rows);
    for (unsigned i = 0; i < LIST; i++)
        T_EQ(rows[i * 3 + 2], fake_first(0, d.ids[i], 2));
    tags[1].sequence = 2;
    T_EQ(job_tables_pull_cut(t, w.sync, tags, &w.gate, &err), SYNC_FAILED);
    T_EQ(err.code, SL_ENOENT);
    world_close(&w);
    job_tables_free(t);
}

TEST(sync_ps, each_shard_is_asked_once_for_all_of_its_rows)
{
    static struct drawn d;
    static float rows[LIST * FAKE_DIM];
    struct job_tables *t = two_tables();
    const struct fake_shard *shard;
    struct rng rng;
    uint64_t one;
    struct world w;

    rng_init(&rng, t_seed(), 6);
    world_open(&w, WIRE_F32);
    draw(&d, &rng, 3);
    pull_rows(&w, t, 0, &d, rows);
    shard = fake_ps_lock(w.ps);
    T_EQ(shard[0].rows_pulls, 1);
    T_EQ(shard[1].rows_pulls, 1);
    T_EQ(shard[0].rows_count + shard[1].rows_count, 0); // T2
    fake_ps_unlock(w.ps);
    one = d.ids[0]; // and those that have none of them are not asked
    pull_list(&w, t, 0, 1, &one, rows);
    T_EQ(rows[2], fake_first(0, one, 2));
    shard = fake_ps_lock(w.ps);
    T_EQ(shard[0].rows_pulls + shard[1].rows_pulls, 3);
    fake_ps_unlock(w.ps);
    world_close(&w);
    job_tables_free(t);
}

TEST(sync_ps, T8_rows_are_those_from_before_the_closure_s_round)
{
    static struct drawn d;
    static float rows[LIST * FAKE_DIM];
    struct job_tables *t = two_tables();
    const struct fake_shard *shard;
    struct rng rng;
    struct world w;

    rng_init(&rng, t_seed(), 8);
    world_open(&w, WIRE_F32);
    draw(&d, &rng, 3);
    pull_rows(&w, t, 0, &d, rows);
    shard = fake_ps_lock(w.ps);
    T_EQ(shard[0].rows_before + shard[1].rows_before, 0); // there are no rounds
    fake_ps_unlock(w.ps);
    world_close(&w);
    world_open_as(&w, WIRE_F32, WORLD_ROUNDS); // of closure 0
    pull_rows(&w, t, 0, &d, rows);
    shard = fake_ps_lock(w.ps);
    T_TRUE(shard[0].rows_before == 1 && shard[1].rows_before == 1);
    fake_ps_unlock(w.ps);
    world_close(&w);
    job_tables_free(t);
}

// The step that read the rows of the other one is to be computed again; what is
// pulled in the rest of it are the rows that are there.
TEST(sync_ps, rows_of_a_shard_that_was_replaced_are_those_of_the_new_one)
{
    static struct drawn d;
    static float rows[LIST * FAKE_DIM];
    struct job_tables *t = two_tables();
    uint32_t step = 9;
    bool done = true;
    struct rng rng;
    struct world w;

    rng_init(&rng, t_seed(), 7);
    memset(&d, 0, sizeof(d));
    world_open(&w, WIRE_F32);
    draw(&d, &rng, 3);
    T_OK(job_tables_add(t, 0, LIST, d.ids, d.grads, t_err()));
    push_rows(&w, t, 0);
    replace(&w);
    for (uint32_t i = 0; i < SHARDS; i++) { // no shard has rows any more
        fake_ps_lock(w.ps)[i].rows_count = 0;
        fake_ps_unlock(w.ps);
    }
    memset(d.sum, 0, sizeof(d.sum));
    pull_rows(&w, t, 0, &d, rows);
    check_rows(&d, 0, 3, rows);
    T_EQ(sync_settle(w.sync, t_err()), SYNC_AGAIN);
    T_EQ(begin_wait(w.sync, &step, &done, t_err()), SYNC_OK);
    T_EQ(step, 0);
    pull_rows(&w, t, 0, &d, rows);
    check_rows(&d, 0, 3, rows);
    world_close(&w);
    job_tables_free(t);
}

TEST(sync_ps, rows_travel_in_the_job_s_type)
{
    static const uint64_t ids[] = {5, 6, 5, 7, 8, 9};
    static const float grads[18] = {1, 1, 1, 2, 2, 2, 4, 4, 4, 1, 1, 1};
    struct job_tables *t = two_tables();
    float rows[18];
    struct world w;

    world_open(&w, WIRE_BF16);
    T_OK(job_tables_add(t, 0, 6, ids, grads, t_err()));
    T_OK(job_tables_pack(t, WIRE_BF16, WIRE_BF16, ranges, t_err()));
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct sync_step step = {.step = 0, .samples = 1, .digest = 5};

        T_TRUE(job_tables_fill(t, i, &step));
        T_EQ(w.sync->ops->send(w.sync, i, &step, false, t_err()), SYNC_OK);
    }
    T_EQ(sync_settle(w.sync, t_err()), SYNC_OK);
    pull_list(&w, t, 0, 6, ids, rows);
    T_EQ(rows[0], 5 - 2.5);
    T_EQ(rows[3], 6 - 1);
    T_EQ(rows[6], 5 - 2.5);
    T_EQ(rows[9], 7 - 0.5);
    T_EQ(rows[12], 8);
    world_close(&w);
    job_tables_free(t);
}

// Each row with a scale of its own, beside parameters of another type; answers
// come in pieces that end anywhere.
TEST(sync_ps, rows_travel_in_8_bits)
{
    static const uint64_t ids[] = {5, 6, 7, 8, 9};
    static const float grads[15] = {127, -64, 1, 0, 0, 0, 1e-6f, 127e-6f, 0};
    struct job_tables *t = two_tables();
    float rows[15];
    struct world w;

    world_open(&w, WIRE_BF16);
    T_OK(job_tables_add(t, 0, 5, ids, grads, t_err()));
    T_OK(job_tables_pack(t, WIRE_INT8, WIRE_BF16, ranges, t_err()));
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct sync_step step = {.step = 0, .samples = 1, .digest = 5};

        T_TRUE(job_tables_fill(t, i, &step));
        T_EQ(w.sync->ops->send(w.sync, i, &step, false, t_err()), SYNC_OK);
    }
    T_EQ(sync_settle(w.sync, t_err()), SYNC_OK);
    job_tables_forget(t);
    T_OK(job_tables_want(t, 0, 5, ids, WIRE_INT8, t_err()));
    T_EQ(job_tables_pull(t, w.sync, t_err()), SYNC_OK);
    job_tables_rows(t, 0, rows);
    for (size_t i = 0; i < 5; i++) {
        float was[3], most = 0;

        for (uint32_t k = 0; k < 3; k++) {
            was[k] = fake_first(0, ids[i], k) - 0.5f * grads[3 * i + k];
            most = fmaxf(most, fabsf(was[k]));
        }
        for (uint32_t k = 0; k < 3; k++)
            T_NEAR(rows[3 * i + k], was[k], most * 0.51 / 127);
    }
    world_close(&w);
    job_tables_free(t);
}

static const uint64_t eight[] = {1, 2, 3, 4, 5, 6, 7, 8}; // on both shards

static void ask_eight(struct world *w, struct job_tables *t)
{
    job_tables_forget(t);
    T_OK(job_tables_want(t, 0, SL_COUNT(eight), eight, WIRE_F32, t_err()));
    job_tables_ask(t, w->sync);
}

static bool rows_are_under_way(struct world *w)
{
    return ps_rows_of(inner(w), 0)->calling && ps_rows_of(inner(w), 1)->calling;
}

static void wait_rows(struct world *w)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        wait_answered(w, SHARDS + i);
}

// The closure is given up while its shard does not answer: what is pulled may
// then be freed.
TEST(sync_ps, a_pull_of_rows_ends_with_its_gate)
{
    struct job_tables *t = two_tables();
    struct world w;

    world_open(&w, WIRE_F32);
    fake_ps_hold(w.ps, true);
    ask_eight(&w, t);
    T_TRUE(rows_are_under_way(&w));
    gate_close(&w.gate, GATE_REVOKED);
    T_EQ(job_tables_pull(t, w.sync, t_err()), SYNC_STOPPED);
    w.sync->ops->close(w.sync);
    job_tables_free(t);
    world_close(&w);
}

// Seven rows of three numbers: on one of the shards they are filled up.
TEST(sync_ps, one_call_to_a_shard_has_the_rows_of_all_tables)
{
    struct job_tables *t = two_tables();
    const struct fake_shard *shard;
    float three[7 * 3], rows[8 * 8];
    struct world w;

    world_open(&w, WIRE_F32);
    job_tables_forget(t);
    T_OK(job_tables_want(t, 0, 7, eight, WIRE_F32, t_err()));
    T_OK(job_tables_want(t, 1, 8, eight, WIRE_F32, t_err()));
    T_EQ(job_tables_pull(t, w.sync, t_err()), SYNC_OK);
    shard = fake_ps_lock(w.ps);
    T_EQ(shard[0].rows_pulls, 1);
    T_EQ(shard[1].rows_pulls, 1);
    fake_ps_unlock(w.ps);
    job_tables_rows(t, 0, three);
    job_tables_rows(t, 1, rows);
    for (unsigned i = 0; i < 7 * 3; i++)
        T_EQ(three[i], fake_first(0, eight[i / 3], i % 3));
    for (unsigned i = 0; i < 8 * 8; i++)
        T_EQ(rows[i], fake_first(1, eight[i / 8], i % 8));
    world_close(&w);
    job_tables_free(t);
}

// The rows of step 1 are pulled while step 0 is pushed: they lack it, and step
// 1 says so. Those of step 2 are pulled in their turn, and have step 1.
TEST(sync_ps, rows_that_were_asked_for_ahead_lack_the_step_that_is_sent)
{
    static const float grads[8 * 3] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
                                       2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    static const uint64_t delays[] = {0, 1, 0};
    struct job_tables *t = two_tables();
    float rows[8 * 3];
    struct world w;

    world_open(&w, WIRE_F32);
    for (uint32_t step = 0; step < 3; step++) {
        if (step != 1)
            ask_eight(&w, t);
        T_EQ(job_tables_pull(t, w.sync, t_err()), SYNC_OK);
        job_tables_rows(t, 0, rows);
        for (unsigned i = 0; i < 8; i++)
            T_EQ(rows[i * 3], fake_first(0, eight[i], 0) - (step == 2 ? 2 : 0));
        if (step == 0) {
            ask_eight(&w, t);
            wait_rows(&w);
        }
        T_OK(job_tables_add(t, 0, 8, eight, grads, t_err()));
        push_rows(&w, t, step);
        for (uint32_t i = 0; i < SHARDS; i++) {
            T_EQ(fake_ps_lock(w.ps)[i].delay, delays[step]);
            fake_ps_unlock(w.ps);
        }
    }
    world_close(&w);
    job_tables_free(t);
}

// Until then they are written to memory of the caller's; and those that have
// come are of the past.
TEST(sync_ps, W1_a_begin_gives_up_rows_that_were_asked_for_ahead)
{
    struct job_tables *t = two_tables();
    uint32_t step = 9;
    bool done = true;
    struct world w;

    world_open(&w, WIRE_F32);
    for (int has_come = 1; has_come >= 0; has_come--) {
        const struct fake_shard *shard;
        uint64_t pulls;

        fake_ps_hold(w.ps, !has_come);
        ask_eight(&w, t);
        T_TRUE(rows_are_under_way(&w));
        if (has_come)
            wait_rows(&w);
        T_EQ(begin_wait(w.sync, &step, &done, t_err()), SYNC_OK);
        T_FALSE(rows_are_under_way(&w));
        fake_ps_hold(w.ps, false);
        pulls = fake_ps_lock(w.ps)[0].rows_pulls;
        fake_ps_unlock(w.ps);
        T_EQ(job_tables_pull(t, w.sync, t_err()), SYNC_OK);
        shard = fake_ps_lock(w.ps);
        T_EQ(shard[0].rows_pulls, pulls + 1);
        fake_ps_unlock(w.ps);
    }
    world_close(&w);
    job_tables_free(t);
}

// The answer to a push has come and is not taken yet, when another incarnation
// answers for rows.
TEST(sync_ps, rows_of_another_incarnation_come_while_a_push_is_under_way)
{
    struct job_tables *t = two_tables();
    uint32_t step = 9;
    bool done = true;
    struct world w;

    world_open(&w, WIRE_F32);
    send(&w, 0, 1);
    wait_answered(&w, 0);
    replace(&w);
    ask_eight(&w, t);
    T_EQ(job_tables_pull(t, w.sync, t_err()), SYNC_OK);
    T_TRUE(inner(&w)->shards[0].calling);
    T_EQ(sync_settle(w.sync, t_err()), SYNC_AGAIN);
    T_EQ(begin_wait(w.sync, &step, &done, t_err()), SYNC_OK);
    T_EQ(step, 0);
    T_EQ(inner(&w)->shards[0].evidence.incarnation, 2);
    world_close(&w);
    job_tables_free(t);
}

static void no_map(void *arg, uint64_t job, uint64_t have)
{
}

// The loop tells the coordinator that the attempt waits, at any moment of it: a
// single look at another moment could cost it the lease (train.stall_seconds).
TEST(sync_ps, an_attempt_waits_from_the_first_busy_call_to_its_end)
{
    struct sync_ps_options o = {.job = JOB,
                                .job_incarnation = 1,
                                .shards = ranges,
                                .shards_count = SHARDS,
                                .elements = SHARDS * COUNT,
                                .clock = sl_clock_real(),
                                .want_map = no_map};
    struct gate gate = {.lease_ends_ms = UINT64_MAX};
    struct sync_closure c = {.steps = 4, .gate = &gate};
    struct sync *sync = NULL;
    uint32_t step;
    bool done;

    T_OK(sync_ps_new(&sync, &o, t_err()));
    T_EQ(sync->ops->open(sync, &c, t_err()), SYNC_OK);
    for (int i = 0; i < 3; i++) { // no map says where the shards are
        T_EQ(sync->ops->begin(sync, &step, &done, t_err()), SYNC_BUSY);
        T_TRUE(atomic_load(&gate.pulse.waits));
    }
    sync->ops->wake(sync);
    sync->ops->await(sync);
    T_TRUE(atomic_load(&gate.pulse.waits));
    gate_close(&gate, GATE_REVOKED);
    T_EQ(sync->ops->begin(sync, &step, &done, t_err()), SYNC_STOPPED);
    T_FALSE(atomic_load(&gate.pulse.waits));
    sync->ops->close(sync);
    sync->ops->free(sync);
}

// A psserver can say anything: the closure is handed back.
TEST(sync_ps, a_job_without_slots_waits_for_no_round)
{
    struct sync_closure c = {.closure = 9, .steps = 4, .attempt = {1, 2}};
    struct gate gate = {.lease_ends_ms = UINT64_MAX};
    uint32_t step;
    struct world w;
    bool done;

    world_open(&w, WIRE_F32);
    w.sync->ops->close(w.sync);
    fake_ps_ahead(w.ps);
    c.gate = &gate;
    T_EQ(w.sync->ops->open(w.sync, &c, t_err()), SYNC_OK);
    T_EQ(begin_wait(w.sync, &step, &done, t_err()), SYNC_EARLY);
    world_close(&w);
}

// An evaluation has nothing to do with the push before it.
TEST(sync_ps, a_cut_is_pulled_after_a_push_of_which_a_part_is_counted)
{
    const struct wire_push_key other = {
        .closure = 9, .attempt = {1, 2}, .samples = 1};
    const struct sync_step both = {
        .samples = 1, .digest = 5, .more = &other, .more_count = 1};
    struct wire_tag tags[SHARDS] = {{1, 1}, {1, 1}};
    float cut[SHARDS * COUNT];
    enum sync_result sent;
    struct world w;

    world_open(&w, WIRE_F32);
    fake_ps_lock(w.ps)[0].counted[9][0] = true;
    fake_ps_unlock(w.ps);
    T_EQ(w.sync->ops->send(w.sync, 0, &both, false, t_err()), SYNC_OK);
    // The answer to the first may have come before the second is sent.
    sent = w.sync->ops->send(w.sync, 1, &both, false, t_err());
    T_TRUE(sent == SYNC_OK || sent == SYNC_PARTLY);
    T_EQ(sync_settle(w.sync, t_err()), SYNC_PARTLY);
    w.sync->ops->close(w.sync);
    T_EQ(sync_pull_cut(w.sync, tags, &w.gate, cut, t_err()), SYNC_OK);
    world_close(&w);
}

// ---- moments

#define VECTORS 2

// Pulls the moments as a new optimizer would, all in one array.
static enum sync_result pull_moments(struct world *w, float *to, uint64_t *t,
                                     struct sl_error *err)
{
    const struct sync_moments m = {.gate = &w->gate,
                                   .vectors = VECTORS,
                                   .wire = WIRE_F32,
                                   .to = to,
                                   .elements = SHARDS * COUNT};

    return sync_moments(w->sync, &m, t, err);
}

static void moment_of(struct fake_shard *s, float value, uint64_t t)
{
    float *to = (float *)(void *)s->moments;

    for (unsigned i = 0; i < VECTORS * COUNT; i++)
        to[i] = value + (i >= COUNT);
    s->moments_bytes = VECTORS * COUNT * sizeof(float);
    s->moments_t = t;
}

// Vector behind vector; of updates those of the shard that has seen the fewest.
TEST(sync_ps, L9_moments_travel_with_a_push_and_are_pulled_by_another)
{
    float left[VECTORS * COUNT], to[VECTORS * SHARDS * COUNT];
    struct sync_step step = {.samples = 1,
                             .digest = 5,
                             .rows = (const uint8_t *)left,
                             .rows_bytes = sizeof(left),
                             .moments_t = 30};
    uint64_t t = 99;
    struct world w;

    world_open(&w, WIRE_F32);
    for (unsigned i = 0; i < VECTORS * COUNT; i++)
        left[i] = 3 + (i >= COUNT);
    T_EQ(w.sync->ops->send(w.sync, 0, &step, false, t_err()), SYNC_OK);
    T_EQ(w.sync->ops->send(w.sync, 1, &step, true, t_err()), SYNC_OK);
    T_EQ(sync_settle(w.sync, t_err()), SYNC_OK);
    w.sync->ops->close(w.sync);
    T_EQ(pull_moments(&w, to, &t, t_err()), SYNC_OK);
    T_EQ(t, 0); // a push that is skipped brings none
    moment_of(&fake_ps_lock(w.ps)[1], 5, 20);
    fake_ps_unlock(w.ps);
    T_EQ(pull_moments(&w, to, &t, t_err()), SYNC_OK);
    T_EQ(t, 20);
    for (unsigned i = 0; i < VECTORS * SHARDS * COUNT; i++) {
        unsigned vector = i / (SHARDS * COUNT), shard = i / COUNT % SHARDS;

        T_NEAR(to[i], (shard == 0 ? 3 : 5) + vector, 0);
    }
    world_close(&w);
}

TEST(sync_ps, moments_that_do_not_fit_are_an_error)
{
    float to[VECTORS * SHARDS * COUNT];
    struct sl_error err = SL_ERROR_INIT;
    struct fake_shard *s;
    struct world w;
    uint64_t t;

    world_open(&w, WIRE_F32);
    w.sync->ops->close(w.sync);
    s = fake_ps_lock(w.ps);
    moment_of(&s[0], 1, 10);
    s[0].moments_bytes /= 2;
    fake_ps_unlock(w.ps);
    T_EQ(pull_moments(&w, to, &t, &err), SYNC_FAILED);
    T_EQ(err.code, SL_ECORRUPT);
    world_close(&w);
}

// ---- codes

// Pushes a step, and begins again: the answer has no parameters.
static enum sync_result push_and_begin(struct world *w, uint32_t number,
                                       struct sl_error *err)
{
    uint32_t step;
    bool done;

    for (uint32_t i = 0; i < SHARDS; i++)
        send_step(w, i, number, 0);
    T_EQ(sync_settle(w->sync, t_err()), SYNC_OK);
    T_TRUE(is_old(w, 0));
    return begin_wait(w->sync, &step, &done, err);
}

static size_t a_change(const struct world *w, uint8_t bytes[256],
                       float change[COUNT])
{
    for (size_t i = 0; i < COUNT; i++)
        change[i] = i % 3 == 0 ? 0.25f : -0.5f;
    coded_write(&w->coded[0], WIRE_E3M0, change, bytes);
    return coded_bytes(&w->coded[0], WIRE_E3M0);
}

TEST(sync_ps, a_change_is_added_to_what_the_shard_knows_us_to_have)
{
    uint8_t bytes[256];
    float change[COUNT];
    struct world w;

    world_open_as(&w, WIRE_F32, WORLD_ROUNDS | WORLD_CODED);
    T_EQ(fake_ps_lock(w.ps)[0].have, 0); // and so all came, in f32
    fake_ps_unlock(w.ps);
    fake_ps_change(w.ps, 1, bytes, a_change(&w, bytes, change));
    T_EQ(push_and_begin(&w, 0, t_err()), SYNC_OK);
    T_EQ(fake_ps_lock(w.ps)[0].have, 1);
    fake_ps_unlock(w.ps);
    for (size_t i = 0; i < SHARDS * COUNT; i++)
        T_EQ(w.sync->params[i], w.before[i] + change[i % COUNT]);
    // It has that version then.
    memcpy(w.before, w.sync->params, sizeof(w.before));
    fake_ps_change(w.ps, 1, bytes, 0);
    T_EQ(push_and_begin(&w, 1, t_err()), SYNC_OK);
    T_EQ(fake_ps_lock(w.ps)[0].have, 2);
    fake_ps_unlock(w.ps);
    T_TRUE(is_old(&w, 0));
    world_close(&w);
}

// Nothing of it is added.
TEST(sync_ps, a_change_that_does_not_fit_is_an_error)
{
    static const struct {
        uint64_t version;
        int more; // bytes
        float scale;
    } wrong[] = {{1, -1, 1},  {1, 1, 1},  {2, 0, 1},        {0, 0, 1},
                 {1, 0, NAN}, {1, 0, -1}, {1, 0, INFINITY}, {3, -1000, 1}};

    for (unsigned i = 0; i < SL_COUNT(wrong); i++) {
        struct sl_error err = SL_ERROR_INIT;
        uint8_t bytes[256] = {0};
        float change[COUNT];
        struct world w;
        size_t n;

        world_open_as(&w, WIRE_F32, WORLD_ROUNDS | WORLD_CODED);
        n = a_change(&w, bytes, change);
        if (wrong[i].scale != 1)
            memcpy(bytes, &wrong[i].scale, sizeof(float));
        n = wrong[i].more < -1 ? 0 : n + (size_t)wrong[i].more;
        fake_ps_change(w.ps, wrong[i].version, bytes, n);
        T_EQ(push_and_begin(&w, 0, &err), SYNC_FAILED);
        T_EQ(err.code, SL_ECORRUPT);
        T_HAS(err.text, "shard ");
        T_TRUE(is_old(&w, 0));
        T_TRUE(is_old(&w, 1));
        world_close(&w);
    }
}

// One of 40 is sent; a worker that leaves sends what it has kept of the others.
TEST(sync_ps, who_drains_sends_what_it_has_left_out)
{
    uint8_t bytes[256];
    float change[COUNT];
    struct fake_shard *s;
    struct world w;

    world_open_as(&w, WIRE_F32, WORLD_ROUNDS | WORLD_CODED);
    fake_ps_change(w.ps, 1, bytes, a_change(&w, bytes, change));
    memcpy(w.before, w.sync->params, sizeof(w.before));
    T_EQ(push_and_begin(&w, 0, t_err()), SYNC_OK);
    s = fake_ps_lock(w.ps);
    for (size_t i = 0; i < COUNT; i++) // at half the rate
        T_NEAR(s->values[i], w.before[i] - (i == 0 ? 0.5f : 0), 1e-6);
    fake_ps_unlock(w.ps);
    atomic_store(&w.gate.draining, true);
    for (uint32_t i = 0; i < SHARDS; i++)
        send_step(&w, i, 1, 0);
    T_EQ(sync_settle(w.sync, t_err()), SYNC_OK);
    s = fake_ps_lock(w.ps);
    T_EQ(s->applied, 2);
    for (size_t i = 0; i < COUNT; i++)
        T_NEAR(s->values[i], w.before[i] - (i == 0 ? 1 : 0.5 * 1.95), 0.01);
    fake_ps_unlock(w.ps);
    world_close(&w);
}
