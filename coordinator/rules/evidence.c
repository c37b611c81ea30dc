// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/evidence.c -- the counted sets of a job's shards, and what
// is to be issued by them.
#include "coordinator/rules/evidence.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"

// ---- sets

static struct evidence_set *set_of(const struct evidence *e, uint32_t shard)
{
    return &e->sets[e->shard[shard].set];
}

const struct counted *evidence_counted(const struct evidence *e, uint32_t shard)
{
    return &set_of(e, shard)->counted;
}

// Returns a free place. One is always free: there is a place for each shard,
// and one more.
static uint32_t evidence_vacant_place(struct evidence *e)
{
    uint32_t i = 0;

    while (e->sets[i].shards > 0)
        i++;
    if (i >= e->sets_end)
        e->sets_end = i + 1;
    return i;
}

static void evidence_trim_sets(struct evidence *e)
{
    while (e->sets_end > 0 && e->sets[e->sets_end - 1].shards == 0)
        e->sets_end--;
}

static void leave_set(struct evidence *e, uint32_t shard)
{
    struct evidence_set *set = set_of(e, shard);

    if (--set->shards > 0)
        return;
    counted_release(&set->counted);
    evidence_trim_sets(e);
}

static void enter_set(struct evidence *e, uint32_t shard, uint32_t place)
{
    e->shard[shard].set = place;
    e->sets[place].shards++;
}

static void unite(struct evidence *e, uint32_t into, uint32_t other)
{
    for (uint32_t i = 0; i < e->shards; i++) {
        if (e->shard[i].set == other) {
            enter_set(e, i, into);
            e->sets[other].shards--;
        }
    }
    counted_release(&e->sets[other].counted);
}

static uint32_t fullest(const struct evidence *e)
{
    uint32_t best = 0;
    uint64_t most = 0;

    for (uint32_t i = 0; i < e->sets_end; i++) {
        const struct evidence_set *set = &e->sets[i];

        if (set->shards > 0 && counted_steps(&set->counted) >= most) {
            most = counted_steps(&set->counted);
            best = i;
        }
    }
    return best;
}

// Unites sets that have become equal to the fullest one. What a set lacks is
// counted there in the end, so every set comes to that.
static void unite_equal(struct evidence *e)
{
    uint32_t most = fullest(e);
    const struct counted *c = &e->sets[most].counted;

    for (uint32_t i = 0; i < e->sets_end; i++) {
        const struct evidence_set *set = &e->sets[i];

        if (i != most && set->shards > 0 &&
            counted_steps(&set->counted) == counted_steps(c) &&
            counted_equal(&set->counted, c))
            unite(e, most, i);
    }
    evidence_trim_sets(e);
}

// Begins with one empty set for all shards.
static enum sl_err evidence_init_sets(struct evidence *e,
                                      const struct schedule *s)
{
    enum sl_err rc;

    e->shard = sl_calloc(e->shards, sizeof(*e->shard));
    e->sets = sl_calloc((size_t)e->shards + 1, sizeof(*e->sets));
    if (e->shard == NULL || e->sets == NULL)
        return SL_ENOMEM;
    rc = counted_init(&e->sets[0].counted, s);
    if (rc == SL_OK) {
        e->sets[0].shards = e->shards;
        e->sets_end = e->shards > 0;
    }
    return rc;
}

enum sl_err evidence_init(struct evidence *e, const struct schedule *s,
                          uint32_t shards, struct sl_error *err)
{
    struct evidence fresh = {
        .schedule = *s, .shards = shards, .unnamed = shards};
    enum sl_err rc = schedule_check(s, err);

    if (rc != SL_OK)
        return rc;
    fresh.closures = schedule_closures(s);
    rc = evidence_init_sets(&fresh, s);
    if (rc != SL_OK) {
        evidence_release(&fresh);
        return sl_fail(err, rc, "evidence of %u shards", shards);
    }
    *e = fresh;
    return SL_OK;
}

void evidence_release(struct evidence *e)
{
    for (uint32_t i = 0; e->sets != NULL && i <= e->shards; i++)
        counted_release(&e->sets[i].counted);
    sl_free(e->sets);
    sl_free(e->shard);
    memset(e, 0, sizeof(*e));
}

// Returns one past the highest closure with a counted step.
static uint64_t highest(const struct counted *c)
{
    uint64_t high = counted_low(c), closure;
    size_t at = 0;
    void *unused;

    while (map_next(&c->sparse, &at, &closure, &unused)) {
        if (closure >= high)
            high = closure + 1;
    }
    return high;
}

// Returns the place of a set equal to *counted, which is taken over.
static uint32_t evidence_place_set(struct evidence *e, struct counted *counted)
{
    uint32_t place;

    for (uint32_t i = 0; i < e->sets_end; i++) {
        if (e->sets[i].shards > 0 &&
            counted_equal(&e->sets[i].counted, counted)) {
            counted_release(counted);
            return i;
        }
    }
    place = evidence_vacant_place(e);
    e->sets[place].counted = *counted;
    memset(counted, 0, sizeof(*counted));
    return place;
}

void evidence_admit(struct evidence *e, uint32_t shard, uint64_t incarnation,
                    struct counted *counted)
{
    struct evidence_shard *s = &e->shard[shard];
    uint64_t high = highest(counted);
    uint32_t place = evidence_place_set(e, counted);

    e->sets[place].shards++; // first: it may be the one that the shard leaves
    leave_set(e, shard);
    s->set = place;
    if (s->incarnation != incarnation) {
        e->unnamed += s->named != 0;
        s->named = 0;
    }
    s->incarnation = incarnation;
    memset(s->held, 0, sizeof(s->held)); // facts of a memory that is gone (Y3)
    e->admissions++;
    if (high > e->high)
        e->high = high;
}

void evidence_name(struct evidence *e, uint32_t shard, uint64_t version)
{
    e->unnamed -= e->shard[shard].named == 0;
    e->shard[shard].named = version;
    if (version > e->named)
        e->named = version;
}

// ---- rounds

uint64_t evidence_round_first(const struct evidence *e, uint64_t closure)
{
    uint64_t per_epoch = schedule_closures_per_epoch(&e->schedule);
    uint64_t epoch = closure / per_epoch * per_epoch;

    return epoch + (closure - epoch) / e->round * e->round;
}

uint64_t evidence_round_end(const struct evidence *e, uint64_t closure)
{
    uint64_t per_epoch = schedule_closures_per_epoch(&e->schedule);
    uint64_t epoch_end = (closure / per_epoch + 1) * per_epoch;
    uint64_t end = evidence_round_first(e, closure) + e->round;

    return end < epoch_end ? end : epoch_end;
}

// What open rounds hold. A shard holds closures that it has not counted, so
// none below its watermark; and none was issued EVIDENCE_ROUND_MOST or more
// above the lowest watermark. So one bit stands for one closure, if it is
// cleared when the closure is counted.

static uint64_t open_bit(uint64_t closure)
{
    return UINT64_C(1) << closure % 64;
}

static uint64_t *open_word(struct evidence_shard *s, uint64_t closure)
{
    return &s->held[closure % EVIDENCE_ROUND_MOST / 64];
}

static bool open_is_held(const struct evidence_shard *s, uint64_t closure)
{
    return (s->held[closure % EVIDENCE_ROUND_MOST / 64] & open_bit(closure)) !=
           0;
}

// Clears the bits of closures [from, end) that the shard has counted.
static void open_clear(struct evidence *e, uint32_t shard, uint64_t from,
                       uint64_t end)
{
    const struct counted *c = evidence_counted(e, shard);
    struct evidence_shard *s = &e->shard[shard];

    for (uint64_t at = from; at < end; at++)
        if (open_is_held(s, at) && counted_closure_full(c, at))
            *open_word(s, at) &= ~open_bit(at);
}

static void open_clear_all(struct evidence *e, uint64_t closure)
{
    for (uint32_t i = 0; e->open > 0 && i < e->shards; i++)
        open_clear(e, i, closure, closure + 1);
}

uint32_t evidence_held(const struct evidence *e, uint32_t shard)
{
    const struct evidence_shard *s = &e->shard[shard];
    uint32_t held = 0;

    for (size_t i = 0; i < SL_COUNT(s->held); i++)
        held += (uint32_t)__builtin_popcountll(s->held[i]);
    return held;
}

uint64_t evidence_held_first(const struct evidence *e, uint32_t shard)
{
    const struct evidence_shard *s = &e->shard[shard];
    uint64_t at = counted_low(evidence_counted(e, shard));
    uint64_t end = sl_min(at + EVIDENCE_ROUND_MOST, e->closures);

    while (at < end && !open_is_held(s, at))
        at++;
    return at < end ? at : e->closures;
}

void evidence_not_held(struct evidence *e, uint32_t shard, uint64_t incarnation,
                       uint64_t closure)
{
    struct evidence_shard *s;
    uint64_t low;

    if (shard >= e->shards)
        return;
    s = &e->shard[shard];
    low = counted_low(evidence_counted(e, shard));
    if (s->incarnation == incarnation && closure >= low &&
        closure - low < EVIDENCE_ROUND_MOST && open_is_held(s, closure)) {
        *open_word(s, closure) &= ~open_bit(closure);
        e->admissions++; // the closure may be issued again
    }
}

static void evidence_set_held(struct evidence *e, struct evidence_shard *s,
                              uint64_t closure)
{
    uint64_t first;

    if (e->open > 0) {
        *open_word(s, closure) |= open_bit(closure);
        return;
    }
    first = evidence_round_first(e, closure);
    if (s->held_first != first)
        memset(s->held, 0, sizeof(s->held));
    s->held_first = first;
    s->held[(closure - first) / 64] |= UINT64_C(1) << ((closure - first) % 64);
}

static bool evidence_is_held(const struct evidence *e,
                             const struct evidence_shard *s, uint64_t closure)
{
    uint64_t first;

    if (e->open > 0)
        return open_is_held(s, closure);
    first = evidence_round_first(e, closure);
    return s->held_first == first &&
           (s->held[(closure - first) / 64] >> ((closure - first) % 64) & 1);
}

// Counts closures [from, end) in c. A range that reaches down to the watermark
// raises it in one step: a shard may say any `low`.
static enum sl_err evidence_count_range(struct counted *c, uint64_t from,
                                        uint64_t end)
{
    if (from <= counted_low(c))
        return counted_raise(c, end);
    for (uint64_t at = from; at < end; at++) {
        enum sl_err rc = counted_add_closure(c, at);

        if (rc != SL_OK && rc != SL_EEXIST)
            return rc;
    }
    return SL_OK;
}

static void evidence_mark_shard(struct evidence *e, uint32_t shard)
{
    if (!e->shard[shard].marked)
        set_of(e, shard)->marked++;
    e->shard[shard].marked = true;
}

static bool has_all(const struct counted *c, uint64_t from, uint64_t end)
{
    return counted_next_open(c, from) >= end;
}

// Moves the marked shards of the set at `from` to a copy of it, at *place.
static enum sl_err evidence_split_set(struct evidence *e, uint32_t from,
                                      uint32_t *place)
{
    struct counted copy;
    enum sl_err rc = counted_copy(&copy, &e->sets[from].counted);

    if (rc != SL_OK)
        return rc;
    *place = evidence_vacant_place(e);
    e->sets[*place].counted = copy;
    for (uint32_t i = 0; i < e->shards; i++) {
        if (e->shard[i].marked && e->shard[i].set == from) {
            enter_set(e, i, *place);
            e->sets[from].shards--;
        }
    }
    return SL_OK;
}

// Counts closures [from, end) on the marked shards of the set at `place`.
static enum sl_err count_set(struct evidence *e, uint32_t place, uint64_t from,
                             uint64_t end)
{
    struct evidence_set *set = &e->sets[place];
    enum sl_err rc = SL_OK;

    if (set->marked == 0 || has_all(&set->counted, from, end))
        return SL_OK;
    if (set->marked < set->shards)
        rc = evidence_split_set(e, place, &place);
    return rc == SL_OK
               ? evidence_count_range(&e->sets[place].counted, from, end)
               : rc;
}

// Counts closures [from, end) on all marked shards, and clears every mark.
static enum sl_err count_marked(struct evidence *e, uint64_t from, uint64_t end)
{
    uint32_t sets = e->sets_end;
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; rc == SL_OK && i < sets; i++)
        rc = count_set(e, i, from, end);
    for (uint32_t i = 0; i < e->shards; i++)
        e->shard[i].marked = false;
    for (uint32_t i = 0; i < e->sets_end; i++)
        e->sets[i].marked = 0;
    if (rc == SL_OK && end > e->high)
        e->high = end;
    if (e->sets_end > 1)
        unite_equal(e);
    return rc;
}

static enum sl_err count_all(struct evidence *e, uint64_t closure)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; rc == SL_OK && i < e->sets_end; i++)
        if (e->sets[i].shards > 0)
            rc =
                evidence_count_range(&e->sets[i].counted, closure, closure + 1);
    if (rc == SL_OK && closure >= e->high)
        e->high = closure + 1;
    if (e->sets_end > 1)
        unite_equal(e);
    return rc;
}

enum sl_err evidence_low_take(struct evidence *e, uint32_t shard,
                              uint64_t incarnation, uint64_t low)
{
    struct evidence_shard *s;
    uint64_t known;

    if (shard >= e->shards || low > e->closures)
        return SL_OK;
    s = &e->shard[shard];
    known = counted_low(evidence_counted(e, shard));
    if (s->incarnation == 0 || s->incarnation != incarnation || low <= known)
        return SL_OK;
    evidence_mark_shard(e, shard);
    return count_marked(e, known, low);
}

// Counts closures [from, end) on one shard.
static enum sl_err count_on(struct evidence *e, uint32_t shard, uint64_t from,
                            uint64_t end)
{
    if (has_all(evidence_counted(e, shard), from, end))
        return SL_OK;
    evidence_mark_shard(e, shard);
    return count_marked(e, from, end);
}

enum sl_err evidence_set_take(struct evidence *e, uint32_t shard,
                              uint64_t incarnation, const struct counted *set)
{
    uint64_t from, low = counted_low(set);
    enum sl_err rc = SL_OK;

    if (shard >= e->shards || e->shard[shard].incarnation == 0 ||
        e->shard[shard].incarnation != incarnation)
        return SL_OK;
    from = counted_low(evidence_counted(e, shard));
    if (low > from)
        rc = count_on(e, shard, from, low);
    for (uint64_t at = low; rc == SL_OK && at < low + EVIDENCE_ROUND_MOST; at++)
        if (counted_closure_full(set, at))
            rc = count_on(e, shard, at, at + 1);
    open_clear(e, shard, from, from + EVIDENCE_ROUND_MOST);
    return rc;
}

bool evidence_closure_held(const struct evidence *e, uint64_t closure)
{
    bool rounds = e->round > 0 || e->open > 0;

    for (uint32_t i = 0; rounds && i < e->shards; i++) {
        const struct evidence_shard *s = &e->shard[i];

        if (!counted_closure_full(evidence_counted(e, i), closure) &&
            !evidence_is_held(e, s, closure))
            return false;
    }
    return rounds;
}

// C1: an item of another incarnation tells of a memory that is gone, or comes
// from a stranger.
static bool is_believed(const struct evidence *e,
                        const struct evidence_item *item)
{
    const struct evidence_shard *s;

    if (item->shard >= e->shards)
        return false;
    s = &e->shard[item->shard];
    return s->incarnation != 0 && s->incarnation == item->incarnation;
}

// In sync a round is counted whole (Y2), by the item that closes it.
static bool closes(const struct evidence *e, const struct evidence_item *item)
{
    return e->round > 0 && item->closed && !item->held;
}

// A shard holds contributions of its open round alone (Y2), so all closures
// before that round are counted there, even if no completion has said so yet.
// What is said of an earlier round comes late.
static enum sl_err take_held(struct evidence *e, uint64_t closure,
                             const struct evidence_item *item)
{
    struct evidence_shard *s = &e->shard[item->shard];
    enum sl_err rc = SL_OK;

    if ((e->round == 0 && e->open == 0) || !item->held ||
        counted_closure_full(evidence_counted(e, item->shard), closure))
        return SL_OK;
    if (e->open == 0)
        rc = evidence_low_take(e, item->shard, item->incarnation,
                               evidence_round_first(e, closure));
    if (rc == SL_OK)
        evidence_set_held(e, s, closure);
    return rc;
}

// Counts the items that close a round if `close`, else those that do not.
static enum sl_err take_items(struct evidence *e, uint64_t closure, bool close,
                              const struct evidence_item *items, size_t count)
{
    bool any = false;

    for (size_t i = 0; i < count; i++) {
        if (!is_believed(e, &items[i]) || items[i].held ||
            closes(e, &items[i]) != close)
            continue;
        evidence_mark_shard(e, items[i].shard);
        any = true;
    }
    if (!any)
        return SL_OK;
    return close ? count_marked(e, evidence_round_first(e, closure),
                                evidence_round_end(e, closure))
                 : count_marked(e, closure, closure + 1);
}

enum sl_err evidence_complete(struct evidence *e, uint64_t closure,
                              const struct evidence_item *items, size_t count,
                              bool *full)
{
    enum sl_err rc = SL_OK;

    if (closure >= e->closures)
        return SL_ERANGE;
    for (size_t i = 0; rc == SL_OK && i < count; i++)
        if (is_believed(e, &items[i]))
            rc = take_held(e, closure, &items[i]);
    if (rc == SL_OK)
        rc = take_items(e, closure, false, items, count);
    if (rc == SL_OK && e->round > 0)
        rc = take_items(e, closure, true, items, count);
    open_clear_all(e, closure);
    *full = rc == SL_OK && evidence_closure_full(e, closure);
    return rc;
}

// Admissions are rare, so a version is nearly always above the newest.
enum sl_err evidence_complete_by_map(struct evidence *e, uint64_t closure,
                                     uint64_t version, bool *full)
{
    enum sl_err rc;
    bool any = false;

    if (closure >= e->closures)
        return SL_ERANGE;
    if (e->unnamed == 0 && version >= e->named) {
        rc = count_all(e, closure);
    } else {
        for (uint32_t i = 0; i < e->shards; i++) {
            if (e->shard[i].named != 0 && e->shard[i].named <= version) {
                evidence_mark_shard(e, i);
                any = true;
            }
        }
        rc = any ? count_marked(e, closure, closure + 1) : SL_OK;
    }
    open_clear_all(e, closure);
    *full = rc == SL_OK && evidence_closure_full(e, closure);
    return rc;
}

enum sl_err evidence_count(struct evidence *e, uint64_t closure, uint32_t step)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; rc == SL_OK && i < e->sets_end; i++)
        if (e->sets[i].shards > 0)
            rc = counted_add(&e->sets[i].counted, closure, step);
    if (rc == SL_OK && closure >= e->high)
        e->high = closure + 1;
    return rc;
}

// ---- what follows from the sets

// Returns the next set that a shard uses, from index *at on, or NULL.
static const struct counted *next_set(const struct evidence *e, uint32_t *at)
{
    while (*at < e->sets_end && e->sets[*at].shards == 0)
        ++*at;
    return *at < e->sets_end ? &e->sets[(*at)++].counted : NULL;
}

bool evidence_closure_full(const struct evidence *e, uint64_t closure)
{
    const struct counted *c;

    for (uint32_t at = 0; (c = next_set(e, &at)) != NULL;) {
        if (!counted_closure_full(c, closure))
            return false;
    }
    return true;
}

uint64_t evidence_closure_steps(const struct evidence *e, uint64_t closure)
{
    uint32_t steps = schedule_closure_steps(&e->schedule, closure);
    uint64_t fewest = e->shards == 0 ? 0 : steps;
    const struct counted *c;

    for (uint32_t at = 0; (c = next_set(e, &at)) != NULL;) {
        uint64_t here = 0;

        for (uint32_t step = 0; step < steps; step++)
            here += counted_has(c, closure, step);
        if (here < fewest)
            fewest = here;
    }
    return fewest;
}

uint64_t evidence_next(const struct evidence *e, uint64_t from)
{
    uint64_t next = e->closures;
    const struct counted *c;

    for (uint32_t at = 0; (c = next_set(e, &at)) != NULL;) {
        uint64_t open = counted_next_open(c, from);

        if (open < next)
            next = open;
    }
    return next;
}

uint64_t evidence_limit(const struct evidence *e, uint64_t window)
{
    uint64_t low = evidence_low(e);

    if (e->round > 0 && low < e->closures)
        return evidence_round_end(e, low); // (Y4)
    if (e->open > 0 && window > EVIDENCE_ROUND_MOST)
        window = EVIDENCE_ROUND_MOST;
    return e->closures - low <= window ? e->closures : low + window;
}

uint64_t evidence_limit_ahead(const struct evidence *e, uint32_t rounds)
{
    uint64_t end = evidence_limit(e, 0);

    while (rounds-- > 0 && end < e->closures)
        end = evidence_round_end(e, end);
    return end;
}

uint64_t evidence_low(const struct evidence *e)
{
    uint64_t low = e->closures;
    const struct counted *c;

    for (uint32_t at = 0; (c = next_set(e, &at)) != NULL;) {
        if (counted_low(c) < low)
            low = counted_low(c);
    }
    return low;
}

bool evidence_full(const struct evidence *e)
{
    return e->shards > 0 && evidence_low(e) == e->closures;
}

uint32_t evidence_epochs(const struct evidence *e)
{
    return (uint32_t)(evidence_low(e) /
                      schedule_closures_per_epoch(&e->schedule));
}

uint64_t evidence_steps(const struct evidence *e)
{
    uint64_t steps = UINT64_MAX;
    const struct counted *c;

    for (uint32_t at = 0; (c = next_set(e, &at)) != NULL;) {
        if (counted_steps(c) < steps)
            steps = counted_steps(c);
    }
    return e->shards == 0 ? 0 : steps;
}

// A closure that is full above the lowest watermark is an entry of the set with
// that watermark, so entries are walked and not closures: one shard may be far
// ahead.
uint64_t evidence_closures(const struct evidence *e)
{
    uint64_t low = evidence_low(e), full = low, closure;
    const struct counted *c;
    uint32_t of = 0;
    size_t at = 0;
    void *entry;

    while ((c = next_set(e, &of)) != NULL && counted_low(c) != low)
        ;
    while (c != NULL && map_next(&c->sparse, &at, &closure, &entry))
        full += evidence_closure_full(e, closure);
    return full;
}
