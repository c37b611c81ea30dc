// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/cpu_loop.c -- one of our loops, run on the device's threads.
#include "kernels/cpu/cpu.h"

struct chunk_call {
    void (*part)(const struct loop_args *a, int64_t chunk);
    const struct loop_args *args;
    size_t scratch_bytes;
};

static void call_part(void *arg, int64_t chunk)
{
    struct chunk_call *call = arg;
    struct loop_args args = *call->args;

    if (call->scratch_bytes > 0)
        args.scratch =
            (char *)args.scratch + (size_t)cpu_thread() * call->scratch_bytes;
    call->part(&args, chunk);
}

static size_t lines(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

// A thread's scratch, each at a line of its own.
static size_t cpu_loop_scratch_bytes(const struct loop_op *op,
                                     const struct kern_desc *d)
{
    return op->scratch_bytes ? lines(op->scratch_bytes(d)) : 0;
}

static size_t cpu_loop_shared_bytes(const struct loop_op *op,
                                    const struct kern_desc *d)
{
    return op->workspace_bytes ? op->workspace_bytes(d) : 0;
}

size_t cpu_loop_bytes(const struct cpu_dev *dev, const struct loop_op *op,
                      const struct kern_desc *d)
{
    size_t scratch = cpu_loop_scratch_bytes(op, d),
           shared = cpu_loop_shared_bytes(op, d);

    return scratch == 0 ? shared
                        : lines(shared) + scratch * (size_t)dev->threads;
}

void cpu_loop(const struct cpu_dev *dev, const struct loop_op *op,
              const struct kern_desc *d, void *const *io, void *workspace)
{
    struct loop_args args = {
        .d = d, .io = io, .workspace = workspace, .chunks = op->chunks(d)};
    size_t scratch = cpu_loop_scratch_bytes(op, d);

    if (scratch > 0)
        args.scratch = (char *)workspace + lines(cpu_loop_shared_bytes(op, d));
    for (size_t i = 0; i < SL_COUNT(op->step) && op->step[i].part; i++) {
        struct chunk_call call = {op->step[i].part, &args, scratch};

        cpu_for(dev->threads, args.chunks, call_part, &call);
        if (op->step[i].join)
            op->step[i].join(&args);
    }
}
