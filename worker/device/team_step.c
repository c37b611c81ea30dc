// SPDX-License-Identifier: Apache-2.0
// worker/device/team_step.c -- the parts of a step on the mates of a team, and
// the sums of their gradients; see team_work.h.
#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "trainer/base/grad.h"
#include "worker/device/team_inner.h"

// ---- commands of a mate

struct begin_args {
    struct mate_job *m;
    struct mate_program *p;
    struct batch part;
    uint64_t samples, number;
    double loss_scale;
    const float *params;
    struct pulse *pulse;
    enum device_way way;
    bool all_fresh;
};

static enum sl_err note_fresh(struct mate_job *m, bool fresh,
                              struct sl_error *err)
{
    uint32_t n = m->p->ranges_count;

    if (n > m->fresh_capacity) {
        bool *more = sl_realloc_array(m->fresh, n, sizeof(*more));

        if (more == NULL)
            return sl_no_memory(err);
        m->fresh = more;
        m->fresh_capacity = n;
    }
    for (uint32_t i = 0; i < n; i++)
        m->fresh[i] = fresh;
    return SL_OK;
}

static enum sl_err mate_begin(struct kern_dev *dev, const void *args,
                              struct sl_error *err)
{
    const struct begin_args *a = args;
    struct mate_job *m = a->m;
    struct program *p = a->p->program;
    enum sl_err rc;

    m->p = a->p;
    m->op = 0;
    m->io = (struct program_io){.params = (float *)(uintptr_t)a->params,
                                .grads = m->own,
                                .x = a->part.x,
                                .labels = a->part.y,
                                .pulse = a->pulse};
    rc = note_fresh(m, a->all_fresh, err);
    if (rc != SL_OK)
        return rc;
    if (a->samples > 0)
        program_set_samples(p, a->samples);
    program_set_loss_scale(p, a->loss_scale);
    program_set_step(p, a->number);
    return m->device == NULL
               ? SL_OK
               : device_begin(m->device, a->p->placed, &a->part, a->way, err);
}

struct mate_args {
    struct mate_job *m;
    uint32_t range;
    bool all;
    uint64_t name;
    const void *run;
    struct batch part;
    uint32_t n;
    float *grads; // in host memory
    const uint32_t *order;
};

static enum sl_err mate_fresh(struct kern_dev *dev, const void *args,
                              struct sl_error *err)
{
    const struct mate_args *a = args;

    a->m->fresh[a->range] = true;
    return a->m->device == NULL
               ? SL_OK
               : device_fresh(a->m->device, a->m->io.params, a->range, err);
}

static enum sl_err mate_vector(struct kern_dev *dev, const void *args,
                               struct sl_error *err)
{
    const struct mate_args *a = args;

    return a->m->device == NULL
               ? SL_OK
               : device_vector(a->m->device, a->m->io.params, a->name, err);
}

// Returns the first op that waits for a range which is not fresh.
static uint32_t mate_op_limit(const struct mate_job *m)
{
    const struct mate_program *p = m->p;
    uint32_t end = p->program->count;

    for (uint32_t i = 0; i < p->ranges_count; i++) {
        if (!m->fresh[i] && p->overlap.wait_before[i] < end)
            end = p->overlap.wait_before[i];
    }
    return end;
}

// Runs the ops that are free to run. A compiler may have chosen other ops for a
// part of another size, so this follows from the mate's own program.
static enum sl_err mate_run_ops(struct kern_dev *dev, const void *args,
                                struct sl_error *err)
{
    const struct mate_args *a = args;
    struct mate_job *m = a->m;
    uint32_t from = m->op, end = mate_op_limit(m);

    assert(!a->all || end == m->p->program->count);
    if (end <= from)
        return SL_OK;
    m->op = end;
    if (m->device == NULL)
        return program_run(m->p->program, &m->io, from, end, err);
    return device_run(m->device, m->grads, from, end, m->io.pulse, err);
}

// Makes any failure SL_ELOST: the other devices wait for a slice that did not
// come.
static enum sl_err all_or_lost(enum sl_err rc, struct sl_error *err)
{
    if (rc != SL_OK && err != NULL)
        err->code = SL_ELOST;
    return rc == SL_OK ? rc : SL_ELOST;
}

static enum sl_err mate_sum(struct kern_dev *dev, const void *args,
                            struct sl_error *err)
{
    const struct mate_args *a = args;

    return all_or_lost(device_sum(a->m->device, a->grads, a->order, err), err);
}

static enum sl_err mate_take_stats(struct kern_dev *dev, const void *args,
                                   struct sl_error *err)
{
    const struct mate_args *a = args;

    return a->m->device == NULL ? SL_OK : device_take_stats(a->m->device, err);
}

static enum sl_err mate_take_range(struct kern_dev *dev, const void *args,
                                   struct sl_error *err)
{
    const struct mate_args *a = args;

    return a->m->device == NULL ? SL_OK
                                : device_take(a->m->device, a->range, err);
}

static enum sl_err mate_take_rows(struct kern_dev *dev, const void *args,
                                  struct sl_error *err)
{
    const struct mate_args *a = args;

    return a->m->device == NULL ? SL_OK : device_take_rows(a->m->device, err);
}

// Sends out the gradients that a mate holds, if the last micro-batch of the
// step has no part for it.
static enum sl_err mate_let_go(struct kern_dev *dev, const void *args,
                               struct sl_error *err)
{
    const struct mate_args *a = args;

    return a->m->device == NULL
               ? SL_OK
               : device_let_go(a->m->device, a->m->p->placed, a->m->grads, err);
}

static enum sl_err mate_stop(struct kern_dev *dev, const void *args,
                             struct sl_error *err)
{
    const struct mate_args *a = args;

    if (a->m->device == NULL)
        return SL_OK;
    (void)device_settle(a->m->device, NULL);
    return SL_OK;
}

static enum sl_err unstage(struct kern_dev *dev, const void *args,
                           struct sl_error *err)
{
    const struct mate_args *a = args;

    if (a->m->device != NULL)
        device_unstage(a->m->device);
    return SL_OK;
}

static enum sl_err stage(struct kern_dev *dev, const void *args,
                         struct sl_error *err)
{
    const struct mate_args *a = args;

    return a->m->device == NULL
               ? SL_OK
               : device_stage(a->m->device, a->run, NULL, &a->part, a->n, err);
}

static enum sl_err free_batch(struct kern_dev *dev, const void *args,
                              struct sl_error *err)
{
    const struct mate_args *a = args;

    return a->m->device == NULL ? SL_OK
                                : device_free_batch(a->m->device, &a->part);
}

// ---- posting to mates that have a part

static void team_job_post(struct team_job *j, unsigned k, team_fn fn,
                          struct mate_args a)
{
    a.m = &j->of[k];
    TEAM_POST(j, k, fn, &a);
}

static void post_active(struct team_job *j, team_fn fn, struct mate_args a)
{
    for (unsigned k = 0; k < team_mates(j->t); k++) {
        if (j->active[k])
            team_job_post(j, k, fn, a);
    }
}

static enum sl_err team_job_wait_all(struct team_job *j, struct sl_error *err)
{
    return team_wait_all(j->t, err);
}

// Returns a mate's samples of a batch; a batch that was copied away has no
// address.
static struct batch part_of(const struct team_program *p, unsigned k,
                            const struct batch *b, uint32_t *n)
{
    const struct mate_program *of = &p->of[k];
    struct batch part = *b;
    uint32_t first;

    *n = team_part(p->j->t, k + 1, b->n, &first);
    part.n = *n;
    if (b->x != NULL)
        part.x = (uint8_t *)b->x + first * of->x_bytes;
    if (b->y != NULL)
        part.y = (uint8_t *)b->y + first * of->labels_bytes;
    return part;
}

// ---- the step

static enum sl_err note_step(struct team_job *j, struct team_program *p,
                             const struct batch *b, struct sl_error *err)
{
    uint32_t n = p->ranges_count;

    if (n > j->taken_capacity) {
        bool *more = sl_realloc_array(j->taken, n, sizeof(*more));

        if (more == NULL)
            return sl_no_memory(err);
        j->taken = more;
        j->taken_capacity = n;
    }
    if (n > 0)
        memset(j->taken, 0, n * sizeof(*j->taken));
    if (!p->adds) {
        memset(j->samples, 0, sizeof(j->samples));
        memset(j->missed, 0, sizeof(j->missed));
    }
    j->p = p;
    for (unsigned k = 0; k < team_mates(j->t); k++) {
        uint32_t first, own = team_part(j->t, k + 1, b->n, &first);

        j->samples[k] += own;
        j->active[k] = own > 0;
        j->missed[k] += own == 0;
    }
    return SL_OK;
}

bool team_is_whole(const struct team_job *j)
{
    unsigned k = 0;

    while (k < team_mates(j->t) && j->active[k])
        k++;
    return k == team_mates(j->t);
}

enum sl_err team_begin(struct team_job *j, struct team_program *p,
                       const struct team_step *s, struct sl_error *err)
{
    enum sl_err rc = note_step(j, p, s->batch, err);

    j->sums = rc == SL_OK && j->met && p->ranges != NULL && !s->held &&
              team_is_whole(j);
    for (unsigned k = 0; k < team_mates(j->t) && rc == SL_OK; k++) {
        struct begin_args a = {.m = &j->of[k],
                               .p = &p->of[k],
                               .samples = s->front->samples,
                               .number = s->front->number,
                               .loss_scale = s->front->loss_scale,
                               .params = s->params,
                               .pulse = s->pulse,
                               .way = s->held   ? DEVICE_HOLDS
                                      : j->sums ? DEVICE_SUMS
                                                : DEVICE_GIVES,
                               .all_fresh = p->adds};
        uint32_t n;

        a.part = part_of(p, k, s->batch, &n);
        if (n > 0)
            TEAM_POST(j, k, mate_begin, &a);
        else if (!s->held && p->ranges != NULL && j->samples[k] > 0)
            team_job_post(j, k, mate_let_go, (struct mate_args){0});
    }
    // A batch that is not pinned is copied now.
    return rc == SL_OK && !s->batch->pinned ? team_job_wait_all(j, err) : rc;
}

void team_fresh(struct team_job *j, uint32_t range)
{
    post_active(j, mate_fresh, (struct mate_args){.range = range});
}

void team_vector(struct team_job *j, uint64_t name)
{
    post_active(j, mate_vector, (struct mate_args){.name = name});
}

void team_run(struct team_job *j, bool all)
{
    post_active(j, mate_run_ops, (struct mate_args){.all = all});
}

bool team_sums(const struct team_job *j)
{
    return j->sums;
}

// Sums on the devices. Events are recorded before any device may wait for them:
// so all have run their ops before any begins.
enum sl_err team_sum(struct team_job *j, float *grads, struct sl_error *err)
{
    struct mate_args a = {.grads = grads, .order = device_order(j->all[0])};
    enum sl_err rc = team_job_wait_all(j, err);

    if (rc != SL_OK)
        return rc;
    post_active(j, mate_sum, a);
    rc = all_or_lost(device_sum(j->all[0], grads, a.order, err), err);
    if (rc != SL_OK)
        team_sever(j->t);
    return rc;
}

void team_break(struct team_job *j)
{
    team_sever(j->t);
}

enum sl_err team_stats(struct team_job *j, struct program *front,
                       struct sl_error *err)
{
    enum sl_err rc;

    post_active(j, mate_take_stats, (struct mate_args){0});
    rc = team_job_wait_all(j, err);
    for (unsigned k = 0; k < team_mates(j->t) && rc == SL_OK; k++) {
        for (unsigned i = 0; j->active[k] && i < 2 * front->heads; i++)
            front->stats[i] += j->of[k].p->program->stats[i];
    }
    return rc;
}

enum sl_err team_take_rows(struct team_job *j, struct sl_error *err)
{
    post_active(j, mate_take_rows, (struct mate_args){0});
    return team_job_wait_all(j, err);
}

const struct program *team_outputs(const struct team_job *j, unsigned k)
{
    return k < team_mates(j->t) && j->active[k] ? j->of[k].p->program : NULL;
}

// ---- sums

static void team_add_gradient(float *restrict to, const float *restrict from,
                              uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        to[i] += from[i];
}

enum sl_err team_take(struct team_job *j, float *grads, uint32_t range,
                      struct sl_error *err)
{
    const struct elements *r = &j->p->ranges[range];
    enum sl_err rc;

    if (j->taken[range])
        return SL_OK;
    for (unsigned k = 0; k < team_mates(j->t); k++) {
        if (j->samples[k] > 0)
            team_job_post(j, k, mate_take_range,
                          (struct mate_args){.range = range});
    }
    rc = team_job_wait_all(j, err);
    if (rc != SL_OK)
        return rc;
    j->taken[range] = true;
    if (j->sums)
        return SL_OK;
    for (unsigned k = 0; k < team_mates(j->t); k++) {
        float *g = j->of[k].grads;

        if (j->samples[k] == 0)
            continue;
        grad_statistics_share(g, j->model, r->first, r->count, j->missed[k]);
        team_add_gradient(grads + r->first, g + r->first, r->count);
    }
    return SL_OK;
}

bool team_finite(const struct team_job *j, const float *grads, uint32_t range)
{
    const struct elements *r = &j->p->ranges[range];
    unsigned k = 0;

    if (!j->sums)
        return grad_finite(grads + r->first, (size_t)r->count);
    while (k <= team_mates(j->t) && device_sum_finite(j->all[k], range))
        k++;
    return k > team_mates(j->t);
}

uint32_t team_ranges(const struct team_job *j)
{
    return j->p->ranges_count;
}

// ---- ending, batches

static void post_to_all(struct team_job *j, team_fn fn)
{
    for (unsigned k = 0; k < team_mates(j->t); k++)
        team_job_post(j, k, fn, (struct mate_args){0});
    (void)team_job_wait_all(j, NULL);
}

// Ends the step. It takes a failure first, which would have later commands
// dropped.
void team_stop(struct team_job *j)
{
    (void)team_job_wait_all(j, NULL);
    post_to_all(j, mate_stop);
}

void team_unstage(struct team_job *j)
{
    post_to_all(j, unstage);
}

// Uses the sizes of a sample that the step under way has: they are the same for
// all programs of the job.
enum sl_err team_stage(struct team_job *j, const void *run, struct input *in,
                       const struct batch *batch, struct sl_error *err)
{
    for (unsigned k = 0; k < team_mates(j->t); k++) {
        struct mate_args a = {.run = run};

        a.part = part_of(j->p, k, batch, &a.n);
        if (a.n > 0)
            team_job_post(j, k, stage, a);
    }
    if (!batch->pinned)
        return team_job_wait_all(j, err);
    j->lender = in;
    j->lent = *batch;
    return SL_OK;
}

struct input *team_lender(struct team_job *j, struct batch *out)
{
    struct input *in = j->lender;

    *out = j->lent;
    j->lender = NULL;
    return in;
}

bool team_took(struct team_job *j, const struct batch *batch)
{
    if (j->lender == NULL || j->lent.x != batch->x)
        return false;
    j->lender = NULL; // the caller gives it back
    return true;
}

// Waits until no mate reads the batch. A device that is lost reads no more.
void team_free_batch(struct team_job *j, const struct batch *batch)
{
    for (unsigned k = 0; k < team_mates(j->t) && j->p != NULL; k++) {
        struct mate_args a = {.run = NULL};

        a.part = part_of(j->p, k, batch, &a.n);
        if (a.n > 0)
            team_job_post(j, k, free_batch, a);
    }
    (void)team_job_wait_all(j, NULL);
}
