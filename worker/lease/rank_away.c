// SPDX-License-Identifier: Apache-2.0
// worker/lease/rank_away.c -- a state that has its values and slots on a
// device: how rounds are applied there, and how the state comes home.
//
// The arithmetic is that of state/shard/apply.c: its runs, and its constants
// for each of them. All parts are at one update, so runs may reach over parts.
#include "worker/lease/rank_away.h"

#include "common/base/mem.h"
#include "trainer/ring/rank_inner.h"

struct away {
    struct rank_away base;
    struct resident *there;
    uint32_t count;
    // Three arrays of `count` entries; owned.
    struct resident_run *runs;
    const struct plan_run **like; // how each run is updated
    struct optim_consts *consts;
};

static struct away *away_of(const struct rank *r)
{
    return (struct away *)r->away;
}

static void rank_away_free(struct rank_away *base)
{
    struct away *a = (struct away *)base;

    sl_free(a->runs);
    sl_free(a->like);
    sl_free(a->consts);
    sl_free(a);
}

// ---- runs of elements that are updated alike

static uint32_t most_runs(const struct rank *r)
{
    size_t n = 0;

    for (uint32_t i = 0; i < r->count; i++)
        n += r->parts[i]->plan.run_count;
    return (uint32_t)n;
}

static void add_run(struct away *a, const struct plan_run *run, uint64_t first)
{
    const struct plan_run *last = a->count > 0 ? a->like[a->count - 1] : NULL;

    if (last != NULL && last->moving == run->moving &&
        last->group == run->group &&
        (!run->moving || last->momentum == run->momentum)) {
        a->runs[a->count - 1].elements += run->elements;
        return;
    }
    a->like[a->count] = run;
    a->runs[a->count++] = (struct resident_run){
        .first = first, .elements = run->elements, .moving = run->moving};
}

static struct away *rank_away_make(const struct rank *r, struct resident *there)
{
    struct away *a = sl_calloc(1, sizeof(*a));
    uint32_t most = most_runs(r);
    uint64_t first = 0;

    if (a == NULL)
        return NULL;
    a->there = there;
    a->runs = sl_malloc_array(most, sizeof(*a->runs));
    a->like = sl_malloc_array(most, sizeof(*a->like));
    a->consts = sl_malloc_array(most, sizeof(*a->consts));
    if (a->runs == NULL || a->like == NULL || a->consts == NULL) {
        rank_away_free(&a->base);
        return NULL;
    }
    for (uint32_t i = 0; i < r->count; i++) {
        const struct plan *p = &r->parts[i]->plan;

        for (size_t k = 0; k < p->run_count; k++)
            add_run(a, &p->runs[k], first + p->runs[k].first);
        first += p->elements;
    }
    return a;
}

// ---- rounds

static enum sl_err rank_away_apply(struct rank *r,
                                   const struct once_step *steps,
                                   struct sl_error *err)
{
    struct away *a = away_of(r);
    struct shard *s = r->parts[0];
    uint64_t version = once_version(&s->once);
    const struct apply_of of = {&s->rates, steps[0].closure, version, version,
                                steps[0].samples};
    struct apply_step step;

    apply_step_init(&step, &s->plan, &s->versions, &of);
    for (uint32_t i = 0; i < a->count; i++)
        apply_consts(&a->consts[i], &s->plan, a->like[i], &step);
    return resident_update(a->there, a->runs, a->consts, a->count, err);
}

// ---- transfers to the device and back

static uint64_t first_of(const struct rank *r, uint32_t part)
{
    uint64_t first = 0;

    for (uint32_t i = 0; i < part; i++)
        first += r->parts[i]->plan.elements;
    return first;
}

static enum sl_err rank_away_write_part(const struct rank *r, uint32_t part,
                                        struct resident *there,
                                        struct sl_error *err)
{
    const struct shard *s = r->parts[part];
    uint64_t first = first_of(r, part), n = s->plan.elements;
    unsigned slots = optim_slots(&s->plan.optim);
    enum sl_err rc = SL_OK;

    for (unsigned k = 0; rc == SL_OK && k <= slots; k++)
        rc = resident_write(there, k, first, n,
                            k == 0 ? s->memory.values : s->memory.slots[k - 1],
                            err);
    return rc;
}

struct bring {
    struct resident *there;
    uint64_t first, n;
};

static enum sl_err read_array(void *arg, unsigned array, float *into,
                              struct sl_error *err)
{
    const struct bring *b = arg;

    return resident_read(b->there, array, b->first, b->n, into, err);
}

static enum sl_err rank_away_bring_part(struct rank *r, uint32_t part,
                                        struct sl_error *err)
{
    struct bring b = {away_of(r)->there, first_of(r, part),
                      r->parts[part]->plan.elements};

    return update_bring(r->parts[part], read_array, &b, err);
}

static enum sl_err values(const struct rank *r, float *flat,
                          struct sl_error *err)
{
    return resident_read(away_of(r)->there, 0, 0, first_of(r, r->count), flat,
                         err);
}

static const struct rank_away_ops away_ops = {.apply = rank_away_apply,
                                              .bring = rank_away_bring_part,
                                              .values = values,
                                              .free = rank_away_free};

enum sl_err rank_lend(struct rank *r, struct resident *there,
                      struct sl_error *err)
{
    struct away *a;
    enum sl_err rc = SL_OK;

    if (r->away != NULL)
        return SL_OK;
    a = rank_away_make(r, there);
    if (a == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a state on a device");
    a->base.ops = &away_ops;
    for (uint32_t i = 0; rc == SL_OK && i < r->count; i++)
        rc = rank_away_write_part(r, i, there, err);
    if (rc == SL_OK)
        r->away = &a->base;
    else
        rank_away_free(&a->base);
    return rc;
}
