// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/callbacks.c -- one evaluation, judged by each callback.
#include "coordinator/rules/callbacks.h"

#include <math.h>
#include <string.h>

void callbacks_begin(struct callbacks *c, double rate)
{
    memset(c, 0, sizeof(*c));
    c->plateau.rate = rate;
}

static bool better(const struct spec_watch *w, double value, double than)
{
    return w->larger ? value - w->min_delta > than
                     : value + w->min_delta < than;
}

static bool improves(const struct spec_watch *w,
                     const struct callbacks_best *best, double value)
{
    return isfinite(value) && (!best->has || better(w, value, best->value));
}

static bool callbacks_watched_value(const struct spec_watch *w,
                                    const struct callbacks_seen *seen,
                                    double *value)
{
    *value = seen->value[w->monitor];
    return w->on && seen->has[w->monitor];
}

static void callbacks_set_best(struct callbacks_best *best,
                               const struct callbacks_seen *seen, double value)
{
    *best = (struct callbacks_best){true, value, seen->steps, seen->cut};
}

static void judge_early(struct callbacks *c,
                        const struct spec_early_stopping *rule,
                        const struct callbacks_seen *seen)
{
    double value;

    if (!callbacks_watched_value(&rule->watch, seen, &value) ||
        seen->epoch < rule->start_from_epoch)
        return;
    c->early.wait++;
    if (improves(&rule->watch, &c->early.best, value)) {
        callbacks_set_best(&c->early.best, seen, value);
        // Both must be beaten: the baseline, and the best so far.
        if (!rule->has_baseline || better(&rule->watch, value, rule->baseline))
            c->early.wait = 0;
        return;
    }
    if (c->early.wait >= rule->patience)
        c->early.stopped = true;
}

static bool callbacks_reduce_rate(struct callbacks *c,
                                  const struct spec_plateau *rule,
                                  uint64_t next)
{
    double rate = c->plateau.rate;

    if (!(rate > rule->min_rate))
        return false;
    rate = fmax(rate * rule->factor, rule->min_rate);
    c->plateau.rate = rate;
    c->plateau.cooldown = rule->cooldown;
    c->plateau.wait = 0;
    rates_add(&c->rates, next, rate);
    return true;
}

static bool judge_plateau(struct callbacks *c, const struct spec_plateau *rule,
                          const struct callbacks_seen *seen)
{
    double value;

    if (!callbacks_watched_value(&rule->watch, seen, &value))
        return false;
    if (c->plateau.cooldown > 0) {
        c->plateau.cooldown--;
        c->plateau.wait = 0;
    }
    if (improves(&rule->watch, &c->plateau.best, value)) {
        callbacks_set_best(&c->plateau.best, seen, value);
        c->plateau.wait = 0;
        return false;
    }
    if (c->plateau.cooldown > 0)
        return false;
    c->plateau.wait++;
    return c->plateau.wait >= rule->patience &&
           callbacks_reduce_rate(c, rule, seen->next);
}

bool callbacks_judge(struct callbacks *c, const struct spec_callbacks *rule,
                     const struct callbacks_seen *seen)
{
    double value;

    judge_early(c, &rule->early, seen);
    if (callbacks_watched_value(&rule->best, seen, &value) &&
        improves(&rule->best, &c->best, value))
        callbacks_set_best(&c->best, seen, value);
    return judge_plateau(c, &rule->plateau, seen);
}

uint64_t callbacks_restores(const struct callbacks *c,
                            const struct spec_callbacks *rule)
{
    return rule->early.watch.on && rule->early.restores && c->early.best.has
               ? c->early.best.cut
               : 0;
}

bool callbacks_keeps(const struct callbacks *c,
                     const struct spec_callbacks *rule, uint64_t cut)
{
    return callbacks_restores(c, rule) == cut ||
           (rule->best.on && c->best.has && c->best.cut == cut);
}
