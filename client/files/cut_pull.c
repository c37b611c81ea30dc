// SPDX-License-Identifier: Apache-2.0
// client/files/cut_pull.c -- the call to a psserver for a part of a cut.
#include "client/files/cut_pull.h"

#include <string.h>

#include "proto/access.h"

static enum sl_err cut_pull_over(struct rpc_channel *channel,
                                 const struct wire_pull *request,
                                 const char *table,
                                 const struct rpc_call_options *options,
                                 struct rpc_body **body, struct sl_error *err)
{
    size_t n = table != NULL ? strlen(table) : 0;
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    rc = wire_head_pull(&msg, request, n);
    if (rc == SL_OK && n > 0)
        rpc_msg_part(&msg, table, n);
    return rc == SL_OK
               ? rpc_call_sync(channel, WIRE_PULL, &msg, options, body, err)
               : rc;
}

enum sl_err cut_pull(struct rpc_body **body, struct wire_pull_reply *answer,
                     struct api_client *api,
                     const Sluice__V1__CheckpointsReply *reply,
                     const Sluice__V1__CheckpointShard *shard,
                     const char *table, uint64_t first, struct sl_error *err)
{
    struct wire_pull request = {.job = reply->job,
                                .job_incarnation = reply->job_incarnation,
                                .shard = shard->shard,
                                .has_tag = true,
                                .tag = wire_tag_of(shard->tag),
                                .first_record = first};
    struct rpc_call_options options = {.deadline_ms = api_timeout_ms(api),
                                       .max_reply_bytes = RPC_DATA_BYTES};
    struct rpc_channel *channel = NULL;
    enum sl_err rc;

    *body = NULL;
    if (shard->address[0] == '\0')
        return sl_fail(err, SL_EUNAVAIL, "psserver %s is not attached",
                       shard->psserver);
    rc = rpc_channel_new(&channel, api_io(api), shard->address, api_tls(api),
                         &access_to_psserver, err);
    if (rc != SL_OK)
        return rc;
    rc = cut_pull_over(channel, &request, table, &options, body, err);
    if (rc == SL_OK)
        rc = wire_read_pull_reply(answer, rpc_body_slices(*body), err);
    if (rc != SL_OK) {
        rpc_body_free(*body);
        *body = NULL;
    }
    rpc_channel_free(channel);
    return rc;
}
