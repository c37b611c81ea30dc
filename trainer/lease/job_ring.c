// SPDX-License-Identifier: Apache-2.0
// trainer/lease/job_ring.c -- a rank's buckets and sum, and its state from one
// JobOpen to the next.
#include "trainer/lease/job_ring.h"

#include "common/base/mem.h"
#include "trainer/ring/buckets.h"

enum sl_err job_ring_new(struct job_ring **out, const struct model *model,
                         uint64_t bytes)
{
    struct job_ring *r = sl_calloc(1, sizeof(*r));

    if (r == NULL)
        return SL_ENOMEM;
    if (buckets_make(&r->buckets, &r->buckets_count, model,
                     bytes / sizeof(float)) != SL_OK) {
        job_ring_free(r);
        return SL_ENOMEM;
    }
    *out = r;
    return SL_OK;
}

void job_ring_free(struct job_ring *r)
{
    if (r == NULL)
        return;
    rank_release(&r->rank);
    sum_release(&r->sum);
    sl_free(r->own);
    sl_free(r->buckets);
    sl_free(r);
}

enum sl_err job_ring_sum(struct job_ring *r, uint64_t elements,
                         struct sl_error *err)
{
    enum sl_err rc = sum_init(&r->sum, r->buckets, r->buckets_count, elements);

    return rc == SL_OK ? SL_OK
                       : sl_fail(err, rc, "no memory for a round's sum");
}

void job_ring_hand(struct job_ring *from, struct job_ring *to,
                   const Sluice__V1__JobOpen *open)
{
    if (from->rank.job != open->job ||
        from->rank.job_incarnation != open->job_incarnation)
        return;
    to->rank = from->rank;
    from->rank = (struct rank){0};
}
