// SPDX-License-Identifier: Apache-2.0
// coordinator/core/happened.h -- events for people, said where they happen.
//
// Nothing depends on events: without a feed they are not even made.
//
// Threads  the loop.
// Memory   what is passed in is copied; a sentence is cut to EVENT_TEXT bytes.
//          A `m` may be NULL: no member. Nothing else is, but where it is said.
// Errors   none: without memory an event is missing.
#ifndef COORDINATOR_CORE_HAPPENED_H
#define COORDINATOR_CORE_HAPPENED_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"
#include "coordinator/feed/feed.h"

// Has the compiler check a function's format, argument number `at`.
#define HAPPENED_FORMAT(at) __attribute__((format(printf, at, at + 1)))

// Adds an event of this kind with a text made as printf makes it: of the
// cluster or, unless m is NULL, of that member.
void happened(struct coord *c, enum event_kind kind, const struct member *m,
              const char *fmt, ...) HAPPENED_FORMAT(4);

// Adds an event that a peer can cause again and again, unless one with the same
// kind, member and text is among the last 32 events and no older than a minute.
// `member` is the member's name; "": none.
void happened_once(struct coord *c, enum event_kind kind, const char *member,
                   const char *fmt, ...) HAPPENED_FORMAT(4);

// Adds an event of a job (NULL: of none), and of member m (NULL: of none).
void happened_job(struct coord *c, enum event_kind kind, const struct job *job,
                  const struct member *m, const char *fmt, ...)
    HAPPENED_FORMAT(5);

// Adds an event of w's closure, with its newest attempt, and of member m (NULL:
// of none).
void happened_work(struct coord *c, enum event_kind kind, const struct work *w,
                   const struct member *m, const char *fmt, ...)
    HAPPENED_FORMAT(5);

// Writes the name of a work into `out` and returns `out`: "closure 12", "range
// 3 of the evaluation", "the look at the data", "a rank of the ring", "a place
// in group 2".
const char *happened_name(char out[64], const struct work *w);

// Adds the span of w's attempt, from its lease until now, to the history of its
// worker; `end` is how it ended. w->holder must not be NULL yet.
void happened_span(struct coord *c, const struct work *w,
                   enum lease_span_end end);

#endif
