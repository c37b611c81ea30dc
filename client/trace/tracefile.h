// SPDX-License-Identifier: Apache-2.0
// client/trace/tracefile.h -- pieces of a trace -> one Chrome trace JSON, which
// Perfetto and chrome://tracing open.
//
// All times are the coordinator's: those of a member are shifted by what its
// clock is known to be off. Slices of one lane lie beside or within each other;
// what overlaps, as calls do, gets lanes of its own. An arrow leads from a push
// to where it was applied, if both are there.
//
// Threads  one at a time, over all traces.
// Memory   tracefile_free; replies are borrowed until the call returns. Texts
//          that are returned live as long as the trace.
// Units    microseconds from the trace's beginning.
// Errors   SL_ENOMEM. More than TRACEFILE_SPANS spans: the rest is left out,
//          and said in the file.
#ifndef CLIENT_TRACE_TRACEFILE_H
#define CLIENT_TRACE_TRACEFILE_H

#include "common/base/buf.h"
#include "proto/jobs.pb-c.h"

#define TRACEFILE_SPANS 4000000

struct tracefile;

// Makes an empty trace. SL_ENOMEM leaves *out as it was.
enum sl_err tracefile_new(struct tracefile **out);
// Frees the trace and its texts. NULL is allowed.
void tracefile_free(struct tracefile *t);

// Adds piece `r`, as wire_unpack_trace_reply gives it: spans of one process, by
// its number, or why it has none. A later piece of a process sets its clock and
// its lost spans anew; the first reason stays. SL_ENOMEM: part of it may be
// there. Of more than 256 names of spans all further ones are called as the
// last.
enum sl_err tracefile_add(struct tracefile *t, const Sluice__V1__TraceReply *r);

// Numbers of spans, of processes that have some, and of processes that said why
// they have none.
struct tracefile_sums {
    size_t spans, processes, missing;
};
// Returns the sums of what was added so far.
struct tracefile_sums tracefile_sums(const struct tracefile *t);

// Returns the reason of the n-th (from 0) of the processes that said why they
// have no spans, and sets *name to the process' name; NULL: there are no more,
// and *name is untouched.
const char *tracefile_missing(const struct tracefile *t, size_t n,
                              const char **name);

// Appends the JSON of the trace of `job`, its name in the file, to `out`. Once,
// after all pieces. SL_ENOMEM: a part may be there.
enum sl_err tracefile_write(struct tracefile *t, const char *job,
                            struct buf *out);

#endif
