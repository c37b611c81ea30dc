// SPDX-License-Identifier: Apache-2.0
// worker/device/team_job.c -- a job on the mates of a team: vectors, memory,
// programs; see team_work.h.
#include <string.h>

#include "common/base/mem.h"
#include "common/run/log.h"
#include "kernels/beat.h"
#include "worker/device/team_inner.h"

// ---- a job

struct make_args {
    struct mate_job *m;
    uint64_t elements;
};

static enum sl_err mate_job_make(struct kern_dev *dev, const void *args,
                                 struct sl_error *err)
{
    const struct make_args *a = args;
    size_t bytes = (size_t)a->elements * sizeof(float);
    enum sl_err rc;

    if (dev->backend->host) {
        a->m->own = sl_aligned(64, bytes);
        if (a->m->own == NULL)
            return sl_fail(err, SL_ENOMEM, "no memory for a part's gradient");
        memset(a->m->own, 0, bytes); // elements that no op writes stay 0
        a->m->grads = a->m->own;
        return SL_OK;
    }
    rc = device_new(&a->m->device, dev, a->elements, err);
    if (rc == SL_OK)
        a->m->grads = device_grads(a->m->device);
    return rc;
}

static enum sl_err mate_job_free(struct kern_dev *dev, const void *args,
                                 struct sl_error *err)
{
    const struct make_args *a = args;

    program_memory_release(&a->m->memory);
    if (a->m->device != NULL)
        device_part(a->m->device);
    device_free(a->m->device);
    sl_free(a->m->own);
    sl_free(a->m->fresh);
    memset(a->m, 0, sizeof(*a->m));
    return SL_OK;
}

enum sl_err team_job_new(struct team_job **out, struct team *t,
                         const struct model *model, struct device *first,
                         struct sl_error *err)
{
    struct team_job *j;
    enum sl_err rc;

    if (team_mates(t) == 0) {
        *out = NULL;
        return SL_OK;
    }
    j = sl_calloc(1, sizeof(*j));
    if (j == NULL)
        return sl_no_memory(err);
    j->t = t;
    j->model = model;
    j->elements = model->elements;
    for (unsigned k = 0; k < team_mates(t); k++) {
        const struct make_args a = {&j->of[k], j->elements};

        TEAM_POST(j, k, mate_job_make, &a);
    }
    rc = team_wait_all(t, err);
    if (rc != SL_OK) {
        team_job_free(j);
        return rc;
    }
    j->all[0] = first;
    for (unsigned k = 0; k < team_mates(t); k++)
        j->all[k + 1] = j->of[k].device;
    j->apart = !team_joined(t);
    *out = j;
    return SL_OK;
}

void team_job_free(struct team_job *j)
{
    if (j == NULL)
        return;
    team_stop(j);
    for (unsigned k = 0; k < team_mates(j->t); k++) {
        const struct make_args a = {&j->of[k], 0};

        TEAM_POST(j, k, mate_job_free, &a);
    }
    (void)team_wait_all(j->t, NULL);
    if (j->all[0] != NULL)
        device_part(j->all[0]);
    sl_free(j->taken);
    sl_free(j);
}

uint64_t team_job_bytes(const struct team_job *j)
{
    uint64_t bytes = 0;

    for (unsigned k = 0; j != NULL && k < team_mates(j->t); k++) {
        const struct mate_job *m = &j->of[k];

        // Two vectors in the host, two on the device, and the others' gradients
        // of its slice.
        bytes += (m->device != NULL ? 5 : 1) * j->elements * sizeof(float) +
                 m->memory.arena.bytes + m->memory.workspace.bytes;
    }
    return bytes;
}

void team_cut(const struct team_job *j, unsigned member,
              struct compile_options *o)
{
    uint32_t all = o->batch;

    if (j == NULL)
        return;
    o->batch = team_part(j->t, member, all, &o->first);
    o->share = o->batch < all ? (double)o->batch / all : 0;
}

uint32_t team_own(const struct team_job *j, uint32_t batch)
{
    uint32_t first;

    return j == NULL ? batch : team_part(j->t, 0, batch, &first);
}

// ---- a program

struct program_args {
    struct mate_job *m;
    struct mate_program *p;
    const struct model *model;
    struct compile_options options; // options of the mate's part
    struct pulse *pulse;
};

// Returns the bytes of one sample in a place of batches.
static size_t sample_bytes(const struct program *p, enum program_place place)
{
    size_t most = 0;

    for (uint32_t i = 0; i < p->count; i++) {
        for (uint32_t k = 0; k < p->ops[i].args; k++) {
            const struct program_arg *a = &p->ops[i].arg[k];

            if (a->place == place && a->offset + a->bytes > most)
                most = a->offset + a->bytes;
        }
    }
    return most / p->batch;
}

static void mate_program_release(struct mate_program *p)
{
    device_program_free(p->placed);
    overlap_release(&p->overlap);
    program_free(p->program);
    p->placed = NULL;
    p->program = NULL;
}

static enum sl_err mate_job_settle(struct mate_job *m, struct sl_error *err)
{
    return m->device == NULL ? SL_OK : device_settle(m->device, err);
}

static void team_on_kern_beat(void *pulse)
{
    pulse_beat(pulse);
}

static enum sl_err mate_program_make(struct kern_dev *dev, const void *args,
                                     struct sl_error *err)
{
    const struct program_args *a = args;
    struct mate_program *p = a->p;
    bool train = p->ranges != NULL;
    enum sl_err rc = mate_job_settle(a->m, err);

    kern_beat_to(team_on_kern_beat,
                 a->pulse); // kernels are timed, which takes a while
    if (rc == SL_OK)
        rc = compile(&p->program, dev, a->model, &a->options, &a->m->memory,
                     err);
    kern_beat_to(NULL, NULL);
    if (rc == SL_OK && train)
        rc = overlap_make(&p->overlap, p->program, p->ranges, p->ranges_count,
                          err);
    if (rc == SL_OK && a->m->device != NULL)
        rc = device_place(&p->placed, a->m->device, p->program,
                          train ? &p->overlap : NULL, p->ranges, NULL, err);
    if (rc != SL_OK) {
        mate_program_release(p);
        return rc;
    }
    p->x_bytes = sample_bytes(p->program, PROGRAM_X);
    p->labels_bytes = sample_bytes(p->program, PROGRAM_LABELS);
    return SL_OK;
}

static enum sl_err mate_program_drop(struct kern_dev *dev, const void *args,
                                     struct sl_error *err)
{
    const struct program_args *a = args;

    (void)mate_job_settle(a->m, NULL);
    mate_program_release(a->p);
    return SL_OK;
}

// Posts a command for a mate's program, if it has one.
static void team_program_post(struct team_program *p, unsigned k, team_fn fn,
                              const struct compile_options *options,
                              struct pulse *pulse)
{
    const struct program_args a = {.m = &p->j->of[k],
                                   .p = &p->of[k],
                                   .model = p->j->model,
                                   .options = *options,
                                   .pulse = pulse};

    TEAM_POST(p->j, k, fn, &a);
}

struct meet_args {
    struct team_job *j;
    unsigned member;
    const struct elements *ranges;
    uint32_t count;
};

static enum sl_err meet_one(struct kern_dev *dev, const void *args,
                            struct sl_error *err)
{
    const struct meet_args *a = args;

    return device_meet(a->j->all[a->member], a->j->all, team_mates(a->j->t) + 1,
                       a->member, a->ranges, a->count, err);
}

// Prepares sums on the devices, with the first program that trains. If a device
// has no room for them, sums are made in host memory.
static enum sl_err meet(struct team_job *j, const struct elements *ranges,
                        uint32_t count, struct sl_error *err)
{
    struct meet_args a = {.j = j, .ranges = ranges, .count = count};
    struct sl_error why = SL_ERROR_INIT, more = SL_ERROR_INIT;
    enum sl_err rc, rest;

    if (j->met || j->apart)
        return SL_OK;
    for (unsigned k = 0; k < team_mates(j->t); k++) {
        a.member = k + 1;
        TEAM_POST(j, k, meet_one, &a);
    }
    a.member = 0;
    rc = meet_one(NULL, &a, &why);
    rest = team_wait_all(j->t, &more);
    if (rc == SL_OK && rest != SL_OK) {
        rc = rest;
        why = more;
    }
    j->met = rc == SL_OK;
    j->apart = rc != SL_OK;
    if (rc == SL_ELOST)
        return sl_fail(err, rc, "%s", why.text);
    if (rc != SL_OK)
        LOG(WARN, "gradients are summed by the host", "error=%s", why.text);
    return SL_OK;
}

enum sl_err team_program_new(struct team_program **out, struct team_job *j,
                             const struct compile_options *options,
                             const struct elements *ranges, uint32_t count,
                             struct pulse *pulse, struct sl_error *err)
{
    struct team_program *p = sl_calloc(1, sizeof(*p));
    enum sl_err rc;

    if (p == NULL)
        return sl_no_memory(err);
    p->j = j;
    p->ranges = ranges;
    p->ranges_count = count;
    p->adds = options->add;
    for (unsigned k = 0; k < team_mates(j->t); k++) {
        struct compile_options part = *options;

        team_cut(j, k + 1, &part);
        p->of[k].ranges = ranges;
        p->of[k].ranges_count = count;
        if (part.batch > 0)
            team_program_post(p, k, mate_program_make, &part, pulse);
    }
    rc = team_wait_all(j->t, err);
    if (rc == SL_OK && ranges != NULL)
        rc = meet(j, ranges, count, err);
    if (rc != SL_OK) {
        team_program_free(p);
        return rc;
    }
    *out = p;
    return SL_OK;
}

struct program *team_member(const struct team_program *p, unsigned k)
{
    return k < team_mates(p->j->t) ? p->of[k].program : NULL;
}

void team_left_out(struct program_left_out *to, const struct team_program *p)
{
    for (unsigned k = 0; p != NULL && k < team_mates(p->j->t); k++) {
        const struct program *mate = p->of[k].program;

        if (mate == NULL || mate->left_out.count == 0)
            continue;
        if (to->count == 0)
            memcpy(to->first, mate->left_out.first, sizeof(to->first));
        to->count += mate->left_out.count;
        to->set += mate->left_out.set;
    }
}

void team_program_free(struct team_program *p)
{
    const struct compile_options none = {.batch = 0};

    if (p == NULL)
        return;
    for (unsigned k = 0; k < team_mates(p->j->t); k++)
        team_program_post(p, k, mate_program_drop, &none, NULL);
    (void)team_wait_all(p->j->t, NULL);
    if (p->j->p == p)
        p->j->p = NULL;
    sl_free(p);
}
