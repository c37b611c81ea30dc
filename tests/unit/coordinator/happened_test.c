// SPDX-License-Identifier: Apache-2.0
// What a coordinator tells people of the life of a job, and whom. See world.h.
#include "coordinator/feed/feed.h"

#include <string.h>

#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/status/table_warnings.h"
#include "coordinator/service/status_lists.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000 };

static struct sl_error err;

static struct world *begin(unsigned workers)
{
    static struct world w;
    struct feed_options options = {0};

    world_init(&w, WORLD_SITUATION);
    options.clock = &w.clock.clock;
    T_OK(feed_new(&w.feed, &options, t_err()));
    world_stop_coord(&w);
    world_start_coord(&w);
    world_people(&w, 1, workers);
    return &w;
}

static void end(struct world *w)
{
    struct feed *f = w->feed;

    world_release(w);
    feed_free(f);
}

static Sluice__V1__EventsReply *ask(struct world *w, const char *id,
                                    uint64_t after, uint32_t limit)
{
    Sluice__V1__EventsRequest request = SLUICE__V1__EVENTS_REQUEST__INIT;
    Sluice__V1__EventsReply *reply = NULL;

    request.id = (char *)id;
    request.after = after;
    request.limit = limit;
    T_OK(status_events(w->coord, &request, &reply, t_err()));
    T_OK(wire_check(&reply->base, t_err()));
    return reply;
}

static const Sluice__V1__Event *first(const Sluice__V1__EventsReply *r,
                                      const char *kind)
{
    for (size_t i = 0; i < r->n_events; i++)
        if (strcmp(r->events[i]->kind, kind) == 0)
            return r->events[i];
    T_FAIL("no event is a %s", kind);
    return NULL;
}

static size_t count(const Sluice__V1__EventsReply *r, const char *kind)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n_events; i++)
        n += strcmp(r->events[i]->kind, kind) == 0;
    return n;
}

static Sluice__V1__TimelineReply *timeline(struct world *w, uint64_t after,
                                           uint32_t limit)
{
    Sluice__V1__TimelineRequest request = SLUICE__V1__TIMELINE_REQUEST__INIT;
    Sluice__V1__TimelineReply *reply = NULL;

    request.id = "j-1";
    request.after = after;
    request.limit = limit;
    T_OK(status_timeline(w->coord, &request, &reply, t_err()));
    T_OK(wire_check(&reply->base, t_err()));
    return reply;
}

static size_t spans(const Sluice__V1__TimelineReply *t, const char *result)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n_spans; i++)
        n += strcmp(t->spans[i]->result, result) == 0 &&
             strcmp(t->spans[i]->kind, "train") == 0;
    return n;
}

TEST(happened, the_story_of_a_job_is_told_in_order)
{
    static const char *const story[] = {"job-submitted", "job-placed",
                                        "job-runs",      "cut-made",
                                        "job-counted",   "job-finished"};
    struct world *w = begin(2);
    Sluice__V1__EventsReply *r;
    Sluice__V1__TimelineReply *t;
    Sluice__V1__JobStatus *status;
    uint64_t last = 0;

    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    r = ask(w, "j-1", 0, 0);
    for (size_t i = 0; i < SL_COUNT(story); i++) {
        const Sluice__V1__Event *e = first(r, story[i]);

        T_GT(e->id, last);
        T_EQ(e->job, 1);
        T_GT(e->unix_us, 0);
        last = e->id;
    }
    T_EQ(count(r, "member-came"), 0); // of the cluster, not of the job
    wire_free(&r->base);
    r = ask(w, "", 0, 0);
    T_EQ(count(r, "member-came"), 3);
    T_STR(first(r, "member-came")->member, "ps-0");
    wire_free(&r->base);

    // Every closure was counted by one attempt that is in the timeline.
    status = world_status(w);
    t = timeline(w, 0, 0);
    T_EQ(spans(t, "counted"), status->closures_asked);
    T_EQ(t->last, t->n_spans);
    for (size_t i = 0; i < t->n_spans; i++) {
        T_LE(t->spans[i]->begun_us, t->spans[i]->ended_us);
        T_LE(t->spans[i]->ended_us, t->unix_us);
    }
    wire_free(&t->base);
    // What lies behind all that there is, however far.
    for (uint64_t back = 0; back < 3; back++) {
        t = timeline(w, UINT64_MAX - back, 0);
        T_EQ(t->n_spans, 0);
        T_GT(t->last, 0);
        wire_free(&t->base);
    }
    wire_free(&status->base);
    end(w);
}

TEST(happened, a_lost_worker_and_what_is_done_again_are_named)
{
    struct world *w = begin(2);
    struct fake_member *m = &w->members[1];
    const Sluice__V1__Event *lost, *again;
    Sluice__V1__EventsReply *r;
    Sluice__V1__TimelineReply *t;
    Sluice__V1__JobStatus *status;

    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    while (!world_trains(m))
        world_step(w);
    world_kill(w, m);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    r = ask(w, "j-1", 0, 0);
    lost = first(r, "closure-lost");
    T_STR(lost->member, "w-0");
    T_ASSERT(lost->attempt != NULL);
    again = first(r, "closure-retried");
    T_EQ(again->closure, lost->closure);
    T_GT(again->attempt->n, lost->attempt->n);
    T_HAS(again->text, "its last attempt was lost");
    status = world_status(w);
    T_EQ(count(r, "closure-retried"), status->closures_retried);
    wire_free(&status->base);
    wire_free(&r->base);
    t = timeline(w, 0, 0);
    T_GE(spans(t, "lost"), 1);
    wire_free(&t->base);
    r = ask(w, "", 0, 0);
    T_STR(first(r, "member-lost")->member, "w-0");
    wire_free(&r->base);
    end(w);
}

TEST(happened, what_runs_is_in_the_timeline_without_an_end)
{
    struct world *w = begin(1);
    struct fake_member *m = &w->members[1];
    Sluice__V1__TimelineReply *t;
    const Sluice__V1__Span *s;

    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    while (m->leases_count == 0)
        world_step(w);
    t = timeline(w, 0, 1); // the newest that has ended, and those that run
    T_EQ(t->spans[0]->number, t->last);
    s = t->spans[t->n_spans - 1];
    T_EQ(s->number, 0);
    T_EQ(s->ended_us, 0);
    T_STR(s->result, "");
    T_STR(s->worker, "w-0");
    wire_free(&t->base);
    end(w);
}

TEST(happened, pages_follow_each_other_and_a_restart)
{
    struct world *w = begin(2);
    Sluice__V1__EventsReply *r;
    uint64_t after = 0, seen = 0;
    bool more = true;

    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    world_stop_coord(w);
    world_start_coord(w);
    while (more) {
        r = ask(w, "", after, 3);
        T_LE(r->n_events, 3);
        for (size_t i = 0; i < r->n_events; i++)
            T_GT(r->events[i]->id, i == 0 ? after : r->events[i - 1]->id);
        T_GE(r->last, after);
        after = r->last;
        more = r->more;
        seen += r->n_events;
        wire_free(&r->base);
    }
    r = ask(w, "", 0, 0);
    T_EQ(r->n_events, seen);
    T_EQ(count(r, "coordinator-began"), 2);
    T_EQ(r->last, after);
    wire_free(&r->base);
    r = ask(w, "", after, 0);
    T_EQ(r->n_events, 0);
    T_EQ(r->last, after);
    wire_free(&r->base);
    end(w);
}

TEST(happened, a_tenant_sees_its_jobs_alone)
{
    struct world *w = begin(1);
    Sluice__V1__EventsRequest request = SLUICE__V1__EVENTS_REQUEST__INIT;
    Sluice__V1__TimelineRequest timeline_request =
        SLUICE__V1__TIMELINE_REQUEST__INIT;
    Sluice__V1__HistoryRequest history_request =
        SLUICE__V1__HISTORY_REQUEST__INIT;
    Sluice__V1__TimelineReply *t = NULL;
    Sluice__V1__HistoryReply *h = NULL;
    Sluice__V1__EventsReply *r;

    coord_ask_as(w->coord, "a", true);
    T_OK(world_try_submit(w, "r-1", "", NULL, &err));
    coord_ask_as(w->coord, "b", true);
    T_OK(world_try_submit(w, "r-2", "", NULL, &err));
    r = ask(w, "", 0, 0);
    T_GE(r->n_events, 1);
    for (size_t i = 0; i < r->n_events; i++)
        T_EQ(r->events[i]->job, 2);
    wire_free(&r->base);
    request.id = timeline_request.id = history_request.id = "j-1";
    T_FAILS(SL_ENOENT, status_events(w->coord, &request, &r, &err));
    T_FAILS(SL_ENOENT, status_timeline(w->coord, &timeline_request, &t, &err));
    T_FAILS(SL_ENOENT, status_history(w->coord, &history_request, &h, &err));
    coord_ask_as(w->coord, "", false);
    r = ask(w, "", 0, 0);
    T_EQ(count(r, "job-submitted"), 2);
    wire_free(&r->base);
    end(w);
}

// The newest are counted among those that the caller may see: another tenant's
// behind them take no place.
TEST(happened, the_newest_of_a_tenant_are_its_own)
{
    struct world *w = begin(1);
    Sluice__V1__EventsRequest request = SLUICE__V1__EVENTS_REQUEST__INIT;
    Sluice__V1__EventsReply *r = NULL;
    uint64_t ids[2];

    coord_ask_as(w->coord, "a", true);
    T_OK(world_try_submit(w, "r-1", "", NULL, &err));
    T_OK(world_try_submit(w, "r-2", "", NULL, &err));
    r = ask(w, "", 0, 0);
    T_GE(r->n_events, 2);
    ids[0] = r->events[r->n_events - 2]->id;
    ids[1] = r->events[r->n_events - 1]->id;
    wire_free(&r->base);
    coord_ask_as(w->coord, "b", true);
    T_OK(world_try_submit(w, "r-3", "", NULL, &err));
    coord_ask_as(w->coord, "a", true);
    request.newest = true;
    request.limit = 2;
    T_OK(status_events(w->coord, &request, &r, t_err()));
    T_EQ(r->n_events, 2);
    T_EQ(r->events[0]->id, ids[0]);
    T_EQ(r->events[1]->id, ids[1]);
    T_FALSE(r->more);
    wire_free(&r->base);
    coord_ask_as(w->coord, "c", true);
    T_OK(status_events(w->coord, &request, &r, t_err()));
    T_EQ(r->n_events, 0);
    wire_free(&r->base);
    end(w);
}

TEST(happened, numbers_are_sampled_until_the_end)
{
    struct world *w = begin(2);
    Sluice__V1__HistoryRequest request = SLUICE__V1__HISTORY_REQUEST__INIT;
    Sluice__V1__HistoryReply *h = NULL;
    Sluice__V1__JobStatus *status;
    uint64_t steps = 0;

    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    status = world_status(w);
    request.id = "j-1";
    T_OK(status_history(w->coord, &request, &h, t_err()));
    T_GE(h->n_points, 2);
    for (size_t i = 0; i < h->n_points; i++) {
        T_GE(h->points[i]->steps, steps);
        steps = h->points[i]->steps;
    }
    T_EQ(steps, status->steps_asked);
    request.after_us = h->points[0]->unix_us;
    steps = h->n_points;
    wire_free(&h->base);
    T_OK(status_history(w->coord, &request, &h, t_err()));
    T_EQ(h->n_points, steps - 1);
    wire_free(&h->base);
    wire_free(&status->base);
    end(w);
}

// A point is made from a status that lies on the stack. The build with
// -DSLUICE_SANITIZE=address finds what is left of it.
TEST(happened, what_is_sampled_of_an_audited_job_leaves_nothing)
{
    static const char attempts[] = "\"max_attempts\":8",
                      audit[] = "\"audit\":1       ";
    struct world *w = begin(2);
    Sluice__V1__HistoryRequest request = SLUICE__V1__HISTORY_REQUEST__INIT;
    Sluice__V1__HistoryReply *h = NULL;
    Sluice__V1__JobStatus *status;
    char json[4096];

    snprintf(json, sizeof(json), "%s", world_graph_job);
    memcpy(strstr(json, attempts), audit, strlen(audit));
    world_submit(w, json);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    status = world_status(w);
    T_ASSERT(status->audit != NULL);
    request.id = "j-1";
    T_OK(status_history(w->coord, &request, &h, t_err()));
    T_GE(h->n_points, 2);
    wire_free(&h->base);
    wire_free(&status->base);
    end(w);
}

TEST(happened, who_asks_too_often_in_vain_is_said_once)
{
    struct world *w = begin(0);
    Sluice__V1__Hello hello = SLUICE__V1__HELLO__INIT;
    Sluice__V1__EventsReply *r;

    hello.role = SLUICE__V1__ROLE__ROLE_WORKER;
    hello.name = "w-9";
    hello.protocol = 99;
    for (unsigned i = 0; i < 50; i++)
        T_FAILS(SL_ENOTSUP,
                coord_attach(w->coord, 900 + i, &hello, MEMBER_LOCAL, &err));
    coord_refused(w->coord, "eve", "Stop", "j-1", "she may not");
    coord_refused(w->coord, "eve", "Stop", "j-1", "she may not");
    r = ask(w, "", 0, 0);
    T_EQ(count(r, "member-refused"), 1);
    T_HAS(first(r, "member-refused")->text, "protocol 99");
    T_EQ(count(r, "call-refused"), 1);
    T_STR(first(r, "call-refused")->text,
          "Stop of j-1 was refused to eve: she may not");
    wire_free(&r->base);
    end(w);
}

// Who is in no ring of a job has no word in its story.
TEST(happened, a_ring_is_broken_only_for_whom_is_in_it)
{
    struct world *w = begin(1);
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingBroken broken = SLUICE__V1__RING_BROKEN__INIT;
    struct fake_member *stranger = world_add(w, FAKE_WORKER, "stranger");
    Sluice__V1__EventsReply *r;

    stranger->external = true; // it gets no place
    world_submit(w, world_ring_job);
    for (unsigned i = 0; i < LIMIT && w->generation == 0; i++)
        world_step(w);
    T_GT(w->generation, 0);
    if (stranger->stream == 0)
        world_attach(w, stranger);
    broken.job = w->job;
    broken.job_incarnation = 1;
    broken.generation = w->generation;
    broken.suspect = 0;
    broken.why = "they do not answer";
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_BROKEN;
    up.ring_broken = &broken;
    fake_send(stranger, &up);
    fake_deliver_all(w, stranger);
    r = ask(w, "j-1", 0, 0);
    T_EQ(count(r, "ring-broken"), 0);
    wire_free(&r->base);
    end(w);
}

// ---- sparse tables

static const char rows_job[] =
    "{\"name\":\"rows\",\"model\":{\"type\":\"external\",\"variables\":[{"
    "\"name\":\"w\",\"shape\":[8,2]}],\"tables\":[{\"name\":\"users\",\"dim\":"
    "16,\"admit\":{\"min_count\":3},\"evict\":{\"max_rows\":500}},{\"name\":"
    "\"items\",\"dim\":24}]},\"optimizer\":{\"type\":\"adam\"},\"data\":{"
    "\"train\":{\"format\":\"external\",\"samples\":40}},\"train\":{\"batch\":"
    "4,"
    "\"epochs\":2,\"steps_per_closure\":2}}";

// A minute later the shards have done this to the first table, and to the
// second one a tenth.
static void minute_of(struct world *w, uint64_t evicted, uint64_t gradients,
                      uint64_t unadmitted)
{
    struct job *job = jobs_get(w->coord, w->job);
    Sluice__V1__TableFigures figures[2], *list[2] = {&figures[0], &figures[1]};
    Sluice__V1__ShardReport report = SLUICE__V1__SHARD_REPORT__INIT;

    report.tables = list;
    report.n_tables = 2;
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t part = job->shards.count * (i == 0 ? 1 : 10);

        sluice__v1__table_figures__init(&figures[i]);
        figures[i].table = i;
        figures[i].evicted_full = evicted / part;
        figures[i].gradients = gradients / part;
        figures[i].unadmitted = unadmitted / part;
    }
    for (uint32_t i = 0; i < job->shards.count; i++)
        shard_rows_take(&job->shards.list[i].rows, &report, 2,
                        job->shards.count, coord_now(w->coord));
    clock_fake_advance_ms(&w->clock, 60000);
    table_warnings_check(w->coord, job);
}

static void rows_are_told(struct world *w, size_t evicted, size_t unadmitted)
{
    Sluice__V1__EventsReply *r = ask(w, "j-1", 0, 0);

    T_EQ(count(r, "rows-evicted"), evicted);
    T_EQ(count(r, "rows-unadmitted"), unadmitted);
    wire_free(&r->base);
}

static const char *rows_warning(struct world *w, enum job_warning kind)
{
    return jobs_get(w->coord, w->job)->warnings[kind];
}

static struct world *begin_unreported(void)
{
    struct world *w = begin(0);

    w->job = world_submit(w, rows_job);
    (void)world_run(w, JOB_FINISHED, 4000); // no program works on it
    T_EQ(jobs_get(w->coord, w->job)->state, JOB_RUNNING);
    return w;
}

static struct world *begin_rows(void)
{
    struct world *w = begin_unreported();

    minute_of(w, 0, 0, 0);
    return w;
}

// A coordinator that has restarted looks before shards have reported, and then
// hears of all that they have ever done.
TEST(happened, what_tables_did_before_their_first_report_is_not_of_this_minute)
{
    struct world *w = begin_unreported();

    clock_fake_advance_ms(&w->clock, 60000);
    table_warnings_check(w->coord, jobs_get(w->coord, w->job));
    minute_of(w, 600, 16000, 0);
    rows_are_told(w, 0, 0);
    T_TRUE(rows_warning(w, JOB_WARN_FULL) == NULL);
    minute_of(w, 700, 32000, 0);
    rows_are_told(w, 1, 0);
    end(w);
}

TEST(happened, a_full_table_that_takes_rows_away_is_told_once_an_hour)
{
    struct world *w = begin_rows();
    Sluice__V1__EventsReply *r;

    minute_of(w, 0, 8000, 0);
    rows_are_told(w, 0, 0);
    minute_of(w, 600, 16000, 0);
    rows_are_told(w, 1, 0);
    r = ask(w, "j-1", 0, 0);
    T_STR(first(r, "rows-evicted")->level, "warn");
    T_STR(first(r, "rows-evicted")->text,
          "table users is full: 600 rows gave their place to new ones in a "
          "minute (1 more likewise); if ids come again after they "
          "went, raise evict.max_rows (500)");
    wire_free(&r->base);
    for (uint64_t i = 1; i <= 58; i++)
        minute_of(w, 600 + 20 * i, 16000, 0);
    rows_are_told(w, 1, 0);
    minute_of(w, 2000, 16000, 0);
    minute_of(w, 2100, 16000, 0);
    rows_are_told(w, 2, 0);
    T_TRUE(rows_warning(w, JOB_WARN_FULL) != NULL);
    minute_of(w, 50, 16000, 0); // a shard was loaded anew
    T_TRUE(rows_warning(w, JOB_WARN_FULL) == NULL);
    rows_are_told(w, 2, 0);
    end(w);
}

TEST(happened, gradients_that_change_no_row_are_told)
{
    struct world *w = begin_rows();

    minute_of(w, 0, 10000, 9000); // all ids are new
    rows_are_told(w, 0, 0);
    minute_of(w, 0, 20000, 14000);
    rows_are_told(w, 0, 0);
    minute_of(w, 0, 30000, 21000);
    rows_are_told(w, 0, 1);
    T_STR(rows_warning(w, JOB_WARN_UNADMITTED),
          "table users: 7000 of 10000 gradients changed no row in a minute, "
          "as their ids were not admitted; if they should be learned, change "
          "admit (min_count 3, probability 1)");
    minute_of(w, 0, 30500, 21500); // too few to tell
    T_TRUE(rows_warning(w, JOB_WARN_UNADMITTED) == NULL);
    rows_are_told(w, 0, 1);
    end(w);
}
