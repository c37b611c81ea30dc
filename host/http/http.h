// SPDX-License-Identifier: Apache-2.0
// host/http/http.h -- a small HTTP server for eyes: probes, metrics, pages.
//
// libmicrohttpd without a thread: its epoll descriptor is watched by the loop,
// so a handler may read all that is the loop's, and answers at once. Training
// never waits for a page: bodies are small, and events that a viewer does not
// take are dropped.
//
//     static const struct http_route routes[] = {
//         {.path = "/livez", .fn = livez, .any_host = true},
//         {.path = "/api/v1/jobs/*", .fn = jobs, .methods = HTTP_GET},
//         {.path = NULL},
//     };
//     http_new(&h, &(struct http_setup){.loop = l, .bind = "127.0.0.1:0"}, err)
//     http_route(h, routes, arg)
//
// The server itself refuses: methods other than GET, HEAD and POST (405), a
// path that no route has (404), a body above 64 KiB (413), headers above 16 KiB
// (431), a Host that is not ours (421), a request that a proxy could read in
// another way (400, and the connection ends: two lengths, a length and chunks,
// two Hosts or Authorizations, "%00" in a path, control characters), a client
// that is idle for 10 s, or has not sent its request in a minute.
//
// At its limit of connections the server closes the one that has waited
// longest: one of another host before one of this host, and none of this host
// for one of another. Streams stay. So a probe of this host is always answered.
//
// An attacker's page may have its name point at 127.0.0.1 and so make a browser
// ask us (DNS rebinding); the browser then sends that name as Host. So a Host
// is accepted if it is an IP address, localhost, or in `hosts`.
//
// Every answer has nosniff, no-referrer, no-store and a policy that allows
// nothing, unless the route or the answer has a header of that name.
//
// Threads  all calls and all callbacks: the loop's thread; none waits.
// Memory   http_free, before the loop is freed. A request and what it returns
//          live until the handler returns; a stream until its `gone`. Strings
//          of the setup are copied; texts that are sent are copied, too.
// Units    bytes, seconds.
// Errors   http_new says which address cannot be bound, and why; *out is then
//          untouched. `err` may be NULL, no other argument.
#ifndef HOST_HTTP_HTTP_H
#define HOST_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/run/loop.h"

#define HTTP_BODY_MAX (64 << 10)    // bytes of a request's body
#define HTTP_HEADERS_MAX (16 << 10) // line and headers of a request
#define HTTP_CONNECTIONS 200
#define HTTP_PER_ADDRESS 20
#define HTTP_VIEWERS 180           // streams; the rest is left for requests
#define HTTP_IDLE_S 10             // longest time without a byte
#define HTTP_REQUEST_S 60          // from a connection to its whole request
#define HTTP_BEAT_S 15             // a comment to every stream
#define HTTP_QUEUE_MAX (256 << 10) // bytes that wait for one viewer

struct http;
struct http_request;
struct http_stream;

enum { HTTP_GET = 1, HTTP_POST = 2 }; // HEAD is a GET without its body

struct http_header {
    const char *name, *value;
};

// Answer that a handler fills in. Unchanged it is status 200, plain text and an
// empty body.
struct http_answer {
    int status;
    const char *type;  // content type; borrowed, a constant
    struct buf body;   // taken over; empty if `fixed` is set
    const void *fixed; // instead of `body`: bytes that outlive the server
    size_t fixed_bytes;
    const struct http_header *headers; // ended by a name of NULL; or NULL
};

typedef void (*http_fn)(void *arg, const struct http_request *q,
                        struct http_answer *a);

struct http_route {
    const char *path; // "/static/*": all paths below /static/. A request whose
                      // path has an escape ("%2f") before the "*" does not fit
    http_fn fn;       // fills the answer, on the loop's thread
    unsigned methods; // 0: HTTP_GET
    bool near_only;   // 404 unless the server listens on loopback alone
    bool any_host;    // accepts any Host: probes reach us by any name
    const struct http_header *headers; // added to each answer
};

struct http_setup {
    struct loop *loop;
    const char *bind;         // "127.0.0.1:9100", "[::1]:0", "localhost:0";
                              // 0.0.0.0 and [::] listen on IPv4 and IPv6
    const char *const *hosts; // more names that are ours; ended by NULL
    // Limits; 0: HTTP_CONNECTIONS and so on. On loopback per_address has no
    // default, because all clients behind a proxy have one address.
    unsigned connections, per_address, viewers, idle_s, request_s;
};

// Makes a server that listens at setup->bind and runs on setup->loop; *out is
// for http_free. SL_EBUSY: the port is taken; SL_EINVAL: no address; SL_ENOMEM;
// or an error of the system.
enum sl_err http_new(struct http **out, const struct http_setup *setup,
                     struct sl_error *err);

// Adds routes; the table, which a path of NULL ends, and `arg` are borrowed
// until http_free. No path is empty. The first route that fits answers, in the
// order in which tables were added. A path that exists for other methods only
// is 405. SL_ENOMEM.
enum sl_err http_route(struct http *h, const struct http_route *routes,
                       void *arg);

// Ends every connection and stream; their `gone` runs from here, and may not
// call this header. Not from a handler. NULL is allowed.
void http_free(struct http *h);

// Returns the address that the server listens at, "127.0.0.1:9100", with the
// port that the system chose; it lives as long as h.
const char *http_address(const struct http *h);
// Returns true if the server listens on loopback alone.
bool http_is_near(const struct http *h);

// Returns the number of connections that are open.
unsigned http_connections(const struct http *h);
// Returns the number of streams that are open.
unsigned http_viewers(const struct http *h);

// ---- a request, for its handler

// Returns the part of the path that the route's "*" matches, with its escapes
// replaced; "" for a route without one.
const char *http_rest(const struct http_request *q);

// Returns true if the method is POST, false for GET and HEAD.
bool http_is_post(const struct http_request *q);

// Returns the value of the first query parameter `name`, with its escapes
// replaced; NULL if it is absent, "" if it has no value.
const char *http_query(const struct http_request *q, const char *name);

// Returns the value of the request's header `name`, in any case
// ("Authorization", "Host", "Accept"); NULL if it is absent.
const char *http_header(const struct http_request *q, const char *name);

// Returns the body, which has arrived as a whole; empty for a GET.
const struct buf *http_body(const struct http_request *q);

// Fills the answer with `status`, the type of plain text and a copy of `text`
// with a line break as its body, which is empty when out of memory. An earlier
// body is dropped; `headers` stay, and so does `fixed`, which must not be set.
void http_say(struct http_answer *a, int status, const char *text);

// ---- server-sent events

// Makes the answer a stream of events; from the handler, once, instead of a
// body: its `body` and `fixed` are not sent then. SL_EBUSY: too many viewers;
// SL_ENOMEM: the answer is 503 then, and *out untouched. gone(arg) runs once,
// later, when the viewer has left or was dropped, and the stream is freed then;
// it does not run after http_stream_close. `gone` may be NULL. A viewer that
// leaves is noticed at the next event or beat.
enum sl_err http_stream_open(struct http_stream **out,
                             const struct http_request *q,
                             struct http_answer *a, loop_fn gone, void *arg);

// Sends one event: `data` of any length, cut into lines as the format wants;
// `name` may be NULL, `id` "" or NULL for none, both without line breaks.
// SL_EBUSY: over HTTP_QUEUE_MAX bytes wait; the viewer is dropped, and `gone`
// runs later; so says every send until then. SL_ENOMEM: the same.
enum sl_err http_stream_send(struct http_stream *s, const char *id,
                             const char *name, const char *data);

// Ends the stream after its queued events; `s` must not be used any more. Not
// after `gone` has run. Does not wait.
void http_stream_close(struct http_stream *s);

#endif
