// SPDX-License-Identifier: Apache-2.0
// common/net/rpc.h -- calls as method names and bytes, over gRPC C-core.
//
// An rpc_io is N I/O threads. A server answers methods given in tables; a
// channel makes calls to one address. Bodies come as slices that lie where the
// transport put them; messages go out as a small header that is copied and a
// payload that is not. Nothing here knows protobuf: payload.h and wirescan.h
// read and write the bytes.
//
//   one unary call:  rpc_call_start -> (wire) -> method->unary(call, arg) on an
//   I/O thread of the server -> rpc_answer, there or later, from any thread
//   -> (wire) -> done(arg, ...) on an I/O thread of the client.
//
// Threads  Callbacks run on I/O threads; those of one call or stream never run
//          at the same time. (Adopted sockets have threads of their own, one
//          beside each I/O thread, without `pause`.) They must not block: while
//          one runs, nothing else of its I/O thread moves. Every function here
//          may be called from any thread, except where it says that it waits:
//          those must not be called from a callback.
// Memory   What a callback is given is borrowed until it returns, or until the
//          answer, where that is said. A message's payload stays the caller's,
//          unchanged, until its release function runs: exactly once, on any
//          thread, perhaps before the function it was handed to returns and
//          perhaps a little after the call has ended.
//          It may run under the transport's locks: let it count down and
//          leave, and call nothing of this header.
// Units    *_bytes, *_ms; a deadline is relative, in milliseconds from now.
//          gRPC ends the process when memory is out; memory of a size that our
//          callers choose (heads, scratch) gives SL_ENOMEM instead.
// Errors   An answer carries the sl_err number (trailing metadata
//          "sluice-code") and the text, so the caller gets both unchanged; a
//          client in another language sees the gRPC status of status.h. An
//          error of the transport itself is mapped from its status, and its
//          text begins with the address. A function that fails leaves *out and
//          *reply as they were; `err` may be NULL. Strings and options are
//          copied, or read only during the call, except where it is said. No
//          other pointer is NULL, but where it is said.
#ifndef COMMON_NET_RPC_H
#define COMMON_NET_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/slices.h"
#include "common/base/status.h"
#include "common/net/tls.h"

#define RPC_CONTROL_BYTES ((size_t)4 << 20) // limit of a control message
#define RPC_DATA_BYTES ((size_t)64 << 20)   // limit of a data message
#define RPC_PEER_ID 320                     // bytes of a name, with the 0
#define RPC_NO_DEADLINE INT64_MAX           // for streams only

struct rpc_io;      // I/O threads
struct rpc_server;  // methods at addresses
struct rpc_channel; // a way to one address
struct rpc_call;    // a unary call that this server has to answer
struct rpc_stream;  // messages both ways, either side
struct rpc_body;    // bytes that were received, and are now the caller's

// ---- I/O threads

struct rpc_io_options {
    unsigned threads;  // 0: one per two cores, at least one
    const int *cpus;   // thread i is pinned to cpus[i % cpus_count]; NULL: no
    size_t cpus_count; // pinning
    bool frugal;       // many peers, small messages: no huge pages

    // Called on an I/O thread after each event that it handled; NULL: nothing.
    // `pause_arg` is lent until rpc_io_free has returned.
    void (*pause)(void *arg);
    void *pause_arg;
};

// Sets the allocator and core's libraries up, once per process and before gRPC
// starts, so that freed memory of messages is kept and not faulted in anew.
// rpc_io_new calls it; benchmarks that use core without an rpc_io call it too.
// Core's own messages then go to the log (common/run/log.h). Sets
// GRPC_EXPERIMENTS in the environment, unless it is set, so no other thread may
// change or read that meanwhile. A second call does nothing.
void rpc_tune_process(void);

// Makes the I/O threads and starts them (options may be NULL). SL_EINVAL if
// this process may not use a core of options->cpus; else the system's error if
// it gives no thread (SL_EBUSY). The first one in a process also starts gRPC;
// after it the process must not fork without exec.
enum sl_err rpc_io_new(struct rpc_io **out,
                       const struct rpc_io_options *options,
                       struct sl_error *err);

// Stops and joins the threads. Waits; servers and channels of `io` are freed
// before (it asserts that). After the last one of a process every release
// function has run, unless the transport kept a payload for more than 10 s,
// which is logged. NULL is allowed.
void rpc_io_free(struct rpc_io *io);

// Returns the number of I/O threads.
unsigned rpc_io_threads(const struct rpc_io *io);

// Calls fn(arg), once, soon, on the first I/O thread; never within this call,
// which does not wait. `fn` is not NULL. Those that were asked for before
// rpc_io_free have run when it returns.
void rpc_io_call(struct rpc_io *io, void (*fn)(void *arg), void *arg);

// ---- addresses: "host:port", "[::1]:port", "unix:/path"

// Checks that `address` has one of these three forms; else SL_EINVAL with a
// text that shows them, NULL and "" included. SL_EINVAL also for a path too
// long for a socket. Port 0 is allowed (a server then chooses one). Resolves no
// name.
enum sl_err rpc_address_check(const char *address, struct sl_error *err);

#define RPC_ADDRESSES_MAX 8

// Checks that `list` is such an address, or up to RPC_ADDRESSES_MAX of them,
// all different, with commas between: "host-a:7070,host-b:7070". Else
// SL_EINVAL with a text that names what is wrong; SL_ENOMEM.
enum sl_err rpc_addresses_check(const char *list, struct sl_error *err);

// A server that stands by for another one answers each call with SL_EUNAVAIL
// and a text that begins with this, followed by the address of the one that
// serves, spelled as in the lists of its clients, and then a space or the end:
// "standby of host-a:7070 since ...". What is no address says that none serves:
// "standby of none that is known".
#define RPC_STANDBY "standby of "

// Returns true if no other machine can reach the address: unix:, localhost,
// 127.*, ::1. False for what is no address. `address` is one, and no list.
bool rpc_address_is_local(const char *address);

// Tries to listen at `address` for a moment. SL_OK: it is free now; SL_EEXIST:
// a process listens there, or the path is no socket; SL_EINVAL: it is no
// address, or none of this host; SL_ENOENT: the host's name is not known, or
// the folder of unix: is missing; else the error of the attempt. Removes a
// socket file on which no process answers. Waits for the resolver if the
// address has a host name.
enum sl_err rpc_address_vacant(const char *address, struct sl_error *err);

// Text of a call's error, after the address, if the peer is a web server.
#define RPC_HTTP1 "what answers there speaks HTTP/1 and is no gRPC server"

// ---- messages that go out

#define RPC_MSG_PARTS 8
#define RPC_MSG_SPACE 512

// Use the functions; `head` points into the struct, so do not copy it.
struct rpc_msg {
    uint8_t *head; // the message's first bytes, owned
    size_t head_bytes;
    unsigned parts; // number of ranges of the caller's memory, not copied
    struct sl_slice part[RPC_MSG_PARTS];
    void (*release)(void *user); // NULL: the ranges live for ever
    void *user;
    uint8_t space[RPC_MSG_SPACE]; // place of a short `head`
};

// Makes an empty message (which is a message: zero bytes) in memory not in use.
// A message that a call has taken, or that was dropped, is such an empty one
// again: it may be filled anew or forgotten.
void rpc_msg_init(struct rpc_msg *msg);

// Makes the header `bytes` long and returns where to write it, of unknown
// content; an earlier header is lost. The place holds until the next
// rpc_msg_head, or until the message is taken, moved or dropped. Returns NULL
// only when memory is out, and `msg` is as before.
uint8_t *rpc_msg_head(struct rpc_msg *msg, size_t bytes);

// Appends a range of the caller's memory; at most RPC_MSG_PARTS of them (it
// asserts). It stays unchanged until the release function has run.
void rpc_msg_part(struct rpc_msg *msg, const void *data, size_t bytes);

// Has `release(user)` called once, when the transport references no part any
// more. It also runs for a message without parts and for a dropped one.
// Replaces what an earlier call set; `release` NULL: nothing is called.
void rpc_msg_on_release(struct rpc_msg *msg, void (*release)(void *user),
                        void *user);

// Returns the bytes of the header and all parts.
size_t rpc_msg_bytes(const struct rpc_msg *msg);

// Moves the message *from to `to`, memory not in use; *from is empty then.
void rpc_msg_move(struct rpc_msg *to, struct rpc_msg *from);

// Drops a message that no call has taken: runs its release function, and leaves
// an empty message, so a second call does nothing.
void rpc_msg_drop(struct rpc_msg *msg);

// ---- received bodies

// Returns the bytes of `body`, which live until rpc_body_free.
const struct sl_slices *rpc_body_slices(const struct rpc_body *body);
// Frees a body and its bytes, on any thread. NULL is allowed.
void rpc_body_free(struct rpc_body *body);

// ---- server

// The way a call reached the server, and what proves its caller's identity.
enum rpc_way {
    RPC_WAY_PLAIN, // a local address without certificates
    RPC_WAY_UNIX,  // a socket file (mode 0600): the server's user, or root
    RPC_WAY_NEAR,  // a socket of rpc_server_adopt
    RPC_WAY_TLS,   // the caller has shown a certificate of the authority
};

struct rpc_peer {
    enum rpc_way way;
    bool guarded; // this server asks for certificates at one of its addresses
    // RPC_WAY_TLS:
    bool revoked;         // certificate is on the list in tls.h's crl_file
    unsigned uris;        // number of URIs in the certificate's SAN
    char id[RPC_PEER_ID]; // first URI, else the common name; "": no name
};

enum rpc_kind {
    RPC_UNARY,         // one request, one answer: `unary`
    RPC_BIDI,          // messages both ways: `open`
    RPC_SERVER_STREAM, // one request, many messages back: `open`
};

struct rpc_method {
    const char *path; // "/sluice.v1.Shards/Push"; lives as long as the server
    enum rpc_kind kind;
    // Limit of one message, beyond which a call or stream ends with SL_ERANGE;
    // 0: RPC_CONTROL_BYTES.
    size_t max_request_bytes;

    // RPC_UNARY. Must lead to exactly one rpc_answer, within it or later; a
    // call whose client has left is answered all the same.
    void (*unary)(struct rpc_call *call, void *arg);

    // RPC_BIDI and RPC_SERVER_STREAM. Sets the stream's events (rpc_stream_set)
    // or finishes it; takes a reference if it keeps the pointer past on_end.
    void (*open)(struct rpc_stream *stream, void *arg);

    // RPC_UNARY: a request is read when there is room for it (rpc_limits), and
    // waits in its sender until then, or until SL_EBUSY after the patience. For
    // large ones.
    bool in_turn;
};

struct rpc_table {
    const struct rpc_method *methods;
    size_t count;
    void *arg; // passed to every handler of the table
};

// Limits of what a server spends on all its peers and on one of them: the
// bearer of a certificate or, without certificates, a host. Calls over unix
// sockets come from the server's own user (or root): none is refused, they
// count in `calls` and in the bytes of all. Those over adopted sockets do not
// count. 0: the default of the flag of that name.
struct rpc_limits {
    unsigned peer_calls, calls;             // open, with streams: then SL_EBUSY
    unsigned peer_connections, connections; // TCP; newer ones are closed
    size_t inbound_bytes; // memory of received bytes: half of it is given to
                          // requests that are `in_turn`; when all of it is used
                          // core ends calls, with SL_EBUSY
    size_t unread_bytes;  // answers one peer has not read: then its calls wait
    unsigned patience_ms; // time a peer has to send a request that was asked
                          // for, or to read its answers; plus 1 s per MiB
};

// Settings --peer-calls, --calls and so on, for a daemon's table (conf_add).
extern const struct conf_key rpc_limit_keys[];

// Fills *out with the values of rpc_limit_keys, which `conf` must have; before
// conf_load, with their defaults.
void rpc_limits_read(struct rpc_limits *out, const struct conf *conf);

struct rpc_server_options {
    unsigned keepalive_ms;         // 0: 10000
    unsigned keepalive_timeout_ms; // 0: 5000
    unsigned posted;               // calls kept posted per unary method and
                                   // thread; 0: 32
    size_t stream_queue_bytes;     // cap of a stream's send queue; 0: 64 MiB

    // Decides whether `peer` may call `path`; called before each handler, on an
    // I/O thread, also on several at once. Where no address asks for
    // certificates, `peer` is always RPC_WAY_PLAIN, whatever way the call came.
    // A refused call is answered with *err, counted (RPC_REFUSED_AUTH) and,
    // within LOG_SHARE for each peer, logged; its handler does not run. Called
    // again for open streams, on a thread of the server's own, when certificate
    // files were replaced (tls.h): a refused stream ends. NULL: every call is
    // allowed.
    enum sl_err (*allow)(const char *path, const struct rpc_peer *peer,
                         struct sl_error *err);

    // Returns true if many processes share the certificate of `peer`: then each
    // host that shows it is a peer of its own. NULL: none is shared.
    bool (*shared)(const struct rpc_peer *peer);

    const struct rpc_limits *limits; // borrowed for the call; NULL: defaults
};

// Makes a server of `tables` on the threads of `io`: then rpc_server_bind for
// each address, rpc_server_start, and in the end rpc_server_free, also if one
// of these failed or was left out. Copies the tables, but not the paths and
// arguments they point at. `options` may be NULL. SL_EINVAL if a path appears
// twice.
enum sl_err rpc_server_new(struct rpc_server **out, struct rpc_io *io,
                           const struct rpc_table *tables, size_t tables_count,
                           const struct rpc_server_options *options,
                           struct sl_error *err);

// Listens on one more address, before rpc_server_start. *port (NULL allowed) is
// the port in use, 0 for unix:. Without `tls` an address that is not local is
// SL_EDENIED. SL_EINVAL: it is no address, or none of this host; SL_EEXIST:
// another process answers at the address (a unix socket file on which none
// answers is removed); SL_ENOENT: the host's name is not known, or the folder
// of unix: is missing; those of tls_load; else the system's. With `tls` a
// caller must show a certificate of the same authority; on unix: the file's
// mode (0600) guards instead, and `tls` is not used. Certificate files that are
// replaced (tls.h) serve every handshake after tls_look saw them. After a
// failure another address may be tried; *port is as it was. For unix: it
// changes the umask of the process for a moment. Threads: one at a time; waits
// for the certificate files, and the resolver for a host name.
enum sl_err rpc_server_bind(struct rpc_server *server, const char *address,
                            const struct rpc_tls *tls, int *port,
                            struct sl_error *err);

// Begins to accept calls on the bound addresses. Once, after every bind and
// before rpc_server_stop. Handlers may run before it returns. If the system
// gives no thread for it, no peer is ended for slowness, for its number of
// connections, or, in an open stream, for a certificate that was revoked.
void rpc_server_start(struct rpc_server *server);

// Refuses new calls and streams from now on, for good, with SL_EUNAVAIL; open
// ones go on. May be called again.
void rpc_server_drain(struct rpc_server *server);

// Closes the sockets and cancels open calls and streams: streams end, and
// later answers are dropped. Does not wait. A second call does nothing; the
// server cannot be started again, only be freed.
void rpc_server_stop(struct rpc_server *server);

// Stops, then waits until every call was answered and every stream has ended:
// so whatever answers must go on meanwhile, and a callback must not call it. No
// callback of the server runs after it returns. NULL is allowed.
void rpc_server_free(struct rpc_server *server);

// Returns the number of calls and streams that are open now, at this moment.
size_t rpc_server_open_calls(struct rpc_server *server);

// Makes the two ends of a socket of this host (SOCK_SEQPACKET, closed on exec)
// for small calls: one for rpc_channel_adopt, the other for the process that
// calls rpc_server_adopt. The caller closes an end that no call has adopted.
// SL_EBUSY: the system gives no socket.
enum sl_err rpc_socket_pair(int pair[2], struct sl_error *err);

// Serves calls over the socket `fd` of rpc_socket_pair as well, until its peer
// closes it, or rpc_server_stop. Takes the descriptor in every case. The
// process with the other end may call any unary method that `allow` grants to
// RPC_WAY_NEAR, so give it only to a peer that has proved its identity.
// SL_ESTATE after rpc_server_stop, SL_EINVAL for another kind of descriptor;
// else the system's, as for want of a thread.
enum sl_err rpc_server_adopt(struct rpc_server *server, int fd,
                             struct sl_error *err);

// Returns the request's bytes, borrowed until the answer, or until
// rpc_call_drop_body.
const struct sl_slices *rpc_call_body(const struct rpc_call *call);

// Gives the request's memory back, and its part of rpc_limits.inbound_bytes, to
// other calls, which may begin to be served before this returns: for a handler
// that answers later; not once another thread may answer. The request is then
// empty. Does nothing a second time, or for a call over an adopted socket.
void rpc_call_drop_body(struct rpc_call *call);

// Returns the ms until the caller's deadline, at least 0 (the wire rounds the
// deadline up by as much as 1 %); RPC_NO_DEADLINE if it set none.
int64_t rpc_call_left_ms(const struct rpc_call *call);

// Returns zeroed memory that is freed with the answer, aligned for any type;
// NULL only when memory is out. Each call returns other memory; one thread at a
// time.
void *rpc_call_scratch(struct rpc_call *call, size_t bytes);

// Writes the identity of the call's peer to *out, all of which is set; before
// the answer.
void rpc_call_peer(const struct rpc_call *call, struct rpc_peer *out);

// Answers `call`, exactly once, from any thread; `call` is freed. On SL_OK
// sends `reply` (NULL: an empty message), otherwise `code` and err->text (NULL:
// the sentence of the code). Takes the message in every case.
void rpc_answer(struct rpc_call *call, enum sl_err code,
                const struct sl_error *err, struct rpc_msg *reply);

// ---- streams, the same on both sides

// Callbacks of a stream; each may be NULL. All run on its one I/O thread.
struct rpc_stream_events {
    // A message came. The slices are borrowed until return; rpc_stream_take
    // keeps them longer. The next message is read after on_message returns.
    void (*on_message)(struct rpc_stream *stream, const struct sl_slices *body,
                       void *user);

    // Server only: the client sends no more. NULL: finish with SL_OK.
    void (*on_half_close)(struct rpc_stream *stream, void *user);

    // The send queue has space again (half of its cap) after rpc_stream_send
    // said SL_EBUSY.
    void (*on_writable)(struct rpc_stream *stream, void *user);

    // The stream has ended; exactly once and last. Client: `code` is the
    // server's status. Server: SL_OK if the stream was finished and the status
    // went out, SL_ECANCELED if the client left, cancelled or died before.
    void (*on_end)(struct rpc_stream *stream, enum sl_err code,
                   const struct sl_error *err, void *user);
};

// Sets the callbacks of a stream and their `user`, instead of those set before.
// Server, inside `open` only. Copies `events`; NULL: the callbacks stay, and
// `user` is set all the same.
void rpc_stream_set(struct rpc_stream *stream,
                    const struct rpc_stream_events *events, void *user);

// Returns the request of an RPC_SERVER_STREAM, borrowed until `open` returns;
// no bytes for an RPC_BIDI. Inside `open` only.
const struct sl_slices *rpc_stream_request(const struct rpc_stream *stream);

// Writes the peer that opened the stream to *out. Server, inside any callback
// except on_end.
void rpc_stream_peer(struct rpc_stream *stream, struct rpc_peer *out);

// Writes the peer that opened the stream to *out, as rpc_stream_peer does, but
// at any time and from any thread that has a reference. Server. Returns false
// if the stream has ended; *out is then untouched.
bool rpc_stream_caller(struct rpc_stream *stream, struct rpc_peer *out);

// Queues a message; messages leave in the order of the calls. SL_EBUSY if the
// queue, with this message, would hold more than its cap (an empty queue takes
// any message); SL_ESTATE after close, finish or the end. On failure `msg` is
// unchanged and still the caller's. SL_OK takes it, and promises no arrival: if
// the stream ends before, what is queued is dropped. Does not wait.
enum sl_err rpc_stream_send(struct rpc_stream *stream, struct rpc_msg *msg);

// Closes the sending side once the queue is sent; a client still receives.
// Server: the same as rpc_stream_finish with SL_OK. Does nothing after an
// earlier close, finish or cancel, or after the end.
void rpc_stream_close(struct rpc_stream *stream);

// Ends the stream. Server: with `code` and `err` (NULL: the sentence of the
// code) once the queue is sent; does nothing after an earlier close, finish or
// cancel. Client: cancels it at once and drops what is queued; on_end gets the
// first `code` that is not SL_OK, with its `err` (NULL: without a text); with
// SL_OK alone the server's status, or SL_ECANCELED. HTTP/2 lets a failure
// overtake messages that the client has not read yet.
void rpc_stream_finish(struct rpc_stream *stream, enum sl_err code,
                       const struct sl_error *err);

// Ends the stream now and drops queued messages, also after a close or finish.
// on_end still runs, later: with SL_ECANCELED, unless the end came first. Does
// nothing if the stream has ended.
void rpc_stream_cancel(struct rpc_stream *stream);

// Gives the caller the message, to free with rpc_body_free, which may be later
// and on any thread; inside on_message only. Returns NULL if the message was
// taken before.
struct rpc_body *rpc_stream_take(struct rpc_stream *stream);

// Stops reading messages, so that flow control holds the peer back; a message
// that is being read still arrives. A paused stream sees its peer's orderly end
// only after rpc_stream_resume. Pauses do not add up: the next resume ends them
// all.
void rpc_stream_pause(struct rpc_stream *stream);

// Goes on reading messages; does nothing if the stream is not paused or has
// ended.
void rpc_stream_resume(struct rpc_stream *stream);

// Returns the number of bytes of messages that were queued and are not sent
// yet; 0: the next rpc_stream_send does not return SL_EBUSY.
size_t rpc_stream_queued_bytes(struct rpc_stream *stream);

// Takes one more reference, which needs its own rpc_stream_unref; returns
// `stream`.
struct rpc_stream *rpc_stream_ref(struct rpc_stream *stream);

// Drops a reference, also inside a callback. It does not end the stream: the
// transport holds one of its own until on_end has returned, and callbacks run
// until then. NULL is allowed.
void rpc_stream_unref(struct rpc_stream *stream);

// ---- client

struct rpc_channel_options {
    unsigned keepalive_ms;         // 0: 10000
    unsigned keepalive_timeout_ms; // 0: 5000
    size_t max_message_bytes;      // limit of a reply; 0: RPC_DATA_BYTES
    size_t stream_queue_bytes;     // cap of a stream's send queue; 0: 64 MiB
    size_t window_bytes;           // unary requests in flight, but for those
                                   // of up to 64 KiB; 0: 2 MiB
    unsigned thread;               // index of an I/O thread, + 1; 0: in turn
    bool quiet; // no keepalive while no call is open, which some servers take
                // for an attack; a dead peer is then noticed by the next call

    // Decides whether `server` is the right one, after core has checked its
    // authority and host in the TLS handshake and before any byte is sent to
    // it; on a thread of core. Calls to a refused server end with SL_EUNAVAIL
    // and TLS_NOT_WHOM before the error's text. NULL: no further check.
    enum sl_err (*allow)(const struct rpc_peer *server, struct sl_error *err);
};

// Makes a channel to `address`, which rpc_channel_free ends, and waits for no
// peer (with `tls` it reads the files): it connects when it is first used and
// again whenever it must; each channel has its own connection. tls NULL, or a
// unix: address: without certificates. NULL is for local addresses (SL_EDENIED
// otherwise). SL_EINVAL: it is no address; those of tls_load; SL_ENOMEM.
//
// `address` may be a list (rpc_addresses_check), of servers of which one
// serves. Calls and streams go to its first address until one ends with
// SL_EUNAVAIL or SL_ETIMEDOUT; later ones then go to the address that a server
// that stands by has named (RPC_STANDBY), if it is on the list, else to the
// next. Nothing is sent a second time: that is the caller's. With a list
// `wait_for_ready` does nothing, and a connection attempt ends after 2 s.
// `options` may be NULL. Certificate files that are replaced (tls.h) serve
// every connection made after tls_look saw them.
enum sl_err rpc_channel_new(struct rpc_channel **out, struct rpc_io *io,
                            const char *address, const struct rpc_tls *tls,
                            const struct rpc_channel_options *options,
                            struct sl_error *err);

// Cancels open calls and streams and waits until their callbacks have returned,
// so no callback of the channel may call it; none runs after it. If that takes
// long because the peer does not read, closes all connections of this process
// to its address, as rpc_channel_break does: with the name of a host it waits
// until the transport gives the connection up. Other threads start no call
// meanwhile. NULL is allowed.
void rpc_channel_free(struct rpc_channel *channel);

// Returns the address as rpc_channel_new got it, or that of its list which
// calls go to now; lives as long as the channel.
const char *rpc_channel_address(struct rpc_channel *channel);

// Returns true if calls go to an address of the list that was not tried since
// the last one failed: call again at once. False: each was tried, so wait a
// little first; or none failed, or there is no list.
bool rpc_channel_untried(struct rpc_channel *channel);

// Sends small calls (rpc_call_options) over the socket `fd` from now on; a
// server of this host has adopted its other end. When the socket ends, its open
// calls end with SL_EUNAVAIL, and later calls use the channel's connection
// again. Takes the descriptor in every case. SL_EEXIST: the channel has a
// socket that has not ended; SL_EINVAL: `fd` is not of rpc_socket_pair; else
// the system's, as for want of a thread.
enum sl_err rpc_channel_adopt(struct rpc_channel *channel, int fd,
                              struct sl_error *err);

// Returns true while the channel has an adopted socket that has not ended.
bool rpc_channel_adopted(struct rpc_channel *channel);

// Time in which a cancelled call ends and releases its payload, if the peer
// reads. After that, call rpc_channel_break.
#define RPC_BREAK_MS 250

// Closes all connections of this process to the channel's address, or to each
// of its list, so that their calls end; the channels dial again. Does nothing
// to an address with a host name.
void rpc_channel_break(struct rpc_channel *channel);

// Has the channel connect to its present address at once, if it was waiting to
// try again; else does nothing. Does not wait.
void rpc_channel_hurry(struct rpc_channel *channel);

struct rpc_call_options {
    int64_t deadline_ms;    // milliseconds from now, which a unary call must
                            // have; 0 or less ends the call unsent
    size_t max_reply_bytes; // limit of a message, beyond which a call or stream
                            // ends with SL_ERANGE; 0: RPC_CONTROL_BYTES
    bool wait_for_ready;    // wait for the peer until the deadline, instead of
                            // failing with SL_EUNAVAIL at once
    // Order among unary calls that wait for the window (window_bytes): lowest
    // first. A call behind one in flight of a higher order may take a second
    // connection.
    unsigned turn;
    // The reply is some KiB at most: the call may take an adopted socket, where
    // its deadline is seen up to 200 ms late. rpc_call_sync ignores it.
    bool small;
    // Streams: name of metadata to send with the value "true", a literal that
    // lives for good; NULL: none.
    const char *flag;
};

// Names a call in flight, for rpc_cancel. A plain value: it may be copied,
// forgotten, or used after the call has ended, which has no effect.
struct rpc_ticket {
    void *call;
    uint64_t serial;
};

// Receives the end of a call, exactly once, on an I/O thread (or the one beside
// it, for a call over an adopted socket). `code` is the server's, or
// SL_ETIMEDOUT after the deadline, SL_EUNAVAIL if the server cannot be reached,
// SL_ECANCELED, SL_ERANGE for a reply over its limit, or another of a transport
// that failed. `reply` is set on SL_OK only and borrowed until return; `err`
// has a text on failure.
typedef void (*rpc_done_fn)(void *arg, enum sl_err code,
                            const struct sl_error *err,
                            const struct sl_slices *reply);

// Starts a unary call and does not wait; `done` (not NULL) receives its end,
// also if it could not be sent, and perhaps before this returns. Takes `msg` in
// every case (NULL: empty). `method` need not outlive the call. *ticket is set
// before `done` can run; NULL is allowed. Does not retry. Callbacks may call
// it; not once rpc_channel_free has begun (it asserts).
void rpc_call_start(struct rpc_channel *channel, const char *method,
                    struct rpc_msg *msg, const struct rpc_call_options *options,
                    rpc_done_fn done, void *arg, struct rpc_ticket *ticket);

// Ends the call of `ticket` soon, with SL_ECANCELED; does nothing if it has
// ended, or if the ticket is all zeroes. `done` runs in any case, perhaps with
// an answer that came first. The channel has not been freed.
void rpc_cancel(struct rpc_channel *channel, struct rpc_ticket ticket);

// Makes a unary call and waits for its end, at most until its deadline; not
// from a callback. Returns the codes that rpc_done_fn receives. On SL_OK *reply
// is the caller's to free (rpc_body_free). Takes `msg` in every case (NULL:
// empty). Asserts, as rpc_call_start, that rpc_channel_free has not begun.
enum sl_err rpc_call_sync(struct rpc_channel *channel, const char *method,
                          struct rpc_msg *msg,
                          const struct rpc_call_options *options,
                          struct rpc_body **reply, struct sl_error *err);

// Opens a stream to a BIDI method, or, with `request` (else NULL), to a
// SERVER_STREAM one: takes the request in every case, sends it and closes this
// side. `events` are copied; NULL: no callbacks. SL_ESTATE: rpc_channel_free
// has begun. *out carries a reference of the caller's; on failure *out is
// unchanged and no event runs. *out is set before the first event can run.
// `options` is not NULL; its `turn` and `small` are not read.
enum sl_err rpc_stream_open(struct rpc_stream **out,
                            struct rpc_channel *channel, const char *method,
                            struct rpc_msg *request,
                            const struct rpc_call_options *options,
                            const struct rpc_stream_events *events, void *user,
                            struct sl_error *err);

#endif
