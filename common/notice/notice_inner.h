// SPDX-License-Identifier: Apache-2.0
// common/notice/notice_inner.h -- between the sources and notice.c.
//
// Threads  watch_*: the thread of the watch.
#ifndef COMMON_NOTICE_NOTICE_INNER_H
#define COMMON_NOTICE_NOTICE_INNER_H

#include <pthread.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/notice/notice.h"
#include "common/web/web.h"

#define WATCH_MS 1000          // between two looks
#define WATCH_WHY 200          // bytes of a reason, with the 0
#define WATCH_ABSENT_MS 300000 // at most, where nobody answers
#define WATCH_BODY ((size_t)64 << 10)

#define WATCHES 16

struct watch;

struct source {
    const char *name;
    // Looks until watch_wait says no. `what` is behind the colon, or NULL.
    void (*run)(struct watch *w);
    // It is told when all is handed over; NULL: it need not be.
    void (*may_go)(struct watch *w);
};

extern const struct source source_aws, source_gcp_preempted,
    source_gcp_maintenance, source_azure, source_file, source_exec;

struct watch {
    struct notice *notice;
    const struct source *source;
    char *what; // owned; the path, the command, the endpoint
    void *own;  // of the source, for its thread
    pthread_t thread;
    bool started;
    struct web *web; // of its thread; NULL: it has none

    // Under the notice's lock.
    bool looked, goes, asked, answered;
    uint64_t when_us; // it goes then, by the wall clock; 0: nobody said
    char why[WATCH_WHY];
};

// Of all together.
struct notice {
    struct notice_setup setup;
    struct watch watch[WATCHES];
    size_t count;

    pthread_mutex_t lock; // all below, and what watches say
    pthread_cond_t changed;
    bool over, may_go;
    struct loop_task task;
    bool posted;

    // The loop's.
    bool goes, looked;
    loop_fn told;
    void *told_arg;
};

// Waits; false: the watch has to end. It is over early when all is handed over
// and the source wants to hear that: that is done then. watch_wait: it has
// looked.
bool watch_wait(struct watch *w, uint64_t ms);
bool watch_sleep(struct watch *w, uint64_t ms);
bool watch_hurry(struct watch *w); // watch_wait would not wait

// The notice's; `_locked`: its lock is held.
void watches_post_locked(struct notice *n);
void watches_release(struct notice *n); // no thread is left

// What it saw now. `why` as a sentence's middle: "AWS: terminate at ...".
// `when_us` as in struct watch.
void watch_goes(struct watch *w, uint64_t when_us, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void watch_stays(struct watch *w);

// The time that a text begins with, as `form` of strptime has it (UTC); 0:
// none.
uint64_t watch_time(const char *text, const char *form);
#define WATCH_RFC3339 "%Y-%m-%dT%H:%M:%SZ"

// A call of the host's own address: no proxy, plain HTTP; ends early when the
// watch has to. Of the ask: method, url, header, body and timeout_ms.
void watch_ask(struct watch *w, const struct web_ask *ask,
               struct web_answer *out);

// How long to wait before the next look: longer and longer while nobody
// answers, which is said once. *absent is the caller's, 0 at first.
uint64_t watch_pause(const struct watch *w, uint64_t *absent,
                     const struct web_answer *a);

#endif
