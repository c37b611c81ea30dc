// SPDX-License-Identifier: Apache-2.0
// coordinator/service/measure_jobs.c -- figures of single jobs, if the operator
// asked for them (--metrics-per-job). A label that names a job makes one more
// series, in every scraper, for each job that ever was, so it is bounded here:
// jobs that go on, and no more than MEASURE_JOBS of them at a time, the oldest.
// It is not called `job`, which is Prometheus' label for the target of a
// scrape.
#include "coordinator/service/measure.h"

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"
#include "coordinator/core/status/job_status.h"

struct chosen {
    Sluice__V1__JobStatus *job[MEASURE_JOBS];
    // seconds since its last checkpoint; < 0: not running
    double age[MEASURE_JOBS];
    size_t count, left_out;
};

static double cut_age(const struct coord *c, const struct job *job)
{
    if (job->state != JOB_RUNNING || job_rests(job) || job->behind.paused)
        return -1;
    return (double)(coord_now(c) - job->cuts.last_ms) / 1000;
}

// Chooses jobs in the order of their numbers, so that a newer job takes no
// older one's place.
static void measure_choose_jobs(const struct coord *c, struct chosen *out)
{
    *out = (struct chosen){.count = 0};
    list_for(n, &c->jobs.active)
    {
        const struct job *job = list_entry(n, struct job, on_active);
        Sluice__V1__JobStatus *s = NULL;

        if (out->count < MEASURE_JOBS)
            s = status_job(c, job, false, false);
        if (s == NULL) { // too many jobs, or no memory
            out->left_out++;
            continue;
        }
        out->age[out->count] = cut_age(c, job);
        out->job[out->count++] = s;
    }
}

static double ratio_of(const Sluice__V1__JobStatus *s)
{
    return s->steps_asked > 0
               ? (double)s->steps_counted / (double)s->steps_asked
               : 0;
}

static double measure_job_steps(const Sluice__V1__JobStatus *s)
{
    return (double)s->steps_counted;
}

static double measure_job_loss(const Sluice__V1__JobStatus *s)
{
    return WIRE_KNOWN(s, loss);
}

static double accuracy_of(const Sluice__V1__JobStatus *s)
{
    return WIRE_KNOWN(s, accuracy);
}

static double rate_of(const Sluice__V1__JobStatus *s)
{
    return s->images_per_second;
}

static double workers_of(const Sluice__V1__JobStatus *s)
{
    return s->workers;
}

static double retries_of(const Sluice__V1__JobStatus *s)
{
    return (double)s->closures_retried;
}

static double pushed_of(const Sluice__V1__JobStatus *s)
{
    return s->local == NULL ? (double)NAN : s->local->pushed_bytes;
}

static double norm_of(const Sluice__V1__JobStatus *s)
{
    return s->local == NULL || s->local->norm == 0 ? (double)NAN
                                                   : s->local->norm;
}

static double set_aside_of(const Sluice__V1__JobStatus *s)
{
    return s->local == NULL ? (double)NAN : (double)s->local->set_aside;
}

static double staleness_of(const Sluice__V1__JobStatus *s)
{
    return s->updates_applied == 0 || s->ring_generation > 0
               ? (double)NAN
               : (double)s->staleness_p50;
}

static double moments_age_of(const Sluice__V1__JobStatus *s)
{
    return s->local == NULL || s->local->known_moments_case == 0
               ? (double)NAN
               : (double)s->local->moments_age;
}

static const struct {
    const char *name;
    enum expo_kind kind;
    double (*of)(const Sluice__V1__JobStatus *s);
    const char *help;
} families[] = {
    {"sluice_job_steps", EXPO_GAUGE, measure_job_steps,
     "With --metrics-per-job: steps that every shard counted; lower after a "
     "shard came back from an older snapshot."},
    {"sluice_job_progress_ratio", EXPO_GAUGE, ratio_of,
     "With --metrics-per-job: counted steps as a share of the job's steps."},
    {"sluice_job_loss", EXPO_GAUGE, measure_job_loss,
     "With --metrics-per-job: running mean of the training loss; absent before "
     "the first applied step."},
    {"sluice_job_accuracy_ratio", EXPO_GAUGE, accuracy_of,
     "With --metrics-per-job: running mean of the training accuracy; absent "
     "for a loss without an accuracy."},
    {"sluice_job_samples_per_second", EXPO_GAUGE, rate_of,
     "With --metrics-per-job: samples counted per second, lately."},
    {"sluice_job_workers", EXPO_GAUGE, workers_of,
     "With --metrics-per-job: workers that hold a lease of the job."},
    {"sluice_job_closure_retries_total", EXPO_COUNTER, retries_of,
     "With --metrics-per-job: closures leased again after a first attempt, in "
     "the job's whole life."},
    {"sluice_job_pushed_bytes_per_sample", EXPO_GAUGE, pushed_of,
     "With --metrics-per-job, mode local: bytes of gradients that workers sent "
     "for each sample."},
    {"sluice_job_contribution_norm", EXPO_GAUGE, norm_of,
     "With --metrics-per-job, mode local: median norm of the last 64 "
     "contributions; absent before the eighth."},
    {"sluice_job_contributions_set_aside_total", EXPO_COUNTER, set_aside_of,
     "With --metrics-per-job, mode local: contributions set aside as too large "
     "or not finite."},
    {"sluice_job_staleness_updates", EXPO_GAUGE, staleness_of,
     "With --metrics-per-job: median age, in updates, of gradients and "
     "contributions when applied."},
    {"sluice_job_moments_age_contributions", EXPO_GAUGE, moments_age_of,
     "With --metrics-per-job, mode local: contributions since the kept "
     "moments; "
     "absent: none."},
};

void measure_jobs(const struct coord *c, struct expo *e)
{
    struct chosen chosen = {.count = 0};

    if (c != NULL)
        measure_choose_jobs(c, &chosen);
    for (size_t i = 0; i < SL_COUNT(families); i++) {
        expo_family(e, families[i].name, families[i].kind, families[i].help);
        for (size_t k = 0; k < chosen.count; k++) {
            double value = families[i].of(chosen.job[k]);

            if (isfinite(value))
                expo_value(e, value, "id", chosen.job[k]->id, NULL);
        }
    }
    expo_family(
        e, "sluice_job_cut_age_seconds", EXPO_GAUGE,
        "With --metrics-per-job: age of the last checkpoint of a running job.");
    for (size_t k = 0; k < chosen.count; k++)
        if (chosen.age[k] >= 0)
            expo_value(e, chosen.age[k], "id", chosen.job[k]->id, NULL);
    expo_single(e, "sluice_jobs_without_figures", EXPO_GAUGE,
                "With --metrics-per-job: running jobs without figures of their "
                "own, because 32 older jobs have them.",
                (double)chosen.left_out);
    for (size_t k = 0; k < chosen.count; k++)
        wire_free(&chosen.job[k]->base);
}
