// SPDX-License-Identifier: Apache-2.0
// trainer/ring/rank_copy.c -- a state that comes from another rank, and the
// view of it that the other rank gives out.
//
// The view of a state, little-endian: its magic word; the bytes of its two
// messages; the bytes of all of it; the messages, CountedSet and ShardCounts;
// then values and slots of each part, by number, nothing between them.
#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "trainer/ring/packed.h"
#include "trainer/ring/rank_inner.h"

#define MAGIC UINT64_C(0x315f6b6e61726c73) // slrank_1
#define FETCH_BYTES ((size_t)4 << 20)      // most bytes of one piece

struct rank_view_head {
    uint64_t magic, set_bytes, counts_bytes, bytes;
};

static uint64_t memory_bytes(struct shard *const *parts, uint32_t count)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += shard_bytes(parts[i]);
    return bytes;
}

// ---- giving out

static size_t all_pieces(struct shard *const *parts, uint32_t count)
{
    size_t n = 0;

    for (uint32_t i = 0; i < count; i++)
        n += parts[i]->plan.piece_count;
    return n;
}

// Returns in *out, owned, the passed-over counts of the pieces of all parts;
// NULL if no piece was ever passed over.
static enum sl_err all_passed(uint64_t **out, const struct rank *r)
{
    size_t at = 0;
    bool any = false;

    *out = NULL;
    for (uint32_t i = 0; i < r->count; i++)
        any = any || r->parts[i]->once.passed != NULL;
    if (!any)
        return SL_OK;
    *out = sl_calloc(all_pieces(r->parts, r->count), sizeof(**out));
    if (*out == NULL)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct once *o = &r->parts[i]->once;

        if (o->passed != NULL)
            memcpy(*out + at, o->passed, o->passed_count * sizeof(**out));
        at += r->parts[i]->plan.piece_count;
    }
    return SL_OK;
}

enum sl_err rank_view_init(struct rank_view *v, const struct rank *r)
{
    struct rank_view_head head = {.magic = MAGIC};
    struct buf packed = BUF_INIT;
    uint64_t *passed;
    enum sl_err rc = all_passed(&passed, r);

    if (rc == SL_OK)
        rc = packed_once(&packed, rank_once(r), passed,
                         all_pieces(r->parts, r->count), &head.set_bytes,
                         &head.counts_bytes);
    sl_free(passed);
    *v = (struct rank_view){.rank = r, .head = BUF_INIT};
    head.bytes = sizeof(head) + packed.len + memory_bytes(r->parts, r->count);
    if (rc == SL_OK)
        rc = buf_append(&v->head, &head, sizeof(head));
    if (rc == SL_OK)
        rc = buf_append(&v->head, packed.data, packed.len);
    buf_release(&packed);
    if (rc != SL_OK)
        rank_view_release(v);
    else
        v->bytes = head.bytes;
    return rc;
}

void rank_view_release(struct rank_view *v)
{
    buf_release(&v->head);
    *v = (struct rank_view){0};
}

// Copies what [offset, offset + bytes) has in common with the `n` bytes that
// lie at `from` in the view.
static void copy_common(uint64_t offset, size_t bytes, uint8_t *into,
                        uint64_t from, const void *data, size_t n)
{
    uint64_t first = offset > from ? offset : from;
    uint64_t end = offset + bytes < from + n ? offset + bytes : from + n;

    if (first < end)
        memcpy(into + (first - offset), (const uint8_t *)data + (first - from),
               (size_t)(end - first));
}

enum sl_err rank_view_read(const struct rank_view *v, uint64_t offset,
                           size_t bytes, void *into)
{
    uint64_t at = v->head.len;

    if (offset > v->bytes || bytes > v->bytes - offset)
        return SL_ERANGE;
    copy_common(offset, bytes, into, 0, v->head.data, v->head.len);
    for (uint32_t i = 0; i < v->rank->count; i++) {
        struct shard *s = v->rank->parts[i];
        size_t n;

        if (update_is_behind(s))
            return SL_ESTALE;
        for (size_t of = 0; of < shard_bytes(s); of += n, at += n) {
            const void *memory = shard_memory_at(s, of, &n);

            copy_common(offset, bytes, into, at, memory, n);
        }
    }
    return SL_OK;
}

// ---- receiving

struct copy {
    rank_fetch_fn fetch;
    void *arg;
    struct rank_view_head head;
    struct shard **parts;
    uint32_t count;
};

static enum sl_err fetch_head(struct copy *c, struct sl_error *err)
{
    enum sl_err rc = c->fetch(c->arg, 0, sizeof(c->head), &c->head, err);
    const struct rank_view_head *h = &c->head;
    uint64_t memory = memory_bytes(c->parts, c->count);

    if (rc != SL_OK)
        return rc;
    if (h->magic != MAGIC || h->set_bytes > h->bytes ||
        h->counts_bytes > h->bytes ||
        h->bytes != sizeof(*h) + h->set_bytes + h->counts_bytes + memory)
        return sl_fail(err, SL_ECORRUPT,
                       "the rank's state has %" PRIu64 " bytes and %" PRIu64
                       " bytes of memory: it belongs to another job",
                       h->bytes, memory);
    return SL_OK;
}

// Gives a part its passed-over counts: those at *at of `all`, behind the counts
// of the parts before it.
static enum sl_err give_passed(struct shard *s, const struct once *all,
                               size_t *at)
{
    size_t n = s->plan.piece_count;

    sl_free(s->once.passed);
    s->once.passed = NULL;
    s->once.passed_count = 0;
    if (all->passed == NULL)
        return SL_OK;
    if (once_reserve_passed(&s->once, n) != SL_OK)
        return SL_ENOMEM;
    memcpy(s->once.passed, all->passed + *at, n * sizeof(*all->passed));
    *at += n;
    return SL_OK;
}

// Fetches the set and the numbers, which are the same in every part.
static enum sl_err fetch_once(struct copy *c, struct sl_error *err)
{
    size_t n = c->head.set_bytes + c->head.counts_bytes, at = 0;
    uint8_t *packed = sl_malloc(n);
    struct once once = {0};
    enum sl_err rc = packed == NULL ? SL_ENOMEM : SL_OK;

    if (rc == SL_OK)
        rc = c->fetch(c->arg, sizeof(c->head), n, packed, err);
    if (rc == SL_OK)
        rc = packed_read(&once, &c->parts[0]->plan.schedule,
                         all_pieces(c->parts, c->count), packed,
                         c->head.set_bytes, c->head.counts_bytes, err);
    for (uint32_t i = 0; rc == SL_OK && i < c->count; i++) {
        once_release(&c->parts[i]->once);
        rc = once_copy(&c->parts[i]->once, &once);
        if (rc == SL_OK)
            rc = give_passed(c->parts[i], &once, &at);
    }
    once_release(&once);
    sl_free(packed);
    return rc;
}

static enum sl_err fetch_memory(struct copy *c, struct sl_error *err)
{
    uint64_t at = sizeof(c->head) + c->head.set_bytes + c->head.counts_bytes;
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; i < c->count; i++) {
        const struct shard *s = c->parts[i];
        size_t n;

        for (size_t of = 0; rc == SL_OK && of < shard_bytes(s); of += n) {
            void *memory = shard_memory_at(s, of, &n);

            n = sl_min(n, FETCH_BYTES);
            rc = c->fetch(c->arg, at + of, n, memory, err);
        }
        at += shard_bytes(s);
    }
    return rc;
}

enum sl_err rank_receive(struct rank *r, const struct rank_job *j,
                         const Sluice__V1__RingBegin *begin,
                         rank_fetch_fn fetch, void *arg, struct sl_error *err)
{
    struct copy c = {.fetch = fetch, .arg = arg};
    enum sl_err rc = rank_set_new(&c.parts, &c.count, j, NULL, err);

    if (rc == SL_OK)
        rc = fetch_head(&c, err);
    if (rc == SL_OK)
        rc = fetch_once(&c, err);
    if (rc == SL_OK)
        rc = fetch_memory(&c, err);
    if (rc != SL_OK) {
        rank_set_free(c.parts, c.count);
        return rc;
    }
    rank_set_take(r, c.parts, c.count, j,
                  (struct wire_tag){begin->generation,
                                    wire_tag_of(begin->base_tag).sequence});
    return SL_OK;
}
