// SPDX-License-Identifier: Apache-2.0
// trainer/ring/say.c -- the messages of a rank, laid out on the stack and then
// copied whole.
#include "trainer/ring/say.h"

#include <string.h>

#include "common/base/fault.h"
#include "state/shard/counts.h"

// A counted set and its numbers, as messages that borrow from a struct once.
struct told {
    struct wire_counted set;
    struct counts_msg counts;
    enum sl_err rc;
};

// `t` must not move.
static void told_init(struct told *t, const struct once *o)
{
    *t = (struct told){0};
    t->rc = wire_counted_init(&t->set, &o->counted);
    if (t->rc == SL_OK)
        t->rc = counts_of_once(&t->counts, o);
}

static void told_release(struct told *t)
{
    wire_counted_release(&t->set);
    counts_release(&t->counts);
}

static Sluice__V1__AttendUp *
say_wrap_message(Sluice__V1__AttendUp__KindCase kind, ProtobufCMessage *m)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    ProtobufCMessage *out = NULL;

    up.kind_case = kind;
    // All members of the union are message pointers.
    up.hello = (Sluice__V1__Hello *)m;
    if (wire_dup(&out, &up.base) != SL_OK)
        return NULL;
    return (Sluice__V1__AttendUp *)out;
}

Sluice__V1__AttendUp *say_join(struct say_job j, struct wire_attempt attempt,
                               const struct ring_env *env)
{
    Sluice__V1__RingJoin m = SLUICE__V1__RING_JOIN__INIT;
    Sluice__V1__Attempt a = wire_attempt_msg(attempt);

    m.job = j.job;
    m.job_incarnation = j.job_incarnation;
    m.attempt = &a;
    m.address = (char *)env->address;
    m.host = (char *)env->host;
    m.copies = 1;
    m.lanes = 1;
    m.marks = 1;
    m.tokens = 1;
    return say_wrap_message(SLUICE__V1__ATTEND_UP__KIND_RING_JOIN, &m.base);
}

Sluice__V1__AttendUp *say_answer(struct say_job j, uint64_t generation,
                                 const struct rank *r)
{
    Sluice__V1__RingAnswer m = SLUICE__V1__RING_ANSWER__INIT;
    Sluice__V1__Tag tag = wire_tag_msg(r->tag);

    m.job = j.job;
    m.job_incarnation = j.job_incarnation;
    m.generation = generation;
    m.tag = &tag;
    m.skipped = r->skipped;
    return say_wrap_message(SLUICE__V1__ATTEND_UP__KIND_RING_ANSWER, &m.base);
}

Sluice__V1__AttendUp *say_ready(struct say_job j, const struct rank *r)
{
    Sluice__V1__RingReady m = SLUICE__V1__RING_READY__INIT;
    Sluice__V1__Tag tag = wire_tag_msg(r->tag);
    Sluice__V1__AttendUp *up = NULL;
    struct told told;

    told_init(&told, rank_once(r));
    m.job = j.job;
    m.job_incarnation = j.job_incarnation;
    m.generation = r->tag.incarnation;
    m.tag = &tag;
    m.counted = &told.set.msg;
    m.counts = &told.counts.msg;
    if (told.rc == SL_OK)
        up = say_wrap_message(SLUICE__V1__ATTEND_UP__KIND_RING_READY, &m.base);
    told_release(&told);
    return up;
}

Sluice__V1__AttendUp *say_ready_bare(struct say_job j, uint64_t generation)
{
    Sluice__V1__RingReady m = SLUICE__V1__RING_READY__INIT;
    Sluice__V1__Tag tag = wire_tag_msg((struct wire_tag){generation, 0});
    Sluice__V1__CountedSet nothing = SLUICE__V1__COUNTED_SET__INIT;
    Sluice__V1__ShardCounts none = SLUICE__V1__SHARD_COUNTS__INIT;

    m.job = j.job;
    m.job_incarnation = j.job_incarnation;
    m.generation = generation;
    m.tag = &tag;
    m.counted = &nothing;
    m.counts = &none;
    return say_wrap_message(SLUICE__V1__ATTEND_UP__KIND_RING_READY, &m.base);
}

Sluice__V1__AttendUp *say_copied(struct say_job j, uint64_t generation,
                                 struct wire_tag at)
{
    Sluice__V1__RingCopied m = SLUICE__V1__RING_COPIED__INIT;
    Sluice__V1__Tag tag = wire_tag_msg(at);

    m.job = j.job;
    m.job_incarnation = j.job_incarnation;
    m.generation = generation;
    m.tag = &tag;
    return say_wrap_message(SLUICE__V1__ATTEND_UP__KIND_RING_COPIED, &m.base);
}

Sluice__V1__AttendUp *say_step(struct say_job j, const struct rank *r,
                               struct say_beside beside)
{
    Sluice__V1__RingStep m = SLUICE__V1__RING_STEP__INIT;
    Sluice__V1__AttendUp *up = NULL;
    struct counts_msg counts = {0};
    enum sl_err rc = counts_of_once(&counts, rank_once(r));

    m.job = j.job;
    m.job_incarnation = j.job_incarnation;
    m.generation = r->tag.incarnation;
    m.sequence = r->tag.sequence;
    m.skipped = r->skipped;
    m.counts = &counts.msg;
    m.metrics = beside.metrics;
    m.repeats = beside.repeats;
    m.n_repeats = beside.repeats_count;
    counts.msg.n_epochs = 0;
    if (rc == SL_OK)
        up = say_wrap_message(SLUICE__V1__ATTEND_UP__KIND_RING_STEP, &m.base);
    counts_release(&counts);
    return up;
}

Sluice__V1__AttendUp *say_shares(struct say_job j, uint64_t generation,
                                 Sluice__V1__Repeat **repeats, size_t n)
{
    Sluice__V1__RingStep m = SLUICE__V1__RING_STEP__INIT;
    Sluice__V1__ShardCounts none = SLUICE__V1__SHARD_COUNTS__INIT;

    m.job = j.job;
    m.job_incarnation = j.job_incarnation;
    m.generation = generation;
    m.counts = &none;
    m.repeats = repeats;
    m.n_repeats = n;
    return say_wrap_message(SLUICE__V1__ATTEND_UP__KIND_RING_STEP, &m.base);
}

bool say_is_broken(uint32_t suspect, enum sl_err why)
{
    return suspect != RING_NO_SUSPECT ||
           (why != SL_ESTALE && why != SL_ECANCELED);
}

Sluice__V1__AttendUp *say_broken(struct say_job j, uint64_t generation,
                                 uint32_t suspect, const char *why)
{
    Sluice__V1__RingBroken m = SLUICE__V1__RING_BROKEN__INIT;

    m.job = j.job;
    m.job_incarnation = j.job_incarnation;
    m.generation = generation;
    m.suspect = suspect;
    m.why = (char *)why;
    return say_wrap_message(SLUICE__V1__ATTEND_UP__KIND_RING_BROKEN, &m.base);
}

Sluice__V1__AttendUp *say_snapshot(struct say_job j,
                                   const struct seat_request *r,
                                   const struct snap_written *w,
                                   const char *folder)
{
    Sluice__V1__SnapshotReport m = SLUICE__V1__SNAPSHOT_REPORT__INIT;
    Sluice__V1__Tag tag = wire_tag_msg(w->tag);
    Sluice__V1__AttendUp *up = NULL;
    struct told told;

    told_init(&told, &w->once);
    m.job = j.job;
    m.job_incarnation = j.job_incarnation;
    m.shard = r->part;
    m.tag = &tag;
    m.file = (char *)w->file;
    m.folder = (char *)folder;
    m.file_bytes = w->bytes;
    m.sha256.data = (uint8_t *)w->sha256;
    m.sha256.len = SHA256_BYTES;
    m.counted = &told.set.msg;
    m.counts = &told.counts.msg;
    m.request = r->request;
    m.not_finite = (char *)w->not_finite;
    if (told.rc == SL_OK)
        up = say_wrap_message(SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT, &m.base);
    FAULT("snap.reported");
    told_release(&told);
    return up;
}

Sluice__V1__AttendUp *say_no_snapshot(struct say_job j,
                                      const struct seat_request *r,
                                      struct wire_tag at, const char *why)
{
    Sluice__V1__SnapshotReport m = SLUICE__V1__SNAPSHOT_REPORT__INIT;
    Sluice__V1__Tag tag = wire_tag_msg(at);

    m.job = j.job;
    m.job_incarnation = j.job_incarnation;
    m.shard = r->part;
    m.request = r->request;
    m.tag = &tag;
    m.failure = (char *)why;
    return say_wrap_message(SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT, &m.base);
}
