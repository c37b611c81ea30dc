// SPDX-License-Identifier: Apache-2.0
// coordinator/core/jobs.c -- the table of jobs, by number and by name, and what
// is counted of each.
#include "coordinator/core/jobs.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/run/log.h"

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

enum sl_err jobs_find(const struct coord *c, const char *id, struct job **out,
                      struct sl_error *err)
{
    struct job *by_name = NULL;
    unsigned long long number;
    size_t at = 0;
    void *value;
    int end = 0;

    if (sscanf(id, "j-%llu%n", &number, &end) == 1 && id[end] == '\0') {
        *out = jobs_get(c, number);
        return *out != NULL ? SL_OK
                            : sl_fail(err, SL_ENOENT, "there is no job %s", id);
    }
    while (map_next(&c->jobs.by_id, &at, NULL, &value)) {
        struct job *job = value;

        if (strcmp(job->name, id) != 0)
            continue;
        if (by_name != NULL)
            return sl_fail(err, SL_ESTATE,
                           "several jobs are named '%s'; say which by its id, "
                           "like %s",
                           id, by_name->id_text);
        by_name = job;
    }
    if (by_name == NULL)
        return sl_fail(err, SL_ENOENT,
                       "there is no job '%s'; ids look like j-7", id);
    *out = by_name;
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
    coord_wrote(c, journal_job_counters(c->journal, job->id, &now, &c->err));
}

void jobs_warn(struct job *job, enum job_warning kind, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (job->warnings[kind] != NULL && strcmp(job->warnings[kind], text) == 0)
        return;
    LOG(WARN, "job needs a look", "job=%s why=%s", job->id_text, text);
    sl_free(job->warnings[kind]);
    job->warnings[kind] = sl_strdup(text); // without memory there is no text
    job->changes++;
}
