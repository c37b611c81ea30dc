// SPDX-License-Identifier: Apache-2.0
// common/web/web.h -- calls of web services, over libcurl.
//
// One call at a time over a struct web, whose connections are kept for the
// next. curl's multi interface, because one of its waits can be ended from
// another thread: a long poll does not hold up the daemon's end. Redirects are
// not followed: who signs a call, or asks the host itself, means that address.
// A URL with a user in it is refused: it looks as if it were of another host.
//
// Threads  web_call: one at a time; web_wake: any.
// Memory   an ask is borrowed for the call; web_answer_release frees an answer.
// Units    _ms; bytes.
// Errors   an answer whose status is 0 says why nobody answered.
#ifndef COMMON_WEB_WEB_H
#define COMMON_WEB_WEB_H

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
    uint32_t connect_ms, timeout_ms; // of the whole; 0: as long as it goes on
    uint32_t stall_ms;               // no bytes for that long; 0: any
    size_t most;                     // bytes of an answer's body
    // The body of a 2xx answer goes here instead, if it is no longer than this.
    void *into;
    size_t into_bytes;
    // Asked now and then: true ends the call. NULL: it never does.
    bool (*leave)(void *arg);
    void *arg;
};

struct web_answer {
    long status;     // 0: nobody answered
    struct buf body; // ends with a 0 that does not count
    struct buf head; // the lines of the header
    size_t into_bytes;
    bool final; // nobody answered, and trying again would not help
    char why[256];
};

bool web_known(void); // false: built without libcurl

struct web *web_new(void);    // NULL: out of memory
void web_free(struct web *w); // NULL is allowed
void web_wake(struct web *w); // `leave` is asked at once

// An answer in every case; web_answer_release.
void web_call(struct web *w, const struct web_ask *ask, struct web_answer *out);
void web_answer_release(struct web_answer *a);

// Value of a header of the answer, cut to `size`; false: it has none, or a
// longer one, and `out` is "".
bool web_header(const struct web_answer *a, const char *name, char *out,
                size_t size);

#endif
