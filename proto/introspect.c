// SPDX-License-Identifier: Apache-2.0
// proto/introspect.c -- health and reflection.
//
// Reflection answers from the descriptor set that the build embeds. protobuf-c
// keeps no descriptors of that form, so the set, and the files in it, are
// walked here as the protobuf bytes that they are.
#include "proto/introspect.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "common/base/list.h"
#include "common/base/mem.h"
#include "common/net/wirescan.h"
#include "proto/descriptor_set.h"
#include "proto/health.pb-c.h"
#include "proto/reflection.pb-c.h"

typedef Grpc__Health__V1__HealthCheckRequest HealthRequest;
typedef Grpc__Health__V1__HealthCheckResponse HealthResponse;
typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus HealthStatus;
typedef Grpc__Reflection__V1alpha__ServerReflectionRequest ReflectRequest;
typedef Grpc__Reflection__V1alpha__ServerReflectionResponse ReflectResponse;
typedef Grpc__Reflection__V1alpha__ServiceResponse ServiceName;

#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING                                                            \
    GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN                                                        \
    GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

#define CASE(what)                                                             \
    GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##what
#define ANSWER(what)                                                           \
    GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##what

#define REQUEST_BYTES 65536
#define NOT_FOUND 5 // gRPC's
#define UNIMPLEMENTED 12

static const char *const standard[] = {
    "grpc.health.v1.Health",
    "grpc.reflection.v1alpha.ServerReflection",
};

struct introspect {
    const char *const *services;
    size_t count;
    pthread_mutex_t lock;
    bool serving;         // under the lock, as the list
    struct list watchers; // ends with its server's streams
};

struct health_watcher {
    struct list_node node;
    struct introspect *in;
    struct rpc_stream *stream;
    enum { FOLLOWS, ALWAYS, UNKNOWN_SERVICE } kind;
};

static enum sl_err introspect_pack(struct rpc_msg *msg,
                                   const ProtobufCMessage *message)
{
    uint8_t *out;

    rpc_msg_init(msg);
    out = rpc_msg_head(msg, protobuf_c_message_get_packed_size(message));
    if (out == NULL)
        return SL_ENOMEM;
    protobuf_c_message_pack(message, out);
    return SL_OK;
}

// ---- health

static bool is_service(const struct introspect *in, const char *name)
{
    for (size_t i = 0; i < in->count; i++) {
        if (strcmp(in->services[i], name) == 0)
            return true;
    }
    for (size_t i = 0; i < SL_COUNT(standard); i++) {
        if (strcmp(standard[i], name) == 0)
            return true;
    }
    return false;
}

static int health_watch_kind(const struct introspect *in, const char *name)
{
    if (strcmp(name, "liveness") == 0)
        return ALWAYS;
    if (name[0] == '\0' || strcmp(name, "readiness") == 0 ||
        is_service(in, name))
        return FOLLOWS;
    return UNKNOWN_SERVICE;
}

static HealthStatus status_locked(const struct introspect *in, int kind)
{
    if (kind == UNKNOWN_SERVICE)
        return SERVICE_UNKNOWN;
    return kind == ALWAYS || in->serving ? SERVING : NOT_SERVING;
}

// Which kind of name the request asks about.
static enum sl_err read_health(const struct introspect *in,
                               const struct sl_slices *body, int *kind,
                               struct sl_error *err)
{
    struct wire_limits limits = {.max_bytes = REQUEST_BYTES};
    struct wire_arena arena;
    ProtobufCMessage *m;
    enum sl_err rc;

    wire_arena_init(&arena);
    rc = wire_unpack_slices(&m, &arena,
                            &grpc__health__v1__health_check_request__descriptor,
                            body, &limits, err);
    if (rc == SL_OK)
        *kind = health_watch_kind(in, ((HealthRequest *)m)->service);
    wire_arena_release(&arena);
    return rc;
}

static enum sl_err pack_status(struct rpc_msg *msg, HealthStatus status)
{
    HealthResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    response.status = status;
    return introspect_pack(msg, &response.base);
}

static void health_check(struct rpc_call *call, void *arg)
{
    struct introspect *in = arg;
    struct sl_error err = SL_ERROR_INIT;
    HealthStatus status;
    struct rpc_msg msg;
    int kind = UNKNOWN_SERVICE;
    enum sl_err rc = read_health(in, rpc_call_body(call), &kind, &err);

    if (rc == SL_OK && kind == UNKNOWN_SERVICE)
        rc = sl_fail(&err, SL_ENOENT, "this server has no such service");
    if (rc == SL_OK) {
        pthread_mutex_lock(&in->lock);
        status = status_locked(in, kind);
        pthread_mutex_unlock(&in->lock);
        rc = pack_status(&msg, status);
    }
    rpc_answer(call, rc, &err, rc == SL_OK ? &msg : NULL);
}

// Under the lock, so that changes arrive in their order. What a full queue
// refuses is lost: a slow reader gets the next change.
static void health_notify_locked(struct health_watcher *w)
{
    struct rpc_msg msg;

    if (pack_status(&msg, status_locked(w->in, w->kind)) != SL_OK)
        return;
    if (rpc_stream_send(w->stream, &msg) != SL_OK)
        rpc_msg_drop(&msg);
}

static void health_watch_end(struct rpc_stream *stream, enum sl_err code,
                             const struct sl_error *err, void *user)
{
    struct health_watcher *w = user;

    (void)code;
    (void)err;
    pthread_mutex_lock(&w->in->lock);
    list_remove(&w->node);
    pthread_mutex_unlock(&w->in->lock);
    sl_free(w);
    rpc_stream_unref(stream);
}

static void health_watch(struct rpc_stream *stream, void *arg)
{
    static const struct rpc_stream_events events = {.on_end = health_watch_end};
    struct introspect *in = arg;
    struct sl_error err = SL_ERROR_INIT;
    struct health_watcher *w = sl_calloc(1, sizeof(*w));
    int kind = UNKNOWN_SERVICE;
    enum sl_err rc = read_health(in, rpc_stream_request(stream), &kind, &err);

    if (rc == SL_OK && w == NULL)
        rc = sl_fail(&err, SL_ENOMEM, "no memory for one more watcher");
    if (rc != SL_OK) {
        sl_free(w);
        rpc_stream_finish(stream, rc, &err);
        return;
    }
    w->in = in;
    w->kind = kind;
    w->stream = rpc_stream_ref(stream);
    rpc_stream_set(stream, &events, w);
    pthread_mutex_lock(&in->lock);
    list_push_back(&in->watchers, &w->node);
    health_notify_locked(w);
    pthread_mutex_unlock(&in->lock);
}

void introspect_set_serving(struct introspect *in, bool serving)
{
    pthread_mutex_lock(&in->lock);
    if (in->serving != serving) {
        in->serving = serving;
        list_for(node, &in->watchers)
        {
            struct health_watcher *w =
                list_entry(node, struct health_watcher, node);

            if (w->kind == FOLLOWS)
                health_notify_locked(w);
        }
    }
    pthread_mutex_unlock(&in->lock);
}

// ---- the descriptor set, as bytes

struct descriptor_span {
    const uint8_t *at, *end;
};

struct field {
    uint32_t number;
    struct descriptor_span bytes; // empty unless it is a field with a length
};

static bool descriptor_next_varint(struct descriptor_span *in, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        *value |= (uint64_t)(*in->at & 0x7f) << shift;
        if (*in->at++ < 0x80)
            return true;
    }
    return false;
}

// Steps over one field. False at the end.
static bool descriptor_next_field(struct descriptor_span *in, struct field *f)
{
    uint64_t tag, n;

    if (!descriptor_next_varint(in, &tag))
        return false;
    f->number = (uint32_t)(tag >> 3);
    f->bytes = (struct descriptor_span){in->at, in->at};
    if ((tag & 7) == 0)
        return descriptor_next_varint(in, &n);
    if ((tag & 7) == 2) {
        if (!descriptor_next_varint(in, &n))
            return false;
        f->bytes.at = in->at;
    } else {
        n = (tag & 7) == 1 ? 8 : 4;
    }
    if (n > (size_t)(in->end - in->at))
        return false;
    in->at += n;
    if ((tag & 7) == 2)
        f->bytes.end = in->at;
    return true;
}

static bool descriptor_is_text(struct descriptor_span s, const char *text,
                               size_t n)
{
    return (size_t)(s.end - s.at) == n && memcmp(s.at, text, n) == 0;
}

// The first field of that number; an empty span without one.
static struct descriptor_span descriptor_get_field(struct descriptor_span in,
                                                   uint32_t number)
{
    struct field f;

    while (descriptor_next_field(&in, &f)) {
        if (f.number == number)
            return f.bytes;
    }
    return (struct descriptor_span){NULL, NULL};
}

// Numbers in google/protobuf/descriptor.proto.
enum { FILE_NAME = 1, FILE_PACKAGE = 2, NAME = 1 };

enum scope { IN_FILE, IN_MESSAGE, IN_SERVICE, LEAF };

static const struct {
    enum scope in;
    uint32_t number;
    enum scope is;
} named[] = {
    {IN_FILE, 4, IN_MESSAGE},    // message_type
    {IN_FILE, 5, LEAF},          // enum_type
    {IN_FILE, 6, IN_SERVICE},    // service
    {IN_FILE, 7, LEAF},          // extension
    {IN_MESSAGE, 2, LEAF},       // field
    {IN_MESSAGE, 3, IN_MESSAGE}, // nested_type
    {IN_MESSAGE, 4, LEAF},       // enum_type
    {IN_MESSAGE, 6, LEAF},       // extension
    {IN_SERVICE, 2, LEAF},       // method
};

// Goes from *at, a *scope, into its child of that name.
static bool descriptor_descend(struct descriptor_span *at, enum scope *scope,
                               const char *name, size_t n)
{
    struct descriptor_span in = *at;
    struct field f;

    while (descriptor_next_field(&in, &f)) {
        for (size_t i = 0; i < SL_COUNT(named); i++) {
            if (named[i].in == *scope && named[i].number == f.number &&
                descriptor_is_text(descriptor_get_field(f.bytes, NAME), name,
                                   n)) {
                *at = f.bytes;
                *scope = named[i].is;
                return true;
            }
        }
    }
    return false;
}

// "pkg.Message.Nested", "pkg.Service.Method".
static bool file_has_symbol(struct descriptor_span file, const char *symbol)
{
    struct descriptor_span package = descriptor_get_field(file, FILE_PACKAGE);
    size_t n = (size_t)(package.end - package.at);
    enum scope scope = IN_FILE;

    if (n > 0) {
        if (strncmp(symbol, (const char *)package.at, n) != 0 ||
            symbol[n] != '.')
            return false;
        symbol += n + 1;
    }
    for (;;) {
        n = strcspn(symbol, ".");
        if (!descriptor_descend(&file, &scope, symbol, n))
            return false;
        if (symbol[n] == '\0')
            return true;
        symbol += n + 1;
    }
}

static bool file_has_name(struct descriptor_span file, const char *name)
{
    return descriptor_is_text(descriptor_get_field(file, FILE_NAME), name,
                              strlen(name));
}

static bool descriptor_find_file(struct descriptor_span *out, const char *what,
                                 bool (*is_it)(struct descriptor_span file,
                                               const char *what))
{
    struct descriptor_span set = {sluice_descriptor_set,
                                  sluice_descriptor_set +
                                      sluice_descriptor_set_len};
    struct field f;

    while (descriptor_next_field(&set, &f)) {
        if (f.number == 1 && is_it(f.bytes, what)) {
            *out = f.bytes;
            return true;
        }
    }
    return false;
}

// ---- reflection

static enum sl_err reflect_send_answer(struct rpc_stream *stream,
                                       const ReflectResponse *response)
{
    struct rpc_msg msg;
    enum sl_err rc = introspect_pack(&msg, &response->base);

    if (rc != SL_OK)
        return rc;
    rc = rpc_stream_send(stream, &msg);
    if (rc != SL_OK)
        rpc_msg_drop(&msg);
    return rc;
}

static enum sl_err reflect_answer_error(struct rpc_stream *stream,
                                        ReflectResponse *response, int code,
                                        const char *text)
{
    Grpc__Reflection__V1alpha__ErrorResponse error =
        GRPC__REFLECTION__V1ALPHA__ERROR_RESPONSE__INIT;

    error.error_code = code;
    error.error_message = (char *)text;
    response->message_response_case = ANSWER(ERROR_RESPONSE);
    response->error_response = &error;
    return reflect_send_answer(stream, response);
}

static enum sl_err
reflect_answer_file(struct rpc_stream *stream, ReflectResponse *response,
                    const char *what,
                    bool (*is_it)(struct descriptor_span, const char *))
{
    Grpc__Reflection__V1alpha__FileDescriptorResponse files =
        GRPC__REFLECTION__V1ALPHA__FILE_DESCRIPTOR_RESPONSE__INIT;
    ProtobufCBinaryData bytes;
    struct descriptor_span file;

    if (!descriptor_find_file(&file, what, is_it))
        return reflect_answer_error(stream, response, NOT_FOUND,
                                    "no such file or symbol");
    bytes.data = (uint8_t *)file.at;
    bytes.len = (size_t)(file.end - file.at);
    files.n_file_descriptor_proto = 1;
    files.file_descriptor_proto = &bytes;
    response->message_response_case = ANSWER(FILE_DESCRIPTOR_RESPONSE);
    response->file_descriptor_response = &files;
    return reflect_send_answer(stream, response);
}

static enum sl_err reflect_answer_services(const struct introspect *in,
                                           struct rpc_stream *stream,
                                           ReflectResponse *response)
{
    Grpc__Reflection__V1alpha__ListServiceResponse list =
        GRPC__REFLECTION__V1ALPHA__LIST_SERVICE_RESPONSE__INIT;
    size_t count = in->count + SL_COUNT(standard);
    ServiceName *names = sl_malloc_array(count, sizeof(*names));
    ServiceName **pointers = sl_malloc_array(count, sizeof(*pointers));
    enum sl_err rc = SL_ENOMEM;

    if (names != NULL && pointers != NULL) {
        for (size_t i = 0; i < count; i++) {
            grpc__reflection__v1alpha__service_response__init(&names[i]);
            names[i].name = (char *)(i < in->count ? in->services[i]
                                                   : standard[i - in->count]);
            pointers[i] = &names[i];
        }
        list.n_service = count;
        list.service = pointers;
        response->message_response_case = ANSWER(LIST_SERVICES_RESPONSE);
        response->list_services_response = &list;
        rc = reflect_send_answer(stream, response);
    }
    sl_free(pointers);
    sl_free(names);
    return rc;
}

static enum sl_err answer_reflection(const struct introspect *in,
                                     struct rpc_stream *stream,
                                     ReflectRequest *request)
{
    ReflectResponse response =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__INIT;
    const char *symbol;

    response.valid_host = request->host;
    response.original_request = request;
    switch ((int)request->message_request_case) {
    case CASE(LIST_SERVICES):
        return reflect_answer_services(in, stream, &response);
    case CASE(FILE_BY_FILENAME):
        return reflect_answer_file(stream, &response, request->file_by_filename,
                                   file_has_name);
    case CASE(FILE_CONTAINING_SYMBOL):
        symbol = request->file_containing_symbol;
        return reflect_answer_file(stream, &response,
                                   symbol[0] == '.' ? symbol + 1 : symbol,
                                   file_has_symbol);
    case CASE(FILE_CONTAINING_EXTENSION):
    case CASE(ALL_EXTENSION_NUMBERS_OF_TYPE):
        return reflect_answer_error(stream, &response, NOT_FOUND,
                                    "proto3: there are no extensions");
    default:
        return reflect_answer_error(stream, &response, UNIMPLEMENTED,
                                    "an unknown kind of question");
    }
}

static void reflect_message(struct rpc_stream *stream,
                            const struct sl_slices *body, void *user)
{
    struct wire_limits limits = {.max_bytes = REQUEST_BYTES};
    struct sl_error err = SL_ERROR_INIT;
    struct wire_arena arena;
    ProtobufCMessage *m;
    enum sl_err rc;

    wire_arena_init(&arena);
    rc = wire_unpack_slices(
        &m, &arena,
        &grpc__reflection__v1alpha__server_reflection_request__descriptor, body,
        &limits, &err);
    if (rc == SL_OK)
        rc = answer_reflection(user, stream, (ReflectRequest *)m);
    if (rc != SL_OK)
        rpc_stream_finish(stream, rc, &err);
    wire_arena_release(&arena);
}

static void reflect_open(struct rpc_stream *stream, void *arg)
{
    static const struct rpc_stream_events events = {.on_message =
                                                        reflect_message};

    rpc_stream_set(stream, &events, arg);
}

// ---- together

// reflection.v1 has the messages of v1alpha under another name.
static const struct rpc_method methods[] = {
    {.path = "/grpc.health.v1.Health/Check",
     .kind = RPC_UNARY,
     .max_request_bytes = REQUEST_BYTES,
     .unary = health_check},
    {.path = "/grpc.health.v1.Health/Watch",
     .kind = RPC_SERVER_STREAM,
     .max_request_bytes = REQUEST_BYTES,
     .open = health_watch},
    {.path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     .kind = RPC_BIDI,
     .max_request_bytes = REQUEST_BYTES,
     .open = reflect_open},
    {.path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
     .kind = RPC_BIDI,
     .max_request_bytes = REQUEST_BYTES,
     .open = reflect_open},
};

enum sl_err introspect_new(struct introspect **out, const char *const *services,
                           size_t count, struct sl_error *err)
{
    struct introspect *in = sl_calloc(1, sizeof(*in));

    if (in == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for health and reflection");
    in->services = services;
    in->count = count;
    pthread_mutex_init(&in->lock, NULL);
    list_init(&in->watchers);
    *out = in;
    return SL_OK;
}

struct rpc_table introspect_table(struct introspect *in)
{
    return (struct rpc_table){methods, SL_COUNT(methods), in};
}

void introspect_free(struct introspect *in)
{
    if (in == NULL)
        return;
    pthread_mutex_destroy(&in->lock);
    sl_free(in);
}
