// SPDX-License-Identifier: Apache-2.0
// trainer/ring/newcomer.c -- the calls of a newcomer to the ranks that it
// follows.
#include "trainer/ring/newcomer.h"

#include "common/base/mem.h"
#include "proto/access.h"
#include "trainer/sum/ranks.h"
#include "trainer/ring/follow.h"

#define CALL_MS 2000     // deadline of a piece
#define GIVE_UP_MS 10000 // most time without an answer
#define LAST_MS 1000     // for a record that a holder of the base must have
#define AGAIN_MS 5
// After so long without a round a newcomer is level even if its ranks are in
// the midst of one.
#define LEVEL_MS 1000
// A newcomer that is not level after so long will not be: the rest is copied
// while the other ranks wait.
#define LATE_MS 30000

struct newcomer {
    struct seat *seat;
    uint64_t job, generation;
    Sluice__V1__JobToken token;    // token of the generation
    Sluice__V1__JobToken *shown;   // `token`; NULL: the generation has none
    struct rpc_channel **channels; // to the ranks; owned
    size_t count;
    uint64_t heard_ms;  // time of the last answer
    uint64_t moved_ms;  // time when a piece or a round was taken
    uint64_t placed_ms; // time when the state came into place; 0: not yet
    bool rounds;        // what was taken last was a round
    bool idle;          // the last step found no piece and no round
    struct follow follow;
};

void newcomer_free(struct newcomer *n)
{
    if (n == NULL)
        return;
    follow_release(&n->follow);
    for (size_t i = 0; i < n->count; i++)
        rpc_channel_free(n->channels[i]);
    sl_free(n->channels);
    sl_free(n);
}

static enum sl_err newcomer_dial(struct newcomer *n,
                                 const Sluice__V1__RingCopy *copy,
                                 struct sl_error *err)
{
    const struct ring_env *env = seat_env(n->seat);
    enum sl_err rc = SL_OK;

    n->channels = sl_calloc(copy->n_ranks, sizeof(*n->channels));
    if (n->channels == NULL)
        return sl_no_memory(err);
    for (size_t i = 0; rc == SL_OK && i < copy->n_ranks; i++) {
        rc = rpc_channel_new(&n->channels[i], env->io, copy->ranks[i]->address,
                             env->tls, &access_to_worker, err);
        if (rc == SL_OK)
            n->count++;
    }
    return rc;
}

static uint64_t newcomer_now_ms(const struct newcomer *n)
{
    return sl_now_ms(seat_env(n->seat)->clock);
}

static Sluice__V1__StateRequest request(const struct newcomer *n,
                                        const struct feed_ask *ask)
{
    Sluice__V1__StateRequest m = SLUICE__V1__STATE_REQUEST__INIT;

    m.job = n->job;
    m.generation = n->generation;
    m.follower = ask->follower;
    m.part = ask->part;
    m.record = ask->record;
    m.after = ask->after;
    m.all = ask->all;
    m.offset = ask->offset;
    m.bytes = ask->bytes;
    m.token = n->shown;
    return m;
}

// Asks the ranks for the pieces; each part comes from one rank, as long as the
// generation lasts.
static enum sl_err newcomer_fetch(void *arg, struct follow_get *gets,
                                  size_t count, struct sl_error *err)
{
    struct newcomer *n = arg;
    struct ranks_ask asks[FOLLOW_AT_ONCE];
    Sluice__V1__StateRequest m[FOLLOW_AT_ONCE];
    bool heard = false;
    enum sl_err rc;

    for (size_t i = 0; i < count; i++) {
        gets[i].rc = SL_ECANCELED;
        m[i] = request(n, &gets[i].ask);
        asks[i] = (struct ranks_ask){n->channels[gets[i].ask.part % n->count],
                                     &m[i], gets[i].into, SL_OK};
    }
    if (seat_has_news(n->seat))
        return SL_ECANCELED;
    rc = ranks_ask(asks, count, CALL_MS, err);
    for (size_t i = 0; i < count; i++) {
        gets[i].rc = asks[i].rc;
        heard = heard || asks[i].rc == SL_OK || asks[i].rc == SL_EBUSY;
    }
    if (heard)
        n->heard_ms = newcomer_now_ms(n);
    return rc;
}

enum sl_err newcomer_new(struct newcomer **out, struct rank *rank,
                         const struct rank_job *j, struct seat *seat,
                         const Sluice__V1__RingCopy *copy, uint64_t id,
                         struct sl_error *err)
{
    struct newcomer *n = sl_calloc(1, sizeof(*n));
    struct wire_token token;
    enum sl_err rc;

    if (n == NULL)
        return sl_no_memory(err);
    n->seat = seat;
    n->job = copy->job;
    n->generation = copy->generation;
    token = wire_token_of(copy->token);
    n->shown = wire_token_msg(&n->token, &token);
    n->heard_ms = newcomer_now_ms(n);
    rc = newcomer_dial(n, copy, err);
    if (rc == SL_OK)
        rc = follow_init(&n->follow, rank, j, n->generation, id, newcomer_fetch,
                         n, err);
    if (rc != SL_OK) {
        newcomer_free(n);
        return rc;
    }
    *out = n;
    return SL_OK;
}

// Returns SL_EBUSY in place of an error of ranks that have been silent for less
// than GIVE_UP_MS.
static enum sl_err patient(const struct newcomer *n, enum sl_err rc)
{
    bool silent = rc == SL_EUNAVAIL || rc == SL_ETIMEDOUT;

    return silent && newcomer_now_ms(n) - n->heard_ms < GIVE_UP_MS ? SL_EBUSY
                                                                   : rc;
}

enum sl_err newcomer_step(struct newcomer *n, struct sl_error *err)
{
    bool rounds = n->follow.in_place;
    enum sl_err rc = patient(n, follow_step(&n->follow, err));

    n->idle = rc == SL_EBUSY;
    if (rc == SL_OK) {
        n->moved_ms = newcomer_now_ms(n);
        n->rounds = rounds;
    }
    if (n->follow.in_place && n->placed_ms == 0)
        n->placed_ms = newcomer_now_ms(n);
    return rc;
}

// A good moment is just behind a round: in the midst of one, the next round
// would come before the ranks have heard of it, and they would wait for it to
// be fetched.
bool newcomer_is_level(const struct newcomer *n)
{
    uint64_t now = newcomer_now_ms(n);

    if (!n->follow.in_place)
        return false;
    return (n->idle && (n->rounds || now - n->moved_ms >= LEVEL_MS)) ||
           now - n->placed_ms >= LATE_MS;
}

enum sl_err newcomer_to(struct newcomer *n, struct wire_tag base,
                        struct sl_error *err)
{
    uint64_t until = newcomer_now_ms(n) + LAST_MS;
    enum sl_err rc;

    if (base.incarnation != n->generation)
        return sl_fail(err, SL_ESTATE, "the base is of another generation");
    do {
        rc = follow_to(&n->follow, base.sequence, err);
        if (rc == SL_EBUSY)
            seat_wait(n->seat, AGAIN_MS);
    } while (rc == SL_EBUSY && newcomer_now_ms(n) < until);
    return rc;
}
