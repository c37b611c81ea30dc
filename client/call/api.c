// SPDX-License-Identifier: Apache-2.0
// client/call/api.c -- the unary and streaming calls of a client, each with its
// deadline and its error in words.
#include "client/call/api.h"

#include <stdio.h>
#include <string.h>

#include "client/call/opsport.h"
#include "client/cli/out.h"
#include "client/cli/say.h"
#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/mem.h"
#include "common/net/ownsock.h"
#include "common/net/tls.h"
#include "common/net/wirescan.h"
#include "proto/access.h"

#define ROUND_MS 100 // before all addresses of a list are tried once more

// Replies of one verb: each has its own arena, since an unpack sets a budget.
struct reply {
    struct reply *next;
    struct wire_arena arena;
};

struct api_client {
    struct rpc_io *io;
    struct rpc_channel *channel;
    struct rpc_tls tls; // ca_file NULL: none
    int64_t timeout_ms;
    char *address;
    struct reply *replies;
};

enum sl_err api_open(struct api_client **out, const struct conf *conf,
                     struct sl_error *err)
{
    struct api_client *a = sl_calloc(1, sizeof(*a));
    struct rpc_io_options options = {.threads = 1};
    const char *said = conf_str(conf, "coordinator");
    char own[OWNSOCK_BYTES];
    enum sl_err rc;

    if (a == NULL)
        return sl_no_memory(err);
    a->timeout_ms = conf_int(conf, "timeout");
    a->address = sl_strdup(said != NULL ? said : ownsock_find(own));
    rc = a->address != NULL ? rpc_addresses_check(a->address, err) : SL_ENOMEM;
    if (rc == SL_OK)
        rc = tls_read_conf(&a->tls, conf, err);
    if (rc == SL_OK)
        rc = rpc_io_new(&a->io, &options, err);
    if (rc == SL_OK)
        rc = rpc_channel_new(&a->channel, a->io, a->address, api_tls(a),
                             &access_to_coordinator, err);
    if (rc != SL_OK) {
        api_close(a);
        return rc;
    }
    *out = a;
    return SL_OK;
}

void api_forget(struct api_client *a)
{
    while (a->replies != NULL) {
        struct reply *r = a->replies;

        a->replies = r->next;
        wire_arena_release(&r->arena);
        sl_free(r);
    }
}

void api_close(struct api_client *a)
{
    if (a == NULL)
        return;
    api_forget(a);
    rpc_channel_free(a->channel);
    rpc_io_free(a->io);
    sl_free(a->address);
    sl_free(a);
}

const char *api_address(const struct api_client *a)
{
    return a->address;
}

const char *api_answered(const struct api_client *a)
{
    return rpc_channel_address(a->channel);
}

struct rpc_channel *api_channel(const struct api_client *a)
{
    return a->channel;
}

struct rpc_io *api_io(const struct api_client *a)
{
    return a->io;
}

const struct rpc_tls *api_tls(const struct api_client *a)
{
    return a->tls.ca_file != NULL ? &a->tls : NULL;
}

int64_t api_timeout_ms(const struct api_client *a)
{
    return a->timeout_ms;
}

static bool api_has_several(const struct api_client *a)
{
    return strchr(a->address, ',') != NULL;
}

// Returns why no coordinator can have heard us; NULL: one may have.
static const char *nobody_there(const struct sl_error *err)
{
    if (strstr(err->text, "Connection refused") != NULL)
        return "connection refused";
    if (strstr(err->text, "No such file") != NULL)
        return "the socket does not exist";
    return NULL;
}

// The transport's words, as people say it.
static const char *cause_of(const struct sl_error *err, const char *address)
{
    size_t n = strlen(address);

    if (nobody_there(err) != NULL)
        return nobody_there(err);
    if (strncmp(err->text, address, n) == 0 &&
        strncmp(err->text + n, ": ", 2) == 0)
        return err->text + n + 2;
    return err->text;
}

void api_explain(struct sl_error *err, const char *address, int64_t timeout_ms)
{
    char cause[700]; // a coordinator that waits says for what

    if (err->code != SL_EUNAVAIL && err->code != SL_ETIMEDOUT)
        return;
    snprintf(cause, sizeof(cause), "%.690s", cause_of(err, address));
    if (err->code == SL_ETIMEDOUT)
        snprintf(cause, sizeof(cause), "no answer within %.3g s",
                 (double)timeout_ms / 1000);
    if (strncmp(cause, RPC_STANDBY, strlen(RPC_STANDBY)) == 0) {
        sl_fail(err, err->code,
                "coordinator %s: %s. Give --coordinator or SLUICE_COORDINATOR "
                "the addresses of all coordinators, with commas between; "
                "without a leader, see that etcd answers",
                address, cause);
        return;
    }
    sl_fail(err, err->code,
            "coordinator %s: %s. Is it running? Try: sluice up --dir "
            "./cluster, or: coordinator --state DIR; another address is "
            "given by --coordinator or SLUICE_COORDINATOR",
            address, cause);
}

static enum sl_err reply_new(struct reply **out, struct api_client *a,
                             struct sl_error *err)
{
    struct reply *r = sl_malloc(sizeof(*r));

    if (r == NULL)
        return sl_no_memory(err);
    wire_arena_init(&r->arena);
    r->next = a->replies;
    a->replies = r;
    *out = r;
    return SL_OK;
}

static enum sl_err call_once(struct api_client *a, const char *method,
                             const ProtobufCMessage *request, bool patient,
                             int64_t within_ms, struct rpc_body **body,
                             struct sl_error *err)
{
    struct rpc_call_options options = {.deadline_ms = within_ms,
                                       .max_reply_bytes = RPC_DATA_BYTES,
                                       .wait_for_ready = patient};
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    rc = wire_msg(&msg, request);
    if (rc != SL_OK)
        return sl_fail(err, rc, "out of memory");
    return rpc_call_sync(a->channel, method, &msg, &options, body, err);
}

// The certificates do not fit, as the transport's words say: no patience helps.
// A peer that only hangs up may be one that is ending.
static bool is_refused(const struct sl_error *err, bool was_patient)
{
    const char *meaning = tls_explain(err->text);

    return meaning != NULL &&
           (was_patient || strstr(meaning, "hung up") == NULL);
}

static void explain_refused(struct sl_error *err, const char *address)
{
    struct sl_error said = *err; // the meaning may be a part of its text

    sl_fail(err, SL_EAUTH, "coordinator %s: %s", address,
            tls_explain(said.text));
}

static bool api_error_is_http1(const struct sl_error *err)
{
    return strstr(err->text, RPC_HTTP1) != NULL;
}

// No patience helps, nor does a coordinator that is started.
static enum sl_err explain_http1(struct sl_error *err, const char *address)
{
    char role[OPSPORT_ROLE];

    if (opsport_role(role, address))
        return sl_fail(err, SL_EINVAL,
                       "coordinator %s: " RPC_HTTP1 ": it is the ops port of a "
                       "%s; --coordinator takes the address that the "
                       "coordinator listens on (--listen), which 'sluice up' "
                       "prints",
                       address, role);
    return sl_fail(err, SL_EINVAL,
                   "coordinator %s: " RPC_HTTP1 "; --coordinator takes the "
                   "address that the coordinator listens on (--listen)",
                   address);
}

// One call under way: what is asked, and until when.
struct asking {
    struct api_client *api;
    const char *method;
    const ProtobufCMessage *request;
    int64_t end_ms;
    struct rpc_body **body;
    struct sl_error err; // of the last try that says most
    bool patience; // an address of the last round may have heard us, and helps
};

static int64_t asking_rest(const struct asking *q)
{
    return q->end_ms - (int64_t)sl_real_ms();
}

// Calls once, and once more at each further address of the coordinator's that
// is to be tried (rpc_channel_untried).
static enum sl_err call_round(struct asking *q, bool patient)
{
    bool first = true;
    enum sl_err rc;

    q->patience = false;
    do {
        struct sl_error err = SL_ERROR_INIT;

        rc = call_once(q->api, q->method, q->request, patient, asking_rest(q),
                       q->body, &err);
        if (rc == SL_EUNAVAIL && nobody_there(&err) == NULL &&
            !is_refused(&err, false))
            q->patience = true;
        if (first || rc != SL_EUNAVAIL || nobody_there(&err) == NULL)
            q->err = err;
        first = false;
    } while (rc == SL_EUNAVAIL && rpc_channel_untried(q->api->channel) &&
             asking_rest(q) > 0);
    return rc;
}

// Calls again for the rest of the time: core waits for the one address, we for
// one of several that leads by then.
static enum sl_err call_patiently(struct asking *q)
{
    struct sl_error first = q->err;
    enum sl_err rc;

    FAULT("submit.retry");
    do {
        rc = call_round(q, true);
        if (rc != SL_EUNAVAIL || !api_has_several(q->api))
            break;
        cli_pause_ms(ROUND_MS);
    } while (asking_rest(q) > 0);
    if (rc == SL_ETIMEDOUT && is_refused(&first, true))
        q->err = first;
    return rc;
}

static enum sl_err call_explain(const struct asking *q, enum sl_err rc,
                                struct sl_error *err)
{
    struct sl_error why = q->err;
    const char *address = q->api->address;

    why.code = rc;
    if (api_error_is_http1(&why)) {
        explain_http1(&why, address);
    } else {
        if (is_refused(&why, true))
            explain_refused(&why, address);
        api_explain(&why, address, q->api->timeout_ms);
    }
    if (err != NULL)
        *err = why;
    return why.code;
}

// Calls `method`. If no address has a listener it fails at once. Another failed
// connection (a busy host that was slow to shake hands, a standby) is tried
// again for the rest of the time.
static enum sl_err call(struct api_client *a, const char *method,
                        const ProtobufCMessage *request, struct rpc_body **body,
                        struct sl_error *err)
{
    struct asking q = {.api = a,
                       .method = method,
                       .request = request,
                       .end_ms = (int64_t)sl_real_ms() + a->timeout_ms,
                       .body = body};
    enum sl_err rc = call_round(&q, false);

    if (rc == SL_EUNAVAIL && !api_error_is_http1(&q.err) && q.patience &&
        asking_rest(&q) > 0)
        rc = call_patiently(&q);
    return rc == SL_OK ? SL_OK : call_explain(&q, rc, err);
}

#define API_FUNCTION(name, METHOD, Request, Reply, reply_)                     \
    enum sl_err api_##name(struct api_client *a,                               \
                           const Sluice__V1__##Request *request,               \
                           Sluice__V1__##Reply **out, struct sl_error *err)    \
    {                                                                          \
        struct rpc_body *body = NULL;                                          \
        struct reply *r = NULL;                                                \
        enum sl_err rc = reply_new(&r, a, err);                                \
                                                                               \
        if (rc == SL_OK)                                                       \
            rc = call(a, WIRE_##METHOD, &request->base, &body, err);           \
        if (rc != SL_OK)                                                       \
            return rc;                                                         \
        rc = wire_unpack_##reply_(out, &r->arena, rpc_body_slices(body), err); \
        rpc_body_free(body);                                                   \
        if (rc == SL_OK && !out_is_data())                                     \
            wire_plain(&(*out)->base, &r->arena);                              \
        return rc;                                                             \
    }
API_MAP(API_FUNCTION)
