// SPDX-License-Identifier: Apache-2.0
// proto/traced.h -- a member's part of a trace: TraceStart has its spans kept
// for a while, each TraceMore is answered with a piece of them.
//
// A member that gets no TraceMore for a minute forgets its spans.
//
// Threads  the loop. Nothing waits.
// Memory   that of common/run/spans.h, while there is a trace. Messages are
//          borrowed for the call.
// Errors   a trace that cannot be kept (no memory) gives no spans.
#ifndef PROTO_TRACED_H
#define PROTO_TRACED_H

#include "common/run/loop.h"
#include "proto/wire.h"

struct traced;

// Makes the member's part, without a trace, with a timer on `loop`. SL_ENOMEM.
enum sl_err traced_new(struct traced **out, struct loop *loop);
// Forgets the trace and frees; before the loop is freed. NULL is allowed.
void traced_free(struct traced *t);

// Begins trace m->trace, which takes the place of one under way: spans of job
// m->job, on all threads of this process, are kept for m->ms. Without memory
// there are none.
void traced_start(struct traced *t, const Sluice__V1__TraceStart *m);

// Answers a TraceMore: if `trace` is the one that traced_start began (not 0),
// stops keeping spans and calls send(arg, piece) once, before it returns, with
// the next piece of them; after the last piece the trace is forgotten, else the
// minute begins anew. The piece is borrowed until `send` returns, which may not
// call this header. Does nothing for another trace, or without memory for a
// piece.
void traced_more(struct traced *t, uint64_t trace,
                 void (*send)(void *arg, const Sluice__V1__TracePiece *piece),
                 void *arg);

// Forgets the trace, if there is one: the stream to the coordinator is gone.
void traced_forget(struct traced *t);

struct traced_space;

// Allocates the space of one piece; free it with sl_free. SL_ENOMEM.
enum sl_err traced_space_new(struct traced_space **out);
// Moves up to WIRE_TRACE_SPANS_MAX of the oldest spans of this process
// (spans_take) into the piece of `space` and returns it, never NULL; `last` is
// set if it has fewer, so an empty piece may be the last; `lost` is spans_lost,
// and `trace` 0. Spans with names beyond the first WIRE_TRACE_NAMES_MAX get the
// first name. The piece belongs to `space` and lasts until the next call with
// it.
Sluice__V1__TracePiece *traced_take(struct traced_space *space);

#endif
