// SPDX-License-Identifier: Apache-2.0
// state/shard/open_round.c -- the sum of an open round; see open_round.h.
#include "state/shard/open_round.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "state/shard/coded.h"
#include "state/shard/stale.h"

enum sl_err open_round_init(struct open_round *r, uint32_t most,
                            size_t elements)
{
    *r = (struct open_round){.most = most, .elements = elements};
    if (most == 0)
        return SL_OK;
    r->sum = sl_aligned(64, elements * sizeof(*r->sum));
    return r->sum == NULL ? SL_ENOMEM : open_round_reserve(r, most);
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
    *r = (struct open_round){0};
}

bool open_round_has(const struct open_round *r, uint64_t closure)
{
    for (size_t i = 0; i < r->keys; i++)
        if (r->steps[i].closure == closure)
            return true;
    return false;
}

// Adds a contribution to the sum, or notes that it is the last one.
static void open_round_add(struct open_round *r, float weight,
                           enum wire_type type, const struct sl_slices *payload)
{
    float most = coded_most(r->coded, type, payload);

    if (r->held + 1 == r->most) {
        r->last = *payload;
        r->last_type = type;
        r->parts[1] = (struct mean_part){NULL, weight, most};
        return;
    }
    coded_sum(r->coded, type, payload, weight, r->held == 0, r->sum);
    r->most_sum =
        (r->held == 0 ? 0 : r->most_sum) + (double)weight * (double)most;
}

void open_round_hold(struct open_round *r, const struct once_step *steps,
                     size_t count, enum wire_type type,
                     const struct sl_slices *payload)
{
    uint64_t samples = 0;

    assert(r->held < r->most && r->keys_cap - r->keys >= count);
    for (size_t i = 0; i < count; i++) {
        assert(!open_round_has(r, steps[i].closure));
        samples += steps[i].samples;
    }
    open_round_add(r, (float)samples, type, payload);
    memcpy(&r->steps[r->keys], steps, count * sizeof(*steps));
    r->keys += count;
    r->held++;
    r->samples += samples;
    if (samples > r->largest)
        r->largest = samples;
}

// Sets *mean to that of the sum, and of the contribution that is not in it.
static void open_round_mean(struct open_round *r, struct mean *mean)
{
    bool last = r->last.bytes > 0, sum = r->held > last;

    r->parts[0] = (struct mean_part){r->sum, 1, (float)r->most_sum};
    mean->parts = r->parts + !sum;
    mean->count = (size_t)sum + last;
    mean->elements = r->elements;
    mean->by = 1.0f / (float)r->samples;
    mean->coded = r->coded;
    mean->type = r->last_type;
    mean->payload = r->last;
}

bool open_round_close(struct open_round *r, uint64_t version, size_t *count,
                      struct mean *mean)
{
    bool finite;

    open_round_mean(r, mean);
    finite = mean_finite(mean);
    for (size_t i = 0; i < r->keys; i++) {
        struct once_step *step = &r->steps[i];

        step->staleness = stale_delay(version, step->staleness);
        step->skip = !finite; // too large together
    }
    *count = r->keys;
    r->keys = r->held = 0;
    r->samples = r->largest = 0;
    r->last = SL_SLICES_NONE;
    return finite;
}
