// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/choices.c -- see choices.h.
#include "coordinator/core/leases/choices.h"

#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"

// Returns a worker of the job on such a device as m's that leaves out other
// kernels; NULL: none is known.
static const struct member *choices_differ(const struct coord *c,
                                           const struct member *m,
                                           const struct job *job, uint64_t set)
{
    list_for(n, &c->members.all)
    {
        const struct member *other = list_entry(n, struct member, node);
        const struct opened *o = map_get(&other->opened, job->id);

        if (o != NULL && o->left_out != 0 && o->left_out != set &&
            member_same_device(other, m))
            return other;
    }
    return NULL;
}

void choices_heard(struct coord *c, struct member *m, struct job *job,
                   const Sluice__V1__LeaseProgress *message)
{
    struct opened *o = map_get(&m->opened, job->id);
    const struct member *other;

    if (o == NULL || message->left_out_set == 0)
        return;
    o->left_out = message->left_out_set;
    // Most workers leave no kernel out, so only those that do look for others.
    if (o->left_out == WIRE_LEFT_OUT_NONE ||
        job->warnings[JOB_WARN_KERNELS] != NULL)
        return;
    other = choices_differ(c, m, job, o->left_out);
    if (other != NULL)
        jobs_warn(job, JOB_WARN_KERNELS,
                  "workers %.60s and %.60s compute the job with different "
                  "kernels, so the last bits of their gradients differ: "
                  "%.60s leaves out %.250s, which is wrong on its host",
                  m->name, other->name, m->name, message->left_out);
}
