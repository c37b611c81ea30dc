// SPDX-License-Identifier: Apache-2.0
// coordinator/feed/traces.h -- the data of each job's charts: which worker had
// which closure when, and the course of its numbers.
//
// Spans are of attempts that have ended; a curve has a point a second, and one
// a minute, which goes further back. A job is known by its uid.
//
// Threads  one at a time.
// Memory   by the numbers below for each job, TRACES_BYTES in all: then the job
//          that nothing was added to for longest loses what it has. What is
//          returned holds until the next call that adds.
// Units    microseconds of the wall clock; steps and samples are counted.
// Errors   without memory something is missing, and no caller is told.
#ifndef COORDINATOR_FEED_TRACES_H
#define COORDINATOR_FEED_TRACES_H

#include "common/base/list.h"
#include "common/base/map.h"
#include "coordinator/feed/track.h"
#include "coordinator/rules/dispatch.h"

#define TRACES_SPANS 10000  // spans of a job that are kept,
#define TRACES_SECONDS 3600 // points of the seconds,
#define TRACES_MINUTES 1440 // and points of the minutes
#define TRACES_BYTES ((size_t)64 << 20)

// X(END, its word): how an attempt ended. RUNS: it has not. COUNTED: completed,
// and counted on every shard. STALE: completed, but a shard came back with
// less. FAILED: with an error. LOST: its worker fell silent. STALLED: it stood
// still. HANDED_BACK: by its worker. REVOKED: taken back. SECOND: another
// worker was first. CANCELLED: its job ended.
#define SPAN_ENDS(X)                                                           \
    X(RUNS, "")                                                                \
    X(COUNTED, "counted")                                                      \
    X(STALE, "stale")                                                          \
    X(FAILED, "failed")                                                        \
    X(LOST, "lost")                                                            \
    X(STALLED, "stalled")                                                      \
    X(HANDED_BACK, "handed-back")                                              \
    X(REVOKED, "revoked")                                                      \
    X(SECOND, "second")                                                        \
    X(CANCELLED, "cancelled")

enum lease_span_end {
#define SPAN_END(end, word) SPAN_##end,
    SPAN_ENDS(SPAN_END)
#undef SPAN_END
        SPAN_ENDS_COUNT
};

// A worker's name, kept once for all its spans.
struct traces_name {
    uint32_t refs; // spans that name it
    char text[];
};

struct lease_span {
    uint64_t closure, term, n; // the closure, and its attempt (term, n)
    uint64_t begun_us, ended_us;
    struct traces_name *worker; // shared
    uint64_t identity;          // hash of the worker's name
    enum work_kind kind;
    enum lease_span_end end;
};

struct curve_point {
    uint64_t wall_us, steps;
    double loss, accuracy; // means over `samples`; NAN: not known
    uint64_t samples;
    double rate; // samples per second
    uint32_t epoch, staleness_p50, workers;
};

struct traces {
    struct map of_job; // uid -> struct traces_of, owned
    struct list used;  // jobs, the one that was added to last at the end
    struct map names;  // identity -> struct traces_name, owned
    size_t bytes;
};

// Sets *ts to traces without jobs; allocates nothing.
void traces_init(struct traces *ts);

// Frees all spans and curves and leaves *ts as traces_init does, to be filled
// again. What was returned is invalid then.
void traces_release(struct traces *ts);

// Frees what is kept of a job, spans and curves; does nothing for an unknown
// uid.
void traces_forget(struct traces *ts, uint64_t uid);

// Adds a copy of *span to the spans of job `uid`, which becomes the one added
// to last. `worker`, copied, is the name of its worker; span->worker is
// ignored. Spans with the same `identity` show the name that the first of them
// came with.
void traces_span(struct traces *ts, uint64_t uid, const struct lease_span *span,
                 const char *worker);

// Adds a copy of *point to the points of the seconds of job `uid`, and to those
// of the minutes if it is the first of its minute or `final`, the last of the
// job. Returns true if it is one of the minutes, which a file is to keep, also
// where memory was short for the point; false if it is not, or the job could
// not be added.
bool traces_point(struct traces *ts, uint64_t uid,
                  const struct curve_point *point, bool final);

// Adds a copy of *point, which the file has kept, to the points of the minutes
// alone.
void traces_minute(struct traces *ts, uint64_t uid,
                   const struct curve_point *point);

// Returns the spans of a job, a track of struct lease_span in the order in
// which they ended, perhaps without any; NULL: nothing is kept of this job.
const struct track *traces_spans(const struct traces *ts, uint64_t uid);

// Returns the curve of a job, a track of struct curve_point: by minutes if
// `minutes`, else by seconds, perhaps without points; NULL: nothing is kept of
// this job.
const struct track *traces_curve(const struct traces *ts, uint64_t uid,
                                 bool minutes);

// Returns the word of an end, which is below SPAN_ENDS_COUNT, such as
// "counted";
// "" for SPAN_RUNS.
const char *lease_span_word(enum lease_span_end end);

// Returns the kind of a span's work: "train", "evaluate", "probe" or "ring";
// "train" for any other.
const char *lease_span_kind(enum work_kind kind);

#endif
