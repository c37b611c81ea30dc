// SPDX-License-Identifier: Apache-2.0
// Psservers that may use less memory than a job needs of them (world.h).
#include "coordinator/core/job.h"
#include "coordinator/core/shards/memory.h"

#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000, LITTLE = 64 };

static struct sl_error err;

static struct fake_member *psserver(struct world *w)
{
    return &w->members[0];
}

// A job runs on one psserver that may use so much; then its worker goes.
static struct world *begin(uint64_t memory_bytes)
{
    static struct world w;
    struct fake_member *m;

    world_init(&w, WORLD_SITUATION);
    m = world_add(&w, FAKE_PSSERVER, "ps-0");
    m->memory_bytes = memory_bytes;
    world_attach(&w, m);
    world_people(&w, 0, 1);
    world_submit(&w, world_graph_job);
    T_TRUE(world_run(&w, JOB_RUNNING, LIMIT));
    world_kill(&w, &w.members[1]);
    return &w;
}

static void lose(struct world *w, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        world_kill(w, psserver(w));
        world_restart(w, psserver(w));
        fake_read_all(w, psserver(w));
        fake_deliver_all(w, psserver(w));
    }
}

static bool is_paused(struct world *w)
{
    Sluice__V1__JobStatus *s = world_status(w);
    bool yes = s->pause != NULL && s->pause->holds;

    wire_free(&s->base);
    return yes;
}

static const char *warning(struct world *w)
{
    static char text[512];
    Sluice__V1__JobStatus *s = world_status(w);

    text[0] = '\0';
    for (size_t i = 0; i < s->n_warnings; i++)
        if (strstr(s->warnings[i], "may use") != NULL)
            snprintf(text, sizeof(text), "%s", s->warnings[i]);
    wire_free(&s->base);
    return text;
}

static void go_on(struct world *w)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *s = NULL;

    request.id = "j-1";
    T_OK(coord_resume(w->coord, &request, &s, &err));
    wire_free(&s->base);
}

static void finishes(struct world *w)
{
    Sluice__V1__JobStatus *s;

    world_restart(w, &w->members[1]);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    s = world_status(w);
    T_EQ(s->steps_counted, s->steps_asked);
    wire_free(&s->base);
    world_release(w);
}

TEST(memory, a_psserver_that_has_too_little_is_told_when_a_job_is_placed)
{
    struct world *w = begin(LITTLE);

    T_HAS(warning(w), "psserver ps-0 needs at least 1 MiB for its 1 shards of "
                      "this job (values,");
    T_HAS(warning(w), "may use 0 MiB");
    world_kill(w, psserver(w));
    psserver(w)->memory_bytes = 1 << 30; // it comes back with more
    world_restart(w, psserver(w));
    T_STR(warning(w), "");
    finishes(w);
}

TEST(memory, a_job_is_held_after_three_losses_without_a_step)
{
    struct world *w = begin(LITTLE);

    lose(w, MEMORY_LOSSES - 1);
    T_TRUE(!is_paused(w));
    T_TRUE(psserver(w)->shards[0].placed);
    lose(w, 1);
    T_TRUE(is_paused(w));
    T_HAS(world_reason(w), "paused by the coordinator: psserver ps-0 was lost "
                           "3 times in a row without a checkpoint: its shards "
                           "need at least 1 MiB, it may use 0 MiB");
    T_HAS(world_reason(w), "exit code 137");
    T_HAS(world_reason(w), "`sluice resume j-1`");
    T_TRUE(!psserver(w)->shards[0].placed); // so it lives
    lose(w, 2);
    world_stop_coord(w);
    world_start_coord(w);
    for (unsigned i = 0; i < 200; i++)
        world_step(w);
    T_TRUE(is_paused(w));
    T_TRUE(!psserver(w)->shards[0].placed);
    psserver(w)->memory_bytes = 1 << 30;
    lose(w, 1);
    go_on(w);
    fake_read_all(w, psserver(w));
    T_TRUE(psserver(w)->shards[0].placed);
    T_TRUE(!is_paused(w));
    finishes(w);
}

// With enough memory something else ends it, and waiting may help.
TEST(memory, losses_for_other_reasons_hold_nothing)
{
    struct world *w = begin(1 << 30);

    lose(w, 3 * MEMORY_LOSSES);
    T_TRUE(!is_paused(w));
    finishes(w);
    w = begin(0); // an older one does not say
    lose(w, 3 * MEMORY_LOSSES);
    T_TRUE(!is_paused(w));
    finishes(w);
}

static Sluice__V1__JobStatus *until_steps(struct world *w, uint64_t least)
{
    Sluice__V1__JobStatus *s = world_status(w);

    for (unsigned i = 0; i < LIMIT && s->steps_counted < least; i++) {
        wire_free(&s->base);
        world_step(w);
        s = world_status(w);
    }
    T_GE(s->steps_counted, least);
    return s;
}

TEST(memory, a_step_or_an_end_in_order_breaks_the_row_where_it_may_fit)
{
    struct world *w = begin(1 << 30);
    Sluice__V1__JobStatus *s = world_status(w);

    // Values and a copy are twice that.
    psserver(w)->memory_bytes = 3 * s->shards[0]->bytes;
    wire_free(&s->base);
    lose(w, MEMORY_LOSSES - 1);
    world_restart(w, &w->members[1]);
    s = until_steps(w, 2);
    T_EQ(s->cuts, 0);
    wire_free(&s->base);
    world_kill(w, &w->members[1]);
    lose(w, MEMORY_LOSSES);
    T_TRUE(!is_paused(w));
    psserver(w)->draining = true;
    fake_beat(w, psserver(w));
    fake_deliver_all(w, psserver(w));
    lose(w, MEMORY_LOSSES);
    T_TRUE(!is_paused(w));
    lose(w, 1);
    T_TRUE(is_paused(w));
    T_HAS(world_reason(w), "3 times in a row without a step");
    go_on(w);
    finishes(w);
}

// Its snapshot needs most: steps that are lost each time are no help.
TEST(memory, only_a_checkpoint_breaks_the_row_where_it_cannot_fit)
{
    struct world *w = begin(LITTLE);
    Sluice__V1__JobStatus *s;

    lose(w, MEMORY_LOSSES - 1);
    world_restart(w, &w->members[1]);
    s = until_steps(w, 2);
    T_EQ(s->cuts, 0);
    wire_free(&s->base);
    world_kill(w, &w->members[1]);
    lose(w, 1);
    T_TRUE(is_paused(w));
    go_on(w);
    lose(w, MEMORY_LOSSES - 1);
    world_restart(w, &w->members[1]);
    s = until_steps(w, 14); // an epoch has its cut by then
    T_GT(s->cuts, 0);
    wire_free(&s->base);
    world_kill(w, &w->members[1]);
    lose(w, 1);
    T_TRUE(!is_paused(w));
    finishes(w);
}
