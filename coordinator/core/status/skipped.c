// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status/skipped.c -- see skipped.h.
#include "coordinator/core/status/skipped.h"

#include <stdio.h>
#include <string.h>

#include "common/run/log.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"

#define MANY 16 // skipped updates worth a warning, if they are a hundredth
#define FIRST_STEPS 32 // steps in which a loss scale looks for its place

struct skips {
    uint64_t counted, skipped;
};

// Returns the counts of the shard that skipped most.
static struct skips skips_of(const struct job *job)
{
    struct skips most = {0, 0};

    for (uint32_t i = 0; i < job->shards.count; i++) {
        const struct job_counts *k = &job->shards.list[i].counts;

        if (k->skipped >= most.skipped)
            most = (struct skips){k->skipped + k->applied, k->skipped};
    }
    return most;
}

static bool over_a_tenth(const struct job *job, const struct skips *s)
{
    return s->skipped > s->counted / 10 &&
           (s->counted >= FIRST_STEPS || evidence_full(&job->shards.evidence) ||
            job_ended(job));
}

static void skipped_format(const struct skips *s, char *out, size_t size)
{
    snprintf(out, size,
             "%llu of %llu updates were skipped: their loss or gradient was "
             "not finite",
             (ull)s->skipped, (ull)s->counted);
}

void skipped_warning(const struct job *job, char *out, size_t size)
{
    const struct skips s = skips_of(job);

    out[0] = '\0';
    if (!job->shards.placed || s.skipped == 0)
        return;
    if ((s.skipped >= MANY && s.skipped >= s.counted / 100) ||
        over_a_tenth(job, &s))
        skipped_format(&s, out, size);
}

void skipped_check(struct coord *c, struct job *job)
{
    const struct skips s = skips_of(job);
    char text[160];

    if (job->skips_told || s.skipped == 0 || !over_a_tenth(job, &s))
        return;
    job->skips_told = true;
    skipped_format(&s, text, sizeof(text));
    LOG(WARN, "updates are skipped", "job=%s skipped=%llu counted=%llu",
        job->id_text, (ull)s.skipped, (ull)s.counted);
    happened_job(c, EVENT_UPDATES_SKIPPED, job, NULL, "%s", text);
}

// Returns advice against skipped updates.
static const char *advice(const struct job *job)
{
    if (job->warnings[JOB_WARN_SAMPLE] != NULL)
        return job->warnings[JOB_WARN_SAMPLE];
    if (job->external)
        return "lower the learning rate, look at the data and at what the "
               "programs skip";
    if (strcmp(job->spec->train->precision, "f16") == 0)
        return "lower the learning rate, look at the data, or train for more "
               "steps, as its loss scale is still too large";
    return "lower the learning rate, look at the data";
}

bool skipped_all(const struct job *job, char *why, size_t size)
{
    uint64_t skipped = 0;

    for (uint32_t i = 0; i < job->shards.count; i++) {
        const struct job_counts *k = &job->shards.list[i].counts;

        if (k->applied > 0)
            return false;
        if (k->skipped > skipped)
            skipped = k->skipped;
    }
    if (skipped == 0)
        return false;
    snprintf(why, size,
             "none of its %llu updates was applied: no loss or gradient was "
             "finite; %s",
             (ull)skipped, advice(job));
    return true;
}
