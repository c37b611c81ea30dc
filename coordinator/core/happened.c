// SPDX-License-Identifier: Apache-2.0
// coordinator/core/happened.c -- events: sentences with their subjects.
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"

#include <stdarg.h>
#include <stdio.h>

static void happened_feed_event(struct coord *c, const struct event *said,
                                bool once, const char *fmt, va_list ap)
{
    char text[EVENT_TEXT * 2];

    if (c->options.feed == NULL)
        return;
    vsnprintf(text, sizeof(text), fmt, ap);
    if (once)
        feed_event_once(c->options.feed, said, text);
    else
        feed_event(c->options.feed, said, text);
}

static struct event happened_make_event(enum event_kind kind,
                                        const struct job *job,
                                        const struct member *m)
{
    return (struct event){
        .kind = kind,
        .job = job == NULL ? 0 : job->id,
        .uid = job == NULL ? 0 : job->uid,
        .member = m == NULL ? "" : m->name,
    };
}

void happened(struct coord *c, enum event_kind kind, const struct member *m,
              const char *fmt, ...)
{
    const struct event said = happened_make_event(kind, NULL, m);
    va_list ap;

    va_start(ap, fmt);
    happened_feed_event(c, &said, false, fmt, ap);
    va_end(ap);
}

void happened_once(struct coord *c, enum event_kind kind, const char *member,
                   const char *fmt, ...)
{
    struct event said = happened_make_event(kind, NULL, NULL);
    va_list ap;

    said.member = member;
    va_start(ap, fmt);
    happened_feed_event(c, &said, true, fmt, ap);
    va_end(ap);
}

void happened_job(struct coord *c, enum event_kind kind, const struct job *job,
                  const struct member *m, const char *fmt, ...)
{
    const struct event said = happened_make_event(kind, job, m);
    va_list ap;

    va_start(ap, fmt);
    happened_feed_event(c, &said, false, fmt, ap);
    va_end(ap);
}

void happened_work(struct coord *c, enum event_kind kind, const struct work *w,
                   const struct member *m, const char *fmt, ...)
{
    struct event said = happened_make_event(kind, w->job, m);
    va_list ap;

    said.closure = w->closure.id;
    said.term = w->closure.attempt.term;
    said.n = w->closure.attempt.n;
    va_start(ap, fmt);
    happened_feed_event(c, &said, false, fmt, ap);
    va_end(ap);
}

const char *happened_name(char out[64], const struct work *w)
{
    if (w->kind == WORK_PROBE)
        snprintf(out, 64, "the look at the data");
    else if (w->kind == WORK_EVALUATE)
        snprintf(out, 64, "range %llu of the evaluation", (ull)w->closure.id);
    else if (w->kind == WORK_RING && w->closure.id >= WORK_PLACES)
        snprintf(out, 64, "a place in group %llu",
                 (ull)(w->closure.id - WORK_PLACES));
    else if (w->kind == WORK_RING)
        snprintf(out, 64, "a rank of the ring");
    else
        snprintf(out, 64, "closure %llu", (ull)w->closure.id);
    return out;
}

void happened_span(struct coord *c, const struct work *w,
                   enum lease_span_end end)
{
    const struct lease_span span = {
        .closure = w->closure.id,
        .term = w->closure.attempt.term,
        .n = w->closure.attempt.n,
        .begun_us = w->leased_us,
        .identity = w->holder->identity,
        .kind = w->kind,
        .end = end,
    };

    feed_span(c->options.feed, w->job->uid, &span, w->holder->name);
}
