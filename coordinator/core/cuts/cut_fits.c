// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/cut_fits.c -- the comparison of a cut with the job that
// is to start from it.
#include "coordinator/core/cuts/cut_fits.h"
#include "coordinator/core/job.h"

#include <stdio.h>
#include <string.h>

#include "plan/tables.h"
#include "proto/model.h"
#include "proto/spec.h"

typedef unsigned long long ull;

// ---- even

static bool same_epochs(const Sluice__V1__ShardCounts *a,
                        const Sluice__V1__ShardCounts *b)
{
    if (a->n_epochs != b->n_epochs)
        return false;
    for (size_t i = 0; i < a->n_epochs; i++)
        if (a->epochs[i]->epoch != b->epochs[i]->epoch ||
            a->epochs[i]->steps != b->epochs[i]->steps ||
            a->epochs[i]->samples != b->epochs[i]->samples ||
            a->epochs[i]->digest != b->epochs[i]->digest)
            return false;
    return true;
}

// Compares two shards' counts. A step that one shard applied and another
// skipped makes versions differ, and a shard has one.
static bool resume_same_counts(const Sluice__V1__ShardCounts *a,
                               const Sluice__V1__ShardCounts *b)
{
    return a->counted == b->counted && a->low == b->low &&
           a->applied == b->applied && a->skipped == b->skipped &&
           same_epochs(a, b);
}

bool resume_even(Sluice__V1__ShardCounts *const *counts, size_t shards,
                 char apart[RESUME_APART_BYTES])
{
    size_t least = 0, most = 0, other = 0;

    apart[0] = '\0';
    for (size_t i = 1; i < shards; i++) {
        if (counts[i]->counted < counts[least]->counted)
            least = i;
        if (counts[i]->counted > counts[most]->counted)
            most = i;
        if (other == 0 && !resume_same_counts(counts[0], counts[i]))
            other = i;
    }
    if (other == 0)
        return true;
    if (least != most)
        snprintf(apart, RESUME_APART_BYTES,
                 "shard %zu has counted %llu steps, shard %zu %llu", least,
                 (ull)counts[least]->counted, most, (ull)counts[most]->counted);
    else
        snprintf(apart, RESUME_APART_BYTES,
                 "shards 0 and %zu have counted %llu steps each, but other "
                 "steps, or the same steps with other results",
                 other, (ull)counts[0]->counted);
    return false;
}

// ---- the spec

static enum sl_err differs(const char *key, uint64_t now, uint64_t then,
                           struct sl_error *err)
{
    return sl_fail(err, SL_EINVAL,
                   "%s: %llu, but the cut is of a job with %llu; a resumed job "
                   "must have the same steps",
                   key, (ull)now, (ull)then);
}

// Checks that a step has the same samples; the number of micro-batches may
// differ, as it is only how a step is computed.
static enum sl_err check_samples(const Sluice__V1__JobSpec *now,
                                 const Sluice__V1__JobSpec *then,
                                 struct sl_error *err)
{
    bool plain = spec_accumulate(now) == 1 && spec_accumulate(then) == 1;
    uint64_t a = spec_step_samples(now), b = spec_step_samples(then);

    if (a == b)
        return SL_OK;
    return differs(plain ? "train.batch" : "train.batch * train.accumulate", a,
                   b, err);
}

static enum sl_err resume_check_train(const Sluice__V1__TrainSpec *now,
                                      const Sluice__V1__TrainSpec *then,
                                      struct sl_error *err)
{
    if (now->steps_per_closure != then->steps_per_closure)
        return differs("train.steps_per_closure", now->steps_per_closure,
                       then->steps_per_closure, err);
    if (now->seed != then->seed)
        return differs("train.seed", now->seed, then->seed, err);
    if (now->shuffle != then->shuffle)
        return differs("train.shuffle", now->shuffle, then->shuffle, err);
    if (now->epochs < then->epochs)
        return sl_fail(err, SL_EINVAL,
                       "train.epochs: %u, but the cut is of a job with %u; "
                       "more are possible, not fewer",
                       now->epochs, then->epochs);
    return SL_OK;
}

// Checks the optimizers: the slots of a shard go with it, so they must be those
// of the optimizer.
static enum sl_err check_optimizer(const Sluice__V1__OptimizerSpec *now,
                                   const Sluice__V1__OptimizerSpec *then,
                                   struct sl_error *err)
{
    struct spec_optimizer to, from;
    enum sl_err rc = spec_optimizer(&to, now, err);

    if (rc == SL_OK)
        rc = spec_optimizer(&from, then, err);
    if (rc != SL_OK)
        return rc;
    if (to.optim.kind != from.optim.kind)
        return sl_fail(err, SL_EINVAL,
                       "optimizer.type: %s, but the cut is of a job with %s",
                       now->type, then->type);
    if ((to.optim.momentum != 0) != (from.optim.momentum != 0))
        return sl_fail(err, SL_EINVAL,
                       "optimizer.momentum: %g, but the cut is of a job with "
                       "%g, which has other slots",
                       to.optim.momentum, from.optim.momentum);
    if (to.optim.torch_epsilon != from.optim.torch_epsilon)
        return differs("optimizer.torch_epsilon", to.optim.torch_epsilon,
                       from.optim.torch_epsilon, err);
    if (to.optim.torch_momentum != from.optim.torch_momentum)
        return differs("optimizer.torch_momentum", to.optim.torch_momentum,
                       from.optim.torch_momentum, err);
    if ((to.optim.delay > 1) != (from.optim.delay > 1))
        return differs("optimizer.delay", to.optim.delay > 1,
                       from.optim.delay > 1, err);
    if (to.optim.amsgrad != from.optim.amsgrad)
        return differs("optimizer.amsgrad", to.optim.amsgrad,
                       from.optim.amsgrad, err);
    if (to.optim.centered != from.optim.centered)
        return differs("optimizer.centered", to.optim.centered,
                       from.optim.centered, err);
    return SL_OK;
}

// Checks that the tables are those of the cut: their rows go with it, in their
// buckets and with their slots. What admits rows and removes them may differ.
static enum sl_err check_tables(const Sluice__V1__ModelSpec *now,
                                const Sluice__V1__ModelSpec *then,
                                struct sl_error *err)
{
    if (now->n_tables != then->n_tables)
        return sl_fail(err, SL_EINVAL,
                       "model.tables: %zu, but the cut is of a job with %zu",
                       now->n_tables, then->n_tables);
    for (size_t i = 0; i < now->n_tables; i++) {
        const Sluice__V1__TableSpec *a = now->tables[i], *b = then->tables[i];

        if (strcmp(a->name, b->name) != 0)
            return sl_fail(err, SL_EINVAL,
                           "model.tables[%zu] is '%.80s', but '%.80s' in the "
                           "cut",
                           i, a->name, b->name);
        if (a->dim != b->dim || a->buckets != b->buckets ||
            strcmp(a->optimizer->type, b->optimizer->type) != 0)
            return sl_fail(err, SL_EINVAL,
                           "model.tables[%zu] (%.80s): dim %u, buckets %u, "
                           "optimizer %s, but %u, %u, %s in the cut",
                           i, a->name, a->dim, a->buckets, a->optimizer->type,
                           b->dim, b->buckets, b->optimizer->type);
    }
    return SL_OK;
}

enum sl_err resume_check_spec(const struct manifest_found *from,
                              const Sluice__V1__JobSpec *spec,
                              struct sl_error *err)
{
    const Sluice__V1__JobSpec *then = from->spec;
    enum sl_err rc = SL_OK;

    if (strcmp(spec->model->type, then->model->type) != 0)
        rc = sl_fail(err, SL_EINVAL,
                     "model.type: %s, but the cut is of a job with %s",
                     spec->model->type, then->model->type);
    if (rc == SL_OK)
        rc = check_tables(spec->model, then->model, err);
    if (rc == SL_OK)
        rc = check_samples(spec, then, err);
    if (rc == SL_OK)
        rc = resume_check_train(spec->train, then->train, err);
    if (rc == SL_OK)
        rc = check_optimizer(spec_shard_optimizer(spec),
                             spec_shard_optimizer(then), err);
    return rc == SL_OK ? SL_OK
                       : sl_prefix(err, rc, "cannot resume from %s",
                                   from->source->cut->checkpoints[0]->manifest);
}

// ---- the layout

static bool same_variable(const Sluice__V1__Variable *a,
                          const Sluice__V1__Variable *b)
{
    return strcmp(a->name, b->name) == 0 && a->kind == b->kind &&
           a->n_shape == b->n_shape &&
           (a->n_shape == 0 ||
            memcmp(a->shape, b->shape, a->n_shape * sizeof(a->shape[0])) == 0);
}

static void resume_shape_text(char out[MODEL_SHAPE_TEXT],
                              const Sluice__V1__Variable *v)
{
    struct model_shape shape = {.rank = (uint32_t)v->n_shape};

    if (v->n_shape > MODEL_RANK_MAX)
        shape.rank = MODEL_RANK_MAX;
    for (uint32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = v->shape[i];
    (void)model_shape_text(out, &shape);
}

#define SHOWN 80 // of a name

// Returns where to begin in two long names, so that their difference is shown.
static size_t shown_from(const char *a, const char *b)
{
    size_t same = 0;

    while (a[same] != '\0' && a[same] == b[same])
        same++;
    return same < SHOWN ? 0 : same - SHOWN / 2;
}

static enum sl_err other_name(size_t i, const char *now, const char *then,
                              struct sl_error *err)
{
    size_t from = shown_from(now, then);
    const char *cut = from > 0 ? "..." : "";

    return sl_fail(err, SL_EINVAL,
                   "model: variable %zu is '%s%.*s', but '%s%.*s' in the cut",
                   i, cut, SHOWN, now + from, cut, SHOWN, then + from);
}

static enum sl_err other_variable(size_t i, const Sluice__V1__Variable *now,
                                  const Sluice__V1__Variable *then,
                                  struct sl_error *err)
{
    char a[MODEL_SHAPE_TEXT], b[MODEL_SHAPE_TEXT];

    if (strcmp(now->name, then->name) != 0)
        return other_name(i, now->name, then->name, err);
    resume_shape_text(a, now);
    resume_shape_text(b, then);
    if (now->kind != then->kind)
        return sl_fail(err, SL_EINVAL,
                       "model: only one of the model and the cut trains "
                       "variable %zu, '%.80s'",
                       i, now->name);
    return sl_fail(err, SL_EINVAL,
                   "model: variable %zu, '%.80s', has the shape %s, but %s in "
                   "the cut",
                   i, now->name, a, b);
}

static enum sl_err check_variables(const Sluice__V1__CheckpointsReply *now,
                                   const Sluice__V1__CheckpointsReply *then,
                                   struct sl_error *err)
{
    size_t both = now->n_variables < then->n_variables ? now->n_variables
                                                       : then->n_variables;

    for (size_t i = 0; i < both; i++)
        if (!same_variable(now->variables[i], then->variables[i]))
            return other_variable(i, now->variables[i], then->variables[i],
                                  err);
    if (now->n_variables != then->n_variables)
        return sl_fail(err, SL_EINVAL,
                       "model: it has %zu variables, the cut %zu",
                       now->n_variables, then->n_variables);
    return SL_OK;
}

bool resume_same_shards(const Sluice__V1__ResumeSource *from,
                        const Sluice__V1__CheckpointsReply *now)
{
    const Sluice__V1__CheckpointsReply *then = from->cut;

    if (now->n_pieces != then->n_pieces ||
        now->rows_shards != then->rows_shards)
        return false;
    for (size_t i = 0; i < now->n_pieces; i++) {
        const Sluice__V1__Piece *a = now->pieces[i], *b = then->pieces[i];

        if (a->variable != b->variable || a->first_row != b->first_row ||
            a->rows != b->rows || a->shard != b->shard)
            return false;
    }
    return true;
}

static unsigned psservers_of(const Sluice__V1__Checkpoint *cut)
{
    unsigned count = 0;

    for (size_t i = 0; i < cut->n_shards; i++) {
        size_t before = 0;

        while (before < i && strcmp(cut->shards[before]->psserver,
                                    cut->shards[i]->psserver) != 0)
            before++;
        count += before == i;
    }
    return count;
}

enum sl_err resume_fits(const Sluice__V1__ResumeSource *from,
                        const Sluice__V1__CheckpointsReply *layout,
                        uint64_t samples, struct sl_error *err)
{
    const Sluice__V1__Checkpoint *cut = from->cut->checkpoints[0];
    unsigned psservers = psservers_of(cut);
    enum sl_err rc = check_variables(layout, from->cut, err);

    if (rc != SL_OK)
        return rc;
    if (samples != 0 && samples != from->geometry->samples)
        return differs("data.train: samples", samples, from->geometry->samples,
                       err);
    if (from->even || resume_same_shards(from, layout))
        return SL_OK;
    return sl_fail(err, SL_ESTATE,
                   "cut %llu of job j-%llu is uneven: %s. Its rows would move "
                   "to other shards than its %zu, where they cannot share a "
                   "counted set. Place it as it was: --set "
                   "placement.psservers=%u, with so many attached",
                   (ull)cut->cut, (ull)from->cut->job, from->apart,
                   cut->n_shards, psservers);
}

// ---- which files

// A walk over the pieces of a layout. Both lists lie in model order and have
// every element once.
struct piece_walk {
    const Sluice__V1__CheckpointsReply *layout;
    size_t piece;
    uint64_t end; // of the piece, in the flat vector
};

static const Sluice__V1__Piece *resume_walk_piece(const struct piece_walk *w)
{
    return w->layout->pieces[w->piece];
}

static bool resume_walk_next(struct piece_walk *w)
{
    if (++w->piece == w->layout->n_pieces)
        return false;
    w->end += resume_walk_piece(w)->elements;
    return true;
}

void resume_needs(const Sluice__V1__ResumeSource *from,
                  const Sluice__V1__CheckpointsReply *layout, uint32_t shard,
                  bool *needed)
{
    struct piece_walk now = {layout, 0, 0}, then = {from->cut, 0, 0};
    bool more = layout->n_pieces > 0; // both, or neither

    memset(needed, 0, from->cut->checkpoints[0]->n_shards * sizeof(*needed));
    if (more) {
        now.end = resume_walk_piece(&now)->elements;
        then.end = resume_walk_piece(&then)->elements;
    }
    while (more) { // both pieces have an element in common
        if (resume_walk_piece(&now)->shard == shard)
            needed[resume_walk_piece(&then)->shard] = true;
        if (now.end < then.end) {
            more = resume_walk_next(&now);
        } else if (now.end > then.end) {
            more = resume_walk_next(&then);
        } else {
            more = resume_walk_next(&now);
            more = resume_walk_next(&then) && more;
        }
    }
}

void resume_needs_rows(const Sluice__V1__ResumeSource *from,
                       const Sluice__V1__ModelSpec *model, uint32_t shard,
                       uint32_t shards, bool *needed)
{
    uint32_t shards_then = (uint32_t)from->cut->checkpoints[0]->n_shards;

    // Of a ring its parts come first, which have none.
    if (from->cut->n_pieces > 0 && from->cut->rows_shards > 0) {
        needed += shards_then - from->cut->rows_shards;
        shards_then = from->cut->rows_shards;
    }
    for (size_t i = 0; i < model->n_tables; i++) {
        uint32_t buckets = model->tables[i]->buckets;
        uint32_t first = table_first(shard, buckets, shards);
        uint32_t end = table_first(shard + 1, buckets, shards);

        if (first == end)
            continue;
        for (uint32_t i_then = table_shard(first, buckets, shards_then);
             i_then <= table_shard(end - 1, buckets, shards_then); i_then++)
            needed[i_then] = true;
    }
}
