// SPDX-License-Identifier: Apache-2.0
// client/show/summary.c -- the sums over a job's shards, and the judgement
// whether each step counted once.
#include "client/show/summary.h"

#include <math.h>
#include <string.h>

#include "client/cli/out.h"
#include "client/show/progress.h"
#include "client/show/shards.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "plan/schedule.h"
#include "proto/spec.h"
#include "proto/wire.h"

typedef Sluice__V1__JobStatus job_status;
typedef Sluice__V1__ShardCounts shard_counts;

// ---- the checks

// Returns true if a callback ended the job: not all steps were to be counted.
static bool stopped_early(const job_status *s)
{
    return s->callbacks != NULL && s->callbacks->stopped;
}

bool summary_once(const job_status *s)
{
    uint64_t asked = stopped_early(s) ? s->steps_counted : s->steps_asked;

    for (size_t i = 0; i < s->n_shards; i++) {
        const shard_counts *c = s->shards[i]->counts;

        if (c == NULL || c->counted != asked ||
            c->applied + c->skipped != c->counted)
            return false;
    }
    return s->n_shards > 0 && s->steps_counted == asked;
}

static bool covers(const job_status *s, const shard_counts *c,
                   const uint64_t *digests, uint64_t epochs)
{
    if (c == NULL || c->n_epochs < epochs)
        return false;
    for (size_t i = 0; i < epochs; i++) {
        const Sluice__V1__EpochCount *e = c->epochs[i];

        if (e->epoch != i || e->samples != s->samples_per_epoch ||
            e->digest != digests[i])
            return false;
    }
    return true;
}

static bool summary_schedule(struct schedule *out, const job_status *s)
{
    if (s->geometry == NULL)
        return false;
    *out = wire_schedule(s->geometry);
    return schedule_check(out, NULL) == SL_OK;
}

bool summary_cover(const job_status *s)
{
    struct schedule schedule;
    uint64_t *digests, epochs;
    bool ok = s->n_shards > 0 && s->epochs > 0;

    if (!ok || !summary_schedule(&schedule, s) ||
        schedule.samples != s->samples_per_epoch)
        return false;
    digests = sl_malloc_array(s->epochs, sizeof(*digests));
    if (digests == NULL)
        return false;
    for (uint32_t e = 0; e < s->epochs; e++)
        digests[e] = schedule_epoch_digest(&schedule, e);
    // The epoch in which a callback ended the job may be incomplete.
    epochs = stopped_early(s)
                 ? s->steps_counted / schedule_steps_per_epoch(&schedule)
                 : s->epochs;
    for (size_t i = 0; ok && i < s->n_shards; i++)
        ok = covers(s, s->shards[i]->counts, digests, epochs);
    sl_free(digests);
    return ok;
}

uint64_t summary_samples(const job_status *s, uint32_t epoch)
{
    uint64_t lowest = UINT64_MAX;

    for (size_t i = 0; i < s->n_shards; i++) {
        const shard_counts *c = s->shards[i]->counts;
        uint64_t samples = 0;

        for (size_t k = 0; c != NULL && k < c->n_epochs; k++)
            if (c->epochs[k]->epoch == epoch)
                samples = c->epochs[k]->samples;
        if (samples < lowest)
            lowest = samples;
    }
    return s->n_shards > 0 ? lowest : 0;
}

static uint64_t all_samples(const job_status *s)
{
    uint64_t sum = 0;

    for (uint32_t e = 0; e < s->epochs; e++)
        sum += summary_samples(s, e);
    return sum;
}

// What a resumed job found done was done in another time.
static uint64_t found_samples(const job_status *s)
{
    struct schedule schedule;

    return summary_schedule(&schedule, s)
               ? schedule_samples(&schedule, s->resumed_steps)
               : 0;
}

double summary_rate(const job_status *s)
{
    uint64_t all = all_samples(s), found = found_samples(s);

    double seconds = s->elapsed_seconds - s->paused_seconds;

    return seconds > 0 && all > found ? (double)(all - found) / seconds : 0;
}

// ---- as JSON

// A number that JSON can hold: what is not finite is null.
static json_t *summary_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *unsigned_number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

// Appends to *list, and takes the value. Without memory *list becomes NULL,
// which no summary takes.
static void summary_append(json_t **list, json_t *value)
{
    if (json_array_append_new(*list, value) == 0)
        return;
    json_decref(*list);
    *list = NULL;
}

static json_t *evaluations(const job_status *s, bool accuracy)
{
    json_t *list = json_array();

    for (size_t i = 0; i < s->n_evaluations; i++) {
        const Sluice__V1__Evaluation *e = s->evaluations[i];

        summary_append(&list, summary_number(accuracy ? WIRE_KNOWN(e, accuracy)
                                                      : WIRE_KNOWN(e, loss)));
    }
    return list;
}

static json_t *metric(const Sluice__V1__Evaluation *e, const char *name)
{
    for (size_t i = 0; i < e->n_metrics; i++)
        if (strcmp(e->metrics[i]->name, name) == 0)
            return summary_number(WIRE_KNOWN(e->metrics[i], value));
    return json_null();
}

// {"auc": [0.91, null, 0.94]}: by name, one of each evaluation, null where it
// has none.
static json_t *summary_metrics(const job_status *s)
{
    const Sluice__V1__EvaluateSpec *spec =
        s->spec == NULL ? NULL : s->spec->evaluate;
    json_t *all = json_object();

    for (size_t k = 0; spec != NULL && k < spec->n_metrics; k++) {
        json_t *list = json_array();

        for (size_t i = 0; i < s->n_evaluations; i++)
            summary_append(&list, metric(s->evaluations[i], spec->metrics[k]));
        if (json_object_set_new(all, spec->metrics[k], list) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static json_t *summary_texts(char *const *texts, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        summary_append(&list, json_string(texts[i]));
    return list;
}

static json_t *epoch_samples(const job_status *s)
{
    json_t *list = json_array();

    for (uint32_t e = 0; e < s->epochs; e++)
        summary_append(&list, unsigned_number(summary_samples(s, e)));
    return list;
}

struct summary_member {
    const char *key;
    json_t *value; // given away
};

// Adds members to an object, and takes every value, also after a failure.
static enum sl_err
summary_add(json_t *object, const struct summary_member *members, size_t count)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; i < count; i++)
        if (json_object_set_new(object, members[i].key, members[i].value) != 0)
            rc = SL_ENOMEM;
    return rc;
}

static enum sl_err summary_add_job(json_t *object, const job_status *s)
{
    const struct summary_member members[] = {
        {"schema_version", json_integer(SUMMARY_SCHEMA_VERSION)},
        {"job", json_string(s->id)},
        {"name", json_string(s->name)},
        {"state", json_string(progress_word(s))},
        {"reason", json_string(s->reason)},
        {"warnings", summary_texts(s->warnings, s->n_warnings)},
        {"bad_samples", unsigned_number(s->bad_samples)},
        {"bad_names", summary_texts(s->bad_names, s->n_bad_names)},
        {"test_accuracy",
         progress_has_accuracy(s) ? evaluations(s, true) : json_array()},
        {"test_loss", evaluations(s, false)},
        {"test_metrics", summary_metrics(s)},
    };

    return summary_add(object, members, SL_COUNT(members));
}

static enum sl_err summary_add_progress(json_t *object, const job_status *s)
{
    const struct summary_member members[] = {
        {"images_per_second", summary_number(summary_rate(s))},
        {"elapsed_seconds", summary_number(s->elapsed_seconds)},
        {"paused_seconds", summary_number(s->paused_seconds)},
        {"steps_asked", unsigned_number(s->steps_asked)},
        {"steps_counted", unsigned_number(s->steps_counted)},
        {"resumed_from", json_string(s->resumed_from)},
        {"weights", json_string(s->weights)},
        {"table_weights", summary_texts(s->table_weights, s->n_table_weights)},
        {"resumed_steps", unsigned_number(s->resumed_steps)},
        {"epochs", unsigned_number(s->epochs)},
        {"training_loss", summary_number(WIRE_KNOWN(s, loss))},
        {"samples_per_epoch", unsigned_number(s->samples_per_epoch)},
        {"samples_counted", epoch_samples(s)},
    };

    return summary_add(object, members, SL_COUNT(members));
}

static enum sl_err summary_add_counts(json_t *object, const job_status *s)
{
    const struct summary_member members[] = {
        {"updates_applied", unsigned_number(s->updates_applied)},
        {"updates_skipped", unsigned_number(s->updates_skipped)},
        {"loss_scale",
         summary_number(s->loss_scale > 0 ? s->loss_scale : (double)NAN)},
        {"updates_refused", unsigned_number(s->updates_refused)},
        {"updates_stale", unsigned_number(s->updates_stale)},
        {"updates_late", unsigned_number(s->updates_late)},
        {"ring_generation", unsigned_number(s->ring_generation)},
        {"steps_redone", unsigned_number(s->steps_redone)},
        {"sum_wait_ms", summary_number(s->sum_wait_ms)},
        {"sum_bytes", unsigned_number(s->sum_bytes)},
        {"duplicates", unsigned_number(s->duplicates)},
        {"closures_retried", unsigned_number(s->closures_retried)},
        {"workers_lost", unsigned_number(s->workers_lost)},
        {"psservers_lost", unsigned_number(s->psservers_lost)},
        {"coordinator_restarts", unsigned_number(s->coordinator_restarts)},
        {"checkpoint", json_string(s->checkpoint)},
        {"once", json_boolean(summary_once(s))},
        {"cover", json_boolean(summary_cover(s))},
        // Old names of samples_per_epoch and workers_lost, kept in version 0.1.
        {"samples", unsigned_number(s->samples_per_epoch)},
        {"workers_killed", unsigned_number(s->workers_lost)},
    };

    return summary_add(object, members, SL_COUNT(members));
}

enum sl_err summary_json(json_t **out, const job_status *s)
{
    json_t *object = json_object();
    enum sl_err rc = object != NULL ? SL_OK : SL_ENOMEM;

    if (rc == SL_OK)
        rc = summary_add_job(object, s);
    if (rc == SL_OK)
        rc = summary_add_progress(object, s);
    if (rc == SL_OK)
        rc = summary_add_counts(object, s);
    if (rc == SL_OK)
        *out = object;
    else
        json_decref(object);
    return rc;
}

// ---- as text

#define LAST 5 // evaluations that are shown, and the best of all

static void row(struct table *t, const char *key, uint64_t value)
{
    char text[OUT_NUMBER];

    table_cell(t, "  %s", key);
    table_cell(t, "%s", out_count(text, value));
}

// What a limit on the delay of updates costs. Of n workers with a gradient each
// under way an update has a delay of n - 1, so of those about 1 - limit / n are
// computed in vain.
static void delay_rows(struct table *t, const job_status *s)
{
    uint32_t limit = s->spec != NULL && s->spec->train != NULL
                         ? s->spec->train->max_delay
                         : 0;

    if (limit == 0)
        return;
    table_cell(t, "  limit of delay");
    if (limit < s->workers)
        table_cell(t,
                   "%u, and %u workers: raise train.max_delay to %u, or %u "
                   "%% of the gradients are computed in vain",
                   limit, s->workers, s->workers,
                   100 - 100 * limit / s->workers);
    else
        table_cell(t, "%u", limit);
    row(t, "refused for it", s->updates_stale);
    row(t, "applied over it", s->updates_late);
}

static void ring_rows(struct table *t, const job_status *s)
{
    if (s->ring_generation == 0)
        return;
    if (s->ring_ranks > 0) {
        table_cell(t, "  ring");
        table_cell(t, "%u rank%s", s->ring_ranks,
                   s->ring_ranks == 1 ? "" : "s");
    }
    row(t, "generations", s->ring_generation);
    row(t, "steps done again", s->steps_redone);
}

// Of each round, or step of a group.
static void summary_sum_rows(struct table *t, const job_status *s)
{
    char text[OUT_NUMBER];

    if (s->round_slots > 0) {
        table_cell(t, "  round");
        table_cell(t, "%u of %u contributions have arrived", s->round_held,
                   s->round_slots);
    }
    if (s->audit != NULL) {
        table_cell(t, "  audits");
        table_cell(t,
                   "%llu contributions compared, %llu differed, %llu decided",
                   (unsigned long long)s->audit->compared,
                   (unsigned long long)s->audit->differed,
                   (unsigned long long)s->audit->decided);
    }
    if (s->sum_wait_ms > 0) {
        table_cell(t, "  waits for the slowest");
        table_cell(t, "%.1f ms each time", s->sum_wait_ms);
    }
    if (s->sum_bytes > 0) {
        table_cell(t, "  sent to other hosts");
        table_cell(t, "%s each time", out_bytes(text, s->sum_bytes));
    }
}

// "w-0: 100 steps, loss 0.31, norm 2.4, 35 degrees from the mean; 1 set aside"
static void contributor_row(struct table *t, const Sluice__V1__Contributor *w)
{
    char loss[OUT_NUMBER];
    struct buf more = BUF_INIT;

    if (w->norm < 0)
        (void)buf_appendf(&more, ", not finite");
    else if (w->contributions > 0)
        (void)buf_appendf(&more, ", norm %.4g", w->norm);
    if (w->known_angle_case != 0)
        (void)buf_appendf(&more, ", %.0f degrees from the mean", w->angle);
    if (w->set_aside > 0)
        (void)buf_appendf(&more, "; %llu set aside, %llu of them wrong",
                          (unsigned long long)w->set_aside,
                          (unsigned long long)w->wrong);
    out_mean(loss, WIRE_KNOWN(w, loss));
    table_cell(t, "  %s", w->worker);
    if (w->steps > 0)
        table_cell(t, "%u steps, loss %s%s", w->steps, loss, buf_text(&more));
    else
        table_cell(t, "loss %s%s", loss, buf_text(&more));
    buf_release(&more);
}

// What was contributed in mode local.
static void contribution_rows(struct table *t, const Sluice__V1__LocalStatus *l)
{
    char up[OUT_NUMBER], down[OUT_NUMBER], above[32] = "";

    if (l == NULL)
        return;
    table_cell(t, "  bytes of a sample");
    table_cell(t, "%s up, %s down", out_bytes(up, (uint64_t)l->pushed_bytes),
               out_bytes(down, (uint64_t)l->pulled_bytes));
    if (l->norm > 0) {
        table_cell(t, "  contributions");
        if (l->norm_most > 0)
            snprintf(above, sizeof(above), "above %.4g ", l->norm_most);
        table_cell(t, "norm %.4g; %sset aside: %llu", l->norm, above,
                   (unsigned long long)l->set_aside);
    }
    if (l->known_moments_case != 0) {
        table_cell(t, "  moments");
        table_cell(t, "kept; contributions since: %llu",
                   (unsigned long long)l->moments_age);
    }
    for (size_t i = 0; i < l->n_workers; i++)
        contributor_row(t, l->workers[i]);
}

// Tells how old contributions are, over all shards and so all fragments, where
// they are merged as they come.
static void age_row(struct table *t, const job_status *s)
{
    uint64_t sums[WIRE_STALENESS_BUCKETS] = {0};
    Sluice__V1__ShardCounts all = SLUICE__V1__SHARD_COUNTS__INIT;

    if (s->spec == NULL || !spec_local(s->spec) || !spec_open(s->spec->train))
        return;
    for (size_t i = 0; i < s->n_shards; i++) {
        const Sluice__V1__ShardCounts *c = s->shards[i]->counts;

        for (size_t b = 0; c != NULL && b < c->n_staleness; b++)
            sums[sl_min(b, WIRE_STALENESS_BUCKETS - 1)] += c->staleness[b];
    }
    all.staleness = sums;
    all.n_staleness = WIRE_STALENESS_BUCKETS;
    table_cell(t, "  age of what is merged");
    table_cell(t, "half up to %s, all up to %s updates", shards_median(&all),
               shards_most(&all));
}

// "3: 2 + 2 + 1 workers"
static void group_rows(struct table *t, const job_status *s)
{
    struct buf sizes = {.data = NULL};

    for (size_t i = 0; i < s->n_groups; i++)
        (void)buf_appendf(&sizes, "%s%zu", i == 0 ? "" : " + ",
                          s->groups[i]->n_members);
    if (s->n_groups > 0) {
        table_cell(t, "  groups");
        table_cell(t, "%zu: %s workers", s->n_groups, buf_text(&sizes));
    }
    buf_release(&sizes);
}

static void callback_row(struct table *t, const job_status *s, const char *name,
                         const Sluice__V1__CallbackStatus *m, bool waits)
{
    char steps[OUT_NUMBER];

    if (m == NULL || m->monitor[0] == '\0')
        return;
    table_cell(t, "  %s", name);
    if (!m->has_best)
        table_cell(t, "%s, %s", m->monitor,
                   s->n_evaluations > 0 ? "not finite so far"
                                        : "not evaluated yet");
    else if (waits)
        table_cell(t,
                   "best %s %.6g after step %s (cut %llu); %u without "
                   "an improvement",
                   m->monitor, m->best, out_count(steps, m->best_steps),
                   (unsigned long long)m->best_cut, m->wait);
    else
        table_cell(t, "%s %.6g after step %s (cut %llu)", m->monitor, m->best,
                   out_count(steps, m->best_steps),
                   (unsigned long long)m->best_cut);
}

static void callback_rows(struct table *t, const job_status *s)
{
    const Sluice__V1__CallbacksStatus *c = s->callbacks;

    if (c == NULL)
        return;
    callback_row(t, s, "early stopping", c->early_stopping, true);
    callback_row(t, s, "plateau", c->reduce_on_plateau, true);
    callback_row(t, s, "best checkpoint", c->best_checkpoint, false);
    if (c->learning_rate > 0) {
        table_cell(t, "  learning rate");
        table_cell(t, "%g, reduced %zu time%s", c->learning_rate, c->n_rates,
                   c->n_rates == 1 ? "" : "s");
    }
    if (c->restored > 0) {
        table_cell(t, "  restored");
        table_cell(t, "cut %llu, the best of early_stopping",
                   (unsigned long long)c->restored);
    }
}

static void evaluation_cell(struct table *t, const job_status *s,
                            const Sluice__V1__Evaluation *e)
{
    char accuracy[OUT_NUMBER], loss[OUT_NUMBER];
    struct buf more = BUF_INIT;

    (void)progress_metrics(&more, e);
    out_mean(accuracy, WIRE_KNOWN(e, accuracy));
    out_mean(loss, WIRE_KNOWN(e, loss));
    if (progress_has_accuracy(s))
        table_cell(t, "accuracy %s, loss %s%s", accuracy, loss,
                   buf_text(&more));
    else
        table_cell(t, "loss %s%s", loss, buf_text(&more));
    buf_release(&more);
}

static void evaluation_row(struct table *t, const job_status *s, size_t i,
                           bool best)
{
    const Sluice__V1__Evaluation *e = s->evaluations[i];
    struct buf of = BUF_INIT;
    char value[OUT_NUMBER];

    (void)progress_evaluated(&of, s, e);
    table_cell(t, "  %s%s, %s", best ? "best " : "",
               e->samples > 0 || e->failed ? "test" : "trained", buf_text(&of));
    if (e->failed)
        table_cell(t, "failed");
    else if (e->samples == 0)
        table_cell(t, "loss %s", out_mean(value, WIRE_KNOWN(e, train_loss)));
    else
        evaluation_cell(t, s, e);
    buf_release(&of);
}

// Returns true if evaluation `a` is better than `b`: by accuracy where the loss
// has one, else by loss. NULL is the worst.
static bool is_better(const job_status *s, const Sluice__V1__Evaluation *a,
                      const Sluice__V1__Evaluation *b)
{
    if (a->failed || a->samples == 0 || !isfinite(WIRE_KNOWN(a, loss)))
        return false;
    if (b == NULL)
        return true;
    return progress_has_accuracy(s)
               ? WIRE_KNOWN(a, accuracy) > WIRE_KNOWN(b, accuracy)
               : WIRE_KNOWN(a, loss) < WIRE_KNOWN(b, loss);
}

// Adds the last evaluations to the table; where there are more, the best one
// before them.
static void evaluation_rows(struct table *t, const job_status *s)
{
    size_t n = s->n_evaluations, first = n > LAST ? n - LAST : 0, best = n;

    for (size_t i = 0; first > 0 && i < n; i++)
        if (is_better(s, s->evaluations[i],
                      best < n ? s->evaluations[best] : NULL))
            best = i;
    if (best < n)
        evaluation_row(t, s, best, true);
    for (size_t i = first; i < n; i++)
        evaluation_row(t, s, i, false);
    if (first > 0) {
        table_cell(t, "  evaluations");
        table_cell(t, "%zu, the last %d are shown; -o json has all", n, LAST);
    }
}

static void count_rows(struct table *t, const job_status *s)
{
    char a[OUT_NUMBER], b[OUT_NUMBER];

    table_cell(t, "  steps counted");
    table_cell(t, "%s of %s asked", out_count(a, s->steps_counted),
               out_count(b, s->steps_asked));
    if (s->resumed_from[0] != '\0') {
        table_cell(t, "  found counted");
        table_cell(t, "%s, resumed from %s", out_count(a, s->resumed_steps),
                   s->resumed_from);
    }
    if (s->weights[0] != '\0') {
        table_cell(t, "  started with");
        table_cell(t, "%s", s->weights);
    }
    for (size_t i = 0; i < s->n_table_weights; i++) {
        table_cell(t, "  started with");
        table_cell(t, "%s", s->table_weights[i]);
    }
    table_cell(t, "  epochs");
    table_cell(t, "%u of %s samples", s->epochs,
               out_count(a, s->samples_per_epoch));
    if (s->steps_counted > 0) {
        table_cell(t, "  training loss");
        table_cell(t, "%s", out_mean(a, WIRE_KNOWN(s, loss)));
    }
    if (s->rows > 0) {
        table_cell(t, "  rows of tables");
        table_cell(t, "%s, %s of memory", out_count(a, s->rows),
                   out_bytes(b, s->rows_bytes));
    }
    table_cell(t, "  samples per second");
    table_cell(t, "%s", out_count(a, (uint64_t)summary_rate(s)));
    table_cell(t, "  time");
    if (s->paused_seconds > 0)
        table_cell(t, "%s, %s of it paused", out_time(a, s->elapsed_seconds),
                   out_time(b, s->paused_seconds));
    else
        table_cell(t, "%s", out_time(a, s->elapsed_seconds));
    row(t, "updates applied", s->updates_applied);
    row(t, "updates skipped", s->updates_skipped);
    if (s->loss_scale > 0)
        row(t, "loss scale", (uint64_t)s->loss_scale);
    row(t, "updates refused", s->updates_refused);
    delay_rows(t, s);
    ring_rows(t, s);
    group_rows(t, s);
    summary_sum_rows(t, s);
    contribution_rows(t, s->local);
    age_row(t, s);
    row(t, "duplicates ignored", s->duplicates);
    row(t, "closures retried", s->closures_retried);
    row(t, "workers lost", s->workers_lost);
    if (s->psservers_lost > 0)
        row(t, "psservers lost", s->psservers_lost);
    if (s->coordinator_restarts > 0)
        row(t, "coordinator restarts", s->coordinator_restarts);
    table_cell(t, "  checkpoint");
    table_cell(t, "%s", s->checkpoint[0] != '\0' ? s->checkpoint : "none");
}

static void summary_check_rows(struct table *t, const job_status *s)
{
    table_cell(t, "  each step counted once");
    table_cell(t, "%s", summary_once(s) ? "yes, on every shard" : "NO");
    table_cell(t, "  each sample once per epoch");
    table_cell(t, "%s", summary_cover(s) ? "yes, on every shard" : "NO");
}

enum sl_err summary_text(struct buf *out, const job_status *s)
{
    struct table t;
    char head[128];
    const char *names[] = {head, progress_word(s), NULL};
    enum sl_err rc;

    snprintf(head, sizeof(head), "%s %s", s->id, s->name);
    table_init(&t, 0, names);
    t.states = 1u << 1; // the job's is a head
    if (s->reason[0] != '\0') {
        table_cell(&t, "  reason");
        table_cell(&t, "%s", s->reason);
    }
    if (s->priority != 0) {
        table_cell(&t, "  priority");
        table_cell(&t, "%d", (int)s->priority);
    }
    for (size_t i = 0; i < s->n_warnings; i++) {
        table_cell(&t, "  warning");
        table_cell(&t, "%s", s->warnings[i]);
    }
    callback_rows(&t, s);
    evaluation_rows(&t, s);
    count_rows(&t, s);
    // Of a job that did not get to its end they would say nothing.
    if (s->state == SLUICE__V1__JOB_STATE__JOB_FINISHED)
        summary_check_rows(&t, s);
    rc = table_text(out, &t);
    table_release(&t);
    return rc;
}
