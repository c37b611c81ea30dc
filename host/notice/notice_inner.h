// SPDX-License-Identifier: Apache-2.0
// host/notice/notice_inner.h -- what the sources and notice.c share.
//
// Threads  watch_*: the thread of the watch.
// Memory   texts are copied; an ask is borrowed for the call.
#ifndef HOST_NOTICE_NOTICE_INNER_H
#define HOST_NOTICE_NOTICE_INNER_H

#include <pthread.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "host/notice/notice.h"
#include "host/web/web.h"

#define WATCH_MS 1000          // between two looks
#define WATCH_WHY 200          // bytes of a reason, with the 0
#define WATCH_ABSENT_MS 300000 // longest pause while no service answers
#define WATCH_BODY ((size_t)64 << 10)

#define WATCHES 16

struct notice_watch;

struct notice_source {
    const char *name;
    // Looks again and again until watch_wait returns false.
    void (*run)(struct notice_watch *w);
    // Tells the cloud that the machine may go; NULL: it need not be told.
    void (*may_go)(struct notice_watch *w);
};

extern const struct notice_source source_aws, source_gcp_preempted,
    source_gcp_maintenance, source_azure, source_file, source_exec;

struct notice_watch {
    struct notice *notice;
    const struct notice_source *source;
    char *what; // owned; text behind the colon: path, command or endpoint
    void *own;  // state of the source, on its thread
    pthread_t thread;
    bool started;
    struct web *web; // connections of its thread; NULL: none

    // Under the notice's lock.
    bool looked, goes, asked, answered;
    uint64_t when_us; // time at which the machine goes, wall clock; 0: unknown
    char why[WATCH_WHY]; // text of watch_goes
};

// All watches of a process.
struct notice {
    struct notice_setup setup;
    struct notice_watch watch[WATCHES];
    size_t count;

    pthread_mutex_t lock; // guards `over` to `posted`, and fields of each watch
    pthread_cond_t changed;
    bool over, may_go;
    struct loop_task task;
    bool posted;

    // The loop's thread alone uses these.
    bool goes, looked; // what `changed` and `looked` of the setup were told
    loop_fn told;      // callback of notice_may_go; NULL: none, or done
    void *told_arg;
};

// Notes that the source has been asked once, and then waits as watch_sleep
// does, with the same result.
bool watch_wait(struct notice_watch *w, uint64_t ms);

// Waits `ms` and returns true; returns false, at once, if the watch must end
// (notice_free). If the machine may go meanwhile (notice_may_go), calls
// source->may_go, once, and goes on waiting.
bool watch_sleep(struct notice_watch *w, uint64_t ms);

// Returns true if a call in progress should be cut off: the watch must end, or
// its may_go is due.
bool watch_hurry(struct notice_watch *w);

// Posts a task that tells the setup's functions, on the loop, what has changed;
// does nothing while one waits, or once notice_free has begun. n->lock is held.
void watches_post_locked(struct notice *n);
// Frees *n alone, after its threads have ended, what its watches own was freed,
// and no posted task waits: in notice_free, or in the last task.
void watches_release(struct notice *n);

// Notes that the machine goes, as the source saw it now, and calls
// watches_post_locked if this source did not say so before. The text is the
// middle of a sentence: "AWS: terminate at ...". `when_us` as in struct
// notice_watch.
void watch_goes(struct notice_watch *w, uint64_t when_us, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Notes that the machine does not go, or no longer, as the source saw it now,
// and calls watches_post_locked if this source said before that it goes.
void watch_stays(struct notice_watch *w);

// Returns the time at the beginning of `text`, in the form `form` of strptime
// (UTC), in microseconds since 1970; 0: there is none.
uint64_t watch_time(const char *text, const char *form);
#define WATCH_RFC3339 "%Y-%m-%dT%H:%M:%SZ"

// Calls the host's own address over w->web, and waits: no proxy, plain HTTP, 1
// s at most to connect, WATCH_BODY at most for a body. Ends early when the
// watch must end, or its may_go is due, with status 0. Uses method, url,
// header, body (a C string or NULL) and timeout_ms of `ask`. Fills *out in
// every case; release it with web_answer_release.
void watch_ask(struct notice_watch *w, const struct web_ask *ask,
               struct web_answer *out);

// Returns the pause before the next look, in ms: WATCH_MS behind an answer of
// any status; while none comes (status 0), which is logged once, unless the
// call was left, WATCH_MS and then twice the last pause, up to WATCH_ABSENT_MS.
// *absent is the caller's, 0 at first, and has the last such pause.
uint64_t watch_pause(const struct notice_watch *w, uint64_t *absent,
                     const struct web_answer *a);

#endif
