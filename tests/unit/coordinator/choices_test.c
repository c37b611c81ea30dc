// SPDX-License-Identifier: Apache-2.0
// Workers of a job that leave out kernels: see
// coordinator/core/leases/choices.h.
#include <string.h>

#include "coordinator/core/job.h"
#include "tests/harness/lease.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000 };

// Runs a job on workers that leave out these sets of kernels; returns its
// warning, "": there is none.
static const char *warned(const uint64_t *sets, unsigned workers)
{
    static char text[600];
    static struct world w;
    Sluice__V1__JobStatus *s;

    world_init(&w, t_seed());
    world_people(&w, 1, workers);
    for (unsigned i = 0; i < workers; i++)
        w.members[1 + i].left_out_set = sets[i];
    world_submit(&w, world_graph_job);
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    s = world_status(&w);
    text[0] = '\0';
    for (size_t i = 0; i < s->n_warnings; i++)
        if (strstr(s->warnings[i], "kernels") != NULL)
            snprintf(text, sizeof(text), "%s", s->warnings[i]);
    wire_free(&s->base);
    world_release(&w);
    return text;
}

#define WARNED(...)                                                            \
    warned((const uint64_t[]){__VA_ARGS__},                                    \
           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

TEST(choices, two_workers_that_leave_out_different_kernels_are_named)
{
    const char *text = WARNED(WIRE_LEFT_OUT_NONE, WIRE_LEFT_OUT_NONE, 7);

    T_HAS(text, "workers w-2 and w-");
    T_HAS(text, "w-2 leaves out jit:x,");
    T_HAS(WARNED(8, 8, 7), "leaves out jit:x");
}

TEST(choices, who_leaves_out_the_same_or_says_nothing_is_not_named)
{
    T_STR(WARNED(WIRE_LEFT_OUT_NONE, WIRE_LEFT_OUT_NONE), "");
    T_STR(WARNED(7, 7), "");
    T_STR(WARNED(7, 0), "");
    T_STR(WARNED(0, 0), "");
}
