// SPDX-License-Identifier: Apache-2.0
// host/notice/notice_watch.c -- what the sources have seen, from their threads
// to the loop.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/deadline.h"
#include "common/base/mem.h"
#include "host/notice/notice_inner.h"
#include "common/run/log.h"

// ---- what they say

void watches_release(struct notice *n)
{
    pthread_cond_destroy(&n->changed);
    pthread_mutex_destroy(&n->lock);
    sl_free(n);
}

// On the loop.
static void notice_check_watches(void *arg)
{
    struct notice *n = arg;
    bool goes = false, answered = true, looked = true, may_go, over;
    char why[WATCH_WHY] = "";
    loop_fn told = n->told;

    pthread_mutex_lock(&n->lock);
    n->posted = false;
    may_go = n->may_go;
    over = n->over;
    for (size_t i = 0; i < n->count; i++) {
        const struct notice_watch *w = &n->watch[i];

        if (w->goes && !goes)
            memcpy(why, w->why, sizeof(why));
        goes = goes || w->goes;
        looked = looked && w->looked;
        answered = answered && (w->source->may_go == NULL || w->answered);
    }
    pthread_mutex_unlock(&n->lock);
    if (over) { // notice_free left it to us
        watches_release(n);
        return;
    }
    if (goes != n->goes) {
        n->goes = goes;
        n->setup.changed(n->setup.arg, goes, why);
    }
    if (looked && !n->looked) {
        n->looked = true;
        n->setup.looked(n->setup.arg);
    }
    if (told != NULL && may_go && answered) {
        n->told = NULL;
        told(n->told_arg);
    }
}

void watches_post_locked(struct notice *n)
{
    if (n->posted || n->over)
        return;
    n->posted = true;
    loop_post_task(n->setup.loop, &n->task, notice_check_watches, n);
}

uint64_t watch_time(const char *text, const char *form)
{
    struct tm tm = {.tm_isdst = 0};
    time_t s;

    if (strptime(text, form, &tm) == NULL)
        return 0;
    s = timegm(&tm);
    return s > 0 ? (uint64_t)s * 1000000 : 0;
}

void watch_goes(struct notice_watch *w, uint64_t when_us, const char *fmt, ...)
{
    struct notice *n = w->notice;
    va_list args;

    pthread_mutex_lock(&n->lock);
    va_start(args, fmt);
    vsnprintf(w->why, sizeof(w->why), fmt, args);
    va_end(args);
    if (!w->goes)
        watches_post_locked(n);
    w->goes = true;
    w->when_us = when_us;
    pthread_mutex_unlock(&n->lock);
}

void watch_stays(struct notice_watch *w)
{
    struct notice *n = w->notice;

    pthread_mutex_lock(&n->lock);
    if (w->goes)
        watches_post_locked(n);
    w->goes = false;
    pthread_mutex_unlock(&n->lock);
}

uint64_t notice_when_us(struct notice *n)
{
    uint64_t first = 0;

    pthread_mutex_lock(&n->lock);
    for (size_t i = 0; i < n->count; i++) {
        const struct notice_watch *w = &n->watch[i];

        if (w->goes && w->when_us != 0 && (first == 0 || w->when_us < first))
            first = w->when_us;
    }
    pthread_mutex_unlock(&n->lock);
    return first;
}

// ---- waiting

static bool wants_locked(const struct notice_watch *w)
{
    return w->notice->may_go && !w->asked && w->source->may_go != NULL;
}

bool watch_hurry(struct notice_watch *w)
{
    bool hurry;

    pthread_mutex_lock(&w->notice->lock);
    hurry = w->notice->over || wants_locked(w);
    pthread_mutex_unlock(&w->notice->lock);
    return hurry;
}

static void answer_locked(struct notice_watch *w)
{
    struct notice *n = w->notice;

    w->asked = true;
    pthread_mutex_unlock(&n->lock);
    w->source->may_go(w);
    pthread_mutex_lock(&n->lock);
    w->answered = true;
    watches_post_locked(n);
}

bool watch_wait(struct notice_watch *w, uint64_t ms)
{
    struct notice *n = w->notice;

    pthread_mutex_lock(&n->lock);
    if (!w->looked)
        watches_post_locked(n);
    w->looked = true;
    pthread_mutex_unlock(&n->lock);
    return watch_sleep(w, ms);
}

bool watch_sleep(struct notice_watch *w, uint64_t ms)
{
    struct notice *n = w->notice;
    struct deadline until = deadline_in_ms(ms);
    bool over;

    pthread_mutex_lock(&n->lock);
    do {
        if (!n->over && wants_locked(w))
            answer_locked(w);
    } while (!n->over && deadline_wait(&until, &n->changed, &n->lock));
    over = n->over;
    pthread_mutex_unlock(&n->lock);
    return !over;
}

uint64_t watch_pause(const struct notice_watch *w, uint64_t *absent,
                     const struct web_answer *a)
{
    if (a->status != 0) {
        *absent = 0;
        return WATCH_MS;
    }
    if (*absent == 0 && strcmp(a->why, "left") != 0)
        LOG(INFO, "notice source does not answer; asking again",
            "source=%s why=%s", w->source->name, a->why);
    *absent = *absent == 0 ? WATCH_MS : 2 * *absent;
    if (*absent > WATCH_ABSENT_MS)
        *absent = WATCH_ABSENT_MS;
    return *absent;
}
