// SPDX-License-Identifier: Apache-2.0
// coordinator/etcd/etcd_inner.h -- what the etcd_*.c files share.
//
// Threads  any.
// Memory   as in etcd.h.
// Errors   those of etcd.h.
#ifndef COORDINATOR_ETCD_ETCD_INNER_H
#define COORDINATOR_ETCD_ETCD_INNER_H

#include "common/net/wirescan.h"
#include "coordinator/etcd/etcd.h"
#include "coordinator/etcd/etcd.pb-c.h"

// The words of etcd for a revision that it has forgotten (etcd_compacted).
#define ETCD_SAYS_COMPACTED                                                    \
    "etcdserver: mvcc: required revision has been compacted"

struct etcd {
    char *url;
    const char *prefix; // with the "/" behind it; lies in `url`
    size_t prefix_bytes;
    struct rpc_channel *channel; // owned: to the list of all members
};

// A message of etcd's, with what it points at.
struct etcd_held {
    struct wire_arena arena;
    ProtobufCMessage *message; // in the arena
};

// Frees a message; NULL is allowed.
void etcd_held_free(struct etcd_held *h);

// Unpacks `body`, a message of `kind`; *out is the caller's (etcd_held_free)
// and does not point into `body`. Errors of wire_unpack_slices.
enum sl_err etcd_held_read(struct etcd_held **out,
                           const ProtobufCMessageDescriptor *kind,
                           const struct sl_slices *body, struct sl_error *err);

// Initializes *msg and writes `message` to it; it is then to be sent or dropped
// (rpc_msg_drop). SL_ENOMEM, with nothing to drop.
enum sl_err etcd_pack(struct rpc_msg *msg, const ProtobufCMessage *message,
                      struct sl_error *err);

// Makes one call of `method` to one member, and waits for it, at most limit_ms.
// *out is the reply, of the type `kind`, for etcd_held_free. SL_ECORRUPT: the
// answer is no such message; errors of rpc_call_sync; SL_ENOMEM.
enum sl_err etcd_call(struct etcd *e, const char *method,
                      const ProtobufCMessage *request,
                      const ProtobufCMessageDescriptor *kind, int64_t limit_ms,
                      struct etcd_held **out, struct sl_error *err);

// Sets *out to the whole name of a key, in memory of `arena`, without a 0 at
// its end. SL_EINVAL: with that it would be longer than ETCD_KEY_BYTES;
// SL_ENOMEM.
enum sl_err etcd_key(const struct etcd *e, struct wire_arena *arena,
                     const char *key, ProtobufCBinaryData *out,
                     struct sl_error *err);

// Fills *row from `kv` without the client's prefix. The key is a copy in
// `arena`, the value is borrowed from `kv`. SL_ECORRUPT: `kv` is NULL, lies
// elsewhere, has too long a key, or was made at a revision below 0; SL_ENOMEM.
enum sl_err etcd_row_read(const struct etcd *e, struct wire_arena *arena,
                          const Etcd__KeyValue *kv, struct etcd_row *row,
                          struct sl_error *err);

#endif
