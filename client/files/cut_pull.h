// SPDX-License-Identifier: Apache-2.0
// client/files/cut_pull.h -- what a psserver has of a cut.
//
// Threads  main only; cut_pull waits for the answer.
// Memory   the answer's payload lies in *body, which is the caller's.
// Errors   SL_EUNAVAIL: the psserver is not attached; those of the call and of
//          the answer.
#ifndef CLIENT_FILES_CUT_PULL_H
#define CLIENT_FILES_CUT_PULL_H

#include "client/call/api.h"

// Pulls a shard of a cut from its psserver: its values if `table` is NULL, else
// records of that table from number `first` on, as many as a message holds.
// Sets *answer, and *body, which holds the payload and is for rpc_body_free. On
// failure *body is NULL.
enum sl_err cut_pull(struct rpc_body **body, struct wire_pull_reply *answer,
                     struct api_client *api,
                     const Sluice__V1__CheckpointsReply *reply,
                     const Sluice__V1__CheckpointShard *shard,
                     const char *table, uint64_t first, struct sl_error *err);

#endif
