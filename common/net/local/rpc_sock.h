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
//          the last one, so no thread writes to a reused descriptor. Other
//          pointers are borrowed for the call, and not NULL but where it is
//          said.
// Units    bytes, ms.
// Errors   a peer that sends a malformed packet loses its socket. A call that
//          fails leaves *out as it was; `err` may be NULL.
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
    int fd;                    // its owner closes it, after `gone`; set like
                               // the functions below before rpc_poll_open
    struct rpc_poller *poller; // watching thread; set by rpc_poll_open
    struct list_node node;     // entry in the thread's list of polls
    bool leaving;              // rpc_poll_leave was called
    // The socket can be read or written, or has ended (epoll's bits). Not NULL.
    void (*ready)(struct rpc_poll *poll, unsigned events);
    // Called every RPC_TICK_MS while any poll of the thread returned true (it
    // waits for something), and soon after rpc_poll_wake. NULL: never.
    bool (*tick)(struct rpc_poll *poll);
    void (*gone)(struct rpc_poll *poll); // last call; it may free `poll`; not
                                         // NULL
};

#define RPC_TICK_MS 200

// Watches poll->fd, once, on the watching thread beside `thread`, which starts
// with its first poll. `poll` stays where it is until `gone`, and `ready` may
// run before this returns. SL_EINVAL: fd is no SOCK_SEQPACKET; else an error of
// the system, if that thread or its epoll cannot be made. After a failure no
// function of `poll` runs, and its owner closes fd.
enum sl_err rpc_poll_open(struct rpc_poll *poll, struct rpc_thread *thread,
                          struct sl_error *err);
// Stops watching `poll` and shuts its socket down; does nothing if it was
// called before. On the watching thread only; `gone` runs before that thread
// sleeps again. If no poll calls it before the thread ends (rpc_io_free),
// `ready` is called with EPOLLHUP until it does.
void rpc_poll_leave(struct rpc_poll *poll);

// These three need an open poll and are for any thread.

// Sets the epoll events for which `ready` is called, EPOLLIN at first; does
// nothing once `poll` is leaving.
void rpc_poll_want(struct rpc_poll *poll, unsigned events);
// Has the watching thread call `tick` every RPC_TICK_MS from now on, if it had
// stopped because no poll waited for anything.
void rpc_poll_stir(struct rpc_poll *poll);
// Has the watching thread call `tick` of all its polls soon.
void rpc_poll_wake(struct rpc_poll *poll);

// ---- packets

struct rpc_sock_packet {
    struct rpc_sock_head head;
    const char *path; // method's path in a request; head.said bytes, no 0
    const uint8_t *body;
    size_t bytes; // length of `body`: this packet's part alone
};

// Reads the packets that have arrived, on the watching thread, which lends
// their memory until the next call for any poll of that thread. SL_OK: *count
// is 1 to RPC_SOCK_BATCH. SL_EBUSY: no packet now; SL_EUNAVAIL: the peer closed
// the socket; SL_ECORRUPT: a packet without `magic` or malformed. After a
// failure *out and *count are undefined.
enum sl_err rpc_sock_receive(struct rpc_poll *poll, uint32_t magic,
                             struct rpc_sock_packet out[RPC_SOCK_BATCH],
                             unsigned *count);

// Sends one packet with the part of `msg` (NULL: empty) that begins at head->at
// and fits (RPC_SOCK_BODY); the message stays the caller's. `path` has
// head->said bytes; NULL: none, for an answer. Does not wait. SL_EBUSY: the
// socket's buffer is full, or the kernel short of memory; SL_EUNAVAIL: the peer
// is gone. Nothing was sent then.
enum sl_err rpc_sock_send_part(int fd, const struct rpc_sock_head *head,
                               const char *path, const struct rpc_msg *msg);

// Sends `bytes` bytes, at most RPC_SOCK_PACKET, as one packet, with the same
// errors.
enum sl_err rpc_sock_send(int fd, const void *packet, size_t bytes);
// Copies bytes [at, at + n) of a message, which it has, to `to`. `msg` may be
// NULL if n is 0.
void rpc_sock_copy(uint8_t *to, const struct rpc_msg *msg, size_t at, size_t n);

// ---- rpc_link.c: the caller's end

struct rpc_link;

// A call. The caller sets `over` and the limit; other fields are zeroes before.
struct rpc_link_call {
    // Ends the call, on the watching thread; not NULL. `code` is the server's,
    // SL_ETIMEDOUT, SL_ECANCELED, SL_ERANGE for an answer over its limit, or
    // SL_EUNAVAIL if the socket has ended, as it does for an answer in several
    // packets that memory is short for. `reply` is set on SL_OK only, and `err`
    // has a text otherwise; both are borrowed until return. The link does not
    // touch `call` any more: it may be freed, or used again once it is all
    // zeroes.
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
// texts, and copied. Takes the descriptor in every case. *out is one reference,
// the caller's; the watching thread has another until the socket has ended, so
// a link that its owner only unrefs lives until the peer hangs up: call
// rpc_link_close first. Fails as rpc_poll_open does.
enum sl_err rpc_link_new(struct rpc_link **out, struct rpc_thread *thread,
                         int fd, const char *address, struct sl_error *err);

// Takes one more reference, which needs its own rpc_link_unref; returns `link`.
struct rpc_link *rpc_link_ref(struct rpc_link *link);

// Drops a reference; the last one closes the descriptor and frees. Does not
// wait, and ends no call: those in the link still end by `over`, in which it
// may be called. NULL is allowed.
void rpc_link_unref(struct rpc_link *link);

// Returns false once the socket has ended or rpc_link_close was called.
bool rpc_link_alive(struct rpc_link *link);

// Shuts the socket down and ends the open calls with SL_ECANCELED: their `over`
// runs later, on the watching thread. Does not wait; does nothing more if it is
// called again. The caller's reference stays.
void rpc_link_close(struct rpc_link *link);

// Sends a call of `method`, at most RPC_SOCK_PATH_MAX bytes, with a message of
// at most RPC_SOCK_BODY, and a deadline of `deadline_ms` (> 0) from now, which
// is seen up to RPC_TICK_MS late. Returns false if the link has 256 calls
// already, its socket has no room, or it has ended: then `msg` (NULL: empty) is
// still the caller's and `over` does not run. Otherwise the link has taken
// `msg`, and `over` runs exactly once, perhaps before this returns; `call`
// stays where it is until then. Does not wait.
bool rpc_link_start(struct rpc_link *link, struct rpc_link_call *call,
                    const char *method, struct rpc_msg *msg,
                    int64_t deadline_ms);
// Ends `call` soon with SL_ECANCELED, unless it has ended; the caller sees to
// it that its memory is still there. A call that is cancelled before
// rpc_link_start ends as soon as it is started.
void rpc_link_cancel(struct rpc_link *link, struct rpc_link_call *call);

// ---- rpc_host.c: the server's end

struct rpc_host;

// Callbacks of the server, none of them NULL; they run on the watching thread.
struct rpc_host_events {
    // A request came; `packet` is borrowed until return. The callee takes a
    // reference of the host for the time until its answer.
    void (*received)(struct rpc_server *server, struct rpc_host *host,
                     const struct rpc_sock_packet *packet);
    void (*gone)(struct rpc_server *server, struct rpc_host *host); // last call
};

// Makes the server's end of `fd`, which it takes, with one reference. Receives
// no request before rpc_host_open. `events` and `server` are borrowed until
// `gone`. Never NULL.
struct rpc_host *rpc_host_new(const struct rpc_host_events *events,
                              struct rpc_server *server, int fd);

// Begins to receive requests, once, on the watching thread beside `thread`,
// which takes over the reference of rpc_host_new and drops it after `gone`.
// Fails as rpc_poll_open does: then no callback runs, and the caller unrefs the
// host, which closes fd.
enum sl_err rpc_host_open(struct rpc_host *host, struct rpc_thread *thread,
                          struct sl_error *err);

// Takes one more reference, which needs its own rpc_host_unref; returns `host`.
struct rpc_host *rpc_host_ref(struct rpc_host *host);
// Drops a reference; the last one closes the socket and frees, with answers
// that were not sent yet.
void rpc_host_unref(struct rpc_host *host);

// Returns the entry of `host` in server.hosts, all zeroes at first; the server
// takes it out of the list in `gone`.
struct list_node *rpc_host_node(struct rpc_host *host);
// Returns the host of such an entry.
struct rpc_host *rpc_host_of_node(struct list_node *node);

// Shuts the socket down; `gone` runs later, on the watching thread. Does not
// wait. May be called again; answers may still be given, and are lost.
void rpc_host_close(struct rpc_host *host);

// Sends the answer to request `id`: `reply` (NULL: empty) on SL_OK, else `code`
// and the text of `err` (NULL or empty: the sentence of the code). Takes the
// message in every case; drops it once the socket has ended. Does not wait:
// what the socket has no room for is copied, and sent later.
void rpc_host_answer(struct rpc_host *host, uint64_t id, enum sl_err code,
                     const struct sl_error *err, struct rpc_msg *reply);

#endif
