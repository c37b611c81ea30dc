// SPDX-License-Identifier: Apache-2.0
#include "client/cli/listing.h"

#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/help.h"
#include "proto/events.pb-c.h"
#include "proto/jobs.pb-c.h"
#include "proto/tasks.pb-c.h"
#include "tests/harness/t.h"

// An item of each kind, as it comes from a coordinator that says nothing of it.
static ProtobufCMessage *item_of(enum list_kind kind)
{
    static Sluice__V1__JobStatus job;
    static Sluice__V1__MemberStatus member;
    static Sluice__V1__Event event;
    static Sluice__V1__Checkpoint checkpoint;
    static Sluice__V1__ShardStatus shard;
    static Sluice__V1__TableStatus table;
    static Sluice__V1__TableFigures rows;
    static Sluice__V1__QuotaTenant tenant;
    static Sluice__V1__QuotaFigure figure;
    static Sluice__V1__TaskQueue queue;
    static Sluice__V1__TaskLine task;

    sluice__v1__job_status__init(&job);
    sluice__v1__member_status__init(&member);
    sluice__v1__event__init(&event);
    sluice__v1__checkpoint__init(&checkpoint);
    sluice__v1__shard_status__init(&shard);
    sluice__v1__table_status__init(&table);
    sluice__v1__table_figures__init(&rows);
    table.figures = &rows;
    sluice__v1__quota_tenant__init(&tenant);
    sluice__v1__quota_figure__init(&figure);
    tenant.jobs = tenant.shards = &figure;
    tenant.parameters = tenant.checkpoints = tenant.kept = &figure;
    tenant.rows = tenant.rows_disk = &figure;
    sluice__v1__task_queue__init(&queue);
    sluice__v1__task_line__init(&task);

    ProtobufCMessage *const items[LIST_KINDS] = {
        [LIST_JOBS] = &job.base,       [LIST_WORKERS] = &member.base,
        [LIST_SERVERS] = &member.base, [LIST_MEMBERS] = &member.base,
        [LIST_EVENTS] = &event.base,   [LIST_CHECKPOINTS] = &checkpoint.base,
        [LIST_SHARDS] = &shard.base,   [LIST_TENANTS] = &tenant.base,
        [LIST_QUEUES] = &queue.base,   [LIST_TASKS] = &task.base,
        [LIST_TABLES] = &table.base,
    };
    return items[kind];
}

static size_t columns(const struct list_format *l)
{
    size_t n = 0;

    while (l->head[n] != NULL)
        n++;
    return n;
}

TEST(list, each_kind_fills_its_columns_and_has_a_name)
{
    for (enum list_kind k = LIST_NONE + 1; k < LIST_KINDS; k++) {
        const struct list_format *l = &lists[k];
        char space[LIST_NAME];
        struct table t;

        T_ASSERT(columns(l) <= TABLE_COLUMNS);
        T_ASSERT(l->narrow > 0 && l->narrow <= columns(l));
        T_EQ(l->right >> columns(l), 0);
        T_EQ(l->name == NULL, l->name_is == NULL);
        if (l->name != NULL)
            T_ASSERT(l->name(space, item_of(k)) != NULL);
        if (l->row == NULL)
            continue;
        table_init(&t, l->right, l->head);
        l->row(&t, item_of(k));
        T_OK(t.rc);
        T_EQ(t.count, 2 * columns(l));
        table_release(&t);
    }
}

static void first_line(struct buf *text, const char *want)
{
    T_OK(buf_append_char(text, '\0'));
    *strchr((char *)text->data, '\n') = '\0';
    T_STR((const char *)text->data, want);
    buf_release(text);
}

TEST(list, wide_columns_come_behind_the_others)
{
    ProtobufCMessage *items[] = {item_of(LIST_CHECKPOINTS)};
    struct buf text = BUF_INIT;

    T_OK(list_table(&text, LIST_CHECKPOINTS, false, items, 1, t_err()));
    first_line(&text, "cut  epoch  steps  whole  kept  size  age  "
                      "manifest");
    T_OK(list_table(&text, LIST_CHECKPOINTS, true, items, 1, t_err()));
    first_line(&text, "cut  epoch  steps  whole  kept  size  age  "
                      "manifest  taken at  shards  psservers");
    T_OK(list_table(&text, LIST_CHECKPOINTS, true, items, 0, t_err()));
    T_EQ(text.len, 0);
}

// An older psserver does not say how many pushes it takes.
TEST(list, a_psserver_that_is_idle_differs_from_one_that_does_not_say)
{
    Sluice__V1__MemberStatus m = SLUICE__V1__MEMBER_STATUS__INIT;
    Sluice__V1__MemberUsage u = SLUICE__V1__MEMBER_USAGE__INIT;
    ProtobufCMessage *items[] = {&m.base};
    struct buf text = BUF_INIT;

    m.name = (char *)"ps-0";
    m.state = (char *)"ready";
    m.usage = &u;
    u.cpu_cores = 1.5;
    T_OK(list_table(&text, LIST_SERVERS, false, items, 1, t_err()));
    T_HAS(buf_text(&text), " 1.50         -         - ");
    buf_release(&text);
    u.known_pushes_per_second_case =
        SLUICE__V1__MEMBER_USAGE__KNOWN_PUSHES_PER_SECOND_PUSHES_PER_SECOND;
    T_OK(list_table(&text, LIST_SERVERS, false, items, 1, t_err()));
    T_HAS(buf_text(&text), " 1.50         0         - ");
    buf_release(&text);
    u.pushes_per_second = 1234.5;
    T_OK(list_table(&text, LIST_SERVERS, false, items, 1, t_err()));
    T_HAS(buf_text(&text), " 1.50     1,235         - ");
    buf_release(&text);
}

TEST(list, replicas_that_follow_differ_from_those_that_are_waited_for)
{
    Sluice__V1__MemberStatus m = SLUICE__V1__MEMBER_STATUS__INIT;
    Sluice__V1__ShardStatus s = SLUICE__V1__SHARD_STATUS__INIT;
    ProtobufCMessage *member = &m.base, *shard = &s.base;
    struct buf text = BUF_INIT;

    m.replicas = 3;
    s.psserver = (char *)"ps-0";
    s.replica = (char *)"ps-2";
    T_OK(list_table(&text, LIST_SHARDS, false, &shard, 1, t_err()));
    T_HAS(buf_text(&text), "ps-0 (ps-2)  ");
    buf_release(&text);
    s.follows = true;
    T_OK(list_table(&text, LIST_SHARDS, false, &shard, 1, t_err()));
    T_HAS(buf_text(&text), "ps-0 (ps-2 follows)  ");
    buf_release(&text);
    m.follows = 1;
    T_OK(list_table(&text, LIST_SERVERS, false, &member, 1, t_err()));
    T_HAS(buf_text(&text), "3 (1 follow)  ");
    buf_release(&text);
}

TEST(list, who_wrote_a_checkpoint_is_named_once)
{
    Sluice__V1__CheckpointShard shard[3], *shards[3];
    Sluice__V1__Checkpoint *c =
        (Sluice__V1__Checkpoint *)item_of(LIST_CHECKPOINTS);
    ProtobufCMessage *items[] = {&c->base};
    struct buf text = BUF_INIT;

    for (size_t i = 0; i < 3; i++) {
        sluice__v1__checkpoint_shard__init(&shard[i]);
        shard[i].psserver = (char *)(i == 1 ? "ps-1" : "ps-0");
        shards[i] = &shard[i];
    }
    c->n_shards = 3;
    c->shards = shards;
    T_OK(list_table(&text, LIST_CHECKPOINTS, true, items, 1, t_err()));
    T_OK(buf_append_char(&text, '\0'));
    T_ASSERT(strstr((const char *)text.data, "ps-0,ps-1\n") != NULL);
    buf_release(&text);
}

TEST(list, who_was_lost_is_told_below_with_when_and_how)
{
    Sluice__V1__MemberStatus ready = SLUICE__V1__MEMBER_STATUS__INIT,
                             aside = ready, lost = ready, missed = ready;
    Sluice__V1__MemberStatus *const list[] = {&ready, &aside, &lost, &missed};
    struct buf text = BUF_INIT;

    T_OK(list_reasons(&text, list, 1));
    T_EQ(text.len, 0);
    aside.name = (char *)"w-1";
    aside.reason = (char *)"its device is lost";
    lost.name = (char *)"w-2";
    lost.state = missed.state = (char *)"lost";
    lost.reason = (char *)"its connection ended";
    lost.heartbeat_age_ms = 125000;
    T_OK(list_reasons(&text, list, SL_COUNT(list)));
    T_STR(buf_text(&text), "\nw-1: its device is lost\n"
                           "w-2: lost 2m05s ago: its connection ended\n");
    buf_release(&text);
}

TEST(list, verbs_that_list_say_what_each_form_shows)
{
    struct buf text = BUF_INIT;

    T_OK(list_forms(&text, LIST_NONE));
    T_EQ(text.len, 0);
    T_OK(cli_forms(&text, cli_find("status")));
    T_STR(buf_text(&text),
          "Of members -o wide also shows host, pid, up and version, -o name "
          "prints the name alone, -o jsonl a line each. Of shards -o wide "
          "also shows skipped and known, -o jsonl a line each.");
    buf_release(&text);
    T_OK(cli_verb_help(&text, cli_find("quota")));
    T_ASSERT(strstr(buf_text(&text),
                    "\nOf tenants -o wide also shows rows on disk, -o name "
                    "prints the tenant alone, -o\njsonl a line each.\n\n"
                    "Exit status") != NULL);
    buf_release(&text);
    T_OK(cli_man(&text));
    T_ASSERT(strstr(buf_text(&text), "Of queues -o name prints the name") !=
             NULL);
    buf_release(&text);
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++)
        T_ASSERT(v->lists[0] == LIST_NONE || v->json);
}
