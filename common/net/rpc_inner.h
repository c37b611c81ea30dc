// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_inner.h -- what the rpc*.c files share. No other file includes
// it.
//
// Everything asynchronous is a tag: a struct that core hands back through a
// completion queue when an operation is done. Each I/O thread owns one queue
// and runs the events of its tags one after the other.
//
// gRPC ends the process when memory is out (gpr_malloc), so the bookkeeping
// of a call is allocated the same way; what a caller sizes (heads, scratch) is
// from common/base/mem.h and can fail.
//
// Threads  any, except where it says; a tag's event: its I/O thread.
// Memory   what `rpc_*_new` and `_init` make is given back by the function that
//          is named beside it; other pointers are borrowed for the call, and
//          not NULL but where it is said.
// Errors   a call that fails leaves *out as it was; `err` may be NULL.
#ifndef COMMON_NET_RPC_INNER_H
#define COMMON_NET_RPC_INNER_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>

#include "common/base/list.h"
#include "common/net/rpc.h"

// ---- rpc_io.c: threads and their queues

struct rpc_tag {
    // Called on the I/O thread when the operation is done; not `ok`: it failed
    // or was given up.
    void (*event)(struct rpc_tag *tag, bool ok);

    // Core's own locks are invisible to the thread sanitizer; this counter
    // tells it that what was written before the post is seen by the event.
    atomic_uint posted;
};

struct rpc_poller; // local/rpc_poll.c

struct rpc_thread {
    struct rpc_io *io;
    grpc_completion_queue *cq; // its queue, which no other thread reads
    pthread_t id;
    int cpu; // core the thread is pinned to; -1: none
    _Atomic(struct rpc_poller *) poller; // its watching thread; NULL: none yet
    void (*poller_free)(struct rpc_poller *p); // frees `poller`, if it is set
};

struct rpc_io {
    atomic_uint turn;      // index of the next thread to be picked
    bool frugal;           // option `frugal`
    atomic_size_t users;   // number of servers and channels
    grpc_channel *nowhere; // channel on which calls end at once
    void (*pause)(void *arg);
    void *pause_arg;
    unsigned threads;
    struct rpc_thread thread[];
};

// Prepares a tag; called each time before the tag is handed to core.
static inline void rpc_tag_post(struct rpc_tag *tag)
{
    atomic_fetch_add_explicit(&tag->posted, 1, memory_order_release);
}

// Starts `count` operations of a call and does not wait; tag->event runs once
// they are done, and the tag stays where it is until then. Posts the tag.
// Asserts that core accepts the batch.
void rpc_start_batch(grpc_call *call, const grpc_op *ops, size_t count,
                     struct rpc_tag *tag);

// Pins a thread to a core. SL_EINVAL if the core does not exist, or this
// process may not use it.
enum sl_err rpc_pin(pthread_t id, int cpu, struct sl_error *err);

// Returns the thread of index `wish` - 1 (modulo their number); 0: the next one
// in turn.
struct rpc_thread *rpc_io_pick(struct rpc_io *io, unsigned wish);

// Returns the time `from_now_ms` from now, on the monotonic clock: the infinite
// past for 0 and less, the infinite future for more than a century
// (RPC_NO_DEADLINE).
gpr_timespec rpc_deadline(int64_t from_now_ms);

// Returns the ms until `deadline`, at least 0; RPC_NO_DEADLINE if it is never.
int64_t rpc_left_ms(gpr_timespec deadline);

// ---- rpc_msg.c: bytes in and out

#define RPC_BODY_FEW 16

struct rpc_body {
    grpc_byte_buffer *buffer; // NULL: empty
    struct sl_slices slices;
    struct sl_slice *more; // used beyond RPC_BODY_FEW slices; kept
    size_t more_cap;
    struct sl_slice few[RPC_BODY_FEW];
};

// Makes the empty `body` (it asserts that) the one of `buffer`, which is not
// NULL and is taken. `body` must not move while it has one.
void rpc_body_set(struct rpc_body *body, grpc_byte_buffer *buffer);
// Frees the buffer and leaves an empty body, which keeps `more`.
void rpc_body_clear(struct rpc_body *body);
// Frees the buffer and `more`, not `body` itself, which is then empty.
void rpc_body_release(struct rpc_body *body);

// Moves the buffer (none: an empty body) to a new body of the caller's, for
// rpc_body_free; `from` is empty then. Never NULL.
struct rpc_body *rpc_body_move(struct rpc_body *from);

// Returns what core sends for a message (NULL: an empty one), for the caller to
// destroy, and takes the message, which leaves *msg empty; never NULL. Without
// bytes in parts the release function runs before it returns.
grpc_byte_buffer *rpc_msg_seal(struct rpc_msg *msg);

// Waits until no payload is lent to core any more: a socket that died is torn
// down by threads of its own, which even grpc_shutdown_blocking does not join
// while a channel is still on its way out. Called behind that by the end of the
// last rpc_io, when nothing is sent any more; not on an I/O thread. After 10 s
// it logs a warning and returns: core may read those payloads later.
void rpc_msg_await_releases(void);

// ---- rpc_status.c: codes and texts on the wire

struct rpc_status_space { // must stay until the batch was started
    grpc_metadata code;
    grpc_slice details;
};

// Sets *op to send the status of a call: `code`, with a copy of the text of
// `err`, or the sentence of the code if `err` is NULL or empty; SL_OK has no
// text. *op points into *space, which rpc_status_space_release frees.
void rpc_status_op(grpc_op *op, struct rpc_status_space *space,
                   enum sl_err code, const struct sl_error *err);

// Frees the slices in `space`, once the batch was started.
void rpc_status_space_release(struct rpc_status_space *space);

// Status of a call as the client's batch receives it.
struct rpc_outcome {
    grpc_metadata_array trailing;
    grpc_status_code status;
    grpc_slice details;
};

struct rpc_guard;

// Makes `o` ready to receive a call's outcome. Order: rpc_outcome_init, _op,
// the batch, _read, _release. Without _op there is nothing to read, but
// _release is allowed. A released one needs another init.
void rpc_outcome_init(struct rpc_outcome *o);

// Makes `op` receive the call's status in `o`, which must stay until the batch
// is over.
void rpc_outcome_op(grpc_op *op, struct rpc_outcome *o);

// Returns SL_OK, or the server's code with its text in *err, or the transport's
// error with `address` before its text (SL_ERANGE for a message over core's
// limit); `guard` (NULL: none) is the channel's. The text is one line that may
// be shown (utf8_line). After the batch is over, as often as one likes.
enum sl_err rpc_outcome_read(const struct rpc_outcome *o, const char *address,
                             struct rpc_guard *guard, struct sl_error *err);

// Frees what core has put into `o`.
void rpc_outcome_release(struct rpc_outcome *o);

// ---- rpc_io.c: functions that run on an I/O thread

struct rpc_errand { // all zeroes except fn and arg
    struct rpc_tag tag;
    grpc_call *call;
    struct rpc_outcome outcome;
    void (*fn)(void *arg); // once called, the errand is the caller's again
    void *arg;
};

// Calls e->fn(e->arg), once, soon, on `thread`; never within this call, which
// does not wait. Errands that were given before rpc_io_free have run when it
// returns. The errand stays where it is until fn is called, and is in use for
// one call at a time.
void rpc_thread_call(struct rpc_thread *thread, struct rpc_errand *e);

// ---- rpc_args.c: channel arguments and credentials

#define RPC_ARGS_MAX 32

struct rpc_args {
    grpc_arg arg[RPC_ARGS_MAX];
    grpc_channel_args list;     // what core takes; points to `arg`
    grpc_resource_quota *quota; // memory of a server; NULL: client
};

struct rpc_tuning {
    unsigned keepalive_ms, keepalive_timeout_ms; // 0: defaults
    unsigned connect_ms; // client: time of a connection attempt; 0: default
    size_t max_receive_bytes;
    bool quiet; // no keepalive without calls
    // Server only:
    size_t inbound_bytes; // limit of received bytes in core's memory
    unsigned patience_ms; // time in which a new connection has to shake hands
};

#define RPC_READ_LEAST_BYTES ((size_t)64 << 10) // least room of a socket read

// Fills *args with the arguments of a server, for rpc_args_release.
void rpc_args_server(struct rpc_args *args, const struct rpc_tuning *tuning);
// Drops the quota of rpc_args_server, once, after the server was made of *args.
void rpc_args_release(struct rpc_args *args);

// Fills *args with the arguments of a channel; `server_name` (borrowed while
// *args is used; NULL: the address's host) is the name to expect in the
// server's certificate. Nothing is to be released.
void rpc_args_client(struct rpc_args *args, const struct rpc_tuning *tuning,
                     const char *server_name);

// Where a listener's certificates come from. Core asks before each handshake,
// so it is closed after the server is gone, or once its bind has failed.
struct rpc_source {
    struct rpc_source *next;
    struct tls_files *files;
    atomic_uint serial; // serial of the texts that core uses
};

// Makes the credentials of a listener at `address`; both outputs are the
// caller's, the source for rpc_sources_free. *source, which is NULL before,
// stays NULL where no certificates are used (unix:, or `tls` NULL). SL_EDENIED:
// no `tls` for an address that is not local; those of tls_load.
enum sl_err rpc_server_creds(grpc_server_credentials **out,
                             struct rpc_source **source, const char *address,
                             const struct rpc_tls *tls, struct sl_error *err);

// Closes the files of all sources in `list` and frees them, after their
// listeners are gone. NULL is allowed.
void rpc_sources_free(struct rpc_source *list);

// Opens the certificate files of a channel to `address`, for tls_files_close.
// Sets *files only where certificates are used (not for unix:, nor without
// `tls`), so it is NULL before. SL_EDENIED for a plain connection to an address
// that is not local; those of tls_load.
enum sl_err rpc_client_files(struct tls_files **files, const char *address,
                             const struct rpc_tls *tls, struct sl_error *err);

// Makes credentials for a connection that rpc_client_files allowed: from the
// texts of `files` that are in use now, of which *serial is then the serial; or
// plain ones (`files` NULL; *serial stays). `guard` (NULL: none) judges the
// server, too. *out is the caller's. SL_ENOMEM: *out and *serial stay.
enum sl_err rpc_client_creds(grpc_channel_credentials **out,
                             const char *address, struct tls_files *files,
                             struct rpc_guard *guard, unsigned *serial,
                             struct sl_error *err);

// ---- rpc_guard.c: the check of a channel's servers by rpc_allow_fn

// Threads: any, also several at once. Core's credentials hold references of
// their own, so a guard may outlive its channel.
typedef enum sl_err (*rpc_allow_fn)(const struct rpc_peer *server,
                                    struct sl_error *err);

// Makes a guard that lets `allow` judge each server, with one reference, the
// caller's. Takes a reference of `files` of its own. Never NULL.
struct rpc_guard *rpc_guard_new(struct tls_files *files, rpc_allow_fn allow);
// Drops a reference; the last one frees the guard and drops its reference of
// `files`. NULL is allowed.
void rpc_guard_unref(struct rpc_guard *guard);

// Returns options for new credentials, which then have a reference of `guard`
// of their own; core drops it with the credentials.
grpc_ssl_verify_peer_options rpc_guard_options(struct rpc_guard *guard);

// Returns true if `text`, core's text of a failed call, says that `guard`
// refused the server; `out` is then TLS_NOT_WHOM and the text of its last
// refusal, for any call, cut. Else, and if `guard` is NULL, returns false;
// `out` is untouched.
bool rpc_guard_why(struct rpc_guard *guard, const char *text,
                   char out[SL_ERROR_TEXT]);

// ---- rpc_peer.c: the identity of a server's callers

// Makes the memory of a server for identities that it has read. Never NULL.
struct rpc_peers *rpc_peers_new(void);
// Frees the memory, after the server's last call has ended.
void rpc_peers_free(struct rpc_peers *p);

// Sets the server's listeners that ask for certificates, as a list; borrowed
// until rpc_peers_free. Replaces an earlier list. Called before the first call
// arrives.
void rpc_peers_use(struct rpc_peers *p, const struct rpc_source *sources);

// Returns a number that changes when certificate files of the listeners of
// rpc_peers_use were replaced; 0 if there are none.
unsigned rpc_peers_serial(const struct rpc_peers *p);

// Writes the peer of `call` to *out, all of which is set: how it came and its
// certificate's names. Without memory the peer has no name.
void rpc_peers_find(struct rpc_peers *p, grpc_call *call, struct rpc_peer *out);

// ---- rpc_address.c

#define RPC_TARGET_MAX 300

struct rpc_address {
    bool unix_path;
    char host[256]; // without brackets; or the path
    unsigned port;  // 0 for a path
};

// Reads an address of one of the three forms (rpc_address_check). SL_EINVAL,
// with a text that shows them, for others (NULL too) and for a path that is too
// long for a socket; *out may be changed then.
enum sl_err rpc_address_parse(struct rpc_address *out, const char *address,
                              struct sl_error *err);

// Writes the name that core has for `a`, as "ipv4:127.0.0.1:80". Numbers stay
// numbers, so that no resolver is asked.
void rpc_address_target(char out[RPC_TARGET_MAX], const struct rpc_address *a);

// Removes the socket file at a unix address if no process answers on it; call
// it before binding. SL_OK also where no file is, and for other addresses.
// SL_EEXIST if a process answers, or the file is no socket; else the system's
// error.
enum sl_err rpc_address_claim(const struct rpc_address *a,
                              struct sl_error *err);

// Finds out why core could not listen at `a`, by an attempt of its own: fills
// *err and returns its code, one of rpc_address_vacant's, never SL_OK (SL_EIO:
// the attempt succeeded). Waits for the resolver if `a` has a host name.
enum sl_err rpc_address_diagnose(const struct rpc_address *a,
                                 struct sl_error *err);

// Shuts down every connection of this process to the address; their channels
// dial again. Does nothing if the address has a host name.
void rpc_break(const char *address);

// ---- rpc_stream.c, for server and client

// Values that a new stream is made from.
struct rpc_stream_seed {
    grpc_call *call; // taken
    struct rpc_thread *thread;
    size_t max_message_bytes, queue_cap_bytes; // not 0
    // Client: called before on_end, with the outcome; and with SL_OK before
    // that if a message came.
    void (*ended)(void *owner, const char *address, enum sl_err code,
                  const struct sl_error *err);
    // Called after on_end; not NULL.
    void (*gone)(struct rpc_stream *stream, void *owner);
    void *owner;
    const char *address;     // client: for error texts, borrowed; NULL: server
    struct rpc_guard *guard; // client: borrowed; NULL: none
    struct rpc_peers *peers; // server: borrowed
};

// Makes a stream, for one rpc_stream_serve or rpc_stream_dial, without which it
// cannot be freed; `seed` is copied, what it points at outlives the stream's
// end. Its one reference is the transport's and is given back once on_end and
// seed->gone have returned: a caller that keeps the stream longer takes one of
// its own. Never NULL.
struct rpc_stream *rpc_stream_new(const struct rpc_stream_seed *seed);

// Returns the stream's list node, for the list of streams of its owner.
struct list_node *rpc_stream_node(struct rpc_stream *stream);
// Returns the stream of such a node.
struct rpc_stream *rpc_stream_of_node(struct list_node *node);

// Starts a server's stream: calls open(stream, arg), which is not NULL, and
// then reads; on the stream's I/O thread alone, so that no event comes before
// the return. `request`, which is taken and lives until open has returned, is
// that of an RPC_SERVER_STREAM (rpc_stream_request); NULL: there is none. It
// cannot fail: on_end tells how the stream ended.
void rpc_stream_serve(struct rpc_stream *stream, enum rpc_kind kind,
                      grpc_byte_buffer *request,
                      void (*open)(struct rpc_stream *, void *), void *arg);

// Starts the call of a client's stream, after rpc_stream_listen, and reads. If
// `request` is not NULL it is the only message that this side sends; it is
// taken. Reads wait_for_ready and flag of `options`. It cannot fail: on_end
// tells how the stream ended.
void rpc_stream_dial(struct rpc_stream *stream, struct rpc_msg *request,
                     const struct rpc_call_options *options);

// Sets the callbacks of a client's stream, which are copied, and their `user`,
// before rpc_stream_dial. `events` NULL: no callbacks.
void rpc_stream_listen(struct rpc_stream *stream,
                       const struct rpc_stream_events *events, void *user);

#endif
