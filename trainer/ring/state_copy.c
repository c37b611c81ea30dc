// SPDX-License-Identifier: Apache-2.0
// trainer/ring/state_copy.c -- a rank's state over the wire: what is given out,
// and the fetching of it in pieces, from all holders in turn.
#include "trainer/ring/state_copy.h"

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "proto/access.h"

#define CALL_MS 2000     // deadline of a piece
#define GIVE_UP_MS 10000 // most time without a piece from any holder
#define AGAIN_MS 20

static enum sl_err read_view(void *arg, uint64_t offset, size_t bytes, void *to)
{
    return rank_view_read(arg, offset, bytes, to);
}

enum sl_err copy_serve(struct copy_served *c, struct ranks *ranks,
                       const struct ranks_of *of, const struct rank *r,
                       struct sl_error *err)
{
    enum sl_err rc;

    c->job = of->job;
    c->generation = of->generation;
    if (rank_view_init(&c->view, r) != SL_OK)
        return sl_fail(err, SL_ENOMEM, "no memory to give the state out");
    rc = ranks_serve_state(ranks, of, read_view, &c->view);
    if (rc != SL_OK) {
        rank_view_release(&c->view);
        return sl_fail(err, rc, "the state cannot be given out");
    }
    c->ranks = ranks;
    return SL_OK;
}

void copy_unserve(struct copy_served *c)
{
    if (c->ranks == NULL)
        return;
    ranks_stop_state(c->ranks, c->job, c->generation);
    rank_view_release(&c->view);
    c->ranks = NULL;
}

// ---- the copy from other ranks

struct holders {
    struct seat *seat;
    struct ranks_of of;
    struct rpc_channel **channels; // owned
    size_t count, next;
};

static void holders_release(struct holders *h)
{
    for (size_t i = 0; i < h->count; i++)
        rpc_channel_free(h->channels[i]);
    sl_free(h->channels);
}

static enum sl_err holders_init(struct holders *h, struct seat *seat,
                                const Sluice__V1__RingBegin *begin,
                                struct sl_error *err)
{
    const struct ring_env *env = seat_env(seat);
    enum sl_err rc = SL_OK;

    *h = (struct holders){
        .seat = seat,
        .of = {begin->job, begin->generation, wire_token_of(begin->token)}};
    h->channels = sl_calloc(begin->n_holders, sizeof(*h->channels));
    if (h->channels == NULL)
        return sl_no_memory(err);
    for (size_t i = 0; rc == SL_OK && i < begin->n_holders; i++) {
        const char *address = begin->ranks[begin->holders[i]]->address;

        rc = rpc_channel_new(&h->channels[i], env->io, address, env->tls,
                             &access_to_worker, err);
        if (rc == SL_OK)
            h->count++;
    }
    return rc;
}

// Fetches a piece from the next holder, or from another one while that is not
// ready.
static enum sl_err copy_fetch_piece(void *arg, uint64_t offset, size_t bytes,
                                    void *into, struct sl_error *err)
{
    struct holders *h = arg;
    const struct sl_clock *clock = seat_env(h->seat)->clock;
    uint64_t until = sl_now_ms(clock) + GIVE_UP_MS;
    enum sl_err rc = SL_EUNAVAIL;

    while (sl_now_ms(clock) < until) {
        struct rpc_channel *from = h->channels[h->next++ % h->count];

        rc = ranks_fetch(from, &h->of, offset, bytes, into, CALL_MS, err);
        if (rc == SL_OK) {
            FAULT("copy.piece");
            return rc;
        }
        // seat_wait would return at once while other news wait, and this loop
        // would ask holders that are not ready without a pause.
        seat_wait_end(h->seat, AGAIN_MS);
        if (seat_has_ended(h->seat))
            return sl_fail(err, SL_ESTALE,
                           "the generation ended while its state was copied");
    }
    return rc;
}

enum sl_err copy_receive(struct rank *r, const struct rank_job *j,
                         struct seat *seat, const Sluice__V1__RingBegin *begin,
                         struct sl_error *err)
{
    struct holders holders;
    enum sl_err rc = holders_init(&holders, seat, begin, err);

    if (rc == SL_OK)
        rc = rank_receive(r, j, begin, copy_fetch_piece, &holders, err);
    if (rc == SL_OK)
        FAULT("copy.whole");
    holders_release(&holders);
    return rc;
}
