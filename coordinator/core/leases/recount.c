// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/recount.c -- the question to all shards, and the
// verdict.
#include "coordinator/core/leases/recount.h"

#include <stdio.h>

#include "common/base/buf.h"
#include "common/run/log.h"
#include "coordinator/core/end_job.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/shards/memory.h"
#include "coordinator/core/send.h"

const char *recount_name(const struct work *w, char *out, size_t size)
{
    const struct schedule *s = &w->job->shards.schedule;
    uint64_t first, count;

    if (w->kind == WORK_PROBE) {
        snprintf(out, size, "opening the data");
    } else if (w->kind == WORK_EVALUATE) {
        snprintf(out, size,
                 "the evaluation of test samples %llu..%llu against cut %llu",
                 (ull)w->first, (ull)(w->first + w->count - 1), (ull)w->cut);
    } else if (leases_is_place(w)) {
        snprintf(out, size, "a place in a group");
    } else if (w->kind == WORK_RING) {
        snprintf(out, size, "round %llu of the ring",
                 (ull)w->job->ring.progress + 1);
    } else {
        schedule_closure_range(s, w->closure.id, &first, &count);
        snprintf(out, size, "closure %llu (epoch %llu, samples %llu..%llu)",
                 (ull)w->closure.id, (ull)schedule_epoch(s, w->closure.id) + 1,
                 (ull)first, (ull)(first + count - 1));
    }
    return out;
}

static void recount_ask_shard(struct coord *c, struct job *job, uint32_t shard)
{
    struct member *m = members_get(&c->members, job->shards.list[shard].server);

    if (m != NULL)
        send_hello_wanted(c, m, job, shard);
}

static void recount_begin(struct coord *c, struct job *job)
{
    job->recount.missing = job->shards.count;
    job->recount.since_ms = coord_now(c);
    job->changes++;
    for (uint32_t i = 0; i < job->shards.count; i++) {
        job->shards.list[i].recounts = true;
        recount_ask_shard(c, job, i);
    }
}

void recount_ask(struct coord *c, struct job *job)
{
    if (job->recount.missing == 0)
        recount_begin(c, job);
}

bool recount_blamed(struct coord *c, struct work *w)
{
    bool failed = w->closure.state == CLOSURE_FAILED;

    if (w->judged ? !failed : failed || !closure_half_blamed(&w->closure))
        return false;
    w->judging = !w->judged;
    recount_begin(c, w->job);
    return failed;
}

// ---- the verdict

static void recount_forgive_work(struct coord *c, struct job *job,
                                 struct work *w, uint64_t steps)
{
    LOG(INFO, "closure has counted steps; its failures are forgiven",
        "job=%s closure=%llu steps=%llu before=%llu blamed=%s", job->id_text,
        (ull)w->closure.id, (ull)steps, (ull)w->judged_steps,
        buf_text(&w->story));
    w->judged = false;
    closure_forgiven(&w->closure);
    buf_reset(&w->story);
    coord_wrote(c,
                journal_absolve(c->journal, job->id, w->closure.id, &c->err));
}

void recount_fail(struct coord *c, struct work *w, const struct work *of)
{
    struct buf hint = BUF_INIT;
    char what[200];

    figures_failed(c);
    memory_vanished(&hint, of);
    end_fail(c, w->job,
             "%s did not end in %u attempts on %u distinct workers: %s%s",
             recount_name(w, what, sizeof(what)), w->closure.failures,
             w->closure.blamed_count, buf_text(&of->story), buf_text(&hint));
    buf_release(&hint);
}

// Judges one closure; `all`: every shard has answered. Returns false if the job
// has ended with it.
static bool judge_one(struct coord *c, struct job *job, struct work *w,
                      bool all)
{
    uint64_t steps =
        evidence_closure_steps(&job->shards.evidence, w->closure.id);

    if (w->judging && all) {
        w->judged = true;
        w->judged_steps = steps;
    }
    w->judging = false;
    if (w->closure.state != CLOSURE_FAILED)
        return true;
    if (steps > w->judged_steps) {
        recount_forgive_work(c, job, w, steps);
        return !c->dead;
    }
    recount_fail(c, w, w);
    return false;
}

static void recount_judge_closures(struct coord *c, struct job *job, bool all)
{
    size_t at = 0;
    uint64_t closure;
    void *value;

    job->recount.missing = 0;
    while (map_next(&job->leases.active, &at, &closure, &value)) {
        struct work *w = value;

        if (w->kind == WORK_TRAIN &&
            (w->judging || w->closure.state == CLOSURE_FAILED) &&
            !judge_one(c, job, w, all))
            return;
    }
}

bool recount_waits(const struct job *job, uint32_t shard)
{
    return job->recount.missing > 0 && job->shards.list[shard].recounts;
}

void recount_heard(struct coord *c, struct job *job, uint32_t shard)
{
    if (!recount_waits(job, shard))
        return;
    job->shards.list[shard].recounts = false;
    if (--job->recount.missing == 0)
        recount_judge_closures(c, job, true);
}

void recount_check(struct coord *c, struct job *job)
{
    uint64_t now = coord_now(c);

    if (job->recount.missing == 0)
        return;
    if (!job_served(job))
        job->recount.since_ms = now;
    if (now - job->recount.since_ms < RECOUNT_MS)
        return;
    LOG(WARN, "shards do not report their counted steps",
        "job=%s missing=%u of=%u", job->id_text, job->recount.missing,
        job->shards.count);
    recount_judge_closures(c, job, false);
}
