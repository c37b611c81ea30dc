// SPDX-License-Identifier: Apache-2.0
// tests/emul/resident_test.c -- parameters and optimizer slots that stay on the
// emulated device: the bits of a rank that has them in host memory, whatever
// the order in which streams get on.
#include <math.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "tests/emul/cudart.h"
#include "tests/emul/rig.h"
#include "tests/unit/trainer/ring_world.h"
#include "trainer/ring/follow.h"
#include "worker/lease/rank_away.h"

#define ROUNDS 12
#define RUNS 3 // a/kernel, a/mean, b/kernel: the moving one is for itself

// Two ranks of one past: the one here, the other one lent to a device.
struct twins {
    struct world w;
    struct kern_dev *dev;
    struct device *d;
    struct resident *resident;
    struct rank here, there;
    uint64_t next; // step
};

static void twins_init(struct twins *t, char *optimizer)
{
    memset(t, 0, sizeof(*t));
    world_init(&t->w, optimizer);
    t->w.geometry.epochs = 20;
    t->w.optimizer.has_momentum = 1; // not read of those that have none
    t->w.optimizer.momentum = 0.9;
    t->w.optimizer.has_weight_decay = 1;
    t->w.optimizer.weight_decay = 0.01;
    t->w.optimizer.has_clipvalue = 1;
    t->w.optimizer.clipvalue = 1.5;
    T_OK(kern_open(&t->dev, "cuda", NULL, t_err()));
    T_OK(device_new(&t->d, t->dev, ELEMENTS, t_err()));
    T_OK(rank_load(&t->here, &t->w.job, &t->w.begin, t_err()));
    T_OK(rank_load(&t->there, &t->w.job, &t->w.begin, t_err()));
    T_OK(resident_new(&t->resident, t->d, &t->here.parts[0]->plan.optim, RUNS,
                      t_err()));
    T_OK(rank_lend(&t->there, t->resident, t_err()));
}

static void twins_release(struct twins *t)
{
    rank_release(&t->here);
    rank_release(&t->there);
    resident_free(t->resident);
    device_free(t->d);
    kern_close(t->dev);
}

// The average goes there in two pieces, the last first.
static enum sl_err give(struct twins *t, const float *g)
{
    uint64_t half = ELEMENTS / 2;
    enum sl_err rc = resident_free_gradient(t->resident, t_err());

    memcpy(device_grads(t->d), g, ELEMENTS * sizeof(float));
    if (rc == SL_OK)
        rc = resident_gradient(t->resident, half, ELEMENTS - half, t_err());
    return rc == SL_OK ? resident_gradient(t->resident, 0, half, t_err()) : rc;
}

static enum sl_err round_there(struct twins *t, const struct once_step *steps,
                               const float *g)
{
    enum sl_err rc = steps[0].skip ? SL_OK : give(t, g);

    return rc == SL_OK ? rank_round(&t->there, steps, 2, device_grads(t->d),
                                    NULL, NULL, t_err())
                       : rc;
}

static void run_round(struct twins *t, bool skip)
{
    struct once_step steps[2];
    float g[ELEMENTS];

    for (size_t i = 0; i < 2; i++) {
        steps[i] = step_of(t->next + i);
        steps[i].skip = skip;
    }
    gradient(g, t->next);
    T_OK(rank_round(&t->here, steps, 2, g, NULL, NULL, t_err()));
    T_OK(round_there(t, steps, g));
    t->next += 2;
}

// Without the tag, of which no call here changes anything.
static void are_equal(struct twins *t)
{
    float here[ELEMENTS], there[ELEMENTS];

    T_OK(rank_values(&t->here, here, t_err()));
    T_OK(rank_values(&t->there, there, t_err()));
    T_MEM(here, there, sizeof(here));
    T_OK(rank_bring(&t->there, t_err()));
    T_TRUE(same_state(&t->here, &t->there));
}

TEST(resident, rounds_have_the_bits_of_the_host)
{
    static char *const kinds[] = {(char *)"sgd", (char *)"adam",
                                  (char *)"adamw", (char *)"adagrad",
                                  (char *)"rmsprop"};
    unsigned before = emul_alive();

    for (unsigned k = 0; k < 2 * SL_COUNT(kinds); k++) {
        struct twins t;

        emul_lazy(k);
        twins_init(&t, kinds[k / 2]);
        for (unsigned i = 0; i < ROUNDS; i++) {
            run_round(&t, i % 5 == 4);
            if (i % 4 == 3)
                are_equal(&t);
        }
        T_OK(rank_take_back(&t.there, t_err()));
        T_TRUE(same_state(&t.here, &t.there));
        T_OK(rank_lend(&t.there, t.resident, t_err()));
        run_round(&t, false);
        are_equal(&t);
        twins_release(&t);
    }
    emul_lazy(0);
    T_EQ(emul_alive(), before);
}

static void same_image(struct shard_image *a, struct shard_image *b)
{
    size_t n = shard_bytes(a->shard);
    uint8_t *x = sl_malloc(n), *y = sl_malloc(n);

    T_OK(shard_image_read(a, 0, n, x));
    T_OK(shard_image_read(b, 0, n, y));
    T_MEM(x, y, n);
    T_TRUE(counted_equal(&a->once.counted, &b->once.counted));
    sl_free(x);
    sl_free(y);
}

// S1: an image is of one instant, also if the part comes home again before it
// was read.
TEST(resident, S1_an_image_is_of_one_instant)
{
    struct shard_image here, there;
    struct twins t;

    for (unsigned seed = 0; seed < 4; seed++) {
        emul_lazy(seed);
        twins_init(&t, (char *)"adam");
        run_round(&t, false);
        T_TRUE(update_is_behind(t.there.parts[1]));
        T_FAILS(SL_ESTALE,
                shard_freeze_copy(t.there.parts[1], &there, t_err()));
        T_OK(rank_freeze(&t.here, 1, &here, t_err()));
        T_OK(rank_freeze(&t.there, 1, &there, t_err()));
        T_FALSE(update_is_behind(t.there.parts[1]));
        T_TRUE(update_is_behind(t.there.parts[0]));
        run_round(&t, false);
        run_round(&t, true);
        are_equal(&t);
        same_image(&here, &there);
        shard_image_release(&here);
        shard_image_release(&there);
        twins_release(&t);
    }
    emul_lazy(0);
}

// Memory that lacks updates is given to nobody, nor updated here.
TEST(resident, R3_a_state_that_is_away_is_not_copied)
{
    struct once_step step = step_of(0);
    float g[ELEMENTS];
    struct update u = {.gradient = g, .steps = &step, .count = 1};
    struct rank_view view;
    uint64_t head[4];
    struct twins t;

    twins_init(&t, (char *)"adam");
    T_OK(rank_view_init(&view, &t.there));
    T_OK(rank_view_read(&view, 0, sizeof(head), head)); // it is level still
    rank_view_release(&view);
    run_round(&t, false);
    T_OK(rank_view_init(&view, &t.there));
    T_EQ(rank_view_read(&view, view.bytes - 4, 4, head), SL_ESTALE);
    step = step_of(t.next);
    gradient(g, 0);
    T_FAILS(SL_ESTATE, update_shard(t.there.parts[0], &u, NULL, t_err()));
    T_OK(rank_bring(&t.there, t_err()));
    T_OK(rank_view_read(&view, view.bytes - 4, 4, head));
    rank_view_release(&view);
    twins_release(&t);
}

// ---- newcomers

struct source {
    struct twins *t;
    struct ring_feed *feed;
};

static enum sl_err ask_feed(void *arg, struct follow_get *gets, size_t count,
                            struct sl_error *err)
{
    struct source *s = arg;
    enum sl_err rc = SL_OK;

    for (size_t i = 0; i < count; i++) {
        gets[i].rc = ring_feed_read(s->feed, &gets[i].ask, gets[i].into, err);
        if (gets[i].rc != SL_OK && (rc == SL_OK || rc == SL_EBUSY))
            rc = gets[i].rc;
    }
    return rc;
}

static void round_and_feed(struct source *s, bool skip)
{
    struct twins *t = s->t;
    struct once_step steps[2] = {step_of(t->next), step_of(t->next + 1)};

    steps[0].skip = steps[1].skip = skip;
    run_round(t, skip);
    ring_feed_round(s->feed, &t->there, steps, 2, device_grads(t->d), NULL);
}

// What the compute thread does between two rounds.
static unsigned give_images(struct source *s)
{
    struct rank *r = &s->t->there;
    unsigned given = 0;

    for (uint32_t i = 0; i < r->count; i++) {
        if (!ring_feed_wants(s->feed, r, i))
            continue;
        T_OK(rank_bring_part(r, i, t_err()));
        ring_feed_image(s->feed, i);
        given++;
    }
    return given;
}

TEST(resident, R3_a_newcomer_follows_a_state_that_is_away)
{
    for (unsigned often = 1; often < 6; often++) {
        struct clock_fake clock;
        struct rank fresh = {0};
        struct follow follow;
        struct source s = {0};
        struct twins t;
        enum sl_err rc = SL_OK;
        unsigned given = 0;

        emul_lazy(often);
        clock_fake_init(&clock, 1000000, 0);
        twins_init(&t, (char *)"adam");
        s.t = &t;
        run_round(&t, false);
        T_OK(ring_feed_new(&s.feed, &t.there, &clock.clock));
        T_OK(follow_init(&follow, &fresh, &t.w.job, 3, 1, ask_feed, &s,
                         t_err()));
        for (unsigned n = 0; n < 60; n++) {
            rc = follow_step(&follow, t_err());
            T_TRUE(rc == SL_OK || rc == SL_EBUSY);
            if (n % often == 0 && t.next < 60)
                round_and_feed(&s, n % 7 == 6);
            given += give_images(&s);
        }
        T_GE(given, 2); // one of each part
        while (rc == SL_OK)
            rc = follow_step(&follow, t_err());
        T_EQ(rc, SL_EBUSY);
        T_TRUE(follow.in_place);
        are_equal(&t);
        T_TRUE(same_state(&t.here, &fresh));
        follow_release(&follow);
        rank_release(&fresh);
        ring_feed_free(s.feed);
        twins_release(&t);
    }
    emul_lazy(0);
}

// ---- what is asked of the device

TEST(resident, a_round_asks_little_of_the_device)
{
    static const char *const none[] = {
        "malloc",   "host_alloc", "free",       "free_host", "sync",
        "unpinned", "busy_free",  "event_sync", "event",     "stream"};
    unsigned n[SL_COUNT(none)], launches, copies;
    struct twins t;
    uint64_t mem, bytes, back;

    twins_init(&t, (char *)"adam");
    run_round(&t, false);
    for (unsigned i = 0; i < SL_COUNT(none); i++)
        n[i] = emul_calls(none[i]);
    launches = emul_calls("launch");
    copies = emul_calls("copy");
    bytes = emul_copied(cudaMemcpyHostToDevice);
    back = emul_copied(cudaMemcpyDeviceToHost);
    mem = sl_mem_calls();
    run_round(&t, false);
    T_EQ(sl_mem_calls(), mem);
    for (unsigned i = 0; i < SL_COUNT(none); i++)
        T_EQ(emul_calls(none[i]), n[i]);
    T_EQ(emul_calls("launch") - launches, RUNS);
    T_EQ(emul_calls("copy") - copies, 2 + 1); // the pieces; constants
    T_EQ(emul_copied(cudaMemcpyHostToDevice) - bytes,
         ELEMENTS * sizeof(float) + RUNS * sizeof(struct optim_consts));
    T_EQ(emul_copied(cudaMemcpyDeviceToHost), back);
    // A round that is skipped asks nothing.
    launches = emul_calls("launch");
    copies = emul_calls("copy");
    run_round(&t, true);
    T_EQ(emul_calls("launch"), launches);
    T_EQ(emul_calls("copy"), copies);
    twins_release(&t);
}

// ---- steps that read what was updated

// The runs of a rig's model.
static uint32_t runs_of(const struct model *m, struct resident_run *run)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->variables_count; i++) {
        const struct model_variable *v = &m->variables[i];
        bool moving = v->kind == MODEL_MOVING;

        if (n > 0 && run[n - 1].moving == moving)
            run[n - 1].elements += v->elements;
        else
            run[n++] = (struct resident_run){v->first, v->elements, moving};
    }
    return n;
}

struct trained {
    struct rig rig;
    struct optim optim;
    struct resident_run run[16];
    uint32_t runs;
    float *slot; // on the host
};

static void trained_init(struct trained *t, bool resident)
{
    struct step *s = &t->rig.step;

    memset(t, 0, sizeof(*t));
    T_OK(rig_open(&t->rig, "cuda", RANGES));
    t->runs = runs_of(t->rig.model, t->run);
    optim_defaults(&t->optim, OPTIM_SGD);
    t->optim.momentum = 0.5;
    t->slot = sl_calloc(t->rig.model->elements, sizeof(float));
    if (!resident)
        return;
    memcpy(t->rig.own, s->params, t->rig.model->elements * sizeof(float));
    T_OK(resident_new(&s->resident, s->device, &t->optim, t->runs, t_err()));
    for (unsigned k = 0; k < 2; k++)
        T_OK(resident_write(s->resident, k, 0, t->rig.model->elements,
                            k == 0 ? t->rig.own : t->slot, t_err()));
}

static void trained_release(struct trained *t)
{
    sl_free(t->slot);
    resident_free(t->rig.step.resident);
    t->rig.step.resident = NULL;
    rig_close(&t->rig);
}

static void consts_of(const struct trained *t, uint32_t run, uint64_t at,
                      struct optim_consts *out)
{
    if (t->run[run].moving)
        *out = (struct optim_consts){.clip = INFINITY, .a = 0, .b = 1};
    else
        optim_consts(out, &t->optim, at, 0.2);
}

static void update_here(struct trained *t, uint64_t at)
{
    struct step *s = &t->rig.step;

    for (uint32_t i = 0; i < t->runs; i++) {
        uint64_t first = t->run[i].first, n = t->run[i].elements;
        float *slot = t->slot + first;

        if (t->run[i].moving)
            memcpy(s->params + first, s->grads + first, n * sizeof(float));
        else
            optim_apply(&t->optim, at, 0.2, n, s->grads + first,
                        s->params + first, &slot);
    }
}

static void update_there(struct trained *t, uint64_t at)
{
    struct resident *r = t->rig.step.resident;
    struct optim_consts k[16];

    for (uint32_t i = 0; i < t->runs; i++)
        consts_of(t, i, at, &k[i]);
    T_OK(resident_free_gradient(r, t_err()));
    for (uint32_t i = RANGES; i-- > 0;)
        T_OK(resident_gradient(r, t->rig.ranges[i].first,
                               t->rig.ranges[i].count, t_err()));
    T_OK(resident_update(r, t->run, k, t->runs, t_err()));
}

static void train(struct trained *t, uint32_t step)
{
    struct step *s = &t->rig.step;
    struct batch b = rig_batch(&t->rig, step, 4);
    struct placed *p = NULL;
    struct step_program run;

    T_OK(rig_place(&t->rig, true, 4, &p));
    run = rig_step_program(p);
    program_set_step(p->program, step);
    T_OK(step_begin(s, &run, &b, t_err()));
    T_OK(rig_run_all(&t->rig, p));
    T_OK(step_stats(s, t_err()));
    t->rig.loss = program_loss_sum(p->program);
    for (uint32_t i = 0; i < RANGES; i++)
        T_OK(step_take(s, p->overlap.by_send[i], t_err()));
    if (s->resident != NULL)
        update_there(t, step + 1);
    else
        update_here(t, step + 1);
}

// With other parameters in their place, as an evaluation has them.
static void evaluate_both(struct trained *here, struct trained *there,
                          uint64_t name)
{
    struct resident *r = there->rig.step.resident;
    size_t n = here->rig.model->elements;
    float *got = sl_calloc(n, sizeof(float));

    T_OK(rig_evaluate(&here->rig, here->slot, name));
    T_OK(rig_evaluate(&there->rig, here->slot, name));
    T_MEM(&here->rig.loss, &there->rig.loss, sizeof(double));
    T_OK(resident_read(r, 0, 0, n, got, t_err()));
    T_MEM(got, here->rig.step.params, n * sizeof(float));
    switch (name % 3) {
    case 0: // a round in which this rank has no step
        update_here(here, 100);
        update_there(there, 100);
        break;
    case 1: // another state, of the same values
        T_OK(resident_write(r, 0, 0, n, got, t_err()));
        break;
    default:
        break;
    }
    sl_free(got);
}

// Also where an evaluation reads other parameters in between, and where the
// first op runs before there are any.
TEST(resident, steps_read_what_was_updated)
{
    unsigned before = emul_alive();

    for (unsigned seed = 0; seed < 64; seed++) {
        struct trained here, there;
        float *got;
        size_t n;

        emul_lazy(seed);
        rig_bytes = seed % 2 == 1;
        trained_init(&here, false);
        trained_init(&there, true);
        n = here.rig.model->elements;
        got = sl_calloc(n, sizeof(float));
        for (uint32_t i = 0; i < 8; i++) {
            train(&here, i);
            train(&there, i);
            T_MEM(&here.rig.loss, &there.rig.loss, sizeof(double));
            if (i % 2 == seed / 2 % 2)
                evaluate_both(&here, &there, 1 + i);
        }
        T_OK(resident_read(there.rig.step.resident, 1, 0, n, got, t_err()));
        T_MEM(got, here.slot, n * sizeof(float));
        sl_free(got);
        trained_release(&here);
        trained_release(&there);
    }
    rig_bytes = false;
    emul_lazy(0);
    T_EQ(emul_alive(), before);
}

// A round of imagenette's net, alone: the step, then the update. No parameters
// go there; the host waits for the loss and for each range; nothing is
// allocated.
TEST(resident, imagenette_asks_little_of_the_device)
{
    static const char *const none[] = {
        "malloc",   "host_alloc", "free",  "free_host", "sync",
        "unpinned", "busy_free",  "event", "stream",    "capture"};
    unsigned n[SL_COUNT(none)], syncs, graphs, launches;
    struct trained t;
    uint64_t mem, up, own;

    rig_net = rig_imagenette;
    rig_bytes = true;
    emul_lazy(1);
    trained_init(&t, true);
    for (uint32_t i = 0; i < 4; i++)
        train(&t, i);
    for (unsigned i = 0; i < SL_COUNT(none); i++)
        n[i] = emul_calls(none[i]);
    syncs = emul_calls("event_sync");
    graphs = emul_calls("graph");
    launches = emul_calls("launch");
    up = emul_copied(cudaMemcpyHostToDevice);
    mem = sl_mem_calls();
    train(&t, 4);
    T_EQ(sl_mem_calls(), mem);
    for (unsigned i = 0; i < SL_COUNT(none); i++)
        T_EQ(emul_calls(none[i]), n[i]);
    T_LE(emul_calls("event_sync") - syncs, 1 + RANGES);
    T_LE(emul_calls("graph") - graphs, RANGES);
    T_EQ(emul_calls("launch") - launches, 1 + t.runs); // 1: bytes to numbers
    own = 4 * (t.rig.features + sizeof(int32_t)) +
          t.runs * sizeof(struct optim_consts) + 64; // batch, constants, scale
    T_LE(emul_copied(cudaMemcpyHostToDevice) - up,
         t.rig.model->elements * sizeof(float) + own);
    trained_release(&t);
    emul_lazy(0);
    rig_net = NULL;
    rig_bytes = false;
}

// ---- devices that will not do, or break

static const struct kern_backend *real;

// The last element is not updated.
static enum sl_err too_short(struct kern_stream *s, const struct optim *o,
                             size_t n, const float *grad, float *w,
                             float *const *slots,
                             const struct optim_consts *consts)
{
    return real->optim(s, o, n - 1, grad, w, slots, consts);
}

TEST(resident, a_device_with_other_bits_or_no_optimizer_is_not_taken)
{
    struct sl_error err = SL_ERROR_INIT;
    struct kern_backend changed;
    struct resident *r = NULL;
    struct device *d = NULL;
    struct kern_dev *dev;
    struct optim o;

    optim_defaults(&o, OPTIM_ADAM);
    T_OK(kern_open(&dev, "cuda", NULL, t_err()));
    real = dev->backend;
    changed = *real;
    dev->backend = &changed;
    T_OK(device_new(&d, dev, 1000, t_err()));
    changed.optim = too_short;
    T_FAILS(SL_ENOTSUP, resident_new(&r, d, &o, 1, &err));
    T_HAS(err.text, "other bits");
    changed.optim = NULL;
    T_FAILS(SL_ENOTSUP, resident_new(&r, d, &o, 1, &err));
    T_HAS(err.text, "has no optimizers");
    changed = *real;
    changed.size = offsetof(struct kern_backend, optim); // an older module
    T_FAILS(SL_ENOTSUP, resident_new(&r, d, &o, 1, t_err()));
    for (unsigned i = 0; i < 1000; i++)
        T_TRUE(device_grads(d)[i] == 0);
    changed = *real;
    T_OK(resident_new(&r, d, &o, 1, t_err()));
    resident_free(r);
    device_free(d);
    dev->backend = real;
    kern_close(dev);
}

TEST(resident, too_little_memory_leaves_nothing)
{
    static const char *const all[] = {"malloc", "host_alloc", "event"};
    struct optim o;

    optim_defaults(&o, OPTIM_ADAM);
    for (unsigned k = 0; k < SL_COUNT(all); k++) {
        for (unsigned nth = 1;; nth++) {
            struct resident *r = NULL;
            struct device *d = NULL;
            struct kern_dev *dev;
            unsigned before;
            enum sl_err rc;

            T_OK(kern_open(&dev, "cuda", NULL, t_err()));
            T_OK(device_new(&d, dev, 1000, t_err()));
            before = emul_alive();
            emul_fail(all[k], nth, cudaErrorMemoryAllocation, false);
            rc = resident_new(&r, d, &o, 1, t_err());
            emul_heal();
            if (rc != SL_OK)
                T_EQ(emul_alive(), before);
            resident_free(r);
            device_free(d);
            kern_close(dev);
            if (rc == SL_OK)
                break;
            T_EQ(rc, SL_ENOMEM);
        }
    }
}

// The state goes with its device: nobody is told of it any more.
TEST(resident, a_state_is_lost_with_its_device)
{
    static const char *const all[] = {"copy", "launch", "event_record",
                                      "event_wait"};

    for (unsigned k = 0; k < SL_COUNT(all); k++) {
        struct once_step steps[2] = {step_of(2), step_of(3)};
        float g[ELEMENTS];
        struct twins t;

        twins_init(&t, (char *)"adam");
        run_round(&t, false);
        gradient(g, 2);
        T_OK(give(&t, g));
        emul_fail(all[k], 1, cudaErrorIllegalAddress, true);
        T_FAILS(SL_ELOST, rank_round(&t.there, steps, 2, device_grads(t.d),
                                     NULL, NULL, t_err()));
        T_FALSE(rank_has_state(&t.there));
        T_EQ(t.there.tag.incarnation, 0);
        emul_heal();
        twins_release(&t);

        twins_init(&t, (char *)"adam");
        run_round(&t, false);
        emul_fail("copy", 1, cudaErrorIllegalAddress, true);
        T_FAILS(SL_ELOST, rank_bring(&t.there, t_err()));
        T_TRUE(update_is_behind(t.there.parts[0]));
        T_FAILS(SL_ELOST, rank_take_back(&t.there, t_err()));
        T_FALSE(rank_has_state(&t.there));
        emul_heal();
        twins_release(&t);
    }
}
