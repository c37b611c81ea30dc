// SPDX-License-Identifier: Apache-2.0
// coordinator/core/figures.c -- see figures.h.
#include "coordinator/core/figures.h"

#include <string.h>

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

const char *const figures_sources[FIGURES_SOURCES] = {"aws",  "gcp",  "azure",
                                                      "file", "exec", "signal"};

void figures_init(struct coord *c)
{
    c->figures.waits = (struct histogram)HISTOGRAM_DURATIONS;
}

// Counts no fall for a torn ring or a shard that is away: the job is passed
// over until it is served.
void figures_job(struct coord *c, struct job *job)
{
    uint64_t closures, samples;

    if (!job->shards.placed || !job_served(job))
        return;
    closures = evidence_closures(&job->shards.evidence);
    samples = schedule_samples(&job->shards.schedule, job_steps(job));
    if (job->figured.any && closures > job->figured.closures)
        c->figures.counted += closures - job->figured.closures;
    if (job->figured.any && samples > job->figured.samples)
        c->figures.samples += samples - job->figured.samples;
    if (!job->figured.any || closures > job->figured.closures)
        job->figured.closures = closures;
    if (!job->figured.any || samples > job->figured.samples) {
        job->figured.samples = samples;
        job->figured.rose_ms = coord_now(c);
    }
    job->figured.any = true;
}

void figures_fell(struct coord *c, const struct job *job, uint64_t before)
{
    uint64_t now = evidence_closures(&job->shards.evidence);

    if (before > now)
        c->figures.reissued += before - now;
}

void figures_ended(struct coord *c, struct work *w, enum work_why why)
{
    w->why = why;
    w->ended_ms = coord_now(c);
}

void figures_retried(struct coord *c, const struct work *w)
{
    c->figures.retries[w->why]++;
    if (w->ended_ms > 0)
        histogram_add(&c->figures.waits, (coord_now(c) - w->ended_ms) * 1000);
}

void figures_lost(struct coord *c, const struct member *m)
{
    c->figures.lost[m->role]++;
}

void figures_failed(struct coord *c)
{
    c->figures.failed++;
}

void figures_audit(struct coord *c, enum figures_audit what)
{
    c->figures.audits[what]++;
}

void figures_cut(struct coord *c, enum figures_cut how)
{
    c->figures.cuts[how]++;
}

void figures_drains(struct coord *c, const struct member *m, const char *why)
{
    // Words of the sources in host/notice; a reason in other words (no
    // device) has no source.
    static const struct {
        const char *words;
        bool ends;
    } said[FIGURES_SOURCES] = {{"AWS will ", false}, {"Google Cloud ", false},
                               {"Azure: ", false},   {" is there", true},
                               {" says so", true},   {"", true}};
    size_t n = strlen(why);

    for (int i = 0; i < FIGURES_SOURCES && m->role == MEMBER_WORKER; i++) {
        size_t k = strlen(said[i].words);
        const char *at = why + (said[i].ends && n >= k ? n - k : 0);

        if ((k > 0 || n == 0) && strncmp(at, said[i].words, k) == 0) {
            c->figures.preempted[i]++;
            return;
        }
    }
}
