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
//          gRPC ends the process when memory is out; what our callers size
//          (heads, scratch) says SL_ENOMEM.
// Errors   An answer carries the sl_err number (trailing metadata
//          "sluice-code") and the text, so the caller gets both back as they
//          were said; a client in another language sees the gRPC status of
//          status.h. What the transport reports itself is mapped from its
//          status and begins with the address.
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
    void (*pause)(void *arg);
    void *pause_arg;
};

// The settings of the allocator and of core's libraries, once per process,
// before gRPC starts: so that memory of messages is kept, not faulted in anew.
// rpc_io_new does it; alone it is for a program that is measured against us and
// calls core by itself.
void rpc_tune_process(void);

// Starts the threads (options may be NULL). The first one in a process also
// starts gRPC; after it the process must not fork without exec.
enum sl_err rpc_io_new(struct rpc_io **out,
                       const struct rpc_io_options *options,
                       struct sl_error *err);

// Stops and joins the threads. Waits; servers and channels of `io` are freed
// before. After the last one of a process every release function has run.
// NULL is allowed.
void rpc_io_free(struct rpc_io *io);

unsigned rpc_io_threads(const struct rpc_io *io);

// Has the first I/O thread call fn(arg), once, soon.
void rpc_io_call(struct rpc_io *io, void (*fn)(void *arg), void *arg);

// ---- addresses: "host:port", "[::1]:port", "unix:/path"

// SL_EINVAL, saying how it should look, for anything else. Port 0 is allowed
// (a server then chooses one).
enum sl_err rpc_address_check(const char *address, struct sl_error *err);

// Nobody outside this machine can reach it: unix:, localhost, 127.*, ::1.
bool rpc_address_is_local(const char *address);

// Tries to listen there for a moment: SL_EEXIST if another process does, or
// why else it cannot be. Removes a socket file that nobody answers on.
enum sl_err rpc_address_vacant(const char *address, struct sl_error *err);

// What the error of a call says, after the address, where a web server answers.
#define RPC_HTTP1 "what answers there speaks HTTP/1 and is no gRPC server"

// ---- messages that go out

#define RPC_MSG_PARTS 8
#define RPC_MSG_SPACE 512

// Use the functions; `head` points into the struct, so do not copy it.
struct rpc_msg {
    uint8_t *head; // owned bytes that come first
    size_t head_bytes;
    unsigned parts; // ranges of the caller's memory that follow, uncopied
    struct sl_slice part[RPC_MSG_PARTS];
    void (*release)(void *user); // NULL: the ranges live for ever
    void *user;
    uint8_t space[RPC_MSG_SPACE];
};

// An empty message (which is a message: zero bytes).
void rpc_msg_init(struct rpc_msg *msg);

// Makes the header `bytes` long and returns where to write it; what was there
// is gone. NULL only when memory is out.
uint8_t *rpc_msg_head(struct rpc_msg *msg, size_t bytes);

// Appends a range of the caller's memory; at most RPC_MSG_PARTS of them.
void rpc_msg_part(struct rpc_msg *msg, const void *data, size_t bytes);

// Called once, when no part is referenced any more. Also runs for a
// message without parts, and for one that is dropped.
void rpc_msg_on_release(struct rpc_msg *msg, void (*release)(void *user),
                        void *user);

size_t rpc_msg_bytes(const struct rpc_msg *msg);

// Gives up a message that nobody took: runs its release function.
void rpc_msg_drop(struct rpc_msg *msg);

// ---- bodies that came in

const struct sl_slices *rpc_body_slices(const struct rpc_body *body);
void rpc_body_free(struct rpc_body *body); // NULL is allowed

// ---- server

// How a call came, and as whom.
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
    bool revoked;         // by the list in tls.h's crl_file
    unsigned uris;        // in the certificate's SAN
    char id[RPC_PEER_ID]; // the first of them, else the common name
};

enum rpc_kind {
    RPC_UNARY,         // one request, one answer: `unary`
    RPC_BIDI,          // messages both ways: `open`
    RPC_SERVER_STREAM, // one request, many messages back: `open`
};

struct rpc_method {
    const char *path; // "/sluice.v1.Shards/Push"; lives as long as the server
    enum rpc_kind kind;
    size_t max_request_bytes; // of one message; 0: RPC_CONTROL_BYTES

    // RPC_UNARY. Must lead to exactly one rpc_answer.
    void (*unary)(struct rpc_call *call, void *arg);

    // The others. Sets the stream's events (rpc_stream_set) or finishes it;
    // takes a reference if it keeps the pointer past on_end.
    void (*open)(struct rpc_stream *stream, void *arg);

    // RPC_UNARY: a request is read when there is room for it (rpc_limits), and
    // waits in its sender until then. For large ones.
    bool in_turn;
};

struct rpc_table {
    const struct rpc_method *methods;
    size_t count;
    void *arg; // passed to every handler of the table
};

// What a server spends on its peers, and on one of them: the bearer of a
// certificate, or without one a host. What comes over unix sockets is of the
// server's own user (or root) and counted in the bytes alone. 0: as the flag of
// that name has it.
struct rpc_limits {
    unsigned peer_calls, calls;             // open, with streams: then SL_EBUSY
    unsigned peer_connections, connections; // TCP; newer ones are closed
    size_t inbound_bytes; // of what comes in: half of it is given to requests
                          // that are `in_turn`; at the whole of it core ends
                          // calls, with SL_EBUSY
    size_t unread_bytes;  // of answers, by one peer: then its calls wait
    unsigned patience_ms; // with a request that is asked for, and with answers
                          // that are not read; and a second for each MiB
};

// --peer-calls, --calls and so on.
extern const struct conf_key rpc_limit_keys[];
void rpc_limits_read(struct rpc_limits *out, const struct conf *conf);

struct rpc_server_options {
    unsigned keepalive_ms;         // 0: 10000
    unsigned keepalive_timeout_ms; // 0: 5000
    unsigned posted;               // requests kept posted per method and
                                   // thread; 0: 32
    size_t stream_queue_bytes;     // cap of a stream's send queue; 0: 64 MiB

    // Asked before each handler, on an I/O thread. What it refuses is answered
    // with its error and logged; no handler runs. And asked again about streams
    // that are open when certificate files were replaced (tls.h): those that it
    // refuses then end. NULL: everybody may call everything.
    enum sl_err (*allow)(const char *path, const struct rpc_peer *peer,
                         struct sl_error *err);

    // Whether many may show this certificate: then each host of theirs is a
    // peer of its own. NULL: nobody does.
    bool (*shared)(const struct rpc_peer *peer);

    const struct rpc_limits *limits; // borrowed for the call; NULL: all usual
};

// Makes a server of these tables on the threads of `io`. Copies the tables,
// not what they point at. SL_EINVAL for a path that appears twice.
enum sl_err rpc_server_new(struct rpc_server **out, struct rpc_io *io,
                           const struct rpc_table *tables, size_t tables_count,
                           const struct rpc_server_options *options,
                           struct sl_error *err);

// Listens on one more address, before start. *port (NULL allowed) is the port
// in use, 0 for unix:. Without `tls` anything but a local address is
// SL_EDENIED. An address that somebody answers on is SL_EEXIST; a unix socket
// file that nobody answers on is removed. With `tls` a caller must show a
// certificate of the same authority; on unix: the file's mode (0600) guards
// instead, and `tls` is not used. Certificate files that are replaced (tls.h)
// serve every handshake after tls_look saw them.
enum sl_err rpc_server_bind(struct rpc_server *server, const char *address,
                            const struct rpc_tls *tls, int *port,
                            struct sl_error *err);

void rpc_server_start(struct rpc_server *server);

// From now on new calls are refused with SL_EUNAVAIL; open ones go on.
void rpc_server_drain(struct rpc_server *server);

// Closes the sockets and cancels what is open: streams end, and answers still
// to be given go nowhere. Does not wait.
void rpc_server_stop(struct rpc_server *server);

// Stops, then waits until every call was answered and every stream has ended.
// NULL is allowed.
void rpc_server_free(struct rpc_server *server);

// Calls and streams that are open now.
size_t rpc_server_open_calls(struct rpc_server *server);

// The two ends of a socket of this host (SOCK_SEQPACKET) for small calls: one
// for rpc_channel_adopt, the other handed over to who calls rpc_server_adopt.
// The caller's to close until then.
enum sl_err rpc_socket_pair(int pair[2], struct sl_error *err);

// Serves calls over such a socket as well, until its peer goes away. Takes the
// descriptor
// in every case. Whoever holds the other end may call any unary method, so it
// is for a peer that has proved who it is. SL_ESTATE after stop, SL_EINVAL for
// another kind of descriptor.
enum sl_err rpc_server_adopt(struct rpc_server *server, int fd,
                             struct sl_error *err);

// The request, borrowed until the answer.
const struct sl_slices *rpc_call_body(const struct rpc_call *call);

// What is left until the caller gives up, at least 0 (the wire rounds it up by
// as much as 1 %); RPC_NO_DEADLINE if it set none. For tests.
int64_t rpc_call_left_ms(const struct rpc_call *call);

// Zeroed memory that goes away with the answer; aligned for any type. NULL
// only when memory is out.
void *rpc_call_scratch(struct rpc_call *call, size_t bytes);

// Who calls.
void rpc_call_peer(const struct rpc_call *call, struct rpc_peer *out);

// Answers, exactly once, from any thread; `call` is gone afterwards. On SL_OK
// the reply goes out (NULL: an empty message). Otherwise code and err->text
// do (NULL: the sentence of the code) and the reply is dropped. Takes the
// message in every case.
void rpc_answer(struct rpc_call *call, enum sl_err code,
                const struct sl_error *err, struct rpc_msg *reply);

// ---- streams, the same on both sides

// Each may be NULL. All run on the stream's one I/O thread.
struct rpc_stream_events {
    // A message. The slices are borrowed until return; rpc_stream_take keeps
    // them longer. The next one is read after it returns.
    void (*on_message)(struct rpc_stream *stream, const struct sl_slices *body,
                       void *user);

    // Server only: the client sends no more. NULL: finish with SL_OK.
    void (*on_half_close)(struct rpc_stream *stream, void *user);

    // The send queue has space again after an SL_EBUSY.
    void (*on_writable)(struct rpc_stream *stream, void *user);

    // Exactly once and last. Client: the server's status. Server: SL_OK if it
    // was finished and the status went out, SL_ECANCELED if the client went
    // away, cancelled or died before that.
    void (*on_end)(struct rpc_stream *stream, enum sl_err code,
                   const struct sl_error *err, void *user);
};

// Server, inside `open` only. `events` is copied.
void rpc_stream_set(struct rpc_stream *stream,
                    const struct rpc_stream_events *events, void *user);

// RPC_SERVER_STREAM: the request. Borrowed until `open` returns.
const struct sl_slices *rpc_stream_request(const struct rpc_stream *stream);

// Server, inside a callback but on_end: who opened it.
void rpc_stream_peer(struct rpc_stream *stream, struct rpc_peer *out);

// Server: the same at any time. False: it has ended.
bool rpc_stream_caller(struct rpc_stream *stream, struct rpc_peer *out);

// Queues a message; they leave in the order of the calls. SL_EBUSY if the
// queue holds its cap already (a message larger than the cap passes when the
// queue is empty); SL_ESTATE after close, finish or the end. On failure the
// message is untouched and still the caller's.
enum sl_err rpc_stream_send(struct rpc_stream *stream, struct rpc_msg *msg);

// Client: no more will be sent, once the queue is out. Server: finish, SL_OK.
void rpc_stream_close(struct rpc_stream *stream);

// Server: ends the stream with a status, once the queue is out. On a client
// it is a cancel. The first close, finish or cancel counts. HTTP/2 lets a
// failure overtake messages that the client has not read yet.
void rpc_stream_finish(struct rpc_stream *stream, enum sl_err code,
                       const struct sl_error *err);

// Ends it now; what is queued is dropped. on_end still runs.
void rpc_stream_cancel(struct rpc_stream *stream);

// Inside on_message only: makes the message the caller's. NULL when memory is
// out or it was taken before.
struct rpc_body *rpc_stream_take(struct rpc_stream *stream);

// No message is read between pause and resume: the peer is held back by flow
// control. A paused stream sees its peer's orderly end only after resume.
void rpc_stream_pause(struct rpc_stream *stream);
void rpc_stream_resume(struct rpc_stream *stream);

// Bytes that wait to be sent: 0 says that the peer has room for the next.
size_t rpc_stream_queued_bytes(struct rpc_stream *stream);

struct rpc_stream *rpc_stream_ref(struct rpc_stream *stream);
void rpc_stream_unref(struct rpc_stream *stream); // NULL is allowed

// ---- client

struct rpc_channel_options {
    unsigned keepalive_ms;         // 0: 10000
    unsigned keepalive_timeout_ms; // 0: 5000
    size_t max_message_bytes;      // of a reply; 0: RPC_DATA_BYTES
    size_t stream_queue_bytes;     // cap of a stream's send queue; 0: 64 MiB
    size_t window_bytes;           // of unary requests on their way; 0: 2 MiB
    unsigned thread;               // I/O thread + 1; 0: in turn

    // Asked of whoever answers a handshake over TLS, beyond its authority and
    // its host, before anything is sent to it, on a thread of core's. One that
    // is refused is not reached: SL_EUNAVAIL with the error's text behind
    // TLS_NOT_WHOM, as of any failed handshake. NULL: nothing is asked.
    enum sl_err (*allow)(const struct rpc_peer *server, struct sl_error *err);
};

// A channel connects when it is first used and again whenever it must; each
// has its own connection. tls NULL: plain, for local addresses only
// (SL_EDENIED otherwise). Certificate files that are replaced (tls.h) serve
// every connection that a call makes after tls_look saw them.
enum sl_err rpc_channel_new(struct rpc_channel **out, struct rpc_io *io,
                            const char *address, const struct rpc_tls *tls,
                            const struct rpc_channel_options *options,
                            struct sl_error *err);

// Cancels what is open and waits until its callbacks have returned. Where that
// takes long, the peer does not read: all connections of this process to its
// address are closed then. NULL is allowed.
void rpc_channel_free(struct rpc_channel *channel);

const char *rpc_channel_address(const struct rpc_channel *channel);

// Small calls (rpc_call_options) go over this socket from now on, whose other
// end a server of this host adopted, until it ends: then those on their way
// end with SL_EUNAVAIL, and later ones go where they went before. Takes the
// descriptor in every case. SL_EEXIST: there is a socket already; SL_EINVAL:
// this is none of that kind.
enum sl_err rpc_channel_adopt(struct rpc_channel *channel, int fd,
                              struct sl_error *err);
bool rpc_channel_adopted(struct rpc_channel *channel); // it has one now

// A cancelled call has ended after so long, and what it lent is released, if
// its peer reads. Else break: all connections of this process to the address
// are closed, unless that has a name for its host, and calls on them end.
// Whoever else uses one dials again.
#define RPC_BREAK_MS 250
void rpc_channel_break(struct rpc_channel *channel);

// Try to connect at once, if it was waiting to try again.
void rpc_channel_hurry(struct rpc_channel *channel);

struct rpc_call_options {
    int64_t deadline_ms;    // from now; unary calls must have one
    size_t max_reply_bytes; // per message; 0: RPC_CONTROL_BYTES
    bool wait_for_ready;    // wait for the peer until the deadline, instead of
                            // failing with SL_EUNAVAIL at once
    // Among unary calls that wait for the window: lowest first. What would be
    // behind a higher one on its way may take a second connection.
    unsigned turn;
    // The reply is expected to be of some KiB at most: may take an adopted
    // socket, where a deadline is seen some 200 ms late. Not of rpc_call_sync.
    bool small;
};

// A call in flight, to cancel it. A value: may be copied, forgotten, or used
// after the call has ended (then nothing happens).
struct rpc_ticket {
    void *call;
    uint64_t serial;
};

// The end of a call, exactly once, on an I/O thread: `reply` is there on SL_OK
// only, and borrowed until return; `err` has its text on failure.
typedef void (*rpc_done_fn)(void *arg, enum sl_err code,
                            const struct sl_error *err,
                            const struct sl_slices *reply);

// Starts a unary call. Takes the message in every case (NULL: empty). `method`
// need not outlive the call. *ticket is set before `done` can run; NULL is
// allowed. Retrying is the caller's business.
void rpc_call_start(struct rpc_channel *channel, const char *method,
                    struct rpc_msg *msg, const struct rpc_call_options *options,
                    rpc_done_fn done, void *arg, struct rpc_ticket *ticket);

// Makes the call end soon, with SL_ECANCELED unless it has ended otherwise.
void rpc_cancel(struct rpc_channel *channel, struct rpc_ticket ticket);

// The same call for a program that has nothing else to do: waits. On SL_OK
// *reply is the caller's.
enum sl_err rpc_call_sync(struct rpc_channel *channel, const char *method,
                          struct rpc_msg *msg,
                          const struct rpc_call_options *options,
                          struct rpc_body **reply, struct sl_error *err);

// Opens a stream to a BIDI method, or, with `request`, to a SERVER_STREAM one
// (the message is taken, and this side is closed). *out carries a reference of
// the caller's; on failure *out is untouched and no event runs. *out is set
// before the first event can run.
enum sl_err rpc_stream_open(struct rpc_stream **out,
                            struct rpc_channel *channel, const char *method,
                            struct rpc_msg *request,
                            const struct rpc_call_options *options,
                            const struct rpc_stream_events *events, void *user,
                            struct sl_error *err);

#endif
