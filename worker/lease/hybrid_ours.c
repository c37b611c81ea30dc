// SPDX-License-Identifier: Apache-2.0
// worker/lease/hybrid_ours.c -- a share of a step, micro-batch by micro-batch.
#include "worker/lease/hybrid_ours.h"

#include "trainer/base/grad.h"
#include "worker/lease/pass.h"

struct sharing {
    struct hybrid_step *s;
    struct contribution *c;
};

static enum sl_err hybrid_ours_wait_fresh(void *arg, uint32_t range,
                                          struct sl_error *err)
{
    return hybrid_fresh(((struct sharing *)arg)->s, range, err);
}

static enum sl_err whole(void *arg, uint32_t range, struct sl_error *err)
{
    const struct sharing *t = arg;
    const struct elements *r = &t->s->sync->ranges[range];

    grad_statistics_share(t->s->sync->grads, t->c->job->model, r->first,
                          r->count, t->c->count - t->c->end);
    return hybrid_whole(t->s, range, err);
}

// A share that is not finite is summed all the same: so every member sees it.
enum sl_err hybrid_ours_share(struct contributor *by, struct hybrid_step *s,
                              struct sl_error *err)
{
    struct contribution *c = ((struct hybrid_ours *)by)->c;
    struct sharing sharing = {s, c};
    struct pass pass = {.clock = s->clock,
                        .c = c,
                        .m = s->m,
                        .fresh = hybrid_ours_wait_fresh,
                        .whole = whole,
                        .arg = &sharing};
    enum sl_err rc = pass_forward(&pass, err);

    if (rc == SL_OK)
        rc = pass_backward(&pass, err);
    contribution_put(c);
    s->sums = (struct hybrid_sums){c->digest, c->loss_sum, c->right_sum};
    return rc;
}

enum sl_err hybrid_ours_step(struct contributor *by, struct hybrid_step *s,
                             struct sl_error *err)
{
    struct contribution *c = ((struct hybrid_ours *)by)->c;
    enum sl_err rc;

    (void)contribution_share(c, s->hybrid->members, s->hybrid->self);
    input_share(
        c->input, c->run,
        (struct input_share){c->job->record->accumulate, c->from, c->end});
    rc = hybrid_compute(s, err);
    c->digest = s->sums.digest;
    c->loss_sum = s->sums.loss_sum;
    c->right_sum = s->sums.right_sum;
    return rc;
}
