// SPDX-License-Identifier: Apache-2.0
// tests/sim/cuts.c -- what a published cut promises, against the disks.
//
// K4: it names snapshots of the newest incarnations, of every shard, and its
// manifest is durable. `durable`, K3: whatever dies afterwards, the files of
// all cuts that are kept are there and are what they were.
#include <inttypes.h>

#include "common/base/buf.h"
#include "common/base/hash.h"
#include "tests/sim/books.h"
#include "tests/sim/boss.h"
#include "tests/sim/disk.h"
#include "tests/sim/rings.h"
#include "tests/sim/truth_own.h"

static struct crash_fs *disk_of(struct sim *s, const char *psserver)
{
    for (uint32_t i = 0; i < s->slots_count; i++)
        if (strcmp(s->slots[i].name, psserver) == 0)
            return disk_for(s, SIM_SERVER, s->slots[i].host);
    T_FAIL("a cut names psserver '%s', which nobody knows", psserver);
}

static void digest(const struct buf *bytes, uint8_t out[SHA256_BYTES])
{
    struct sha256 h;

    T_OK(sha256_init(&h));
    T_OK(sha256_update(&h, bytes->data, bytes->len));
    T_OK(sha256_final(&h, out));
}

void cuts_check_file(const Sluice__V1__CheckpointShard *f, struct fs *fs,
                     struct shard *read, const struct ledger *ledger, bool full)
{
    struct wire_tag tag = wire_tag_of(f->tag);
    struct buf bytes = BUF_INIT;
    uint8_t sha[SHA256_BYTES];
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", f->folder, f->file);
    if (!fs_exists(fs, path))
        T_FAIL("durable: shard %u of a cut that is kept, %s on %s, is gone "
               "(K2, K3)",
               f->shard, path, f->psserver);
    T_OK(fs_read_all(fs, path, 1 << 20, &bytes, t_err()));
    T_EQ(bytes.len, f->file_bytes);
    digest(&bytes, sha);
    T_MEM(sha, f->sha256.data, SHA256_BYTES);
    buf_release(&bytes);
    T_OK(snap_read(fs, f->folder, tag, (struct wire_tag){0, 0}, read, t_err()));
    T_TRUE(ledger != NULL);
    truth_equal(ledger, &read->once.counted);
    truth_values(ledger, read->memory.values, read->plan.elements);
    truth_rows(ledger, read);
    T_EQ(f->steps, counted_steps(&read->once.counted));
    if (full)
        T_TRUE(counted_full(&read->once.counted)); // E1
}

static void cuts_file(struct sim *s, const Sluice__V1__CheckpointShard *f,
                      bool full)
{
    struct shard *read = truth_shard(s, f->shard);

    cuts_check_file(f, crash_fs_ops(disk_of(s, f->psserver)), read,
                    truth_snapshot(s, f->shard, wire_tag_of(f->tag)), full);
    shard_unref(read);
}

void cuts_verify(struct sim *s)
{
    Sluice__V1__CheckpointsReply *cuts = s->truth->cuts;

    for (size_t i = 0; cuts != NULL && i < cuts->n_checkpoints; i++) {
        const Sluice__V1__Checkpoint *c = cuts->checkpoints[i];

        if (!fs_exists(crash_fs_ops(s->hosts[0]), c->manifest))
            T_FAIL("durable: the manifest of cut %" PRIu64 " is gone", c->cut);
        if (s->knobs.mode == SIM_RING)
            rings_verify(s, c);
        for (size_t k = 0; s->knobs.mode != SIM_RING && k < c->n_shards; k++)
            cuts_file(s, c->shards[k], c->complete);
    }
}

// K4, at the moment that it exists; K5: nobody was admitted since its intent.
// (In the very call that publishes it, hellos that waited are admitted.)
static void check_new(struct sim *s, const Sluice__V1__Checkpoint *c)
{
    uint64_t steps = UINT64_MAX, low = UINT64_MAX;

    T_EQ(c->n_shards, s->shards);
    if (!crash_fs_durable(s->hosts[0], c->manifest))
        T_FAIL("K4: cut %" PRIu64 " exists, and its manifest is not durable",
               c->cut);
    if (s->knobs.mode == SIM_RING) {
        rings_cut(s, c);
        return;
    }
    for (uint32_t i = 0; i < c->n_shards; i++) {
        T_EQ(c->shards[i]->shard, i);
        if (c->shards[i]->tag->incarnation != truth_marked(s, i))
            T_FAIL("K4: cut %" PRIu64 " names incarnation %" PRIu64
                   " of shard %u, the newest was %" PRIu64,
                   c->cut, c->shards[i]->tag->incarnation, i,
                   truth_marked(s, i));
    }
    for (uint32_t i = 0; i < c->n_shards; i++) {
        const struct ledger *l =
            truth_snapshot(s, i, wire_tag_of(c->shards[i]->tag));

        T_TRUE(l != NULL);
        steps = c->shards[i]->steps < steps ? c->shards[i]->steps : steps;
        low = truth_low(s, l) < low ? truth_low(s, l) : low;
    }
    T_EQ(c->steps, steps);           // E3
    T_EQ(books_low(s, c->cut), low); // C4
    s->seen.cuts++;
}

void cuts_look(struct sim *s)
{
    struct boss_sight now;
    Sluice__V1__CheckpointsReply *reply;
    const Sluice__V1__Checkpoint *last;

    if (!boss_look(s, &now) || now.cuts == s->truth->cuts_seen)
        return;
    reply = boss_cuts(s);
    wire_free((ProtobufCMessage *)s->truth->cuts);
    s->truth->cuts = reply;
    if (now.last_cut > s->truth->last_cut) {
        T_GT(reply->n_checkpoints, 0);
        last = reply->checkpoints[reply->n_checkpoints - 1];
        T_EQ(last->cut, now.last_cut);
        check_new(s, last);
        s->truth->last_cut = now.last_cut;
    }
    s->truth->cuts_seen = now.cuts;
    cuts_verify(s);
}

static struct wire_tag tag_in(struct sim *s, size_t cut, uint32_t shard)
{
    return wire_tag_of(s->truth->cuts->checkpoints[cut]->shards[shard]->tag);
}

struct wire_tag cuts_last(struct sim *s, uint32_t shard)
{
    const Sluice__V1__CheckpointsReply *cuts = s->truth->cuts;

    return cuts == NULL || cuts->n_checkpoints == 0
               ? (struct wire_tag){0, 0}
               : tag_in(s, cuts->n_checkpoints - 1, shard);
}

struct wire_tag cuts_oldest(struct sim *s, uint32_t shard)
{
    const Sluice__V1__CheckpointsReply *cuts = s->truth->cuts;
    struct wire_tag oldest = {0, 0}, tag;

    for (size_t i = 0; cuts != NULL && i < cuts->n_checkpoints; i++) {
        tag = tag_in(s, i, shard);
        if (i == 0 || wire_tag_cmp(tag, oldest) < 0)
            oldest = tag;
    }
    return oldest;
}

bool cuts_any(struct sim *s)
{
    return s->truth->last_cut > 0;
}

void cuts_free(struct sim *s)
{
    wire_free((ProtobufCMessage *)s->truth->cuts);
}
