// SPDX-License-Identifier: Apache-2.0
// trainer/ring/rank.c -- the parts of a rank's state: made, kept, updated,
// frozen.
#include "trainer/ring/rank.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "trainer/ring/rank_inner.h"

void rank_set_free(struct shard **parts, uint32_t count)
{
    for (uint32_t i = 0; parts != NULL && i < count; i++)
        shard_unref(parts[i]);
    sl_free(parts);
}

static void rank_drop_away(struct rank *r)
{
    if (r->away != NULL)
        r->away->ops->free(r->away);
    r->away = NULL;
}

void rank_release(struct rank *r)
{
    rank_set_free(r->parts, r->count);
    rank_drop_away(r);
    *r = (struct rank){0};
}

// Returns the number of parts that JobOpen names.
static uint32_t rank_part_count(const Sluice__V1__JobOpen *open)
{
    return open->pieces[open->n_pieces - 1]->shard + 1;
}

// Makes the plan of a part from the ShardSpec that a psserver would be sent, so
// that the shard is the same.
static enum sl_err read_plan(struct plan *out, const struct rank_job *j,
                             uint32_t part, size_t *at,
                             const Sluice__V1__RingBegin *begin, uint32_t *ids,
                             struct sl_error *err)
{
    const Sluice__V1__JobOpen *open = j->open;
    Sluice__V1__ShardSpec spec = SLUICE__V1__SHARD_SPEC__INIT;
    enum sl_err rc;

    spec.job = open->job;
    spec.job_incarnation = open->job_incarnation;
    spec.job_uid = j->uid;
    spec.job_name = open->job_name;
    spec.shard = part;
    spec.pieces = open->pieces + *at;
    while (*at < open->n_pieces && open->pieces[*at]->shard == part) {
        spec.n_pieces++;
        ++*at;
    }
    spec.variables = open->variables;
    spec.n_variables = open->n_variables;
    spec.variable_ids = ids;
    spec.n_variable_ids = open->n_variables;
    spec.optimizer = open->spec->optimizer;
    spec.geometry = open->geometry;
    spec.seed = open->spec->train->seed;
    spec.accumulate = open->spec->train->accumulate;
    if (begin != NULL) {
        spec.sources = begin->sources;
        spec.n_sources = begin->n_sources;
    }
    rc = plan_read(out, &spec, err);
    if (rc == SL_OK &&
        optim_is_whole(&out->optim)) { // spec_check_grouped refuses such a job
        plan_release(out);
        rc = sl_fail(err, SL_EINVAL, "optimizer %s is one of psservers alone",
                     optim_kind_name(out->optim.kind));
    }
    if (rc == SL_OK && j->rates != NULL)
        out->rates = *j->rates;
    return rc;
}

// Makes the parts. Their values are one vector, part behind part, which steps
// read as it is: a copy of it would take as much memory again.
static enum sl_err make_parts(struct shard **parts, struct plan *plans,
                              uint32_t count)
{
    struct region_shared *values;
    uint64_t first = 0, elements = 0;
    enum sl_err rc;

    for (uint32_t i = 0; i < count; i++)
        elements += plans[i].elements;
    rc = region_shared_new(&values, (size_t)elements * sizeof(float));
    if (rc != SL_OK)
        return rc;
    for (uint32_t i = 0; rc == SL_OK && i < count; i++) {
        uint64_t n = plans[i].elements;

        rc = shard_new_in(&parts[i], &plans[i], values, first);
        first += n;
    }
    region_shared_unref(values);
    return rc;
}

void rank_plans_free(struct plan *plans, uint32_t count)
{
    for (uint32_t i = 0; plans != NULL && i < count; i++)
        plan_release(&plans[i]);
    sl_free(plans);
}

enum sl_err rank_plans(struct plan **out, uint32_t *count,
                       const struct rank_job *j,
                       const Sluice__V1__RingBegin *begin, struct sl_error *err)
{
    uint32_t n = rank_part_count(j->open);
    struct plan *plans = sl_calloc(n, sizeof(*plans));
    uint32_t *ids = sl_malloc_array(j->open->n_variables, sizeof(*ids));
    enum sl_err rc = plans == NULL || ids == NULL ? SL_ENOMEM : SL_OK;
    size_t at = 0;

    for (uint32_t i = 0; rc == SL_OK && i < j->open->n_variables; i++)
        ids[i] = i;
    for (uint32_t i = 0; rc == SL_OK && i < n; i++)
        rc = read_plan(&plans[i], j, i, &at, begin, ids, err);
    sl_free(ids);
    if (rc != SL_OK) {
        rank_plans_free(plans, n);
        return rc;
    }
    *out = plans;
    *count = n;
    return SL_OK;
}

enum sl_err rank_set_new(struct shard ***out, uint32_t *count,
                         const struct rank_job *j,
                         const Sluice__V1__RingBegin *begin,
                         struct sl_error *err)
{
    struct shard **parts = NULL;
    struct plan *plans = NULL;
    uint32_t n = 0;
    enum sl_err rc = rank_plans(&plans, &n, j, begin, err);

    if (rc != SL_OK)
        return rc;
    parts = sl_calloc(n, sizeof(*parts));
    rc = parts == NULL ? SL_ENOMEM : make_parts(parts, plans, n);
    rank_plans_free(plans, n); // those that no part has taken
    if (rc != SL_OK) {
        rank_set_free(parts, n);
        return rc;
    }
    *out = parts;
    *count = n;
    return SL_OK;
}

// R3: the new state is complete before the tag names it.
void rank_set_place(struct rank *r, struct shard **parts, uint32_t count,
                    uint64_t job, uint64_t job_incarnation, struct wire_tag tag)
{
    rank_release(r);
    *r = (struct rank){.parts = parts,
                       .count = count,
                       .job = job,
                       .job_incarnation = job_incarnation};
    rank_keep(r, tag.incarnation);
    r->tag = tag;
}

void rank_set_take(struct rank *r, struct shard **parts, uint32_t count,
                   const struct rank_job *j, struct wire_tag tag)
{
    rank_set_place(r, parts, count, j->open->job, j->open->job_incarnation,
                   tag);
}

void rank_rates(struct rank *r, const struct rates *rates)
{
    for (uint32_t i = 0; i < r->count; i++)
        shard_rates(r->parts[i], rates);
}

float *rank_flat(const struct rank *r)
{
    return r->parts[0]->memory.values;
}

enum sl_err rank_values(const struct rank *r, float *flat, struct sl_error *err)
{
    size_t bytes = 0;

    if (r->away != NULL)
        return r->away->ops->values(r, flat, err);
    for (uint32_t i = 0; i < r->count; i++)
        bytes += plan_values_bytes(&r->parts[i]->plan);
    memcpy(flat, rank_flat(r), bytes);
    return SL_OK;
}

bool rank_holds(const struct rank *r, struct wire_tag base)
{
    return rank_has_state(r) && wire_tag_cmp(r->tag, base) == 0;
}

void rank_keep(struct rank *r, uint64_t generation)
{
    for (uint32_t i = 0; i < r->count; i++)
        shard_admit(r->parts[i], generation);
    r->tag.incarnation = generation;
}

// Notes the round in the history, for tools that check the order of steps.
static void rank_log_round(const struct rank *r, const struct once_step *steps,
                           size_t count)
{
    const struct plan *p = &r->parts[0]->plan;
    const struct once_step *last = &steps[count - 1];
    uint64_t samples = 0, digest = 0;

    if (!history_on())
        return;
    for (size_t i = 0; i < count; i++) {
        samples += steps[i].samples;
        digest += steps[i].digest;
    }
    HISTORY("rank_round",
            "job=%" PRIu64 " uid=%" PRIx64 " generation=%" PRIu64
            " rounds=%" PRIu64 " keys=%zu closure=%" PRIu64
            " step=%u last_closure=%" PRIu64 " last_step=%u samples=%" PRIu64
            " digest=%" PRIx64 " steps=%" PRIu64 " skip=%d",
            p->job, p->job_uid, r->tag.incarnation, r->tag.sequence, count,
            steps[0].closure, steps[0].step, last->closure, last->step, samples,
            digest, counted_steps(&rank_once(r)->counted), last->skip);
    // Unused in a build without the history.
    (void)p, (void)last, (void)samples, (void)digest;
}

size_t rank_absent(uint8_t *bits, const struct plan *p, const float *present)
{
    size_t bytes = 0;

    memset(bits, 0, (p->piece_count + 7) / 8);
    for (size_t i = 0; present != NULL && i < p->piece_count; i++) {
        if (present[p->pieces[i].variable] != 0)
            continue;
        bits[i / 8] |= (uint8_t)(1u << (i % 8));
        bytes = i / 8 + 1;
    }
    return bytes;
}

static enum sl_err update_part(struct shard *s, struct update *u,
                               const float *present, float *fresh,
                               struct sl_error *err)
{
    uint8_t *bits;
    enum sl_err rc;

    if (present == NULL)
        return update_shard(s, u, fresh, err);
    bits = sl_malloc((s->plan.piece_count + 7) / 8);
    if (bits == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a round");
    u->absent = bits;
    u->absent_bytes = rank_absent(bits, &s->plan, present);
    rc = update_shard(s, u, fresh, err);
    sl_free(bits);
    return rc;
}

enum sl_err rank_round(struct rank *r, const struct once_step *steps,
                       size_t count, const float *g, const float *present,
                       float *fresh, struct sl_error *err)
{
    struct update u = {.gradient = g,
                       .steps = steps,
                       .count = count,
                       .elsewhere = r->away != NULL};
    enum sl_err rc = SL_OK;

    if (r->away != NULL && !steps[0].skip)
        rc = r->away->ops->apply(r, steps, err);
    for (uint32_t i = 0; rc == SL_OK && i < r->count; i++) {
        struct shard *s = r->parts[i];

        rc = update_part(s, &u, present, fresh, err);
        u.gradient += s->plan.elements;
        fresh += fresh != NULL ? s->plan.elements : 0;
    }
    // R3: a state that is updated in part is given up, so that its tag claims
    // nothing.
    if (rc != SL_OK) {
        rank_release(r);
        return rc;
    }
    r->tag.sequence++;
    r->skipped = steps[0].skip;
    rank_log_round(r, steps, count);
    return SL_OK;
}

enum sl_err rank_foresee(struct rank *r, const struct once_step *steps,
                         size_t count, const float *g, uint64_t elements,
                         float *out, float *space, struct sl_error *err)
{
    struct update u = {.gradient = g, .steps = steps, .count = count};
    enum sl_err rc = SL_OK;

    if (r->away != NULL)
        return sl_fail(err, SL_ESTATE, "the state is on a device");
    for (uint32_t i = 0; rc == SL_OK && elements > 0 && i < r->count; i++) {
        uint64_t n = sl_min(r->parts[i]->plan.elements, elements);

        rc = update_foresee(r->parts[i], &u, n, out, space, err);
        u.gradient += n;
        out += n;
        elements -= n;
    }
    return rc;
}

enum sl_err rank_bring_part(struct rank *r, uint32_t part, struct sl_error *err)
{
    return r->away == NULL ? SL_OK : r->away->ops->bring(r, part, err);
}

enum sl_err rank_bring(struct rank *r, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; rc == SL_OK && i < r->count; i++)
        rc = rank_bring_part(r, i, err);
    return rc;
}

enum sl_err rank_take_back(struct rank *r, struct sl_error *err)
{
    enum sl_err rc = rank_bring(r, err);

    if (rc != SL_OK) {
        rank_release(r);
        return rc;
    }
    rank_drop_away(r);
    return SL_OK;
}

enum sl_err rank_freeze(struct rank *r, uint32_t part, struct shard_image *out,
                        struct sl_error *err)
{
    enum sl_err rc;

    if (part >= r->count)
        return sl_fail(err, SL_ERANGE, "part %" PRIu32 " of %" PRIu32, part,
                       r->count);
    rc = rank_bring_part(r, part, err);
    return rc == SL_OK ? shard_freeze_as(r->parts[part], r->tag, out, err) : rc;
}
