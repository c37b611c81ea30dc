// SPDX-License-Identifier: Apache-2.0
// coordinator/core/jobs.c -- the table of jobs, by number and by name, and the
// counters of each.
#include "coordinator/core/jobs.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/job.h"
#include "coordinator/core/tenants.h"

struct job *jobs_get(const struct coord *c, uint64_t id)
{
    return map_get(&c->jobs.by_id, id);
}

struct job *jobs_live(const struct coord *c, uint64_t id, uint64_t incarnation)
{
    struct job *job = jobs_get(c, id);

    if (job == NULL || job_ended(job) || job->incarnation != incarnation)
        return NULL;
    return job;
}

struct ended_job *jobs_ended(const struct coord *c, uint64_t id)
{
    return map_get(&c->jobs.ended, id);
}

// Count of jobs with one name, and the number of one of them.
struct named {
    const char *name;
    uint64_t id;
    unsigned count;
};

static void jobs_match_name(const struct coord *c, struct named *n,
                            const char *name, uint64_t id)
{
    if (strcmp(name, n->name) != 0 || tenants_hide(c, id))
        return;
    n->id = id;
    n->count++;
}

static struct named jobs_find_by_name(const struct coord *c, const char *name)
{
    struct named n = {.name = name};
    size_t at = 0;
    void *value;

    while (map_next(&c->jobs.by_id, &at, NULL, &value)) {
        const struct job *job = value;

        jobs_match_name(c, &n, job->name, job->id);
    }
    at = 0;
    while (map_next(&c->jobs.ended, &at, NULL, &value)) {
        const struct ended_job *e = value;

        jobs_match_name(c, &n, e->name, e->id);
    }
    return n;
}

enum sl_err jobs_find(const struct coord *c, const char *id, uint64_t *out,
                      struct sl_error *err)
{
    unsigned long long number;
    struct named n;
    int end = 0;

    if (sscanf(id, "j-%llu%n", &number, &end) == 1 && id[end] == '\0') {
        if ((jobs_get(c, number) == NULL && jobs_ended(c, number) == NULL) ||
            tenants_hide(c, number))
            return sl_fail(err, SL_ENOENT, "there is no job %s", id);
        *out = number;
        return SL_OK;
    }
    n = jobs_find_by_name(c, id);
    if (n.count > 1)
        return sl_fail(err, SL_ESTATE,
                       "several jobs are named '%s'; say which by its id, like "
                       "j-%llu",
                       id, (ull)n.id);
    if (n.count == 0)
        return sl_fail(err, SL_ENOENT,
                       "there is no job '%s'; ids look like j-7", id);
    *out = n.id;
    return SL_OK;
}

// ---- counters

void jobs_count(struct job *job, uint64_t *counter)
{
    (*counter)++;
    job->counters_changed = true;
    job->changes++;
}

void jobs_flush(struct coord *c, struct job *job)
{
    struct journal_counters now = job->counters;

    if (!job->counters_changed || job_ended(job) || c->dead)
        return;
    job->counters_changed = false;
    now.elapsed_ms = job_elapsed_ms(job, coord_now(c));
    if (job->running_since_ms != 0)
        now.seen_us = sl_wall_us(c->options.clock);
    coord_wrote(c, journal_job_counters(c->journal, job->id, &now, &c->err));
}

void jobs_unwarn(struct job *job, enum job_warning kind)
{
    if (job->warnings[kind] == NULL)
        return;
    sl_free(job->warnings[kind]);
    job->warnings[kind] = NULL;
    job->changes++;
}

void jobs_warn(struct job *job, enum job_warning kind, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (job->warnings[kind] != NULL && strcmp(job->warnings[kind], text) == 0)
        return;
    LOG(WARN, "job has a new warning", "job=%s why=%s", job->id_text, text);
    sl_free(job->warnings[kind]);
    job->warnings[kind] = sl_strdup(text); // without memory there is no text
    job->changes++;
}
