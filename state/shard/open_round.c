// SPDX-License-Identifier: Apache-2.0
// state/shard/open_round.c -- the sum of an open round; see open_round.h.
#include "state/shard/open_round.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "state/shard/coded.h"
#include "state/shard/stale.h"

enum sl_err open_round_init(struct open_round *r, const struct plan *plan)
{
    enum sl_err rc;

    *r = (struct open_round){
        .most = plan->open,
        .aged = plan->aged,
        .elements = plan->elements,
        .coded = &plan->coded,
    };
    if (r->most == 0)
        return SL_OK;
    r->sum = sl_aligned(64, r->elements * sizeof(*r->sum));
    rc = r->sum == NULL ? SL_ENOMEM : directions_init(&r->directions, plan);
    return rc == SL_OK ? open_round_reserve(r, r->most) : rc;
}

enum sl_err open_round_reserve(struct open_round *r, size_t count)
{
    size_t cap =
        r->keys + count < 2 * r->keys_cap ? 2 * r->keys_cap : r->keys + count;
    struct once_step *grown;

    if (r->keys_cap - r->keys >= count)
        return SL_OK;
    grown = sl_realloc_array(r->steps, cap, sizeof(*grown));
    if (grown == NULL)
        return SL_ENOMEM;
    r->steps = grown;
    r->keys_cap = cap;
    return SL_OK;
}

void open_round_release(struct open_round *r)
{
    sl_free(r->sum);
    sl_free(r->steps);
    directions_release(&r->directions);
    *r = (struct open_round){0};
}

bool open_round_has(const struct open_round *r, uint64_t closure)
{
    for (size_t i = 0; i < r->keys; i++)
        if (r->steps[i].closure == closure)
            return true;
    return false;
}

// Sets *mean to the sum of what is in r->sum and in r->last.
static void open_round_sum(struct open_round *r, struct mean *mean)
{
    bool last = r->last.bytes > 0, sum = r->held > last;

    r->parts[0] = (struct mean_part){
        .values = r->sum, .weight = 1, .most = (float)r->most_sum};
    mean->parts = r->parts + !sum;
    mean->count = (size_t)sum + last;
    mean->elements = r->elements;
    mean->by = 1;
    mean->directions = NULL;
    mean->coded = r->coded;
    mean->type = r->last_type;
    mean->payload = r->last;
}

// Takes the norms of the contribution in r->last; NULL: they are not wanted.
static const double *open_round_norms(struct open_round *r, float weight)
{
    struct directions *d = &r->directions;

    if (d->count == 0)
        return NULL;
    directions_norms(d, r->coded, r->last_type, &r->last, d->last);
    for (size_t p = 0; p < d->count; p++)
        d->sizes[p] =
            (r->held == 1 ? 0 : d->sizes[p]) + (double)weight * d->last[p];
    return d->last;
}

// Adds the contribution that came, which r->held counts, to the sum; but not
// the last one of a round.
static void open_round_add(struct open_round *r, float weight,
                           enum wire_type type, const struct sl_slices *payload)
{
    float most = coded_bound(r->coded, type, payload);
    struct mean mean;

    r->last = *payload;
    r->last_type = type;
    r->parts[1] = (struct mean_part){.weight = weight, .most = most};
    r->parts[1].norms = open_round_norms(r, weight);
    if (r->held == r->most)
        return;
    open_round_sum(r, &mean);
    directions_sum(&r->directions, &mean);
    mean_write(&mean, r->sum);
    r->last = SL_SLICES_NONE;
    r->most_sum =
        (r->held == 1 ? 0 : r->most_sum) + (double)weight * (double)most;
}

void open_round_hold(struct open_round *r, uint64_t version,
                     const struct once_step *steps, size_t count,
                     enum wire_type type, const struct sl_slices *payload)
{
    uint64_t samples = 0, age = stale_delay(version, steps[0].staleness);
    float weight;

    assert(r->held < r->most && r->keys_cap - r->keys >= count);
    for (size_t i = 0; i < count; i++) {
        assert(!open_round_has(r, steps[i].closure));
        samples += steps[i].samples;
    }
    memcpy(&r->steps[r->keys], steps, count * sizeof(*steps));
    r->keys += count;
    r->held++;
    weight = (float)samples / (r->aged ? (float)(age + 1) : 1);
    open_round_add(r, weight, type, payload);
    r->weight += (double)weight;
    if (samples > r->largest)
        r->largest = samples;
}

bool open_round_close(struct open_round *r, uint64_t version, size_t *count,
                      struct mean *mean)
{
    bool finite;

    open_round_sum(r, mean);
    mean->by = 1.0f / (float)r->weight;
    if (r->directions.count > 0)
        directions_mean(&r->directions, r->weight, mean);
    finite = mean_finite(mean);
    for (size_t i = 0; i < r->keys; i++) {
        struct once_step *step = &r->steps[i];

        step->staleness = stale_delay(version, step->staleness);
        step->skip = !finite; // too large together
    }
    *count = r->keys;
    r->keys = r->held = 0;
    r->largest = 0;
    r->weight = 0;
    r->last = SL_SLICES_NONE;
    return finite;
}
