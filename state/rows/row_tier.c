// SPDX-License-Identifier: Apache-2.0
// state/rows/row_tier.c -- records that go to a file and come back.
#include "state/rows/row_tier.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/crc.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "state/rows/row_store.h"

#define BATCH 256                      // records that go together at most
#define LEAST 64                       // and at least, where memory is short,
#define LEAST_BYTES ((size_t)16 << 10) // or fewer, of so many bytes
#define SHRINK_PART 256                // so much of a store, at least
#define TURNS (UINT16_MAX / ROW_TURN)  // numbers of turns, from 1 on

// ---- a tier

// Returns how many records go together at least. Each table of a shard keeps
// these in memory, and there may be many tables of long rows.
static uint64_t tier_least(const struct row_store *s)
{
    return sl_min(LEAST_BYTES / s->pool.stride + 1, LEAST);
}

static bool tier_relief(void *stores, uint64_t bytes);

enum sl_err row_tier_new(struct row_store *s, uint32_t dim, double least_norm)
{
    struct row_tier *t = sl_calloc(1, sizeof(*t));
    size_t stride = s->pool.stride;

    if (t == NULL)
        return SL_ENOMEM;
    t->turn = ROW_TURN;
    t->moved = 1;
    t->round = UINT32_MAX;
    t->dim = dim;
    t->least_norm = least_norm;
    row_pool_init(&t->cold, ROW_COLD_BYTES, ROW_COLD - 1, s->account);
    t->cold.alone = true;
    s->pool.most = (uint32_t)sl_min(s->pool.most, ROW_COLD - 1);
    s->pool.pays = stride + sizeof(*t->heat);
    s->pool.alone = true;
    s->tier = t;
    t->other = s->account->stores;
    s->account->stores = s;
    s->account->relief = tier_relief;
    return SL_OK;
}

static void tier_unlist(struct row_store *s)
{
    struct row_store *at = s->account->stores;

    if (at == s) {
        s->account->stores = s->tier->other;
        return;
    }
    while (at->tier->other != s)
        at = at->tier->other;
    at->tier->other = s->tier->other;
}

void row_tier_free(struct row_store *s)
{
    struct row_tier *t = s->tier;

    if (t == NULL)
        return;
    tier_unlist(s);
    row_pool_release(&t->cold);
    row_file_free(t->file);
    sl_free(t->heat);
    sl_free(t->lent);
    sl_free(t);
    s->tier = NULL;
}

uint64_t row_tier_bytes(const struct row_tier *t)
{
    return t == NULL ? 0 : t->cold.used * (uint64_t)ROW_COLD_BYTES;
}

uint64_t row_tier_file_bytes(const struct row_tier *t)
{
    return t == NULL || t->file == NULL ? 0 : row_file_bytes(t->file);
}

bool row_is_small(const float *values, uint32_t dim, double least)
{
    double sum = 0;

    for (uint32_t i = 0; i < dim; i++)
        sum += (double)values[i] * values[i];
    return sqrt(sum) < least;
}

uint32_t row_check(const void *record, size_t stride)
{
    return crc32c_words(record, stride / 8);
}

static enum sl_err tier_failed(struct row_store *s, enum sl_err rc,
                               const struct sl_error *err)
{
    s->account->why = *err;
    s->account->why.code = rc;
    return rc;
}

// Returns true if a record is of the instant, and its walk goes on. One that
// did not change since the file below is in that one.
static bool of_instant(const struct row_store *s, const struct row_header *h)
{
    return s->frozen && h->score != 0 && h->changed <= s->version &&
           h->changed >= s->least;
}

// Returns true if the walk is still to come to the record of a slot.
static bool walk_wants(const struct row_store *s, uint32_t slot)
{
    const struct row_cold *c = row_tier_at(s->tier, ROW_COLD + slot);

    return of_instant(s, &c->header) && slot >= s->tier->next &&
           c->marks / ROW_WALK != s->tier->walk / ROW_WALK;
}

// ---- hot records become cold

static enum sl_err tier_open(struct row_store *s)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = SL_OK;

    if (s->tier->file == NULL)
        rc = row_file_new(&s->tier->file, s->pool.stride, s->account, &err);
    return rc == SL_OK ? rc : tier_failed(s, rc, &err);
}

static void slot_give(struct row_tier *t, uint32_t slot)
{
    row_tier_at(t, ROW_COLD + slot)->header.score = 0;
    row_pool_give(&t->cold, slot);
}

static void tier_renumber(struct row_store *s, uint32_t number, uint32_t to)
{
    row_store_renumber(s, number, to);
    s->tier->moved += s->tier->moved == UINT32_MAX ? 2 : 1;
}

// Frees a hot number: its record lies elsewhere, or has failed to come.
static void hot_give(struct row_store *s, uint32_t number)
{
    ((struct row_header *)row_pool_at(&s->pool, number))->score = 0;
    s->tier->heat[number] = 0;
    row_pool_give(&s->pool, number);
}

// Notes of a cold record what is needed in memory; `marks`: of the walk.
static void cold_note(struct row_store *s, struct row_cold *c,
                      const struct row_header *h, uint32_t marks)
{
    const struct row_tier *t = s->tier;
    bool small =
        t->least_norm > 0 && row_is_small((const float *)(const void *)(h + 1),
                                          t->dim, t->least_norm);

    c->header = *h;
    c->check = row_check(h, s->pool.stride);
    c->marks = marks | (small ? ROW_SMALL : 0);
}

// The record of a hot number is in its slot.
static void tier_leave(struct row_store *s, uint32_t number, uint32_t slot)
{
    struct row_tier *t = s->tier;
    struct row_header *h = row_store_at(s, number);
    bool ahead = number >= s->next && number < s->end &&
                 (t->heat[number] & ROW_WALKED) == 0;

    cold_note(s, row_tier_at(t, ROW_COLD + slot), h,
              of_instant(s, h) && !ahead ? t->walk : 0);
    tier_renumber(s, number, ROW_COLD + slot);
    hot_give(s, number);
}

// Makes records cold, for which slots are ready.
static enum sl_err tier_cool(struct row_store *s, size_t n,
                             const uint32_t *numbers)
{
    struct row_tier *t = s->tier;
    struct sl_error err = SL_ERROR_INIT;
    struct row_io io[BATCH];
    enum sl_err rc = tier_open(s);

    if (rc != SL_OK || n == 0)
        return rc;
    row_store_groups_soon(s, n, numbers);
    for (size_t i = 0; i < n; i++)
        io[i] = (struct row_io){row_pool_take(&t->cold),
                                row_store_at(s, numbers[i])};
    rc = row_file_grow(t->file, t->cold.used, &err);
    if (rc == SL_OK)
        rc = row_file_write(t->file, n, io, &err);
    for (size_t i = n; rc != SL_OK && i-- > 0;)
        slot_give(t, io[i].slot);
    if (rc != SL_OK)
        return tier_failed(s, rc, &err);
    for (size_t i = 0; i < n; i++)
        tier_leave(s, numbers[i], io[i].slot);
    t->cooled += n;
    return SL_OK;
}

// Returns the hot number at which CLOCK's hand is, and moves it on.
static uint32_t hand_next(struct row_store *s)
{
    struct row_tier *t = s->tier;
    uint32_t number = t->hand;

    if (number >= s->pool.used) {
        t->round = t->version - t->begun;
        t->begun = t->version;
        number = 0;
    }
    t->hand = number + 1;
    return number;
}

// Takes those numbers out that are free; returns how many are left.
static size_t without_free(const struct row_store *s, size_t n,
                           uint32_t *numbers)
{
    size_t kept = 0;

    row_store_soon(s, n, numbers, 0);
    for (size_t i = 0; i < n; i++)
        if (row_store_at(s, numbers[i])->score != 0)
            numbers[kept++] = numbers[i];
    return kept;
}

// Chooses hot records, as CLOCK does; returns how many: fewer only if there are
// no more.
static size_t tier_choose(struct row_store *s, size_t most, uint32_t *numbers)
{
    struct row_tier *t = s->tier;
    size_t n = 0, known = 0;
    uint64_t looks = (ROW_MET_MOST + 1) * (uint64_t)s->pool.used;

    while (looks > 0 && n < most) {
        for (; looks > 0 && n < most; looks--) {
            uint32_t number = hand_next(s);
            uint16_t heat = t->heat[number];

            if (heat / ROW_TURN == t->turn / ROW_TURN)
                continue;
            if ((heat & ROW_MET_MOST) != 0) {
                t->heat[number]--;
                continue;
            }
            // It is chosen once.
            t->heat[number] = (uint16_t)((heat & ROW_WALKED) | t->turn);
            numbers[n++] = number;
        }
        n = known += without_free(s, n - known, numbers + known);
    }
    return n;
}

// ---- memory for other things

static enum sl_err tier_heat(struct row_store *s)
{
    struct row_tier *t = s->tier;
    uint32_t room = s->pool.taken;
    uint16_t *heat;

    if (room <= t->heat_room)
        return SL_OK;
    heat = sl_realloc_array(t->heat, room, sizeof(*heat));
    if (heat == NULL)
        return SL_ENOMEM;
    memset(heat + t->heat_room, 0, (room - t->heat_room) * sizeof(*heat));
    t->heat = heat;
    t->heat_room = room;
    return SL_OK;
}

// Makes the numbers free that an update was lent, which was not applied.
static void tier_end_lent(struct row_store *s)
{
    struct row_tier *t = s->tier;

    for (size_t i = 0; i < t->lent_count; i++)
        hot_give(s, t->lent[i].hot);
    t->lent_count = t->lent_used = 0;
}

// Makes the hot numbers from `end` on free, as far as there are slots; returns
// the first that is.
static uint32_t tier_empty(struct row_store *s, uint32_t end)
{
    uint32_t at = s->pool.used, low, numbers[BATCH];
    size_t n = 0, most = sl_min(row_pool_ready(&s->tier->cold), BATCH);

    for (low = at; low > end && n < most; low--)
        if (row_store_at(s, low - 1)->score != 0)
            numbers[n++] = low - 1;
    for (; low > end && row_store_at(s, low - 1)->score == 0;)
        low--;
    return tier_cool(s, n, numbers) == SL_OK ? low : at;
}

// Gives memory back; some of it pays for the next slots. Returns false if none
// could be given.
static bool tier_shrink(struct row_store *s, uint64_t bytes)
{
    struct row_pool *p = &s->pool;
    uint64_t want = sl_ceil_div(bytes, p->pays - ROW_COLD_BYTES);
    uint32_t target, first, had = p->taken, before;

    if (tier_heat(s) != SL_OK)
        return false;
    tier_end_lent(s);
    want = want < tier_least(s) ? tier_least(s) : want;
    want = want < had / SHRINK_PART ? had / SHRINK_PART : want;
    target =
        want < had - s->tier->floor ? (uint32_t)(had - want) : s->tier->floor;
    do {
        before = p->taken;
        first = p->used > target ? tier_empty(s, target) : target;
        row_pool_trim(p, first);
        // Refused, the next slots are fewer.
        (void)row_pool_reserve(&s->tier->cold, BATCH);
    } while (p->taken > target && p->taken < before);
    s->end = (uint32_t)sl_min(s->end, p->used);
    s->next = (uint32_t)sl_min(s->next, p->used);
    return p->taken < had;
}

// The memory that a store may give.
static uint64_t surplus(const struct row_store *s)
{
    uint32_t floor = s->tier->floor;

    return s->pool.taken > floor ? (s->pool.taken - floor) * s->pool.pays : 0;
}

static bool tier_relief(void *stores, uint64_t bytes)
{
    struct row_store *most = stores;

    for (struct row_store *s = stores; s != NULL; s = s->tier->other)
        if (surplus(s) > surplus(most))
            most = s;
    return surplus(most) > 0 && tier_shrink(most, bytes);
}

// ---- an update

static enum sl_err reserve_lent(struct row_tier *t, uint64_t n)
{
    struct row_lent *lent;

    if (n <= t->lent_room)
        return SL_OK;
    lent = sl_realloc_array(t->lent, n, sizeof(*lent));
    if (lent == NULL)
        return SL_ENOMEM;
    t->lent = lent;
    t->lent_room = n;
    return SL_OK;
}

// Stores give what this one needs, which is asked for anew then: both pools may
// have changed.
enum sl_err row_tier_pay(struct row_store *s, uint64_t n)
{
    struct row_tier *t = s->tier;
    uint64_t bytes = (n + BATCH) * ROW_COLD_BYTES;
    enum sl_err rc;

    tier_end_lent(s); // here, as an update without ids has no turn
    rc = reserve_lent(t, n);
    if (rc != SL_OK)
        return rc;
    t->floor = (uint32_t)sl_min(n + tier_least(s), s->pool.most);
    do {
        rc = row_pool_reserve(&t->cold, n + BATCH);
        if (rc == SL_OK)
            rc = row_pool_hold(&s->pool, t->floor);
    } while ((rc == SL_ERANGE || rc == SL_EBUSY) &&
             row_account_relieve(s->account, bytes));
    return rc == SL_OK ? tier_heat(s) : rc;
}

// A turn's number comes again after TURNS others. Each turn takes older ones
// off some hot numbers, so that they are off all of them by then: to take them
// off at once would take 10 ms for 10^8.
void row_tier_turn(struct row_store *s)
{
    struct row_tier *t = s->tier;
    uint32_t part = t->heat_room / (TURNS / 4) + 1, end;

    t->turn = t->turn / ROW_TURN == TURNS ? ROW_TURN : t->turn + ROW_TURN;
    t->swept = t->swept < t->heat_room ? t->swept : 0;
    end = (uint32_t)sl_min((uint64_t)t->swept + part, t->heat_room);
    for (; t->swept < end; t->swept++)
        t->heat[t->swept] &= ROW_TURN - 1;
}

enum sl_err row_tier_grow(struct row_store *s, uint64_t n)
{
    enum sl_err rc = row_pool_reserve(&s->pool, n);

    return rc == SL_OK ? tier_heat(s) : rc;
}

// Reads cold records to the memory of hot numbers that are taken for them; none
// is taken after a failure.
static enum sl_err tier_read(struct row_store *s, size_t n,
                             const struct row_lent *of)
{
    struct row_tier *t = s->tier;
    struct sl_error err = SL_ERROR_INIT;
    size_t stride = s->pool.stride;
    struct row_io io[BATCH] = {{0}};
    enum sl_err rc;

    for (size_t i = 0; i < n; i++)
        io[i] = (struct row_io){of[i].cold - ROW_COLD,
                                row_pool_at(&s->pool, of[i].hot)};
    rc = row_file_read(t->file, n, io, &err);
    for (size_t i = 0; rc == SL_OK && i < n; i++)
        if (row_check(io[i].at, stride) != row_tier_at(t, of[i].cold)->check)
            rc = row_file_changed(t->file, io[i].slot,
                                  row_tier_at(t, of[i].cold)->header.id, &err);
    for (size_t i = 0; rc != SL_OK && i < n; i++)
        hot_give(s, of[i].hot);
    return rc == SL_OK ? rc : tier_failed(s, rc, &err);
}

// Makes a cold record hot, which is in the memory of a hot number.
static void tier_warm(struct row_store *s, const struct row_lent *of)
{
    const struct row_header *h = row_pool_at(&s->pool, of->hot);

    tier_renumber(s, of->cold, of->hot);
    s->tier->heat[of->hot] = of_instant(s, h) ? ROW_WALKED : 0;
    row_tier_drop(s, of->cold);
}

// Returns true if a record was changed since the hand was where it is now: it
// would be hot still. A hand that does not move lets records in, too.
static bool tier_keeps(const struct row_tier *t, const struct row_cold *c)
{
    uint32_t since = t->version - t->begun;

    return t->version - c->header.changed <=
           (t->round > since ? t->round : since);
}

// Makes a record hot, and *number so; or lends it memory, where the walk and
// the hand take it for a free number.
static void tier_take(struct row_store *s, const struct row_lent *of,
                      uint32_t *number)
{
    struct row_tier *t = s->tier;

    if (tier_keeps(t, row_tier_at(t, of->cold))) {
        tier_warm(s, of);
        *number = of->hot;
        return;
    }
    ((struct row_header *)row_pool_at(&s->pool, of->hot))->score = 0;
    t->lent[t->lent_count++] = *of;
}

// Makes records cold until so many numbers are ready.
static enum sl_err tier_make_place(struct row_store *s, uint64_t places)
{
    uint32_t numbers[BATCH];
    enum sl_err rc = SL_OK;
    uint64_t ready;

    while (rc == SL_OK && (ready = row_pool_ready(&s->pool)) < places) {
        size_t n = tier_choose(s, sl_min(places - ready, BATCH), numbers);

        if (n == 0) {
            s->account->why.code = SL_OK; // no file has failed
            return SL_ERANGE;
        }
        rc = tier_cool(s, n, numbers);
    }
    return rc;
}

enum sl_err row_tier_fill(struct row_store *s, size_t n, const uint32_t *at,
                          uint32_t *number, uint64_t more)
{
    struct row_lent of[BATCH];
    enum sl_err rc = row_pool_reserve(&s->pool, n + more);
    bool short_of = rc == SL_ERANGE || rc == SL_EBUSY;

    if (rc == SL_OK || short_of)
        rc = tier_heat(s);
    if (rc == SL_OK)
        rc = tier_make_place(s, short_of ? n + more : n);
    for (size_t i = 0, k; rc == SL_OK && i < n; i += k) {
        k = sl_min(n - i, BATCH);
        for (size_t j = 0; j < k; j++)
            of[j] =
                (struct row_lent){number[at[i + j]], row_pool_take(&s->pool)};
        rc = tier_read(s, k, of);
        for (size_t j = 0; rc == SL_OK && j < k; j++)
            tier_take(s, &of[j], &number[at[i + j]]);
    }
    return rc;
}

struct row_header *row_tier_lent(struct row_store *s, uint32_t number,
                                 bool *wanted)
{
    struct row_tier *t = s->tier;
    const struct row_lent *of = &t->lent[t->lent_used++];
    struct row_header *h = row_pool_at(&s->pool, of->hot);

    assert(of->cold == number);
    h->score = row_tier_at(t, number)->header.score;
    *wanted = walk_wants(s, number - ROW_COLD);
    return h;
}

// Puts records back that have changed, or leaves them in memory: the update
// cannot fail any more.
static void tier_return(struct row_store *s, size_t n,
                        const struct row_lent *of)
{
    struct row_tier *t = s->tier;
    struct row_io io[BATCH] = {{0}};
    bool written;

    for (size_t i = 0; i < n; i++)
        io[i] = (struct row_io){of[i].cold - ROW_COLD,
                                row_pool_at(&s->pool, of[i].hot)};
    written = row_file_write(t->file, n, io, NULL) == SL_OK;
    for (size_t i = 0; i < n; i++) {
        struct row_cold *c = row_tier_at(t, of[i].cold);

        cold_note(s, c, io[i].at, c->marks & ~ROW_SMALL);
        if (written)
            hot_give(s, of[i].hot);
        else
            tier_warm(s, &of[i]);
    }
}

void row_tier_settle(struct row_store *s)
{
    struct row_tier *t = s->tier;

    assert(t->lent_used == t->lent_count);
    for (size_t i = 0, k; i < t->lent_count; i += k) {
        k = sl_min(t->lent_count - i, BATCH);
        tier_return(s, k, t->lent + i);
    }
    t->lent_count = t->lent_used = 0;
}

enum sl_err row_store_reserve_tier(struct row_store *s, uint64_t n)
{
    uint64_t most = n < tier_least(s) ? tier_least(s) : n;
    enum sl_err rc = row_tier_pay(s, most);

    row_tier_turn(s);
    if (rc == SL_OK && row_pool_ready(&s->pool) < n &&
        row_tier_grow(s, most) != SL_OK)
        rc = row_tier_fill(s, 0, NULL, NULL, most);
    return rc;
}

void row_tier_drop(struct row_store *s, uint32_t number)
{
    struct row_tier *t = s->tier;

    if (!walk_wants(s, number - ROW_COLD)) {
        slot_give(t, number - ROW_COLD);
        return;
    }
    row_tier_at(t, number)->marks |= ROW_LEFT;
    t->left++;
}

// ---- the instant

void row_tier_freeze(struct row_tier *t)
{
    if (t == NULL)
        return;
    t->walk += ROW_WALK;
    t->next = 0;
    t->end = UINT32_MAX; // until the walk comes to the first
    t->walk_error.code = SL_OK;
}

static void tier_give_left(struct row_tier *t, uint32_t slot)
{
    struct row_cold *c = row_tier_at(t, ROW_COLD + slot);

    if (c->header.score == 0 || (c->marks & ROW_LEFT) == 0)
        return;
    slot_give(t, slot);
    t->left--;
}

void row_tier_thaw(struct row_store *s)
{
    struct row_tier *t = s->tier;

    if (t == NULL)
        return;
    for (uint32_t i = 0; i < t->cold.used && t->left > 0; i++)
        tier_give_left(t, i);
    for (uint32_t i = 0; i < t->heat_room; i++)
        t->heat[i] &= (uint16_t)~ROW_WALKED;
    t->next = t->end = 0;
}

bool row_tier_walk_left(const struct row_tier *t)
{
    return t != NULL && t->next < sl_min(t->end, t->cold.used);
}

// Takes the records that the walk wants out of n slots at `out`, to its front.
static enum sl_err tier_walk_take(struct row_store *s, size_t n, uint8_t *out,
                                  size_t *taken)
{
    struct row_tier *t = s->tier;
    size_t stride = s->pool.stride;

    *taken = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t slot = t->next + (uint32_t)i;
        const uint8_t *record = out + i * stride;
        const struct row_cold *c = row_tier_at(t, ROW_COLD + slot);

        if (!walk_wants(s, slot))
            continue;
        if (row_check(record, stride) != c->check)
            return row_file_changed(t->file, slot, c->header.id,
                                    &t->walk_error);
        memmove(out + (*taken)++ * stride, record, stride);
        tier_give_left(t, slot);
    }
    return SL_OK;
}

enum sl_err row_tier_walk(struct row_store *s, size_t most, void *out,
                          size_t *n)
{
    struct row_tier *t = s->tier;
    enum sl_err rc = SL_OK;
    uint32_t slots;
    bool any = false;

    t->end = (uint32_t)sl_min(t->end, t->cold.used);
    slots = (uint32_t)sl_min(most, t->end - t->next);
    for (uint32_t i = 0; i < slots && !any; i++)
        any = walk_wants(s, t->next + i);
    if (any)
        rc = row_file_read_run(t->file, t->next, slots, out, &t->walk_error);
    if (any && rc == SL_OK)
        rc = tier_walk_take(s, slots, out, n);
    if (rc != SL_OK)
        *n = 0;
    t->walk_error.code = rc;
    t->next = rc == SL_OK ? t->next + slots : t->end;
    return rc;
}
