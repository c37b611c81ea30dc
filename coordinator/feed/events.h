// SPDX-License-Identifier: Apache-2.0
// coordinator/feed/events.h -- events, in the order in which they happened: a
// list that grows at its end and loses its beginning.
//
// A job is known by its uid: a number is given again where a journal was
// restored. Ids rise, over restarts too.
//
// Threads  one at a time.
// Memory   at most EVENTS_ALL events, and EVENTS_OF_JOB of one job (or of
//          none); an event holds until the next events_add or events_release.
//          What is passed is copied.
// Units    microseconds of the wall clock.
// Errors   NULL: no memory, and the event is not there.
#ifndef COORDINATOR_FEED_EVENTS_H
#define COORDINATOR_FEED_EVENTS_H

#include <stdint.h>

#include "common/base/list.h"
#include "common/base/map.h"

#define EVENTS_ALL 20000   // events that are kept,
#define EVENTS_OF_JOB 2000 // and those of one job
// as a uid: events of no job, where 0 stands for all
#define EVENTS_OF_NONE UINT64_MAX
#define EVENT_TEXT 400 // bytes of a sentence, with the 0

enum event_level { EVENT_INFO, EVENT_WARN, EVENT_ERROR };

// X(KIND, its word, its level). The words are those of docs/events.md: none is
// ever removed.
#define EVENT_KINDS(X)                                                         \
    X(COORDINATOR_BEGAN, "coordinator-began", INFO)                            \
    X(COORDINATOR_WAITS, "coordinator-waits", ERROR)                           \
    X(MEMBER_CAME, "member-came", INFO)                                        \
    X(MEMBER_SILENT, "member-silent", WARN)                                    \
    X(MEMBER_BACK, "member-back", INFO)                                        \
    X(MEMBER_DRAINS, "member-drains", WARN)                                    \
    X(MEMBER_STAYS, "member-stays", INFO)                                      \
    X(MEMBER_LEFT, "member-left", INFO)                                        \
    X(MEMBER_LOST, "member-lost", WARN)                                        \
    X(MEMBER_REPLACED, "member-replaced", WARN)                                \
    X(MEMBER_REFUSED, "member-refused", WARN)                                  \
    X(CALL_REFUSED, "call-refused", WARN)                                      \
    X(JOB_SUBMITTED, "job-submitted", INFO)                                    \
    X(JOB_PLACED, "job-placed", INFO)                                          \
    X(JOB_RUNS, "job-runs", INFO)                                              \
    X(JOB_COUNTED, "job-counted", INFO)                                        \
    X(JOB_FINISHED, "job-finished", INFO)                                      \
    X(JOB_FAILED, "job-failed", ERROR)                                         \
    X(JOB_STOPPED, "job-stopped", INFO)                                        \
    X(JOB_PAUSES, "job-pauses", INFO)                                          \
    X(JOB_PAUSED, "job-paused", INFO)                                          \
    X(JOB_RESUMED, "job-resumed", INFO)                                        \
    X(JOB_BEHIND, "job-behind", ERROR)                                         \
    X(JOB_DELETED, "job-deleted", INFO)                                        \
    X(SHARD_SERVED, "shard-served", INFO)                                      \
    X(SHARD_STUCK, "shard-stuck", ERROR)                                       \
    X(SHARDS_DOWN, "shards-down", WARN)                                        \
    X(SHARDS_BACK, "shards-back", INFO)                                        \
    X(SHARD_MOVED, "shard-moved", INFO)                                        \
    X(MOVE_FAILED, "move-failed", WARN)                                        \
    X(REPLICA_IN, "replica-in", INFO)                                          \
    X(REPLICA_OUT, "replica-out", WARN)                                        \
    X(REPLICA_FAILED, "replica-failed", WARN)                                  \
    X(REPLICA_PROMOTED, "replica-promoted", WARN)                              \
    X(MEMORY_SHORT, "memory-short", WARN)                                      \
    X(CLOSURE_LOST, "closure-lost", WARN)                                      \
    X(CLOSURE_FAILED, "closure-failed", WARN)                                  \
    X(CLOSURE_STALLED, "closure-stalled", WARN)                                \
    X(CLOSURE_HANDED_BACK, "closure-handed-back", INFO)                        \
    X(CLOSURE_REVOKED, "closure-revoked", INFO)                                \
    X(CLOSURE_STALE, "closure-stale", INFO)                                    \
    X(CLOSURE_RETRIED, "closure-retried", WARN)                                \
    X(WORKER_EXCLUDED, "worker-excluded", WARN)                                \
    X(WORKER_SUSPECT, "worker-suspect", ERROR)                                 \
    X(AUDIT_DIFFERS, "audit-differs", WARN)                                    \
    X(CUT_MADE, "cut-made", INFO)                                              \
    X(CUT_FAILED, "cut-failed", WARN)                                          \
    X(EVALUATION_BEGAN, "evaluation-began", INFO)                              \
    X(EVALUATION_DONE, "evaluation-done", INFO)                                \
    X(EVALUATION_FAILED, "evaluation-failed", WARN)                            \
    X(UPDATES_SKIPPED, "updates-skipped", WARN)                                \
    X(ROWS_EVICTED, "rows-evicted", WARN)                                      \
    X(ROWS_UNADMITTED, "rows-unadmitted", WARN)                                \
    X(RATE_REDUCED, "rate-reduced", INFO)                                      \
    X(RING_RUNS, "ring-runs", INFO)                                            \
    X(RING_BROKEN, "ring-broken", WARN)                                        \
    X(GROUP_RUNS, "group-runs", INFO)

enum event_kind {
#define EVENT_KIND(kind, word, level) EVENT_##kind,
    EVENT_KINDS(EVENT_KIND)
#undef EVENT_KIND
        EVENT_KINDS_COUNT
};

struct events_of; // the events of one job

struct event {
    struct list_node node, on_job; // links in events.all and in its job's list
    struct events_of *of;          // the events of the same job
    uint64_t id, wall_us; // id 0, said to events_add: a new one is drawn
    uint64_t job, uid;    // 0: the event is of no job
    enum event_kind kind;
    uint64_t closure, term, n; // term 0: the event is of no closure
    const char *member; // "": the event is of no member; stored behind the text
    char text[];
};

struct events {
    struct list all;   // oldest first
    size_t count;      // events in `all`
    uint64_t last_id;  // highest id ever added
    struct map of_job; // uid -> struct events_of, owned
};

// Sets *es to a list without events; allocates nothing.
void events_init(struct events *es);

// Frees all events and leaves *es as events_init does, to be filled again.
// Pointers to events are invalid then.
void events_release(struct events *es);

// Writes the text of an event, and said->member ("" for NULL), to `line` and
// `member` as events_add keeps them: cut to EVENT_TEXT, with a '?' for each
// character that may not be shown (utf8_line).
void events_clean(char line[EVENT_TEXT], char member[EVENT_TEXT],
                  const struct event *said, const char *text);

// Adds a copy of *said, with a new id if it has none (id 0); an id that it has
// must be above last_id, since events are looked up by ids that rise; last_id
// becomes the event's. `text`
// and said->member are kept as events_clean writes them. Returns the event;
// dropped[0 .. 1] become the ids of events that it pushed out and that are
// freed: the oldest of its job, the oldest of all; 0: none. NULL: no memory,
// and both are 0.
const struct event *events_add(struct events *es, const struct event *said,
                               const char *text, uint64_t dropped[2]);

// Returns the first event with an id above `after`, of the job `uid`, of no job
// (EVENTS_OF_NONE) or of all (uid 0); NULL: there is none. Its time grows with
// the number of events above `after`.
const struct event *events_after(const struct events *es, uint64_t uid,
                                 uint64_t after);

// Returns the `count`-th event from the end among those of `uid`, which is as
// in events_after, or the first one if there are fewer; NULL: there is none, or
// `count` is 0.
const struct event *events_last(const struct events *es, uint64_t uid,
                                size_t count);

// Returns the event that follows e among those of `uid`, which is as in
// events_after and has e; NULL: e is the last.
const struct event *events_next(const struct events *es, uint64_t uid,
                                const struct event *e);

// Returns the word of a kind, which is below EVENT_KINDS_COUNT, such as
// "job-placed".
const char *event_word(enum event_kind kind);

// Returns the level of a kind, which is below EVENT_KINDS_COUNT: "info", "warn"
// or "error".
const char *event_level(enum event_kind kind);

// Sets *out to the kind with this word and returns true; false, with *out as it
// was, if the word is unknown.
bool event_find(const char *word, enum event_kind *out);

#endif
