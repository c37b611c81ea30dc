// SPDX-License-Identifier: Apache-2.0
// trainer/ring/feed.c -- images and records of parts, and how far each follower
// has read.
#include "trainer/ring/feed.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "common/base/list.h"
#include "common/base/mem.h"
#include "trainer/ring/packed.h"

struct feed_entry {
    struct list_node node;
    uint64_t before, after;
    size_t n;
    uint8_t bytes[];
};

// A follower's progress with one part.
struct feed_progress {
    bool here;      // the follower takes this part
    bool copies;    // it still copies the image
    uint64_t steps; // steps that it has applied
};

struct feed_part {
    struct shard *shard; // a reference
    bool making, made;   // state of `image`
    bool wanted;         // an image is to be made from memory that is behind
    struct shard_image image;
    uint64_t image_steps;
    struct buf head;     // of the image; empty until the image's round is known
    struct list records; // struct feed_entry, oldest first
    size_t record_bytes;
    uint32_t lag; // number of records: rounds that the last follower is behind
    struct feed_progress place[FEED_FOLLOWERS];
};

struct ring_feed {
    const struct sl_clock *clock;
    pthread_mutex_t lock; // guards all below; not held while an image is made
    bool over;
    uint64_t steps, rounds;      // after the last ring_feed_round
    uint64_t began_ms, round_ms; // begin of the round, duration of the last one
    bool waits;                  // ring_feed_lags has begun a wait,
    uint64_t until_ms;           // by which the wait ends
    struct {
        uint64_t id, came_ms, seen_ms; // id 0: a free place
    } follower[FEED_FOLLOWERS];
    uint32_t count;
    struct feed_part part[];
};

enum sl_err ring_feed_new(struct ring_feed **out, const struct rank *r,
                          const struct sl_clock *clock)
{
    struct ring_feed *f =
        sl_calloc(1, sizeof(*f) + r->count * sizeof(f->part[0]));

    if (f == NULL)
        return SL_ENOMEM;
    f->clock = clock;
    f->steps = counted_steps(&rank_once(r)->counted);
    f->rounds = r->tag.sequence;
    f->began_ms = sl_now_ms(clock);
    f->count = r->count;
    pthread_mutex_init(&f->lock, NULL);
    for (uint32_t i = 0; i < r->count; i++) {
        f->part[i].shard = shard_ref(r->parts[i]);
        list_init(&f->part[i].records);
    }
    *out = f;
    return SL_OK;
}

// ---- images and records that are kept

static void drop_image(struct feed_part *p)
{
    if (p->made)
        shard_image_release(&p->image);
    p->made = false;
    buf_release(&p->head);
}

static void drop_record(struct feed_part *p, struct feed_entry *r)
{
    list_remove(&r->node);
    p->record_bytes -= r->n;
    p->lag--;
    sl_free(r);
}

static struct feed_entry *first_record(const struct feed_part *p)
{
    return list_empty(&p->records)
               ? NULL
               : list_entry(p->records.head.next, struct feed_entry, node);
}

// Drops the image and the records that no follower will ask for any more.
static void feed_part_trim(struct feed_part *p)
{
    uint64_t least = UINT64_MAX;
    bool copied = p->making;
    struct feed_entry *r;

    for (unsigned i = 0; i < FEED_FOLLOWERS; i++) {
        if (!p->place[i].here)
            continue;
        copied = copied || p->place[i].copies;
        least = p->place[i].steps < least ? p->place[i].steps : least;
    }
    if (!copied) {
        drop_image(p);
        p->wanted = false;
    }
    while ((r = first_record(p)) != NULL && r->after <= least)
        drop_record(p, r);
}

static void ring_feed_drop_follower(struct ring_feed *f, unsigned who)
{
    f->follower[who].id = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        f->part[i].place[who] = (struct feed_progress){0};
        feed_part_trim(&f->part[i]);
    }
}

// Ends the feed. An image that is being made is dropped by the thread that
// makes it.
static void ring_feed_end(struct ring_feed *f)
{
    f->over = true;
    for (unsigned i = 0; i < FEED_FOLLOWERS; i++)
        ring_feed_drop_follower(f, i);
}

void ring_feed_free(struct ring_feed *f)
{
    if (f == NULL)
        return;
    ring_feed_end(f);
    for (uint32_t i = 0; i < f->count; i++)
        shard_unref(f->part[i].shard);
    pthread_mutex_destroy(&f->lock);
    sl_free(f);
}

// ---- rounds

static bool followed(const struct feed_part *p)
{
    bool any = p->making;

    for (unsigned i = 0; i < FEED_FOLLOWERS; i++)
        any = any || p->place[i].here;
    return any;
}

static enum sl_err ring_feed_append_record(struct ring_feed *f,
                                           struct feed_part *p, uint64_t after,
                                           const struct once_step *steps,
                                           size_t count, const float *g,
                                           const float *present)
{
    const struct plan *plan = &p->shard->plan;
    size_t bytes = steps[0].skip ? 0 : plan_values_bytes(plan);
    bool marks = present != NULL && !steps[0].skip;
    size_t bits = marks ? (plan->piece_count + 7) / 8 : 0;
    struct feed_record head = {.magic = FEED_RECORD_MAGIC,
                               .rounds = f->rounds + 1,
                               .before = f->steps,
                               .after = after,
                               .keys = count,
                               .skip = marks ? FEED_ABSENT : steps[0].skip,
                               .average_bytes = bytes};
    size_t n = sizeof(head) + count * sizeof(struct feed_key) + bytes + bits;
    size_t most = FEED_ROUNDS * n;
    struct feed_entry *r;
    uint8_t *to;

    if (p->record_bytes + n > (most > FEED_BYTES ? most : FEED_BYTES))
        return SL_ENOMEM;
    r = sl_malloc(sizeof(*r) + n);
    if (r == NULL)
        return SL_ENOMEM;
    r->before = head.before;
    r->after = after;
    r->n = n;
    memcpy(r->bytes, &head, sizeof(head));
    to = r->bytes + sizeof(head);
    for (size_t i = 0; i < count; i++, to += sizeof(struct feed_key)) {
        struct feed_key key = {steps[i].closure, steps[i].step,
                               steps[i].samples, steps[i].digest};

        memcpy(to, &key, sizeof(key));
    }
    if (bytes > 0)
        memcpy(to, g, bytes);
    if (marks)
        (void)rank_absent(to + bytes, plan, present);
    list_push_back(&p->records, &r->node);
    p->record_bytes += n;
    p->lag++;
    return SL_OK;
}

// Returns in *rounds the round of a state that has counted `steps` steps; false
// if the state has an update that ring_feed_round has not told yet.
static bool round_of(const struct ring_feed *f, const struct feed_part *p,
                     uint64_t steps, uint64_t *rounds)
{
    struct feed_record head;

    *rounds = f->rounds;
    if (steps == f->steps)
        return true;
    list_for(n, &p->records)
    {
        const struct feed_entry *r = list_entry(n, struct feed_entry, node);

        memcpy(&head, r->bytes, sizeof(head));
        *rounds = head.rounds - 1;
        if (r->before == steps)
            return true;
    }
    return false;
}

// Writes the head of an image, once its round is known.
static enum sl_err ring_feed_write_head(struct ring_feed *f,
                                        struct feed_part *p)
{
    struct feed_image head = {.magic = FEED_IMAGE_MAGIC,
                              .memory_bytes = shard_bytes(p->shard)};
    struct buf packed = BUF_INIT;
    enum sl_err rc;

    if (!p->made || p->head.len > 0 ||
        !round_of(f, p, p->image_steps, &head.rounds))
        return SL_OK;
    rc = packed_once(&packed, &p->image.once, p->image.once.passed,
                     p->image.once.passed_count, &head.set_bytes,
                     &head.counts_bytes);
    if (rc == SL_OK)
        rc = buf_append(&p->head, &head, sizeof(head));
    if (rc == SL_OK)
        rc = buf_append(&p->head, packed.data, packed.len);
    buf_release(&packed);
    return rc;
}

static void forget_silent(struct ring_feed *f, uint64_t now)
{
    for (unsigned i = 0; i < FEED_FOLLOWERS; i++) {
        if (f->follower[i].id != 0 &&
            now - f->follower[i].seen_ms > FEED_SILENT_MS)
            ring_feed_drop_follower(f, i);
    }
}

void ring_feed_forget_silent(struct ring_feed *f)
{
    pthread_mutex_lock(&f->lock);
    forget_silent(f, sl_now_ms(f->clock));
    pthread_mutex_unlock(&f->lock);
}

void ring_feed_round(struct ring_feed *f, const struct rank *r,
                     const struct once_step *steps, size_t count,
                     const float *g, const float *present)
{
    uint64_t after = counted_steps(&rank_once(r)->counted);
    enum sl_err rc = SL_OK;
    uint64_t now;

    pthread_mutex_lock(&f->lock);
    now = sl_now_ms(f->clock);
    f->round_ms = now - f->began_ms;
    f->began_ms = now;
    forget_silent(f, now);
    for (uint32_t i = 0; rc == SL_OK && i < f->count; i++) {
        struct feed_part *p = &f->part[i];

        if (!f->over && followed(p))
            rc = ring_feed_append_record(f, p, after, steps, count, g, present);
        g += p->shard->plan.elements;
    }
    f->steps = after;
    f->rounds++;
    for (uint32_t i = 0; rc == SL_OK && i < f->count; i++)
        rc = ring_feed_write_head(f, &f->part[i]);
    if (rc != SL_OK)
        ring_feed_end(f);
    pthread_mutex_unlock(&f->lock);
}

// ---- the pace

// Returns true if a follower of this part is to be waited for; sets *copies if
// one of these copies its image.
static bool asks(const struct ring_feed *f, const struct feed_part *p,
                 uint64_t now, bool *copies)
{
    uint64_t silent = FEED_ASKS_MS + 2 * f->round_ms;
    bool any = false;

    *copies = false;
    for (unsigned i = 0; i < FEED_FOLLOWERS; i++) {
        if (!p->place[i].here || now - f->follower[i].seen_ms > silent ||
            now - f->follower[i].came_ms > FEED_PATIENCE)
            continue;
        any = true;
        *copies = *copies || p->place[i].copies;
    }
    return any;
}

// Returns how many rounds the slowest follower that is to be waited for is
// behind; 0: there is no such follower.
static uint32_t lag(const struct ring_feed *f, uint64_t now)
{
    uint32_t most = 0, least;
    bool copies;

    for (uint32_t i = 0; i < f->count; i++) {
        const struct feed_part *p = &f->part[i];

        if (p->lag <= most || !asks(f, p, now, &copies))
            continue;
        least = copies ? FEED_COPY_LAG : f->waits ? 1 : FEED_LAG;
        most = p->lag >= least ? p->lag : most;
    }
    return most;
}

bool ring_feed_lags(struct ring_feed *f)
{
    uint64_t now;
    uint32_t behind;
    bool waits;

    pthread_mutex_lock(&f->lock);
    now = sl_now_ms(f->clock);
    behind = lag(f, now);
    // A round takes its own work r and the longest wait w of all ranks, so with
    // w <= (r + w) / 2 rounds keep half their pace, whichever ranks are
    // followed. Waits as long as the newcomer is behind would feed each other.
    if (!f->waits && behind > 0)
        f->until_ms = now + f->round_ms / FEED_SHARE;
    else if (f->waits && behind == 0 && f->until_ms > now + FEED_HOLD_MS)
        f->until_ms = now + FEED_HOLD_MS;
    f->waits = (f->waits || behind > 0) && now < f->until_ms;
    f->began_ms = now;
    waits = f->waits;
    pthread_mutex_unlock(&f->lock);
    return waits;
}

// ---- calls

static unsigned find_follower(struct ring_feed *f, uint64_t id)
{
    unsigned who = FEED_FOLLOWERS;

    for (unsigned i = FEED_FOLLOWERS; i-- > 0;) {
        if (f->follower[i].id == id)
            return i;
        if (f->follower[i].id == 0)
            who = i;
    }
    if (who < FEED_FOLLOWERS) {
        f->follower[who].id = id;
        f->follower[who].came_ms = sl_now_ms(f->clock);
    }
    return who;
}

// Makes the image of a part, without the lock: finding its pages takes longest.
static enum sl_err make_image(struct ring_feed *f, struct feed_part *p,
                              struct sl_error *err)
{
    enum sl_err rc;

    p->making = true;
    pthread_mutex_unlock(&f->lock);
    rc = shard_freeze_copy(p->shard, &p->image, err);
    pthread_mutex_lock(&f->lock);
    p->making = false;
    p->made = rc == SL_OK;
    if (p->made)
        p->image_steps = counted_steps(&p->image.once.counted);
    return rc;
}

static enum sl_err begin_copy(struct ring_feed *f, struct feed_part *p,
                              unsigned who, struct sl_error *err)
{
    struct feed_progress *place = &p->place[who];
    enum sl_err rc = SL_OK;

    if (p->making)
        return SL_EBUSY;
    if (place->here && !place->copies)
        return SL_ESTALE; // a second image costs the ranks as much as the first
    // Records are kept from here on.
    *place = (struct feed_progress){
        .here = true, .copies = true, .steps = p->made ? 0 : f->steps};
    p->wanted = !p->made && update_is_behind(p->shard);
    if (p->wanted)
        return SL_EBUSY; // the follower keeps its place
    if (!p->made)
        rc = make_image(f, p, err);
    if (rc == SL_ESTALE) // a round came before the image was made
        rc = SL_EBUSY;
    if (rc == SL_OK && f->over)
        rc = SL_ESTALE;
    if (rc == SL_OK)
        rc = ring_feed_write_head(f, p);
    if (rc != SL_OK) {
        *place = (struct feed_progress){0};
        feed_part_trim(p);
        return rc;
    }
    place->steps = p->image_steps;
    return SL_OK;
}

static enum sl_err read_image(struct ring_feed *f, struct feed_part *p,
                              unsigned who, const struct feed_ask *ask,
                              void *into, struct sl_error *err)
{
    uint64_t offset = ask->offset, head;
    enum sl_err rc;

    if (!p->place[who].here || offset == 0) {
        rc = begin_copy(f, p, who, err);
        if (rc != SL_OK)
            return rc;
    }
    if (!p->place[who].copies)
        return SL_ESTALE;
    head = p->head.len;
    if (head == 0)
        return SL_EBUSY;
    if (offset >= head)
        return shard_image_read(&p->image, offset - head, ask->bytes, into);
    if (ask->bytes > head - offset)
        return SL_ERANGE; // a read of the head ends within the head
    memcpy(into, p->head.data + offset, ask->bytes);
    return SL_OK;
}

// Notes that a follower of this part has applied `steps` steps.
static void feed_part_note_applied(struct feed_part *p, unsigned who,
                                   uint64_t steps)
{
    struct feed_progress *place = &p->place[who];

    if (!place->here || steps < place->steps)
        return;
    place->copies = false;
    place->steps = steps;
    feed_part_trim(p);
}

static enum sl_err read_record(struct ring_feed *f, struct feed_part *p,
                               unsigned who, const struct feed_ask *ask,
                               void *into)
{
    struct feed_progress *place = &p->place[who];

    if (!place->here || ask->after < place->steps)
        return SL_ESTALE;
    for (uint32_t i = 0; ask->all && i < f->count; i++)
        feed_part_note_applied(&f->part[i], who, ask->after);
    feed_part_note_applied(p, who, ask->after);
    if (ask->after == f->steps)
        return SL_EBUSY;
    list_for(n, &p->records)
    {
        const struct feed_entry *r = list_entry(n, struct feed_entry, node);

        if (r->before != ask->after)
            continue;
        if (ask->offset > r->n || ask->bytes > r->n - ask->offset)
            return SL_ERANGE;
        memcpy(into, r->bytes + ask->offset, ask->bytes);
        return SL_OK;
    }
    return ask->after > f->steps ? SL_EBUSY : SL_ESTALE;
}

enum sl_err ring_feed_read(struct ring_feed *f, const struct feed_ask *ask,
                           void *into, struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    struct feed_part *p;
    unsigned who;

    if (ask->part >= f->count || ask->follower == 0)
        return sl_fail(err, SL_ERANGE, "part %" PRIu32 " of %" PRIu32,
                       ask->part, f->count);
    p = &f->part[ask->part];
    pthread_mutex_lock(&f->lock);
    who = f->over ? FEED_FOLLOWERS : find_follower(f, ask->follower);
    if (who == FEED_FOLLOWERS) {
        rc = SL_ESTALE;
    } else {
        f->follower[who].seen_ms = sl_now_ms(f->clock);
        rc = ask->record ? read_record(f, p, who, ask, into)
                         : read_image(f, p, who, ask, into, err);
    }
    pthread_mutex_unlock(&f->lock);
    if (rc == SL_ESTALE)
        return sl_fail(err, rc, "this rank no longer sends part %" PRIu32,
                       ask->part);
    return rc;
}

// ---- images of memory that was away

// While a snapshot is written there can be no other image.
bool ring_feed_wants(struct ring_feed *f, const struct rank *r, uint32_t part)
{
    struct feed_part *p = &f->part[part];
    bool wanted;

    pthread_mutex_lock(&f->lock);
    if (p->wanted && p->shard != r->parts[part])
        ring_feed_end(f);
    wanted = p->wanted && !p->making && !p->made;
    pthread_mutex_unlock(&f->lock);
    return wanted && !shard_is_frozen(p->shard);
}

void ring_feed_image(struct ring_feed *f, uint32_t part)
{
    struct sl_error err = SL_ERROR_INIT;
    struct feed_part *p = &f->part[part];

    pthread_mutex_lock(&f->lock);
    if (p->wanted && !p->making && !p->made &&
        make_image(f, p, &err) == SL_OK) {
        p->wanted = false;
        if (ring_feed_write_head(f, p) != SL_OK)
            ring_feed_end(f);
        else
            feed_part_trim(p); // the follower that wanted it may be gone
    }
    pthread_mutex_unlock(&f->lock);
}
