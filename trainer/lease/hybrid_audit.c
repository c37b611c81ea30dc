// SPDX-License-Identifier: Apache-2.0
// trainer/lease/hybrid_audit.c -- see hybrid_audit.h.
#include "trainer/lease/hybrid_audit.h"

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "proto/spec.h"
#include "trainer/base/grad.h"
#include "trainer/lease/hybrid_rows.h"
#include "trainer/lease/repeats.h"

static void hybrid_audit_choose(struct hybrid_audit *a,
                                const struct hybrid_step *s)
{
    const struct lease *l = s->hybrid->lease;
    const Sluice__V1__JobSpec *spec = l->record->open->spec;

    a->count = 0;
    if (!audited_round(l->job, s->head.closure, spec_audit(spec->train)))
        return;
    a->twice = spec_group(spec).by_host || s->hybrid->members == 1;
    a->shares[0] = a->shares[1] = s->hybrid->self;
    a->count = a->twice ? 2
                        : audited_slots(0, s->hybrid->members, s->hybrid->self,
                                        a->shares);
}

enum sl_err hybrid_audit_begin(struct hybrid_audit *a, struct hybrid_step *s,
                               uint64_t with, struct sl_error *err)
{
    uint32_t n = s->sync->ranges_count;
    enum sl_err rc;

    hybrid_audit_choose(a, s);
    ring_repeats_begin(&a->results, a->count > 0, 0);
    if (a->count == 0)
        return SL_OK;
    rc = hybrid_fresh(s, n - 1, err);
    for (uint32_t i = 0; rc == SL_OK && i < n; i++) {
        const struct elements *r = &s->sync->ranges[i];

        with = grad_digest(with, s->sync->params + r->first, (size_t)r->count);
    }
    a->params = with;
    return rc;
}

// What its micro-batches are is part of a share's inputs: in another generation
// the same member has others. So are the rows of all members' micro-batches.
bool hybrid_audit_share(struct hybrid_audit *a, const struct hybrid_step *s,
                        uint32_t i)
{
    const struct round_key key = {s->head.closure, s->head.step};
    uint64_t inputs =
        job_tables_inputs(hybrid_rows_tables(s->hybrid->rows), a->params);
    uint32_t first, n;

    round_slots(s->count, s->hybrid->members, (uint32_t)a->shares[i], &first,
                &n);
    a->at = i;
    a->results.inputs =
        sl_mix64(inputs ^ sl_mix64((uint64_t)first << 32 | (first + n)));
    ring_repeats_slot(&a->results, i > 0, s->hybrid->lease->job, key);
    return n > 0;
}

void hybrid_audit_range(struct hybrid_audit *a, const struct hybrid_step *s,
                        uint32_t range, bool finite)
{
    const struct elements *r = &s->sync->ranges[range];

    ring_repeats_bucket(&a->results, range, r->first, s->sync->grads + r->first,
                        (size_t)r->count, finite);
}

// Reads the sums of the gradients of the share's rows, table by table, as if
// they were ranges behind the others. All members have the same ids.
static bool hybrid_audit_rows(struct hybrid_audit *a,
                              const struct hybrid_step *s)
{
    struct job_tables *tables = hybrid_rows_tables(s->hybrid->rows);
    uint32_t n = s->sync->ranges_count;
    const struct elements *last = &s->sync->ranges[n - 1];
    uint64_t first = last->first + last->count;

    for (uint32_t i = 0; i < job_tables_count(tables); i++) {
        size_t elements;
        float *sums;

        if (job_tables_merge(tables, i, &sums, &elements, NULL) != SL_OK)
            return false;
        ring_repeats_bucket(&a->results, n + i, first, sums, elements,
                            grad_finite(sums, elements));
        first += elements;
    }
    return true;
}

void hybrid_audit_note(struct hybrid_audit *a, const struct hybrid_step *s,
                       uint64_t kind)
{
    uint32_t before = a->results.count;

    if (!hybrid_audit_rows(a, s))
        return;
    ring_repeats_note(&a->results,
                      (struct round_key){s->head.closure, s->head.step}, kind);
    if (a->results.count > before)
        a->results.list[before].share = (uint32_t)a->shares[a->at];
}

bool hybrid_audit_differs(const struct hybrid_audit *a)
{
    return a->count > 0 && a->twice &&
           repeats_two_differ(a->results.list, a->results.count);
}

void hybrid_audit_say(struct hybrid_audit *a, const struct hybrid *h)
{
    Sluice__V1__Repeat **list =
        a->count > 0 ? ring_repeats_say(&a->results) : NULL;

    if (list != NULL)
        seat_say(h->lease->seat,
                 say_shares(h->say, h->opened, list, a->results.count));
    sl_free(list);
}

void hybrid_audit_release(struct hybrid_audit *a)
{
    ring_repeats_release(&a->results);
    *a = (struct hybrid_audit){.count = 0};
}
