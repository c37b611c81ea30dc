// SPDX-License-Identifier: Apache-2.0
// common/http/http_inner.h -- what the files of the server share.
//
// Threads  the loop's.
// Memory   a peer from the connection's beginning to its end, a request from
//          its first line to its end, a stream as long as its request.
// Errors   as in http.h.
#ifndef COMMON_HTTP_HTTP_INNER_H
#define COMMON_HTTP_HTTP_INNER_H

#include <microhttpd.h>

#include "common/base/list.h"
#include "common/http/http.h"

struct http_table {
    struct list_node node;
    const struct http_route *routes; // borrowed
    void *arg;
};

struct http {
    struct loop *loop;
    struct MHD_Daemon *daemon;
    int fd;                   // that listens; owned
    struct loop_watch *door;  // on it; NULL: shut for a second
    struct loop_watch *watch; // on the daemon's epoll descriptor
    struct loop_timer *due;   // when the daemon wants to run by itself
    struct loop_timer *tick;  // every second, while somebody is connected or
                              // the door is shut
    struct list tables;       // of struct http_table
    struct list peers;        // of struct http_peer; who was answered last is
                              // the last
    struct list streams;      // of struct http_stream
    unsigned peer_count, stream_count;
    unsigned connections, viewers, request_s; // limits
    unsigned seconds; // ticks since somebody is connected
    char **hosts;     // owned; ended by NULL
    char address[80];
    bool near;    // loopback
    bool running; // in MHD_run
    bool ending;  // in http_free
};

// One connection.
struct http_peer {
    struct list_node node;
    struct MHD_Connection *at;
    unsigned since; // tick of its beginning, or of its last answer
    bool streams;
    bool near; // it is of this host
};

struct http_request {
    struct http *http;
    struct MHD_Connection *at;
    const char *path, *method;
    const struct http_route *route;
    void *arg;
    struct buf body;
    struct http_stream *stream; // the answer's, if it is one
    size_t plain;               // bytes of the path before an escape
    bool odd;                   // its line could be read in two ways
    bool begun;                 // its headers were looked at
    bool refused;               // an answer is on its way
    bool large;                 // its body is
};

struct http_stream {
    struct list_node node;
    struct http *http;
    struct MHD_Connection *at;
    struct buf queue; // what waits
    size_t taken;     // bytes of it that the daemon has
    loop_fn gone;     // NULL: nobody asks
    void *arg;
    bool suspended;
    bool over;    // nothing comes any more
    bool dropped; // nor is the queue sent
};

// Listens, and sets what the server says of its address.
enum sl_err http_listen(int *out, const char *bind, struct http *h,
                        struct sl_error *err);
// Whether a Host is one of ours.
bool http_host_ok(const struct http *h, const char *host);

// Whether an address is of this host.
bool http_near(const struct sockaddr *at);

// Runs the daemon.
void http_run(void *http);

// The daemon's callbacks for a request's line and for all of it.
void *http_on_line(void *cls, const char *uri, struct MHD_Connection *at);
enum MHD_Result http_on_request(void *cls, struct MHD_Connection *at,
                                const char *url, const char *method,
                                const char *version, const char *data,
                                size_t *bytes, void **context);
void http_request_free(struct http_request *q);

// ---- connections

// Lets them in: from here on, as far as there is room. SL_ENOMEM.
enum sl_err http_open_door(struct http *h);
// The daemon's callback for their beginning and end.
void http_on_peer(void *cls, struct MHD_Connection *at, void **context,
                  enum MHD_ConnectionNotificationCode code);
// A second is over: cuts off who has not said a request for too long.
void http_peers_tick(struct http *h);
// A request is over; its connection may have another.
void http_peer_answered(struct http *h, struct MHD_Connection *at);
// Has the daemon run in the loop's next turn.
void http_run_soon(struct http *h);
// Cuts a connection off; the daemon then notices.
void http_cut_off(struct MHD_Connection *at);
// It has got its answer, which does not end: it may stay.
void http_peer_streams(struct MHD_Connection *at);

// ---- streams

// The answer of a stream, NULL without memory; its end, told by the daemon.
struct MHD_Response *http_stream_response(struct http_stream *s);
void http_stream_ended(struct http_stream *s);
void http_streams_beat(struct http *h);
// Has the daemon go on with it: before everything ends.
void http_stream_resume(struct http_stream *s);

#endif
