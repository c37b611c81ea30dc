// SPDX-License-Identifier: Apache-2.0
// trainer/lease/task_ring.c -- a ring lease: a rank from its joining to the end
// of its lease.
//
//   join -> (opened: leave the old generation, answer) -> (begun: bring the
//   base into place, be ready) -> (gone: rounds) -> opened, or the lease ends
//
// While it waits for its first generation it copies the state of the one that
// runs, if it is told to, and follows it: then its base is in place when it is
// a member (trainer/ring/newcomer.h). To others it gives its state out likewise
// (trainer/ring/feed.h).
//
// Between rounds, and while it waits, it looks at what the loop has: the newest
// generation, files to be written, ranges to evaluate, its gate. A generation
// that does not work out (a rank is silent, a copy fails) is left and said to
// be broken; the next one is the coordinator's to open.
#include <inttypes.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "trainer/ring/buckets.h"
#include "trainer/base/figures.h"
#include "trainer/lease/ring_round.h"
#include "trainer/lease/task_ring.h"
#include "trainer/sum/ranks.h"
#include "trainer/ring/state_copy.h"
#include "trainer/ring/feed.h"
#include "trainer/ring/newcomer.h"
#include "trainer/ring/say.h"

#define LOOK_MS 200 // most time between two looks at the gate
#define FOLLOW_MS 5 // pause before a rank that is followed is asked again

enum ring_stage {
    RING_OUT,   // in no generation: waits for the next to be opened
    RING_ASKED, // has answered: waits for the generation's beginning
    RING_READY, // the base is in place
    RING_RUNS,
};

struct ring_task {
    struct contributor *by;
    struct lease *lease;
    struct seat *seat;
    const struct ring_env *ring_env;
    struct say_job say;
    struct ring_round round;
    struct sl_error err;

    enum ring_stage stage;
    uint64_t opened, uid;
    bool joined;        // the sum has a group of this generation
    bool over;          // every step is counted
    struct rates rates; // learning rates as callbacks have reduced them
    uint64_t hold; // closure to stop at until callbacks have judged (Rates)
    struct copy_served served;

    struct wire_token token; // token of the generation that was joined
    struct ring_feed *feed;  // state given out in generation `fed`
    uint64_t fed;
    struct newcomer *newcomer; // NULL: this rank follows no other
    uint64_t followed;         // generation that `newcomer` follows
    bool copied;               // the coordinator was told that it is level
};

static struct rank *rank_of(const struct ring_task *t)
{
    return &t->by->ring->rank;
}

// R2: from here on no message of the old generation changes the state.
static void task_ring_leave(struct ring_task *t)
{
    seat_on_end(t->seat, NULL, NULL);
    copy_unserve(&t->served);
    if (t->joined)
        sum_leave(&t->by->ring->sum);
    t->joined = false;
    round_leave(&t->round);
    t->stage = RING_OUT;
    t->over = false;
}

// Leaves the generation, and reports why if the coordinator does not know.
static void task_ring_leave_broken(struct ring_task *t, uint32_t suspect)
{
    uint64_t generation = t->opened;

    LOG(INFO, "left a generation of the ring",
        "job=%" PRIu64 " generation=%" PRIu64 " suspect=%" PRIu32 " error=%s",
        t->lease->job, generation, suspect, t->err.text);
    task_ring_leave(t);
    if (say_is_broken(suspect, t->err.code))
        seat_say(t->seat, say_broken(t->say, generation, suspect, t->err.text));
    figures_ring_torn(suspect == RING_NO_SUSPECT ? FIGURES_ELSEWHERE
                                                 : FIGURES_PEER);
    t->err = (struct sl_error)SL_ERROR_INIT;
}

static void task_ring_answer_opened(struct ring_task *t,
                                    const struct seat_news *news)
{
    task_ring_leave(t);
    FAULT("ring.left");
    t->opened = news->opened;
    t->uid = news->uid;
    t->stage = RING_ASKED;
    HISTORY("ring_answer",
            "job=%" PRIu64 " generation=%" PRIu64 " of=%" PRIu64
            " rounds=%" PRIu64,
            t->lease->job, t->opened, rank_of(t)->tag.incarnation,
            rank_of(t)->tag.sequence);
    seat_say(t->seat, say_answer(t->say, t->opened, rank_of(t)));
    FAULT("ring.answered");
}

// ---- newcomers

static enum sl_err read_feed(void *arg, const Sluice__V1__StateRequest *m,
                             void *to, struct sl_error *err)
{
    const struct feed_ask ask = {.follower = m->follower,
                                 .part = m->part,
                                 .record = m->record,
                                 .after = m->after,
                                 .all = m->all,
                                 .offset = m->offset,
                                 .bytes = (size_t)m->bytes};

    return ring_feed_read(arg, &ask, to, err);
}

static void stop_feed(struct ring_task *t)
{
    if (t->feed == NULL)
        return;
    ranks_stop_feed(t->ring_env->ranks, t->lease->job, t->fed);
    ring_feed_free(t->feed);
    t->feed = NULL;
}

// Begins to give the state out to newcomers. Without memory for that they copy
// while all ranks wait. Does nothing if no round follows.
static void start_feed(struct ring_task *t)
{
    const struct ranks_of of = {t->lease->job, t->opened, t->token};

    stop_feed(t);
    if (counted_full(&rank_once(rank_of(t))->counted))
        return;
    t->fed = t->opened;
    if (ring_feed_new(&t->feed, rank_of(t), t->by->clock) == SL_OK &&
        ranks_serve_feed(t->ring_env->ranks, &of, read_feed, t->feed) !=
            SL_OK) {
        ring_feed_free(t->feed);
        t->feed = NULL;
    }
}

// Gives the feed images of parts that are on a device. If the device is lost,
// the next round reports it.
static void give_images(struct ring_task *t)
{
    struct sl_error err = SL_ERROR_INIT;
    struct rank *r = rank_of(t);

    for (uint32_t i = 0; t->feed != NULL && i < r->count; i++) {
        if (ring_feed_wants(t->feed, r, i) &&
            rank_bring_part(r, i, &err) == SL_OK)
            ring_feed_image(t->feed, i);
    }
}

static void stop_following(struct ring_task *t)
{
    newcomer_free(t->newcomer);
    t->newcomer = NULL;
}

static void say_copied_once(struct ring_task *t)
{
    if (t->copied)
        return;
    t->copied = true;
    HISTORY("ring_copied",
            "job=%" PRIu64 " generation=%" PRIu64 " of=%" PRIu64
            " rounds=%" PRIu64,
            t->lease->job, t->followed, rank_of(t)->tag.incarnation,
            rank_of(t)->tag.sequence);
    seat_say(t->seat, say_copied(t->say, t->followed, rank_of(t)->tag));
}

static void give_up_following(struct ring_task *t)
{
    LOG(INFO, "copy of the state ahead of the ring given up",
        "job=%" PRIu64 " generation=%" PRIu64 " error=%s", t->lease->job,
        t->followed, t->err.text);
    t->err = (struct sl_error)SL_ERROR_INIT;
    stop_following(t);
    say_copied_once(t);
}

// Returns true if the state is worth following.
static bool task_ring_is_large(const struct ring_task *t)
{
    uint64_t least = t->ring_env->ahead_bytes;

    return t->by->model->elements * sizeof(float) >=
           (least == 0 ? RING_AHEAD_BYTES : least);
}

static void start_following(struct ring_task *t, const Sluice__V1__RingCopy *m)
{
    const struct rank_job j = {.open = t->lease->record->open,
                               .uid = m->job_uid,
                               .fs = t->ring_env->fs,
                               .store = t->ring_env->store,
                               .rates = &t->rates};
    uint64_t id = t->lease->attempt.term << 32 ^ t->lease->attempt.n;

    if (t->stage != RING_OUT || m->generation < t->opened)
        return;
    stop_following(t);
    t->followed = m->generation;
    t->copied = false;
    if (!task_ring_is_large(t))
        say_copied_once(t);
    else if (newcomer_new(&t->newcomer, rank_of(t), &j, t->seat, m, id,
                          &t->err) != SL_OK)
        give_up_following(t);
}

// Takes the next piece of the copy, or the next round.
static void task_ring_follow_step(struct ring_task *t)
{
    struct pulse *pulse = &t->lease->gate.pulse;
    enum sl_err rc;

    pulse_wait(pulse, true);
    rc = newcomer_step(t->newcomer, &t->err);
    if (newcomer_is_level(t->newcomer))
        say_copied_once(t);
    if (rc == SL_EBUSY) {
        seat_wait(t->seat, FOLLOW_MS);
    } else if (rc != SL_OK && rc != SL_ECANCELED) {
        give_up_following(t);
    }
    pulse_wait(pulse, false);
    pulse_beat(pulse);
}

// Applies the rounds between the state that was followed and `base`; returns
// false if that is not possible.
static bool catch_up(struct ring_task *t, struct wire_tag base)
{
    struct sl_error err = SL_ERROR_INIT;

    return t->newcomer != NULL && newcomer_to(t->newcomer, base, &err) == SL_OK;
}

// ---- the base

static bool task_ring_is_closed(void *arg)
{
    const struct ring_task *t = arg;
    int closed = atomic_load(&t->lease->gate.closed);

    return closed == GATE_REVOKED || closed == GATE_ENDED;
}

static enum sl_err place_base(struct ring_task *t,
                              const Sluice__V1__RingBegin *begin,
                              struct sl_error *err)
{
    struct rank_job j = {.open = t->lease->record->open,
                         .uid = t->uid,
                         .fs = t->ring_env->fs,
                         .store = t->ring_env->store,
                         .rates = &t->rates,
                         .weights = t->ring_env->weights,
                         .stopped = task_ring_is_closed,
                         .arg = t};
    struct rank *r = rank_of(t);
    bool held = false;

    for (size_t i = 0; i < begin->n_holders; i++)
        held = held || begin->holders[i] == begin->self;
    if (held && rank_holds(r, wire_tag_of(begin->base_tag))) {
        rank_keep(r, begin->generation);
        return SL_OK;
    }
    if (begin->n_holders > 0 && catch_up(t, wire_tag_of(begin->base_tag))) {
        rank_keep(r, begin->generation);
        return SL_OK;
    }
    if (begin->n_holders > 0)
        return copy_receive(r, &j, t->seat, begin, err);
    return rank_load(r, &j, begin, err);
}

// Ends all waits of the generation; called on the loop.
static void task_ring_on_end(void *arg)
{
    struct ring_task *t = arg;

    sum_abort(&t->by->ring->sum);
    if (t->by->ops->hurry != NULL)
        t->by->ops->hurry(t->by);
}

// Returns how many buckets overtake the others: none unless all ranks know how
// and some are on different hosts. All ranks must come to the same answer.
static uint32_t early_buckets(const struct ring_task *t,
                              const Sluice__V1__RingBegin *begin)
{
    const struct job_ring *ring = t->by->ring;
    bool apart = false;

    for (size_t i = 1; i < begin->n_ranks; i++)
        apart =
            apart || strcmp(begin->ranks[i]->host, begin->ranks[0]->host) != 0;
    return apart && begin->lanes
               ? buckets_early(ring->buckets, ring->buckets_count)
               : 0;
}

static enum sl_err task_ring_join(struct ring_task *t,
                                  const Sluice__V1__RingBegin *begin,
                                  struct sl_error *err)
{
    const struct ranks_of of = {begin->job, begin->generation,
                                wire_token_of(begin->token)};
    uint32_t early = early_buckets(t, begin);
    enum wire_type wire = spec_wire(t->lease->record->open->spec);
    struct job_ring *ring = t->by->ring;
    enum sl_err rc = place_base(t, begin, err);

    if (rc == SL_OK)
        HISTORY("rank_placed",
                "job=%" PRIu64 " uid=%" PRIx64 " generation=%" PRIu64
                " rounds=%" PRIu64 " steps=%" PRIu64,
                t->lease->job, t->uid, rank_of(t)->tag.incarnation,
                rank_of(t)->tag.sequence,
                counted_steps(&rank_once(rank_of(t))->counted));
    FAULT("ring.placed");
    if (rc == SL_OK)
        rc = round_join(&t->round, (uint32_t)begin->n_ranks, begin->self,
                        begin->contributions,
                        early == 0 ? 0 : ring->buckets[early].first,
                        begin->marks && t->by->model->external, err);
    if (rc == SL_OK && begin->n_holders < begin->n_ranks)
        rc = rank_bring(rank_of(t), err); // newcomers will copy it
    if (rc == SL_OK)
        rc = copy_serve(&t->served, t->ring_env->ranks, &of, &ring->rank, err);
    if (rc == SL_OK)
        rc = sum_join(&ring->sum, t->ring_env, begin, wire, early, err);
    if (rc != SL_OK)
        return rc;
    t->joined = true;
    t->token = of.token;
    seat_on_end(t->seat, task_ring_on_end, t);
    return SL_OK;
}

// Joins the generation that `m` begins. Returns false if the lease has failed.
static bool begin(struct ring_task *t, const Sluice__V1__RingBegin *m)
{
    enum sl_err rc;

    if (t->stage != RING_ASKED || m->generation != t->opened)
        return true;
    rc = task_ring_join(t, m, &t->err);
    stop_following(t);
    if (rc == SL_OK) {
        t->stage = RING_READY;
        LOG(INFO, "joined a generation of the ring",
            "job=%" PRIu64 " generation=%" PRIu64 " rank=%" PRIu32
            " ranks=%zu rounds=%" PRIu64 " contributions=%" PRIu32
            " early=%" PRIu64,
            t->lease->job, m->generation, m->self, m->n_ranks,
            rank_of(t)->tag.sequence, m->contributions, t->round.early);
        seat_say(t->seat, say_ready(t->say, rank_of(t)));
        figures_ring(m->generation);
        FAULT("ring.ready");
        return true;
    }
    if (m->n_holders == 0 || rc == SL_ENOMEM || rc == SL_ELOST) {
        t->err.code = rc;
        return false; // no other generation would mend it
    }
    task_ring_leave_broken(t,
                           rc == SL_ESTALE ? RING_NO_SUSPECT : m->holders[0]);
    return true;
}

// ---- files of a cut

static void refuse_request(struct ring_task *t, const struct seat_request *r,
                           const char *why)
{
    seat_say(t->seat, say_no_snapshot(t->say, r, rank_of(t)->tag, why));
}

static void task_ring_write_part(struct ring_task *t,
                                 const struct seat_request *r)
{
    struct rank *rank = rank_of(t);
    struct shard_image *image;
    struct sl_error err = SL_ERROR_INIT;

    if (r->generation != rank->tag.incarnation) {
        refuse_request(t, r, "another generation");
        return;
    }
    if (r->at_round != 0 && r->at_round < rank->tag.sequence) {
        refuse_request(t, r, "that round is past");
        return;
    }
    if (t->ring_env->store == NULL) {
        refuse_request(t, r, "this worker has no --store");
        return;
    }
    if (t->feed != NULL)
        // feed_round does it, but maybe no round follows
        ring_feed_forget_silent(t->feed);
    image = sl_calloc(1, sizeof(*image));
    if (image == NULL || rank_freeze(rank, r->part, image, &err) != SL_OK) {
        sl_free(image);
        refuse_request(t, r, err.text[0] != '\0' ? err.text : "no memory");
        return;
    }
    if (t->by->ops->keep != NULL)
        t->by->ops->keep(t->by);
    seat_write(t->seat, r, image);
}

// Returns true if the next round has to wait: callbacks have not judged the
// rounds before it.
static bool task_ring_is_held(const struct ring_task *t)
{
    return t->hold != 0 &&
           counted_next_open(&rank_once(rank_of(t))->counted, 0) >= t->hold;
}

static void write_parts(struct ring_task *t)
{
    struct seat_request r;

    if (t->stage != RING_RUNS)
        return;
    // While the rank waits no round follows, so parts asked for a later round
    // are written, too.
    while (seat_take_request(t->seat, rank_of(t)->tag,
                             t->over || task_ring_is_held(t), &r))
        task_ring_write_part(t, &r);
}

// ---- rounds

// Reports the round that was applied, and what was computed of it if it was
// audited.
static void task_ring_say_step(struct ring_task *t)
{
    const struct ring_repeats *audit = &t->round.audit;
    Sluice__V1__StepMetrics metrics;
    struct say_beside beside = {&metrics, ring_repeats_say(audit), 0};

    lease_say_metrics(&metrics, &t->round.m);
    if (beside.repeats != NULL)
        beside.repeats_count = audit->count;
    seat_say_step(t->seat, say_step(t->say, rank_of(t), beside),
                  t->over || task_ring_is_held(t) || t->by->beside);
    sl_free(beside.repeats);
}

// Runs one round. Returns true if another round may follow.
static bool task_ring_run_round(struct ring_task *t, bool *failed)
{
    struct rank *r = rank_of(t);
    enum round_result result = round_run(&t->round, &t->err);

    switch (result) {
    case ROUND_OVER:
        t->over = true;
        stop_feed(t);
        return false;
    case ROUND_LEFT:
        task_ring_leave_broken(t, sum_suspect(&t->by->ring->sum));
        return false;
    case ROUND_FAILED:
        *failed = true;
        return false;
    case ROUND_DONE:
        break;
    }
    HISTORY("ring_round",
            "job=%" PRIu64 " generation=%" PRIu64 " rounds=%" PRIu64
            " ranks=%" PRIu32 " rank=%" PRIu32 " keys=%" PRIu32,
            t->lease->job, r->tag.incarnation, r->tag.sequence, t->round.ranks,
            t->round.self, t->round.count);
    t->over = counted_full(&rank_once(r)->counted);
    FAULT("ring.applied");
    if (t->feed != NULL)
        ring_feed_round(t->feed, r, t->round.steps, t->round.count,
                        t->round.average, t->round.present);
    if (t->over)
        // The feed's image would keep the last cut from being written.
        stop_feed(t);
    task_ring_say_step(t);
    return !t->over;
}

// ---- the lease

// Returns true if the lease ends here. A drain is obeyed between rounds.
static bool task_ring_must_end(struct ring_task *t)
{
    if (atomic_load(&t->lease->gate.draining))
        gate_close(&t->lease->gate, GATE_DRAIN);
    return gate_look(&t->lease->gate, t->by->clock) != GATE_OPEN;
}

// Takes the news that the loop has. Returns false if the lease has failed.
static bool take_news(struct ring_task *t)
{
    struct seat_news news;
    bool fine = true;

    seat_look(t->seat, &news);
    t->rates = news.rates;
    t->hold = news.hold;
    rank_rates(rank_of(t), &t->rates);
    if (news.opened > t->opened)
        task_ring_answer_opened(t, &news);
    if (news.copy != NULL)
        start_following(t, news.copy);
    if (news.begin != NULL)
        fine = begin(t, news.begin);
    seat_news_release(&news);
    if (t->stage == RING_READY && news.gone == t->opened) {
        copy_unserve(&t->served);
        start_feed(t);
        t->stage = RING_RUNS;
        FAULT("ring.gone");
    }
    return fine;
}

static void task_ring_wait_news(struct ring_task *t)
{
    struct pulse *pulse = &t->lease->gate.pulse;

    pulse_wait(pulse, true);
    seat_wait(t->seat, LOOK_MS);
    pulse_wait(pulse, false);
    pulse_beat(pulse); // the thread does not hang
}

// Waits for newcomers that are behind, as long as the feed allows (feed_lags).
static void pace(struct ring_task *t)
{
    struct pulse *pulse = &t->lease->gate.pulse;

    if (t->feed == NULL || !ring_feed_lags(t->feed))
        return;
    pulse_wait(pulse, true);
    do {
        give_images(t);
        seat_wait(t->seat, FOLLOW_MS);
    } while (!seat_has_news(t->seat) && ring_feed_lags(t->feed));
    pulse_wait(pulse, false);
    pulse_beat(pulse);
}

// Runs until the lease ends; returns false if it failed.
static bool task_ring_loop(struct ring_task *t)
{
    bool failed = false;

    while (!failed && !task_ring_must_end(t)) {
        if (!take_news(t))
            return false;
        write_parts(t);
        give_images(t);
        if (t->by->ops->between != NULL)
            t->by->ops->between(t->by);
        if (t->stage == RING_RUNS && !t->over && !task_ring_is_held(t)) {
            while (task_ring_run_round(t, &failed) && !seat_has_news(t->seat) &&
                   !task_ring_must_end(t) && !task_ring_is_held(t)) {
                write_parts(t);
                give_images(t);
                pace(t);
            }
        } else if (t->stage == RING_OUT && t->newcomer != NULL) {
            task_ring_follow_step(t);
        } else if (!seat_has_news(t->seat)) {
            task_ring_wait_news(t);
        }
    }
    return !failed;
}

void task_ring_run(struct contributor *by, struct lease *l)
{
    struct ring_task t = {.err = SL_ERROR_INIT,
                          .by = by,
                          .lease = l,
                          .seat = l->seat,
                          .ring_env = seat_env(l->seat),
                          .say = {l->job, l->job_incarnation}};

    by->ring->env = t.ring_env;
    round_init(&t.round, by, l);
    seat_say(t.seat, say_join(t.say, l->attempt, t.ring_env));
    FAULT("ring.joined");
    if (task_ring_loop(&t))
        lease_stopped(l);
    else
        lease_fail(l, t.err.code, &t.err);
    task_ring_leave(&t);
    stop_feed(&t);
    stop_following(&t);
    round_release(&t.round);
}
