// SPDX-License-Identifier: Apache-2.0
// client/files/cut_pull.h -- what a psserver has of a cut.
//
// Threads  main only; cut_pull waits for the answer.
// Memory   the answer's payload lies in *body, which is the caller's.
// Errors   SL_EUNAVAIL: the psserver is not attached, or does not answer; what
//          it answers, as SL_ENOENT; SL_ETIMEDOUT after api_timeout_ms. `err`
//          may be NULL.
#ifndef CLIENT_FILES_CUT_PULL_H
#define CLIENT_FILES_CUT_PULL_H

#include "client/call/api.h"

// Pulls a shard of a cut from its psserver, over a connection of its own: its
// values if `table` is NULL (`first` is then 0), else records of that table
// from number `first` on, as many as a message holds, and none if there are no
// more. Sets *answer, which says in any case how many records there are and
// their size, and *body, which holds the payload and is for rpc_body_free. On
// failure *body is NULL and *answer means nothing.
enum sl_err cut_pull(struct rpc_body **body, struct wire_pull_reply *answer,
                     struct api_client *api,
                     const Sluice__V1__CheckpointsReply *reply,
                     const Sluice__V1__CheckpointShard *shard,
                     const char *table, uint64_t first, struct sl_error *err);

#endif
