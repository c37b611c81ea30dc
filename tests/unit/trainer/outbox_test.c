// SPDX-License-Identifier: Apache-2.0
// What a worker says of its leases: at once, several together, or later.
#include "trainer/attend/outbox.h"

#include "tests/harness/t.h"

#define MOST 600

struct line { // what came out: a number per report, in order
    bool broken;
    unsigned messages, count;
    uint64_t closure[MOST];
};

static bool take(void *arg, const Sluice__V1__AttendUp *up)
{
    struct line *l = arg;

    if (l->broken)
        return false;
    T_OK(wire_check(&up->base, t_err()));
    l->messages++;
    switch (up->kind_case) {
    case SLUICE__V1__ATTEND_UP__KIND_COMPLETE:
        l->closure[l->count++] = up->complete->closure;
        break;
    case SLUICE__V1__ATTEND_UP__KIND_COMPLETES:
        for (size_t i = 0; i < up->completes->n_complete; i++)
            l->closure[l->count++] = up->completes->complete[i]->closure;
        break;
    case SLUICE__V1__ATTEND_UP__KIND_HAND_BACK:
        l->closure[l->count++] = up->hand_back->closure;
        break;
    default:
        T_FAIL("a message of kind %d", (int)up->kind_case);
    }
    return true;
}

static Sluice__V1__AttendUp *copy(const Sluice__V1__AttendUp *up)
{
    ProtobufCMessage *out = NULL;

    T_OK(wire_dup(&out, &up->base));
    return (Sluice__V1__AttendUp *)out;
}

static Sluice__V1__AttendUp *complete(uint64_t closure)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Complete m = SLUICE__V1__COMPLETE__INIT;
    Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
    Sluice__V1__StepMetrics metrics = SLUICE__V1__STEP_METRICS__INIT;

    m.job = 1;
    m.closure = closure;
    m.attempt = &attempt;
    m.metrics = &metrics;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_COMPLETE;
    up.complete = &m;
    return copy(&up);
}

static Sluice__V1__AttendUp *hand_back(uint64_t closure)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__HandBack m = SLUICE__V1__HAND_BACK__INIT;
    Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;

    m.job = 1;
    m.closure = closure;
    m.attempt = &attempt;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HAND_BACK;
    up.hand_back = &m;
    return copy(&up);
}

static struct loop *loop;
static struct outbox *outbox;
static struct line line;

static void begin(void)
{
    line = (struct line){.broken = false};
    T_OK(loop_new(&loop, t_err()));
    T_OK(outbox_new(&outbox, loop, sl_clock_real(), take, &line));
}

static void end(uint64_t reports)
{
    outbox_free(outbox);
    loop_free(loop);
    T_EQ(line.count, reports);
    for (unsigned i = 0; i < line.count; i++)
        T_EQ(line.closure[i], i);
}

TEST(outbox, what_is_held_goes_in_one_message_before_what_is_said)
{
    begin();
    outbox_say(outbox, complete(0));
    T_EQ(line.messages, 1);
    for (uint64_t i = 1; i < 4; i++)
        outbox_hold(outbox, complete(i), OUTBOX_WAIT_MS);
    T_EQ(line.messages, 1);
    outbox_say(outbox, hand_back(4));
    T_EQ(line.messages, 3);
    outbox_hold(outbox, complete(5), OUTBOX_WAIT_MS);
    outbox_hold(outbox, hand_back(6), OUTBOX_WAIT_MS); // only completions wait
    outbox_hold(outbox, NULL, OUTBOX_WAIT_MS);
    outbox_say(outbox, NULL);
    T_EQ(line.messages, 5);
    end(7);
}

TEST(outbox, a_full_message_goes)
{
    begin();
    for (uint64_t i = 0; i < OUTBOX_HELD; i++)
        outbox_hold(outbox, complete(i), OUTBOX_WAIT_MS);
    T_EQ(line.messages, 1);
    outbox_flush(outbox); // nothing is left
    T_EQ(line.messages, 1);
    end(OUTBOX_HELD);
}

TEST(outbox, what_is_held_goes_by_itself)
{
    begin();
    outbox_hold(outbox, complete(0), OUTBOX_WAIT_MS);
    outbox_hold(outbox, complete(1), OUTBOX_WAIT_MS);
    while (line.count == 0)
        loop_turn(loop);
    T_EQ(line.messages, 1);
    outbox_hold(outbox, complete(2), OUTBOX_WAIT_MS); // and the next, too
    while (line.count == 2)
        loop_turn(loop);
    end(3);
}

// Nor for longer than any of them may.
TEST(outbox, what_waits_for_little_takes_the_others_along)
{
    begin();
    outbox_hold(outbox, complete(0), 3600000);
    outbox_hold(outbox, complete(1), OUTBOX_WAIT_MS);
    outbox_hold(outbox, complete(2), 3600000);
    while (line.count == 0)
        loop_turn(loop);
    T_EQ(line.messages, 1);
    end(3);
}

TEST(outbox, without_a_stream_reports_are_kept_in_order)
{
    begin();
    line.broken = true;
    outbox_say(outbox, complete(0));
    outbox_hold(outbox, complete(1), OUTBOX_WAIT_MS);
    outbox_hold(outbox, complete(2), OUTBOX_WAIT_MS);
    outbox_flush(outbox);
    outbox_attached(outbox); // it breaks at once
    T_EQ(line.count, 0);
    line.broken = false;
    outbox_attached(outbox);
    outbox_attached(outbox);
    end(3);
}

TEST(outbox, more_than_it_keeps_are_dropped_oldest_first)
{
    begin();
    line.broken = true;
    for (uint64_t i = 0; i < OUTBOX_KEPT + 5; i++)
        outbox_say(outbox, complete(i < 5 ? 77 : i - 5));
    line.broken = false;
    outbox_attached(outbox);
    end(OUTBOX_KEPT);
}

TEST(outbox, nothing_leaks_that_was_never_said)
{
    begin();
    line.broken = true;
    outbox_say(outbox, complete(0));
    outbox_hold(outbox, complete(1), OUTBOX_WAIT_MS);
    end(0);
}
