// SPDX-License-Identifier: Apache-2.0
// proto/local.h -- what is said on the socket that Shards/Local names.
//
// The caller maps a memfd and hands it over; the psserver answers with the
// number by which pushes and pulls may refer to it (ShmRef) until it is dropped
// or the connection ends. Both run on one host, so a note is a plain struct.
//
//   caller   LOCAL_MAP {token, tag, bytes} + the memfd
//   psserver LOCAL_MAPPED {tag, region}, or LOCAL_REFUSED {tag}
//   caller   LOCAL_DROP {region}: references under way are honoured
//   caller   LOCAL_CALLS {token} + one end of a socket pair (SOCK_SEQPACKET):
//            small calls come over it from now on (common/net/rpc.h: adopt)
//   psserver LOCAL_ADOPTED, or LOCAL_REFUSED with tag 0
//
// Threads  a socket: one at a time. Nothing blocks (shm.h).
// Memory   *passed is the caller's to close; `pass` stays the caller's, also
//          after SL_OK.
// Units    bytes.
// Errors   those of common/net/local/shm.h; SL_ECORRUPT: no such note, end the
//          connection.
#ifndef PROTO_LOCAL_H
#define PROTO_LOCAL_H

#include "common/net/local/shm.h"

enum local_kind {
    LOCAL_MAP = 1,
    LOCAL_MAPPED,
    LOCAL_REFUSED, // it is too large, or there are too many: send bytes
    LOCAL_DROP,
    LOCAL_CALLS,
    LOCAL_ADOPTED,
};

struct local_note {
    uint32_t magic;  // LOCAL_MAGIC: the version, too
    uint32_t kind;   // enum local_kind
    uint64_t token;  // token from LocalReply; MAP and CALLS have it
    uint64_t tag;    // the caller's own number of what it maps; not 0
    uint64_t region; // psserver's number of the mapped memory
    uint64_t bytes;  // size of the memory, for MAP
};
#define LOCAL_MAGIC 0x31534c53u

// Sends `note` on socket `fd`, with its magic filled in and with the descriptor
// `pass`, unless it is -1. Returns SL_OK; SL_EBUSY: not now; SL_EUNAVAIL: the
// other end is gone.
enum sl_err local_send(int fd, struct local_note note, int pass);
// Receives a note from socket `fd`. *passed is the descriptor that came with
// it, for MAP and CALLS, else -1; only on SL_OK is it open: after a failure
// *passed is undefined, and *out untouched. SL_EBUSY: no note waits;
// SL_EUNAVAIL: the other end is gone; SL_ECORRUPT: no note, or one without the
// descriptor that it needs, or with one that it does not: that is closed.
enum sl_err local_receive(int fd, struct local_note *out, int *passed);

#endif
