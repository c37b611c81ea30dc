// SPDX-License-Identifier: Apache-2.0
// host/web/web.h -- calls of web services, over libcurl.
//
// One call at a time over a struct web, which keeps its connections for the
// next. curl's multi interface, because one of its waits can be ended from
// another thread: a long poll does not hold up the daemon's end. Redirects are
// not followed: a signed call, or one to the host itself, is for that address.
// A URL with a user name in it is refused: it looks like that of another host.
//
// Threads  web_call: one at a time; web_wake: any.
// Memory   an ask is borrowed for the call; web_answer_release frees an answer.
// Units    _ms; bytes.
// Errors   an answer with status 0 says in `why` what failed.
#ifndef HOST_WEB_WEB_H
#define HOST_WEB_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

#define WEB_HEADERS 16

struct web;

struct web_ask {
    const char *method; // HEAD has no body in its answer
    const char *url;
    const char *header[WEB_HEADERS]; // "Name: value"; up to the first NULL
    const void *body;                // NULL: none
    size_t body_bytes;
    bool anywhere;     // https as well, over the environment's proxy; else
                       // plain HTTP of the host itself
    const char *trust; // file of authorities; NULL: the system's
    uint32_t connect_ms, timeout_ms; // limit of the whole call; 0: none
    uint32_t stall_ms;               // limit of a time without bytes; 0: none
    size_t most;                     // limit of an answer's body, in bytes
    // Place for the body of a 2xx answer of at most into_bytes, instead of
    // web_answer.body. NULL: none.
    void *into;
    size_t into_bytes;
    // Called now and then; if it returns true the call ends. NULL: never.
    bool (*leave)(void *arg);
    void *arg;
};

struct web_answer {
    long status;       // HTTP's status; 0: no answer came
    struct buf body;   // followed by a 0 that does not count
    struct buf head;   // lines of the header
    size_t into_bytes; // bytes written to web_ask.into
    bool final;        // status 0, and another try would fail too
    char why[256];     // reason of status 0
};

// Returns true if this program was built with libcurl, false if not: then every
// call fails.
bool web_known(void);

// Makes a web, for web_free; NULL when out of memory. Without libcurl each call
// on it fails and says so.
struct web *web_new(void);
// Closes the connections and frees, with no call in progress. NULL is allowed.
void web_free(struct web *w);
// Makes a call in progress, or else the next one, ask `leave` at once instead
// of within a second; any thread. `w` is not NULL.
void web_wake(struct web *w);

// Makes a call and waits for its end, with SIGPIPE blocked on this thread.
// Fills *out, which is overwritten, in every case: status 0 and `why` if no
// answer came, or one with a body or header longer than its limit, or the call
// was left (`why` is "left"); body, head and `into` may then have a part.
// Release it with web_answer_release.
void web_call(struct web *w, const struct web_ask *ask, struct web_answer *out);
// Frees what web_call put into *a, not *a itself; all zeroes is allowed.
void web_answer_release(struct web_answer *a);

// Copies the value of the answer's first header `name` (letters in any case) to
// out[size] and returns true. Returns false, with "" in `out`, if the header is
// absent, has `size` bytes or more, or has a 0 in it.
bool web_header(const struct web_answer *a, const char *name, char *out,
                size_t size);

#endif
