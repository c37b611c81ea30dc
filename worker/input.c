// SPDX-License-Identifier: Apache-2.0
// worker/input.c -- the reading thread and its ring; see input.h.
//
//   FREE --read_one--> FILLING --read_one--> READY --input_get--> TAKEN
//    ^                    | (stale: nobody wants it)  |              |
//    +--------------------+----- drop ----------------+- input_put --+
//
// Every move is made under the lock; the reading itself is not.
#include "worker/input.h"

#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/schedule.h"

#define AHEAD 4 // samples that are fetched while one is read
// A batch whose samples took longer than this each came from a disk: then the
// system is told what the next ones will read, so that it fetches them side by
// side and not one after the other. In memory that would be for nothing.
#define SLOW_US 10
#define EXPECT_BATCHES 256

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_TAKEN };

struct slot {
    enum slot_state state;
    bool stale; // FILLING, but to be thrown away
    struct input_run *run;
    struct batch batch;
    size_t x_bytes, y_bytes; // room
    enum sl_err rc;
    struct sl_error err;
};

struct input {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; // of any state below
    bool quit;
    unsigned expect;  // the input thread's: so many batches are told of
    struct list runs; // struct input_run, the next to be read first
    struct slot slot[INPUT_SLOTS];
};

uint32_t input_run_steps(const struct input_run *run)
{
    return (uint32_t)sl_ceil_div(run->count, run->batch);
}

uint32_t input_run_samples(const struct input_run *run, uint32_t step)
{
    uint64_t from = (uint64_t)step * run->batch;

    if (from >= run->count)
        return 0;
    return run->count - from < run->batch ? (uint32_t)(run->count - from)
                                          : run->batch;
}

// ---- the reading thread

static enum sl_err room(struct slot *s, size_t x_bytes, size_t y_bytes)
{
    if (x_bytes > s->x_bytes) {
        sl_free(s->batch.x);
        s->x_bytes = 0;
        s->batch.x = sl_aligned(64, x_bytes);
        if (s->batch.x == NULL)
            return SL_ENOMEM;
        s->x_bytes = x_bytes;
    }
    if (y_bytes > s->y_bytes) {
        sl_free(s->batch.y);
        s->y_bytes = 0;
        s->batch.y = sl_aligned(64, y_bytes);
        if (s->batch.y == NULL)
            return SL_ENOMEM;
        s->y_bytes = y_bytes;
    }
    return SL_OK;
}

// Which sample stands at a place of a batch.
static uint64_t sample_of(const struct input_run *run, uint32_t step,
                          uint32_t i)
{
    uint64_t at = run->first + (uint64_t)step * run->batch + i;

    return run->shuffle ? order_at(&run->order, at) : at;
}

// The same; its memory is on its way when this returns.
static uint64_t look_at(const struct input_run *run, uint32_t step, uint32_t i)
{
    uint64_t sample = sample_of(run, step, i);

    data_soon(run->data, sample);
    return sample;
}

static enum sl_err fill(struct slot *s, struct sl_error *err)
{
    const struct input_run *run = s->run;
    size_t features = data_features(run->data);
    size_t label = data_label_bytes(run->data);
    uint32_t n = input_run_samples(run, s->batch.step);
    uint64_t soon[AHEAD]; // the numbers of those that follow
    enum sl_err rc;

    if (room(s, n * features * sizeof(float), n * label) != SL_OK)
        return sl_fail(err, SL_ENOMEM, "no memory for a batch of %u samples",
                       n);
    s->batch.n = n;
    s->batch.digest = 0;
    for (uint32_t i = 0; i < n && i < AHEAD; i++)
        soon[i] = look_at(run, s->batch.step, i);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t sample = soon[i % AHEAD];

        if (i + AHEAD < n)
            soon[i % AHEAD] = look_at(run, s->batch.step, i + AHEAD);
        rc = data_read(run->data, sample, s->batch.x + i * features,
                       (uint8_t *)s->batch.y + i * label, err);
        if (rc != SL_OK)
            return rc;
        s->batch.digest += schedule_digest(run->epoch, sample);
    }
    return SL_OK;
}

static enum sl_err fill_expecting(struct input *in, struct slot *s)
{
    const struct input_run *run = s->run;
    uint32_t n = input_run_samples(run, s->batch.step);
    uint64_t began = sl_now_us(sl_clock_real());
    enum sl_err rc;

    if (in->expect > 0) {
        in->expect--;
        for (uint32_t i = 0; i < n; i++)
            data_expect(run->data, sample_of(run, s->batch.step, i));
    }
    rc = fill(s, &s->err);
    if (sl_now_us(sl_clock_real()) - began > (uint64_t)n * SLOW_US)
        in->expect = EXPECT_BATCHES;
    return rc;
}

// The slot to fill next, set up; NULL: nothing to do now.
static struct slot *next_job(struct input *in)
{
    struct slot *s = NULL;

    for (unsigned i = 0; i < INPUT_SLOTS && s == NULL; i++) {
        if (in->slot[i].state == SLOT_FREE)
            s = &in->slot[i];
    }
    if (s == NULL)
        return NULL;
    list_for(n, &in->runs)
    {
        struct input_run *run = list_entry(n, struct input_run, node);

        if (run->next >= input_run_steps(run))
            continue;
        s->state = SLOT_FILLING;
        s->stale = false;
        s->run = run;
        s->batch.step = run->next++;
        return s;
    }
    return NULL;
}

static void *read_all(void *arg)
{
    struct input *in = arg;
    struct slot *s;

    pthread_mutex_lock(&in->lock);
    while (!in->quit) {
        s = next_job(in);
        if (s == NULL) {
            pthread_cond_wait(&in->changed, &in->lock);
            continue;
        }
        pthread_mutex_unlock(&in->lock);
        s->rc = fill_expecting(in, s);
        pthread_mutex_lock(&in->lock);
        s->state = s->stale ? SLOT_FREE : SLOT_READY;
        pthread_cond_broadcast(&in->changed);
    }
    pthread_mutex_unlock(&in->lock);
    return NULL;
}

// ---- the consumer

enum sl_err input_new(struct input **out, struct sl_error *err)
{
    struct input *in = sl_calloc(1, sizeof(*in));

    if (in == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory");
    pthread_mutex_init(&in->lock, NULL);
    pthread_cond_init(&in->changed, NULL);
    list_init(&in->runs);
    if (pthread_create(&in->thread, NULL, read_all, in) != 0) {
        pthread_mutex_destroy(&in->lock);
        pthread_cond_destroy(&in->changed);
        sl_free(in);
        return sl_fail(err, SL_ENOMEM, "cannot start the input thread");
    }
    pthread_setname_np(in->thread, "input");
    *out = in;
    return SL_OK;
}

void input_free(struct input *in)
{
    if (in == NULL)
        return;
    pthread_mutex_lock(&in->lock);
    in->quit = true;
    pthread_cond_broadcast(&in->changed);
    pthread_mutex_unlock(&in->lock);
    pthread_join(in->thread, NULL);
    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        sl_free(in->slot[i].batch.x);
        sl_free(in->slot[i].batch.y);
    }
    pthread_mutex_destroy(&in->lock);
    pthread_cond_destroy(&in->changed);
    sl_free(in);
}

void input_open(struct input *in, struct input_run *run)
{
    pthread_mutex_lock(&in->lock);
    run->next = 0;
    list_push_back(&in->runs, &run->node);
    pthread_cond_broadcast(&in->changed);
    pthread_mutex_unlock(&in->lock);
}

#define ALL UINT32_MAX

// Throws away what was read of a run, the steps below `below`. True: a slot
// has become free.
static bool drop_locked(struct input *in, const struct input_run *run,
                        uint32_t below)
{
    bool freed = false;

    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        struct slot *s = &in->slot[i];

        if (s->run != run || s->batch.step >= below)
            continue;
        if (s->state == SLOT_READY) {
            s->state = SLOT_FREE;
            freed = true;
        } else if (s->state == SLOT_FILLING) {
            s->stale = true;
        }
    }
    return freed;
}

// The whole ring holds what is not wanted now: makes room for `run`.
static void steal_locked(struct input *in, const struct input_run *run)
{
    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        if (in->slot[i].state == SLOT_FREE || in->slot[i].state == SLOT_FILLING)
            return;
    }
    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        struct slot *s = &in->slot[i];

        if (s->state != SLOT_READY || s->run == run)
            continue;
        // Its run begins again: it is one that was not asked for yet.
        s->run->next = 0;
        drop_locked(in, s->run, ALL);
        return;
    }
}

// The slot with this step, READY or FILLING. If nobody is about to read it,
// somebody is told to.
static struct slot *find_locked(struct input *in, struct input_run *run,
                                uint32_t step)
{
    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        struct slot *s = &in->slot[i];

        if (s->run == run && s->batch.step == step && !s->stale &&
            (s->state == SLOT_READY || s->state == SLOT_FILLING))
            return s;
    }
    drop_locked(in, run, ALL);
    run->next = step;
    list_remove(&run->node); // it is the one to be read first now
    list_push_front(&in->runs, &run->node);
    steal_locked(in, run);
    pthread_cond_broadcast(&in->changed);
    return NULL;
}

enum sl_err input_get(struct input *in, struct input_run *run, uint32_t step,
                      struct batch *out, struct sl_error *err)
{
    struct slot *s;
    enum sl_err rc;
    bool freed;

    if (step >= input_run_steps(run))
        return sl_fail(err, SL_ERANGE, "the closure has no step %u", step);
    pthread_mutex_lock(&in->lock);
    for (;;) {
        s = find_locked(in, run, step);
        if (s != NULL && s->state == SLOT_READY)
            break;
        pthread_cond_wait(&in->changed, &in->lock);
    }
    freed = drop_locked(in, run, step); // those before it, if some were skipped
    rc = s->rc;
    s->state = rc == SL_OK ? SLOT_TAKEN : SLOT_FREE;
    if (rc == SL_OK)
        *out = s->batch;
    else if (err != NULL)
        *err = s->err;
    if (freed || rc != SL_OK) // else there is nothing to be woken for
        pthread_cond_broadcast(&in->changed);
    pthread_mutex_unlock(&in->lock);
    return rc;
}

void input_put(struct input *in, const struct batch *batch)
{
    pthread_mutex_lock(&in->lock);
    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        struct slot *s = &in->slot[i];

        if (s->state == SLOT_TAKEN && s->batch.x == batch->x)
            s->state = SLOT_FREE;
    }
    pthread_cond_broadcast(&in->changed);
    pthread_mutex_unlock(&in->lock);
}

static bool filling_locked(const struct input *in, const struct input_run *run)
{
    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        if (in->slot[i].run == run && in->slot[i].state == SLOT_FILLING)
            return true;
    }
    return false;
}

void input_close(struct input *in, struct input_run *run)
{
    pthread_mutex_lock(&in->lock);
    list_remove(&run->node);
    drop_locked(in, run, ALL);
    while (filling_locked(in, run))
        pthread_cond_wait(&in->changed, &in->lock);
    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        if (in->slot[i].run == run && in->slot[i].state != SLOT_TAKEN)
            in->slot[i].run = NULL;
    }
    pthread_cond_broadcast(&in->changed);
    pthread_mutex_unlock(&in->lock);
}
