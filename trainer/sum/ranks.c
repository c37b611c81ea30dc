// SPDX-License-Identifier: Apache-2.0
// trainer/sum/ranks.c -- the Ranks service: its calls find the generation
// that they are for.
#include "trainer/sum/ranks.h"

#include <inttypes.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "common/net/local/shm.h"
#include "proto/token.h"

struct ranks_lane {
    struct inbox *inbox; // NULL: the lane is not here
    struct ranks_share share;
};

struct ranks_generation {
    struct list_node node;
    struct ranks_of of;
    struct ranks_lane
        lane[WIRE_LANES]; // without inboxes: a state or feed alone
    ranks_state_fn state; // NULL: none
    void *arg;
    ranks_feed_fn feed; // NULL: none
    void *feed_arg;
};

struct ranks {
    pthread_rwlock_t lock; // calls read; adding and removing write
    struct list entries;
};

enum sl_err ranks_new(struct ranks **out)
{
    struct ranks *r = sl_calloc(1, sizeof(*r));

    if (r == NULL)
        return SL_ENOMEM;
    pthread_rwlock_init(&r->lock, NULL);
    list_init(&r->entries);
    *out = r;
    return SL_OK;
}

void ranks_free(struct ranks *r)
{
    struct list_node *n;

    if (r == NULL)
        return;
    while ((n = list_pop_front(&r->entries)) != NULL)
        sl_free(list_entry(n, struct ranks_generation, node));
    pthread_rwlock_destroy(&r->lock);
    sl_free(r);
}

static struct ranks_generation *ranks_find_locked(struct ranks *r, uint64_t job,
                                                  uint64_t generation)
{
    list_for(n, &r->entries)
    {
        struct ranks_generation *e =
            list_entry(n, struct ranks_generation, node);

        if (e->of.job == job && e->of.generation == generation)
            return e;
    }
    return NULL;
}

// Returns why the generation is missing here: SL_ESTALE if it is over, else
// SL_EUNAVAIL.
static enum sl_err ranks_missing_locked(struct ranks *r, uint64_t job,
                                        uint64_t generation,
                                        struct sl_error *err)
{
    list_for(n, &r->entries)
    {
        struct ranks_generation *e =
            list_entry(n, struct ranks_generation, node);

        if (e->of.job == job && e->of.generation > generation)
            return sl_fail(err, SL_ESTALE,
                           "generation %" PRIu64 " of job %" PRIu64
                           " is over: this rank is in %" PRIu64,
                           generation, job, e->of.generation);
    }
    return sl_fail(err, SL_EUNAVAIL,
                   "this worker is not in generation %" PRIu64
                   " of job %" PRIu64,
                   generation, job);
}

// ---- generations that are here

// Returns the entry of a generation, made if need be; NULL without memory.
static struct ranks_generation *entry_locked(struct ranks *r,
                                             const struct ranks_of *of)
{
    struct ranks_generation *e = ranks_find_locked(r, of->job, of->generation);

    if (e != NULL)
        return e;
    e = sl_calloc(1, sizeof(*e));
    if (e == NULL)
        return NULL;
    e->of = *of;
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        e->lane[i].share.fd = -1;
    list_push_back(&r->entries, &e->node);
    return e;
}

static void forget_if_empty(struct ranks_generation *e)
{
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        if (e->lane[i].inbox != NULL)
            return;
    if (e->state != NULL || e->feed != NULL)
        return;
    list_remove(&e->node);
    sl_free(e);
}

enum sl_err ranks_add(struct ranks *r, const struct ranks_of *of, uint32_t lane,
                      struct inbox *inbox, struct ranks_share share)
{
    enum sl_err rc = SL_OK;
    struct ranks_generation *e;

    pthread_rwlock_wrlock(&r->lock);
    e = entry_locked(r, of);
    if (e == NULL) {
        rc = SL_ENOMEM;
    } else if (e->lane[lane].inbox != NULL) {
        rc = SL_EEXIST;
    } else {
        e->lane[lane] = (struct ranks_lane){inbox, share};
    }
    pthread_rwlock_unlock(&r->lock);
    return rc;
}

void ranks_remove(struct ranks *r, uint64_t job, uint64_t generation,
                  uint32_t lane)
{
    struct ranks_generation *e;

    pthread_rwlock_wrlock(&r->lock);
    e = ranks_find_locked(r, job, generation);
    if (e != NULL) {
        e->lane[lane] = (struct ranks_lane){.share = {.fd = -1}};
        forget_if_empty(e);
    }
    pthread_rwlock_unlock(&r->lock);
}

enum sl_err ranks_serve_state(struct ranks *r, const struct ranks_of *of,
                              ranks_state_fn fn, void *arg)
{
    enum sl_err rc = SL_OK;
    struct ranks_generation *e;

    pthread_rwlock_wrlock(&r->lock);
    e = entry_locked(r, of);
    if (e == NULL) {
        rc = SL_ENOMEM;
    } else if (e->state != NULL) {
        rc = SL_EEXIST;
    } else {
        e->state = fn;
        e->arg = arg;
    }
    pthread_rwlock_unlock(&r->lock);
    return rc;
}

void ranks_stop_state(struct ranks *r, uint64_t job, uint64_t generation)
{
    struct ranks_generation *e;

    pthread_rwlock_wrlock(&r->lock);
    e = ranks_find_locked(r, job, generation);
    if (e != NULL) {
        e->state = NULL;
        forget_if_empty(e);
    }
    pthread_rwlock_unlock(&r->lock);
}

enum sl_err ranks_serve_feed(struct ranks *r, const struct ranks_of *of,
                             ranks_feed_fn fn, void *arg)
{
    enum sl_err rc = SL_OK;
    struct ranks_generation *e;

    pthread_rwlock_wrlock(&r->lock);
    e = entry_locked(r, of);
    if (e == NULL) {
        rc = SL_ENOMEM;
    } else if (e->feed != NULL) {
        rc = SL_EEXIST;
    } else {
        e->feed = fn;
        e->feed_arg = arg;
    }
    pthread_rwlock_unlock(&r->lock);
    return rc;
}

void ranks_stop_feed(struct ranks *r, uint64_t job, uint64_t generation)
{
    struct ranks_generation *e;

    pthread_rwlock_wrlock(&r->lock);
    e = ranks_find_locked(r, job, generation);
    if (e != NULL) {
        e->feed = NULL;
        forget_if_empty(e);
    }
    pthread_rwlock_unlock(&r->lock);
}

// ---- calls

// Checks that a call shows the token of the generation.
// The job's token would not do: any worker that was ever given the job has it.
// A generation with a member of an older version has no token.
static enum sl_err ranks_check_token(const struct ranks_generation *e,
                                     const struct wire_token *shown,
                                     struct sl_error *err)
{
    if (token_absent(&e->of.token) || token_same(&e->of.token, shown))
        return SL_OK;
    return token_absent(shown)
               ? sl_fail(err, SL_EAUTH,
                         "the call has no token of the ring, which each rank "
                         "gets from the coordinator (RingBegin.token)")
               : sl_fail(err, SL_EDENIED,
                         "the call's token belongs to another generation of "
                         "the ring");
}

static void piece(struct rpc_call *call, void *arg)
{
    struct sl_error err = SL_ERROR_INIT;
    struct ranks *r = arg;
    struct wire_piece m;
    struct ranks_generation *e;
    enum sl_err rc = wire_read_piece(&m, rpc_call_body(call), &err);

    if (rc == SL_OK) {
        pthread_rwlock_rdlock(&r->lock);
        e = ranks_find_locked(r, m.job, m.generation);
        if (e == NULL || e->lane[m.lane].inbox == NULL)
            rc = ranks_missing_locked(r, m.job, m.generation, &err);
        else
            rc = ranks_check_token(e, &m.token, &err);
        if (rc == SL_OK)
            rc = inbox_offer(e->lane[m.lane].inbox, call, &m);
        pthread_rwlock_unlock(&r->lock);
    }
    if (rc != SL_OK)
        rpc_answer(call, rc, err.code == rc ? &err : NULL, NULL);
}

static void answer_msg(struct rpc_call *call, enum sl_err rc,
                       struct sl_error *err, const ProtobufCMessage *reply)
{
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    if (rc == SL_OK)
        rc = wire_msg(&msg, reply);
    rpc_answer(call, rc, rc == SL_OK ? NULL : err, rc == SL_OK ? &msg : NULL);
}

static void tell_share(Sluice__V1__ShareReply *reply,
                       const struct ranks_share *at)
{
    reply->pid = (uint64_t)getpid();
    reply->fd = (uint32_t)at->fd;
    reply->bytes = at->bytes;
    reply->token = at->token;
}

static void ranks_on_share(struct rpc_call *call, void *arg)
{
    Sluice__V1__ShareReply reply = SLUICE__V1__SHARE_REPLY__INIT;
    struct sl_error err = SL_ERROR_INIT;
    Sluice__V1__ShareRequest *m = NULL;
    struct wire_token token;
    struct ranks *r = arg;
    struct wire_arena arena;
    struct ranks_generation *e;
    enum sl_err rc;

    wire_arena_init(&arena);
    rc = wire_unpack_share_request(&m, &arena, rpc_call_body(call), &err);
    if (rc == SL_OK) {
        token = wire_token_of(m->token);
        pthread_rwlock_rdlock(&r->lock);
        e = ranks_find_locked(r, m->job, m->generation);
        if (e == NULL || e->lane[m->lane].share.fd < 0)
            rc = ranks_missing_locked(r, m->job, m->generation, &err);
        else
            rc = ranks_check_token(e, &token, &err);
        if (rc == SL_OK)
            tell_share(&reply, &e->lane[m->lane].share);
        pthread_rwlock_unlock(&r->lock);
    }
    wire_arena_release(&arena);
    answer_msg(call, rc, &err, &reply.base);
}

static enum sl_err read_state(struct ranks *r,
                              const Sluice__V1__StateRequest *m, void *to,
                              struct sl_error *err)
{
    struct wire_token token = wire_token_of(m->token);
    struct ranks_generation *e;
    enum sl_err rc;

    pthread_rwlock_rdlock(&r->lock);
    e = ranks_find_locked(r, m->job, m->generation);
    if (e == NULL || (m->follower != 0 ? e->feed == NULL : e->state == NULL))
        rc = ranks_missing_locked(r, m->job, m->generation, err);
    else
        rc = ranks_check_token(e, &token, err);
    if (rc == SL_OK)
        rc = m->follower != 0
                 ? e->feed(e->feed_arg, m, to, err)
                 : e->state(e->arg, m->offset, (size_t)m->bytes, to);
    pthread_rwlock_unlock(&r->lock);
    return rc;
}

static void state(struct rpc_call *call, void *arg)
{
    struct sl_error err = SL_ERROR_INIT;
    Sluice__V1__StateRequest *m = NULL;
    struct wire_arena arena;
    struct rpc_msg msg;
    void *bytes = NULL;
    size_t n = 0;
    enum sl_err rc;

    wire_arena_init(&arena);
    rc = wire_unpack_state_request(&m, &arena, rpc_call_body(call), &err);
    if (rc == SL_OK && (m->bytes == 0 || m->bytes > RANKS_STATE_BYTES))
        rc = sl_fail(&err, SL_EINVAL,
                     "the request asks for %" PRIu64
                     " bytes of a state at once, which is over the limit",
                     m->bytes);
    if (rc == SL_OK) {
        n = (size_t)m->bytes;
        bytes = sl_malloc(n);
        rc = bytes == NULL ? SL_ENOMEM : read_state(arg, m, bytes, &err);
    }
    wire_arena_release(&arena);
    rpc_msg_init(&msg);
    if (rc == SL_OK)
        rc = wire_head_state_reply(&msg, n);
    if (rc != SL_OK) {
        sl_free(bytes);
        rpc_answer(call, rc, err.code == rc ? &err : NULL, NULL);
        return;
    }
    FAULT("copy.served");
    rpc_msg_part(&msg, bytes, n);
    rpc_msg_on_release(&msg, sl_free, bytes);
    rpc_answer(call, SL_OK, NULL, &msg);
}

struct rpc_table ranks_table(struct ranks *r)
{
    static const struct rpc_method methods[] = {
        {.path = WIRE_PIECE,
         .max_request_bytes = RPC_DATA_BYTES,
         .unary = piece},
        {.path = WIRE_SHARE, .unary = ranks_on_share},
        {.path = WIRE_STATE, .unary = state},
    };

    return (struct rpc_table){methods, SL_COUNT(methods), r};
}

// ---- calls to other ranks

enum sl_err ranks_address(char **out, const char *listen, const char *advertise,
                          int port, struct sl_error *err)
{
    const char *colon = strrchr(listen, ':');
    struct buf b = BUF_INIT;
    enum sl_err rc = SL_OK;
    size_t n;

    if (advertise != NULL)
        rc = rpc_address_check(advertise, err);
    if (rc == SL_OK && advertise != NULL)
        rc = buf_append_str(&b, advertise);
    else if (rc == SL_OK && (strncmp(listen, "unix:", 5) == 0 || colon == NULL))
        rc = buf_append_str(&b, listen);
    else if (rc == SL_OK)
        rc = buf_appendf(&b, "%.*s:%d", (int)(colon - listen), listen, port);
    *out = (char *)buf_detach(&b, &n);
    return rc;
}

enum sl_err ranks_host(char out[RANKS_HOST_BYTES], bool alone)
{
    char boot[SHM_BOOT_ID];
    uint64_t number = 0;
    struct stat st;

    if (!alone && shm_boot_id(boot) && stat("/proc/self/ns/pid", &st) == 0) {
        snprintf(out, RANKS_HOST_BYTES, "%s/%" PRIu64 "/%u", boot,
                 (uint64_t)st.st_ino, (unsigned)geteuid());
        return SL_OK;
    }
    if (shm_secret(&number) != SL_OK)
        return SL_EIO;
    snprintf(out, RANKS_HOST_BYTES, "alone/%016" PRIx64, number);
    return SL_OK;
}

static enum sl_err take_state(const struct sl_slices *body, size_t bytes,
                              void *to, struct sl_error *err)
{
    struct wire_state_reply m;
    enum sl_err rc = wire_read_state_reply(&m, body, err);

    if (rc == SL_OK && m.payload.bytes != bytes)
        rc = sl_fail(err, SL_ECORRUPT, "%zu bytes of a state, not %zu",
                     m.payload.bytes, bytes);
    if (rc == SL_OK)
        slices_copy(to, &m.payload);
    return rc;
}

struct ranks_ask_call {
    struct ranks_ask *ask;
    struct sl_error err;
    sem_t *ended;
};

static void on_answer(void *arg, enum sl_err rc, const struct sl_error *err,
                      const struct sl_slices *reply)
{
    struct ranks_ask_call *a = arg;

    if (rc == SL_OK)
        rc = take_state(reply, (size_t)a->ask->m->bytes, a->ask->to, &a->err);
    else
        a->err = *err;
    a->ask->rc = rc;
    sem_post(a->ended); // last: the waiter frees `a` then
}

static void ranks_start_ask(struct ranks_ask_call *a,
                            const struct rpc_call_options *options)
{
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    a->ask->rc = wire_msg(&msg, &a->ask->m->base);
    if (a->ask->rc == SL_OK) {
        rpc_call_start(a->ask->from, WIRE_STATE, &msg, options, on_answer, a,
                       NULL);
        return;
    }
    rpc_msg_drop(&msg);
    sem_post(a->ended);
}

enum sl_err ranks_ask(struct ranks_ask *asks, size_t count, uint32_t timeout_ms,
                      struct sl_error *err)
{
    const struct rpc_call_options options = {
        .deadline_ms = timeout_ms,
        .max_reply_bytes = RANKS_STATE_BYTES + RPC_CONTROL_BYTES,
        .wait_for_ready = true,
    };
    struct ranks_ask_call *asking = sl_calloc(count, sizeof(*asking));
    enum sl_err rc = SL_OK;
    sem_t ended;

    for (size_t i = 0; i < count; i++)
        asks[i].rc = SL_ENOMEM; // for a caller that reads each
    if (asking == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory to ask for a state");
    sem_init(&ended, 0, 0);
    for (size_t i = 0; i < count; i++) {
        asking[i] = (struct ranks_ask_call){&asks[i], SL_ERROR_INIT, &ended};
        ranks_start_ask(&asking[i], &options);
    }
    for (size_t i = 0; i < count;)
        i += sem_wait(&ended) == 0; // a signal may interrupt it
    sem_destroy(&ended);
    for (size_t i = 0; i < count; i++) {
        if (asks[i].rc == SL_OK || (rc != SL_OK && rc != SL_EBUSY))
            continue;
        rc = asks[i].rc;
        if (err != NULL)
            *err = asking[i].err;
    }
    sl_free(asking);
    return rc;
}

enum sl_err ranks_fetch(struct rpc_channel *from, const struct ranks_of *of,
                        uint64_t offset, size_t bytes, void *to,
                        uint32_t timeout_ms, struct sl_error *err)
{
    Sluice__V1__StateRequest m = SLUICE__V1__STATE_REQUEST__INIT;
    Sluice__V1__JobToken token;

    m.job = of->job;
    m.generation = of->generation;
    m.token = wire_token_msg(&token, &of->token);
    m.offset = offset;
    m.bytes = bytes;
    return ranks_ask(&(struct ranks_ask){from, &m, to, SL_OK}, 1, timeout_ms,
                     err);
}
