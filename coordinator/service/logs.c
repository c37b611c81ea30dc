// SPDX-License-Identifier: Apache-2.0
// coordinator/service/logs.c -- see logs.h.
#include "coordinator/service/logs.h"

#include <string.h>

#include "common/base/mem.h"
#include "coordinator/core/jobs.h"
#include "coordinator/service/attend.h"
#include "proto/logged.h"

#define TICK_MS 200

// A call that waits for a member.
struct logs_asked {
    struct rpc_call *call; // NULL: the place is free
    uint64_t member, request, until_ms;
};

struct logs {
    struct loop *loop;
    struct attend *attend; // borrowed
    struct coord *coord;
    const char *why; // reason for a missing coord
    struct loop_timer *tick;
    struct logs_asked asked[LOGS_ASKED_MOST];
    size_t waiting; // of those
    uint64_t last;  // number given
    uint8_t space[WIRE_LOG_BYTES];
};

// A call on its way to the loop; its scratch.
struct logs_visit {
    struct loop_task task;
    struct logs *of;
    struct rpc_call *call;
    struct wire_arena arena;
    Sluice__V1__LogsRequest *request; // in the arena
};

static void logs_answer_call(struct rpc_call *call, enum sl_err rc,
                             const struct sl_error *err,
                             const Sluice__V1__LogLines *lines)
{
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    if (rc == SL_OK)
        rc = wire_msg(&msg, &lines->base);
    rpc_answer(call, rc, err, &msg);
}

static void logs_finish_call(struct logs *l, struct logs_asked *a,
                             enum sl_err rc, const struct sl_error *err,
                             const Sluice__V1__LogLines *lines)
{
    struct rpc_call *call = a->call;

    a->call = NULL;
    if (--l->waiting == 0)
        loop_timer_stop(l->tick);
    logs_answer_call(call, rc, err, lines);
}

static void logs_on_piece(void *arg, uint64_t member,
                          const Sluice__V1__AttendUp *up)
{
    const Sluice__V1__LogPiece *piece = up->log_piece;
    struct logs *l = arg;

    for (size_t i = 0; i < LOGS_ASKED_MOST; i++) {
        struct logs_asked *a = &l->asked[i];

        if (a->call != NULL && a->member == member &&
            a->request == piece->request) {
            logs_finish_call(l, a, SL_OK, NULL, piece->lines);
            return;
        }
    }
}

static void logs_on_tick(void *arg)
{
    struct logs *l = arg;

    for (size_t i = 0; i < LOGS_ASKED_MOST; i++) {
        struct logs_asked *a = &l->asked[i];
        struct sl_error err = SL_ERROR_INIT;

        if (a->call == NULL)
            continue;
        if (members_get(&l->coord->members, a->member) == NULL)
            logs_finish_call(l, a, sl_fail(&err, SL_ESTATE, "it went away"),
                             &err, NULL);
        else if (sl_real_ms() >= a->until_ms)
            logs_finish_call(l, a,
                             sl_fail(&err, SL_ESTATE,
                                     "it has not answered for %d s",
                                     LOGS_SILENT_MS / 1000),
                             &err, NULL);
    }
}

// ---- a call

static enum sl_err logs_find_member(const struct logs *l, const char *name,
                                    const struct member **out,
                                    struct sl_error *err)
{
    const struct members *all = &l->coord->members;
    const struct member *m = members_find(all, MEMBER_WORKER, name);

    if (m == NULL)
        m = members_find(all, MEMBER_PSSERVER, name);
    if (m == NULL)
        return sl_fail(err, SL_ENOENT,
                       "no worker and no psserver of the name '%s' is "
                       "attached; `sluice status` lists those that are",
                       name);
    if (!m->log_lines)
        return sl_fail(err, SL_ESTATE,
                       "its version (%s) is too old to send log lines: read "
                       "them in the journal of its host, %s",
                       m->version, m->host);
    *out = m;
    return SL_OK;
}

// Returns a free place, or NULL if there is none or a call waits for that
// member already.
static struct logs_asked *logs_vacant_place(struct logs *l, uint64_t member)
{
    struct logs_asked *found = NULL;

    for (size_t i = 0; i < LOGS_ASKED_MOST; i++) {
        if (l->asked[i].call == NULL)
            found = &l->asked[i];
        else if (l->asked[i].member == member)
            return NULL;
    }
    return found;
}

// Asks the member. Returns true if the call is answered later.
static bool logs_ask_member(struct logs *l, struct rpc_call *call,
                            const Sluice__V1__LogsRequest *request,
                            struct sl_error *err)
{
    Sluice__V1__AttendDown down = SLUICE__V1__ATTEND_DOWN__INIT;
    Sluice__V1__LogMore more = SLUICE__V1__LOG_MORE__INIT;
    const struct member *m = NULL;
    struct logs_asked *a;

    if (l->coord == NULL)
        sl_fail(err, SL_EUNAVAIL, "%s", l->why);
    if (l->coord == NULL ||
        logs_find_member(l, request->member, &m, err) != SL_OK)
        return false;
    a = logs_vacant_place(l, m->id);
    if (a == NULL) {
        sl_fail(err, SL_EBUSY,
                "another client is asking for its lines; try again");
        return false;
    }
    *a = (struct logs_asked){call, m->id, ++l->last,
                             sl_real_ms() + LOGS_SILENT_MS};
    if (l->waiting++ == 0)
        loop_timer_start(l->tick, TICK_MS, TICK_MS);
    more.request = a->request;
    more.after = request->after;
    more.job = request->job;
    down.kind_case = SLUICE__V1__ATTEND_DOWN__KIND_LOG_MORE;
    down.log_more = &more;
    attend_send(l->attend, m->id, &down);
    return true;
}

static void logs_visit_on_loop(void *arg)
{
    struct logs_visit *v = arg;
    struct logs *l = v->of;
    struct rpc_call *call = v->call;
    struct sl_error err = SL_ERROR_INIT;
    Sluice__V1__LogLines lines = SLUICE__V1__LOG_LINES__INIT;
    bool later = false;

    if (v->request->member[0] == '\0')
        lines = logged_take(l->space, v->request->after, v->request->job);
    else
        later = logs_ask_member(l, call, v->request, &err);
    wire_arena_release(&v->arena);
    if (!later)
        logs_answer_call(call, err.code, &err, &lines);
}

static void call_logs(struct rpc_call *call, void *arg)
{
    struct logs_visit *v = rpc_call_scratch(call, sizeof(*v));
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    if (v == NULL) {
        logs_answer_call(
            call, sl_fail(&err, SL_ENOMEM, "no memory for one more call"), &err,
            NULL);
        return;
    }
    v->of = arg;
    v->call = call;
    wire_arena_init(&v->arena);
    rc = wire_unpack_logs_request(&v->request, &v->arena, rpc_call_body(call),
                                  &err);
    if (rc == SL_OK) {
        loop_post_task(v->of->loop, &v->task, logs_visit_on_loop, v);
        return;
    }
    wire_arena_release(&v->arena);
    logs_answer_call(call, rc, &err, NULL);
}

static const struct rpc_method logs_methods[] = {
    {.path = WIRE_LOGS, .kind = RPC_UNARY, .unary = call_logs},
};

struct rpc_table logs_table(struct logs *l)
{
    return (struct rpc_table){logs_methods, SL_COUNT(logs_methods), l};
}

// ---- life

enum sl_err logs_new(struct logs **out, struct loop *loop,
                     struct attend *attend, struct sl_error *err)
{
    struct logs *l = sl_calloc(1, sizeof(*l));

    if (l == NULL || loop_timer_new(&l->tick, loop, logs_on_tick, l) != SL_OK) {
        sl_free(l);
        return sl_fail(err, SL_ENOMEM, "logs");
    }
    l->loop = loop;
    l->attend = attend;
    l->why = "the coordinator is starting";
    attend_on(attend, SLUICE__V1__ATTEND_UP__KIND_LOG_PIECE, logs_on_piece, l);
    *out = l;
    return SL_OK;
}

void logs_set_coord(struct logs *l, struct coord *c, const char *why)
{
    struct sl_error err = SL_ERROR_INIT;

    if (l == NULL)
        return;
    l->coord = c;
    l->why = why != NULL ? why : "the coordinator is stopping";
    sl_fail(&err, SL_EUNAVAIL, "%s", l->why);
    for (size_t i = 0; i < LOGS_ASKED_MOST && c == NULL; i++)
        if (l->asked[i].call != NULL)
            logs_finish_call(l, &l->asked[i], SL_EUNAVAIL, &err, NULL);
}

void logs_free(struct logs *l)
{
    if (l == NULL)
        return;
    loop_timer_free(l->tick);
    sl_free(l);
}
