// SPDX-License-Identifier: Apache-2.0
// What is sent before its layer has done with the parameters: the answer waits,
// or, where memory is shared, the call. The psserver is in this process, over
// real RPC.
#include "tests/harness/t.h"

#include <sched.h>

#include "common/base/mem.h"
#include "tests/unit/trainer/fake_ps.h"
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

enum { WORLD_SHARES = 1, WORLD_BY_RANGE = 2 };

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
                                 .rate = 0.5f};
    struct sync_ps_options o = {.job = JOB,
                                .job_incarnation = 1,
                                .shards = ranges,
                                .shards_count = SHARDS,
                                .elements = SHARDS * COUNT,
                                .wire = wire,
                                .clock = sl_clock_real(),
                                .want_map = want_map,
                                .arg = w};
    struct sync_closure c = {
        .attempt = {.term = 1, .n = 1}, .steps = 4, .gate = &w->gate};
    uint32_t step = 99;
    bool done = true;

    memset(w, 0, sizeof(*w));
    w->incarnation = 1;
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
