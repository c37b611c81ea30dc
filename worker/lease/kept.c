// SPDX-License-Identifier: Apache-2.0
// worker/lease/kept.c -- which jobs are kept; see kept.h.
#include "worker/lease/kept.h"

#include "trainer/base/figures.h"

void kept_init(struct kept *k, uint64_t budget)
{
    *k = (struct kept){.budget = budget};
    list_init(&k->jobs);
}

struct worker_job *kept_find(const struct kept *k, uint64_t id)
{
    list_for(n, &k->jobs)
    {
        struct worker_job *j = list_entry(n, struct worker_job, node);

        if (j->record->open->job == id)
            return j;
    }
    return NULL;
}

void kept_add(struct kept *k, struct worker_job *job)
{
    list_push_back(&k->jobs, &job->node);
    k->count++;
    k->bytes += job->bytes;
    figures_memory(k->bytes);
}

void kept_use(struct kept *k, struct worker_job *job)
{
    list_remove(&job->node);
    list_push_back(&k->jobs, &job->node);
}

void kept_weigh(struct kept *k, struct worker_job *job, uint64_t bytes)
{
    k->bytes += bytes - job->bytes;
    job->bytes = bytes;
    figures_memory(k->bytes);
}

void kept_remove(struct kept *k, struct worker_job *job)
{
    list_remove(&job->node);
    k->count--;
    k->bytes -= job->bytes;
    figures_memory(k->bytes);
}

struct worker_job *kept_surplus(struct kept *k, unsigned more, uint64_t bytes)
{
    unsigned then = k->count + more;

    if (k->count == 0 || then <= KEPT_ALWAYS ||
        (then <= KEPT_MOST && k->bytes + bytes <= k->budget))
        return NULL;
    return list_entry(list_first(&k->jobs), struct worker_job, node);
}
