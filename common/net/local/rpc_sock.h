// SPDX-License-Identifier: Apache-2.0
// common/net/local/rpc_sock.h -- unary calls over a socket of this host, beside
// core.
//
// Core takes some 30 us of each end for a small call, and twice that when its
// caches are cold. Where two processes share a host, small calls may go over a
// private socket instead (SOCK_SEQPACKET): one message is one packet, written
// and read in one system call each, and nothing stands between.
//
//   rpc_link_start -> packet -> received -> method->unary -> rpc_answer
//        -> rpc_host_answer -> packet(s) -> over, on the link's I/O thread
//
// Beside each I/O thread there is one that watches such sockets. It starts with
// the first of them.
//
// Only rpc*.c files include this.
//
// Threads  any, except where it says. `ready`, `tick`, `gone` and `over` run on
//          the watching thread, never under a lock of ours.
// Memory   links and hosts are counted references; a descriptor is closed with
//          the last one, so no thread writes to a reused descriptor.
// Units    bytes, ms.
// Errors   a peer that sends a malformed packet loses its socket.
#ifndef COMMON_NET_LOCAL_RPC_SOCK_H
#define COMMON_NET_LOCAL_RPC_SOCK_H

#include "common/net/rpc_inner.h"

#define RPC_SOCK_PACKET ((size_t)64 << 10)
#define RPC_SOCK_PATH_MAX 128
#define RPC_SOCK_BATCH 8 // packets that are read at once
// Limit of unanswered calls of one peer. Our client waits for 256 at most, and
// may have cancelled some more; a peer above the limit loses its socket.
#define RPC_SOCK_OPEN_MOST 768

// Header of every packet, in host byte order: both ends are on one host.
struct rpc_sock_head {
    uint32_t magic;      // RPC_SOCK_ASKS or RPC_SOCK_ANSWERS
    uint32_t said;       // bytes of the method's path, or enum sl_err
    uint64_t id;         // number that the caller gave its call
    uint64_t total;      // bytes of the whole body, or of the error's text
    uint64_t at;         // offset of this packet's bytes in the body
    int64_t deadline_ms; // deadline of a request, relative, in ms
};
#define RPC_SOCK_ASKS 0x31514b53u
#define RPC_SOCK_ANSWERS 0x31414b53u

// Bytes of a body that fit one packet, whatever the length of the method's
// path.
#define RPC_SOCK_BODY                                                          \
    (RPC_SOCK_PACKET - sizeof(struct rpc_sock_head) - RPC_SOCK_PATH_MAX)

// ---- rpc_poll.c: the thread, and what it watches

struct rpc_poll {
    int fd;                    // its owner closes it, after `gone`
    struct rpc_poller *poller; // watching thread; set by rpc_poll_open
    struct list_node node;     // entry in the thread's list of polls
    bool leaving;              // rpc_poll_leave was called
    // The socket can be read or written, or has ended (epoll's bits).
    void (*ready)(struct rpc_poll *poll, unsigned events);
    // Called every RPC_TICK_MS while any poll of the thread returned true (it
    // waits for something), and soon after rpc_poll_wake. NULL: never.
    bool (*tick)(struct rpc_poll *poll);
    void (*gone)(struct rpc_poll *poll); // last call; it may free `poll`
};

#define RPC_TICK_MS 200

// Watches poll->fd on the watching thread beside `thread`, which starts with
// its first poll. Fails if that thread or its epoll cannot be made.
enum sl_err rpc_poll_open(struct rpc_poll *poll, struct rpc_thread *thread,
                          struct sl_error *err);
// Stops watching `poll`. On the watching thread only; `gone` runs before that
// thread sleeps again.
void rpc_poll_leave(struct rpc_poll *poll);
// Sets the epoll events for which `ready` is called.
void rpc_poll_want(struct rpc_poll *poll, unsigned events);
// Tells the watching thread that `poll` now needs ticks, if it sleeps without.
void rpc_poll_stir(struct rpc_poll *poll);
void rpc_poll_wake(struct rpc_poll *poll); // causes a tick soon

// ---- packets

struct rpc_sock_packet {
    struct rpc_sock_head head;
    const char *path; // method's path in a request; head.said bytes, no 0
    const uint8_t *body;
    size_t bytes; // length of `body`: this packet's part alone
};

// Reads the packets that have arrived, on the watching thread, which lends
// their memory until the next call. SL_EBUSY: no packet now; SL_EUNAVAIL: the
// peer closed the socket; SL_ECORRUPT: a packet without `magic` or malformed.
enum sl_err rpc_sock_receive(struct rpc_poll *poll, uint32_t magic,
                             struct rpc_sock_packet out[RPC_SOCK_BATCH],
                             unsigned *count);

// Sends one packet with the part of `msg` that begins at head->at and fits; the
// message stays the caller's. SL_EBUSY: the socket's buffer is full;
// SL_EUNAVAIL: the peer is gone.
enum sl_err rpc_sock_send_part(int fd, const struct rpc_sock_head *head,
                               const char *path, const struct rpc_msg *msg);

// Sends `bytes` bytes as one packet, with the same errors.
enum sl_err rpc_sock_send(int fd, const void *packet, size_t bytes);
// Copies bytes [at, at + n) of a message to `to`.
void rpc_sock_copy(uint8_t *to, const struct rpc_msg *msg, size_t at, size_t n);

// ---- rpc_link.c: the caller's end

struct rpc_link;

struct rpc_link_call { // all zeroes before
    void (*over)(struct rpc_link_call *call, enum sl_err code,
                 const struct sl_error *err, const struct sl_slices *reply);
    size_t max_reply_bytes; // limit of the answer, set by the caller

    // Fields of the link.
    struct list_node node;
    uint64_t id, until_ms; // number in the packets; deadline, monotonic
    bool flies, cancelled; // it is in the link; rpc_link_cancel was called
    enum sl_err code;      // how it ends
    uint8_t *pieces;       // bytes so far of an answer in several packets
    size_t have, total;    // number of those bytes, and of the whole answer
};

// Makes a link over `fd`, watched beside `thread`; `address` is for error
// texts. Takes the descriptor in every case.
enum sl_err rpc_link_new(struct rpc_link **out, struct rpc_thread *thread,
                         int fd, const char *address, struct sl_error *err);

// Takes one more reference, which needs its own rpc_link_unref; returns `link`.
struct rpc_link *rpc_link_ref(struct rpc_link *link);
void rpc_link_unref(struct rpc_link *link); // NULL is allowed
bool rpc_link_alive(struct rpc_link *link); // false once its socket has ended

// Shuts the socket down and ends the open calls with SL_ECANCELED: their `over`
// runs later, on the watching thread. Does not wait.
void rpc_link_close(struct rpc_link *link);

// Sends a call of `method`. Returns false if the link is full or has ended:
// then `msg` (NULL: empty) is still the caller's and `over` does not run.
// Otherwise the link has taken `msg`, and `over` runs exactly once.
bool rpc_link_start(struct rpc_link *link, struct rpc_link_call *call,
                    const char *method, struct rpc_msg *msg,
                    int64_t deadline_ms);
// Ends `call` soon with SL_ECANCELED, unless it has ended. A call that is
// cancelled before rpc_link_start ends as soon as it is started.
void rpc_link_cancel(struct rpc_link *link, struct rpc_link_call *call);

// ---- rpc_host.c: the server's end

struct rpc_host;

// Callbacks of the server; they run on the watching thread.
struct rpc_host_events {
    void (*received)(struct rpc_server *server, struct rpc_host *host,
                     const struct rpc_sock_packet *packet);
    void (*gone)(struct rpc_server *server, struct rpc_host *host); // last call
};

// Makes the server's end of `fd`, which it takes, with one reference. Receives
// no request before rpc_host_open. Never NULL.
struct rpc_host *rpc_host_new(const struct rpc_host_events *events,
                              struct rpc_server *server, int fd);

// Begins to receive requests, on the watching thread beside `thread`, which
// takes over the reference of rpc_host_new and drops it after `gone`. Fails as
// rpc_poll_open does: then no callback runs, and the caller unrefs the host.
enum sl_err rpc_host_open(struct rpc_host *host, struct rpc_thread *thread,
                          struct sl_error *err);

// Takes one more reference, which needs its own rpc_host_unref; returns `host`.
struct rpc_host *rpc_host_ref(struct rpc_host *host);
void rpc_host_unref(struct rpc_host *host); // closes the socket with the last

// Returns the entry of `host` in server.hosts.
struct list_node *rpc_host_node(struct rpc_host *host);
// Returns the host of such an entry.
struct rpc_host *rpc_host_of_node(struct list_node *node);

// Shuts the socket down; `gone` runs later, on the watching thread. Does not
// wait.
void rpc_host_close(struct rpc_host *host);

// Sends the answer to request `id`: `reply` (NULL: empty) on SL_OK, else `code`
// and the text of `err`. Takes the message.
void rpc_host_answer(struct rpc_host *host, uint64_t id, enum sl_err code,
                     const struct sl_error *err, struct rpc_msg *reply);

#endif
