// SPDX-License-Identifier: Apache-2.0
// worker/data/input.c -- the reading threads and their ring; see input.h.
//
//   FREE --next_job--> FILLING --finish--> READY --input_get--> TAKEN
//    ^                    | (stale: not wanted)       |              |
//    +--------------------+----- drop ----------------+- input_put --+
//
// A batch that could not be read is FREE after input_get, too. Every move is
// made under the lock; the reading itself is not. Each thread takes the next
// samples, of a batch that is FILLING, that no other has; one thread is enough
// where reading is cheap, and the others are then never woken.
#include "worker/data/input.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/moves.h"
#include "common/base/num.h"
#include "common/base/file_wait.h"
#include "plan/schedule.h"
#include "common/run/spans.h"

#define AHEAD 4 // samples that are fetched while one is read
#define SHARE 2 // samples that a thread takes at a time, where many read
// Microseconds per sample: a batch that took longer came from a disk. Then the
// system is told what the next ones will read, so that it fetches them side by
// side and not one after the other: 59,000 samples/s from a cold disk, and not
// 14,000. In memory that would be in vain.
#define SLOW_US 10
#define EXPECT_BATCHES 256

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_TAKEN };

struct space {
    void *x, *y;
    size_t x_bytes, y_bytes;
};

struct input_slot {
    enum slot_state state;
    bool stale; // FILLING, but to be thrown away
    struct input_run *run;
    struct batch batch; // x and y lie in `own` or `pinned`
    struct space own, pinned;
    struct ids ids; // of one thread: data with ids is not shared
    // FILLING: samples that are being read, or have been; threads that read.
    uint32_t given, readers;
    uint32_t bad; // the first sample that could not be read; UINT32_MAX: none
    uint64_t us;  // time that reading took so far, of all threads
    enum sl_err rc;
    struct sl_error err;
};

struct input_reader {
    struct input *in;
    pthread_t thread;
    bool helper;   // helps only with runs that are shared
    void *scratch; // an image that is being changed
    size_t scratch_bytes;
};

struct input {
    struct input_reader *readers; // the first is not a helper
    unsigned threads;             // threads that were started
    pthread_mutex_t lock;
    pthread_cond_t changed; // signalled at any change below
    pthread_cond_t help;    // signalled when helpers have samples to read
    pthread_mutex_t reads;  // one reader at a time of data that is not shared
    bool quit;
    unsigned expect;  // batches that the system is still told of
    unsigned shared;  // runs that many threads may read: input_run_shared
    struct list runs; // struct input_run, the next to be read first
    struct input_memory memory; // the consumer's; get NULL: none
    bool full;                  // `memory` gave none: not asked again
    struct input_slot slot[INPUT_SLOTS];
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
    return (uint32_t)sl_min(run->count - from, run->batch);
}

// Returns true if several threads may share the reading of a batch. Changes are
// work, also where reading, which is then done by one at a time
// (input_run_alone), is none; but ids are gathered in order.
static bool input_run_shared(const struct input_run *run)
{
    return data_shared(run->data) ||
           (run->augment != NULL && data_id_columns(run->data) == 0);
}

// Returns true if one thread at a time reads the samples of a run.
static bool input_run_alone(const struct input_run *run)
{
    return !data_shared(run->data);
}

// ---- the reading thread

static enum sl_err input_grow_buffer(void **at, size_t *bytes, size_t wanted)
{
    if (wanted <= *bytes)
        return SL_OK;
    sl_free(*at);
    *bytes = 0;
    *at = sl_aligned(64, wanted);
    if (*at == NULL)
        return SL_ENOMEM;
    *bytes = wanted;
    return SL_OK;
}

static bool input_space_fits(const struct space *s, size_t x_bytes,
                             size_t y_bytes)
{
    return s->x != NULL && x_bytes <= s->x_bytes && y_bytes <= s->y_bytes;
}

static enum sl_err input_slot_make_space(struct input_slot *s, size_t x_bytes,
                                         size_t y_bytes)
{
    bool pinned = input_space_fits(&s->pinned, x_bytes, y_bytes);
    const struct space *here = pinned ? &s->pinned : &s->own;
    enum sl_err rc = SL_OK;

    if (!pinned)
        rc = input_grow_buffer(&s->own.x, &s->own.x_bytes, x_bytes);
    if (!pinned && rc == SL_OK)
        rc = input_grow_buffer(&s->own.y, &s->own.y_bytes, y_bytes);
    s->batch.x = here->x;
    s->batch.y = here->y;
    s->batch.pinned = pinned;
    return rc;
}

// Returns the number of the sample at a place of a batch.
static uint64_t sample_of(const struct input_run *run, uint32_t step,
                          uint32_t i)
{
    uint64_t at = run->first + (uint64_t)step * run->batch + i;

    return run->shuffle ? order_at(&run->order, at) : at;
}

// Does the same, and has the caches fetch the sample.
static uint64_t input_prefetch_sample(const struct input_run *run,
                                      uint32_t step, uint32_t i)
{
    uint64_t sample = sample_of(run, step, i);

    data_soon(run->data, sample);
    return sample;
}

// The part of a batch that one thread reads: samples [from, end).
struct input_part {
    uint32_t from, end;
    uint32_t bad; // sample that failed, if rc says so
    uint64_t digest;
    uint64_t us; // as in the slot
    enum sl_err rc;
    struct sl_error err;
};

// Where a sample is read to.
struct input_place {
    void *x, *y;
    struct ids *ids; // its bags are added to these; NULL: they are not wanted
    uint64_t *us;    // the time of reading is added to this; NULL: not wanted
};

// Reads a sample. A wait for its file ends with the run's attempt; one for
// other threads is not told as reading.
static enum sl_err read_sample(struct input *in, const struct input_run *run,
                               uint64_t sample, const struct input_place *to,
                               struct sl_error *err)
{
    struct file_wait own = pulse_file_wait(run->pulse);
    const struct file_wait *before = file_wait_set(&own);
    struct data *data = run->data;
    bool alone = input_run_alone(run);
    uint64_t began;
    enum sl_err rc;

    if (alone)
        pthread_mutex_lock(&in->reads);
    began = to->us != NULL ? sl_real_us() : 0;
    rc = data_read(data, sample, to->x, to->y, err);
    if (rc == SL_OK && to->ids != NULL && data_id_columns(data) > 0)
        rc = data_gather_ids(data, to->ids, err);
    if (to->us != NULL)
        *to->us += sl_real_us() - began;
    if (alone)
        pthread_mutex_unlock(&in->reads);
    file_wait_set(before);
    return rc;
}

enum sl_err input_look(struct input *in, const struct input_run *run,
                       uint64_t sample, void *x, void *y, struct sl_error *err)
{
    return read_sample(in, run, sample, &(struct input_place){.x = x, .y = y},
                       err);
}

// Reads sample `i` of a batch, which is one of the part, to its place. The time
// of samples that are changed is taken one by one: only their reading counts.
static enum sl_err input_read_place(struct input_reader *r,
                                    struct input_slot *s, struct input_part *p,
                                    uint32_t i, uint64_t sample)
{
    const struct input_run *run = s->run;
    const struct input_place to = {
        .x = (uint8_t *)s->batch.x + i * data_sample_bytes(run->data),
        .y = (uint8_t *)s->batch.y + i * data_label_bytes(run->data),
        .ids = &s->ids,
        .us = run->augment != NULL ? &p->us : NULL};
    enum sl_err rc = pulse_reads(run->pulse, &p->err);

    if (rc == SL_OK)
        rc = read_sample(r->in, run, sample, &to, &p->err);
    if (rc == SL_OK && run->augment != NULL)
        augment_apply(run->augment, run->epoch, sample, to.x, r->scratch);
    return rc;
}

static void input_read_part(struct input_reader *r, struct input_slot *s,
                            struct input_part *p)
{
    const struct input_run *run = s->run;
    uint64_t soon[AHEAD]; // numbers of the samples that follow
    uint32_t step = s->batch.step;

    if (run->augment != NULL &&
        input_grow_buffer(&r->scratch, &r->scratch_bytes,
                          data_sample_bytes(run->data)) != SL_OK)
        p->rc = sl_no_memory(&p->err);
    for (uint32_t i = p->from; i < p->end && i < p->from + AHEAD; i++)
        soon[i % AHEAD] = input_prefetch_sample(run, step, i);
    for (uint32_t i = p->from; i < p->end && p->rc == SL_OK; i++) {
        uint64_t sample = soon[i % AHEAD];

        if (i + AHEAD < p->end)
            soon[i % AHEAD] = input_prefetch_sample(run, step, i + AHEAD);
        p->rc = input_read_place(r, s, p, i, sample);
        p->bad = i;
        p->digest += schedule_digest(run->epoch, sample);
    }
}

// Tells the system what a batch will read.
static void input_expect_batch(const struct input_slot *s)
{
    for (uint32_t i = 0; i < s->batch.n; i++)
        data_expect(s->run->data, sample_of(s->run, s->batch.step, i));
}

static const unsigned moves[] = {
    [SLOT_FREE] = MOVES_TO(SLOT_FILLING),
    [SLOT_FILLING] = MOVES_TO(SLOT_READY) | MOVES_TO(SLOT_FREE),
    [SLOT_READY] = MOVES_TO(SLOT_TAKEN) | MOVES_TO(SLOT_FREE),
    [SLOT_TAKEN] = MOVES_TO(SLOT_FREE),
};

// Changes a slot's state; no other function does.
static void input_slot_enter_locked(struct input_slot *s, enum slot_state next)
{
    assert(moves_have(moves, s->state, next));
    s->state = next;
}

// Returns the first wanted step from `step` on; UINT32_MAX: there is none.
static uint32_t input_next_wanted(const struct input_run *run, uint32_t step)
{
    const struct input_share *share = &run->share;
    uint32_t at = share->period == 0 ? 0 : step % share->period;

    if (share->period == 0 || (at >= share->from && at < share->end))
        return step;
    if (share->from >= share->end)
        return UINT32_MAX;
    step += share->from - at; // modulo 2^32, made right below
    return at < share->from ? step : step + share->period;
}

// Returns the next batch to read, as a slot that gives out no samples yet;
// NULL: there is none now.
static struct input_slot *next_job(struct input *in, bool helper)
{
    struct input_slot *s = NULL;

    for (unsigned i = 0; i < INPUT_SLOTS && s == NULL; i++) {
        if (in->slot[i].state == SLOT_FREE)
            s = &in->slot[i];
    }
    if (s == NULL)
        return NULL;
    list_for(n, &in->runs)
    {
        struct input_run *run = list_entry(n, struct input_run, node);

        if (!run->asked)
            run->next = input_next_wanted(run, run->next);
        if (run->next >= input_run_steps(run))
            continue;
        if (helper && !input_run_shared(run))
            return NULL; // left to the first reader
        input_slot_enter_locked(s, SLOT_FILLING);
        s->stale = false;
        s->run = run;
        run->asked = false;
        s->batch.step = run->next++;
        s->batch.n = input_run_samples(run, s->batch.step);
        s->batch.digest = 0;
        s->given = s->batch.n;
        s->readers = 0;
        s->bad = UINT32_MAX;
        s->us = 0;
        s->rc = SL_OK;
        return s;
    }
    return NULL;
}

// Mixes the samples of a batch that has been read: the first with the last, the
// second with the last but one. The thread that read its last sample does.
static void input_mix_locked(struct input *in, struct input_slot *s)
{
    const struct input_run *run = s->run;
    size_t x, y;

    if (run->augment == NULL || !run->augment->mixes || s->stale ||
        s->readers > 0 || s->given < s->batch.n || s->rc != SL_OK)
        return;
    x = data_sample_bytes(run->data);
    y = data_label_bytes(run->data);
    s->readers++;
    pthread_mutex_unlock(&in->lock);
    for (uint32_t i = 0, k = s->batch.n - 1; i < k; i++, k--)
        augment_mix(run->augment, run->epoch, sample_of(run, s->batch.step, i),
                    (void *[]){(uint8_t *)s->batch.x + i * x,
                               (uint8_t *)s->batch.x + k * x},
                    (float *[]){(float *)((uint8_t *)s->batch.y + i * y),
                                (float *)((uint8_t *)s->batch.y + k * y)});
    pthread_mutex_lock(&in->lock);
    s->readers--;
}

static void finish_locked(struct input *in, struct input_slot *s)
{
    if (s->readers > 0 || (s->given < s->batch.n && !s->stale))
        return;
    if (input_run_alone(s->run) && s->us > s->batch.n * (uint64_t)SLOW_US)
        in->expect = EXPECT_BATCHES;
    input_slot_enter_locked(s, s->stale ? SLOT_FREE : SLOT_READY);
    pthread_cond_broadcast(&in->changed);
}

// Notes what a part found. The first sample in the batch's order that could not
// be read is reported: all before it were given out before it.
static void note_locked(struct input_slot *s, const struct input_part *p)
{
    s->batch.digest += p->digest;
    s->us += p->us;
    if (p->rc == SL_OK || p->bad >= s->bad)
        return;
    s->bad = p->bad;
    s->rc = p->rc;
    s->err = p->err;
    s->given = s->batch.n; // the others need not be read
}

// Makes space for a new job's samples and gives them out.
static void begin_locked(struct input *in, struct input_slot *s)
{
    struct input_part none = {.err = SL_ERROR_INIT};
    const struct data *d = s->run->data;
    uint32_t n = s->batch.n;

    s->readers++;
    pthread_mutex_unlock(&in->lock);
    if (input_slot_make_space(s, n * data_sample_bytes(d),
                              n * data_label_bytes(d)) != SL_OK ||
        ids_begin(&s->ids, data_id_columns(d), NULL) != SL_OK)
        none.rc = sl_fail(&none.err, SL_ENOMEM,
                          "no memory for a batch of %u samples", n);
    pthread_mutex_lock(&in->lock);
    s->readers--;
    s->given = 0;
    note_locked(s, &none);
}

// Returns a reader's lane in the spans; the last readers share one.
static unsigned input_reader_lane(const struct input_reader *r)
{
    size_t n = (size_t)(r - r->in->readers);

    return SPANS_INPUT + (unsigned)(n < SPANS_IO - SPANS_INPUT - 1
                                        ? n
                                        : SPANS_IO - SPANS_INPUT - 1);
}

// Reads the next samples of a batch that no other thread has, if there are any.
static void help_locked(struct input_reader *r, struct input_slot *s)
{
    struct input *in = r->in;
    struct span_of of =
        span_of_step(s->run->job, s->run->closure, s->batch.step);
    uint64_t began = span_begin(), read;
    bool shared = input_run_shared(s->run), expect;
    struct input_part p = {
        .from = s->given, .end = s->batch.n, .err = SL_ERROR_INIT};

    // Its first reader tells the system of the whole batch.
    expect = p.from == 0 && in->expect > 0 && input_run_alone(s->run);
    in->expect -= expect;
    if (shared && p.end - p.from > SHARE)
        p.end = p.from + SHARE;
    s->given = p.end;
    if (shared)
        pthread_cond_signal(&in->help); // another takes the next ones
    s->readers++;
    pthread_mutex_unlock(&in->lock);
    read = sl_real_us();
    if (expect)
        input_expect_batch(s);
    input_read_part(r, s, &p);
    if (s->run->augment == NULL)
        p.us = sl_real_us() - read;
    span_end(began, "read", input_reader_lane(r), of);
    pthread_mutex_lock(&in->lock);
    s->readers--;
    note_locked(s, &p);
}

// Returns a batch that has samples to give out, the lowest step first; NULL:
// none.
static struct input_slot *begun_locked(struct input *in)
{
    struct input_slot *found = NULL;

    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        struct input_slot *s = &in->slot[i];

        if (s->state != SLOT_FILLING || s->stale || s->given >= s->batch.n)
            continue;
        if (found == NULL || s->batch.step < found->batch.step)
            found = s;
    }
    return found;
}

static void *input_reader_run(void *arg)
{
    struct input_reader *r = arg;
    struct input *in = r->in;
    struct input_slot *s;

    pthread_mutex_lock(&in->lock);
    while (!in->quit) {
        s = begun_locked(in);
        if (s == NULL) {
            s = next_job(in, r->helper);
            if (s != NULL)
                begin_locked(in, s);
        }
        if (s == NULL) {
            pthread_cond_wait(r->helper ? &in->help : &in->changed, &in->lock);
            continue;
        }
        if (!s->stale && s->given < s->batch.n)
            help_locked(r, s);
        input_mix_locked(in, s);
        finish_locked(in, s);
    }
    pthread_mutex_unlock(&in->lock);
    return NULL;
}

// Wakes readers: a slot is free, or there is more to read. Helpers wait for the
// first reader to find a batch that they can help with; it may be busy with
// one.
static void wake_locked(struct input *in)
{
    pthread_cond_broadcast(&in->changed);
    if (in->shared > 0)
        pthread_cond_signal(&in->help);
}

// Returns true if a reader would find something to do.
static bool input_has_work_locked(const struct input *in)
{
    bool vacant = false;

    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        const struct input_slot *s = &in->slot[i];

        vacant = vacant || s->state == SLOT_FREE;
        if (s->state == SLOT_FILLING && !s->stale && s->given < s->batch.n)
            return true;
    }
    list_for(n, &in->runs)
    {
        const struct input_run *run = list_entry(n, struct input_run, node);

        if (vacant &&
            (run->asked ? run->next : input_next_wanted(run, run->next)) <
                input_run_steps(run))
            return true;
    }
    return false;
}

// Unlocks and wakes readers. A reader that shares the consumer's core would run
// as soon as it is woken, and wait for the lock: so it is free by then. And a
// reader that has nothing to do is not woken: that would cost two switches.
static void unlock_and_wake(struct input *in)
{
    bool more = input_has_work_locked(in), help = in->shared > 0;

    pthread_mutex_unlock(&in->lock);
    if (!more)
        return;
    pthread_cond_broadcast(&in->changed);
    if (help)
        pthread_cond_signal(&in->help);
}

// ---- the consumer's memory

static void drop_own(struct input_slot *s)
{
    sl_free(s->own.x);
    sl_free(s->own.y);
    s->own = (struct space){0};
}

static void input_slot_release(struct input_slot *s)
{
    drop_own(s);
    ids_release(&s->ids);
}

static void input_slot_unpin(struct input *in, struct input_slot *s)
{
    const struct input_memory *m = &in->memory;

    if (s->pinned.x != NULL)
        m->give(m->arg, s->pinned.x, s->pinned.x_bytes);
    if (s->pinned.y != NULL)
        m->give(m->arg, s->pinned.y, s->pinned.y_bytes);
    s->pinned = (struct space){0};
}

// Moves a slot, which is TAKEN, so that no other thread looks at it, to pinned
// memory. If there is none, its batches are copied once more, as before.
static void pin(struct input *in, struct input_slot *s)
{
    const struct input_memory *m = &in->memory;
    struct space more = s->own;

    input_slot_unpin(in, s);
    more.x = m->get(m->arg, more.x_bytes);
    more.y = more.x != NULL && more.y_bytes > 0 ? m->get(m->arg, more.y_bytes)
                                                : NULL;
    if (more.x == NULL || (more.y == NULL && more.y_bytes > 0)) {
        if (more.x != NULL)
            m->give(m->arg, more.x, more.x_bytes);
        in->full = true;
        return;
    }
    s->pinned = more;
    drop_own(s);
}

void input_memory(struct input *in, const struct input_memory *m)
{
    for (unsigned i = 0; i < INPUT_SLOTS; i++)
        input_slot_unpin(in, &in->slot[i]);
    in->memory = m != NULL ? *m : (struct input_memory){NULL, NULL, NULL};
    in->full = false;
}

// ---- the consumer

static unsigned allowed_cores(void)
{
    cpu_set_t set;
    unsigned n = 1;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        n = (unsigned)CPU_COUNT(&set);
    return n < INPUT_THREADS ? n : INPUT_THREADS;
}

static enum sl_err start_readers(struct input *in, unsigned threads,
                                 struct sl_error *err)
{
    in->readers = sl_calloc(threads, sizeof(*in->readers));
    if (in->readers == NULL)
        return sl_no_memory(err);
    for (unsigned i = 0; i < threads; i++) {
        struct input_reader *r = &in->readers[i];

        r->in = in;
        r->helper = i > 0;
        if (pthread_create(&r->thread, NULL, input_reader_run, r) != 0)
            return sl_fail(err, SL_ENOMEM, "cannot start an input thread");
        pthread_setname_np(r->thread, "input");
        in->threads++;
    }
    return SL_OK;
}

enum sl_err input_new(struct input **out, unsigned threads,
                      struct sl_error *err)
{
    struct input *in = sl_calloc(1, sizeof(*in));
    enum sl_err rc;

    if (in == NULL)
        return sl_no_memory(err);
    pthread_mutex_init(&in->lock, NULL);
    pthread_cond_init(&in->changed, NULL);
    pthread_cond_init(&in->help, NULL);
    pthread_mutex_init(&in->reads, NULL);
    list_init(&in->runs);
    rc = start_readers(in, threads > 0 ? threads : allowed_cores(), err);
    if (rc != SL_OK) {
        input_free(in);
        return rc;
    }
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
    pthread_cond_broadcast(&in->help);
    pthread_mutex_unlock(&in->lock);
    for (unsigned i = 0; i < in->threads; i++) {
        pthread_join(in->readers[i].thread, NULL);
        sl_free(in->readers[i].scratch);
    }
    input_memory(in, NULL);
    for (unsigned i = 0; i < INPUT_SLOTS; i++)
        input_slot_release(&in->slot[i]);
    pthread_mutex_destroy(&in->lock);
    pthread_cond_destroy(&in->changed);
    pthread_cond_destroy(&in->help);
    pthread_mutex_destroy(&in->reads);
    sl_free(in->readers);
    sl_free(in);
}

void input_open(struct input *in, struct input_run *run)
{
    pthread_mutex_lock(&in->lock);
    run->next = 0;
    run->asked = false;
    list_push_back(&in->runs, &run->node);
    in->shared += input_run_shared(run);
    unlock_and_wake(in);
}

#define ALL UINT32_MAX

// Throws away what was read of a run, the steps below `below`. True: a slot
// has become free.
static bool input_drop_run_locked(struct input *in, const struct input_run *run,
                                  uint32_t below)
{
    bool freed = false;

    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        struct input_slot *s = &in->slot[i];

        if (s->run != run || s->batch.step >= below)
            continue;
        if (s->state == SLOT_READY) {
            input_slot_enter_locked(s, SLOT_FREE);
            freed = true;
        } else if (s->state == SLOT_FILLING) {
            s->stale = true;
            if (s->readers == 0) { // no thread reads a part of it
                input_slot_enter_locked(s, SLOT_FREE);
                freed = true;
            }
        }
    }
    return freed;
}

// Makes space for `run` if the whole ring holds batches that are not wanted
// now.
static void steal_locked(struct input *in, const struct input_run *run)
{
    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        if (in->slot[i].state == SLOT_FREE || in->slot[i].state == SLOT_FILLING)
            return;
    }
    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        struct input_slot *s = &in->slot[i];

        if (s->state != SLOT_READY || s->run == run)
            continue;
        // That run begins again from step 0: no step of it was asked for yet.
        s->run->next = 0;
        input_drop_run_locked(in, s->run, ALL);
        return;
    }
}

// Returns the slot with this step, READY or FILLING. If no thread is about to
// read it, the run goes to the front of the list.
static struct input_slot *
input_find_slot_locked(struct input *in, struct input_run *run, uint32_t step)
{
    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        struct input_slot *s = &in->slot[i];

        if (s->run == run && s->batch.step == step && !s->stale &&
            (s->state == SLOT_READY || s->state == SLOT_FILLING))
            return s;
    }
    input_drop_run_locked(in, run, ALL);
    run->next = step;
    run->asked = true;       // wanted even outside its share
    list_remove(&run->node); // this run is read first now
    list_push_front(&in->runs, &run->node);
    steal_locked(in, run);
    wake_locked(in);
    return NULL;
}

enum sl_err input_get(struct input *in, struct input_run *run, uint32_t step,
                      struct batch *out, struct sl_error *err)
{
    struct input_slot *s;
    enum sl_err rc;
    bool freed;

    if (step >= input_run_steps(run))
        return sl_fail(err, SL_ERANGE, "the closure has no step %u", step);
    pthread_mutex_lock(&in->lock);
    for (;;) {
        s = input_find_slot_locked(in, run, step);
        if (s != NULL && s->state == SLOT_READY)
            break;
        pthread_cond_wait(&in->changed, &in->lock);
    }
    // Drops batches of steps that were skipped.
    freed = input_drop_run_locked(in, run, step);
    rc = s->rc;
    input_slot_enter_locked(s, rc == SL_OK ? SLOT_TAKEN : SLOT_FREE);
    if (rc == SL_OK) {
        *out = s->batch;
        out->ids = ids_bags(&s->ids);
    } else if (err != NULL) {
        *err = s->err;
    }
    if (freed || rc != SL_OK) // else readers have nothing new to do
        unlock_and_wake(in);
    else
        pthread_mutex_unlock(&in->lock);
    return rc;
}

// Returns the slot of a batch that has been read, or could not be; NULL: it has
// not been.
static struct input_slot *input_read_slot_locked(struct input *in,
                                                 const struct input_run *run,
                                                 uint32_t step)
{
    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        struct input_slot *s = &in->slot[i];

        if (s->run == run && s->batch.step == step && !s->stale &&
            s->state == SLOT_READY)
            return s;
    }
    return NULL;
}

bool input_ready(struct input *in, const struct input_run *run, uint32_t step)
{
    bool ready;

    pthread_mutex_lock(&in->lock);
    ready = input_read_slot_locked(in, run, step) != NULL;
    pthread_mutex_unlock(&in->lock);
    return ready;
}

const struct id_bag *input_ids(struct input *in, const struct input_run *run,
                               uint32_t step)
{
    const struct id_bag *bags = NULL;
    struct input_slot *s;

    pthread_mutex_lock(&in->lock);
    s = input_read_slot_locked(in, run, step);
    if (s != NULL && s->rc == SL_OK)
        bags = ids_bags(&s->ids);
    pthread_mutex_unlock(&in->lock);
    return bags;
}

static bool holds_locked(const struct input_slot *s, const struct batch *batch)
{
    return s->state == SLOT_TAKEN && s->batch.x == batch->x;
}

static struct input_slot *input_slot_of_batch(struct input *in,
                                              const struct batch *batch)
{
    struct input_slot *found = NULL;

    pthread_mutex_lock(&in->lock);
    for (unsigned i = 0; i < INPUT_SLOTS && found == NULL; i++) {
        if (holds_locked(&in->slot[i], batch))
            found = &in->slot[i];
    }
    pthread_mutex_unlock(&in->lock);
    return found;
}

// Where reading is cheap, a reader is woken for half a ring and not for each
// batch, and after the lock is free: where it shares a core with the compute
// thread, it sleeps once every other step and not twice a step. A consumer that
// wants a batch which no thread reads wakes it anyway (input_find_slot_locked).
void input_put(struct input *in, const struct batch *batch)
{
    struct input_slot *s = in->memory.get == NULL || batch->pinned || in->full
                               ? NULL
                               : input_slot_of_batch(in, batch);
    unsigned vacant = 0;
    bool now;

    if (s != NULL)
        pin(in, s);
    pthread_mutex_lock(&in->lock);
    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        if (holds_locked(&in->slot[i], batch))
            input_slot_enter_locked(&in->slot[i], SLOT_FREE);
        vacant += in->slot[i].state == SLOT_FREE;
    }
    now = in->expect > 0 || in->shared > 0 || vacant >= INPUT_SLOTS / 2;
    if (now)
        unlock_and_wake(in);
    else
        pthread_mutex_unlock(&in->lock);
}

void input_share(struct input *in, struct input_run *run,
                 struct input_share share)
{
    const struct input_share *had = &run->share;

    if (had->period == share.period && had->from == share.from &&
        had->end == share.end)
        return;
    pthread_mutex_lock(&in->lock);
    run->share = share;
    input_drop_run_locked(in, run, ALL);
    unlock_and_wake(in);
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
    in->shared -= input_run_shared(run);
    input_drop_run_locked(in, run, ALL);
    while (filling_locked(in, run))
        pthread_cond_wait(&in->changed, &in->lock);
    for (unsigned i = 0; i < INPUT_SLOTS; i++) {
        if (in->slot[i].run == run && in->slot[i].state != SLOT_TAKEN)
            in->slot[i].run = NULL;
    }
    unlock_and_wake(in);
}
