// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/bad.c -- the distinct samples of a job that cannot be
// read.
#include "coordinator/core/leases/bad.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "proto/spec.h"

#define NAMES_FEW 10 // in a warning or a reason
#define KEY(number, test) ((number) << 1 | (test))

// Says whether the job has this sample. A worker that reports another number is
// wrong.
static bool is_sample(const struct job *job, const Sluice__V1__BadSample *s)
{
    uint64_t samples = s->test ? job->reports.facts.test_samples
                               : job->reports.facts.train_samples;

    return job->reports.has_facts && s->number < samples;
}

static bool bad_add_sample(struct job *job, const Sluice__V1__BadSample *s)
{
    uint64_t key = KEY(s->number, (uint64_t)s->test);
    char *what;

    if (!is_sample(job, s) || map_get(&job->bad.by_key, key) != NULL)
        return false;
    what = sl_strdup(s->what);
    if (what == NULL || map_put(&job->bad.by_key, key, what) != SL_OK) {
        sl_free(what);
        return false;
    }
    if (job->bad.names_count < JOB_BAD_NAMES)
        job->bad.names[job->bad.names_count++] = what;
    return true;
}

bool bad_fits(const struct job *job, const Sluice__V1__StepMetrics *m)
{
    size_t more = 0;

    for (size_t i = 0; i < m->n_bad; i++) {
        const Sluice__V1__BadSample *s = m->bad[i];

        more += is_sample(job, s) &&
                map_get(&job->bad.by_key, KEY(s->number, (uint64_t)s->test)) ==
                    NULL;
    }
    return more == 0 || job->bad.by_key.len + more <= spec_skip_bad(job->spec);
}

void bad_names(const struct job *job, struct buf *out)
{
    size_t count = job->bad.by_key.len;
    size_t shown = job->bad.names_count;

    if (shown > NAMES_FEW)
        shown = NAMES_FEW;
    (void)buf_appendf(out, "%zu sample%s cannot be read: ", count,
                      count == 1 ? "" : "s");
    for (size_t i = 0; i < shown; i++)
        (void)buf_appendf(out, "%s%s", i > 0 ? "; " : "", job->bad.names[i]);
    if (count > shown)
        (void)buf_appendf(out, "; and %zu more", count - shown);
}

bool bad_take(struct job *job, const Sluice__V1__StepMetrics *m)
{
    uint32_t most = spec_skip_bad(job->spec);
    struct buf names = BUF_INIT;
    bool more = false;

    for (size_t i = 0; i < m->n_bad; i++) {
        if (job->bad.by_key.len <= most)
            more |= bad_add_sample(job, m->bad[i]);
    }
    if (!more)
        return true;
    bad_names(job, &names);
    jobs_warn(job, JOB_WARN_BAD,
              "%s; the next one stands in (data.skip_bad is %u)",
              buf_text(&names), most);
    buf_release(&names);
    return job->bad.by_key.len <= most;
}

bool bad_status(const struct job *job, Sluice__V1__JobStatus *m)
{
    m->bad_samples = (uint32_t)job->bad.by_key.len;
    if (m->bad_samples == 0)
        return true;
    m->bad_names = sl_calloc(job->bad.names_count, sizeof(m->bad_names[0]));
    if (m->bad_names == NULL)
        return false;
    for (size_t i = 0; i < job->bad.names_count; i++) {
        m->bad_names[i] = sl_strdup(job->bad.names[i]);
        if (m->bad_names[i] == NULL)
            return false;
        m->n_bad_names++;
    }
    return true;
}
