// SPDX-License-Identifier: Apache-2.0
// host/http/http_inner.h -- what the files of the server share.
//
// Threads  the loop's.
// Memory   a peer from the connection's beginning to its end, a request from
//          its first line to its end, a stream as long as its request. `cls`
//          of the daemon's callbacks is the struct http.
// Errors   as in http.h; *out is untouched after a failure.
#ifndef HOST_HTTP_HTTP_INNER_H
#define HOST_HTTP_HTTP_INNER_H

#include <microhttpd.h>

#include "common/base/list.h"
#include "host/http/http.h"

struct http_table {
    struct list_node node;
    const struct http_route *routes; // borrowed
    void *arg;
};

struct http {
    struct loop *loop;
    struct MHD_Daemon *daemon;
    int fd;                   // listening socket; owned
    struct loop_watch *door;  // watch on `fd`; NULL: not accepting for 1 s
    struct loop_watch *watch; // on the daemon's epoll descriptor
    struct loop_timer *due;   // time at which the daemon wants to run
    struct loop_timer *tick;  // every second, while a client is connected or
                              // `door` is NULL
    struct list tables;       // list of struct http_table
    struct list peers;        // list of struct http_peer; the peer that was
                              // answered last is at the end
    struct list streams;      // list of struct http_stream
    unsigned peer_count, stream_count; // lengths of `peers` and `streams`
    unsigned connections, viewers, request_s; // limits
    unsigned seconds;                         // ticks so far
    char **hosts;                             // owned; ended by NULL
    char address[80]; // "host:port", as http_address returns it
    bool near;        // listens on loopback alone
    bool running;     // true within MHD_run
    bool ending;      // true within http_free
};

// One connection.
struct http_peer {
    struct list_node node;
    struct MHD_Connection *at;
    unsigned since; // tick of its beginning, or of its last answer
    bool streams;   // its answer is a stream
    bool near;      // client is on this host
};

struct http_request {
    struct http *http;
    struct MHD_Connection *at;
    const char *path, *method;      // borrowed from the daemon
    const struct http_route *route; // NULL: no route fits
    void *arg;                      // argument of the route's table
    struct buf body;
    struct http_stream *stream; // answer that is a stream; else NULL
    size_t plain;               // bytes of the path before an escape
    bool odd;                   // request line is ambiguous
    bool begun;                 // headers were checked
    bool refused;               // a refusal is on its way
    bool large;                 // body exceeds HTTP_BODY_MAX
};

struct http_stream {
    struct list_node node;
    struct http *http;
    struct MHD_Connection *at;
    struct buf queue; // bytes that wait to be sent
    size_t taken;     // bytes of `queue` that the daemon has
    loop_fn gone;     // NULL: closed by the handler's side
    void *arg;
    bool suspended; // the daemon does not ask for bytes until it is resumed
    bool over;      // no further events come
    bool dropped;   // queued events are not sent either
};

// Listens at `bind`: sets *out to the socket, which is the caller's, and
// h->address and h->near (which a failure may set, too). SL_EINVAL: no such
// address; SL_EBUSY: the port is taken; or an error of the system.
enum sl_err http_listen(int *out, const char *bind, struct http *h,
                        struct sl_error *err);
// Returns true if `host`, the value of a Host header, is a name of this server:
// an IP address, localhost, or one of h->hosts, with or without a port. NULL
// (no such header) is none.
bool http_host_ok(const struct http *h, const char *host);

// Returns true if `at`, an address of IPv4 or IPv6, is a loopback address: a
// client with it is on this host. IPv4 in IPv6 counts.
bool http_near(const struct sockaddr *at);

// Runs libmicrohttpd's daemon on what has happened, and sets h->due to the time
// at which it wants to run next. Handlers may run within. `http` is the struct
// http.
void http_run(void *http);

// Begins a request when its line has come; a callback of the daemon. Returns
// the struct http_request, or NULL when out of memory.
void *http_on_line(void *cls, const char *uri, struct MHD_Connection *at);

// Goes on with a request: the daemon (MHD) calls it for the headers, for each
// piece of the body and at the end, when the route's handler answers. What the
// headers decide is refused at once, with an answer, and the handler not
// called; a body that is too large is refused at the end. *context is what
// http_on_line returned. Takes all *bytes bytes and sets *bytes to 0. Returns
// MHD_YES; MHD_NO, which cuts the connection off, without memory for the
// request (*context is NULL), its body or its answer, or if the daemon does not
// take the answer.
enum MHD_Result http_on_request(void *cls, struct MHD_Connection *at,
                                const char *url, const char *method,
                                const char *version, const char *data,
                                size_t *bytes, void **context);

// Frees a request that has ended, and ends its stream if it has one.
void http_request_free(struct http_request *q);

// ---- connections

// Begins to accept connections (h->door, which is NULL before); for each one
// above the limit another is closed, or itself where none may be. Stops h->tick
// if no client is connected. SL_ENOMEM, SL_EIO: h->door stays NULL.
enum sl_err http_open_door(struct http *h);
// Notes the beginning and the end of a connection; a callback of the daemon
// (MHD). At the beginning sets *context to a new struct http_peer, and frees
// that at the end. The first one starts h->tick, the last one stops it. Without
// memory *context is NULL, and the connection is cut off.
void http_on_peer(void *cls, struct MHD_Connection *at, void **context,
                  enum MHD_ConnectionNotificationCode code);
// Counts a second (h->seconds), and cuts off clients that have not sent a whole
// request within h->request_s; called once a second. Streams stay.
void http_peers_tick(struct http *h);
// Notes that a request on connection `at` has ended, from which its time counts
// anew; the connection is no stream any more, and may bring another.
void http_peer_answered(struct http *h, struct MHD_Connection *at);
// Makes the daemon (MHD) run in the next turn of the loop; does nothing while
// it runs, or within http_free.
void http_run_soon(struct http *h);
// Shuts the socket of a connection down; the daemon (MHD) notices at its next
// run, and frees it.
void http_cut_off(struct MHD_Connection *at);
// Notes that the answer on connection `at` is a stream, so it is not cut off
// for its time or to make room.
void http_peer_streams(struct MHD_Connection *at);

// ---- streams

// Returns the answer that sends the stream's events, for the daemon (MHD),
// which the caller destroys; NULL without memory.
struct MHD_Response *http_stream_response(struct http_stream *s);
// Frees a stream when its request has ended, and then calls its `gone`, unless
// http_stream_close was called.
void http_stream_ended(struct http_stream *s);
// Sends every stream a comment, so that connections stay and viewers that left
// are noticed; drops a viewer for which over HTTP_QUEUE_MAX bytes wait, or
// memory is out.
void http_streams_beat(struct http *h);
// Has the daemon (MHD) ask for the bytes of a suspended stream again; does
// nothing if it is not suspended.
void http_stream_resume(struct http_stream *s);

#endif
