// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/send_ring.c -- messages to ranks: a generation is
// opened, begins, goes.
#include "coordinator/core/modes/send_ring.h"

#include "common/base/mem.h"
#include "coordinator/core/job.h"
#include "coordinator/core/send.h"
#include "coordinator/core/tokens.h"

#define DOWN(name_, KIND, field_, value_)                                      \
    Sluice__V1__AttendDown name_ = SLUICE__V1__ATTEND_DOWN__INIT;              \
    name_.kind_case = SLUICE__V1__ATTEND_DOWN__KIND_##KIND;                    \
    name_.field_ = (value_)

void send_ring_open(struct coord *c, const struct job *job,
                    const struct ring *ring, uint64_t member)
{
    Sluice__V1__RingOpen msg = SLUICE__V1__RING_OPEN__INIT;
    DOWN(down, RING_OPEN, ring_open, &msg);

    msg.term = c->term;
    msg.job = job->id;
    msg.job_incarnation = job->incarnation;
    msg.generation = ring->generation;
    msg.job_uid = job->uid;
    send_down(c, member, &down);
}

void send_ring_go(struct coord *c, const struct job *job,
                  const struct ring *ring, uint64_t member)
{
    Sluice__V1__RingGo msg = SLUICE__V1__RING_GO__INIT;
    DOWN(down, RING_GO, ring_go, &msg);

    msg.term = c->term;
    msg.job = job->id;
    msg.job_incarnation = job->incarnation;
    msg.generation = ring->generation;
    send_down(c, member, &down);
}

// Storage for the repeated fields of RingBegin.
struct begin_parts {
    Sluice__V1__RingRank *ranks; // ours; their texts are borrowed
    Sluice__V1__RingRank **rank_list;
    uint32_t *holders;
    size_t holders_count;
    Sluice__V1__SourceFile *files; // ours; their texts are borrowed
    Sluice__V1__SourceFile **file_list;
    size_t files_count;
};

static void begin_parts_release(struct begin_parts *p)
{
    sl_free(p->ranks);
    sl_free(p->rank_list);
    sl_free(p->holders);
    sl_free(p->files);
    sl_free(p->file_list);
}

static enum sl_err take_ranks(struct coord *c, struct begin_parts *p,
                              const struct ring *ring)
{
    p->ranks = sl_calloc(ring->members, sizeof(p->ranks[0]));
    p->rank_list = sl_calloc(ring->members, sizeof(p->rank_list[0]));
    p->holders = sl_calloc(ring->members, sizeof(p->holders[0]));
    if (p->ranks == NULL || p->rank_list == NULL || p->holders == NULL)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < ring->members; i++) {
        struct ring_rank *rank = ring_member(ring, i);
        const struct member *m = members_get(&c->members, rank->member);
        Sluice__V1__RingRank *to = &p->ranks[i];

        *to = (Sluice__V1__RingRank)SLUICE__V1__RING_RANK__INIT;
        to->process = rank->process;
        to->name = m == NULL ? (char *)"gone" : m->name;
        to->address = rank->address;
        to->host = rank->host;
        p->rank_list[i] = to;
        if (rank->holds)
            p->holders[p->holders_count++] = i;
    }
    return SL_OK;
}

static enum sl_err send_ring_fill_weights(struct begin_parts *p,
                                          const struct job *job)
{
    p->files = sl_calloc(1, sizeof(p->files[0]));
    p->file_list = sl_calloc(1, sizeof(p->file_list[0]));
    if (p->files == NULL || p->file_list == NULL)
        return SL_ENOMEM;
    p->files[0] = send_weights(job);
    p->file_list[0] = &p->files[0];
    p->files_count = 1;
    return SL_OK;
}

// Lists the files that hold the base, which no rank holds: those of the last
// cut, or those that the job was resumed from; none for the seed.
static enum sl_err take_files(struct begin_parts *p, const struct job *job)
{
    const struct job_cut *last = job_last_cut(job);
    bool own = job->ring.base.incarnation != 0 && last != NULL;
    const Sluice__V1__Checkpoint *cut = own ? last->checkpoint
                                        : job->resume != NULL
                                            ? job->resume->cut->checkpoints[0]
                                            : NULL;
    size_t count;

    if (!job->ring.base_is_file) // a group has no base
        return SL_OK;
    if (cut == NULL)
        return job_weights_file(job) == NULL
                   ? SL_OK // the seed; tables are on shards beside the ring
                   : send_ring_fill_weights(p, job);
    // Files of its own cut: those of shards beside the ring are not for ranks.
    count = own ? job->shards.parts : cut->n_shards;
    p->files = sl_calloc(count, sizeof(p->files[0]));
    p->file_list = sl_calloc(count, sizeof(p->file_list[0]));
    if (p->files == NULL || p->file_list == NULL)
        return SL_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        Sluice__V1__SourceFile *file = &p->files[i];

        *file = (Sluice__V1__SourceFile)SLUICE__V1__SOURCE_FILE__INIT;
        file->folder = cut->shards[i]->folder;
        file->file = cut->shards[i]->file;
        file->sha256 = cut->shards[i]->sha256;
        p->file_list[i] = file;
    }
    p->files_count = count;
    return SL_OK;
}

void send_ring_begin(struct coord *c, const struct job *job,
                     const struct ring *ring, uint64_t member)
{
    Sluice__V1__RingBegin msg = SLUICE__V1__RING_BEGIN__INIT;
    Sluice__V1__Tag base = wire_tag_msg(ring->base);
    Sluice__V1__JobToken token = SLUICE__V1__JOB_TOKEN__INIT;
    struct begin_parts parts = {.ranks = NULL};
    DOWN(down, RING_BEGIN, ring_begin, &msg);
    enum sl_err rc = take_ranks(c, &parts, ring);

    if (rc == SL_OK)
        rc = take_files(&parts, job);
    msg.term = c->term;
    msg.job = job->id;
    msg.job_incarnation = job->incarnation;
    msg.generation = ring->generation;
    msg.job_uid = job->uid;
    msg.ranks = parts.rank_list;
    msg.n_ranks = ring->members;
    msg.self = ring_index(ring, member);
    msg.base_tag = &base;
    msg.holders = parts.holders;
    msg.n_holders = parts.holders_count;
    msg.sources = parts.file_list;
    msg.n_sources = parts.files_count;
    msg.contributions = ring == &job->ring ? job->rounds.contributions : 1;
    msg.lanes = ring_lanes(ring);
    msg.marks = ring_marks(ring);
    if (ring_tokens(ring) && tokens_make_ring(c, job, ring->generation, &token))
        msg.token = &token;
    if (rc == SL_OK)
        send_down(c, member, &down);
    else
        send_give_up(c, member);
    begin_parts_release(&parts);
}

void send_ring_copy(struct coord *c, const struct job *job, uint64_t member)
{
    Sluice__V1__RingCopy msg = SLUICE__V1__RING_COPY__INIT;
    Sluice__V1__JobToken token = SLUICE__V1__JOB_TOKEN__INIT;
    struct begin_parts parts = {.ranks = NULL};
    DOWN(down, RING_COPY, ring_copy, &msg);
    enum sl_err rc = take_ranks(c, &parts, &job->ring);

    msg.term = c->term;
    msg.job = job->id;
    msg.job_incarnation = job->incarnation;
    msg.generation = job->ring.generation;
    msg.job_uid = job->uid;
    msg.ranks = parts.rank_list;
    msg.n_ranks = job->ring.members;
    if (ring_tokens(&job->ring) &&
        tokens_make_ring(c, job, job->ring.generation, &token))
        msg.token = &token;
    if (rc == SL_OK)
        send_down(c, member, &down);
    else
        send_give_up(c, member);
    begin_parts_release(&parts);
}
