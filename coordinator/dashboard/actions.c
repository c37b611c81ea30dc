// SPDX-License-Identifier: Apache-2.0
// coordinator/dashboard/actions.c -- see actions.h.
#include "coordinator/dashboard/actions.h"

#include <string.h>
#include <strings.h>
#include <time.h>

#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/net/tls_bearer.h"
#include "coordinator/dashboard/answer.h"
#include "coordinator/dashboard/dashboard.h"
#include "proto/access.h"

#define BEARER "Bearer "

static const struct action {
    const char *name;
    const char *path; // path of the call that it makes
    const ProtobufCMessageDescriptor *request;
} actions[] = {
    {"drain", WIRE_DRAIN, &sluice__v1__drain_request__descriptor},
    {"undrain", WIRE_DRAIN, &sluice__v1__drain_request__descriptor},
    {"pause", WIRE_PAUSE, &sluice__v1__pause_request__descriptor},
    {"resume", WIRE_RESUME, &sluice__v1__job_request__descriptor},
    {"stop", WIRE_STOP, &sluice__v1__stop_request__descriptor},
};

static const struct action *action_find(const char *name)
{
    for (size_t i = 0; i < SL_COUNT(actions); i++)
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
    return NULL;
}

// ---- the page that asks

// Says whether the request comes from our page or from no browser. A browser
// names the page that asks: in Origin with every POST, and in Sec-Fetch-Site
// with all it sends. Other clients send neither.
static bool is_our_page(const struct http_request *q)
{
    const char *origin = http_header(q, "Origin");
    const char *site = http_header(q, "Sec-Fetch-Site");
    // one of this server's names, or http answered 421
    const char *host = http_header(q, "Host");

    if (site != NULL && strcmp(site, "same-origin") != 0 &&
        strcmp(site, "none") != 0)
        return false;
    if (origin == NULL)
        return true;
    if (strncmp(origin, "http://", 7) == 0)
        origin += 7;
    else if (strncmp(origin, "https://", 8) == 0) // a proxy has the TLS
        origin += 8;
    else
        return false;
    return host != NULL && strcasecmp(origin, host) == 0;
}

static bool action_body_is_json(const struct http_request *q)
{
    const char *type = http_header(q, "Content-Type");
    size_t n = strlen("application/json");

    return type != NULL && strncasecmp(type, "application/json", n) == 0 &&
           (type[n] == '\0' || type[n] == ';' || type[n] == ' ');
}

// ---- the caller

static enum sl_err read_token(struct rpc_peer *peer, time_t *ends,
                              const struct dashboard *d,
                              const struct http_request *q,
                              struct sl_error *err)
{
    const char *said = http_header(q, "Authorization");

    // The audit log's name for a caller without a token.
    *peer = (struct rpc_peer){.way = RPC_WAY_TLS, .id = "(dashboard)"};
    if (said == NULL)
        return sl_fail(err, SL_EAUTH,
                       "this needs a token: `sluice token` prints one");
    if (strncasecmp(said, BEARER, strlen(BEARER)) != 0)
        return sl_fail(err, SL_EAUTH,
                       "Authorization must be 'Bearer' and a token");
    return tls_bearer_read(peer, ends, d->files, said + strlen(BEARER),
                           time(NULL), err);
}

static enum sl_err check_admin(struct access_who *who,
                               const struct rpc_peer *peer,
                               struct sl_error *err)
{
    enum sl_err rc = access_who(who, peer, err);

    if (rc == SL_OK && who->role != ACCESS_ADMIN)
        rc = sl_fail(err, SL_EDENIED,
                     "the dashboard obeys admins alone, and this token is of "
                     "'%.120s'",
                     peer->id);
    return rc;
}

static void action_answer_error(struct http_answer *a, enum sl_err rc,
                                const char *why)
{
    static const struct http_header ask[] = {{"WWW-Authenticate", "Bearer"},
                                             {NULL, NULL}};

    answer_error(a, rc, why);
    if (rc == SL_EAUTH)
        a->headers = ask;
}

static void fail_with(struct http_answer *a, int status, const char *why)
{
    answer_error(a, SL_EINVAL, why);
    a->status = status;
}

// Says whether the request may ask at all; if not, it is answered.
static bool action_is_allowed(const struct dashboard *d,
                              const struct http_request *q,
                              struct http_answer *a)
{
    if (d->files == NULL)
        fail_with(a, 404,
                  "this dashboard only reads: its coordinator was started "
                  "without --dashboard-actions");
    else if (!is_our_page(q))
        fail_with(a, 403, "only the dashboard's own page may ask for actions");
    else
        return true;
    return false;
}

void actions_list(void *arg, const struct http_request *q,
                  struct http_answer *a)
{
    const struct dashboard *d = arg;
    struct sl_error err = SL_ERROR_INIT;
    json_t *names = json_array();
    struct rpc_peer peer;
    struct access_who who;
    time_t ends;
    enum sl_err rc;

    for (size_t i = 0; d->files != NULL && i < SL_COUNT(actions); i++)
        answer_add(&names, json_string(actions[i].name));
    if (d->files == NULL || http_header(q, "Authorization") == NULL) {
        answer_json(a, json_pack("{s:o}", "actions", names));
        return;
    }
    rc = read_token(&peer, &ends, d, q, &err);
    if (rc == SL_OK)
        rc = check_admin(&who, &peer, &err);
    if (rc == SL_OK) {
        answer_json(a, json_pack("{s:o, s:s, s:o, s:I}", "actions", names,
                                 "role", access_role_name(who.role), "name",
                                 pbjson_string(who.name), "ends_unix",
                                 (json_int_t)ends));
        return;
    }
    json_decref(names);
    action_answer_error(a, rc, err.text);
}

// ---- the action

static enum sl_err read_body(ProtobufCMessage **out, const struct action *act,
                             const struct http_request *q, struct sl_error *err)
{
    const struct buf *body = http_body(q);
    json_t *value = NULL;
    enum sl_err rc =
        sl_json_parse(&value, "body", buf_text(body), body->len, NULL, err);

    if (rc == SL_OK)
        rc = pbjson_read_checked(out, act->request, value, "body", err);
    json_decref(value);
    if (rc == SL_OK && strcmp(act->name, "undrain") == 0)
        ((Sluice__V1__DrainRequest *)*out)->undrain = true;
    return rc == SL_ECORRUPT ? SL_EINVAL : rc;
}

static enum sl_err action_ask_api(struct api *api, const struct action *act,
                                  const struct rpc_peer *peer,
                                  const struct http_request *q,
                                  ProtobufCMessage **reply,
                                  struct sl_error *err)
{
    ProtobufCMessage *request = NULL;
    enum sl_err rc = read_body(&request, act, q, err);

    if (rc == SL_OK)
        rc = api_ask(api, act->path, peer, request, reply, err);
    wire_free(request);
    return rc;
}

void actions_do(void *arg, const struct http_request *q, struct http_answer *a)
{
    const struct dashboard *d = arg;
    const struct action *act = action_find(http_rest(q));
    struct sl_error err = SL_ERROR_INIT;
    ProtobufCMessage *reply = NULL;
    struct rpc_peer peer;
    struct access_who who;
    enum sl_err rc;

    if (!action_is_allowed(d, q, a))
        return;
    if (act == NULL) {
        fail_with(a, 404,
                  "unknown action; the actions are drain, undrain, pause, "
                  "resume and stop");
        return;
    }
    if (!action_body_is_json(q)) {
        fail_with(a, 415, "Content-Type must be application/json");
        return;
    }
    rc = read_token(&peer, NULL, d, q, &err);
    if (rc == SL_OK)
        rc = check_admin(&who, &peer, &err);
    if (rc != SL_OK)
        api_refused(d->server->api, act->path, &peer, &err);
    else
        rc = action_ask_api(d->server->api, act, &peer, q, &reply, &err);
    if (rc == SL_OK)
        answer_message(a, reply);
    else
        action_answer_error(a, rc,
                            err.text[0] != '\0' ? err.text : sl_err_text(rc));
}
