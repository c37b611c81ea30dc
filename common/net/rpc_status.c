// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_status.c -- an error's way over the wire and back.
//
// A gRPC status has 16 codes, we have more: our own number travels beside it
// in the trailing metadata. It is believed only when the status is an error
// too, and only when we know the number.
#include "common/net/rpc_inner.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/utf8.h"

#define CODE_KEY "sluice-code"

void rpc_status_op(grpc_op *op, struct rpc_status_space *space,
                   enum sl_err code, const struct sl_error *err)
{
    const char *text = err && err->text[0] ? err->text : sl_err_text(code);
    char number[16];

    memset(op, 0, sizeof(*op));
    space->details = grpc_empty_slice();
    space->code.key = space->code.value = grpc_empty_slice();
    op->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    op->data.send_status_from_server.status =
        (grpc_status_code)sl_err_to_grpc(code);
    if (code == SL_OK)
        return;
    snprintf(number, sizeof(number), "%d", (int)code);
    space->code.key = grpc_slice_from_static_string(CODE_KEY);
    space->code.value = grpc_slice_from_copied_string(number);
    space->details = grpc_slice_from_copied_string(text);
    op->data.send_status_from_server.trailing_metadata_count = 1;
    op->data.send_status_from_server.trailing_metadata = &space->code;
    op->data.send_status_from_server.status_details = &space->details;
}

void rpc_status_space_release(struct rpc_status_space *space)
{
    grpc_slice_unref(space->code.key);
    grpc_slice_unref(space->code.value);
    grpc_slice_unref(space->details);
}

void rpc_outcome_init(struct rpc_outcome *o)
{
    grpc_metadata_array_init(&o->trailing);
    o->details = grpc_empty_slice();
    o->status = GRPC_STATUS_UNKNOWN;
}

void rpc_outcome_release(struct rpc_outcome *o)
{
    grpc_metadata_array_destroy(&o->trailing);
    grpc_slice_unref(o->details);
}

void rpc_outcome_op(grpc_op *op, struct rpc_outcome *o)
{
    memset(op, 0, sizeof(*op));
    op->op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    op->data.recv_status_on_client.trailing_metadata = &o->trailing;
    op->data.recv_status_on_client.status = &o->status;
    op->data.recv_status_on_client.status_details = &o->details;
}

// SL_OK if the peer named no code of ours.
static enum sl_err named_code(const grpc_metadata_array *trailing)
{
    for (size_t i = 0; i < trailing->count; i++) {
        const grpc_metadata *m = &trailing->metadata[i];
        char number[8] = "";
        size_t n = GRPC_SLICE_LENGTH(m->value);
        long code;

        if (grpc_slice_str_cmp(m->key, CODE_KEY) != 0 || n >= sizeof(number))
            continue;
        memcpy(number, GRPC_SLICE_START_PTR(m->value), n);
        code = strtol(number, NULL, 10);
        if (code > SL_OK && code < SL_ERR_COUNT)
            return (enum sl_err)code;
    }
    return SL_OK;
}

// Core refuses a message over the channel's limit with RESOURCE_EXHAUSTED,
// which elsewhere means "try again later". Trying again will not help here.
static bool is_size_limit(grpc_status_code status, const char *text)
{
    return status == GRPC_STATUS_RESOURCE_EXHAUSTED &&
           strstr(text, "message larger than max") != NULL;
}

// Returns true if `text` has core's words for a peer that does not begin with a
// frame of HTTP/2.
static bool rpc_status_is_http1(const char *text)
{
    return strstr(text, "http1.x server") != NULL ||
           strstr(text, "Failed parsing HTTP/2") != NULL;
}

enum sl_err rpc_outcome_read(const struct rpc_outcome *o, const char *address,
                             struct rpc_guard *guard, struct sl_error *err)
{
    int n = (int)GRPC_SLICE_LENGTH(o->details);
    const char *details = (const char *)GRPC_SLICE_START_PTR(o->details);
    char text[SL_ERROR_TEXT], why[SL_ERROR_TEXT];
    const char *meaning;
    enum sl_err code;

    if (o->status == GRPC_STATUS_OK)
        return SL_OK;
    snprintf(text, sizeof(text), "%.*s", n, details);
    utf8_line(text, sizeof(text), text); // it goes to logs and terminals
    code = named_code(&o->trailing);
    if (code != SL_OK)
        return sl_fail(err, code, "%s", text);
    code = is_size_limit(o->status, text) ? SL_ERANGE
                                          : sl_err_from_grpc((int)o->status);
    if (code == SL_OK) // a status we do not know
        code = SL_EINTERNAL;
    // The code stays SL_EUNAVAIL: with SL_EAUTH a worker would fail its
    // closures, and in the end its job, because of another host's impostor.
    if (rpc_guard_why(guard, text, why))
        return sl_fail(err, code, "%s: %s", address, why);
    meaning = tls_explain(text);
    if (meaning != NULL) // in front: core's own words are long and get cut
        return sl_fail(err, code, "%s: %s (%s)", address, meaning, text);
    if (rpc_status_is_http1(text))
        return sl_fail(err, code, "%s: " RPC_HTTP1, address);
    return sl_fail(err, code, "%s: %s", address,
                   text[0] ? text : sl_err_text(code));
}
