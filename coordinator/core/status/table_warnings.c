// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status/table_warnings.c -- see table_warnings.h.
#include "coordinator/core/status/table_warnings.h"

#include <stdio.h>

#include "common/base/mem.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/shards/shard_rows.h"

#define LOOK_MS 60000
#define AGAIN_MS 3600000
#define TEXT 512             // of a warning, as of jobs_warn
#define GRADIENTS_LEAST 1000 // of a look: fewer say little about the data

// The table with the largest number `n` of rows or gradients to warn about, out
// of `of`, and how many other tables have such a number.
struct worst {
    const Sluice__V1__TableSpec *table; // NULL: there is none
    uint64_t n, of;
    unsigned others;
};

// Returns what all shards have done to a table since they were loaded.
static struct table_done table_done_by_now(const struct job *job,
                                           uint32_t table)
{
    struct table_done sum = {0};

    for (uint32_t i = 0; i < job->shards.count; i++) {
        const struct shard_rows *r = &job->shards.list[i].rows;
        const Sluice__V1__TableFigures *f;

        if (table >= r->count || !r->table[table].known)
            continue;
        f = &r->table[table].figures;
        sum.evicted += f->evicted_full;
        sum.gradients += f->gradients;
        sum.unadmitted += f->unadmitted;
        sum.shards++;
    }
    return sum;
}

static void worst_take(struct worst *w, const Sluice__V1__TableSpec *table,
                       uint64_t n, uint64_t of)
{
    w->others += w->table != NULL;
    if (w->table != NULL && n <= w->n)
        return;
    w->table = table;
    w->n = n;
    w->of = of;
}

static const char *worst_others(char out[40], const struct worst *w)
{
    out[0] = '\0';
    if (w->others > 0)
        snprintf(out, 40, " (%u more likewise)", w->others);
    return out;
}

static void full_format(char out[TEXT], const struct worst *w)
{
    char more[40];

    snprintf(out, TEXT,
             "table %.60s is full: %llu rows gave their place to new ones in "
             "a minute%s; if ids come again after they went, raise "
             "evict.max_rows (%llu)",
             w->table->name, (ull)w->n, worst_others(more, w),
             (ull)w->table->evict->max_rows);
}

static void unadmitted_format(char out[TEXT], const struct worst *w)
{
    char more[40];

    snprintf(out, TEXT,
             "table %.60s: %llu of %llu gradients changed no row in a minute, "
             "as their ids were not admitted%s; if they should be learned, "
             "change admit (min_count %u, probability %g)",
             w->table->name, (ull)w->n, (ull)w->of, worst_others(more, w),
             w->table->admit->min_count, w->table->admit->probability);
}

// Warns of the worst table, if there is one; tells of it unless that was done
// within the last hour.
static void table_warn(struct coord *c, struct job *job, enum job_warning kind,
                       enum event_kind event, uint64_t *told_ms,
                       const struct worst *w,
                       void (*format)(char out[TEXT], const struct worst *w))
{
    uint64_t now = coord_now(c);
    bool recent = *told_ms != 0 && now - *told_ms < AGAIN_MS;
    char text[TEXT];

    if (w->table == NULL) {
        jobs_unwarn(job, kind);
        return;
    }
    // A table that stays full has other numbers at each look: one line of the
    // log an hour, too, and the warning keeps the numbers of that.
    if (recent && job->warnings[kind] != NULL)
        return;
    format(text, w);
    jobs_warn(job, kind, "%s", text);
    if (recent)
        return;
    *told_ms = now;
    happened_job(c, event, job, NULL, "%s", text);
}

// Counts of a shard that was loaded anew begin with 0: less than before tells
// nothing. Nor does a shard that reports for the first time, such as all of
// them behind a restart of the coordinator. Most of the first gradients have
// new ids.
static void table_look(struct worst *full, struct worst *unadmitted,
                       const Sluice__V1__TableSpec *table,
                       const struct table_done *was,
                       const struct table_done *is)
{
    bool admits = table->admit->min_count > 1 || table->admit->probability < 1;
    uint64_t came, left;

    if (is->shards != was->shards || is->gradients < was->gradients ||
        is->evicted < was->evicted || is->unadmitted < was->unadmitted)
        return;
    if (is->evicted > was->evicted)
        worst_take(full, table, is->evicted - was->evicted, 0);
    came = is->gradients - was->gradients;
    left = is->unadmitted - was->unadmitted;
    if (admits && was->gradients > 0 && came >= GRADIENTS_LEAST &&
        left > came / 2)
        worst_take(unadmitted, table, left, came);
}

void table_warnings_check(struct coord *c, struct job *job)
{
    struct table_looks *looks = &job->tables;
    size_t n = job->spec->model->n_tables;
    struct worst full = {0}, unadmitted = {0};
    bool first = looks->done == NULL;

    if (n == 0 || (!first && coord_now(c) - looks->looked_ms < LOOK_MS))
        return;
    if (first)
        looks->done = sl_calloc(n, sizeof(*looks->done));
    looks->looked_ms = coord_now(c);
    for (uint32_t i = 0; looks->done != NULL && i < n; i++) {
        struct table_done is = table_done_by_now(job, i);

        if (!first)
            table_look(&full, &unadmitted, job->spec->model->tables[i],
                       &looks->done[i], &is);
        looks->done[i] = is;
    }
    table_warn(c, job, JOB_WARN_FULL, EVENT_ROWS_EVICTED, &looks->full_told_ms,
               &full, full_format);
    table_warn(c, job, JOB_WARN_UNADMITTED, EVENT_ROWS_UNADMITTED,
               &looks->unadmitted_told_ms, &unadmitted, unadmitted_format);
}
