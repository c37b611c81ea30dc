// SPDX-License-Identifier: Apache-2.0
// state/shard/open_round.c -- the sum of an open round; see open_round.h.
#include "state/shard/open_round.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "state/base/finite.h"
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
    coded_sum(r->coded, type, payload, (float)samples, r->held == 0, r->sum);
    memcpy(&r->steps[r->keys], steps, count * sizeof(*steps));
    r->keys += count;
    r->held++;
    r->samples += samples;
    if (samples > r->largest)
        r->largest = samples;
}

const float *open_round_close(struct open_round *r, uint64_t version,
                              size_t *count)
{
    float samples = (float)r->samples;
    bool finite;

    for (size_t i = 0; i < r->elements; i++)
        r->sum[i] /= samples;
    finite = finite_all(WIRE_F32, (const uint8_t *)r->sum, r->elements);
    for (size_t i = 0; i < r->keys; i++) {
        struct once_step *step = &r->steps[i];

        step->staleness = stale_delay(version, step->staleness);
        step->skip = !finite; // too large together
    }
    *count = r->keys;
    r->keys = r->held = 0;
    r->samples = r->largest = 0;
    return finite ? r->sum : NULL;
}
