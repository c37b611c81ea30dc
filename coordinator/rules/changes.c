// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/changes.c -- see changes.h.
#include "coordinator/rules/changes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/num.h"

// ---- norms

static int changes_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double changes_median(const struct changes *c)
{
    size_t n = (size_t)sl_min(c->norms_count, CHANGES_NORMS);
    double sorted[CHANGES_NORMS];

    if (n < CHANGES_LEAST)
        return 0;
    memcpy(sorted, c->norms, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), changes_order);
    return sorted[n / 2];
}

// ---- workers

static struct changes_worker *changes_find(struct changes *c, const char *name)
{
    for (uint32_t i = 0; i < CHANGES_WORKERS; i++)
        if (strcmp(c->workers[i].name, name) == 0)
            return &c->workers[i];
    return NULL;
}

// Returns the worker's place, as the one that was used last; a new worker takes
// a free place, or the one that was used longest ago.
static struct changes_worker *changes_worker(struct changes *c,
                                             const char *name)
{
    struct changes_worker *oldest = changes_find(c, name);

    if (oldest != NULL) {
        oldest->last = ++c->used;
        return oldest;
    }
    oldest = &c->workers[0];
    for (uint32_t i = 1; i < CHANGES_WORKERS; i++)
        if (c->workers[i].last < oldest->last)
            oldest = &c->workers[i];
    if (oldest->name[0] != '\0')
        c->round_held = 0; // it may have contributions of the worker that goes
    *oldest = (struct changes_worker){.last = ++c->used,
                                      .loss = (double)NAN,
                                      .norm = (double)NAN,
                                      .angle = (double)NAN};
    snprintf(oldest->name, sizeof(oldest->name), "%s", name);
    return oldest;
}

// ---- angles

// Sums up the contributions that are held, by samples.
static void changes_mean(const struct changes *c, float mean[FOLD_SUMS])
{
    memset(mean, 0, FOLD_SUMS * sizeof(*mean));
    for (uint32_t k = 0; k < c->round_held; k++)
        for (uint32_t i = 0; i < FOLD_SUMS; i++)
            mean[i] += (float)c->round[k].weight * c->round[k].sums[i];
}

// Tells each contribution of the round its angle to their mean.
static void changes_angles(struct changes *c)
{
    float mean[FOLD_SUMS];

    changes_mean(c, mean);
    for (uint32_t k = 0; k < c->round_held; k++)
        c->workers[c->round[k].worker].angle =
            fold_angle(c->round[k].sums, mean);
    c->round_held = 0;
}

static bool changes_is_held(const struct changes *c, uint64_t closure)
{
    for (uint32_t k = 0; k < c->round_held; k++)
        if (c->round[k].closure == closure)
            return true;
    return false;
}

static void changes_put(struct changes *c, uint32_t place,
                        const struct changes_one *one, uint32_t worker)
{
    struct changes_held *h = &c->round[place];

    h->closure = one->closure;
    h->weight = one->weight;
    h->worker = worker;
    memcpy(h->sums, one->sums, sizeof(h->sums));
}

// Which contributions a round without slots has is known to its shards alone,
// and each may have others: the last ones are as good.
static void changes_hold_open(struct changes *c, const struct changes_one *one,
                              uint32_t worker)
{
    float mean[FOLD_SUMS];

    if (c->round_held == 0)
        c->round_next = 0;
    changes_put(c, c->round_next, one, worker);
    c->round_next = (c->round_next + 1) % one->round_count;
    if (c->round_held < one->round_count)
        c->round_held++;
    if (c->round_held < one->round_count)
        return;
    changes_mean(c, mean);
    c->workers[worker].angle = fold_angle(one->sums, mean);
}

static void changes_hold(struct changes *c, const struct changes_one *one,
                         uint32_t worker)
{
    if (c->round_first != one->round_first)
        c->round_held = 0;
    c->round_first = one->round_first;
    if (one->sums == NULL || one->round_count == 0 ||
        one->round_count > CHANGES_ROUND || changes_is_held(c, one->closure))
        return;
    if (one->open) {
        changes_hold_open(c, one, worker);
        return;
    }
    changes_put(c, c->round_held++, one, worker);
    if (c->round_held >= one->round_count)
        changes_angles(c);
}

static void changes_add(struct changes *c, const struct changes_one *one)
{
    c->samples += one->samples;
    c->pushed_bytes += one->pushed_bytes;
    c->pulled_bytes += one->pulled_bytes;
}

void changes_take(struct changes *c, const struct changes_one *one)
{
    struct changes_worker *w = changes_worker(c, one->worker);

    changes_add(c, one);
    w->contributions++;
    w->loss = one->loss;
    w->norm = one->norm;
    w->steps = one->steps;
    if (one->norm >= 0)
        c->norms[c->norms_count++ % CHANGES_NORMS] = one->norm;
    changes_hold(c, one, (uint32_t)(w - c->workers));
}

// ---- aside

void changes_put_aside(struct changes *c, uint64_t closure, const char *worker,
                       double bound, uint64_t now_ms)
{
    struct changes_aside *a = (struct changes_aside *)changes_aside(c, closure);

    if (a == NULL)
        a = &c->asides[c->asides_count++ % CHANGES_ASIDE];
    snprintf(a->worker, sizeof(a->worker), "%s", worker);
    a->closure = closure;
    a->since_ms = now_ms;
    a->bound = bound;
    c->set_aside++;
    changes_worker(c, worker)->set_aside++;
}

const struct changes_aside *changes_aside(const struct changes *c,
                                          uint64_t closure)
{
    for (uint32_t i = 0; i < CHANGES_ASIDE; i++)
        if (c->asides[i].worker[0] != '\0' && c->asides[i].closure == closure)
            return &c->asides[i];
    return NULL;
}

const struct changes_worker *changes_decide(struct changes *c,
                                            const struct changes_one *one)
{
    struct changes_aside *a =
        (struct changes_aside *)changes_aside(c, one->closure);
    struct changes_aside was;
    struct changes_worker *w;

    if (a == NULL)
        return NULL;
    was = *a;
    a->worker[0] = '\0';
    if (strcmp(was.worker, one->worker) == 0 || one->norm < 0 ||
        !(one->norm <= was.bound / 2))
        return NULL;
    w = changes_worker(c, was.worker);
    if (w->contributions - w->wrong_at >= CHANGES_NORMS)
        w->wrong = 0;
    w->wrong_at = w->contributions;
    w->wrong++;
    return w;
}

void changes_also(struct changes *c, const struct changes_one *one)
{
    struct changes_aside *a =
        (struct changes_aside *)changes_aside(c, one->closure);

    changes_add(c, one);
    if (a != NULL)
        a->worker[0] = '\0';
}
