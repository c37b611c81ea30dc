// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status/status_final.c -- the last status of a job that was
// stopped or has failed.
//
// The last status of a finished job is the sum of its last cut. Any other job
// ends while steps are under way: completions of workers are newer than reports
// of shards. So its last status is made of reports alone, whose numbers belong
// together. Each shard, when it is closed, reports its final counts, which go
// into the status; the sums are made and journalled before the status is shown,
// or with the next tick: thousands of shards may report at once.
//
// The rows of tables are those of the last report in every case: no cut counts
// them.
#include "coordinator/core/job.h"
#include "coordinator/core/shards/shard_rows.h"
#include "coordinator/core/status/job_status.h"

#include <string.h>

#include "common/base/buf.h"

// Says whether `said` is newer than `have`. Heartbeats do not report epochs; a
// shard's last report does.
static bool newer(const Sluice__V1__ShardCounts *said,
                  const Sluice__V1__ShardCounts *have)
{
    uint64_t others = said->duplicates + said->refused;
    uint64_t had = have->duplicates + have->refused;

    if (said->counted != have->counted)
        return said->counted > have->counted;
    return others > had || (others == had && said->n_epochs > 0);
}

// Takes a shard's counts. Returns false without memory, or if those at hand are
// as new.
static bool status_final_take_counts(Sluice__V1__ShardStatus *s,
                                     const Sluice__V1__ShardCounts *said)
{
    Sluice__V1__ShardCounts view = *said;
    ProtobufCMessage *copy = NULL;

    if (!newer(said, s->counts))
        return false;
    if (view.n_epochs == 0) {
        view.epochs = s->counts->epochs;
        view.n_epochs = s->counts->n_epochs;
    }
    if (wire_dup(&copy, &view.base) != SL_OK)
        return false;
    wire_free(&s->counts->base);
    s->counts = (Sluice__V1__ShardCounts *)copy;
    if (s->evidence_steps < s->counts->counted)
        s->evidence_steps = s->counts->counted;
    return true;
}

static void status_final_sum_shards(Sluice__V1__JobStatus *m,
                                    const struct job *job)
{
    const Sluice__V1__ShardCounts *fewest = NULL;

    m->updates_refused = m->duplicates = 0;
    m->updates_stale = m->updates_late = 0;
    for (size_t i = 0; i < m->n_shards; i++) {
        const Sluice__V1__ShardCounts *k = m->shards[i]->counts;

        m->updates_refused += k->refused;
        m->duplicates += k->duplicates;
        m->updates_stale += k->stale;
        m->updates_late += k->late;
        if (fewest == NULL || k->counted < fewest->counted)
            fewest = k;
    }
    if (fewest == NULL)
        return;
    m->steps_counted = fewest->counted;
    m->updates_applied = fewest->applied;
    m->updates_skipped = fewest->skipped;
    // A shard may not have reported yet.
    if (m->steps_counted < m->resumed_steps)
        m->steps_counted = m->resumed_steps;
    status_average(m, job);
}

static void status_final_sum_rows(Sluice__V1__JobStatus *m)
{
    m->rows = m->rows_bytes = 0;
    for (size_t i = 0; i < m->n_shards; i++)
        for (size_t t = 0; t < m->shards[i]->n_tables; t++) {
            m->rows += m->shards[i]->tables[t]->rows;
            m->rows_bytes += m->shards[i]->tables[t]->bytes;
        }
}

void status_settle(Sluice__V1__JobStatus *m, const struct job *job)
{
    const struct job_cut *last = job_last_cut(job);

    if (!job->shards.placed || job->state == JOB_FINISHED)
        return;
    // C4: a shard that is away has counted at least the durable steps.
    for (size_t i = 0;
         last != NULL && i < m->n_shards && i < last->counts->n_shards; i++)
        (void)status_final_take_counts(m->shards[i],
                                       last->counts->shards[i]->counts);
    status_final_sum_shards(m, job);
}

void status_final_keep(struct coord *c, struct job *job)
{
    struct buf packed = BUF_INIT;
    enum sl_err rc;

    if (!job->end.changed)
        return;
    job->end.changed = false;
    status_final_sum_rows(job->end.status);
    if (job->state != JOB_FINISHED)
        status_final_sum_shards(job->end.status, job);
    rc = wire_pack(&job->end.status->base, &packed);
    // If memory is short here, only a restart would bring the older status
    // back.
    if (rc == SL_OK)
        coord_wrote(
            c, journal_job_final(c->journal, job->id,
                                 (struct journal_blob){packed.data, packed.len},
                                 &c->err));
    buf_release(&packed);
}

void status_final_report(struct coord *c, const struct member *m,
                         struct job *job, const Sluice__V1__ShardReport *report)
{
    Sluice__V1__JobStatus *final = job->end.status;
    Sluice__V1__ShardStatus *s;
    bool taken;

    if (final == NULL || report->shard >= final->n_shards)
        return;
    s = final->shards[report->shard];
    if (s->incarnation == 0 || s->incarnation != report->incarnation ||
        strcmp(s->psserver, m->name) != 0)
        return; // C1, for numbers too
    taken = shard_rows_replace(s, report, (uint32_t) final->n_shards);
    if (job->state != JOB_FINISHED)
        taken = status_final_take_counts(s, report->counts) || taken;
    if (!taken)
        return;
    job->changes++;
    if (!job->end.changed) // thousands of shards may report at once
        c->io.changed(c->io.arg, job->id);
    job->end.changed = true;
}
