// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/prog.h -- a short list of oneDNN primitives with their tensors.
//
// A product often is three primitives: reorder the weights into the layout
// that oneDNN likes, multiply, reorder the result back. A prog holds them with
// their tensors ("slots"), each of which lies at an address of io[] or at a
// place in the workspace. Running sets the addresses and executes in order.
//
// Threads  one at a time per prog.
// Memory   a prog owns primitives and memory objects, no tensor bytes.
// Errors   SL_ENOTSUP: oneDNN cannot; SL_ENOMEM; SL_EINTERNAL: it failed
//          otherwise. A prog of which a call has failed is only for
//          prog_release. `err` may be NULL.
#ifndef KERNELS_CPU_PROG_H
#define KERNELS_CPU_PROG_H

#include "common/base/status.h"
#include "kernels/cpu/onednn.h"

#define PROG_SLOTS 16
#define PROG_STAGES 8
#define PROG_ARGS 6

struct cpu_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int threads;
};

struct prog_slot {
    dnnl_memory_t mem;
    int io;    // index of io[], or -1:
    size_t at; // byte offset in the workspace
};

struct prog_stage {
    dnnl_primitive_t prim;
    int nargs;
    dnnl_exec_arg_t args[PROG_ARGS];
};

struct prog {
    struct cpu_onednn *onednn; // borrowed
    struct prog_slot slot[PROG_SLOTS];
    struct prog_stage stage[PROG_STAGES];
    int slots, stages;
    size_t bytes; // bytes of workspace so far
};

// One argument of a stage: DNNL_ARG_SRC and so on, and the slot it lies in.
struct prog_arg {
    int arg, slot;
};

// Makes an empty prog; `onednn` is borrowed until prog_release.
void prog_init(struct prog *p, struct cpu_onednn *onednn);
// Destroys primitives and memory objects; *p has no slots and no stages then. A
// half-built prog is allowed.
void prog_release(struct prog *p);

// Adds a tensor of layout `desc` that lies at io[index] and returns the number
// of its slot; -1 without memory or with PROG_SLOTS slots in use.
int prog_io(struct prog *p, ob_desc desc, int index);
// Adds a tensor of layout `desc` that lies in the workspace, which grows by it
// in any case, and returns the number of its slot; -1 as prog_io.
int prog_temp(struct prog *p, ob_desc desc);

// Adds `bytes` of plain workspace and returns its offset, a multiple of 64.
// Cannot fail.
size_t prog_bytes(struct prog *p, size_t bytes);

// Appends a stage that runs primitive `pd`, which stays the caller's, on
// args[nargs]; a scratchpad, if it wants one, takes a slot and workspace.
// Returns SL_OK, or SL_ENOMEM: no slot is left, or args has one of -1 (so
// prog_io and prog_temp need no check). SL_EINTERNAL: too many stages, or nargs
// >= PROG_ARGS. Else an error of prog_status.
enum sl_err prog_add(struct prog *p, const_dnnl_primitive_desc_t pd,
                     const struct prog_arg *args, int nargs,
                     struct sl_error *err);

// Appends a stage that copies slot `from`, of layout `a`, to slot `to`, of
// layout `b`. Returns SL_OK, or fails as prog_add does.
enum sl_err prog_reorder(struct prog *p, ob_desc a, int from, ob_desc b, int to,
                         struct sl_error *err);

// Runs all stages in order and waits for the last. `workspace` has p->bytes,
// and may be NULL if that is 0. Returns SL_OK, or SL_EINTERNAL if oneDNN
// refuses.
enum sl_err prog_run(struct prog *p, void *const *io, void *workspace);

// Makes the attributes that all our primitives have: scratchpad from us.
// Returns SL_OK, and the caller destroys them; else an error of prog_status.
enum sl_err prog_attr(dnnl_primitive_attr_t *out, struct sl_error *err);

// Returns SL_OK if `st` is success; else the error that it means, with a text
// in *err that names `what`, a verb with its object ("make a primitive").
enum sl_err prog_status(dnnl_status_t st, const char *what,
                        struct sl_error *err);

#endif
