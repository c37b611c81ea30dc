// SPDX-License-Identifier: Apache-2.0
// tests/sim/books.c -- see books.h.
#include "tests/sim/books.h"

#include "coordinator/core/job.h"
#include "coordinator/journal/journal.h"

// ---- shards

struct shard_query {
    uint32_t shard;
    uint64_t incarnation;
};

static enum sl_err on_shard(void *arg, const struct journal_shard *row,
                            struct sl_error *err)
{
    struct shard_query *q = arg;

    if (row->shard == q->shard)
        q->incarnation = row->incarnation;
    return SL_OK;
}

void books_check_admit(struct sim *s, uint32_t shard, uint64_t incarnation)
{
    struct shard_query q = {.shard = shard};

    T_OK(journal_each_shard(s->journal, s->job, on_shard, &q, t_err()));
    if (q.incarnation != incarnation)
        T_FAIL("I1: shard %u was told incarnation %llu, the journal has %llu",
               shard, (unsigned long long)incarnation,
               (unsigned long long)q.incarnation);
}

// ---- jobs

static enum sl_err on_job(void *arg, const struct journal_job *row,
                          struct sl_error *err)
{
    *(int *)arg = row->state;
    return SL_OK;
}

void books_check_ended(struct sim *s)
{
    int state = 0;

    T_OK(journal_job_read(s->journal, s->job, on_job, &state, t_err()));
    if (state < JOB_FINISHED)
        T_FAIL("E2: the end of the job was told, the journal has %s",
               job_state_name((enum job_state)state));
}

// ---- cuts

struct cut_query {
    struct sim *sim;
    uint64_t cut, low;
    enum journal_cut_state state;
    struct books_intents *intents;
};

static enum sl_err on_cut(void *arg, const struct journal_cut *row,
                          struct sl_error *err)
{
    struct cut_query *q = arg;

    if (row->cut == q->cut) {
        q->low = row->low;
        q->state = row->state;
    }
    if (q->intents != NULL && row->state == JOURNAL_CUT_INTENT) {
        struct books_intents *i = q->intents;

        T_LT(i->count, SL_COUNT(i->cut));
        i->cut[i->count] = row->cut;
        i->there[i->count++] =
            fs_exists(crash_fs_ops(q->sim->hosts[0]), row->path);
    }
    return SL_OK;
}

static void walk(struct sim *s, struct cut_query *q)
{
    q->sim = s;
    if (s->job != 0)
        T_OK(journal_each_cut(s->journal, s->job, on_cut, q, t_err()));
}

uint64_t books_low(struct sim *s, uint64_t cut)
{
    struct cut_query q = {.cut = cut};

    walk(s, &q);
    T_EQ(q.state, JOURNAL_CUT_PUBLISHED);
    return q.low;
}

void books_intents(struct sim *s, struct books_intents *out)
{
    struct cut_query q = {.intents = out};

    *out = (struct books_intents){0};
    walk(s, &q);
}

void books_check_settled(struct sim *s, const struct books_intents *before)
{
    for (unsigned i = 0; i < before->count; i++) {
        struct cut_query q = {.cut = before->cut[i]};

        walk(s, &q);
        if (q.state !=
            (before->there[i] ? JOURNAL_CUT_PUBLISHED : JOURNAL_CUT_ABORTED))
            T_FAIL("K6: cut %llu was settled as %d; its manifest was %s",
                   (unsigned long long)before->cut[i], (int)q.state,
                   before->there[i] ? "there" : "not there");
        s->seen.intents++;
    }
}
