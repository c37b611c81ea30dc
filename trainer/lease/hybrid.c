// SPDX-License-Identifier: Apache-2.0
// trainer/lease/hybrid.c -- the membership in a group, and the sums of a step.
#include "trainer/lease/hybrid.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "trainer/sum/sum_group.h"
#include "trainer/ring/sum.h"

#define WORD 8       // bytes of a number
#define HEAD_WORDS 4 // any, closure, step, loss scale
#define TAIL_WORDS 3 // digest, loss, right ones
#define TAIL_MOST (WIRE_GROUP_MAX * TAIL_WORDS)

// Makes space for `count` words.
static enum sl_err digits_reserve(struct hybrid *h, size_t count,
                                  struct sl_error *err)
{
    if (count * WORD <= h->digits_most)
        return SL_OK;
    sl_free(h->digits);
    h->digits_most = 0;
    h->digits = sl_malloc_array(count, WORD * sizeof(*h->digits));
    if (h->digits == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for %zu words of a group",
                       count);
    h->digits_most = count * WORD;
    return SL_OK;
}

enum sl_err hybrid_new(struct hybrid **out)
{
    struct hybrid *h = sl_calloc(1, sizeof(*h));

    if (h == NULL || digits_reserve(h, TAIL_MOST, NULL) != SL_OK) {
        hybrid_free(h);
        return SL_ENOMEM;
    }
    *out = h;
    return SL_OK;
}

// From here on no other thread touches the vectors.
static void hybrid_leave_group(struct hybrid *h)
{
    if (h->lease != NULL)
        seat_on_end(h->lease->seat, NULL, NULL);
    group_free(h->group);
    h->group = NULL;
    h->number = h->waited = h->sent = 0;
    h->lost = false;
    h->stage = HYBRID_OUT;
}

void hybrid_free(struct hybrid *h)
{
    if (h == NULL)
        return;
    hybrid_leave_group(h);
    sl_free(h->digits);
    sl_free(h->present);
    sl_free(h);
}

void hybrid_enter(struct hybrid *h, struct lease *l, struct contributor *by)
{
    h->lease = l;
    h->by = by;
    h->say = (struct say_job){l->job, l->job_incarnation};
    h->opened = 0;
    h->failed = false;
    seat_say(l->seat, say_join(h->say, l->attempt, seat_env(l->seat)));
}

void hybrid_exit(struct hybrid *h)
{
    hybrid_leave_group(h);
    h->lease = NULL;
    h->by = NULL;
}

// ---- generations

// Ends all waits of the generation; called on the loop.
static void hybrid_on_end(void *arg)
{
    struct hybrid *h = arg;

    if (h->group != NULL)
        group_abort(h->group, "another generation is opened");
    if (h->by->ops->hurry != NULL)
        h->by->ops->hurry(h->by);
}

static void hybrid_answer_opened(struct hybrid *h, uint64_t generation)
{
    static const struct rank none;

    hybrid_leave_group(h);
    h->opened = generation;
    h->stage = HYBRID_ASKED;
    HISTORY("group_answer", "job=%" PRIu64 " generation=%" PRIu64,
            h->lease->job, generation);
    seat_say(h->lease->seat, say_answer(h->say, generation, &none));
}

static enum sl_err hybrid_join_group(struct hybrid *h,
                                     const Sluice__V1__RingBegin *m,
                                     struct sl_error *err)
{
    const Sluice__V1__JobSpec *spec = h->lease->record->open->spec;
    enum sl_err rc = SL_OK;

    if (m->n_ranks > WIRE_GROUP_MAX || m->self >= m->n_ranks)
        return sl_fail(err, SL_EINVAL,
                       "the group has %zu members; at most %d are possible",
                       m->n_ranks, WIRE_GROUP_MAX);
    h->members = (uint32_t)m->n_ranks;
    h->self = m->self;
    h->marks = m->marks;
    if (m->n_ranks > 1)
        rc = sum_group(&h->group, seat_env(h->lease->seat), m, spec_wire(spec),
                       err);
    return rc == SL_OK && h->by->ops->place != NULL
               ? h->by->ops->place(h->by, err)
               : rc;
}

static void hybrid_begin_generation(struct hybrid *h,
                                    const Sluice__V1__RingBegin *m)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    if (h->stage != HYBRID_ASKED || m->generation != h->opened)
        return;
    rc = hybrid_join_group(h, m, &err);
    if (rc != SL_OK) {
        hybrid_fail(h, rc, &err);
        return;
    }
    h->stage = HYBRID_READY;
    seat_on_end(h->lease->seat, hybrid_on_end, h);
    LOG(INFO, "joined a generation of the group",
        "job=%" PRIu64 " generation=%" PRIu64 " member=%" PRIu32
        " members=%" PRIu32,
        h->lease->job, h->opened, h->self, h->members);
    seat_say(h->lease->seat, say_ready_bare(h->say, h->opened));
}

void hybrid_look(struct hybrid *h)
{
    struct seat_news news;

    seat_look(h->lease->seat, &news);
    if (news.opened > h->opened)
        hybrid_answer_opened(h, news.opened);
    if (news.begin != NULL)
        hybrid_begin_generation(h, news.begin);
    seat_news_release(&news); // a group copies no state
    if (h->stage == HYBRID_READY && news.gone == h->opened)
        h->stage = HYBRID_RUNS;
}

void hybrid_fail(struct hybrid *h, enum sl_err rc, const struct sl_error *err)
{
    hybrid_leave_group(h);
    h->failed = true;
    h->why = *err;
    h->why.code = rc;
}

void hybrid_accuse(struct hybrid *h, uint32_t suspect,
                   const struct sl_error *err)
{
    LOG(INFO, "left a generation of the group",
        "job=%" PRIu64 " generation=%" PRIu64 " suspect=%" PRIu32 " error=%s",
        h->lease->job, h->opened, suspect, err->text);
    hybrid_leave_group(h);
    seat_say(h->lease->seat, say_broken(h->say, h->opened, suspect, err->text));
}

void hybrid_broken(struct hybrid *h, const struct sl_error *err)
{
    uint32_t suspect =
        h->group == NULL ? RING_NO_SUSPECT : group_suspect(h->group);

    if (say_is_broken(suspect, err->code))
        hybrid_accuse(h, suspect, err);
    else
        hybrid_leave_group(h);
}

// ---- sums

enum sl_err hybrid_spread(struct hybrid *h, float *data, uint64_t count,
                          struct sl_error *err)
{
    return h->group == NULL
               ? SL_OK
               : group_spread(h->group, h->number++, data, (size_t)count, err);
}

enum sl_err hybrid_sum(struct hybrid *h, float *data, uint64_t count,
                       struct sl_error *err)
{
    return h->group == NULL
               ? SL_OK
               : group_start(h->group, h->number++, data, (size_t)count, err);
}

enum sl_err hybrid_wait(struct hybrid *h, uint64_t until, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (; rc == SL_OK && h->waited < until; h->waited++)
        rc = group_wait(h->group, h->waited, err);
    h->lost = h->lost || rc != SL_OK;
    return rc;
}

uint64_t hybrid_sent(struct hybrid *h)
{
    struct group_stats stats = {0};
    uint64_t more;

    if (h->group != NULL)
        group_stats(h->group, &stats);
    more = stats.sent_bytes - h->sent;
    h->sent = stats.sent_bytes;
    return more;
}

// ---- numbers, as bytes

static void hybrid_encode_word(float *to, uint64_t word)
{
    for (unsigned i = 0; i < WORD; i++)
        to[i] = (float)(word >> (8 * i) & 0xff);
}

// Returns the number in `from`, and some number for any bytes that another
// member may have sent.
static uint64_t hybrid_decode_word(const float *from)
{
    uint64_t word = 0;

    for (unsigned i = 0; i < WORD; i++) {
        float f = from[i];

        word |= (f >= 0 && f <= 255 ? (uint64_t)f : 0) << (8 * i);
    }
    return word;
}

static uint64_t hybrid_double_to_word(double d)
{
    uint64_t word;

    memcpy(&word, &d, sizeof(word));
    return word;
}

static double hybrid_word_to_double(uint64_t word)
{
    double d;

    memcpy(&d, &word, sizeof(d));
    return d;
}

enum sl_err hybrid_agree(struct hybrid *h, struct hybrid_head *head,
                         struct sl_error *err)
{
    float *d = h->digits;
    enum sl_err rc;

    hybrid_encode_word(d, head->any);
    hybrid_encode_word(d + WORD, head->closure);
    hybrid_encode_word(d + 2 * WORD, head->step);
    hybrid_encode_word(d + 3 * WORD,
                       hybrid_double_to_word((double)head->loss_scale));
    rc = hybrid_spread(h, d, HEAD_WORDS * WORD, err);
    if (rc == SL_OK)
        rc = hybrid_wait(h, h->number, err);
    if (rc != SL_OK)
        return rc;
    head->any = hybrid_decode_word(d) != 0;
    head->closure = hybrid_decode_word(d + WORD);
    head->step = (uint32_t)hybrid_decode_word(d + 2 * WORD);
    head->loss_scale =
        (float)hybrid_word_to_double(hybrid_decode_word(d + 3 * WORD));
    return SL_OK;
}

enum sl_err hybrid_gather(struct hybrid *h, uint64_t *words, size_t count,
                          struct sl_error *err)
{
    enum sl_err rc;

    if (h->group == NULL || count == 0)
        return SL_OK;
    rc = digits_reserve(h, count, err);
    for (size_t i = 0; rc == SL_OK && i < count; i++)
        hybrid_encode_word(h->digits + i * WORD, words[i]);
    if (rc == SL_OK)
        rc = hybrid_sum(h, h->digits, count * WORD, err);
    if (rc == SL_OK)
        rc = hybrid_wait(h, h->number, err);
    for (size_t i = 0; rc == SL_OK && i < count; i++)
        words[i] = hybrid_decode_word(h->digits + i * WORD);
    return rc;
}

enum sl_err hybrid_tail(struct hybrid *h, struct hybrid_sums *s,
                        struct sl_error *err)
{
    uint64_t words[TAIL_MOST] = {0}, *mine = words;
    enum sl_err rc;

    if (h->group == NULL)
        return SL_OK;
    mine += (size_t)h->self * TAIL_WORDS;
    mine[0] = s->digest;
    mine[1] = hybrid_double_to_word(s->loss_sum);
    mine[2] = hybrid_double_to_word(s->right_sum);
    rc = hybrid_gather(h, words, (size_t)h->members * TAIL_WORDS, err);
    if (rc != SL_OK)
        return rc;
    *s = (struct hybrid_sums){.digest = 0};
    for (uint32_t i = 0; i < h->members; i++) {
        s->digest += words[i * TAIL_WORDS];
        s->loss_sum += hybrid_word_to_double(words[i * TAIL_WORDS + 1]);
        s->right_sum += hybrid_word_to_double(words[i * TAIL_WORDS + 2]);
    }
    return SL_OK;
}
