// SPDX-License-Identifier: Apache-2.0
// coordinator/core/memory.c -- see memory.h.
#include "coordinator/core/memory.h"

#include "proto/spec.h"

static uint64_t mib(uint64_t bytes)
{
    return (bytes + (UINT64_C(1) << 20) - 1) >> 20;
}

static uint64_t vector_bytes(const struct job *job)
{
    return job->parameters * sizeof(float);
}

// Vectors of the size of the model that a worker has at least, as
// worker/lease/job.c counts them.
static void need_worker(struct buf *out, const struct job *job)
{
    unsigned slots = spec_optimizer_slots(job->spec->optimizer);
    unsigned vectors = job->allreduce ? 3 + slots : 2;

    buf_appendf(out,
                ". The job needs at least %llu MiB in each worker (%u x %llu: "
                "parameters, gradients%s), besides activations and data",
                (ull)mib(vectors * vector_bytes(job)), vectors,
                (ull)mib(vector_bytes(job)),
                !job->allreduce ? ""
                : slots == 0    ? ", their sum"
                                : ", their sum, optimizer slots");
}

void memory_vanished(struct buf *out, const struct work *w)
{
    if (!w->vanished || w->story.len == 0)
        return;
    buf_append_str(out, "; each time the worker vanished without a word, "
                        "perhaps killed by its host's kernel for want of "
                        "memory: look for exit code 137, `dmesg`, and oom_kill "
                        "in memory.events of its cgroup");
    if (w->job->placed)
        need_worker(out, w->job);
    buf_append_str(out, "; give workers more memory, or take a smaller model "
                        "or batch");
}
