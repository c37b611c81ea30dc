// SPDX-License-Identifier: Apache-2.0
// The feed: what is kept of what happened, what falls out, and what its file
// gives back.
#include <math.h>
#include "coordinator/feed/feed.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "tests/harness/t.h"

static struct clock_fake at;

static struct feed *open_in(const char *folder)
{
    const struct feed_options options = {.clock = &at.clock, .folder = folder};
    struct feed *f = NULL;

    T_OK(feed_new(&f, &options, t_err()));
    return f;
}

static struct feed *fresh(void)
{
    clock_fake_init(&at, 1000000, 1000000);
    return open_in(NULL);
}

static void say(struct feed *f, uint64_t uid, enum event_kind kind,
                const char *text)
{
    const struct event said = {.kind = kind, .job = uid, .uid = uid};

    feed_event(f, &said, text);
}

static size_t count(struct feed *f, uint64_t uid)
{
    size_t n = 0;

    for (const struct event *e = events_after(feed_events(f), uid, 0);
         e != NULL; e = events_next(feed_events(f), uid, e))
        n++;
    return n;
}

TEST(feed, events_come_back_in_their_order_with_rising_ids)
{
    struct feed *f = fresh();
    const struct event *e;

    say(f, 7, EVENT_JOB_RUNS, "seven runs");
    say(f, 0, EVENT_MEMBER_CAME, "somebody came");
    say(f, 7, EVENT_JOB_FINISHED, "seven has finished");
    e = events_after(feed_events(f), 0, 0);
    T_STR(e->text, "seven runs");
    T_EQ(e->id, 1);
    e = events_next(feed_events(f), 0, e);
    T_STR(e->text, "somebody came");
    T_STR(e->member, "");
    e = events_after(feed_events(f), 7, 1);
    T_STR(e->text, "seven has finished");
    T_EQ(e->id, 3);
    T_PTR(events_next(feed_events(f), 7, e), NULL);
    T_PTR(events_after(feed_events(f), 7, 3), NULL);
    T_PTR(events_after(feed_events(f), 8, 0), NULL);
    T_STR(events_last(feed_events(f), 0, 2)->text, "somebody came");
    e = events_last(feed_events(f), EVENTS_OF_NONE, 2);
    T_STR(e->text, "somebody came");
    T_PTR(events_next(feed_events(f), EVENTS_OF_NONE, e), NULL);
    T_PTR(events_after(feed_events(f), EVENTS_OF_NONE, 2), NULL);
    feed_free(f);
}

TEST(feed, one_job_takes_no_more_room_than_its_own)
{
    struct feed *f = fresh();

    say(f, 1, EVENT_JOB_RUNS, "a quiet job");
    for (unsigned i = 0; i < EVENTS_OF_JOB + 10; i++)
        say(f, 2, EVENT_CLOSURE_LOST, "a loud one");
    T_EQ(count(f, 2), EVENTS_OF_JOB);
    T_EQ(count(f, 1), 1);
    for (uint64_t job = 3; job < 3 + EVENTS_ALL; job++)
        say(f, job, EVENT_JOB_RUNS, "one of many");
    T_EQ(count(f, 0), EVENTS_ALL);
    T_EQ(count(f, 1), 0); // it was the oldest
    feed_free(f);
}

TEST(feed, what_others_repeat_is_said_once_a_minute)
{
    struct feed *f = fresh();
    char text[2 * EVENT_TEXT] = "";
    const struct event said = {.kind = EVENT_CALL_REFUSED, .member = "m"};

    for (unsigned i = 0; i < 100; i++)
        feed_event_once(f, &said, "no");
    feed_event_once(f, &said, "another reason");
    T_EQ(count(f, 0), 2);
    clock_fake_advance_ms(&at, 61000);
    feed_event_once(f, &said, "no");
    T_EQ(count(f, 0), 3);
    memset(text, 'y', sizeof(text) - 1);
    text[0] = '\t';
    for (unsigned i = 0; i < 100; i++)
        feed_event_once(f, &said, text); // which is kept cut and escaped
    T_EQ(count(f, 0), 4);
    feed_free(f);
}

TEST(feed, texts_are_cut_and_cleaned)
{
    struct feed *f = fresh();
    char text[2 * EVENT_TEXT];

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    memcpy(text, "a\xff\nb", 4);
    say(f, 1, EVENT_JOB_RUNS, text);
    T_EQ(strlen(events_last(feed_events(f), 0, 1)->text), EVENT_TEXT - 1);
    T_MEM(events_last(feed_events(f), 0, 1)->text, "a??bx", 5);
    feed_free(f);
}

// ---- spans and curves

static void span(struct feed *f, uint64_t uid, uint64_t closure)
{
    const struct lease_span s = {.closure = closure,
                                 .term = 1,
                                 .n = closure + 1,
                                 .identity = closure % 3,
                                 .end = SPAN_COUNTED};
    static const char *const names[] = {"w-0", "w-1", "w-2"};

    feed_span(f, uid, &s, names[closure % 3]);
}

TEST(feed, the_last_spans_are_kept_with_their_workers)
{
    struct feed *f = fresh();
    const struct track *t;

    for (uint64_t i = 0; i < TRACES_SPANS + 5; i++)
        span(f, 9, i);
    t = traces_spans(feed_traces(f), 9);
    T_EQ(t->added, TRACES_SPANS + 5);
    T_EQ(track_first(t), 6);
    T_EQ(((struct lease_span *)track_at(t, 6))->closure, 5);
    T_STR(((struct lease_span *)track_at(t, 6))->worker->text, "w-2");
    T_EQ(feed_traces(f)->names.len, 3);
    feed_forget(f, 9);
    T_EQ(feed_traces(f)->names.len, 0);
    T_EQ(feed_traces(f)->bytes, 0);
    T_PTR(traces_spans(feed_traces(f), 9), NULL);
    feed_free(f);
}

TEST(feed, all_jobs_together_are_bounded)
{
    struct feed *f = fresh();
    uint64_t jobs =
        TRACES_BYTES / (TRACES_SPANS * sizeof(struct lease_span)) + 2;

    for (uint64_t job = 1; job <= jobs; job++)
        for (uint64_t i = 0; i < TRACES_SPANS; i++)
            span(f, job, i);
    T_LE(feed_traces(f)->bytes, TRACES_BYTES);
    T_PTR(traces_spans(feed_traces(f), 1), NULL);
    T_EQ(traces_spans(feed_traces(f), jobs)->added, TRACES_SPANS);
    feed_free(f);
}

TEST(feed, a_curve_has_a_point_a_second_and_one_a_minute)
{
    struct feed *f = fresh();
    struct curve_point p = {0};
    const struct track *seconds, *minutes;

    for (unsigned i = 0; i < 2 * 3600; i++) {
        p.steps = i;
        feed_point(f, 4, &p, false);
        clock_fake_advance_ms(&at, 1000);
    }
    p.steps = 9999;
    feed_point(f, 4, &p, true);
    seconds = traces_curve(feed_traces(f), 4, false);
    minutes = traces_curve(feed_traces(f), 4, true);
    T_EQ(seconds->added - track_first(seconds) + 1, TRACES_SECONDS);
    // Two hours, begun within a minute; and the end.
    T_EQ(minutes->added, 120 + 1 + 1);
    T_EQ(((struct curve_point *)track_at(minutes, minutes->added))->steps,
         9999);
    feed_free(f);
}

// ---- the file

// Compares what the file gave with what went into it.
static void same_event(const struct event *e, const struct event *said)
{
    T_STR(e->text, "closure 12 runs again");
    T_STR(e->member, said->member);
    T_EQ(e->kind, said->kind);
    T_EQ(e->job, said->job);
    T_EQ(e->closure, said->closure);
    T_EQ(e->term, said->term);
    T_EQ(e->n, said->n);
}

static void same_point(const struct curve_point *got,
                       const struct curve_point *p)
{
    T_EQ(got->steps, p->steps);
    T_TRUE(got->loss == p->loss && got->accuracy == p->accuracy);
    T_EQ(got->samples, p->samples);
    T_TRUE(got->rate == p->rate);
    T_EQ(got->epoch, p->epoch);
    T_EQ(got->staleness_p50, p->staleness_p50);
    T_EQ(got->workers, p->workers);
}

TEST(feed, the_file_gives_events_and_minutes_back)
{
    const char *folder = t_tmpdir();
    struct curve_point p = {.steps = 5,
                            .loss = 0.25,
                            .accuracy = 0.5,
                            .samples = 64,
                            .rate = 1000.5,
                            .epoch = 2,
                            .staleness_p50 = 4,
                            .workers = 3};
    struct event said = {.kind = EVENT_CLOSURE_RETRIED,
                         .job = 2,
                         .uid = UINT64_C(0xfedcba9876543210),
                         .closure = 12,
                         .term = 3,
                         .n = 7,
                         .member = "w-1"};
    const struct curve_point *got;
    const struct event *e;
    const struct track *t;
    struct feed *f;

    clock_fake_init(&at, 1000000, 1000000);
    f = open_in(folder);
    feed_event(f, &said, "closure 12 runs again");
    say(f, 1, EVENT_JOB_RUNS, "one runs");
    feed_point(f, said.uid, &p, false);
    feed_point(f, 1, &p, false);
    p.loss = p.accuracy = (double)NAN; // of another one nothing is known
    feed_point(f, 7, &p, false);
    p.loss = 0.25;
    p.accuracy = 0.5;
    feed_forget(f, 1);
    feed_free(f);

    f = open_in(folder);
    T_EQ(count(f, 0), 2);
    e = events_after(feed_events(f), said.uid, 0);
    same_event(e, &said);
    t = traces_curve(feed_traces(f), said.uid, true);
    T_EQ(t->added, 1);
    got = track_at(t, 1);
    T_EQ(got->wall_us, e->wall_us);
    same_point(got, &p);
    t = traces_curve(feed_traces(f), 7, true);
    T_EQ(t->added, 1);
    T_TRUE(isnan(((const struct curve_point *)track_at(t, 1))->loss));
    T_TRUE(isnan(((const struct curve_point *)track_at(t, 1))->accuracy));
    T_PTR(traces_curve(feed_traces(f), 1, true), NULL);
    say(f, 1, EVENT_JOB_FINISHED, "one has finished");
    T_EQ(events_last(feed_events(f), 0, 1)->id, 3);
    feed_free(f);
}

TEST(feed, what_fell_out_is_not_in_the_file_either)
{
    const char *folder = t_tmpdir();
    struct feed *f;

    clock_fake_init(&at, 1000000, 1000000);
    f = open_in(folder);
    for (unsigned i = 0; i < EVENTS_OF_JOB + 3; i++)
        say(f, 2, EVENT_CLOSURE_LOST, "lost");
    feed_free(f);
    f = open_in(folder);
    T_EQ(count(f, 2), EVENTS_OF_JOB);
    T_EQ(events_after(feed_events(f), 2, 0)->id, 4);
    feed_free(f);
}

TEST(feed, a_file_that_is_none_is_put_aside)
{
    const char *folder = t_tmpdir();
    const char *path = t_path(FEED_FILE), *bad = t_path(FEED_FILE ".bad");
    struct feed *f;
    int fd;

    fd = open(path, O_CREAT | O_WRONLY, 0600);
    T_EQ(write(fd, "this is no database, whatever its name says.....", 48), 48);
    close(fd);
    clock_fake_init(&at, 1000000, 1000000);
    f = open_in(folder);
    say(f, 0, EVENT_MEMBER_CAME, "somebody came");
    feed_free(f);
    T_EQ(access(bad, F_OK), 0);
    f = open_in(folder);
    T_EQ(count(f, 0), 1);
    feed_free(f);
}

TEST(feed, without_a_file_it_is_in_memory)
{
    struct feed *f;

    clock_fake_init(&at, 1000000, 1000000);
    f = open_in("/nowhere/at/all");
    say(f, 0, EVENT_MEMBER_CAME, "somebody came");
    T_EQ(count(f, 0), 1);
    feed_free(f);
    // And without a feed nothing happens.
    say(NULL, 0, EVENT_MEMBER_CAME, "somebody came");
    feed_point(NULL, 1, &(struct curve_point){0}, true);
    feed_forget(NULL, 1);
    T_PTR(events_after(feed_events(NULL), 0, 0), NULL);
    T_PTR(traces_spans(feed_traces(NULL), 1), NULL);
}

TEST(feed, every_kind_has_a_word_of_its_own)
{
    for (unsigned i = 0; i < EVENT_KINDS_COUNT; i++) {
        enum event_kind kind;

        T_TRUE(event_find(event_word((enum event_kind)i), &kind));
        T_EQ(kind, i);
    }
}
