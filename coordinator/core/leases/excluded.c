// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/excluded.c -- workers that are excluded, from one job
// or, until they let go of a revoked lease, from all.
#include "coordinator/core/leases/excluded.h"

#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/leases.h"

struct conduct *excluded_conduct(struct member *m, const struct job *job)
{
    struct conduct *conduct = map_get(&m->conduct, job->id);

    if (conduct != NULL)
        return conduct;
    conduct = sl_malloc(sizeof(*conduct));
    if (conduct == NULL)
        return NULL;
    conduct_init(conduct, job->reports.good_steps);
    if (map_put(&m->conduct, job->id, conduct) == SL_OK)
        return conduct;
    sl_free(conduct);
    return NULL;
}

bool excluded_now(const struct coord *c, const struct member *m,
                  const struct job *job)
{
    const struct conduct *conduct = map_get(&m->conduct, job->id);

    return conduct != NULL && conduct_excluded(conduct, coord_now(c));
}

bool excluded_replaceable(const struct coord *c, const struct member *m,
                          const struct job *job)
{
    list_for(n, &c->members.all)
    {
        struct member *other = list_entry(n, struct member, node);

        if (other != m && other->role == MEMBER_WORKER &&
            job_suits(job, other) && other->state == MEMBER_READY &&
            other->owes.job == 0 && !excluded_now(c, other, job))
            return true;
    }
    return false;
}

void excluded_told(struct coord *c, struct member *m, struct job *job,
                   enum conduct_why why, const char *said)
{
    struct conduct *conduct = excluded_conduct(m, job);
    uint64_t ms;

    if (conduct == NULL)
        return;
    ms = conduct_exclude(conduct, why, job->reports.good_steps, coord_now(c));
    LOG(WARN, "worker excluded from a job",
        "job=%s worker=%s for_ms=%llu why=%s", job->id_text, m->name, (ull)ms,
        said);
    happened_job(c, EVENT_WORKER_EXCLUDED, job, m,
                 "%s gets no work of %s for %llu s: %s", m->name, job->name,
                 (ull)ms / 1000, said);
    leases_revoke_job(c, m, job, conduct_why_text(why));
}

void excluded_put(struct coord *c, struct member *m, struct job *job,
                  enum conduct_why why)
{
    excluded_told(c, m, job, why, conduct_why_text(why));
}

void excluded_judge(struct coord *c, struct member *m, struct job *job)
{
    const struct conduct *conduct = map_get(&m->conduct, job->id);
    enum conduct_why why;

    if (conduct == NULL || job_ended(job) || excluded_now(c, m, job))
        return;
    why = conduct_judge(conduct, job->reports.good_steps);
    if (why != CONDUCT_GOOD && excluded_replaceable(c, m, job))
        excluded_put(c, m, job, why);
}

bool excluded_excuses(const struct coord *c, struct member *m,
                      const struct job *job)
{
    const struct conduct *conduct = excluded_conduct(m, job);

    // Its reports of other leases were on their way when it was excluded.
    if (excluded_now(c, m, job))
        return true;
    return conduct != NULL && conduct_alone(conduct, job->reports.good_steps) &&
           excluded_replaceable(c, m, job);
}

void excluded_readmit(const struct coord *c, struct member *m,
                      const struct job *job)
{
    struct conduct *conduct = excluded_conduct(m, job);

    if (conduct == NULL || conduct->until_ms == 0 ||
        conduct_excluded(conduct, coord_now(c)))
        return;
    conduct->until_ms = 0;
    LOG(INFO, "worker gets another chance", "job=%s worker=%s", job->id_text,
        m->name);
}

static void add_debt(const struct member *m, struct buf *out)
{
    if (m->owes.job != 0 && m->owes.second)
        (void)buf_appendf(
            out,
            "another worker was first with closure %llu of j-%llu; this worker "
            "gets no work until it gives the closure up",
            (ull)m->owes.closure, (ull)m->owes.job);
    else if (m->owes.job != 0)
        (void)buf_appendf(
            out,
            "made no progress with closure %llu of j-%llu, which was revoked; "
            "gets no work until it gives the closure up",
            (ull)m->owes.closure, (ull)m->owes.job);
}

void excluded_reason(const struct coord *c, const struct member *m,
                     struct buf *out)
{
    uint64_t now = coord_now(c), id;
    size_t at = 0;
    void *noted;

    add_debt(m, out);
    if ((m->draining || m->state == MEMBER_LOST) && m->why != NULL)
        (void)buf_appendf(out, "%s%s", out->len > 0 ? "; " : "", m->why);
    while (map_next(&m->conduct, &at, &id, &noted)) {
        const struct conduct *conduct = noted;
        const struct job *job = jobs_get(c, id);

        if (job != NULL && !job_ended(job) && conduct_excluded(conduct, now))
            (void)buf_appendf(out, "%sput aside for %s, %llu s more: %s",
                              out->len > 0 ? "; " : "", job->id_text,
                              (ull)(conduct->until_ms - now + 999) / 1000,
                              conduct_why_text(conduct->why));
    }
}
