// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recovery/behind.c -- jobs that got further than this journal
// knows: paused, or listed.
#include "coordinator/core/recovery/behind.h"

#include <stdio.h>
#include <string.h>

#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/cuts/cuts.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/send.h"
#include "coordinator/core/recovery/stored.h"

// More jobs than are ever given between a backup and its return; a number
// further above the last that this journal gave is a mistake, and would use up
// numbers that are left. Counted from that last one, not from what was skipped
// already: however many members show jobs, they skip no more than one could.
#define JUMP_MAX 65536
#define LISTED_MAX 256

// ---- a job that the journal knows

static void serve_none(struct coord *c, struct job *job)
{
    for (uint32_t i = 0; i < job->shards.count; i++) {
        job->shards.list[i].server = 0;
        job->shards.list[i].silent_server = 0;
        job->shards.list[i].since_ms = coord_now(c);
    }
    job->map.version++;
    job->map.changed = true;
}

void behind_pause(struct coord *c, struct job *job, const struct sl_error *why)
{
    if (job->behind.paused || job_ended(job))
        return;
    LOG(ERROR, "job paused: the journal is older than what ran (I7)",
        "job=%s why=%s", job->id_text, why->text);
    happened_job(c, EVENT_JOB_BEHIND, job, NULL,
                 "%s is paused: the journal is older than what ran (I7): %s",
                 job->name, why->text);
    JOB_HISTORY(job, "paused", "");
    job->behind.paused = true;
    job->behind.why = sl_strdup(why->text); // NULL without memory
    list_for(n, &c->members.all)
    {
        leases_revoke_job(c, list_entry(n, struct member, node), job,
                          "the job is paused (I7)");
    }
    if (job->cuts.now != NULL && !job->cuts.now->writing)
        cuts_give_up(c, job, "the job is paused (I7)");
    serve_none(c, job);
    job->changes++;
}

// ---- jobs that the journal does not know

static bool behind_is_listed(const struct coord *c, uint64_t job,
                             const char *psserver)
{
    for (size_t i = 0; i < c->unknown_count; i++) {
        if (c->unknown[i].job == job &&
            strcmp(c->unknown[i].psserver, psserver) == 0)
            return true;
    }
    return false;
}

bool behind_knows_not(struct coord *c, uint64_t job)
{
    bool skipped = false;

    if (job > c->jobs.last)
        return true;
    return coord_wrote(
               c, journal_job_skipped(c->journal, job, &skipped, &c->err)) &&
           skipped;
}

static void behind_add_unknown(struct coord *c, const struct member *m,
                               const Sluice__V1__ShardHello *h)
{
    struct behind_job *b =
        sl_realloc_array(c->unknown, c->unknown_count + 1, sizeof(*b));

    if (b == NULL)
        return; // listed when it is shown again
    c->unknown = b;
    b = &c->unknown[c->unknown_count++];
    b->job = h->job;
    b->uid = h->job_uid;
    snprintf(b->psserver, sizeof(b->psserver), "%s", m->name);
    LOG(ERROR, "job unknown to this journal (I7)", "job=j-%llu psserver=%s",
        (ull)h->job, m->name);
}

void behind_list(struct coord *c, const struct member *m,
                 const Sluice__V1__ShardHello *h)
{
    if (behind_is_listed(c, h->job, m->name))
        return;
    // No number at or below it is given any more, so one message must not use
    // up the numbers.
    if (h->job > c->jobs.last && h->job - c->jobs.given > JUMP_MAX) {
        send_refuse(c, m, h->job, h->shard,
                    "this journal never gave a job that number", NULL);
        return;
    }
    if (h->job > c->jobs.last) {
        if (!coord_wrote(c, journal_jobs_skip(c->journal, c->jobs.last + 1,
                                              h->job, &c->err)))
            return;
        c->jobs.last = h->job;
    }
    // A list that is full keeps no number from being skipped.
    if (c->unknown_count < LISTED_MAX)
        behind_add_unknown(c, m, h);
}

enum sl_err behind_skip_stored(struct coord *c, struct sl_error *err)
{
    uint64_t job = 0;
    enum sl_err rc = stored_highest_job(c->stored, &job, err);

    if (rc != SL_OK || job <= c->jobs.last || job - c->jobs.last > JUMP_MAX)
        return rc;
    LOG(ERROR, "job unknown to this journal (I7)", "job=j-%llu store=%s",
        (ull)job, c->store);
    rc = journal_jobs_skip(c->journal, c->jobs.last + 1, job, err);
    if (rc == SL_OK)
        c->jobs.last = job;
    return rc;
}

static void close_everywhere(struct coord *c, const struct behind_job *b)
{
    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (m->role == MEMBER_PSSERVER && strcmp(m->name, b->psserver) == 0)
            send_close(c, m, b->job, b->uid, true);
    }
}

enum sl_err behind_delete(struct coord *c, const char *id, struct sl_error *err)
{
    unsigned long long number = 0;
    size_t kept = 0, had = c->unknown_count;
    int end = 0;

    if (c->dead) // no close would be sent
        return sl_fail(err, SL_EUNAVAIL, "the coordinator is stopping");
    if (sscanf(id, "j-%llu%n", &number, &end) != 1 || id[end] != '\0')
        number = 0;
    for (size_t i = 0; i < had; i++) {
        if (c->unknown[i].job == number)
            close_everywhere(c, &c->unknown[i]);
        else
            c->unknown[kept++] = c->unknown[i];
    }
    c->unknown_count = kept;
    return kept < had ? SL_OK
                      : sl_fail(err, SL_ENOENT, "there is no job %s", id);
}

void behind_release(struct coord *c)
{
    sl_free(c->unknown);
}
