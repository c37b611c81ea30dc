// SPDX-License-Identifier: Apache-2.0
// proto/spec_callbacks.c -- the check of a job's callbacks: names and defaults
// of Keras 3, and what cannot work is refused.
#include "proto/spec_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE_MOST 1000000

static const char *const monitors[] = {[SPEC_VAL_LOSS] = "val_loss",
                                       [SPEC_TRAIN_LOSS] = "loss",
                                       [SPEC_TRAIN_ACCURACY] = "accuracy",
#define MONITOR_NAME(code, name)                                               \
    [SPEC_VAL_METRIC + SPEC_METRIC_##code] = "val_" name,
                                       SPEC_METRIC_MAP(MONITOR_NAME)
#undef MONITOR_NAME
};

enum mode { MODE_AUTO, MODE_MIN, MODE_MAX };
static const char *const modes[] = {"auto", "min", "max"};

const char *spec_monitor_name(enum spec_monitor monitor)
{
    return monitors[monitor];
}

static bool is_accuracy(unsigned monitor)
{
    return monitor == SPEC_VAL_ACCURACY || monitor == SPEC_TRAIN_ACCURACY;
}

static bool is_test(unsigned monitor)
{
    return monitor != SPEC_TRAIN_LOSS && monitor != SPEC_TRAIN_ACCURACY;
}

// Where more is better, as Keras' metrics say of themselves (mode: auto).
static bool rises(unsigned monitor)
{
    switch (monitor) {
    case SPEC_TRAIN_ACCURACY:
    case SPEC_VAL_ACCURACY:
    case SPEC_VAL_METRIC + SPEC_METRIC_TOP_K:
    case SPEC_VAL_METRIC + SPEC_METRIC_PRECISION:
    case SPEC_VAL_METRIC + SPEC_METRIC_RECALL:
    case SPEC_VAL_METRIC + SPEC_METRIC_AUC:
        return true;
    default:
        return false;
    }
}

// ---- as plain values

// The words of a checked spec are known.
static struct spec_watch spec_make_watch(const char *monitor, const char *mode,
                                         double min_delta)
{
    unsigned which = SPEC_VAL_LOSS, direction = MODE_AUTO;

    (void)spec_word("", monitor, monitors, SL_COUNT(monitors), &which, NULL);
    (void)spec_word("", mode, modes, SL_COUNT(modes), &direction, NULL);
    return (struct spec_watch){
        .on = true,
        .monitor = (enum spec_monitor)which,
        .larger =
            direction == MODE_MAX || (direction == MODE_AUTO && rises(which)),
        .min_delta = fabs(min_delta), // as Keras does
    };
}

struct spec_callbacks spec_callbacks(const Sluice__V1__JobSpec *spec)
{
    const Sluice__V1__CallbacksSpec *c = spec->callbacks;
    struct spec_callbacks out = {.early = {.patience = 0}};

    if (c != NULL && c->early_stopping != NULL) {
        const Sluice__V1__EarlyStoppingSpec *e = c->early_stopping;

        out.early = (struct spec_early_stopping){
            .watch = spec_make_watch(e->monitor, e->mode, e->min_delta),
            .patience = e->patience,
            .start_from_epoch = e->start_from_epoch,
            .has_baseline = e->has_baseline,
            .restores = e->restore_best_weights,
            .baseline = e->baseline,
        };
    }
    if (c != NULL && c->reduce_on_plateau != NULL) {
        const Sluice__V1__ReduceOnPlateauSpec *r = c->reduce_on_plateau;

        out.plateau = (struct spec_plateau){
            .watch = spec_make_watch(r->monitor, r->mode, r->min_delta),
            .patience = r->patience,
            .cooldown = r->cooldown,
            .factor = r->factor,
            .min_rate = r->min_lr,
        };
    }
    if (c != NULL && c->best_checkpoint != NULL)
        out.best = spec_make_watch(c->best_checkpoint->monitor,
                                   c->best_checkpoint->mode, 0);
    return out;
}

bool spec_callbacks_any(const struct spec_callbacks *c)
{
    return c->early.watch.on || c->plateau.watch.on || c->best.on;
}

bool spec_callbacks_wait(const struct spec_callbacks *c)
{
    return c->early.watch.on || c->plateau.watch.on;
}

// ---- the check

// Evaluations tell what evaluate.metrics names; and accuracy, where the loss
// has one.
static enum sl_err check_metric(const Sluice__V1__JobSpec *spec, const char *at,
                                unsigned monitor, struct sl_error *err)
{
    unsigned m = monitor - SPEC_VAL_METRIC;

    if (monitor < SPEC_VAL_METRIC || monitor == SPEC_VAL_ACCURACY ||
        (spec_metrics(spec) >> m & 1) != 0)
        return SL_OK;
    if ((spec_metrics_offered(spec_loss(spec)) >> m & 1) == 0)
        return sl_fail(err, SL_EINVAL,
                       "%s: there is no '%s' with loss %s; monitor val_loss",
                       at, monitors[monitor], spec_loss_name(spec_loss(spec)));
    return sl_fail(err, SL_EINVAL,
                   "%s: '%s' is not evaluated; say evaluate: {metrics: [%s]}",
                   at, monitors[monitor],
                   spec_metric_name((enum spec_metric)m));
}

// Checks that the monitored value exists: the spec evaluates it, and its loss
// has it. Sets defaults.
static enum sl_err check_monitor(const Sluice__V1__JobSpec *spec,
                                 const char *path, char **monitor, char **mode,
                                 struct sl_error *err)
{
    bool counts = spec_loss_counts(spec_loss(spec));
    unsigned which = SPEC_VAL_LOSS;
    char at[64];
    enum sl_err rc = spec_string(monitor, monitors[SPEC_VAL_LOSS]);

    snprintf(at, sizeof(at), "%s.monitor", path);
    if (rc == SL_OK)
        rc = spec_word(at, *monitor, monitors, SL_COUNT(monitors), &which, err);
    if (rc != SL_OK)
        return rc;
    if (is_test(which) && spec->data->test == NULL)
        return sl_fail(err, SL_EINVAL,
                       "%s: '%s' is of data.test, which is not there; add it, "
                       "or monitor loss",
                       at, *monitor);
    if (is_accuracy(which) && !counts)
        return sl_fail(err, SL_EINVAL,
                       "%s: there is no '%s' with loss %s; monitor %s", at,
                       *monitor, spec_loss_name(spec_loss(spec)),
                       is_test(which) ? "val_loss" : "loss");
    rc = check_metric(spec, at, which, err);
    if (rc != SL_OK)
        return rc;
    rc = spec_string(mode, modes[MODE_AUTO]);
    snprintf(at, sizeof(at), "%s.mode", path);
    if (rc == SL_OK)
        rc = spec_word(at, *mode, modes, SL_COUNT(modes), NULL, err);
    return rc;
}

static enum sl_err check_patience(const char *path, uint32_t patience,
                                  struct sl_error *err)
{
    char at[64];

    snprintf(at, sizeof(at), "%s.patience", path);
    if (patience == 0)
        return sl_fail(err, SL_EINVAL,
                       "%s: must be at least 1: it counts evaluations without "
                       "an improvement",
                       at);
    return spec_range(at, patience, 1, PATIENCE_MOST, err);
}

static enum sl_err check_early(const Sluice__V1__JobSpec *spec,
                               Sluice__V1__EarlyStoppingSpec *e,
                               struct sl_error *err)
{
    const char *path = "callbacks.early_stopping";
    enum sl_err rc = check_monitor(spec, path, &e->monitor, &e->mode, err);

    if (rc != SL_OK)
        return rc;
    SPEC_DEFAULT(e, min_delta, 0);
    SPEC_DEFAULT(e, patience, 1);
    SPEC_DEFAULT(e, restore_best_weights, false);
    SPEC_DEFAULT(e, start_from_epoch, 0);
    rc = check_patience(path, e->patience, err);
    if (rc == SL_OK)
        rc = spec_real("callbacks.early_stopping.min_delta", e->min_delta, 0,
                       INFINITY, SPEC_CLOSED, err);
    if (rc == SL_OK && e->has_baseline && !isfinite(e->baseline))
        rc = sl_fail(err, SL_EINVAL,
                     "callbacks.early_stopping.baseline: wants a number");
    if (rc == SL_OK && e->start_from_epoch >= spec->train->epochs)
        rc = sl_fail(err, SL_EINVAL,
                     "callbacks.early_stopping.start_from_epoch: epochs count "
                     "from 0 here, and there are %u: it would never begin",
                     spec->train->epochs);
    return rc;
}

static enum sl_err check_plateau(const Sluice__V1__JobSpec *spec,
                                 Sluice__V1__ReduceOnPlateauSpec *r,
                                 struct sl_error *err)
{
    const char *path = "callbacks.reduce_on_plateau";
    enum sl_err rc = check_monitor(spec, path, &r->monitor, &r->mode, err);

    if (rc != SL_OK)
        return rc;
    if (spec->optimizer->schedule != NULL)
        return sl_fail(err, SL_EINVAL,
                       "%s: optimizer.schedule sets the learning rate already, "
                       "as in Keras, which refuses this; leave out one of them",
                       path);
    SPEC_DEFAULT(r, factor, 0.1);
    SPEC_DEFAULT(r, patience, 10);
    SPEC_DEFAULT(r, min_delta, 1e-4);
    SPEC_DEFAULT(r, cooldown, 0);
    SPEC_DEFAULT(r, min_lr, 0);
    rc = check_patience(path, r->patience, err);
    if (rc == SL_OK && !(r->factor > 0 && r->factor < 1))
        rc = sl_fail(err, SL_EINVAL,
                     "%s.factor: wants a number above 0 and below 1, got %g: "
                     "the learning rate is multiplied by it",
                     path, r->factor);
    if (rc == SL_OK)
        rc = spec_real("callbacks.reduce_on_plateau.min_delta", r->min_delta, 0,
                       INFINITY, SPEC_CLOSED, err);
    if (rc == SL_OK)
        rc = spec_real("callbacks.reduce_on_plateau.min_lr", r->min_lr, 0,
                       INFINITY, SPEC_CLOSED, err);
    if (rc == SL_OK && r->min_lr >= spec->optimizer->learning_rate)
        rc = sl_fail(err, SL_EINVAL,
                     "%s.min_lr: %g is no less than optimizer.learning_rate "
                     "(%g), so nothing would ever be reduced",
                     path, r->min_lr, spec->optimizer->learning_rate);
    return rc;
}

enum sl_err spec_check_callbacks(Sluice__V1__JobSpec *spec,
                                 struct sl_error *err)
{
    Sluice__V1__CallbacksSpec *c = spec->callbacks;
    enum sl_err rc = SL_OK;

    if (c == NULL)
        return SL_OK;
    if (c->early_stopping == NULL && c->reduce_on_plateau == NULL &&
        c->best_checkpoint == NULL)
        return sl_fail(err, SL_EINVAL,
                       "callbacks: wants early_stopping, reduce_on_plateau or "
                       "best_checkpoint");
    if (spec_external(spec))
        return sl_fail(err, SL_EINVAL,
                       "callbacks: the model is external, so nothing of it is "
                       "evaluated here; its own program can stop the job");
    if (spec->evaluate->every_epochs == 0 && spec->evaluate->every_steps == 0)
        return sl_fail(err, SL_EINVAL,
                       "callbacks: nothing is evaluated; say "
                       "evaluate.every_epochs or evaluate.every_steps");
    if (spec->evaluate->every_epochs > spec->train->epochs)
        return sl_fail(err, SL_EINVAL,
                       "callbacks: nothing is evaluated: every %u epochs, and "
                       "train.epochs is %u",
                       spec->evaluate->every_epochs, spec->train->epochs);
    // All ranks must wait: one that does not sums another round.
    if (spec_allreduce(spec) &&
        (c->early_stopping != NULL || c->reduce_on_plateau != NULL))
        spec_needs(spec, MODEL_EDITION_HOLDS);
    if (c->early_stopping != NULL)
        rc = check_early(spec, c->early_stopping, err);
    if (rc == SL_OK && c->reduce_on_plateau != NULL)
        rc = check_plateau(spec, c->reduce_on_plateau, err);
    if (rc == SL_OK && c->best_checkpoint != NULL)
        rc = check_monitor(spec, "callbacks.best_checkpoint",
                           &c->best_checkpoint->monitor,
                           &c->best_checkpoint->mode, err);
    return rc;
}
