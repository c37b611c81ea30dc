// SPDX-License-Identifier: Apache-2.0
// Single situations, through the coordinator's own door (see world.h).
#include "coordinator/core/coord_inner.h"

#include <stdio.h>
#include <string.h>

#include "common/base/storemark.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/journal/journal_manifest.h"
#include "tests/harness/lease.h"
#include "tests/unit/coordinator/etcd_kit.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000 };

static struct sl_error err; // of the call that a test looks at

static struct world *begin(void)
{
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    return &w;
}

// ---- attach

static enum sl_err hello(struct world *w, uint64_t stream, const char *name,
                         uint64_t process, uint32_t protocol)
{
    Sluice__V1__Hello h = SLUICE__V1__HELLO__INIT;

    h.role = SLUICE__V1__ROLE__ROLE_WORKER;
    h.name = (char *)name;
    h.process = process;
    h.protocol = protocol;
    return coord_attach(w->coord, stream, &h, MEMBER_LOCAL, &err);
}

TEST(coord, another_protocol_is_told_which_one_is_spoken)
{
    struct world *w = begin();

    T_FAILS(SL_ENOTSUP, hello(w, 99, "w", 1, WIRE_PROTOCOL + 1));
    T_HAS(err.text, "speaks protocol 2");
    world_release(w);
}

// Those that are lost, or those that are not.
static unsigned count(struct world *w, bool lost)
{
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply = NULL;
    unsigned found = 0;

    T_OK(status_cluster(w->coord, &request, &reply, t_err()));
    for (size_t i = 0; i < reply->n_members; i++)
        found += (strcmp(reply->members[i]->state, "lost") == 0) == lost;
    wire_free(&reply->base);
    return found;
}

static unsigned members(struct world *w)
{
    return count(w, false);
}

TEST(coord, the_newest_process_of_a_name_wins_and_keeps_it)
{
    struct world *w = begin();

    T_OK(hello(w, 91, "w", 1, WIRE_PROTOCOL));
    T_OK(hello(w, 92, "w", 2, WIRE_PROTOCOL)); // newer: 1 is sent away
    T_EQ(members(w), 1);
    T_FAILS(SL_EEXIST, hello(w, 93, "w", 1, WIRE_PROTOCOL)); // 1 dials again
    T_HAS(err.text, "newer process");
    T_EQ(members(w), 1);
    // The same process on a new stream.
    T_OK(hello(w, 94, "w", 2, WIRE_PROTOCOL));
    coord_detach(w->coord, 94);
    T_OK(hello(w, 95, "w", 1, WIRE_PROTOCOL)); // the name is free again
    T_EQ(members(w), 1);
    world_release(w);
}

static enum sl_err claim(struct world *w, uint64_t stream, uint64_t process,
                         enum member_claim by)
{
    Sluice__V1__Hello h = SLUICE__V1__HELLO__INIT;

    h.role = SLUICE__V1__ROLE__ROLE_WORKER;
    h.name = "w";
    h.host = "old.example";
    h.process = process;
    h.protocol = WIRE_PROTOCOL;
    return coord_attach(w->coord, stream, &h, by, &err);
}

TEST(coord, a_certificate_for_any_name_takes_none_that_is_heard_of)
{
    struct world *w = begin();

    T_OK(claim(w, 91, 1, MEMBER_ANY));
    T_FAILS(SL_EEXIST, claim(w, 92, 2, MEMBER_ANY));
    T_HAS(err.text, "worker 'w' is attached from host old.example");
    T_HAS(err.text, "sluice cert issue --role worker --name w");
    T_OK(claim(w, 93, 1, MEMBER_ANY)); // the same process dials again
    coord_detach(w->coord, 93);        // killed
    T_OK(claim(w, 94, 3, MEMBER_ANY)); // and started again
    world_pass(w, 1200);               // its machine is gone
    T_OK(claim(w, 95, 4, MEMBER_ANY)); // and another one there
    T_FAILS(SL_EEXIST, claim(w, 96, 3, MEMBER_ANY));
    T_OK(claim(w, 97, 5, MEMBER_OWN)); // whose name it is
    T_FAILS(SL_EEXIST, claim(w, 98, 6, MEMBER_ANY));
    T_EQ(members(w), 1);
    world_release(w);
}

// "STATE REASON SHARDS AGE_MS HOST" of a member; "": it is not told of.
static const char *told(struct world *w, const char *name)
{
    static char text[600];
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply = NULL;

    text[0] = '\0';
    T_OK(status_cluster(w->coord, &request, &reply, t_err()));
    T_OK(wire_check(&reply->base, t_err()));
    for (size_t i = 0; i < reply->n_members; i++) {
        const Sluice__V1__MemberStatus *m = reply->members[i];

        if (strcmp(m->name, name) == 0)
            snprintf(text, sizeof(text), "%s, %s, %u, %.0f, %s", m->state,
                     m->reason, m->shards, m->heartbeat_age_ms, m->host);
    }
    wire_free(&reply->base);
    return text;
}

TEST(coord, a_lost_worker_is_told_for_an_hour_or_until_its_name_comes_again)
{
    struct world *w = begin();

    T_OK(hello(w, 91, "w", 1, WIRE_PROTOCOL));
    coord_detach(w->coord, 91);
    world_pass(w, 500);
    T_STR(told(w, "w"), "lost, its connection ended, 0, 500, ");
    T_EQ(w->coord->members.workers, 0);
    T_OK(hello(w, 92, "w", 2, WIRE_PROTOCOL));
    T_STR(told(w, "w"), "ready, , 0, 0, ");
    T_EQ(members(w), 1);

    while (w->coord->members.workers > 0) // it falls silent
        world_pass(w, 500);
    T_HAS(told(w, "w"), "lost, it sent no heartbeat for ");
    world_pass(w, MEMBERS_LOST_MS);
    T_EQ(count(w, true), 0);
    world_release(w);
}

TEST(coord, of_lost_workers_the_newest_hundred_are_remembered)
{
    struct world *w = begin();
    char name[16];

    for (unsigned i = 0; i < 3 * MEMBERS_LOST_MOST; i++) {
        snprintf(name, sizeof(name), "w-%u", i);
        T_OK(hello(w, 1000 + i, name, i + 1, WIRE_PROTOCOL));
        coord_detach(w->coord, 1000 + i);
    }
    T_EQ(count(w, true), MEMBERS_LOST_MOST);
    T_HAS(told(w, name), "lost");
    T_STR(told(w, "w-199"), "");
    world_release(w);
}

// For how long it may be away is not known.
TEST(coord, a_lost_psserver_is_told_while_shards_wait_for_it)
{
    struct world *w = begin();
    const char *was = "lost, its connection ended, 1, ";

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    world_kill(w, &w->members[0]);
    world_pass(w, 500);
    T_HAS(told(w, "ps-0"), was);
    world_kill(w, &w->members[1]);
    world_pass(w, 2 * MEMBERS_LOST_MS);
    T_HAS(told(w, "ps-0"), was);
    world_restart(w, &w->members[0]);
    world_restart(w, &w->members[1]);
    T_HAS(told(w, "ps-0"), "ready, , ");
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(coord, a_worker_that_is_away_says_so_before_anything_is_leased_to_it)
{
    struct world *w = begin();
    Sluice__V1__Hello h = SLUICE__V1__HELLO__INIT;
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply = NULL;

    h.role = SLUICE__V1__ROLE__ROLE_WORKER;
    h.name = (char *)"w";
    h.process = 1;
    h.protocol = WIRE_PROTOCOL;
    h.away = (char *)"its device is lost";
    T_OK(coord_attach(w->coord, 91, &h, MEMBER_LOCAL, &err));
    T_OK(status_cluster(w->coord, &request, &reply, t_err()));
    T_EQ(reply->n_members, 1);
    T_STR(reply->members[0]->state, "draining"); // dispatch leases it nothing
    T_STR(reply->members[0]->reason, "its device is lost");
    wire_free(&reply->base);
    h.away = (char *)"";
    T_OK(coord_attach(w->coord, 92, &h, MEMBER_LOCAL, &err)); // it is back
    T_OK(status_cluster(w->coord, &request, &reply, t_err()));
    T_EQ(reply->n_members, 1);
    T_STR(reply->members[0]->state, "ready");
    T_STR(reply->members[0]->reason, "");
    wire_free(&reply->base);
    world_release(w);
}

// ---- the list of members, in turns

static void attach(struct world *w, uint64_t stream)
{
    char name[32];

    snprintf(name, sizeof(name), "x-%llu", (unsigned long long)stream);
    T_OK(hello(w, stream, name, stream, WIRE_PROTOCOL));
}

// Makes the list; after its first turn the stream `goes` ends and `comes`
// begins.
static Sluice__V1__ClusterReply *list_in_turns(struct world *w, uint64_t goes,
                                               uint64_t comes)
{
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply = NULL;
    size_t had = 0, turns = 0;

    do {
        T_OK(status_cluster_turn(w->coord, &request, &reply, t_err()));
        T_LE(reply->n_members, had + STATUS_CLUSTER_TURN);
        had = reply->n_members;
        if (turns++ == 0) {
            coord_detach(w->coord, goes);
            attach(w, comes);
        }
    } while (status_cluster_goes_on(reply));
    T_GT(turns, 3);
    return reply;
}

TEST(coord, a_turn_lists_some_members_and_the_next_goes_on_behind_them)
{
    struct world *w = begin();
    Sluice__V1__ClusterReply *reply;
    uint32_t shards = 0, strangers = 0;
    uint64_t last = 0;

    world_people(w, 2, 1);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    for (uint64_t i = 0; i < 2 * STATUS_CLUSTER_TURN; i++)
        attach(w, 1000 + i);
    // One that is not listed yet goes, and another comes.
    reply = list_in_turns(w, 1000 + STATUS_CLUSTER_TURN + 9, 9000);
    for (size_t i = 0; i < reply->n_members; i++) {
        const Sluice__V1__MemberStatus *m = reply->members[i];
        unsigned long long n;

        shards += m->shards;
        if (sscanf(m->name, "x-%llu", &n) != 1 || strcmp(m->state, "lost") == 0)
            continue;
        T_GT(n, last);
        last = n;
        strangers++;
    }
    T_EQ(last, 9000);
    T_EQ(strangers, 2 * STATUS_CLUSTER_TURN);
    T_EQ(shards, jobs_get(w->coord, 1)->shards.count);
    wire_free(&reply->base);
    world_release(w);
}

// ---- submit

TEST(coord, the_same_request_is_the_same_job_also_after_a_restart)
{
    struct world *w = begin();
    uint64_t job = world_submit(w, world_graph_job);

    T_EQ(world_submit(w, world_graph_job), job);
    world_stop_coord(w);
    world_start_coord(w);
    T_EQ(world_submit(w, world_graph_job), job);
    world_release(w);
}

TEST(coord, the_same_request_with_another_spec_is_refused)
{
    Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
    Sluice__V1__SubmitReply *reply = NULL;
    Sluice__V1__JobRequest get = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status = NULL;
    struct world *w = begin();

    world_submit(w, world_graph_job);
    get.id = "life"; // by name
    get.spec = true;
    T_OK(coord_get(w->coord, &get, &status, t_err()));
    T_STR(status->id, "j-1");
    request.spec = status->spec;
    request.request_id = "r-1";
    T_OK(coord_submit(w->coord, &request, &reply, t_err())); // as checked
    T_TRUE(reply->existed);
    wire_free(&reply->base);
    status->spec->train->epochs++;
    T_FAILS(SL_EEXIST, coord_submit(w->coord, &request, &reply, t_err()));
    request.dry_run = true;
    T_OK(coord_submit(w->coord, &request, &reply, t_err()));
    T_HAS(reply->explanation, "23 parameters in 4 variables");
    T_EQ(reply->job, 0);
    wire_free(&reply->base);
    wire_free(&status->base);
    world_release(w);
}

TEST(coord, a_job_waits_and_says_for_what)
{
    struct world *w = begin();
    struct fake_member *ps;

    world_submit(w, world_graph_job);
    T_HAS(world_reason(w), "waiting for a worker to open the data");
    world_attach(w, world_add(w, FAKE_WORKER, "w"));
    T_TRUE(!world_run(w, JOB_RUNNING, 600));
    T_HAS(world_reason(w), "waiting for a psserver");
    ps = world_add(w, FAKE_PSSERVER, "ps");
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    T_STR(world_reason(w), "");
    world_kill(w, ps);
    world_pass(w, 3000);
    T_HAS(world_reason(w), "waiting for psserver ps (lost 3 s ago)");
    world_restart(w, ps);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(coord, two_psservers_that_start_together_are_both_used)
{
    struct world *w = begin();
    Sluice__V1__JobStatus *s;

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    for (unsigned i = 0; i < 60; i++) // less than a second
        world_step(w);
    T_EQ(world_state(w), JOB_PLACING);
    world_attach(w, world_add(w, FAKE_PSSERVER, "ps-1"));
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    s = world_status(w);
    T_TRUE(s->n_shards >= 2);
    T_TRUE(strcmp(s->shards[0]->psserver, s->shards[1]->psserver) != 0);
    wire_free(&s->base);
    world_release(w);
}

// ---- losses

static uint64_t held_by(struct world *w, const struct fake_member *m)
{
    uint64_t held = 0;

    for (unsigned i = 0; i < WORLD_CLOSURES; i++)
        held += w->holder[i] == m->stream;
    return held;
}

TEST(coord, leases_of_a_silent_worker_go_to_others_after_two_heartbeats)
{
    struct world *w = begin();
    struct fake_member *m, *other;
    Sluice__V1__JobStatus *s;

    world_people(w, 1, 1);
    m = &w->members[1];
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    world_pass(w, 500);
    T_EQ(held_by(w, m), 2); // one computed, one ahead
    other = world_add(w, FAKE_WORKER, "other");
    world_attach(w, other);
    m->stuck_until = UINT64_MAX;
    world_pass(w, 900);
    T_EQ(held_by(w, m), 2);
    world_pass(w, 700); // silent for more than two heartbeats now
    T_EQ(held_by(w, m), 0);
    T_EQ(held_by(w, other), 2);
    s = world_status(w);
    T_EQ(s->workers_lost, 0); // it may come back
    T_EQ(s->workers, 1);
    wire_free(&s->base);
    world_pass(w, 1500);
    s = world_status(w);
    T_EQ(s->workers_lost, 1);
    T_EQ(members(w), 2);
    wire_free(&s->base);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

static double shown_scale(struct world *w)
{
    Sluice__V1__JobStatus *s = world_status(w);
    double scale = s->loss_scale;

    wire_free(&s->base);
    return scale;
}

// A worker that comes new to a job in f16 starts where the others are.
TEST(coord, the_last_loss_scale_heard_is_told_to_who_comes)
{
    struct world *w = begin();
    struct fake_member *m, *other;

    world_people(w, 1, 1);
    m = &w->members[1];
    m->loss_scale = 512;
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    T_NEAR(m->sent_scale, 0, 0);
    while (shown_scale(w) < 512)
        world_step(w);
    m->loss_scale = 0; // of an older version: it does not say
    other = world_add(w, FAKE_WORKER, "other");
    world_attach(w, other);
    while (other->opened == 0)
        world_step(w);
    T_NEAR(other->sent_scale, 512, 0);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_NEAR(shown_scale(w), 512, 0);
    world_release(w);
}

TEST(coord, a_sleep_of_the_coordinator_is_nobodys_silence)
{
    struct world *w = begin();

    world_people(w, 1, 2);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    clock_fake_advance_ms(&w->clock, 60000);
    coord_tick(w->coord);
    T_EQ(members(w), 3);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(coord, poison_fails_the_job_and_says_which_closure_and_whom)
{
    struct world *w = begin();
    char json[4096];
    char *at;

    snprintf(json, sizeof(json), "%s", world_graph_job);
    at = strstr(json, "\"max_attempts\":8");
    memcpy(at, "\"max_attempts\":3", 16);
    world_people(w, 1, 5);
    w->poison = true;
    world_submit(w, json);
    T_TRUE(world_run(w, JOB_FAILED, LIMIT));
    T_HAS(world_reason(w), "closure 1 (epoch 1, samples 12..23)");
    T_HAS(world_reason(w), "3 distinct workers");
    T_HAS(world_reason(w), "(lost)");
    T_EQ(members(w), 3); // the others were left alone
    world_release(w);
}

static void send_failed(struct world *w, struct fake_member *m, bool job_error)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__AttemptFailed failed = SLUICE__V1__ATTEMPT_FAILED__INIT;

    fake_read_all(w, m);
    T_GT(m->leases_count, 0);
    T_OF_LEASE(&failed, m->leases[0].lease);
    failed.code = SL_ENOMEM;
    failed.text = "no room for the activations";
    failed.job_error = job_error;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_FAILED;
    up.failed = &failed;
    fake_send(m, &up);
    fake_deliver_up(w, m);
    if (m->leases_count > 0)
        fake_worker_drop(m);
}

TEST(coord, a_job_error_fails_the_job_at_once_with_its_text)
{
    struct world *w = begin();

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    world_pass(w, 200);
    send_failed(w, &w->members[1], true);
    T_EQ(world_state(w), JOB_FAILED);
    T_HAS(world_reason(w), "no room for the activations");
    T_HAS(world_reason(w), "w-0");
    world_release(w);
}

TEST(coord, a_failed_closure_goes_to_a_worker_that_has_not_failed_it)
{
    struct world *w = begin();
    struct fake_member *m, *other;
    uint64_t closure;

    world_people(w, 1, 1);
    m = &w->members[1];
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    world_pass(w, 200);
    fake_read_all(w, m);
    closure = m->leases[0].lease->closure;
    other = world_add(w, FAKE_WORKER, "other");
    send_failed(w, m, false);
    T_EQ(world_state(w), JOB_RUNNING);
    world_attach(w, other);
    T_EQ(w->holder[closure], other->stream);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// ---- the end

static void say_deleted(struct world *w, struct fake_member *m, uint64_t uid)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__JobDeleted deleted = SLUICE__V1__JOB_DELETED__INIT;

    deleted.job = w->job;
    deleted.job_uid = uid;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_DELETED;
    up.deleted = &deleted;
    coord_receive(w->coord, m->stream, &up);
}

TEST(coord, a_stopped_job_is_nobodys_any_more_and_can_be_deleted)
{
    Sluice__V1__StopRequest stop = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__JobRequest job = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status = NULL;
    Sluice__V1__DeleteReply *deleted = NULL;
    struct world *w = begin();
    char manifest[512];

    world_people(w, 1, 2);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    job.id = stop.id = "j-1";
    T_FAILS(SL_ESTATE, coord_delete(w->coord, &job, &deleted, t_err()));
    do {
        world_step(w);
        if (status != NULL)
            wire_free(&status->base);
        status = world_status(w);
    } while (status->cuts == 0);
    snprintf(manifest, sizeof(manifest), "%s", status->checkpoint);
    wire_free(&status->base);
    T_OK(coord_stop(w->coord, &stop, &status, t_err()));
    T_EQ(status->state, JOB_STOPPED);
    T_EQ(status->closures_running, 0);
    wire_free(&status->base);
    T_OK(coord_stop(w->coord, &stop, &status, t_err())); // again: the same
    wire_free(&status->base);
    world_stop_coord(w); // settles what was being written
    world_start_coord(w);
    T_EQ(world_state(w), JOB_STOPPED);
    T_TRUE(fs_exists(crash_fs_ops(w->fs), manifest));
    T_OK(coord_delete(w->coord, &job, &deleted, t_err()));
    wire_free(&deleted->base);
    while (w->tasks_count > 0) // a pool thread removes them
        world_task(w);
    T_FALSE(fs_exists(crash_fs_ops(w->fs), manifest));
    T_FAILS(SL_ENOENT, coord_get(w->coord, &job, &status, t_err()));
    world_attach(w, &w->members[0]); // is told that its snapshots go
    T_EQ(w->members[0].inbox[1]->kind_case,
         SLUICE__V1__ATTEND_DOWN__KIND_CLOSE_JOB);
    T_TRUE(w->members[0].inbox[1]->close_job->delete_snapshots);
    w->uid = w->members[0].inbox[1]->close_job->job_uid;

    // Not of a namesake, not of another: it is told again.
    say_deleted(w, &w->members[0], w->uid + 1);
    world_break(w, &w->members[0]);
    world_attach(w, &w->members[0]);
    T_EQ(w->members[0].inbox_count, 2);
    // Once it has said so, it is forgotten.
    say_deleted(w, &w->members[0], w->uid);
    world_break(w, &w->members[0]);
    world_pass(w, 100);
    w->members[0].inbox_count = 0;
    world_attach(w, &w->members[0]);
    T_EQ(w->members[0].inbox_count, 1); // Welcome
    world_release(w);
}

static void work_a_little(struct world *w, struct fake_member *m)
{
    if (m->inbox_count > 0)
        fake_read(w, m);
    else if (m->outbox_count > 0)
        fake_deliver_up(w, m);
    else
        fake_work(w, m);
}

// Steps are under way when it is stopped: what shards then say last is what
// stays, and the numbers belong together at any time.
TEST(coord, the_last_status_of_a_stopped_job_is_what_its_shards_counted)
{
    Sluice__V1__StopRequest stop = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__JobStatus *s = NULL;
    struct world *w = begin();
    struct fake_member *ps;
    uint64_t counted[WORLD_SHARDS], fewest = UINT64_MAX;

    world_people(w, 1, 2);
    ps = &w->members[0];
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    for (unsigned i = 0; i < 100; i++) // between two heartbeats
        work_a_little(w, &w->members[i % 3]);
    stop.id = "j-1";
    T_OK(coord_stop(w->coord, &stop, &s, t_err()));
    T_EQ(s->updates_applied + s->updates_skipped, s->steps_counted);
    wire_free(&s->base);
    for (unsigned i = 0; i < w->shards; i++) {
        counted[i] = counted_steps(&ps->shards[i].counted);
        fewest = counted[i] < fewest ? counted[i] : fewest;
    }
    T_GT(fewest, 0);
    fake_read_all(w, ps);
    fake_deliver_all(w, ps);
    for (unsigned round = 0; round < 2; round++) {
        s = world_status(w);
        T_EQ(s->state, JOB_STOPPED);
        T_EQ(s->steps_counted, fewest);
        T_EQ(s->updates_applied, fewest);
        for (unsigned i = 0; i < w->shards; i++)
            T_EQ(s->shards[i]->counts->counted, counted[i]);
        wire_free(&s->base);
        world_stop_coord(w); // it is in the journal
        world_start_coord(w);
    }
    world_release(w);
}

TEST(coord, a_finished_job_shows_the_same_numbers_after_a_restart)
{
    struct world *w = begin();
    Sluice__V1__JobStatus *before, *after;

    world_people(w, 1, 2);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    before = world_status(w);
    world_stop_coord(w);
    world_start_coord(w);
    after = world_status(w);
    T_EQ(after->steps_counted, before->steps_counted);
    T_EQ(after->n_shards, before->n_shards);
    T_EQ(after->n_evaluations, 3);
    T_STR(after->checkpoint, before->checkpoint);
    T_EQ(after->term, before->term + 1);
    T_EQ(after->coordinator_restarts, 0); // it had ended
    wire_free(&before->base);
    wire_free(&after->base);
    world_release(w);
}

// ---- many shards

static uint64_t commits(const struct world *w)
{
    const struct histogram *h = journal_commits(w->journal);
    uint64_t count = 0;

    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
        count += atomic_load(&h->count[i]);
    return count;
}

static const char eight_shards[] =
    "{\"name\":\"wide\",\"model\":{\"type\":\"external\",\"variables\":["
    "{\"name\":\"w\",\"shape\":[8,2]}]},\"optimizer\":{\"type\":\"sgd\"},"
    "\"data\":{\"train\":{\"format\":\"external\",\"samples\":40}},"
    "\"train\":{\"batch\":4,\"epochs\":2,\"steps_per_closure\":2},"
    "\"placement\":{\"shard_bytes\":8}}";

// The first time, and when their psserver has lost its memory.
TEST(coord, I1_shards_that_one_process_shows_are_one_commit)
{
    struct world *w = begin();
    struct fake_member *ps = &w->members[0];
    uint64_t before, was;

    world_people(w, 1, 1);
    before = commits(w);
    world_submit(w, eight_shards);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    fake_read_all(w, ps);
    T_GT(w->incarnations[7], 0);
    T_LE(commits(w) - before, 7u); // submitted, placed, admitted, running, ..

    world_kill(w, ps);
    was = w->incarnations[7];
    before = commits(w);
    world_restart(w, ps);
    for (int i = 0; i < LIMIT && w->incarnations[7] == was; i++) {
        fake_read_all(w, ps);
        fake_work(w, ps);
        fake_deliver_all(w, ps);
    }
    T_GT(w->incarnations[7], was);
    T_LE(commits(w) - before, 4u);
    world_release(w);
}

// ---- K6 and I7

// Runs until a manifest waits to be written (K4: after its intent).
static void until_intent(struct world *w)
{
    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    w->hold_tasks = true;
    while (w->tasks_count == 0)
        world_step(w);
    w->hold_tasks = false;
}

static void die(struct world *w, bool written)
{
    if (written)
        w->tasks[0].work(w->tasks[0].task);
    coord_free(w->coord);
    w->coord = NULL;
    w->tasks[0].done(w->tasks[0].task);
    w->tasks_count = 0;
    for (unsigned i = 0; i < WORLD_MEMBERS; i++)
        fake_disconnected(&w->members[i]);
    memset(w->holder, 0, sizeof(w->holder));
    crash_fs_reboot(w->fs);
}

TEST(coord, K6_an_intent_whose_manifest_is_there_is_published)
{
    struct world *w = begin();
    Sluice__V1__JobStatus *s;

    until_intent(w);
    s = world_status(w);
    T_EQ(s->cuts, 0); // K4: not durable before the outcome
    wire_free(&s->base);
    die(w, true);
    world_start_coord(w);
    s = world_status(w);
    T_EQ(s->cuts, 1);
    T_TRUE(fs_exists(crash_fs_ops(w->fs), s->checkpoint));
    wire_free(&s->base);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(coord, K6_an_intent_without_manifest_is_aborted_for_good)
{
    struct world *w = begin();
    Sluice__V1__JobStatus *s;
    struct buf late = {(uint8_t *)"{}", 2, 3};
    struct buf path = BUF_INIT;

    until_intent(w);
    die(w, false);
    world_start_coord(w);
    s = world_status(w);
    T_EQ(s->cuts, 0);
    wire_free(&s->base);
    // It turns up later: still not a cut, and no reason to refuse to run.
    T_OK(buf_append_str(&path, "/store/life-j-1-00000000/cut-1.json"));
    T_OK(manifest_write(crash_fs_ops(w->fs), buf_text(&path), &late, t_err()));
    world_stop_coord(w);
    world_start_coord(w);
    s = world_status(w);
    T_EQ(s->cuts, 0);
    wire_free(&s->base);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    buf_release(&path);
    world_release(w);
}

TEST(coord, K6_a_store_that_is_not_mounted_aborts_nothing)
{
    struct world *w = begin();
    struct fs *fs = crash_fs_ops(w->fs);
    struct coord_options options = {
        .clock = &w->clock.clock,
        .fs = fs,
        .journal = w->journal,
        .store = "/store",
        .state_dir = "/state",
        .heartbeat_ms = 500,
        .lease_ms = 2000,
    };
    struct coord_io io = {0};
    struct coord *c = NULL;
    Sluice__V1__JobStatus *s;
    uint64_t id = 0;

    until_intent(w);
    die(w, true);
    T_OK(storemark_read(&id, fs, "/store", t_err()));
    T_OK(fs_unlink(fs, "/store/cluster.id", t_err())); // an empty mount point
    T_FAILS(SL_ESTATE, coord_new(&c, &options, &io, &err));
    T_HAS(err.text, "/store");
    T_HAS(err.text, "Mount it");
    T_OK(storemark_write(fs, "/store", id, t_err())); // it is there again
    world_start_coord(w);
    s = world_status(w);
    T_EQ(s->cuts, 1);
    wire_free(&s->base);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(coord, a_store_that_is_unmounted_gets_no_manifest)
{
    struct world *w = begin();
    struct fs *fs = crash_fs_ops(w->fs);
    Sluice__V1__JobStatus *s;
    uint64_t id = 0;

    until_intent(w);
    T_OK(storemark_read(&id, fs, "/store", t_err()));
    T_OK(fs_unlink(fs, "/store/cluster.id", t_err()));
    world_task(w);
    T_EQ(w->fatal, SL_OK);
    s = world_status(w);
    T_EQ(s->cuts, 0);
    wire_free(&s->base);
    T_OK(storemark_write(fs, "/store", id, t_err()));
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(coord, K5_a_hello_waits_while_the_manifest_is_written)
{
    struct world *w = begin();
    Sluice__V1__JobStatus *s;
    struct fake_member *ps = &w->members[0];
    uint64_t was;

    until_intent(w);
    was = w->incarnations[0];
    world_kill(w, ps);
    world_restart(w, ps);
    fake_read_all(w, ps);
    fake_deliver_all(w, ps);
    T_EQ(w->incarnations[0], was); // not admitted
    T_HAS(world_reason(w), "checkpoint to be written");
    world_task(w);
    fake_read_all(w, ps);
    T_EQ(w->incarnations[0], was + 1);
    s = world_status(w);
    T_EQ(s->cuts, 1);
    wire_free(&s->base);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(coord, a_manifest_that_cannot_be_written_is_aborted_and_tried_again)
{
    struct world *w = begin();
    Sluice__V1__JobStatus *s;

    until_intent(w);
    crash_fs_fail_at(w->fs, 4); // somewhere in writing it
    world_task(w);
    T_EQ(w->fatal, SL_OK);
    s = world_status(w);
    T_EQ(s->cuts, 0);
    wire_free(&s->base);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

static bool has_warning(struct world *w, const char *words)
{
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply = NULL;
    bool found = false;

    T_OK(status_cluster(w->coord, &request, &reply, t_err()));
    for (size_t i = 0; i < reply->n_warnings; i++)
        found |= strstr(reply->warnings[i], words) != NULL;
    wire_free(&reply->base);
    return found;
}

static uint64_t submit_another(struct world *w)
{
    char json[4096];

    snprintf(json, sizeof(json), "%s", world_graph_job);
    memcpy(strstr(json, "life"), "next", 4);
    return world_submit(w, json);
}

// Another job, of other members, runs to its end. (The world follows one.)
static void another_job_ends(struct world *w)
{
    for (unsigned i = 0; i < WORLD_MEMBERS; i++) {
        if (w->members[i].used)
            world_kill(w, &w->members[i]);
    }
    memset(w->incarnations, 0, sizeof(w->incarnations));
    world_attach(w, world_add(w, FAKE_PSSERVER, "ps-other"));
    world_attach(w, world_add(w, FAKE_WORKER, "w-other"));
    submit_another(w);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_EQ(w->fatal, SL_OK);
}

TEST(coord, I7_a_shard_above_the_journal_pauses_its_job)
{
    struct world *w = begin();
    struct fake_member *ps = &w->members[0];
    Sluice__V1__JobStatus *s;
    uint64_t was;

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    was = w->incarnations[0];
    ps->shards[0].incarnation = 9; // as if a newer journal had admitted it
    world_break(w, ps);
    world_attach(w, ps);
    fake_deliver_all(w, ps);
    T_EQ(w->fatal, SL_OK);
    world_pass(w, 5000);
    s = world_status(w);
    T_TRUE(s->paused);
    T_EQ(s->closures_running, 0);
    T_HAS(s->reason, "I7");
    T_HAS(s->reason, "incarnation 9");
    T_HAS(s->reason, "journal.sqlite");
    T_HAS(s->reason, "sluice stop j-1");
    wire_free(&s->base);
    T_EQ(w->incarnations[0], was);      // no further number
    T_EQ(ps->shards[0].incarnation, 9); // its memory is left as it is
    T_TRUE(has_warning(w, "job j-1 is paused"));
    another_job_ends(w);
    world_release(w);
}

TEST(coord, I7_a_paused_job_can_be_given_up)
{
    struct world *w = begin();
    struct fake_member *ps = &w->members[0];
    Sluice__V1__StopRequest stop = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__JobRequest job = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__DeleteReply *deleted = NULL;
    Sluice__V1__JobStatus *s = NULL;

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    ps->shards[0].incarnation = 9;
    world_break(w, ps);
    world_attach(w, ps);
    fake_deliver_all(w, ps);
    stop.id = job.id = "j-1";
    T_OK(coord_stop(w->coord, &stop, &s, t_err()));
    T_EQ(s->state, SLUICE__V1__JOB_STATE__JOB_STOPPED);
    wire_free(&s->base);
    T_OK(coord_delete(w->coord, &job, &deleted, t_err()));
    wire_free(&deleted->base);
    T_FALSE(has_warning(w, "paused"));
    another_job_ends(w);
    world_release(w);
}

// ---- a job that cannot be read

struct last_row {
    struct buf checkpoint, counts;
    uint64_t cut;
    unsigned rows;
};

static enum sl_err keep_row(void *arg, const struct journal_cut *row,
                            struct sl_error *e)
{
    struct last_row *last = arg;

    last->cut = row->cut;
    last->rows++;
    last->checkpoint.len = last->counts.len = 0;
    T_OK(buf_append(&last->checkpoint, row->checkpoint.data,
                    row->checkpoint.bytes));
    return buf_append(&last->counts, row->counts.data, row->counts.bytes);
}

static void last_row(struct world *w, struct last_row *out)
{
    T_OK(journal_each_cut(w->journal, w->job, keep_row, out, t_err()));
}

static void release_row(struct last_row *row)
{
    buf_release(&row->checkpoint);
    buf_release(&row->counts);
}

// One more published cut of job 1, with these counts.
static void write_cut(struct world *w, struct last_row *last,
                      struct journal_blob counts)
{
    struct journal_cut cut = {
        .cut = last->cut + 1,
        .path = "/store/none.json",
        .checkpoint = {last->checkpoint.data, last->checkpoint.len},
        .counts = counts,
    };
    struct wire_tag tag = {1, 1};

    T_OK(journal_cut_intent(w->journal, w->job, &cut, t_err()));
    T_OK(journal_cut_publish(w->journal, w->job, cut.cut, &tag, 0, t_err()));
}

TEST(coord, a_job_that_cannot_be_read_stands_aside_and_the_others_go_on)
{
    struct world *w = begin();
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__DeleteReply *deleted = NULL;
    struct last_row row = {.cut = 0};
    Sluice__V1__JobStatus *s;

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    while (s = world_status(w), s->cuts == 0) {
        wire_free(&s->base);
        world_step(w);
    }
    wire_free(&s->base);
    world_stop_coord(w);
    last_row(w, &row);
    write_cut(w, &row, (struct journal_blob){"\xff\xff", 2});
    world_start_coord(w);

    s = world_status(w);
    T_TRUE(s->unreadable);
    T_EQ(s->state, SLUICE__V1__JOB_STATE__JOB_FAILED);
    T_HAS(s->reason, "counts of a cut");
    wire_free(&s->base);
    T_TRUE(has_warning(w, "j-1 cannot be read"));
    another_job_ends(w);

    // What is there stays, for a program that can read it.
    world_stop_coord(w);
    world_start_coord(w);
    w->job = 1;
    last_row(w, &row);
    T_EQ(row.counts.len, 2);
    s = world_status(w);
    T_TRUE(s->unreadable);
    wire_free(&s->base);

    request.id = "j-1";
    T_OK(coord_delete(w->coord, &request, &deleted, t_err()));
    wire_free(&deleted->base);
    T_FALSE(has_warning(w, "cannot be read"));
    coord_tick(w->coord); // removes its rows
    row.rows = 0;
    last_row(w, &row);
    T_EQ(row.rows, 0);
    release_row(&row);
    world_release(w);
}

// A coordinator that is killed leaves this behind: it was loading the job.
static void die_loading(struct world *w, uint64_t job)
{
    uint64_t times;

    T_OK(journal_loading(w->journal, job, &times, t_err()));
}

static bool stands_aside(struct world *w)
{
    Sluice__V1__JobStatus *s = world_status(w);
    bool aside = s->unreadable;

    if (aside)
        T_HAS(s->reason, "ended 3 times while it loaded this job");
    wire_free(&s->base);
    return aside;
}

static void start_again(struct world *w)
{
    world_stop_coord(w);
    world_start_coord(w);
}

// What kills a coordinator does not do so for ever.
TEST(coord, a_job_that_kills_coordinators_as_it_is_loaded_stands_aside)
{
    struct world *w = begin();
    uint64_t first;

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    first = w->job;
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    for (int start = 0; start < 10; start++) {
        start_again(w); // starts that end in peace count for nothing
        T_FALSE(stands_aside(w));
    }
    for (int death = 0; death < 2; death++)
        die_loading(w, first);
    start_again(w);
    T_FALSE(stands_aside(w));
    for (int death = 0; death < 3; death++)
        die_loading(w, first);
    for (int start = 4; start < 8; start++) {
        start_again(w);
        T_TRUE(stands_aside(w));
    }
    start_again(w); // the eighth: it can be loaded by now
    T_FALSE(stands_aside(w));
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// 60,000 epochs of one shard have more fields than a message of the wire.
TEST(coord, a_cut_of_more_epochs_than_a_message_holds_is_read_again)
{
    enum { EPOCHS = 60000 };
    static Sluice__V1__EpochCount epochs[EPOCHS], *list[EPOCHS];
    struct world *w = begin();
    Sluice__V1__JobStatus counts = SLUICE__V1__JOB_STATUS__INIT, *s;
    Sluice__V1__ShardStatus shard = SLUICE__V1__SHARD_STATUS__INIT;
    Sluice__V1__ShardStatus *shards[] = {&shard};
    Sluice__V1__ShardCounts k = SLUICE__V1__SHARD_COUNTS__INIT;
    struct buf packed = BUF_INIT;
    struct last_row row = {.cut = 0};

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    while (s = world_status(w), s->cuts == 0) {
        wire_free(&s->base);
        world_step(w);
    }
    wire_free(&s->base);
    world_stop_coord(w);
    last_row(w, &row);
    for (unsigned i = 0; i < EPOCHS; i++) {
        sluice__v1__epoch_count__init(&epochs[i]);
        epochs[i].epoch = i + 1;
        epochs[i].steps = epochs[i].samples = epochs[i].digest = 1;
        list[i] = &epochs[i];
    }
    k.epochs = list;
    k.n_epochs = EPOCHS;
    shard.counts = &k;
    counts.job = 1;
    counts.id = "j-1";
    counts.name = "life";
    counts.shards = shards;
    counts.n_shards = 1;
    T_OK(wire_pack(&counts.base, &packed));
    write_cut(w, &row, (struct journal_blob){packed.data, packed.len});
    world_start_coord(w);
    s = world_status(w);
    T_FALSE(s->unreadable);
    T_GE(s->cuts, 2);
    wire_free(&s->base);
    buf_release(&packed);
    release_row(&row);
    world_release(w);
}

// Returns a cluster whose psserver shows job j-1, while its journal begins with
// j-2.
static struct world *with_unknown_job(void)
{
    struct world *w = begin();
    struct fake_member *ps = &w->members[0];

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    fake_read_all(w, ps);
    world_stop_coord(w);
    journal_close(w->journal); // somebody restored an empty one
    T_OK(journal_open(&w->journal, ":memory:", t_err()));
    world_start_coord(w);
    world_attach(w, ps);
    fake_deliver_all(w, ps);
    T_EQ(w->fatal, SL_OK);
    T_TRUE(ps->shards[0].loaded); // its memory is left as it is
    T_TRUE(has_warning(w, "sluice delete j-1"));
    world_stop_coord(w); // nor after a restart
    world_start_coord(w);
    T_EQ(world_submit(w, world_graph_job), 2);
    w->job = 1;
    world_attach(w, ps);
    fake_deliver_all(w, ps);
    T_TRUE(has_warning(w, "shows job j-1"));
    return w;
}

// A client that is told that a job is deleted need not ask again.
TEST(coord, a_coordinator_that_stops_deletes_no_unknown_job)
{
    struct world *w = with_unknown_job();
    struct journal_job row = {
        .name = "x", .request_id = "r-x", .spec = {"s", 1}, .state = 1};
    Sluice__V1__JobRequest job = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__StopRequest stop = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__DeleteReply *deleted = NULL;
    Sluice__V1__JobStatus *stopped = NULL;
    uint64_t id = 0;

    T_OK(journal_job_add(w->journal, &row, &id, t_err()));
    T_FAILS(SL_EIO, journal_job_add(w->journal, &row, &id, NULL)); // and all
    stop.id = (char *)"j-2";
    T_FAILS(SL_EIO, coord_stop(w->coord, &stop, &stopped, &err));
    job.id = (char *)"j-1";
    T_FAILS(SL_EUNAVAIL, coord_delete(w->coord, &job, &deleted, &err));
    T_PTR(deleted, NULL);
    world_release(w);
}

TEST(coord, I7_a_job_never_given_is_listed_and_its_number_is_not_given_again)
{
    struct world *w = with_unknown_job();
    Sluice__V1__JobRequest job = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__DeleteReply *deleted = NULL;

    job.id = "j-1";
    T_OK(coord_delete(w->coord, &job, &deleted, t_err()));
    wire_free(&deleted->base);
    T_FALSE(has_warning(w, "j-1"));
    T_FAILS(SL_ENOENT, coord_delete(w->coord, &job, &deleted, &err));
    world_release(w);
}

// However many are shown: psservers can fill the list of those that people see.
TEST(coord, I7_numbers_beyond_the_list_are_not_given_again)
{
    struct world *w = begin();
    struct fake_member *ps = &w->members[0];
    uint64_t most = 300; // the list has 256

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    fake_read_all(w, ps);
    world_stop_coord(w);
    journal_close(w->journal); // somebody restored an empty one
    T_OK(journal_open(&w->journal, ":memory:", t_err()));
    world_start_coord(w);
    for (w->job = 1; w->job <= most; w->job++) {
        world_attach(w, ps);
        fake_deliver_all(w, ps);
        world_break(w, ps);
    }
    T_EQ(w->fatal, SL_OK);
    T_EQ(world_submit(w, world_graph_job), most + 1);
    world_release(w);
}

TEST(coord, I7_a_number_that_the_store_holds_is_not_given_again)
{
    struct world *w = begin();

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT)); // a cut of it is there
    world_stop_coord(w);
    journal_close(w->journal); // somebody restored an empty one
    T_OK(journal_open(&w->journal, ":memory:", t_err()));
    world_start_coord(w);
    T_EQ(world_submit(w, world_graph_job), 2); // nobody has shown j-1 yet
    world_release(w);
}

TEST(coord, I7_a_number_far_above_uses_up_none)
{
    struct world *w = begin();
    struct fake_member *ps = &w->members[0];

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    w->job = UINT64_MAX;
    world_break(w, ps);
    world_attach(w, ps);
    fake_deliver_all(w, ps);
    T_EQ(w->fatal, SL_OK);
    T_EQ(submit_another(w), 2);
    world_release(w);
}

// Who shows job after job, each a little above the last, over restarts as well.
TEST(coord, I7_many_numbers_that_are_shown_use_up_no_more_than_one)
{
    struct world *w = begin();
    struct fake_member *ps = &w->members[0];

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    fake_read_all(w, ps);
    for (unsigned i = 1; i <= 20; i++) {
        w->job = 1 + i * 10000;
        world_break(w, ps);
        world_attach(w, ps);
        fake_deliver_all(w, ps);
        if (i % 5 != 0)
            continue;
        world_stop_coord(w);
        world_start_coord(w);
    }
    T_EQ(w->fatal, SL_OK);
    T_EQ(submit_another(w), 60002);
    world_release(w);
}

TEST(coord, I7_a_manifest_that_the_journal_does_not_know_pauses_its_job)
{
    struct world *w = begin();
    struct buf text = {(uint8_t *)"{}", 2, 3};
    Sluice__V1__JobStatus *s;
    char path[512];

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    do {
        world_step(w);
        s = world_status(w);
        snprintf(path, sizeof(path), "%s", s->checkpoint);
        wire_free(&s->base);
    } while (path[0] == '\0');
    world_stop_coord(w);
    snprintf(strrchr(path, '/'), 16, "/cut-99.json");
    T_OK(manifest_write(crash_fs_ops(w->fs), path, &text, t_err()));
    world_start_coord(w);
    s = world_status(w);
    T_TRUE(s->paused);
    T_HAS(s->reason, "I7");
    T_HAS(s->reason, "cut 99");
    wire_free(&s->base);
    another_job_ends(w);
    world_release(w);
}

// ---- whose member is it

static uint64_t cluster_of(struct world *w)
{
    uint64_t id = 0;

    T_OK(storemark_read(&id, crash_fs_ops(w->fs), "/store", t_err()));
    T_NE(id, 0);
    return id;
}

static enum sl_err attach_as(struct world *w, uint64_t cluster, uint64_t term)
{
    Sluice__V1__Hello hello = SLUICE__V1__HELLO__INIT;

    hello.role = SLUICE__V1__ROLE__ROLE_PSSERVER;
    hello.name = "ps-strange";
    hello.address = "127.0.0.1:1";
    hello.process = 99;
    hello.protocol = WIRE_PROTOCOL;
    hello.cluster = cluster;
    hello.term = term;
    err = (struct sl_error)SL_ERROR_INIT;
    return coord_attach(w->coord, ++w->streams, &hello, MEMBER_LOCAL, &err);
}

TEST(coord, a_stranger_is_refused_and_named)
{
    struct world *w = begin();
    uint64_t ours = cluster_of(w);

    T_EQ(attach_as(w, ours + 1, 1), SL_ESTATE);
    T_HAS(err.text, "'ps-strange' belongs to cluster");
    T_TRUE(has_warning(w, "psserver ps-strange is refused"));
    clock_fake_advance_ms(&w->clock, 120000);
    T_FALSE(has_warning(w, "ps-strange")); // it has given up
    T_OK(attach_as(w, ours, 1));
    T_OK(attach_as(w, 0, 0)); // of before, or new
    world_release(w);
}

TEST(coord, I5_a_term_that_was_seen_is_not_given_again)
{
    struct world *w = begin();
    uint64_t ours = cluster_of(w), term = coord_term(w->coord);

    T_EQ(attach_as(w, ours, term + 6), SL_ESTATE);
    T_HAS(err.text, "I5");
    T_EQ(coord_term(w->coord), term); // not in the midst of a life
    T_TRUE(has_warning(w, "has seen term"));
    T_EQ(attach_as(w, ours, UINT64_MAX), SL_ESTATE); // uses up none
    world_stop_coord(w);
    world_start_coord(w);
    T_EQ(coord_term(w->coord), term + 7);
    T_OK(attach_as(w, ours, term + 6));
    world_release(w);
}

TEST(coord, H5_a_coordinator_that_was_replaced_ends_when_a_member_tells_it)
{
    struct etcd *e = kit_etcd(0);
    struct world *w = begin();
    uint64_t ours, term;

    world_stop_coord(w);
    journal_close(w->journal);
    w->journal = kit_journal(e, kit_etcd_lead(e));
    world_start_coord(w);
    ours = cluster_of(w);
    term = coord_term(w->coord);
    T_EQ(attach_as(w, ours, term + 1), SL_ESTATE); // a wrong number
    T_EQ(w->fatal, SL_OK);
    kit_etcd_lead(e); // another one was chosen
    T_EQ(attach_as(w, ours, term + 1), SL_ESTATE);
    T_EQ(w->fatal, SL_OK); // that number was noted before
    T_TRUE(attach_as(w, ours, term + 2) != SL_OK);
    T_EQ(w->fatal, SL_ESTALE);
    world_release(w);
}

TEST(coord, a_journal_without_an_id_takes_that_of_its_store)
{
    struct world *w = begin();
    uint64_t ours = cluster_of(w);

    world_stop_coord(w);
    journal_close(w->journal); // it was lost
    T_OK(journal_open(&w->journal, ":memory:", t_err()));
    world_start_coord(w);
    T_OK(attach_as(w, ours, 1));
    T_EQ(attach_as(w, ours + 1, 1), SL_ESTATE);
    world_release(w);
}

TEST(coord, a_shard_of_another_job_of_that_number_is_refused)
{
    struct world *w = begin();
    struct fake_member *ps = &w->members[0];
    Sluice__V1__JobStatus *s;

    world_people(w, 1, 1);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    w->uid = 12345; // of all that it says from now on
    ps->shards[0].incarnation = 9;
    world_break(w, ps);
    world_attach(w, ps);
    fake_deliver_all(w, ps);
    T_EQ(w->fatal, SL_OK);
    s = world_status(w);
    T_FALSE(s->paused); // its incarnation is of another past
    wire_free(&s->base);
    fake_read_all(w, ps);
    T_FALSE(ps->shards[0].loaded);
    world_release(w);
}
