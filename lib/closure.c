// SPDX-License-Identifier: Apache-2.0
// lib/closure.c -- a closure, step by step, as the program calls: the lease's
// steps (trainer/lease/steps.h) for gradients that the program computes.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "lib/range.h"
#include "lib/ring.h"
#include "trainer/base/grad.h"
#include "trainer/lease/lease.h"

static const struct sync_ops *ops(const struct sluice_closure *c)
{
    return c->job->sync->ops;
}

static const struct record *record_of(const struct sluice_closure *c)
{
    return c->lease->record;
}

// ---- begin and end of it

// Returns the batches of a contribution in mode local; 0: the mode has none.
static uint32_t closure_batches(const struct record *r, uint64_t closure)
{
    uint64_t first, count, batch = r->schedule.batch / r->accumulate;

    if (!spec_local(r->open->spec))
        return 0;
    schedule_closure_range(&r->schedule, closure, &first, &count);
    return (uint32_t)sl_ceil_div(count, batch);
}

static void fill_info(struct sluice_closure *c)
{
    const struct record *r = record_of(c);
    const Sluice__V1__TrainSpec *train = r->open->spec->train;
    const struct sluice_info is = c->info; // of a ring
    uint64_t closure = c->slot ? c->key.closure : c->now->closure;

    c->info = (struct sluice_info){
        .job = r->open->job_name,
        .number = c->lease->job,
        .closure = closure,
        .epoch = schedule_epoch(&r->schedule, closure),
        .steps = schedule_closure_steps(&r->schedule, closure),
        .samples = r->schedule.samples,
        .batch = r->schedule.batch / r->accumulate,
        .seed = train->seed,
        .elements = r->layout.elements,
        .variables = r->layout.variables_count,
        .tables = job_tables_count(c->job->tables),
        .ranks = is.ranks,
        .rank = is.rank,
        .generation = is.generation,
        .rounds = is.rounds,
        .redone = is.redone,
        .batches = closure_batches(r, closure),
        .reset = spec_local(r->open->spec) && !spec_inner(train).keep,
        .next_first = is.next_first,
        .next_count = is.next_count,
    };
    schedule_closure_range(&r->schedule, closure, &c->info.first,
                           &c->info.count);
    c->shuffle = !train->has_shuffle || train->shuffle;
}

static void closure_positions(struct sluice_closure *c, uint32_t step)
{
    schedule_step_range(&record_of(c)->schedule, c->now->closure, step,
                        &c->first, &c->count);
    c->digest = 0;
    for (uint64_t p = c->first; p < c->first + c->count; p++)
        c->digest += schedule_digest(c->info.epoch, sluice_sample(c, p));
}

void closure_turn(struct sluice_closure *c, struct lease *l)
{
    c->now = l;
    fill_info(c);
    // It refuses a number of samples alone, and took this one before.
    (void)order_init(&c->order, c->info.seed, c->info.epoch, c->info.samples);
    closure_positions(c, 0);
}

// What is kept of its ranges; the job is there, and what `info` says of it.
static enum sl_err closure_prepare(struct sluice_closure *c,
                                   struct sl_error *err)
{
    const struct job_ring *ring = c->job->ring;
    enum sl_err rc;

    fill_info(c);
    rc = order_init(&c->order, c->info.seed, c->info.epoch, c->info.samples);
    if (rc != SL_OK)
        return sl_fail(err, rc, "the data has no order");
    c->ranges = ring != NULL ? ring->buckets : c->job->sync->ranges;
    c->ranges_count =
        ring != NULL ? ring->buckets_count : c->job->sync->ranges_count;
    c->covered = sl_calloc(c->ranges_count, sizeof(*c->covered));
    c->sent = sl_calloc(c->ranges_count, sizeof(*c->sent));
    c->absent = sl_calloc(c->info.variables, sizeof(*c->absent));
    if (c->covered == NULL || c->sent == NULL || c->absent == NULL)
        return sl_no_memory(err);
    return c->session->by_range ? range_init(c, err) : SL_OK;
}

static void closure_free(struct sluice_closure *c)
{
    struct sluice *s = c->session;

    if (c->sync_open)
        ops(c)->close(c->job->sync);
    if (!c->slot)
        session_done(s, c->lease);
    s->open = NULL;
    range_release(c);
    sl_free(c->covered);
    sl_free(c->sent);
    sl_free(c->absent);
    sl_free(c);
}

static struct sluice_closure *closure_new(struct sluice *s)
{
    struct sluice_closure *c = sl_calloc(1, sizeof(*c));

    if (c != NULL) {
        c->session = s;
        list_init(&c->taken);
    }
    return c;
}

static enum sl_err closure_take_job(struct sluice_closure *c,
                                    struct sl_error *err)
{
    if (c->lease->kind != LEASE_TRAIN)
        return sl_fail(err, SL_ENOTSUP, "the lease is not for training");
    return jobs_take(c->session, c->lease, &c->job, err);
}

static bool closure_clips(const struct sluice_closure *c)
{
    const struct spec_optimizer *o = &c->job->optimizer;

    return o->clipnorm > 0 || o->global_clipnorm > 0;
}

enum sl_err closure_open(struct sluice *s, struct lease *l,
                         struct sluice_closure **out, struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    struct sluice_closure *c = closure_new(s);
    uint64_t job = l->job; // the lease may be gone after session_done
    enum sl_err rc;

    if (c == NULL) {
        lease_hand_back(l, "out of memory");
        session_done(s, l);
        return sl_no_memory(err);
    }
    c->lease = c->now = l;
    s->open = c;
    rc = closure_take_job(c, &why);
    if (rc == SL_OK)
        rc = closure_prepare(c, &why);
    if (rc != SL_OK) {
        lease_fail(l, rc, &why);
        closure_free(c);
        return sl_fail(err, rc, "job %" PRIu64 ": %s", job, why.text);
    }
    // In mode local all shards skip a contribution, or none does.
    c->whole =
        closure_clips(c) || c->job->tables != NULL || c->info.batches > 0;
    set_init(c);
    *out = c;
    return SL_OK;
}

enum sl_err closure_of_slot(struct sluice *s, struct sluice_closure **out,
                            struct sl_error *err)
{
    struct sluice_closure *c = closure_new(s);
    enum sl_err rc;

    *out = NULL;
    if (c == NULL)
        return sl_no_memory(err);
    c->slot = true;
    s->open = c;
    if (!slot_grab(&s->ring->slot, c)) {
        closure_free(c);
        return SL_OK;
    }
    c->now = c->lease;
    c->job = s->ring->job;
    rc = closure_prepare(c, err);
    if (rc != SL_OK) {
        closure_free(c);
        ring_stop(s, "out of memory", NULL, false);
        return rc;
    }
    *out = c;
    return SL_OK;
}

// A slot that is let go of undone is all of the ring's lease.
static void finish_slot(struct sluice_closure *c, const char *why,
                        const struct sl_error *failed, bool job_error)
{
    struct sluice *s = c->session;
    bool over = failed == NULL && slot_over(c);

    closure_free(c);
    if (!over)
        ring_stop(s, why != NULL ? why : "the program let go of it", failed,
                  job_error);
}

void sluice_finish(struct sluice_closure *c, const char *why)
{
    enum sync_result result = c->at == CLOSURE_DONE   ? SYNC_OK
                              : c->at == CLOSURE_LOST ? c->lost
                                                      : SYNC_STOPPED;
    struct lease *l = c->lease;

    sluice_alive(c);
    if (c->slot) {
        finish_slot(c, why, NULL, false);
        return;
    }
    if (c->at != CLOSURE_DONE && c->at != CLOSURE_LOST)
        lease_hand_back(l, why != NULL ? why : "the program let go of it");
    else if (!c->aside)
        steps_conclude(&c->steps, result);
    set_finish(c, result);
    closure_free(c);
}

void sluice_fail(struct sluice_closure *c, const char *why, bool job_error)
{
    struct sl_error err = SL_ERROR_INIT;

    err.code = sl_fail(&err, job_error ? SL_EINVAL : SL_EINTERNAL, "%s",
                       why != NULL ? why : "the program said so");
    if (c->slot) {
        finish_slot(c, NULL, &err, job_error);
        return;
    }
    lease_fail(c->lease, err.code, &err);
    c->lease->outcome.job_error = job_error;
    set_finish(c, SYNC_FAILED);
    closure_free(c);
}

// ---- a closure's description

const struct sluice_info *sluice_closure_info(const struct sluice_closure *c)
{
    return &c->info;
}

bool sluice_closure_variable(const struct sluice_closure *c, uint32_t i,
                             struct sluice_variable *out)
{
    const struct layout *l = &record_of(c)->layout;
    const struct layout_variable *v;

    if (i >= l->variables_count)
        return false;
    v = &l->variables[i];
    *out = (struct sluice_variable){.name = v->name,
                                    .rank = v->shape.rank,
                                    .first = v->first,
                                    .elements = v->elements};
    for (uint32_t k = 0; k < v->shape.rank; k++)
        out->shape[k] = v->shape.dim[k];
    return true;
}

uint64_t sluice_sample(const struct sluice_closure *c, uint64_t position)
{
    return c->shuffle && position < c->info.samples
               ? order_at(&c->order, position)
               : position;
}

void sluice_samples(const struct sluice_closure *c, uint64_t first,
                    uint64_t count, uint64_t *out)
{
    for (uint64_t i = 0; i < count; i++)
        out[i] = sluice_sample(c, first + i);
}

const float *sluice_params(const struct sluice_closure *c)
{
    return c->session->by_range ? NULL : c->job->params;
}

float *sluice_grads(const struct sluice_closure *c)
{
    return c->session->by_range ? NULL : c->job->grads;
}

void sluice_alive(struct sluice_closure *c)
{
    pulse_beat(&c->now->gate.pulse);
}

// ---- steps

// What the program is told of a result that is no success.
enum sl_err closure_lose(struct sluice_closure *c, enum sync_result result,
                         struct sl_error *err)
{
    c->at = CLOSURE_LOST;
    c->lost = result;
    c->inside = false;
    if (result == SYNC_FAILED)
        return sl_fail(err, c->steps.err.code, "%s", c->steps.err.text);
    if (c->aside)
        return sl_fail(err, SL_ECANCELED,
                       "%s: the closure is handed back; take the next one",
                       c->lease->outcome.err.text);
    return sl_fail(err, SL_ECANCELED,
                   "the coordinator revoked the closure; take the next one");
}

// What was believed does not hold: the step counts for nothing, sluice_begin
// says what to do instead.
static void again(struct sluice_closure *c)
{
    c->again = true;
    steps_again(&c->steps);
}

static enum sync_result closure_open_steps(struct sluice_closure *c)
{
    if (c->sync_open)
        return SYNC_OK;
    c->sync_open = true;
    steps_init(&c->steps, c->lease, c->job->sync, &c->job->nonfinite);
    return steps_open(&c->steps);
}

// Waits until the vectors may be read and written. By range they are empty
// then.
static enum sync_result closure_wait_all(struct sluice_closure *c)
{
    enum sync_result result;

    if (!c->session->by_range)
        return steps_fresh_wait(&c->steps);
    result = sync_settle(c->job->sync, &c->steps.err);
    if (result == SYNC_OK)
        steps_report(&c->steps);
    return result;
}

static void start_step(struct sluice_closure *c)
{
    uint32_t n = c->job->sync->ranges_count;

    set_begin(c);
    if (c->now != c->lease)
        closure_turn(c, c->lease);
    closure_positions(c, c->steps.step);
    memset(c->covered, 0, n * sizeof(*c->covered));
    memset(c->sent, 0, n * sizeof(*c->sent));
    memset(c->absent, 0, c->info.variables * sizeof(*c->absent));
    c->again = c->any_absent = false;
    c->inside = true;
    job_tables_begin(c->job->tables);
    c->rows_came = c->rows_ahead; // of the step before: by_row_take ends it
    if (c->session->by_range)
        range_begin(c);
    atomic_store(&c->lease->gate.pulse.step, c->steps.step);
}

// Moves on to the next step, or to the end. A lease that drains before it was
// begun is work for others.
static enum sync_result find_step(struct sluice_closure *c)
{
    struct steps *t = &c->steps;
    enum sync_result result;

    if (!c->sync_open && atomic_load(&c->lease->gate.draining)) {
        gate_close(&c->lease->gate, GATE_DRAIN);
        return SYNC_STOPPED;
    }
    result = closure_open_steps(c);
    while (result == SYNC_OK) {
        result = steps_go(t);
        if (result != SYNC_OK || steps_between(t))
            continue;
        if (t->at == STEPS_DONE)
            return SYNC_OK;
        result = closure_wait_all(c);
        if (result != SYNC_AGAIN)
            return result;
        again(c);
        result = SYNC_OK;
    }
    return result;
}

enum sl_err sluice_begin(struct sluice_closure *c, struct sluice_step *out,
                         struct sl_error *err)
{
    enum sync_result result = SYNC_OK;

    if (c->inside)
        return sl_fail(err, SL_ESTATE, "a step is under way: end it first");
    sluice_alive(c);
    if (c->slot)
        return slot_begin(c, out, err);
    if (c->at == CLOSURE_LOST)
        return closure_lose(c, c->lost, err);
    if (c->at != CLOSURE_DONE)
        result = find_step(c);
    if (result != SYNC_OK)
        return closure_lose(c, result, err);
    if (c->steps.at == STEPS_DONE)
        c->at = CLOSURE_DONE;
    *out = (struct sluice_step){.none = c->at == CLOSURE_DONE,
                                .number = c->steps.step};
    if (!out->none) {
        start_step(c);
        out->first = c->first;
        out->count = c->count;
    }
    return SL_OK;
}

// Clears the gradient of an absent piece. By range it is 0 already, as no call
// has pushed it.
static void clear_piece(struct sluice_closure *c, uint64_t first, uint64_t n)
{
    if (!c->session->by_range)
        memset(c->job->grads + first, 0, (size_t)n * sizeof(float));
}

// What is sent of pieces that have no gradient.
static void tell_absent(struct sluice_closure *c, uint32_t range,
                        struct sync_step *step)
{
    const struct layout *l = &record_of(c)->layout;
    const struct layout_shard *shard = &l->shards[range];
    const struct layout_piece *piece = &l->pieces[shard->first_piece];
    uint32_t n = c->any_absent ? slot_absent(step, l, range, c->absent) : 0;

    for (uint32_t i = 0; n > 0 && !step->none && i < shard->pieces; i++)
        if (c->absent[piece[i].variable])
            clear_piece(c, piece[i].first, piece[i].elements);
}

// Returns true if a range may be applied: an absent one is not looked at.
static bool closure_is_finite(const struct sluice_closure *c, uint32_t range,
                              const struct sync_step *step)
{
    const struct elements *r = &c->ranges[range];

    return step->none ||
           grad_finite(c->job->sync->grads + r->first, (size_t)r->count);
}

static enum sync_result closure_send_range(struct sluice_closure *c,
                                           uint32_t range, bool skip)
{
    struct sync_step step = {.step = c->steps.step,
                             .samples = c->count,
                             .digest = c->digest,
                             .wanted = range};
    bool finite = job_tables_fill(c->job->tables, range, &step);
    enum sync_result result;

    closures_fill(&c->set, c->job->sync, &step);
    c->sent[range] = true;
    if (!skip)
        tell_absent(c, range, &step);
    result = skip ? steps_skip(&c->steps, range, &step)
                  : steps_whole(&c->steps, range, &step,
                                finite && closure_is_finite(c, range, &step));
    return result == SYNC_OK && c->session->by_range ? range_sent(c, range)
                                                     : result;
}

// SL_OK also where the step counts for nothing by now. What a program still
// says in the step in which its closure was lost is no fault of the program.
static enum sl_err check_inside(struct sluice_closure *c, struct sl_error *err)
{
    if (c->at == CLOSURE_LOST)
        return c->slot ? slot_lose_closure(c, err)
                       : closure_lose(c, c->lost, err);
    if (!c->inside)
        return sl_fail(err, SL_ESTATE, "no step is under way: begin one");
    sluice_alive(c);
    return SL_OK;
}

// A range that is whole; SL_OK also where the step counts for nothing by now.
static enum sl_err closure_range_ready(struct sluice_closure *c, uint32_t range,
                                       struct sl_error *err)
{
    enum sync_result result;

    if (c->slot)
        return slot_ready(c, range, err);
    result = closure_send_range(c, range, false);
    if (result == SYNC_AGAIN)
        again(c);
    else if (result != SYNC_OK)
        return closure_lose(c, result, err);
    return SL_OK;
}

enum sl_err closure_inside(struct sluice_closure *c, uint64_t first,
                           uint64_t count, struct sl_error *err)
{
    enum sl_err rc = check_inside(c, err);

    if (rc == SL_OK &&
        (first > c->info.elements || count > c->info.elements - first))
        return sl_fail(err, SL_ERANGE,
                       "elements %" PRIu64 " to %" PRIu64
                       " of a model of %" PRIu64,
                       first, first + count, c->info.elements);
    return rc;
}

uint32_t closure_range(const struct sluice_closure *c, uint64_t element)
{
    uint32_t low = 0, high = c->ranges_count;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (c->ranges[middle].first <= element)
            low = middle;
        else
            high = middle;
    }
    return low;
}

enum sl_err closure_cover(struct sluice_closure *c, uint64_t first,
                          uint64_t count, struct sl_error *err)
{
    uint64_t until = first + count;
    enum sl_err rc = SL_OK;

    for (uint32_t i = closure_range(c, first);
         rc == SL_OK && i < c->ranges_count && !c->again; i++) {
        const struct elements *r = &c->ranges[i];
        uint64_t from = first > r->first ? first : r->first;
        uint64_t end = sl_min(until, r->first + r->count);

        if (from >= end)
            break;
        c->covered[i] += end - from;
        if (!c->whole && !c->sent[i] && c->covered[i] >= r->count)
            rc = closure_range_ready(c, i, err);
    }
    return rc;
}

enum sl_err sluice_ready(struct sluice_closure *c, uint64_t first,
                         uint64_t count, struct sl_error *err)
{
    enum sl_err rc = closure_inside(c, first, count, err);

    if (rc == SL_OK && c->session->by_range)
        return sl_fail(err, SL_ESTATE,
                       "the session is by range: push the gradient itself");
    return rc == SL_OK ? closure_cover(c, first, count, err) : rc;
}

// A push has space for so many pieces of a shard, and none of it has left.
static enum sl_err closure_check_absent(const struct sluice_closure *c,
                                        uint32_t i, struct sl_error *err)
{
    const struct layout *l = &record_of(c)->layout;
    const struct layout_variable *v = &l->variables[i];

    if (c->info.batches > 0)
        return sl_fail(err, SL_ESTATE,
                       "%s: in mode local a variable without a gradient is one "
                       "that did not change: sluice_change says so",
                       v->name);
    for (uint32_t r = closure_range(c, v->first);
         r < c->ranges_count && c->ranges[r].first < v->first + v->elements;
         r++) {
        if (c->sent[r])
            return sl_fail(err, SL_ESTATE,
                           "%s: a part of its gradient is sent already: mark "
                           "it as absent before",
                           v->name);
        if (!c->slot && l->shards[r].pieces > WIRE_ABSENT_MAX)
            return sl_fail(
                err, SL_ENOTSUP,
                "%s: shard %u has %u variables, and at most %d of "
                "one shard may lack a gradient; set placement.shards",
                v->name, r, l->shards[r].pieces, WIRE_ABSENT_MAX);
    }
    return SL_OK;
}

static enum sl_err set_absent(struct sluice_closure *c, uint32_t i,
                              struct sl_error *err)
{
    const struct layout_variable *v = &record_of(c)->layout.variables[i];
    enum sl_err rc = c->absent[i] ? SL_OK : closure_check_absent(c, i, err);

    if (rc != SL_OK || c->absent[i])
        return rc;
    c->absent[i] = c->any_absent = true;
    if (c->slot || c->whole)
        clear_piece(c, v->first, v->elements);
    return closure_cover(c, v->first, v->elements, err);
}

enum sl_err sluice_absent(struct sluice_closure *c, uint32_t first,
                          uint32_t count, struct sl_error *err)
{
    enum sl_err rc = check_inside(c, err);

    if (rc == SL_OK &&
        (first > c->info.variables || count > c->info.variables - first))
        rc = sl_fail(err, SL_ERANGE,
                     "variables %" PRIu32 " to %" PRIu64 " of a model of "
                     "%" PRIu32,
                     first, (uint64_t)first + count, c->info.variables);
    for (uint32_t i = 0; rc == SL_OK && i < count && !c->again; i++)
        rc = set_absent(c, first + i, err);
    return rc;
}

// Clipping by a norm sees all of it; and then all shards skip, or none does. So
// does a contribution of mode local, which may be too large to be sent.
static enum sync_result closure_clip(struct sluice_closure *c, bool *skip)
{
    struct kept_job *j = c->job;
    bool finite;

    if (*skip || (!closure_clips(c) && c->info.batches == 0))
        return SYNC_OK;
    finite = grad_finite(j->grads, (size_t)j->model->elements);
    c->lease->outcome.change_steps = c->set.steps;
    c->aside = c->info.batches > 0 &&
               closures_change(&c->set, j->model, j->grads, finite);
    if (c->aside)
        return SYNC_STOPPED;
    if (!finite) {
        *skip = true;
        return steps_judge(&c->steps);
    }
    grad_clipnorm(j->grads, j->model, j->optimizer.clipnorm);
    grad_global_clipnorm(j->grads, j->model, j->optimizer.global_clipnorm);
    return SYNC_OK;
}

// What has not left leaves, and its shards count the step.
static enum sl_err send_rest(struct sluice_closure *c,
                             const struct sluice_result *r,
                             struct sl_error *err)
{
    const struct closures_steps *of = &c->set.one[0].of;
    enum sync_result result = SYNC_OK;
    bool skip = r->skip;

    set_note(c, r);
    if (!c->again)
        result = closure_clip(c, &skip);
    for (uint32_t i = c->ranges_count; i-- > 0 && !c->again;) {
        if (result == SYNC_OK && !c->sent[i])
            result = closure_send_range(c, i, skip);
        if (result == SYNC_AGAIN)
            again(c);
        else if (result != SYNC_OK)
            return closure_lose(c, result, err);
    }
    c->inside = false;
    c->steps.skipped = c->steps.skipped || skip;
    if (c->again)
        return SL_OK;
    if (c->set.count > 0)
        steps_note(&c->steps, of->samples, of->loss_sum, of->right_sum);
    else
        steps_note(&c->steps, c->count, r->loss_sum, r->right);
    steps_end(&c->steps);
    return SL_OK;
}

enum sl_err sluice_end(struct sluice_closure *c, const struct sluice_result *r,
                       struct sl_error *err)
{
    static const struct sluice_result nothing;
    const Sluice__V1__JobSpec *spec;
    enum sl_err rc = check_inside(c, err);

    if (rc != SL_OK)
        return rc;
    if (r == NULL)
        r = &nothing;
    spec = record_of(c)->open->spec;
    if (!r->skip && !c->again && c->job->tables != NULL)
        rc = job_tables_pack(c->job->tables, spec_rows_wire(spec),
                             spec_wire(spec), c->job->sync->ranges, err);
    if (rc != SL_OK)
        return rc;
    return c->slot ? slot_end(c, r, err) : send_rest(c, r, err);
}
