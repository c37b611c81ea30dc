// SPDX-License-Identifier: Apache-2.0
// trainer/lease/repeats.c -- see repeats.h.
#include "trainer/lease/repeats.h"

#include "plan/sketch.h"
#include "proto/spec.h"
#include "state/shard/contributions.h"
#include "trainer/base/grad.h"

void repeats_begin(struct repeats *r, struct lease *l)
{
    const Sluice__V1__TrainSpec *train = l->record->open->spec->train;
    uint32_t most = spec_contributions(train), count;
    uint64_t first;

    r->count = l->outcome.repeats_count = 0;
    r->twice = most == 0;
    if (spec_audit(train) == 0)
        return;
    if (r->twice) {
        if (audited_round(l->job, l->closure, spec_audit(train)))
            while (r->count < 2)
                r->slots[r->count++] = l->closure;
        return;
    }
    first = contributions_round(&l->record->schedule, most, l->closure, &count);
    if (audited_round(l->job, first, spec_audit(train)))
        r->count = audited_slots(first, count, l->closure, r->slots);
}

void repeats_inputs(struct repeats *r, uint64_t with, const float *params,
                    size_t n)
{
    r->inputs = grad_digest(with, params, n);
}

void repeats_note(const struct repeats *r, struct lease *l, uint64_t kind,
                  uint64_t closure, const float *gradient, size_t n)
{
    struct outcome *o = &l->outcome;
    struct lease_repeat *result = &o->repeats[o->repeats_count];
    uint64_t seed = sketch_seed(l->job, closure, 0);

    if (r->count == 0 || o->repeats_count == AUDITED_WORKERS)
        return;
    *result = (struct lease_repeat){
        .closure = closure,
        .kind = kind,
        .inputs = job_tables_inputs(r->tables, r->inputs),
        .sketched = !r->twice,
    };
    if (gradient != NULL)
        result->output =
            job_tables_output(r->tables, grad_digest(0, gradient, n));
    if (gradient != NULL && result->sketched) {
        sketch_add(&result->sketch, seed, 0, gradient, n);
        job_tables_sketch(r->tables, &result->sketch, seed, n);
    }
    sketch_end(&result->sketch, gradient != NULL);
    o->repeats_count++;
}

bool repeats_two_differ(const struct lease_repeat *two, uint32_t count)
{
    const struct lease_repeat *a = two, *b = two + 1;

    return count == 2 && a->kind == b->kind && a->inputs == b->inputs &&
           a->output != b->output;
}

bool repeats_differ(const struct repeats *r, const struct lease *l)
{
    return r->twice &&
           repeats_two_differ(l->outcome.repeats, l->outcome.repeats_count);
}

void repeats_say(Sluice__V1__Repeat *to, struct lease_repeat *from)
{
    sluice__v1__repeat__init(to);
    to->closure = from->closure;
    to->step = from->step;
    to->share = from->share;
    to->kind = from->kind;
    to->inputs = from->inputs;
    to->output = from->output;
    to->sketch = from->sketch.of;
    to->n_sketch = from->sketched ? SKETCH_NUMBERS : 0;
}
