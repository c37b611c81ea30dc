// SPDX-License-Identifier: Apache-2.0
// coordinator/service/measure.c -- see measure.h. Most figures are counted when
// they are asked for; counters that only rise are in core/figures.h.
#include "coordinator/service/measure.h"

#include <string.h>

#include "common/base/rng.h"
#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/job_queue.h"

#define STATES (JOB_STATES + 2) // number of job states: those of JobState, and
#define QUEUED JOB_STATES
#define PAUSED (JOB_STATES + 1)

struct tallied {
    uint64_t jobs[STATES];
    uint64_t waiting, leased, counted; // closures of jobs that go on
    uint64_t members[2][MEMBER_STATES];
    uint64_t map_version;
    uint64_t single; // shards that want a replica
    double cut_age_seconds, cut_age_ratio, still_seconds;
};

static void most(double *of, double value)
{
    *of = value > *of ? value : *of;
}

// Counts the shards of a job that are to have a replica and have none.
static uint64_t measure_count_single(const struct job *job)
{
    uint64_t shards = 0;

    if (!job_has_replicas(job))
        return 0;
    for (uint32_t i = job->shards.parts; i < job->shards.count; i++)
        shards += job_replica(&job->shards.list[i]) == NULL;
    return shards;
}

static void tally_job(const struct coord *c, const struct job *job,
                      struct tallied *t)
{
    uint64_t counted, age;
    double every;

    if (job->behind.paused || job_rests(job))
        t->jobs[PAUSED]++;
    else if (queue_waits(job))
        t->jobs[QUEUED]++;
    else
        t->jobs[job->state]++;
    if (job->map.version > t->map_version)
        t->map_version = job->map.version;
    if (!job->shards.placed)
        return;
    counted = evidence_closures(&job->shards.evidence);
    t->counted += counted;
    t->leased += job->leases.held;
    if (job->shards.evidence.closures > counted + job->leases.held)
        t->waiting +=
            job->shards.evidence.closures - counted - job->leases.held;
    if (job->state != JOB_RUNNING || job_rests(job) || job->behind.paused)
        return;
    t->single += measure_count_single(job);
    age = coord_now(c) - job->cuts.last_ms;
    most(&t->cut_age_seconds, (double)age / 1000);
    every = job->spec->checkpoint != NULL ? job->spec->checkpoint->every_seconds
                                          : 0;
    if (every > 0)
        most(&t->cut_age_ratio, (double)age / 1000 / every);
    age = coord_now(c) - (job->figured.rose_ms > job->running_since_ms
                              ? job->figured.rose_ms
                              : job->running_since_ms);
    most(&t->still_seconds, (double)age / 1000);
}

// Counts the psservers that hold shards of a job and are not attached.
static uint64_t measure_count_missing(const struct coord *c)
{
    struct map seen;
    uint64_t n = 0;

    map_init(&seen);
    list_for(at, &c->jobs.active)
    {
        const struct job *job = list_entry(at, struct job, on_active);

        for (uint32_t i = job->shards.parts; i < job->shards.count; i++) {
            const char *name = job->shards.list[i].psserver;
            uint64_t key = sl_hash64(name, strlen(name));

            if (members_find(&c->members, MEMBER_PSSERVER, name) == NULL &&
                map_get(&seen, key) == NULL &&
                map_put(&seen, key, (void *)name) == SL_OK)
                n++;
        }
    }
    map_release(&seen);
    return n;
}

static void tally(const struct coord *c, struct tallied *t)
{
    size_t at = 0;
    void *value;

    list_for(n, &c->jobs.active)
    {
        tally_job(c, list_entry(n, struct job, on_active), t);
    }
    list_for(n, &c->jobs.ending)
    {
        t->jobs[list_entry(n, struct job, on_active)->state]++;
    }
    while (map_next(&c->jobs.ended, &at, NULL, &value))
        t->jobs[((const struct ended_job *)value)->state]++;
    list_for(n, &c->members.all)
    {
        const struct member *m = list_entry(n, struct member, node);

        t->members[m->role][m->state]++;
    }
    t->members[MEMBER_PSSERVER][MEMBER_LOST] += measure_count_missing(c);
}

static const char *state_name(int state)
{
    return state == QUEUED   ? "queued"
           : state == PAUSED ? "paused"
                             : job_state_name((enum job_state)state);
}

static void put_jobs(const struct tallied *t, struct expo *e)
{
    expo_family(e, "sluice_jobs", EXPO_GAUGE, "Jobs, by state.");
    for (int i = JOB_PLACING; i < STATES; i++)
        expo_value(e, (double)t->jobs[i], "state", state_name(i), NULL);
    expo_family(e, "sluice_closures", EXPO_GAUGE,
                "Closures of jobs that have not ended, by state.");
    expo_value(e, (double)t->waiting, "state", "waiting", NULL);
    expo_value(e, (double)t->leased, "state", "leased", NULL);
    expo_value(e, (double)t->counted, "state", "counted", NULL);
    expo_single(e, "sluice_cut_age_seconds", EXPO_GAUGE,
                "Age of the last checkpoint (or of the job, before one), the "
                "highest of all running jobs; 0: no job runs.",
                t->cut_age_seconds);
    expo_single(e, "sluice_cut_age_ratio", EXPO_GAUGE,
                "The same in units of checkpoint.every_seconds, the highest of "
                "all running jobs; 0: no job sets that key.",
                t->cut_age_ratio);
    expo_single(e, "sluice_uncounted_seconds", EXPO_GAUGE,
                "Time since the last counted sample, the highest of all "
                "running jobs; 0: no job runs.",
                t->still_seconds);
    expo_single(e, "sluice_shards_without_replica", EXPO_GAUGE,
                "Shards of running jobs with placement.replicas that have no "
                "replica now.",
                (double)t->single);
    expo_single(e, "sluice_map_version", EXPO_GAUGE,
                "Highest version of a job's map of shards.",
                (double)t->map_version);
}

static void put_members(const struct tallied *t, struct expo *e)
{
    static const char *const names[2] = {
        [MEMBER_WORKER] = "sluice_workers",
        [MEMBER_PSSERVER] = "sluice_psservers",
    };
    static const char *const help[2] = {
        [MEMBER_WORKER] =
            "Attached workers, by state; lost workers do not count.",
        [MEMBER_PSSERVER] = "Psservers, by state; lost: a job needs the "
                            "psserver, which is not attached.",
    };

    for (int role = 0; role < 2; role++) {
        expo_family(e, names[role], EXPO_GAUGE, help[role]);
        for (int i = 0; i < MEMBER_STATES; i++)
            expo_value(e, (double)t->members[role][i], "state",
                       member_state_name((enum member_state)i), NULL);
    }
}

static void put_closures(const struct figures *f, struct expo *e)
{
    static const char *const whys[WORK_WHYS] = {
        [WORK_TRANSIENT] = "transient", [WORK_LOST] = "lost",
        [WORK_TIMEOUT] = "timeout",     [WORK_PREEMPTED] = "preempted",
        [WORK_REVOKED] = "revoked",
    };

    expo_family(e, "sluice_closures_finished_total", EXPO_COUNTER,
                "Closures that every shard counted, or that failed a job.");
    expo_value(e, (double)f->counted, "result", "counted", NULL);
    expo_value(e, (double)f->failed, "result", "failed", NULL);
    expo_family(e, "sluice_closure_retries_total", EXPO_COUNTER,
                "Closures leased again after a first attempt, by the end of "
                "that attempt.");
    for (int i = 0; i < WORK_WHYS; i++)
        expo_value(e, (double)f->retries[i], "reason", whys[i], NULL);
    expo_single(e, "sluice_closures_reissued_total", EXPO_COUNTER,
                "Counted closures that workers compute again because a shard "
                "came back from an older snapshot.",
                (double)f->reissued);
    expo_family(e, "sluice_closure_wait_seconds", EXPO_HISTOGRAM,
                "Time from a failed attempt to the next lease of the closure.");
    expo_histogram(e, &f->waits, NULL);
    expo_single(e, "sluice_samples_counted_total", EXPO_COUNTER,
                "Samples that every shard counted.", (double)f->samples);
}

static void measure_put_events(const struct figures *f, struct expo *e)
{
    static const char *const cuts[FIGURES_CUTS] = {
        [FIGURES_PUBLISHED] = "published",
        [FIGURES_ABORTED] = "aborted",
        [FIGURES_GIVEN_UP] = "given_up",
    };

    expo_family(e, "sluice_members_lost_total", EXPO_COUNTER,
                "Members that left without draining first.");
    expo_value(e, (double)f->lost[MEMBER_WORKER], "role", "worker", NULL);
    expo_value(e, (double)f->lost[MEMBER_PSSERVER], "role", "psserver", NULL);
    expo_family(e, "sluice_worker_preemptions_total", EXPO_COUNTER,
                "Workers that began to drain, by the source of the notice; "
                "signal: the process was told to end.");
    for (int i = 0; i < FIGURES_SOURCES; i++)
        expo_value(e, (double)f->preempted[i], "source", figures_sources[i],
                   NULL);
    expo_family(e, "sluice_cuts_total", EXPO_COUNTER,
                "Checkpoints, by result.");
    for (int i = 0; i < FIGURES_CUTS; i++)
        expo_value(e, (double)f->cuts[i], "result", cuts[i], NULL);
}

static void measure_put_audits(const struct figures *f, uint64_t suspects,
                               struct expo *e)
{
    static const char *const results[FIGURES_AUDITS] = {
        [FIGURES_COMPARED] = "compared",
        [FIGURES_DIFFERED] = "differed",
        [FIGURES_DECIDED] = "decided",
    };

    expo_family(
        e, "sluice_audits_total", EXPO_COUNTER,
        "Contributions that audits compared; that differed; of which it "
        "is known which worker is wrong.");
    for (int i = 0; i < FIGURES_AUDITS; i++)
        expo_value(e, (double)f->audits[i], "result", results[i], NULL);
    expo_single(e, "sluice_suspect_workers", EXPO_GAUGE,
                "Workers that an audit found wrong and that nobody has "
                "undrained.",
                (double)suspects);
}

void measure_write(struct coord *c, const struct journal *journal,
                   struct expo *e)
{
    static const struct figures none = {.waits = HISTOGRAM_DURATIONS};
    static const struct histogram never = HISTOGRAM_DURATIONS;
    const struct figures *f = c != NULL ? &c->figures : &none;
    struct tallied t = {.map_version = 0};

    if (c != NULL) {
        list_for(n, &c->jobs.active)
        {
            figures_job(c, list_entry(n, struct job, on_active));
        }
        tally(c, &t);
    }
    put_jobs(&t, e);
    put_members(&t, e);
    put_closures(f, e);
    measure_put_events(f, e);
    measure_put_audits(f, c != NULL ? suspects_count(c) : 0, e);
    expo_single(e, "sluice_coordinator_term", EXPO_GAUGE,
                "Term of this coordinator.", c != NULL ? (double)c->term : 0);
    expo_family(e, "sluice_journal_commit_seconds", EXPO_HISTOGRAM,
                "Time from a write to the journal until the disk, or etcd, "
                "has it.");
    expo_histogram(e, journal != NULL ? journal_commits(journal) : &never,
                   NULL);
}
