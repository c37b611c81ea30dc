// SPDX-License-Identifier: Apache-2.0
// The service of tasks over a real socket, on a real file: what was answered
// is there when it begins anew, a result counts once, and a disk that fails
// ends calls and nothing else.
#include "coordinator/tasks/tasks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "proto/wire.h"
#include "tests/unit/common/rpc_kit.h"

#define LEASE 2000
#define CLIENT 77

static const struct rpc_call_options plain = {.deadline_ms = DEADLINE_MS};

struct shop {
    struct clock_fake clock;
    struct tasks *tasks;
    struct world w;
    struct wire_arena arena; // of answers
};

static void begin(struct shop *s)
{
    struct tasks_options options = {
        .clock = &s->clock.clock, .folder = t_tmpdir(), .lease_ms = LEASE};
    struct rpc_table table;

    T_OK(tasks_new(&s->tasks, &options, t_err()));
    table = tasks_table(s->tasks);
    world_open(&s->w, table.methods, table.count, table.arg, true);
}

static void end(struct shop *s)
{
    tasks_close(s->tasks);
    world_close(&s->w);
    tasks_free(s->tasks);
}

static void shop_open(struct shop *s)
{
    memset(s, 0, sizeof(*s));
    clock_fake_init(&s->clock, 1000000, 1000000);
    wire_arena_init(&s->arena);
    begin(s);
}

static void shop_close(struct shop *s)
{
    end(s);
    wire_arena_release(&s->arena);
}

// A call and its answer, which holds until the next call.
static enum sl_err call(struct shop *s, const char *method,
                        const ProtobufCMessage *request,
                        const ProtobufCMessageDescriptor *of, void *out,
                        struct sl_error *err)
{
    struct rpc_body *body = NULL;
    struct rpc_msg msg;
    uint8_t *bytes;
    enum sl_err rc;
    size_t n;

    rpc_msg_init(&msg);
    T_OK(wire_msg(&msg, request));
    rc = rpc_call_sync(s->w.channel, method, &msg, &plain, &body, err);
    if (rc != SL_OK)
        return rc;
    n = rpc_body_slices(body)->bytes;
    bytes = sl_malloc(n);
    slices_copy(bytes, rpc_body_slices(body));
    wire_arena_reset(&s->arena);
    T_OK(wire_unpack_checked(out, &s->arena, of, bytes, n, NULL, t_err()));
    sl_free(bytes);
    rpc_body_free(body);
    return SL_OK;
}

// `count` tasks "square" from number `first`, each with its number as payload.
static enum sl_err schedule_up_to(struct shop *s, uint32_t limit,
                                  uint64_t first, size_t count,
                                  Sluice__V1__TaskScheduled **out,
                                  struct sl_error *err)
{
    Sluice__V1__TaskSchedule m = SLUICE__V1__TASK_SCHEDULE__INIT;
    Sluice__V1__TaskAsked one[8], *list[8];

    for (size_t i = 0; i < count; i++) {
        one[i] = (Sluice__V1__TaskAsked)SLUICE__V1__TASK_ASKED__INIT;
        one[i].name = "square";
        one[i].body =
            (ProtobufCBinaryData){1, (uint8_t *)"012345678" + (first + i) % 8};
        list[i] = &one[i];
    }
    m.queue = "q";
    m.client = CLIENT;
    m.first = first;
    m.tasks = list;
    m.n_tasks = count;
    m.limit = limit;
    return call(s, WIRE_TASK_SCHEDULE, &m.base,
                &sluice__v1__task_scheduled__descriptor, out, err);
}

static enum sl_err schedule(struct shop *s, uint64_t first, size_t count,
                            Sluice__V1__TaskScheduled **out,
                            struct sl_error *err)
{
    return schedule_up_to(s, 4, first, count, out, err);
}

static void scheduled(struct shop *s, uint64_t first, size_t count)
{
    Sluice__V1__TaskScheduled *reply = NULL;

    T_OK(schedule(s, first, count, &reply, t_err()));
    T_EQ(reply->accepted, count);
    T_STR(reply->full, "");
}

struct work {
    uint64_t process;
    uint64_t ended; // one result, its text
    const char *result, *error;
    uint64_t held[4];
    size_t held_count;
    unsigned take;
    bool leave;
};

static Sluice__V1__TaskWorkReply *work(struct shop *s, struct work w)
{
    Sluice__V1__TaskWork m = SLUICE__V1__TASK_WORK__INIT;
    Sluice__V1__TaskResult r = SLUICE__V1__TASK_RESULT__INIT;
    Sluice__V1__TaskResult *results[] = {&r};
    Sluice__V1__TaskWorkReply *reply = NULL;
    char *handlers[] = {"square"};

    r.id = w.ended;
    r.failed = w.error != NULL;
    r.error = (char *)(w.error != NULL ? w.error : "");
    if (w.result != NULL)
        r.result = (ProtobufCBinaryData){strlen(w.result), (uint8_t *)w.result};
    m.worker = "w";
    m.process = w.process;
    m.handlers = handlers;
    m.n_handlers = 1;
    m.ended = results;
    m.n_ended = w.ended != 0;
    m.held = w.held;
    m.n_held = w.held_count;
    m.take = w.take;
    m.leave = w.leave;
    T_OK(call(s, WIRE_TASK_WORK, &m.base,
              &sluice__v1__task_work_reply__descriptor, &reply, t_err()));
    return reply;
}

// The id of the one task that process takes; 0: none.
static uint64_t take(struct shop *s, uint64_t process)
{
    Sluice__V1__TaskWorkReply *r =
        work(s, (struct work){.process = process, .take = 1});

    return r->n_tasks == 1 ? r->tasks[0]->id : 0;
}

static enum sl_err ask_ended(struct shop *s, uint64_t forget,
                             Sluice__V1__TaskEndedReply **out,
                             struct sl_error *err)
{
    Sluice__V1__TaskEndedRequest m = SLUICE__V1__TASK_ENDED_REQUEST__INIT;

    m.queue = "q";
    m.client = CLIENT;
    m.max = 1024;
    m.forget = &forget;
    m.n_forget = forget != 0;
    return call(s, WIRE_TASK_ENDED, &m.base,
                &sluice__v1__task_ended_reply__descriptor, out, err);
}

static Sluice__V1__TaskEndedReply *ended(struct shop *s, uint64_t forget)
{
    Sluice__V1__TaskEndedReply *reply = NULL;

    T_OK(ask_ended(s, forget, &reply, t_err()));
    return reply;
}

static Sluice__V1__TaskQueue *queue(struct shop *s)
{
    Sluice__V1__TaskQueuesRequest m = SLUICE__V1__TASK_QUEUES_REQUEST__INIT;
    Sluice__V1__TaskQueuesReply *reply = NULL;

    T_OK(call(s, WIRE_TASK_QUEUES, &m.base,
              &sluice__v1__task_queues_reply__descriptor, &reply, t_err()));
    T_ASSERT(reply->n_queues == 1);
    return reply->queues[0];
}

static void says(const Sluice__V1__TaskEnded *t, uint64_t number, int state,
                 const char *result)
{
    T_EQ(t->number, number);
    T_EQ(t->state, state);
    T_EQ(t->result.len, strlen(result));
    T_MEM(t->result.data, result, strlen(result));
}

TEST(tasks, a_task_goes_to_a_worker_and_its_result_comes_back)
{
    struct shop s;
    Sluice__V1__TaskWorkReply *given;
    Sluice__V1__TaskEndedReply *back;
    uint64_t id;

    shop_open(&s);
    scheduled(&s, 1, 2);
    given = work(&s, (struct work){.process = 1, .take = 1});
    T_ASSERT(given->n_tasks == 1);
    T_STR(given->tasks[0]->name, "square");
    T_EQ(given->tasks[0]->attempt, 1);
    T_EQ(given->lease_ms, LEASE);
    T_MEM(given->tasks[0]->body.data, "1", 1);
    id = given->tasks[0]->id;
    work(&s, (struct work){.process = 1, .ended = id, .result = "one"});
    back = ended(&s, 0);
    T_ASSERT(back->n_tasks == 1);
    says(back->tasks[0], 1, SLUICE__V1__TASK_STATE__TASK_DONE, "one");
    T_EQ(ended(&s, 1)->n_tasks, 0);
    T_EQ(queue(&s)->pending, 1);
    T_EQ(queue(&s)->done, 0);
    shop_close(&s);
}

TEST(tasks, a_repeated_call_schedules_nothing_twice)
{
    struct shop s;

    shop_open(&s);
    scheduled(&s, 1, 2);
    scheduled(&s, 1, 3); // its answer was lost; one more behind it
    T_EQ(queue(&s)->pending, 3);
    work(&s, (struct work){.process = 1, .ended = 1, .result = "x"});
    T_EQ(ended(&s, 1)->n_tasks, 0);
    scheduled(&s, 1, 1); // one that comes late, of a task that is forgotten
    T_EQ(queue(&s)->pending, 2);
    shop_close(&s);
}

// Nothing but that it is us.
static enum sl_err go_on(struct shop *s, uint64_t session, bool resume,
                         Sluice__V1__TaskScheduled **out, struct sl_error *err)
{
    Sluice__V1__TaskSchedule m = SLUICE__V1__TASK_SCHEDULE__INIT;

    m.queue = "q";
    m.client = CLIENT;
    m.first = 1;
    m.session = session;
    m.resume = resume;
    return call(s, WIRE_TASK_SCHEDULE, &m.base,
                &sluice__v1__task_scheduled__descriptor, out, err);
}

TEST(tasks, one_session_at_a_time_goes_on_as_a_client)
{
    struct shop s;
    Sluice__V1__TaskScheduled *reply = NULL;
    struct sl_error err = SL_ERROR_INIT;

    shop_open(&s);
    T_OK(go_on(&s, 5, true, &reply, t_err()));
    T_EQ(reply->last, 0);
    T_FAILS(SL_ESTALE, schedule(&s, 1, 1, &reply, &err)); // of session 0
    T_HAS(err.text, "another process");
    T_OK(go_on(&s, 0, true, &reply, t_err()));
    scheduled(&s, 1, 3);
    work(&s, (struct work){.process = 1, .ended = 2, .result = "x"});
    T_EQ(ended(&s, 2)->n_tasks, 0);
    T_OK(go_on(&s, 6, true, &reply, t_err()));
    T_EQ(reply->last, 3);
    T_EQ(reply->n_left, 2);
    end(&s);
    begin(&s); // it is remembered
    T_FAILS(SL_ESTALE, schedule(&s, 4, 1, &reply, &err));
    T_OK(go_on(&s, 6, false, &reply, t_err()));
    shop_close(&s);
}

TEST(tasks, the_first_result_counts)
{
    struct shop s;
    uint64_t id;

    shop_open(&s);
    scheduled(&s, 1, 1);
    id = take(&s, 1);
    work(&s, (struct work){.process = 2, .ended = id, .result = "first"});
    work(&s, (struct work){.process = 1, .ended = id, .result = "second"});
    work(&s, (struct work){.process = 3, .ended = id, .error = "third"});
    says(ended(&s, 0)->tasks[0], 1, SLUICE__V1__TASK_STATE__TASK_DONE, "first");
    T_EQ(ended(&s, 1)->n_tasks, 0);
    work(&s, (struct work){.process = 1, .ended = id, .result = "late"});
    T_EQ(ended(&s, 0)->n_tasks, 0);
    shop_close(&s);
}

TEST(tasks, what_a_handler_says_is_told_without_a_retry)
{
    struct shop s;
    Sluice__V1__TaskEndedReply *back;

    shop_open(&s);
    scheduled(&s, 1, 1);
    work(&s, (struct work){
                 .process = 1, .ended = take(&s, 1), .error = "no such file"});
    back = ended(&s, 0);
    T_ASSERT(back->n_tasks == 1);
    says(back->tasks[0], 1, SLUICE__V1__TASK_STATE__TASK_FAILED, "");
    T_STR(back->tasks[0]->error, "no such file");
    T_EQ(take(&s, 1), 0);
    shop_close(&s);
}

// So much time, in which everybody else was heard of.
static void pass(struct shop *s, uint64_t ms)
{
    clock_fake_advance_ms(&s->clock, ms);
    (void)queue(s);
}

TEST(tasks, a_silent_workers_task_is_done_by_another_and_fails_at_the_third)
{
    struct shop s;
    Sluice__V1__TaskEndedReply *back;

    shop_open(&s);
    scheduled(&s, 1, 1);
    for (uint64_t process = 1; process <= 3; process++) {
        T_EQ(take(&s, process), 1);
        T_EQ(take(&s, 9), 0);
        pass(&s, LEASE / 2);
        T_EQ(queue(&s)->leased, 1);
        pass(&s, LEASE / 2);
        T_EQ(queue(&s)->leased, 0);
    }
    back = ended(&s, 0);
    T_ASSERT(back->n_tasks == 1);
    T_EQ(back->tasks[0]->losses, 3);
    T_HAS(back->tasks[0]->error, "took down 3 workers");
    shop_close(&s);
}

TEST(tasks, an_answer_that_was_lost_is_given_again)
{
    struct shop s;

    shop_open(&s);
    scheduled(&s, 1, 2);
    T_EQ(take(&s, 1), 1);
    T_EQ(take(&s, 1), 1); // it holds nothing, it says
    T_EQ(work(&s,
              (struct work){
                  .process = 1, .held = {1}, .held_count = 1, .take = 1})
             ->tasks[0]
             ->id,
         2);
    T_EQ(queue(&s)->leased, 2);
    work(&s, (struct work){
                 .process = 1, .held = {1}, .held_count = 1, .leave = true});
    T_EQ(queue(&s)->pending, 2);
    T_EQ(take(&s, 2), 1);
    shop_close(&s);
}

TEST(tasks, what_was_answered_is_there_when_it_begins_anew)
{
    struct shop s;
    Sluice__V1__TaskWorkReply *r;

    shop_open(&s);
    scheduled(&s, 1, 4);
    work(&s,
         (struct work){.process = 1, .ended = take(&s, 1), .result = "kept"});
    T_EQ(take(&s, 1), 2);
    end(&s);
    begin(&s);
    T_EQ(queue(&s)->pending, 3);
    T_EQ(queue(&s)->limit, 4);
    says(ended(&s, 0)->tasks[0], 1, SLUICE__V1__TASK_STATE__TASK_DONE, "kept");
    // Who holds one goes on with it, and nobody else gets it.
    r = work(&s, (struct work){.process = 1, .held = {2}, .held_count = 1});
    T_EQ(r->n_gone, 0);
    T_EQ(take(&s, 2), 3);
    scheduled(&s, 1, 4); // numbers are remembered
    T_EQ(ended(&s, 1)->n_tasks, 0);
    end(&s);
    begin(&s);
    scheduled(&s, 1, 4); // of a forgotten one too
    T_EQ(queue(&s)->pending, 3);
    scheduled(&s, 5, 1);
    work(&s, (struct work){.process = 1, .ended = 5, .result = "five"});
    says(ended(&s, 0)->tasks[0], 5, SLUICE__V1__TASK_STATE__TASK_DONE, "five");
    shop_close(&s);
}

TEST(tasks, a_full_queue_says_so_until_there_is_room)
{
    struct shop s;
    Sluice__V1__TaskScheduled *reply = NULL;

    shop_open(&s);
    T_OK(schedule(&s, 1, 6, &reply, t_err()));
    T_EQ(reply->accepted, 4);
    T_HAS(reply->full, "queue 'q' keeps 4 tasks, and may keep 4");
    work(&s, (struct work){.process = 1, .ended = 1, .result = "x"});
    T_OK(schedule(&s, 5, 2, &reply, t_err()));
    T_EQ(reply->accepted, 0);
    T_EQ(ended(&s, 1)->n_tasks, 0);
    T_OK(schedule(&s, 5, 2, &reply, t_err()));
    T_EQ(reply->accepted, 1);
    shop_close(&s);
}

TEST(tasks, a_cancelled_task_ends_and_its_worker_is_told)
{
    struct shop s;
    Sluice__V1__TaskCancel m = SLUICE__V1__TASK_CANCEL__INIT;
    Sluice__V1__TaskCancelReply *reply = NULL;
    Sluice__V1__TaskWorkReply *r;
    uint64_t numbers[] = {1, 2, 9};

    shop_open(&s);
    scheduled(&s, 1, 2);
    T_EQ(take(&s, 1), 1);
    m.queue = "q";
    m.client = CLIENT;
    m.numbers = numbers;
    m.n_numbers = 3;
    T_OK(call(&s, WIRE_TASK_CANCEL, &m.base,
              &sluice__v1__task_cancel_reply__descriptor, &reply, t_err()));
    T_EQ(reply->cancelled, 2);
    r = work(&s, (struct work){.process = 1, .held = {1}, .held_count = 1});
    T_ASSERT(r->n_gone == 1);
    T_EQ(r->gone[0], 1);
    work(&s, (struct work){.process = 1, .ended = 1, .result = "x"});
    T_EQ(ended(&s, 0)->n_tasks, 2);
    says(ended(&s, 0)->tasks[0], 1, SLUICE__V1__TASK_STATE__TASK_CANCELLED, "");
    shop_close(&s);
}

TEST(tasks, a_deleted_queue_is_said_to_be_none)
{
    struct shop s;
    Sluice__V1__TaskDelete m = SLUICE__V1__TASK_DELETE__INIT;
    Sluice__V1__TaskDeleteReply *reply = NULL;
    Sluice__V1__TaskEndedReply *back = NULL;
    struct sl_error err = SL_ERROR_INIT;

    shop_open(&s);
    scheduled(&s, 1, 3);
    m.queue = "q";
    T_OK(call(&s, WIRE_TASK_DELETE, &m.base,
              &sluice__v1__task_delete_reply__descriptor, &reply, t_err()));
    T_EQ(reply->tasks, 3);
    T_FAILS(SL_ENOENT, ask_ended(&s, 0, &back, &err));
    T_HAS(err.text, "no queue 'q'");
    T_FAILS(SL_ENOENT,
            call(&s, WIRE_TASK_DELETE, &m.base,
                 &sluice__v1__task_delete_reply__descriptor, &reply, &err));
    shop_close(&s);
}

TEST(tasks, a_payload_over_the_limit_is_refused)
{
    struct shop s;
    Sluice__V1__TaskSchedule m = SLUICE__V1__TASK_SCHEDULE__INIT;
    Sluice__V1__TaskAsked one = SLUICE__V1__TASK_ASKED__INIT, *list[] = {&one};
    Sluice__V1__TaskScheduled *reply = NULL;
    struct sl_error err = SL_ERROR_INIT;

    shop_open(&s);
    one.name = "square";
    one.body = (ProtobufCBinaryData){WIRE_TASK_BYTES + 1,
                                     sl_calloc(1, WIRE_TASK_BYTES + 1)};
    m.queue = "q";
    m.client = CLIENT;
    m.first = 1;
    m.tasks = list;
    m.n_tasks = 1;
    T_FAILS(SL_EINVAL,
            call(&s, WIRE_TASK_SCHEDULE, &m.base,
                 &sluice__v1__task_scheduled__descriptor, &reply, &err));
    T_HAS(err.text, "TaskAsked.body");
    one.body.len--;
    T_OK(call(&s, WIRE_TASK_SCHEDULE, &m.base,
              &sluice__v1__task_scheduled__descriptor, &reply, t_err()));
    sl_free(one.body.data);
    shop_close(&s);
}

TEST(tasks, a_call_that_waits_is_answered_when_something_ends)
{
    struct shop s;
    Sluice__V1__TaskEndedRequest m = SLUICE__V1__TASK_ENDED_REQUEST__INIT;
    struct outcome o;
    struct rpc_msg msg;

    shop_open(&s);
    scheduled(&s, 1, 2);
    m.queue = "q";
    m.client = CLIENT;
    m.max = 1;
    m.wait_ms = 30000;
    for (int i = 0; i < 2;
         i++) { // the second time there is nothing to wait for
        outcome_init(&o);
        rpc_msg_init(&msg);
        T_OK(wire_msg(&msg, &m.base));
        rpc_call_start(s.w.channel, WIRE_TASK_ENDED, &msg, &plain, on_outcome,
                       &o, NULL);
        if (i == 0)
            work(&s, (struct work){.process = 1, .ended = 2, .result = "two"});
        wait_for(&o.done);
        T_EQ(o.code, SL_OK);
        T_GT(o.bytes, 5);
    }
    // One that waits for nothing is answered at the end.
    m.after = 1;
    outcome_init(&o);
    rpc_msg_init(&msg);
    T_OK(wire_msg(&msg, &m.base));
    rpc_call_start(s.w.channel, WIRE_TASK_ENDED, &msg, &plain, on_outcome, &o,
                   NULL);
    (void)queue(&s);
    shop_close(&s);
    wait_for(&o.done);
    T_NE(o.code, SL_OK);
}

// Errors have no share in a queue's bytes, and a message has its bound.
TEST(tasks, many_long_errors_come_in_several_answers)
{
    struct shop s;
    char *words = sl_calloc(1, 4096);
    uint64_t id = 0;
    Sluice__V1__TaskEndedReply *back;

    shop_open(&s);
    memset(words, 'x', 4095);
    for (uint64_t first = 1; first < 1024; first += 8) {
        Sluice__V1__TaskScheduled *reply = NULL;

        T_OK(schedule_up_to(&s, 2000, first, 8, &reply, t_err()));
        for (int i = 0; i < 8; i++)
            work(&s,
                 (struct work){.process = 1, .ended = ++id, .error = words});
    }
    back = ended(&s, 0);
    T_GT(back->n_tasks, 0);
    T_LT(back->n_tasks, 100 + 512);
    shop_close(&s);
    sl_free(words);
}

// As a disk without space: the file may not grow.
TEST(tasks, a_disk_that_fails_ends_calls_and_is_tried_again)
{
    struct shop s;
    struct rlimit before, none;
    Sluice__V1__TaskScheduled *reply = NULL;
    struct sl_error err = SL_ERROR_INIT;

    signal(SIGXFSZ, SIG_IGN);
    shop_open(&s);
    scheduled(&s, 1, 2);
    T_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 1;
    T_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    T_NE(schedule(&s, 3, 1, &reply, &err), SL_OK);
    T_HAS(err.text, "tasks: ");
    T_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    T_NE(schedule(&s, 3, 1, &reply, &err), SL_OK); // not yet
    clock_fake_advance_ms(&s.clock, 500);
    scheduled(&s, 3, 1);
    T_EQ(queue(&s)->pending, 3); // and what was there is
    shop_close(&s);
}
