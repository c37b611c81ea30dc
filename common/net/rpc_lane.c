// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_lane.c -- the connections of a channel, and their renewal when
// certificates change.
//
// Core's client credentials never change. So when the certificate files were
// replaced (tls.h) and a call finds no connection standing, core's channel is
// replaced too, before it would dial with the old ones. A connection that
// stands is used on, and calls in flight keep the old one until they end.
#include "common/net/rpc_lane.h"

#include <assert.h>

#include <grpc/support/string_util.h>

// Takes the credentials.
static void rpc_lane_dial(struct rpc_lanes *l, struct rpc_lane *lane,
                          grpc_channel_credentials *creds)
{
    struct rpc_args args;

    rpc_args_client(&args, &l->tuning, l->server_name);
    lane->channel = grpc_channel_create(l->target, creds, &args.list);
    lane->methods = 0;
    grpc_channel_credentials_release(creds);
}

static bool stands(const struct rpc_lane *lane, bool dials)
{
    return grpc_channel_check_connectivity_state(lane->channel, dials) ==
           GRPC_CHANNEL_READY;
}

static enum sl_err fresh_creds(grpc_channel_credentials **out,
                               const struct rpc_lanes *l, struct rpc_lane *lane,
                               struct sl_error *err)
{
    return rpc_client_creds(out, l->address, l->files, l->guard,
                            &lane->files_serial, err);
}

// New certificates, and no connection that would have to be given up.
static void rpc_lane_renew(struct rpc_lanes *l, struct rpc_lane *lane)
{
    grpc_channel_credentials *creds;
    grpc_channel *old = lane->channel;

    if (l->files == NULL || tls_files_serial(l->files) == lane->files_serial ||
        stands(lane, false))
        return;
    if (fresh_creds(&creds, l, lane, NULL) != SL_OK)
        return; // no memory: at the next call
    rpc_lane_dial(l, lane, creds);
    grpc_channel_destroy(old);
}

enum sl_err rpc_lanes_open(struct rpc_lanes *l, const char *address,
                           const struct rpc_tls *tls, rpc_allow_fn allow,
                           struct sl_error *err)
{
    struct rpc_lane *usual = &l->lane[RPC_USUAL];
    grpc_channel_credentials *creds;
    struct rpc_address a;
    enum sl_err rc = rpc_address_parse(&a, address, err);

    if (rc == SL_OK)
        rc = rpc_client_files(&l->files, address, tls, err);
    if (rc != SL_OK)
        return rc;
    l->address = gpr_strdup(address);
    if (l->files != NULL && allow != NULL)
        l->guard = rpc_guard_new(l->files, allow);
    rc = fresh_creds(&creds, l, usual, err);
    if (rc != SL_OK) {
        rpc_lanes_close(l);
        return rc;
    }
    if (tls != NULL && tls->server_name != NULL)
        l->server_name = gpr_strdup(tls->server_name);
    rpc_address_target(l->target, &a);
    rpc_lane_dial(l, usual, creds);
    return SL_OK;
}

void rpc_lanes_close(struct rpc_lanes *l)
{
    for (int i = 0; i < RPC_LANES; i++) {
        if (l->lane[i].channel != NULL)
            grpc_channel_destroy(l->lane[i].channel);
    }
    for (unsigned i = 0; i < l->methods_count; i++)
        gpr_free(l->methods[i]);
    rpc_guard_unref(l->guard);
    tls_files_close(l->files);
    gpr_free(l->server_name);
    gpr_free(l->address);
}

void rpc_lanes_hurry(struct rpc_lanes *l)
{
    for (int i = 0; i < RPC_LANES; i++) {
        struct rpc_lane *lane = &l->lane[i];

        if (lane->channel == NULL)
            continue;
        rpc_lane_renew(l, lane);
        grpc_channel_reset_connect_backoff(lane->channel);
    }
}

bool rpc_lanes_express(struct rpc_lanes *l)
{
    struct rpc_lane *lane = &l->lane[RPC_EXPRESS];
    grpc_channel_credentials *creds;

    if (lane->channel == NULL) {
        if (fresh_creds(&creds, l, lane, NULL) != SL_OK)
            return false;
        rpc_lane_dial(l, lane, creds);
    }
    rpc_lane_renew(l, lane);
    return stands(lane, true);
}

unsigned rpc_lanes_method(struct rpc_lanes *l, const char *name)
{
    for (unsigned i = 0; i < l->methods_count; i++) {
        if (strcmp(l->methods[i], name) == 0)
            return i;
    }
    if (l->methods_count == RPC_METHODS_MAX)
        return RPC_NO_METHOD;
    l->methods[l->methods_count] = gpr_strdup(name);
    return l->methods_count++;
}

static void *registered(struct rpc_lanes *l, struct rpc_lane *lane,
                        unsigned method)
{
    while (lane->methods <= method) {
        lane->registered[lane->methods] = grpc_channel_register_call(
            lane->channel, l->methods[lane->methods], NULL, NULL);
        lane->methods++;
    }
    return lane->registered[method];
}

grpc_call *rpc_lanes_call(struct rpc_lanes *l, enum rpc_lane_kind kind,
                          unsigned method, const char *name,
                          gpr_timespec deadline, grpc_completion_queue *cq)
{
    struct rpc_lane *lane = &l->lane[kind];
    grpc_slice slice;
    grpc_call *call;

    rpc_lane_renew(l, lane);
    if (method != RPC_NO_METHOD)
        return grpc_channel_create_registered_call(
            lane->channel, NULL, GRPC_PROPAGATE_DEFAULTS, cq,
            registered(l, lane, method), deadline, NULL);
    assert(kind == RPC_USUAL);
    slice = grpc_slice_from_copied_string(name);
    call =
        grpc_channel_create_call(lane->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                 cq, slice, NULL, deadline, NULL);
    grpc_slice_unref(slice);
    return call;
}
