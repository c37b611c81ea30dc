// SPDX-License-Identifier: Apache-2.0
// coordinator/core/pause.c -- pauses that clients ask for: the cut before one,
// the release of workers, the resumption.
#include "coordinator/core/pause.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/cuts/cuts.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/send.h"

// Returns true if the job's state would be lost if its workers let go of it.
static bool has_state(const struct job *job)
{
    return job->mode->has_state != NULL && job->mode->has_state(job);
}

enum sl_err pause_judge(const struct job *job, bool checkpoint,
                        struct sl_error *err)
{
    if (job_ended(job))
        return sl_fail(err, SL_ESTATE, "job %s is %s: nothing of it runs",
                       job->id_text, job_state_name(job->state));
    if (job->behind.paused)
        return sl_fail(
            err, SL_ESTATE,
            "job %s is paused already, because the journal is older than what "
            "ran (I7): `sluice status %s` says how to go on",
            job->id_text, job->id_text);
    if (!checkpoint && has_state(job) && job->cuts.count == 0)
        return sl_fail(err, SL_ESTATE,
                       "only the workers of job %s have its state, and it has "
                       "no checkpoint: a pause now would lose all of its "
                       "steps; pause it without --now, or stop it",
                       job->id_text);
    return SL_OK;
}

// Says whether a pause needs a cut first. A ring's state is gone once its
// workers are: it waits for a cut as long as that takes. Shards keep steps that
// are in no cut.
static bool wants_cut(const struct job *job)
{
    struct cut_wish now = cuts_wish_now(job);

    if (!job->mode->on_workers)
        return cuts_worth(job);
    return has_state(job) && job_granted(job, &now) == NULL;
}

static bool pause_write_row(struct coord *c, struct job *job)
{
    job->changes++;
    return coord_wrote(
        c, journal_pause_set(c->journal, job->id, &job->pause.row, &c->err));
}

// ---- a pause that holds

// Notes the steps that the pause loses, or may lose.
static void note_loss(struct job *job, bool asked)
{
    const struct job_cut *last = job_last_cut(job);
    uint64_t saved = last == NULL ? 0 : last->checkpoint->steps;
    uint64_t steps = job_steps(job);
    char *note = job->pause.row.note;

    note[0] = '\0';
    if (job->mode->on_workers && steps > saved)
        snprintf(note, JOURNAL_PAUSE_TEXT,
                 "the job goes on from its checkpoint of %llu steps: workers "
                 "compute %llu steps again",
                 (ull)saved, (ull)(steps - saved));
    else if (asked && job_granted(job, &job->pause.wish) == NULL)
        snprintf(note, JOURNAL_PAUSE_TEXT,
                 "the checkpoint before the pause failed: %.180s",
                 job->cuts.why != NULL ? job->cuts.why : "a shard is away");
}

static void pause_release_worker(struct coord *c, struct member *m,
                                 struct job *job)
{
    leases_revoke_job(c, m, job, "the job is paused");
    send_revoke_job(c, m, job, "the job is paused");
    sl_free(map_remove(&m->opened, job->id));
    map_remove(&m->losing, job->id);
}

static void pause_announce(struct coord *c, enum event_kind kind,
                           const struct job *job, const char *what)
{
    const struct journal_pause *row = &job->pause.row;

    if (kind == EVENT_JOB_PAUSES)
        LOG(INFO, "job is to be paused", "job=%s by=%s why=%s", job->id_text,
            row->who, row->why);
    happened_job(c, kind, job, NULL, "%s %s, by %s%s%s", job->name, what,
                 row->who, row->why[0] == '\0' ? "" : ": ", row->why);
}

static void pause_enter_hold(struct coord *c, struct job *job)
{
    job->pause.row.state = JOURNAL_PAUSE_HOLDS;
    job->pause.row.since_us = sl_wall_us(c->options.clock);
    job->pause.from_ms = coord_now(c) == 0 ? 1 : coord_now(c);
    // Journalled before any worker is told, so that the pause outlives a
    // restart.
    if (!pause_write_row(c, job))
        return;
    JOB_HISTORY(job, "rests", "");
    LOG(INFO, "job paused", "job=%s by=%s why=%s", job->id_text,
        job->pause.row.who, job->pause.row.why);
    pause_announce(c, EVENT_JOB_PAUSED, job, "is paused");
    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (m->role == MEMBER_WORKER)
            pause_release_worker(c, m, job);
    }
    if (job->mode->on_workers && job->cuts.now != NULL &&
        !job->cuts.now->writing)
        cuts_give_up(c, job, "the job is paused");
}

void pause_check(struct coord *c, struct job *job)
{
    if (job->pause.row.state != JOURNAL_PAUSE_WANTED)
        return;
    if (job_granted(job, &job->pause.wish) != NULL ||
        (!job->mode->on_workers && job->cuts.now == NULL &&
         !job_is_moving(job, coord_now(c)))) {
        note_loss(job, true);
        pause_enter_hold(c, job);
    }
}

void pause_attached(struct coord *c, const struct member *m)
{
    // A worker may come back with leases that an earlier coordinator gave it.
    list_for(n, &c->jobs.active)
    {
        const struct job *job = list_entry(n, struct job, on_active);

        if (m->role == MEMBER_WORKER &&
            job->pause.row.state == JOURNAL_PAUSE_HOLDS)
            send_revoke_job(c, m, job, "the job is paused");
    }
}

// ---- asked for, and over

static void want_cut(struct job *job)
{
    job->pause.wish = cuts_wish_now(job);
    (void)cuts_want(job, &job->pause.wish);
}

static void pause_set_text(char out[JOURNAL_PAUSE_TEXT], const char *text)
{
    snprintf(out, JOURNAL_PAUSE_TEXT, "%.200s", text);
}

void pause_ask(struct coord *c, struct job *job,
               const Sluice__V1__PauseRequest *request)
{
    struct journal_pause *row = &job->pause.row;

    if (row->state == JOURNAL_PAUSE_HOLDS ||
        (row->state == JOURNAL_PAUSE_WANTED && request->checkpoint))
        return;
    pause_set_text(row->who, request->who);
    if (row->who[0] == '\0' || strcmp(row->who, PAUSE_BY_US) == 0)
        pause_set_text(row->who, "somebody");
    pause_set_text(row->why, request->why);
    if (!request->checkpoint || !wants_cut(job)) {
        note_loss(job, false); // no cut is waited for
        pause_enter_hold(c, job);
        return;
    }
    row->state = JOURNAL_PAUSE_WANTED;
    row->since_us = sl_wall_us(c->options.clock);
    want_cut(job);
    if (pause_write_row(c, job))
        pause_announce(c, EVENT_JOB_PAUSES, job,
                       "is to be paused, after a checkpoint");
}

void pause_hold(struct coord *c, struct job *job, const char *why,
                const char *note)
{
    struct journal_pause *row = &job->pause.row;

    if (row->state == JOURNAL_PAUSE_HOLDS) // its time goes on as one pause
        row->total_ms = job_paused_ms(job, coord_now(c));
    pause_set_text(row->who, PAUSE_BY_US);
    pause_set_text(row->why, why);
    pause_set_text(row->note, note);
    pause_enter_hold(c, job);
}

void pause_end(struct coord *c, struct job *job)
{
    struct journal_pause *row = &job->pause.row;

    if (row->state == JOURNAL_PAUSE_NONE)
        return;
    row->total_ms = job_paused_ms(job, coord_now(c));
    row->state = JOURNAL_PAUSE_NONE;
    job->pause.from_ms = 0;
    if (!pause_write_row(c, job))
        return;
    JOB_HISTORY(job, "resumed", "");
    LOG(INFO, "job goes on", "job=%s paused_ms=%llu", job->id_text,
        (ull)row->total_ms);
    happened_job(c, EVENT_JOB_RESUMED, job, NULL, "%s goes on", job->name);
}

void pause_revive(struct job *job)
{
    if (job->pause.row.state == JOURNAL_PAUSE_WANTED)
        want_cut(job);
}
