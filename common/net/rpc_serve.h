// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_serve.h -- what the files of a server share. No other file
// includes it.
//
// rpc_server.c makes a server and ends it, rpc_serve.c takes its calls from
// their arrival to their answer, rpc_sentry.c and rpc_socks.c look after it
// from time to time.
//
// Threads  any, except where it says. A field under a lock names the lock; a
//          lane's pool is its I/O thread's.
// Memory   call objects go back to their pools.
#ifndef COMMON_NET_RPC_SERVE_H
#define COMMON_NET_RPC_SERVE_H

#include "common/net/local/rpc_sock.h"
#include "common/net/rpc_figures.h"
#include "common/net/rpc_limit.h"

#define RPC_SCRATCH_SPACE 256

struct rpc_sentry; // rpc_sentry.c
struct rpc_socks;  // rpc_socks.c

struct served {
    struct rpc_method method; // path NULL: calls of unknown methods
    void *arg;                // argument of the method's table
    void *registered;         // core's handle; NULL: the unknown methods
    struct rpc_figures figures;
};

// State of one server on one I/O thread.
struct serve_lane {
    struct rpc_server *server;
    struct rpc_thread *thread;
    struct rpc_call *pool;
};

struct scratch {
    struct scratch *next;
    _Alignas(16) uint8_t bytes[];
};

struct rpc_call {
    struct rpc_tag tag;
    struct serve_lane *lane;
    struct served *served;
    uint64_t begun_us;     // start of its handler; 0: it was not called
    struct rpc_call *next; // next free one in its pool
    grpc_call *call;
    struct rpc_host *host;   // socket the request came over, instead of `call`;
    uint64_t id;             // its number there, for the answer
    struct sl_slice request; // bytes that came over `host`
    uint8_t *request_space;  // owned, kept from call to call
    size_t request_cap;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_call_details details;   // path of an unknown method
    grpc_byte_buffer *payload;   // request as core gave it; NULL: `body` has it
    struct rpc_body body;        // request as the handler reads it
    grpc_byte_buffer *reply;     // answer that is being sent
    int cancelled;               // set by core: the caller left before the end
    struct rpc_limit_call limit; // under limit_lock, like the next two
    struct list_node timed;      // entry in server.timed, while its peer has to
                                 // send a request or read an answer
    uint64_t due_ms;             // end of that time, monotonic
    size_t said_bytes;           // request's size as the caller announced it
    struct scratch *scratch;     // rpc_call_scratch beyond `space`; owned
    size_t space_used;
    _Alignas(16) uint8_t space[RPC_SCRATCH_SPACE];
};

// A stream that is open.
struct serve_stream {
    struct list_node node;       // entry in server.streams
    struct rpc_limit_call limit; // both under limit_lock
    struct rpc_server *server;
    struct rpc_stream *stream;
    const char *path;
};

struct rpc_server {
    struct rpc_io *io;
    grpc_server *server;
    struct served *served; // count + 1: the last is the unknown one
    size_t count;
    struct rpc_traffic traffic;
    struct serve_lane *lanes; // one per I/O thread
    unsigned posted;          // unary calls kept posted per method and thread
    size_t queue_cap_bytes;
    struct rpc_source *sources; // certificates of each address
    struct rpc_peers *peers;
    enum sl_err (*allow)(const char *path, const struct rpc_peer *peer,
                         struct sl_error *err);
    bool (*shared)(const struct rpc_peer *peer);
    struct rpc_tag stopped;
    atomic_bool draining, stopping;
    atomic_size_t open;   // calls and streams that are open
    atomic_size_t live;   // all that rpc_server_free has to wait for
    pthread_mutex_t lock; // guards `hosts`, `pool` and rpc_server_free's wait
    pthread_cond_t gone;
    struct list hosts;
    struct rpc_call *pool; // free call objects for calls over `hosts`

    pthread_mutex_t limit_lock; // guards `limit` to `closed`; innermost lock
    struct rpc_limit limit;
    struct list timed, streams;
    bool closed; // no call waits any more
    bool tcp;    // listens on TCP; set before rpc_server_start

    unsigned serial; // serial of the certificates at the sentry's last look
    struct rpc_sentry *sentry;
    struct rpc_socks *socks;
};

// Takes one off s->live; the last wakes rpc_server_free, so `s` may be gone
// when this returns.
void serve_live_down(struct rpc_server *s);

// Makes a call object of `lane`, all zeroes but for that. Never NULL.
struct rpc_call *serve_call_new(struct serve_lane *lane);

// Frees all call objects in *pool, which is NULL then; when no other thread
// uses the pool any more.
void serve_pool_free(struct rpc_call **pool);

// Returns the most bytes that a request of this method, or a message of its
// stream, may have; RPC_CONTROL_BYTES if the method has 0, so never 0. Any
// thread.
size_t serve_request_limit(const struct served *served);

// Returns true if a call of `m` arrives without its request, which the server
// reads later: an in_turn method, or a stream of messages both ways.
bool serve_asks(const struct rpc_method *m);

// Posts `c`, which is new or from its lane's pool, to core: the next call of
// `served` that comes on the lane's I/O thread is received in it. Adds one to
// the server's `live`. Any thread for a new one, else that I/O thread.
void serve_post(struct rpc_call *c, struct served *served);

// Refuses the calls that wait for their turn, and all that would wait later,
// with SL_EUNAVAIL; any thread.
void serve_close(struct rpc_server *s);

// Ends calls of peers that took too long to send or to read, and calls that
// waited too long for their turn (SL_EBUSY); forgets idle peers
// (rpc_limit_forget); and, if certificate files were replaced, ends streams
// that `allow` now refuses. Logs each slow peer's call and each such stream.
// *serial is the certificates' serial (rpc_peers_serial) at the last look, and
// is set to that of now. One thread at a time.
void serve_look(struct rpc_server *s, unsigned *serial);

extern const struct rpc_host_events serve_host_events;

// ---- rpc_sentry.c: a thread that calls look(arg) from time to time

// Starts a thread that calls look(arg), first 250 ms from now and then 250 ms
// after it has returned, until rpc_sentry_stop; `look` is not NULL. Returns
// NULL if the system gives no thread.
struct rpc_sentry *rpc_sentry_start(void (*look)(void *arg), void *arg);

// Stops the thread and frees; waits until a `look` that runs has returned, so
// it must not be called from one. NULL is allowed.
void rpc_sentry_stop(struct rpc_sentry *sentry);

// ---- rpc_socks.c: the TCP connections of a server's ports

// Makes a watch over no port yet; copies the limits `most`. Never NULL.
struct rpc_socks *rpc_socks_new(const struct rpc_limits *most);
// Frees the watch; closes no connection. NULL is allowed.
void rpc_socks_free(struct rpc_socks *socks);

// Adds a port, before the first look; those beyond the sixteenth are not
// watched.
void rpc_socks_port(struct rpc_socks *socks, unsigned port);

// Counts this process's open connections to these ports, of each host and of
// all. Shuts down those above a limit that were not there at the last look, and
// logs it, at most LOG_SHARE times a minute, and of the host of the last such
// line again only after RPC_LIMIT_SAY_MS. Does nothing without a port. Threads:
// one at a time.
void rpc_socks_look(struct rpc_socks *socks);

#endif
