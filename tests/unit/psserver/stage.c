// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/psserver/stage.h"

#include <errno.h>

#include "common/base/deadline.h"
#include "common/base/mem.h"

#define PATIENCE_MS 60000 // a test that waits longer is broken
#define HEARTBEAT_MS 5

// ---- the coordinator, on an I/O thread

static void coordinator_message(struct rpc_stream *stream,
                                const struct sl_slices *body, void *user)
{
    struct wire_arena *arena = sl_malloc(sizeof(*arena));
    struct stage *s = user;
    Sluice__V1__AttendUp *m;
    ProtobufCMessage *copy;

    (void)stream;
    wire_arena_init(arena);
    T_ASSERT(wire_unpack_attend_up(&m, arena, body, NULL) == SL_OK);
    T_ASSERT(wire_dup(&copy, &m->base) == SL_OK);
    wire_arena_release(arena);
    sl_free(arena);
    pthread_mutex_lock(&s->lock);
    if (s->got == s->inbox_space) {
        s->inbox_space = s->inbox_space == 0 ? 64 : 2 * s->inbox_space;
        s->inbox = sl_realloc(s->inbox, s->inbox_space * sizeof(*s->inbox));
        T_ASSERT(s->inbox != NULL);
    }
    s->inbox[s->got++] = (Sluice__V1__AttendUp *)copy;
    pthread_cond_signal(&s->news);
    pthread_mutex_unlock(&s->lock);
}

static void coordinator_open(struct rpc_stream *stream, void *arg)
{
    static const struct rpc_stream_events events = {.on_message =
                                                        coordinator_message};
    struct stage *s = arg;
    struct rpc_stream *old;

    rpc_stream_set(stream, &events, s);
    pthread_mutex_lock(&s->lock);
    old = s->stream;
    s->stream = rpc_stream_ref(stream);
    s->streams++;
    pthread_mutex_unlock(&s->lock);
    rpc_stream_unref(old);
}

static const struct rpc_method coordinator_methods[] = {
    {.path = WIRE_ATTEND, .kind = RPC_BIDI, .open = coordinator_open}};

// ---- the psserver, on its thread

static void psserver_parts(struct stage *s, struct rpc_channel *channel)
{
    struct attendance_setup up = {.loop = s->loop,
                                  .channel = channel,
                                  .name = "ps-test",
                                  .address = s->psserver};
    struct roster_setup down = {.loop = s->loop,
                                .fs = fs_posix(),
                                .store = s->store,
                                .folder = s->folder,
                                .send = attendance_send};

    T_ASSERT(attendance_new(&s->attend, &up, NULL) == SL_OK);
    down.arg = s->attend;
    T_ASSERT(roster_new(&s->roster, &down) == SL_OK);
}

// In the order of server.c.
static void *psserver_run(void *arg)
{
    struct stage *s = arg;
    struct rpc_channel *channel;
    struct shards_api_setup setup;
    struct rpc_server *rpc;
    struct rpc_table table;
    struct shards_api *api;

    T_ASSERT(loop_new(&s->loop, NULL) == SL_OK);
    T_ASSERT(store_new(&s->store) == SL_OK);
    T_ASSERT(local_new(&s->local, s->loop, s->socket, "ps-test", NULL) ==
             SL_OK);
    setup = (struct shards_api_setup){.loop = s->loop,
                                      .name = "ps-0",
                                      .fs = fs_posix(),
                                      .store = s->store,
                                      .folder = s->folder,
                                      .local = s->local};
    T_ASSERT(shards_api_new(&api, &setup) == SL_OK);
    table = shards_api_table(api);
    T_ASSERT(rpc_server_new(&rpc, s->io, &table, 1, NULL, NULL) == SL_OK);
    T_ASSERT(rpc_server_bind(rpc, s->psserver, NULL, NULL, NULL) == SL_OK);
    T_ASSERT(rpc_channel_new(&channel, s->io, s->coordinator, NULL, NULL,
                             NULL) == SL_OK);
    psserver_parts(s, channel);
    rpc_server_start(rpc);
    attendance_start(s->attend, s->roster);
    sem_post(&s->ready);
    loop_run(s->loop);

    attendance_stop(s->attend);
    rpc_server_stop(rpc);
    shards_api_stop(api);
    rpc_server_free(rpc);
    rpc_channel_free(channel);
    attendance_free(s->attend);
    roster_free(s->roster);
    store_free(s->store);
    shards_api_free(api);
    local_free(s->local);
    loop_free(s->loop);
    return NULL;
}

void stage_open(struct stage *s)
{
    struct rpc_table table = {coordinator_methods, 1, s};

    memset(s, 0, sizeof(*s));
    s->heartbeat_ms = HEARTBEAT_MS;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->news, NULL);
    sem_init(&s->ready, 0, 0);
    s->folder = t_path("store");
    snprintf(s->coordinator, sizeof(s->coordinator), "unix:%s", t_path("c"));
    snprintf(s->psserver, sizeof(s->psserver), "unix:%s", t_path("p"));
    snprintf(s->socket, sizeof(s->socket), "%s", t_path("l"));
    T_OK(rpc_io_new(&s->io, &(struct rpc_io_options){.threads = 2}, t_err()));
    T_OK(rpc_server_new(&s->rpc, s->io, &table, 1, NULL, t_err()));
    T_OK(rpc_server_bind(s->rpc, s->coordinator, NULL, NULL, t_err()));
    rpc_server_start(s->rpc);
    T_ASSERT(pthread_create(&s->thread, NULL, psserver_run, s) == 0);
    while (sem_wait(&s->ready) != 0)
        T_ASSERT(errno == EINTR);
    T_OK(rpc_channel_new(&s->worker, s->io, s->psserver, NULL, NULL, t_err()));
}

void stage_close(struct stage *s)
{
    rpc_body_free(s->reply);
    rpc_channel_free(s->worker);
    loop_stop(s->loop);
    pthread_join(s->thread, NULL);
    rpc_stream_unref(s->stream);
    rpc_server_free(s->rpc);
    rpc_io_free(s->io);
    for (size_t i = 0; i < s->got; i++)
        wire_free(&s->inbox[i]->base);
    sl_free(s->inbox);
}

// ---- the coordinator's part

const Sluice__V1__AttendUp *stage_expect(struct stage *s,
                                         Sluice__V1__AttendUp__KindCase kind)
{
    const Sluice__V1__AttendUp *m = NULL;
    struct deadline until = deadline_in_ms(PATIENCE_MS);

    pthread_mutex_lock(&s->lock);
    while (m == NULL) {
        while (s->read == s->got)
            T_ASSERT(deadline_wait(&until, &s->news, &s->lock));
        m = s->inbox[s->read++];
        if (m->kind_case != kind)
            m = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    return m;
}

void stage_send(struct stage *s, Sluice__V1__AttendDown__KindCase kind,
                ProtobufCMessage *msg)
{
    Sluice__V1__AttendDown down = SLUICE__V1__ATTEND_DOWN__INIT;
    struct rpc_stream *stream;
    struct rpc_msg out;

    down.kind_case = kind;
    down.welcome = (Sluice__V1__Welcome *)msg; // one pointer of the union
    pthread_mutex_lock(&s->lock);
    stream = rpc_stream_ref(s->stream);
    pthread_mutex_unlock(&s->lock);
    rpc_msg_init(&out);
    T_OK(wire_msg(&out, &down.base));
    T_OK(rpc_stream_send(stream, &out));
    rpc_stream_unref(stream);
}

void stage_hang_up(struct stage *s)
{
    rpc_stream_cancel(s->stream);
}

void stage_welcome(struct stage *s, uint64_t term)
{
    Sluice__V1__Welcome m = SLUICE__V1__WELCOME__INIT;
    const Sluice__V1__Hello *hello =
        stage_expect(s, SLUICE__V1__ATTEND_UP__KIND_HELLO)->hello;

    T_EQ(hello->role, SLUICE__V1__ROLE__ROLE_PSSERVER);
    T_STR(hello->name, "ps-test");
    T_STR(hello->address, s->psserver);
    m.term = term;
    m.member = 1;
    m.heartbeat_ms = s->heartbeat_ms;
    m.lease_ms = 1000;
    stage_send(s, SLUICE__V1__ATTEND_DOWN__KIND_WELCOME, &m.base);
}

void stage_place(struct stage *s, struct kit *k, uint64_t term,
                 struct wire_tag at_least)
{
    Sluice__V1__Place m = SLUICE__V1__PLACE__INIT;
    Sluice__V1__Tag tag = wire_tag_msg(at_least);

    m.term = term;
    m.shard = &k->spec;
    m.at_least = &tag;
    stage_send(s, SLUICE__V1__ATTEND_DOWN__KIND_PLACE, &m.base);
}

void stage_admit(struct stage *s, uint64_t term, uint64_t incarnation)
{
    Sluice__V1__Admit m = SLUICE__V1__ADMIT__INIT;

    m.term = term;
    m.job = 7;
    m.shard = 2;
    m.incarnation = incarnation;
    m.map_version = 1;
    stage_send(s, SLUICE__V1__ATTEND_DOWN__KIND_ADMIT, &m.base);
}

// A heartbeat reports the shard as this incarnation.
static void until_admitted(struct stage *s, uint64_t incarnation)
{
    const Sluice__V1__Heartbeat *m;

    do
        m = stage_expect(s, SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT)->heartbeat;
    while (m->n_shards == 0 || m->shards[0]->incarnation != incarnation);
}

void stage_serve(struct stage *s, struct kit *k)
{
    const Sluice__V1__ShardHello *hello;

    stage_welcome(s, 1);
    stage_place(s, k, 1, (struct wire_tag){0, 0});
    hello =
        stage_expect(s, SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO)->shard_hello;
    T_STR(hello->failure, "");
    T_EQ(hello->live_incarnation, 0);
    stage_admit(s, 1, 1);
    until_admitted(s, 1);
}

const Sluice__V1__SnapshotReport *
stage_snapshot(struct stage *s, uint64_t incarnation, uint64_t request)
{
    Sluice__V1__SnapshotRequest m = SLUICE__V1__SNAPSHOT_REQUEST__INIT;

    m.job = 7;
    m.shard = 2;
    m.incarnation = incarnation;
    m.request = request;
    stage_send(s, SLUICE__V1__ATTEND_DOWN__KIND_SNAPSHOT, &m.base);
    return stage_expect(s, SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT)->snapshot;
}

// ---- the worker's part

static enum sl_err call(struct stage *s, const char *method,
                        struct rpc_msg *msg)
{
    struct rpc_call_options options = {.deadline_ms = PATIENCE_MS,
                                       .max_reply_bytes = RPC_DATA_BYTES};

    rpc_body_free(s->reply);
    s->reply = NULL;
    return rpc_call_sync(s->worker, method, msg, &options, &s->reply, t_err());
}

enum sl_err stage_push(struct stage *s, const char *method,
                       const struct wire_push *push,
                       struct wire_push_reply *out)
{
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    T_OK(wire_head_push(&msg, push, push->payload.bytes));
    T_LE(push->payload.count, 1);
    if (push->payload.bytes > 0)
        rpc_msg_part(&msg, push->payload.at[0].data, push->payload.bytes);
    rc = call(s, method, &msg);
    if (rc == SL_OK)
        T_OK(wire_read_push_reply(out, rpc_body_slices(s->reply), t_err()));
    return rc;
}

enum sl_err stage_ask(struct stage *s, const struct wire_ask *ask,
                      struct wire_ask_reply *out)
{
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    T_OK(wire_head_ask(&msg, ask));
    rc = call(s, WIRE_ASK, &msg);
    if (rc == SL_OK)
        T_OK(wire_read_ask_reply(out, rpc_body_slices(s->reply), t_err()));
    return rc;
}

enum sl_err stage_pull(struct stage *s, const struct wire_pull *pull,
                       struct wire_pull_reply *out)
{
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    T_OK(wire_head_pull(&msg, pull, 0));
    rc = call(s, WIRE_PULL, &msg);
    if (rc == SL_OK)
        T_OK(wire_read_pull_reply(out, rpc_body_slices(s->reply), t_err()));
    return rc;
}

void stage_floats(const struct sl_slices *payload, float *out, size_t n)
{
    T_EQ(payload->bytes, n * sizeof(float));
    slices_copy(out, payload);
}
