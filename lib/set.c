// SPDX-License-Identifier: Apache-2.0
// lib/set.c -- the closures of a contribution in mode local, each with a lease
// of its own: those of trainer/lease/closures.h, from the session's queue.
#include "lib/inner.h"

static struct lease *set_next(void *arg)
{
    struct sluice_closure *c = arg;
    struct lease *l = session_next(c->session, c->job->record);

    if (l != NULL)
        list_push_back(&c->taken, &l->queued);
    return l;
}

static void set_give(void *arg, struct lease *l)
{
    struct sluice_closure *c = arg;

    list_remove(&l->queued);
    session_done(c->session, l);
}

void set_init(struct sluice_closure *c)
{
    const struct closures_env env = {
        .clock = sl_clock_real(), .next = set_next, .give = set_give, .arg = c};

    if (c->info.batches > 0)
        closures_init(&c->set, &env, c->lease, &c->job->alone);
}

void set_begin(struct sluice_closure *c)
{
    if (c->info.batches == 0)
        return;
    closures_begin(&c->set);
    c->noted = c->cut = false;
}

void set_note(struct sluice_closure *c, const struct sluice_result *r)
{
    const struct closures_steps of = {.count = c->info.batches,
                                      .samples = c->count,
                                      .digest = c->digest,
                                      .loss_sum = r->loss_sum,
                                      .right_sum = r->right};

    if (c->info.batches == 0 || c->noted || c->cut)
        return;
    closures_add(&c->set, c->now, &of);
    c->noted = true;
}

void set_finish(struct sluice_closure *c, enum sync_result result)
{
    static const struct sluice_result nothing;
    struct list_node *n;

    if (c->info.batches == 0)
        return;
    set_note(c, &nothing); // it gets its outcome with the others
    closures_end(&c->set, c->job->sync, result, c->steps.skipped);
    while ((n = list_pop_front(&c->taken)) != NULL)
        session_done(c->session, list_entry(n, struct lease, queued));
}
