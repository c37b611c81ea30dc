// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/measure.h"

#include <inttypes.h>

#include "coordinator/core/job.h"
#include "proto/wire.h"
#include "tests/unit/coordinator/world.h"

#define LIMIT 200000

static struct world world;

static const char *page(struct world *w)
{
    static struct buf text;
    struct expo e;

    buf_reset(&text);
    expo_begin(&e, &text, false);
    measure_write(w->coord, w->journal, &e);
    T_OK(expo_end(&e));
    return buf_text(&text);
}

// The number behind a series, as it stands on the page.
static uint64_t figure(struct world *w, const char *series)
{
    const char *text = page(w), *at;
    size_t n = strlen(series);

    for (at = strstr(text, series); at != NULL; at = strstr(at + 1, series)) {
        if ((at == text || at[-1] == '\n') && at[n] == ' ')
            return strtoull(at + n, NULL, 10);
    }
    T_FAIL("no series %s", series);
    return 0;
}

static struct world *begin(unsigned psservers, unsigned workers)
{
    world_init(&world, WORLD_SITUATION);
    world_people(&world, psservers, workers);
    return &world;
}

static void check_end(struct world *w)
{
    Sluice__V1__JobStatus *s = world_status(w);

    T_EQ(figure(w, "sluice_closures_finished_total{result=\"counted\"}"),
         s->closures_counted);
    T_EQ(figure(w, "sluice_samples_counted_total"),
         s->samples_per_epoch * s->epochs);
    T_EQ(figure(w, "sluice_closure_retries_total{reason=\"lost\"}") +
             figure(w, "sluice_closure_retries_total{reason=\"transient\"}") +
             figure(w, "sluice_closure_retries_total{reason=\"timeout\"}") +
             figure(w, "sluice_closure_retries_total{reason=\"preempted\"}") +
             figure(w, "sluice_closure_retries_total{reason=\"revoked\"}"),
         s->closures_retried);
    T_EQ(figure(w, "sluice_cuts_total{result=\"published\"}"), s->cuts);
    T_EQ(figure(w, "sluice_jobs{state=\"finished\"}"), 1);
    T_EQ(figure(w, "sluice_closures{state=\"leased\"}"), 0);
    wire_free(&s->base);
}

static void some_steps(struct world *w, unsigned n)
{
    while (n-- > 0)
        world_step(w);
}

TEST(figures, of_a_quiet_job)
{
    struct world *w = begin(2, 3);

    T_EQ(figure(w, "sluice_workers{state=\"ready\"}"), 3);
    T_EQ(figure(w, "sluice_psservers{state=\"ready\"}"), 2);
    world_submit(w, world_graph_job);
    T_EQ(figure(w, "sluice_samples_counted_total"), 0);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    check_end(w);
    T_EQ(figure(w, "sluice_closures_reissued_total"), 0);
    T_EQ(figure(w, "sluice_members_lost_total{role=\"worker\"}"), 0);
    world_release(w);
}

// What a shard had counted and lost is computed again, and is no more samples.
TEST(figures, count_once_though_a_shard_falls_back)
{
    struct world *w = begin(1, 2);
    uint64_t counted = 0;

    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    while (counted == 0) {
        world_step(w);
        counted = figure(w, "sluice_closures{state=\"counted\"}");
    }
    world_kill(w, &w->members[0]);
    world_pass(w, 100);
    T_EQ(figure(w, "sluice_psservers{state=\"lost\"}"), 1);
    T_EQ(figure(w, "sluice_members_lost_total{role=\"psserver\"}"), 1);
    world_restart(w, &w->members[0]);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    check_end(w);
    T_GT(figure(w, "sluice_closures_reissued_total"), 0);
    world_release(w);
}

TEST(figures, name_why_a_closure_is_retried)
{
    struct world *w = begin(1, 2);

    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    while (figure(w, "sluice_closures{state=\"leased\"}") < 2)
        world_step(w);
    world_kill(w, &w->members[1]);
    world_pass(w, 100);
    T_EQ(figure(w, "sluice_members_lost_total{role=\"worker\"}"), 1);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    check_end(w);
    T_EQ(figure(w, "sluice_closure_retries_total{reason=\"transient\"}"), 0);
    world_release(w);
}

// Also of one that was lost before, and waited since it was taken back.
TEST(figures, name_the_end_of_the_last_attempt)
{
    const char *lost = "sluice_closure_retries_total{reason=\"lost\"}";
    const char *revoked = "sluice_closure_retries_total{reason=\"revoked\"}";
    Sluice__V1__PauseRequest pause = SLUICE__V1__PAUSE_REQUEST__INIT;
    Sluice__V1__JobRequest resume = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *s = NULL;
    struct world *w = begin(1, 2);
    uint64_t had, sum;

    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    while (figure(w, "sluice_closures{state=\"leased\"}") < 2)
        world_step(w);
    world_kill(w, &w->members[1]);
    while (figure(w, lost) == 0)
        world_step(w);
    had = figure(w, lost);
    sum = figure(w, "sluice_closure_wait_seconds_sum");
    world_pass(w, 1000);
    pause.id = resume.id = "j-1";
    pause.who = pause.why = "";
    T_OK(coord_pause(w->coord, &pause, &s, t_err()));
    wire_free(&s->base);
    T_OK(coord_resume(w->coord, &resume, &s, t_err()));
    wire_free(&s->base);
    while (figure(w, revoked) == 0)
        world_step(w);
    T_EQ(figure(w, lost), had);
    T_EQ(figure(w, "sluice_closure_wait_seconds_sum"), sum);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    check_end(w);
    world_release(w);
}

TEST(figures, a_closure_that_ends_its_job_has_failed)
{
    struct world *w = begin(1, 9);

    w->poison = true;
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_FAILED, LIMIT));
    T_EQ(figure(w, "sluice_closures_finished_total{result=\"failed\"}"), 1);
    T_EQ(figure(w, "sluice_jobs{state=\"failed\"}"), 1);
    T_GT(figure(w, "sluice_closure_retries_total{reason=\"lost\"}"), 0);
    world_release(w);
}

// Those that were counted before it began are not of this life.
TEST(figures, begin_anew_with_the_coordinator)
{
    struct world *w = begin(1, 2);
    Sluice__V1__JobStatus *s;
    uint64_t before;

    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    while (figure(w, "sluice_closures_finished_total{result=\"counted\"}") == 0)
        world_step(w);
    before = figure(w, "sluice_samples_counted_total");
    world_stop_coord(w);
    world_start_coord(w);
    T_EQ(figure(w, "sluice_coordinator_term"), 2);
    T_EQ(figure(w, "sluice_samples_counted_total"), 0);
    some_steps(w, 10);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    s = world_status(w);
    T_LE(figure(w, "sluice_samples_counted_total") + before,
         s->samples_per_epoch * s->epochs);
    wire_free(&s->base);
    T_GT(figure(w, "sluice_samples_counted_total"), 0);
    world_release(w);
}

TEST(figures, are_all_there_while_it_waits_for_space)
{
    struct world *w = begin(0, 0);
    struct buf text = BUF_INIT;
    struct expo e;
    unsigned families = 0;

    expo_begin(&e, &text, false);
    measure_write(NULL, NULL, &e);
    T_OK(expo_end(&e));
    for (const char *at = strstr(page(w), "# TYPE "); at != NULL;
         at = strstr(at + 1, "# TYPE ")) {
        char line[128];

        snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
        T_HAS(buf_text(&text), line);
        families++;
    }
    T_GT(families, 15);
    buf_release(&text);
    world_release(w);
}
