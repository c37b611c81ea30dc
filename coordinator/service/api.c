// SPDX-License-Identifier: Apache-2.0
// coordinator/service/api.c -- the calls of clients: decoded by I/O threads,
// decided on the loop. One table has them all.
#include "coordinator/service/api.h"

#include <string.h>

#include "common/base/list.h"
#include "common/base/mem.h"
#include "coordinator/service/audit.h"
#include "coordinator/service/denials.h"
#include "coordinator/service/lead.h"
#include "coordinator/service/status_lists.h"
#include "coordinator/service/job_watch.h"

struct api {
    struct loop *loop;
    struct coord *coord;
    const char *why;   // reason for a missing coord
    struct lead *lead; // borrowed; NULL: no other coordinator stands by
    struct watch *watch;
    struct audit *audit; // borrowed
    // refused and failed calls that would change something
    struct denials *denials;
    struct list
        long_visits;       // of struct api_visit: answers that take many turns
    struct loop_task turn; // posted while long_visits has any
};

// How one method is decoded and decided. `api_decide_question` gives a heap
// message.
struct method {
    enum sl_err (*decode)(ProtobufCMessage **out, struct wire_arena *arena,
                          const struct sl_slices *bytes, struct sl_error *err);
    enum sl_err (*decide)(struct coord *c, const ProtobufCMessage *request,
                          ProtobufCMessage **reply, struct sl_error *err);
    const char *path;
};

// A call and its caller.
struct api_question {
    const struct method *method;
    struct access_who who;
    ProtobufCMessage *request; // in the arena
    struct wire_arena arena;
};

// A call on its way to the loop. A list is decided in turns, by many calls of
// `api_decide_question`: `reply` then holds the lines made so far.
struct api_visit {
    struct loop_task task;
    struct list_node node; // in api.long_visits
    struct api *api;
    struct rpc_call *call;
    struct api_question asked;
    // Once it is decided:
    enum sl_err rc;
    struct sl_error err;
    ProtobufCMessage *reply;
};

#define METHOD(name, PATH, request_, Request, function, Reply)                 \
    WIRE_DECODER(decode_##name, request_, Request)                             \
    static enum sl_err decide_##name(                                          \
        struct coord *c, const ProtobufCMessage *request,                      \
        ProtobufCMessage **reply, struct sl_error *err)                        \
    {                                                                          \
        Sluice__V1__##Reply *m = (Sluice__V1__##Reply *)*reply;                \
        enum sl_err rc =                                                       \
            function(c, (const Sluice__V1__##Request *)request, &m, err);      \
                                                                               \
        if (rc == SL_OK)                                                       \
            *reply = &m->base;                                                 \
        return rc;                                                             \
    }                                                                          \
    static const struct method method_##name = {decode_##name, decide_##name,  \
                                                PATH};                         \
    static void call_##name(struct rpc_call *call, void *arg)                  \
    {                                                                          \
        api_start_visit(call, arg, &method_##name);                            \
    }

static void api_answer_call(struct rpc_call *call, enum sl_err rc,
                            const struct sl_error *err,
                            const ProtobufCMessage *reply)
{
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    if (rc == SL_OK && wire_msg(&msg, reply) != SL_OK)
        rc = SL_ENOMEM;
    rpc_answer(call, rc, rc == SL_OK || err->text[0] == '\0' ? NULL : err,
               &msg);
}

// Returns the field of a message by its name, or NULL if it has none.
static const void *field_of(const ProtobufCMessage *m, const char *name,
                            ProtobufCType type)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);

    return f == NULL || f->type != type || f->label == PROTOBUF_C_LABEL_REPEATED
               ? NULL
               : (const uint8_t *)m + f->offset;
}

static const char *id_of(const ProtobufCMessage *m)
{
    const char *const *id =
        m == NULL ? NULL : field_of(m, "id", PROTOBUF_C_TYPE_STRING);

    return id == NULL ? NULL : *id;
}

// Returns the job (or member) that a call is about: its id, or what the caller
// wrote for one.
static const char *api_call_subject(const ProtobufCMessage *request,
                                    const ProtobufCMessage *reply)
{
    const char *id = id_of(request);

    if (id == NULL)
        id = id_of(reply);
    if (id == NULL &&
        request->descriptor == &sluice__v1__submit_request__descriptor)
        id = ((const Sluice__V1__SubmitRequest *)request)->spec->name;
    if (request->descriptor == &sluice__v1__drain_request__descriptor)
        id = ((const Sluice__V1__DrainRequest *)request)->name;
    return id != NULL ? id : "";
}

// Says whether the call changed nothing: it was a dry run, or a repeated
// request.
static bool is_idle(const ProtobufCMessage *request,
                    const ProtobufCMessage *reply)
{
    const protobuf_c_boolean *dry =
        field_of(request, "dry_run", PROTOBUF_C_TYPE_BOOL);

    if (dry != NULL)
        return *dry;
    return reply != NULL &&
           reply->descriptor == &sluice__v1__checkpoint_reply__descriptor &&
           !((const Sluice__V1__CheckpointReply *)reply)->begun;
}

// Writes the caller's name into a pause or a drain, which others are shown: the
// certificate's name, where there is one.
static void api_sign_question(const struct api_question *q)
{
    if (q->request->descriptor == &sluice__v1__pause_request__descriptor &&
        q->who.role != ACCESS_LOCAL)
        ((Sluice__V1__PauseRequest *)q->request)->who = (char *)q->who.name;
    if (q->request->descriptor == &sluice__v1__drain_request__descriptor &&
        q->who.role != ACCESS_LOCAL)
        ((Sluice__V1__DrainRequest *)q->request)->who = (char *)q->who.name;
}

// Sets the caller back to the coordinator itself. A coord that has no journal
// space left is put away while it decides, so it may be gone here.
static void ask_as_ourselves(struct api *a)
{
    if (a->coord != NULL)
        coord_ask_as(a->coord, "", false);
}

static enum sl_err api_decide_question(struct api *a,
                                       const struct api_question *q,
                                       ProtobufCMessage **reply,
                                       struct sl_error *err)
{
    enum sl_err rc;

    if (a->coord == NULL)
        return sl_fail(err, SL_EUNAVAIL, "%s", a->why);
    api_sign_question(q);
    coord_ask_as(a->coord, q->who.tenant, access_of_tenant(&q->who));
    rc = q->method->decide(a->coord, q->request, reply, err);
    ask_as_ourselves(a);
    lead_check(a->lead); // H4
    return rc;
}

// Writes one line to the audit log. Returns false if there is nothing to wait
// for: then written(arg) is not called.
static bool write_down(struct api *a, const struct audit_line *line,
                       loop_fn written, void *arg)
{
    if (line->result != SL_OK && !denials_whole(a->denials, line))
        return false;
    audit_write(a->audit, line, written, arg);
    return true;
}

// Writes a line for a question that changes something; results as of
// write_down.
static bool write_question(struct api *a, const struct api_question *q,
                           enum sl_err rc, const struct sl_error *err,
                           const ProtobufCMessage *reply, loop_fn written,
                           void *arg)
{
    const struct audit_line line = {.who = &q->who,
                                    .call = access_audit_name(q->method->path),
                                    .job = api_call_subject(q->request, reply),
                                    .result = rc,
                                    .why = err};

    return line.call != NULL && !is_idle(q->request, reply) &&
           write_down(a, &line, written, arg);
}

void api_note(struct api *a, const struct audit_line *line)
{
    (void)write_down(a, line, NULL, NULL);
}

// Answers the call; runs on the loop or on the thread of the audit log.
static void answer_visit(void *arg)
{
    struct api_visit *v = arg;

    api_answer_call(v->call, v->rc, &v->err, v->reply);
    wire_free(v->reply);
    wire_arena_release(&v->asked.arena);
    sl_free(v);
}

static void decide_now(void *arg);

// Takes one long visit a step on. All long visits together have one share of a
// turn, so each has its step in its turn.
static void long_visit_turn(void *arg)
{
    struct api *a = arg;
    struct list_node *n = list_pop_front(&a->long_visits);

    if (!list_empty(&a->long_visits))
        loop_post_task(a->loop, &a->turn, long_visit_turn, a);
    decide_now(list_entry(n, struct api_visit, node));
}

static void go_on_later(struct api_visit *v)
{
    struct api *a = v->api;

    if (list_empty(&a->long_visits))
        loop_post_task(a->loop, &a->turn, long_visit_turn, a);
    list_push_back(&a->long_visits, &v->node);
}

static bool api_visit_goes_on(const struct api_visit *v)
{
    const ProtobufCMessage *request = v->asked.request;

    if (v->rc != SL_OK)
        return false;
    if (request->descriptor == &sluice__v1__cluster_request__descriptor)
        return status_cluster_goes_on((Sluice__V1__ClusterReply *)v->reply);
    return request->descriptor == &sluice__v1__list_request__descriptor &&
           status_list_goes_on((const Sluice__V1__ListRequest *)request,
                               (const Sluice__V1__ListReply *)v->reply);
}

static void decide_now(void *arg)
{
    struct api_visit *v = arg;
    bool serves = v->api->coord != NULL;

    loop_doing(v->api->loop, v->asked.method->path);
    do
        v->rc = api_decide_question(v->api, &v->asked, &v->reply, &v->err);
    while (api_visit_goes_on(v) && !loop_spent(v->api->loop));
    if (api_visit_goes_on(v)) {
        go_on_later(v);
        return;
    }
    if (!serves || !write_question(v->api, &v->asked, v->rc, &v->err, v->reply,
                                   answer_visit, v))
        answer_visit(v);
}

// Says whether the call reads the store first, on the pool: the loop waits for
// no store.
static bool reads_first(struct api_visit *v)
{
    struct coord *c = v->api->coord;
    bool reads;

    if (c == NULL ||
        v->asked.request->descriptor != &sluice__v1__submit_request__descriptor)
        return false;
    coord_ask_as(c, v->asked.who.tenant, access_of_tenant(&v->asked.who));
    reads = coord_submit_reads(
        c, (const Sluice__V1__SubmitRequest *)v->asked.request, decide_now, v);
    ask_as_ourselves(v->api);
    return reads;
}

static void api_visit_on_loop(void *arg)
{
    struct api_visit *v = arg;

    loop_doing(v->api->loop,
               v->asked.method->path); // may read before it decides
    if (!reads_first(v))
        decide_now(v);
}

// Decodes a request into the question's arena, which the caller releases
// whatever is returned.
static enum sl_err read_question(struct api_question *q,
                                 const struct method *method,
                                 const struct rpc_peer *peer,
                                 const struct sl_slices *bytes,
                                 struct sl_error *err)
{
    enum sl_err rc = access_who(&q->who, peer, err);

    q->method = method;
    wire_arena_init(&q->arena);
    return rc == SL_OK ? method->decode(&q->request, &q->arena, bytes, err)
                       : rc;
}

static void api_start_visit(struct rpc_call *call, struct api *api,
                            const struct method *method)
{
    struct api_visit *v = sl_malloc(sizeof(*v));
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_peer peer;
    enum sl_err rc;

    if (v == NULL) {
        api_answer_call(call,
                        sl_fail(&err, SL_ENOMEM, "no memory for one more call"),
                        &err, NULL);
        return;
    }
    *v = (struct api_visit){.api = api, .call = call, .err = SL_ERROR_INIT};
    rpc_call_peer(call, &peer);
    rc = read_question(&v->asked, method, &peer, rpc_call_body(call), &err);
    if (rc == SL_OK) {
        loop_post_task(api->loop, &v->task, api_visit_on_loop, v);
        return;
    }
    wire_arena_release(&v->asked.arena);
    sl_free(v);
    api_answer_call(call, rc, &err, NULL);
}

// A line per method: its names, and how it is decoded and decided.
#define METHODS(X)                                                             \
    X(submit, WIRE_SUBMIT, submit_request, SubmitRequest, coord_submit,        \
      SubmitReply)                                                             \
    X(stop, WIRE_STOP, stop_request, StopRequest, coord_stop, JobStatus)       \
    X(pause, WIRE_PAUSE, pause_request, PauseRequest, coord_pause, JobStatus)  \
    X(resume, WIRE_RESUME, job_request, JobRequest, coord_resume, JobStatus)   \
    X(checkpoint, WIRE_CHECKPOINT, checkpoint_request, CheckpointRequest,      \
      coord_checkpoint, CheckpointReply)                                       \
    X(delete, WIRE_DELETE, job_request, JobRequest, coord_delete, DeleteReply) \
    X(get, WIRE_GET, job_request, JobRequest, coord_get, JobStatus)            \
    X(list, WIRE_LIST, list_request, ListRequest, status_list_turn, ListReply) \
    X(checkpoints, WIRE_CHECKPOINTS, job_request, JobRequest,                  \
      status_checkpoints, CheckpointsReply)                                    \
    X(cluster, WIRE_CLUSTER, cluster_request, ClusterRequest,                  \
      status_cluster_turn, ClusterReply)                                       \
    X(drain, WIRE_DRAIN, drain_request, DrainRequest, status_drain,            \
      DrainReply)                                                              \
    X(quota, WIRE_QUOTA, quota_request, QuotaRequest, status_quota,            \
      QuotaReply)                                                              \
    X(events, WIRE_EVENTS, events_request, EventsRequest, status_events,       \
      EventsReply)                                                             \
    X(timeline, WIRE_TIMELINE, timeline_request, TimelineRequest,              \
      status_timeline, TimelineReply)                                          \
    X(history, WIRE_HISTORY, history_request, HistoryRequest, status_history,  \
      HistoryReply)

METHODS(METHOD)

static void open_watch(struct rpc_stream *stream, void *arg)
{
    struct api *api = arg;

    watch_open(api->watch, stream);
}

#define UNARY(name, PATH, request_, Request, function, Reply)                  \
    {.path = PATH, .kind = RPC_UNARY, .unary = call_##name},
static const struct rpc_method api_methods[] = {
    METHODS(UNARY) //
    {.path = WIRE_WATCH, .kind = RPC_SERVER_STREAM, .open = open_watch},
};

void api_refused(struct api *a, const char *path, const struct rpc_peer *peer,
                 const struct sl_error *why)
{
    const char *call = access_audit_name(path);

    if (call != NULL)
        denials_note(a->denials, peer, call, why);
}

#define BY_PATH(name, PATH, request_, Request, function, Reply)                \
    {PATH, &method_##name},
static const struct {
    const char *path;
    const struct method *method;
} by_path[] = {METHODS(BY_PATH)};

static const struct method *api_find_method(const char *path)
{
    size_t i = 0;

    while (strcmp(by_path[i].path, path) != 0)
        i++; // the path is in the table, as api.h demands
    return by_path[i].method;
}

enum sl_err api_ask(struct api *a, const char *path,
                    const struct rpc_peer *peer,
                    const ProtobufCMessage *request, ProtobufCMessage **reply,
                    struct sl_error *err)
{
    struct api_question q;
    struct buf bytes = BUF_INIT;
    struct sl_slice all;
    struct sl_slices body;
    enum sl_err rc = access_allow(path, peer, err);

    if (rc != SL_OK) {
        api_refused(a, path, peer, err);
        return rc;
    }
    if (wire_pack(request, &bytes) != SL_OK)
        rc = sl_fail(err, SL_ENOMEM, "no memory for one more call");
    if (rc == SL_OK) {
        all = (struct sl_slice){bytes.data, bytes.len};
        body = slices_one(&all);
        rc = read_question(&q, api_find_method(path), peer, &body, err);
        if (rc == SL_OK) {
            bool serves = a->coord != NULL;

            rc = api_decide_question(a, &q, reply, err);
            if (serves &&
                write_question(a, &q, rc, err, rc == SL_OK ? *reply : NULL,
                               NULL, NULL))
                audit_wait(a->audit);
        }
        wire_arena_release(&q.arena);
    }
    buf_release(&bytes);
    return rc;
}

void api_tick(struct api *a)
{
    denials_tick(a->denials);
}

struct rpc_table api_table(struct api *a)
{
    return (struct rpc_table){api_methods, SL_COUNT(api_methods), a};
}

enum sl_err api_new(struct api **out, struct loop *loop, struct audit *audit,
                    const struct watch_limits *limits,
                    const struct sl_clock *clock, struct sl_error *err)
{
    struct api *a = sl_calloc(1, sizeof(*a));
    enum sl_err rc;

    if (a == NULL)
        return sl_fail(err, SL_ENOMEM, "the job API");
    a->loop = loop;
    a->audit = audit;
    list_init(&a->long_visits);
    rc = denials_new(&a->denials, audit, clock, err);
    if (rc == SL_OK)
        rc = watch_new(&a->watch, loop, limits, err);
    if (rc != SL_OK) {
        denials_free(a->denials);
        sl_free(a);
        return rc;
    }
    *out = a;
    return SL_OK;
}

void api_set_coord(struct api *a, struct coord *c, const char *why)
{
    a->coord = c;
    a->why = why != NULL ? why : "the coordinator is stopping";
    watch_set_coord(a->watch, c, a->why);
}

void api_set_lead(struct api *a, struct lead *l)
{
    a->lead = l;
}

void api_changed(struct api *a, uint64_t job)
{
    watch_changed(a->watch, job);
}

void api_free(struct api *a)
{
    if (a == NULL)
        return;
    watch_free(a->watch);
    denials_free(a->denials);
    sl_free(a);
}
