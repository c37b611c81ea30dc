// SPDX-License-Identifier: Apache-2.0
// state/rows/row_store.c -- look-ups that overlap, growth, and the record that
// makes place.
#include "state/rows/row_store.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"

#define SAMPLE 16       // records that a new one is weighed against
#define SAMPLES_MOST 64 // times that so many are looked at in vain
// Huge pages are for a large index: each table has some that are not full.
#define HUGE_LEAST ((uint64_t)16 << 20)
#define TIDIES_MOST 16 // buckets that are moved when one grows
// Lines that begin to come together. A core has some twenty on their way and
// stands still for more: reads of rows of 64 values in batches of 16, 8, 4 and
// 2 make 0.54, 0.56, 0.62 and 0.52 of a gather on a Zen 3, rows of 16 values in
// batches of 16, 8 and 4 make 0.51, 0.50 and 0.47.
#define LINES_MOST 20

static uint32_t batch_of(size_t stride)
{
    size_t lines = sl_ceil_div(stride, ROW_LINE);

    return lines * ROW_BATCH <= LINES_MOST ? ROW_BATCH : ROW_BATCH / 2;
}

static uint64_t buckets_bytes(const struct row_store *s)
{
    return s->own * sizeof(*s->bucket);
}

enum sl_err row_store_init(struct row_store *s, size_t stride, uint32_t first,
                           uint32_t own, uint32_t buckets, uint32_t limit,
                           struct row_account *account)
{
    struct row_store made = {.account = account,
                             .first = first,
                             .own = own,
                             .buckets = buckets,
                             .limit = limit,
                             .gone = {.account = account}};
    enum sl_err rc = row_account_take(account, buckets_bytes(&made), false);

    *s = (struct row_store){.bucket = NULL};
    if (rc != SL_OK)
        return rc;
    made.bucket = sl_calloc(own, sizeof(*s->bucket));
    if (made.bucket == NULL) {
        row_account_give(account, buckets_bytes(&made), false);
        return SL_ENOMEM;
    }
    *s = made;
    row_arena_init(&s->arena);
    for (uint32_t i = 0; i < own; i++)
        row_bucket_init(&s->bucket[i]);
    row_pool_init(&s->pool, stride, limit, account);
    s->batch = batch_of(stride);
    return SL_OK;
}

void row_store_release(struct row_store *s)
{
    if (s->bucket == NULL)
        return;
    row_store_thaw(s);
    row_gone_release(&s->gone);
    for (uint32_t i = 0; i < s->own; i++)
        row_bucket_release(&s->bucket[i], &s->arena);
    row_arena_release(&s->arena);
    sl_free(s->bucket);
    row_account_give(s->account, buckets_bytes(s) + s->index_bytes, false);
    row_tier_free(s);
    row_pool_release(&s->pool);
    *s = (struct row_store){.bucket = NULL};
}

// ---- look-ups

static const struct row_bucket nowhere = {
    .group = (struct row_group *)&row_group_none, .groups = 1};

static const struct row_bucket *bucket_of(const struct row_store *s,
                                          uint64_t hash)
{
    uint32_t b = row_store_bucket(s, hash);

    return b < s->own ? &s->bucket[b] : &nowhere;
}

static uint32_t find_in(const struct row_store *s, const struct row_bucket *b,
                        uint64_t hash, uint64_t id)
{
    uint32_t at = row_group_of(hash, b->groups), match;
    const struct row_group *g;

    for (uint32_t tries = 0; tries < b->groups; tries++) {
        g = &b->group[at];
        match = row_group_match(g, row_tag(hash));
        for (; match != 0; match &= match - 1) {
            uint32_t number = g->row[__builtin_ctz(match)];

            if (row_store_at(s, number)->id == id)
                return number;
        }
        if ((g->overflow & row_overflow_bit(hash)) == 0)
            break;
        at = at + 1 == b->groups ? 0 : at + 1;
    }
    return ROW_NONE;
}

uint32_t row_store_find(const struct row_store *s, uint64_t hash, uint64_t id)
{
    return find_in(s, bucket_of(s, hash), hash, id);
}

// A core that looks up where a page lies begins little that comes long after
// it. So each stage is a loop of its own, short enough for several ids to be
// under way: one loop over all stages takes 1.4 times as long, as soon as the
// rows are some gigabytes.

// The groups of the next ids begin to come.
static void finder_begin(struct row_finder *f, struct row_batch *batch)
{
    size_t n = sl_min(f->left, f->store->batch);

    batch->n = n;
    batch->ids = f->ids;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = table_hash(table_id(f->ids, i));
        const struct row_bucket *b = bucket_of(f->store, hash);

        batch->hash[i] = hash;
        batch->bucket[i] = b;
        batch->group[i] = row_group_of(hash, b->groups);
        batch->number[i] = ROW_NONE;
        ROW_LINE_SOON(&b->group[batch->group[i]]);
    }
    f->ids += n * sizeof(uint64_t);
    f->left -= n;
}

// The groups are there: the headers of the records that tags hint at begin to
// come (also of the second, which one in thirty ids has), or the groups behind.
static void finder_look(const struct row_finder *f, struct row_batch *batch)
{
    for (size_t i = 0; i < batch->n; i++) {
        const struct row_bucket *b = batch->bucket[i];
        uint32_t at = batch->group[i], match;
        const struct row_group *g = &b->group[at];

        if (at == b->groups)
            continue;
        batch->group[i] = b->groups;
        match = row_group_match(g, row_tag(batch->hash[i]));
        if (match != 0) {
            batch->number[i] = g->row[__builtin_ctz(match)];
            for (; match != 0; match &= match - 1)
                ROW_LINE_SOON(
                    row_store_at(f->store, g->row[__builtin_ctz(match)]));
        } else if ((g->overflow & row_overflow_bit(batch->hash[i])) != 0) {
            batch->group[i] = at + 1 == b->groups ? 0 : at + 1;
            ROW_LINE_SOON(&b->group[batch->group[i]]);
        }
    }
}

// The pages of the records are found: all their lines begin to come.
static void finder_load(const struct row_finder *f,
                        const struct row_batch *batch)
{
    row_store_soon(f->store, batch->n, batch->number, ROW_LINE);
}

// The records are there: a hint is right if the id is.
static void finder_end(const struct row_finder *f, struct row_batch *batch)
{
    for (size_t i = 0; i < batch->n; i++) {
        uint64_t id = table_id(batch->ids, i);
        uint32_t number = batch->number[i];

        if (number == ROW_NONE || row_store_at(f->store, number)->id != id)
            batch->number[i] =
                find_in(f->store, batch->bucket[i], batch->hash[i], id);
    }
}

void row_finder_init(struct row_finder *f, const struct row_store *s, size_t n,
                     const void *ids)
{
    f->store = s;
    f->ids = ids;
    f->left = n;
    f->turn = 0;
    for (unsigned i = 0; i + 1 < ROW_STAGES; i++)
        finder_begin(f, &f->batch[i]);
    finder_look(f, &f->batch[0]);
    finder_look(f, &f->batch[1]);
    finder_look(f, &f->batch[0]);
    finder_load(f, &f->batch[0]);
}

size_t row_finder_next(struct row_finder *f, const uint32_t **number)
{
    struct row_batch *batch = &f->batch[f->turn % ROW_STAGES];

    finder_begin(f, &f->batch[(f->turn + 3) % ROW_STAGES]);
    finder_look(f, &f->batch[(f->turn + 2) % ROW_STAGES]);
    finder_look(f, &f->batch[(f->turn + 1) % ROW_STAGES]);
    finder_load(f, &f->batch[(f->turn + 1) % ROW_STAGES]);
    finder_end(f, batch);
    f->turn++;
    *number = batch->number;
    return batch->n;
}

// ---- memory

static void prefetch_group(const struct row_store *s, const struct row_group *g)
{
    for (unsigned k = 0; k < ROW_GROUP; k++)
        if (g->tag[k] != 0)
            ROW_LINE_SOON(row_store_at(s, g->row[k]));
    ROW_KEEP_CALLS(g);
}

// Fills the holes that buckets leave when they grow, some at a time.
static void row_store_tidy(struct row_store *s)
{
    void *at;
    uint32_t b;

    for (int i = 0; i < TIDIES_MOST; i++) {
        at = row_arena_tidy(&s->arena, &b);
        if (at == NULL)
            return;
        s->bucket[b].group = at;
    }
}

// A tag does not say the hash, so the records are read, a group ahead.
static enum sl_err bucket_make_room(struct row_store *s, struct row_bucket *b,
                                    uint64_t more)
{
    bool large = s->index_bytes >= HUGE_LEAST;
    struct row_bucket grown;
    enum sl_err rc;

    if (more <= b->room)
        return SL_OK;
    rc = row_bucket_grow(&grown, b, more, s->account, large ? &s->arena : NULL,
                         (uint32_t)(b - s->bucket));
    if (rc != SL_OK)
        return rc;
    for (uint32_t i = 0; i < b->groups; i++) {
        const struct row_group *g = &b->group[i];

        if (i + 1 < b->groups)
            prefetch_group(s, g + 1);
        for (unsigned k = 0; k < ROW_GROUP; k++)
            if (g->tag[k] != 0)
                row_bucket_add(&grown,
                               table_hash(row_store_at(s, g->row[k])->id),
                               g->row[k]);
    }
    s->index_bytes += row_bucket_bytes(&grown) - row_bucket_bytes(b);
    row_bucket_release(b, &s->arena);
    *b = grown;
    row_store_tidy(s);
    return SL_OK;
}

struct row_saved {
    struct row_saved *next;
    uint32_t count, taken, room; // records saved, walked, and that fit
    uint8_t record[];
};

#define SAVED_BYTES ((size_t)256 << 10)

static uint64_t saved_bytes(const struct row_store *s, uint32_t room)
{
    return sizeof(struct row_saved) + room * s->pool.stride;
}

static void saved_free(struct row_store *s, struct row_saved *piece)
{
    row_account_give(s->account, saved_bytes(s, piece->room), true);
    sl_free(piece);
}

// Where rows may lie in files memory is always short: no more is taken than is
// needed.
static enum sl_err saved_new(struct row_store *s, uint64_t n,
                             struct row_saved **out)
{
    uint32_t most = (uint32_t)(SAVED_BYTES / s->pool.stride) + 1;
    bool is_short = s->account != NULL && s->account->stores != NULL;
    uint32_t room = is_short ? (uint32_t)sl_min(most, n) : most;
    enum sl_err rc = row_account_take(s->account, saved_bytes(s, room), true);

    if (rc != SL_OK)
        return rc;
    *out = sl_malloc(saved_bytes(s, room));
    if (*out == NULL) {
        row_account_give(s->account, saved_bytes(s, room), true);
        return SL_ENOMEM;
    }
    **out = (struct row_saved){.room = room};
    return SL_OK;
}

static enum sl_err row_store_reserve_saved(struct row_store *s, uint64_t n)
{
    while (s->frozen && s->saved_room < n) {
        struct row_saved *piece;
        enum sl_err rc = saved_new(s, n - s->saved_room, &piece);

        if (rc != SL_OK)
            return rc;
        if (s->head == NULL)
            s->head = s->tail = piece;
        else
            s->last->next = piece;
        s->last = piece;
        s->saved_room += piece->room;
    }
    return SL_OK;
}

enum sl_err row_store_reserve(struct row_store *s, size_t n, const void *ids,
                              uint64_t touched)
{
    enum sl_err rc = SL_OK;

    if (s->tier == NULL)
        rc = row_pool_reserve(&s->pool, n);
    if (rc == SL_OK)
        rc = row_store_reserve_index(s, n, ids, touched);
    // Last: what others are short of may come from these records.
    if (rc == SL_OK && s->tier != NULL)
        rc = row_store_reserve_tier(s, n);
    return rc;
}

enum sl_err row_store_reserve_index(struct row_store *s, size_t n,
                                    const void *ids, uint64_t touched)
{
    enum sl_err rc = row_store_reserve_saved(s, touched);
    uint32_t b, last = 0;
    uint64_t more = 0;

    // Neighbours are of one bucket: each is looked at once.
    for (size_t i = 0; i < n && rc == SL_OK; i++) {
        b = row_store_bucket(s, table_hash(table_id(ids, i)));
        if (b != last && more > 0)
            rc = bucket_make_room(s, &s->bucket[last], more);
        more = b == last ? more + 1 : 1;
        last = b;
    }
    if (rc == SL_OK && more > 0)
        rc = bucket_make_room(s, &s->bucket[last], more);
    return rc;
}

uint64_t row_store_bytes(const struct row_store *s)
{
    return buckets_bytes(s) + s->index_bytes + row_tier_bytes(s->tier) +
           s->pool.used * (uint64_t)s->pool.stride;
}

// ---- changes

uint32_t row_store_add(struct row_store *s, uint64_t hash, uint64_t id)
{
    struct row_bucket *b = &s->bucket[row_store_bucket(s, hash)];
    uint32_t number = row_pool_take(&s->pool);

    row_store_at(s, number)->id = id;
    row_bucket_add(b, hash, number);
    s->largest = b->rows > s->largest ? b->rows : s->largest;
    s->count++;
    return number;
}

// A score of 0 says that the number is free, to the walk.
static void row_store_drop(struct row_store *s, uint32_t number)
{
    s->count--;
    row_gone_add(&s->gone, row_store_at(s, number)->id);
    if (row_store_is_cold(s, number)) {
        row_tier_drop(s, number);
        return;
    }
    row_store_touch(s, number);
    row_store_at(s, number)->score = 0;
    row_pool_give(&s->pool, number);
}

void row_store_remove(struct row_store *s, uint32_t number)
{
    uint64_t hash = table_hash(row_store_at(s, number)->id);

    row_bucket_remove(&s->bucket[row_store_bucket(s, hash)], hash, number);
    row_store_drop(s, number);
}

uint64_t row_store_sweep(struct row_store *s, uint32_t bucket,
                         bool (*gone)(void *ctx, const struct row_header *h,
                                      bool cold),
                         void *ctx)
{
    struct row_bucket *b = &s->bucket[bucket];
    uint64_t before = s->count;

    for (uint32_t i = 0; i < b->groups; i++) {
        const struct row_group *g = &b->group[i];

        if (i + 1 < b->groups)
            prefetch_group(s, g + 1);
        for (unsigned k = 0; k < ROW_GROUP; k++) {
            const struct row_header *h;

            if (g->tag[k] == 0)
                continue;
            h = row_store_at(s, g->row[k]);
            if (!gone(ctx, h, row_store_is_cold(s, g->row[k])))
                continue;
            row_bucket_clear(b, i, k, table_hash(h->id));
            row_store_drop(s, g->row[k]);
        }
    }
    return before - s->count;
}

// ---- the record that makes place

struct row_search {
    uint32_t low, high; // last bits of the hashes that are looked at
    uint32_t version;
    uint32_t best, changed;
    uint64_t hash; // of the best
};

static void search_group(const struct row_store *s, const struct row_group *g,
                         struct row_search *search)
{
    for (unsigned k = 0; k < ROW_GROUP; k++) {
        const struct row_header *h;
        uint64_t hash;

        if (g->tag[k] == 0)
            continue;
        h = row_store_at(s, g->row[k]);
        hash = table_hash(h->id);
        if ((uint32_t)hash < search->low || (uint32_t)hash > search->high ||
            h->changed == search->version)
            continue;
        if (search->best != ROW_NONE &&
            (h->changed > search->changed ||
             (h->changed == search->changed && hash > search->hash)))
            continue;
        search->best = g->row[k];
        search->changed = h->changed;
        search->hash = hash;
    }
}

// Looks at all records of a bucket with hashes in the window: in the
// groups at which they begin, and behind them as long as groups overflow.
static void search_bucket(const struct row_store *s, const struct row_bucket *b,
                          struct row_search *search)
{
    uint32_t at = row_group_of(search->low, b->groups);
    uint32_t last = row_group_of(search->high, b->groups);
    uint32_t least = last - at + 1;

    for (uint32_t i = 0; i < b->groups; i++) {
        const struct row_group *g = &b->group[at];

        at = at + 1 == b->groups ? 0 : at + 1;
        prefetch_group(s, &b->group[at]);
        search_group(s, g, search);
        if (i + 1 >= least && g->overflow == 0)
            return;
    }
}

// The width of a window of about SAMPLE hashes, by the number of records in the
// bucket alone: how many groups it has depends on its past.
static uint32_t window_of(const struct row_bucket *b)
{
    return b->rows <= SAMPLE
               ? UINT32_MAX
               : (uint32_t)((UINT64_C(1) << 32) / b->rows * SAMPLE);
}

uint32_t row_store_victim(const struct row_store *s, uint64_t hash,
                          uint32_t version)
{
    uint32_t bucket = row_store_bucket(s, hash), low = (uint32_t)hash;
    uint32_t passed = 0;

    for (unsigned tries = 0; tries < SAMPLES_MOST && passed <= s->own;) {
        const struct row_bucket *b = &s->bucket[bucket];
        struct row_search search = {
            .low = low, .version = version, .best = ROW_NONE};
        uint32_t width = window_of(b);

        if (b->rows > 0) {
            search.high = width > UINT32_MAX - low ? UINT32_MAX : low + width;
            search_bucket(s, b, &search);
            if (search.best != ROW_NONE)
                return search.best;
            tries++;
        }
        if (b->rows > 0 && search.high < UINT32_MAX) {
            low = search.high + 1;
            continue;
        }
        low = 0;
        bucket = bucket + 1 == s->own ? 0 : bucket + 1;
        passed++;
    }
    return ROW_NONE;
}

// ---- the instant

void row_store_freeze(struct row_store *s, uint32_t version, uint32_t least)
{
    s->frozen = true;
    s->version = version;
    s->least = least;
    s->next = 0;
    s->end = s->pool.used;
    s->total = s->count;
    row_tier_freeze(s->tier);
}

void row_store_thaw(struct row_store *s)
{
    for (struct row_saved *piece = s->head, *next; piece != NULL;
         piece = next) {
        next = piece->next;
        saved_free(s, piece);
    }
    s->head = s->tail = s->last = NULL;
    s->saved_room = 0;
    s->frozen = false;
    row_tier_thaw(s);
}

void row_store_save(struct row_store *s, const struct row_header *h)
{
    assert(s->saved_room > 0);
    while (s->tail->count == s->tail->room)
        s->tail = s->tail->next;
    memcpy(s->tail->record + s->tail->count++ * s->pool.stride, h,
           s->pool.stride);
    s->saved_room--;
}

static size_t walk_numbers(struct row_store *s, size_t most, uint8_t *out)
{
    size_t n = 0;

    for (size_t i = 0; i < most && s->next < s->end; i++) {
        uint32_t number = s->next++;
        const struct row_header *h = row_store_at(s, number);

        if (row_tier_walked(s->tier, number))
            continue;
        if (h->score != 0 && h->changed <= s->version && h->changed >= s->least)
            memcpy(out + n++ * s->pool.stride, h, s->pool.stride);
    }
    return n;
}

static size_t walk_saved(struct row_store *s, size_t most, uint8_t *out)
{
    size_t n = 0;

    while (n < most && s->head != NULL) {
        struct row_saved *piece = s->head;

        if (piece->taken == piece->count && piece == s->tail)
            break;
        if (piece->taken == piece->count) {
            s->head = piece->next;
            saved_free(s, piece);
            continue;
        }
        memcpy(out + n++ * s->pool.stride,
               piece->record + piece->taken++ * s->pool.stride, s->pool.stride);
    }
    return n;
}

bool row_store_walk(struct row_store *s, size_t most, void *out, size_t *n)
{
    if (s->next < s->end) {
        *n = walk_numbers(s, most, out);
        return true;
    }
    if (row_tier_walk_left(s->tier)) {
        *n = 0;
        return row_tier_walk(s, most, out, n) == SL_OK;
    }
    *n = walk_saved(s, most, out);
    return *n > 0;
}
