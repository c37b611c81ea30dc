// SPDX-License-Identifier: Apache-2.0
#include "proto/introspect.h"

#include "proto/health.pb-c.h"
#include "proto/reflection.pb-c.h"
#include "tests/unit/common/rpc_kit.h"

typedef Grpc__Health__V1__HealthCheckRequest HealthRequest;
typedef Grpc__Health__V1__HealthCheckResponse HealthResponse;
typedef Grpc__Reflection__V1alpha__ServerReflectionRequest ReflectRequest;
typedef Grpc__Reflection__V1alpha__ServerReflectionResponse ReflectResponse;

static const struct rpc_call_options plain = {.deadline_ms = DEADLINE_MS};
static const char *const services[] = {"sluice.v1.Shards"};

struct house {
    struct introspect *in;
    struct world w;
};

static void house_open(struct house *h)
{
    struct rpc_table table;

    T_OK(introspect_new(&h->in, services, 1, t_err()));
    table = introspect_table(h->in);
    world_open(&h->w, table.methods, table.count, table.arg, true);
}

static void house_close(struct house *h)
{
    world_close(&h->w);
    introspect_free(h->in);
}

static void pack(struct rpc_msg *msg, const ProtobufCMessage *m)
{
    rpc_msg_init(msg);
    protobuf_c_message_pack(
        m, rpc_msg_head(msg, protobuf_c_message_get_packed_size(m)));
}

static int status_of(const struct sl_slices *body)
{
    uint8_t bytes[100];
    HealthResponse *r;
    int status;

    T_ASSERT(body->bytes < sizeof(bytes));
    slices_copy(bytes, body);
    r = grpc__health__v1__health_check_response__unpack(NULL, body->bytes,
                                                        bytes);
    T_ASSERT(r != NULL);
    status = (int)r->status;
    grpc__health__v1__health_check_response__free_unpacked(r, NULL);
    return status;
}

// The status of a name, or minus the error.
static int check(struct house *h, const char *name)
{
    HealthRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    struct rpc_body *reply;
    struct rpc_msg msg;
    enum sl_err rc;
    int status;

    request.service = (char *)name;
    pack(&msg, &request.base);
    rc = rpc_call_sync(h->w.channel, "/grpc.health.v1.Health/Check", &msg,
                       &plain, &reply, t_err());
    if (rc != SL_OK)
        return -(int)rc;
    status = status_of(rpc_body_slices(reply));
    rpc_body_free(reply);
    return status;
}

TEST(introspect, health_follows_what_is_set)
{
    struct house h;

    house_open(&h);
    T_EQ(check(&h, ""), 2); // NOT_SERVING
    T_EQ(check(&h, "liveness"), 1);
    introspect_set_serving(h.in, true);
    T_EQ(check(&h, ""), 1); // SERVING
    T_EQ(check(&h, "readiness"), 1);
    T_EQ(check(&h, "sluice.v1.Shards"), 1);
    T_EQ(check(&h, "grpc.health.v1.Health"), 1);
    T_EQ(check(&h, "sluice.v1.Jobs"), -(int)SL_ENOENT);
    house_close(&h);
}

struct seen {
    int status[8];
    atomic_int count;
    sem_t one, ended;
};

static void on_status(struct rpc_stream *stream, const struct sl_slices *body,
                      void *user)
{
    struct seen *s = user;

    (void)stream;
    T_ASSERT(atomic_load(&s->count) < 8);
    s->status[atomic_fetch_add(&s->count, 1)] = status_of(body);
    sem_post(&s->one);
}

static void on_end(struct rpc_stream *stream, enum sl_err code,
                   const struct sl_error *err, void *user)
{
    (void)stream, (void)code, (void)err;
    sem_post(&((struct seen *)user)->ended);
}

TEST(introspect, a_watch_is_told_of_every_change)
{
    static const struct rpc_stream_events events = {.on_message = on_status,
                                                    .on_end = on_end};
    HealthRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    struct rpc_stream *stream;
    struct seen seen = {.count = 0};
    struct rpc_msg msg;
    struct house h;

    house_open(&h);
    sem_init(&seen.one, 0, 0);
    sem_init(&seen.ended, 0, 0);
    pack(&msg, &request.base);
    T_OK(rpc_stream_open(&stream, h.w.channel, "/grpc.health.v1.Health/Watch",
                         &msg, &plain, &events, &seen, t_err()));
    wait_for(&seen.one);
    introspect_set_serving(h.in, true);
    introspect_set_serving(h.in, true); // no change
    introspect_set_serving(h.in, false);
    wait_for(&seen.one);
    wait_for(&seen.one);
    T_EQ(seen.status[0], 2);
    T_EQ(seen.status[1], 1);
    T_EQ(seen.status[2], 2);
    rpc_stream_cancel(stream);
    wait_for(&seen.ended);
    rpc_stream_unref(stream);
    house_close(&h);
    T_EQ(atomic_load(&seen.count), 3);
}

// ---- reflection

static struct rpc_body *answer;

static void on_answer(struct rpc_stream *stream, const struct sl_slices *body,
                      void *user)
{
    (void)body, (void)user;
    answer = rpc_stream_take(stream);
    rpc_stream_close(stream);
}

static ReflectResponse *ask(struct house *h, const ReflectRequest *request)
{
    static const struct rpc_stream_events events = {.on_message = on_answer,
                                                    .on_end = on_end};
    struct seen seen = {.count = 0};
    struct rpc_stream *stream;
    ReflectResponse *r;
    struct rpc_msg msg;
    uint8_t *bytes;

    sem_init(&seen.ended, 0, 0);
    pack(&msg, &request->base);
    T_OK(rpc_stream_open(
        &stream, h->w.channel,
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", NULL,
        &plain, &events, &seen, t_err()));
    T_OK(rpc_stream_send(stream, &msg));
    wait_for(&seen.ended);
    rpc_stream_unref(stream);
    T_TRUE(answer != NULL);
    bytes = sl_malloc(rpc_body_slices(answer)->bytes);
    slices_copy(bytes, rpc_body_slices(answer));
    r = grpc__reflection__v1alpha__server_reflection_response__unpack(
        NULL, rpc_body_slices(answer)->bytes, bytes);
    T_TRUE(r != NULL);
    sl_free(bytes);
    rpc_body_free(answer);
    answer = NULL;
    return r;
}

static void reflect_free(ReflectResponse *r)
{
    grpc__reflection__v1alpha__server_reflection_response__free_unpacked(r,
                                                                         NULL);
}

TEST(introspect, services_are_listed)
{
    ReflectRequest request =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__INIT;
    ReflectResponse *r;
    struct house h;

    house_open(&h);
    request.message_request_case =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES;
    request.list_services = "";
    r = ask(&h, &request);
    T_EQ(r->message_response_case, 6);
    T_EQ(r->list_services_response->n_service, 3);
    T_STR(r->list_services_response->service[0]->name, "sluice.v1.Shards");
    reflect_free(r);
    house_close(&h);
}

static int has_symbol(struct house *h, const char *symbol)
{
    ReflectRequest request =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__INIT;
    ReflectResponse *r;
    bool found;

    request.message_request_case =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL;
    request.file_containing_symbol = (char *)symbol;
    r = ask(h, &request);
    found = r->message_response_case == 4;
    if (!found)
        T_EQ(r->message_response_case, 7);
    reflect_free(r);
    return found;
}

TEST(introspect, symbols_are_found_by_their_whole_name)
{
    struct house h;

    house_open(&h);
    T_EQ(has_symbol(&h, "grpc.health.v1.Health"), 1);
    T_EQ(has_symbol(&h, ".grpc.health.v1.Health.Watch"), 1);
    T_EQ(has_symbol(&h, "grpc.health.v1.HealthCheckResponse"), 1);
    T_EQ(has_symbol(&h, "grpc.health.v1.HealthCheckResponse.ServingStatus"), 1);
    T_EQ(has_symbol(&h, "grpc.health.v1.HealthCheckResponse.status"), 1);
    T_EQ(has_symbol(&h, "grpc.health.v1.Heal"), 0);
    T_EQ(has_symbol(&h, "grpc.health.v1.Health.Watch.x"), 0);
    T_EQ(has_symbol(&h, "grpc.health.v1"), 0);
    T_EQ(has_symbol(&h, "grpc.health.v1."), 0);
    T_EQ(has_symbol(&h, ""), 0);
    house_close(&h);
}
