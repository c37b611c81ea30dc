// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/coordinator/world.h"

#include <string.h>

#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "proto/model.h"
#include "proto/pbjson.h"
#include "proto/spec.h"
#include "tests/unit/coordinator/world_members.h"

const char world_graph_job[] =
    "{\"name\":\"life\",\"model\":{\"input_shape\":[4],\"layers\":["
    "{\"type\":\"dense\",\"units\":3},{\"type\":\"dense\",\"units\":2}]},"
    "\"loss\":\"sparse_categorical_crossentropy\","
    "\"optimizer\":{\"type\":\"sgd\"},"
    "\"data\":{\"train\":{\"format\":\"idx\",\"x\":\"a\",\"y\":\"b\"},"
    "\"test\":{\"format\":\"idx\",\"x\":\"c\",\"y\":\"d\"}},"
    "\"train\":{\"batch\":4,\"epochs\":3,\"steps_per_closure\":3,"
    "\"max_attempts\":8,\"window_closures\":6},"
    "\"placement\":{\"partitioner\":\"fixed\",\"shards\":2},"
    "\"checkpoint\":{\"keep\":2,\"every_seconds\":2},"
    "\"evaluate\":{\"every_epochs\":1,\"batch\":4,"
    "\"batches_per_closure\":2}}";

const char world_sync_job[] =
    "{\"name\":\"rounds\",\"model\":{\"input_shape\":[4],\"layers\":["
    "{\"type\":\"dense\",\"units\":3},{\"type\":\"dense\",\"units\":2}]},"
    "\"loss\":\"sparse_categorical_crossentropy\","
    "\"optimizer\":{\"type\":\"sgd\"},"
    "\"data\":{\"train\":{\"format\":\"idx\",\"x\":\"a\",\"y\":\"b\"},"
    "\"test\":{\"format\":\"idx\",\"x\":\"c\",\"y\":\"d\"}},"
    "\"train\":{\"mode\":\"sync\",\"contributions\":3,\"backup\":1,"
    "\"batch\":4,\"epochs\":5,\"steps_per_closure\":1,"
    "\"max_attempts\":8,\"stall_seconds\":0},"
    "\"placement\":{\"partitioner\":\"fixed\",\"shards\":2},"
    "\"checkpoint\":{\"keep\":2,\"every_seconds\":2},"
    "\"evaluate\":{\"every_epochs\":1,\"batch\":4,"
    "\"batches_per_closure\":2}}";

void world_local_job(char *out, size_t size, const char *words)
{
    static const char sync[] = "\"mode\":\"sync\",\"contributions\":3,"
                               "\"backup\":1,";
    const char *at = strstr(world_sync_job, sync);

    T_ASSERT(at != NULL);
    snprintf(out, size, "%.*s\"mode\":\"local\",\"contributions\":3,%s%s",
             (int)(at - world_sync_job), world_sync_job, words,
             at + strlen(sync));
}

const char world_silu_job[] =
    "{\"name\":\"life\",\"model\":{\"input_shape\":[4],\"layers\":["
    "{\"type\":\"dense\",\"units\":3,\"activation\":\"silu\"},"
    "{\"type\":\"dense\",\"units\":2}]},"
    "\"loss\":\"sparse_categorical_crossentropy\","
    "\"optimizer\":{\"type\":\"sgd\"},"
    "\"data\":{\"train\":{\"format\":\"idx\",\"x\":\"a\",\"y\":\"b\"}},"
    "\"train\":{\"batch\":4,\"epochs\":3,\"steps_per_closure\":3},"
    "\"placement\":{\"partitioner\":\"fixed\",\"shards\":2}}";

// world_graph_job with metrics.
const char world_scored_job[] =
    "{\"name\":\"scores\",\"model\":{\"input_shape\":[4],\"layers\":["
    "{\"type\":\"dense\",\"units\":8},{\"type\":\"dense\",\"units\":1}]},"
    "\"loss\":\"binary_crossentropy\","
    "\"optimizer\":{\"type\":\"sgd\"},"
    "\"data\":{\"train\":{\"format\":\"idx\",\"x\":\"a\",\"y\":\"b\"},"
    "\"test\":{\"format\":\"idx\",\"x\":\"c\",\"y\":\"d\"}},"
    "\"train\":{\"batch\":4,\"epochs\":3,\"steps_per_closure\":3,"
    "\"max_attempts\":8,\"window_closures\":6},"
    "\"placement\":{\"partitioner\":\"fixed\",\"shards\":2},"
    "\"checkpoint\":{\"keep\":2,\"every_seconds\":2},"
    "\"evaluate\":{\"every_epochs\":1,\"batch\":2,"
    "\"batches_per_closure\":1,\"metrics\":[\"auc\",\"precision\","
    "\"mean_absolute_error\",\"accuracy\"]}}";

const char world_external_job[] =
    "{\"name\":\"outside\",\"model\":{\"type\":\"external\",\"variables\":["
    "{\"name\":\"w\",\"shape\":[8,2]},{\"name\":\"b\",\"shape\":[2]}]},"
    "\"optimizer\":{\"type\":\"sgd\"},"
    "\"data\":{\"train\":{\"format\":\"external\",\"samples\":40}},"
    "\"train\":{\"batch\":4,\"epochs\":2,\"steps_per_closure\":2}}";

const char world_ring_job[] =
    "{\"name\":\"ring\",\"model\":{\"input_shape\":[4],\"layers\":["
    "{\"type\":\"dense\",\"units\":3},{\"type\":\"dense\",\"units\":2}]},"
    "\"loss\":\"sparse_categorical_crossentropy\","
    "\"optimizer\":{\"type\":\"sgd\"},"
    "\"data\":{\"train\":{\"format\":\"idx\",\"x\":\"a\",\"y\":\"b\"},"
    "\"test\":{\"format\":\"idx\",\"x\":\"c\",\"y\":\"d\"}},"
    "\"train\":{\"mode\":\"allreduce\",\"batch\":4,\"epochs\":3,"
    "\"steps_per_closure\":3,\"max_attempts\":8,\"contributions\":2,"
    "\"workers\":{\"min\":1}},"
    "\"placement\":{\"partitioner\":\"fixed\",\"shards\":2},"
    "\"checkpoint\":{\"keep\":2,\"every_seconds\":2},"
    "\"evaluate\":{\"every_epochs\":1,\"batch\":4,"
    "\"batches_per_closure\":2}}";

const char world_group_job[] =
    "{\"name\":\"group\",\"model\":{\"input_shape\":[4],\"layers\":["
    "{\"type\":\"dense\",\"units\":3},{\"type\":\"dense\",\"units\":2}]},"
    "\"loss\":\"sparse_categorical_crossentropy\","
    "\"optimizer\":{\"type\":\"sgd\"},"
    "\"data\":{\"train\":{\"format\":\"idx\",\"x\":\"a\",\"y\":\"b\"},"
    "\"test\":{\"format\":\"idx\",\"x\":\"c\",\"y\":\"d\"}},"
    "\"train\":{\"mode\":\"hybrid\",\"group\":{\"by\":\"any\",\"size\":2},"
    "\"batch\":2,\"epochs\":3,\"steps_per_closure\":3,"
    "\"max_attempts\":8,\"window_closures\":6},"
    "\"placement\":{\"partitioner\":\"fixed\",\"shards\":2},"
    "\"checkpoint\":{\"keep\":2,\"every_seconds\":2}}";

uint64_t world_below(struct world *w, uint64_t n)
{
    w->random = sl_mix64(w->random);
    return w->random % n;
}

// ---- the coordinator's side of the seam

static struct fake_member *by_stream(struct world *w, uint64_t stream)
{
    for (unsigned i = 0; i < WORLD_MEMBERS; i++) {
        if (w->members[i].used && w->members[i].stream == stream)
            return &w->members[i];
    }
    return NULL;
}

void world_let_go(struct world *w, uint64_t closure, uint64_t stream)
{
    if (closure >= WORLD_CLOSURES)
        return; // a place in a ring or a group
    if (w->holder[closure] == stream)
        w->holder[closure] = 0;
    if (w->second[closure] == stream)
        w->second[closure] = 0;
}

// Who holds a closure, as the coordinator's own words say.
static void check_lease(struct world *w, struct fake_member *m,
                        const Sluice__V1__Lease *lease)
{
    T_EQ(lease->term, coord_term(w->coord));
    if (lease->kind != SLUICE__V1__LEASE_KIND__LEASE_TRAIN)
        return;
    T_LT(lease->closure, schedule_closures(&w->schedule));
    T_EQ(w->second[lease->closure], 0);
    if (w->copies && w->holder[lease->closure] != 0) {
        T_NE(w->holder[lease->closure], m->stream);
        T_EQ(wire_attempt_cmp(wire_attempt_of(lease->attempt),
                              w->attempt[lease->closure]),
             0);
        w->second[lease->closure] = m->stream;
        w->copied++;
        return;
    }
    T_EQ(w->holder[lease->closure], 0); // never two at once without a loss
    w->holder[lease->closure] = m->stream;
    w->attempt[lease->closure] = wire_attempt_of(lease->attempt);
}

static void check_leases(struct world *w, struct fake_member *m,
                         const Sluice__V1__Leases *leases)
{
    T_GT(leases->n_lease, 0);
    T_GE(m->edition, w->edition);
    if (leases->n_lease > w->leases_at_once)
        w->leases_at_once = leases->n_lease;
    for (size_t i = 0; i < leases->n_lease; i++)
        check_lease(w, m, leases->lease[i]);
}

// R1: a number is sent in one term only, and they rise.
static void check_open(struct world *w, const Sluice__V1__RingOpen *open)
{
    T_EQ(open->term, coord_term(w->coord));
    T_TRUE(open->generation > w->opened ||
           (open->generation == w->opened && open->term == w->opened_term));
    w->opened = open->generation;
    w->opened_term = open->term;
}

static void io_send(void *arg, uint64_t stream,
                    const Sluice__V1__AttendDown *message)
{
    struct world *w = arg;
    struct fake_member *m = by_stream(w, stream);
    ProtobufCMessage *copy = NULL;

    T_OK(wire_check(&message->base, t_err()));
    if (m == NULL)
        return;
    if (message->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_LEASES)
        check_leases(w, m, message->leases);
    if (message->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_REVOKE &&
        message->revoke->kind == SLUICE__V1__LEASE_KIND__LEASE_TRAIN &&
        !message->revoke->whole_job)
        world_let_go(w, message->revoke->closure, stream);
    if (message->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_RING_OPEN)
        check_open(w, message->ring_open);
    T_OK(wire_dup(&copy, &message->base));
    T_LT(m->inbox_count, WORLD_INBOX);
    m->inbox[m->inbox_count++] = (Sluice__V1__AttendDown *)copy;
}

static void forget_holder(struct world *w, uint64_t stream)
{
    for (unsigned i = 0; i < WORLD_CLOSURES; i++)
        world_let_go(w, i, stream);
}

static void io_hang_up(void *arg, uint64_t stream)
{
    struct world *w = arg;
    struct fake_member *m = by_stream(w, stream);

    forget_holder(w, stream);
    if (m != NULL)
        fake_disconnected(m);
}

static enum sl_err io_work(void *arg, void (*work)(void *),
                           void (*done)(void *), void *task)
{
    struct world *w = arg;

    T_LT(w->tasks_count, WORLD_TASKS);
    w->tasks[w->tasks_count].work = work;
    w->tasks[w->tasks_count].done = done;
    w->tasks[w->tasks_count++].task = task;
    return SL_OK;
}

static const char *io_certificate(void *arg, uint64_t member)
{
    const struct world *w = arg;

    for (unsigned i = 0; i < WORLD_MEMBERS; i++)
        if (w->members[i].stream == member && w->members[i].certificate != NULL)
            return w->members[i].certificate;
    return "";
}

static void io_changed(void *arg, uint64_t job)
{
}

static void io_fatal(void *arg, const struct sl_error *err)
{
    struct world *w = arg;

    w->fatal = err->code;
    w->why = *err;
}

void world_task(struct world *w)
{
    unsigned last;

    if (w->tasks_count == 0)
        return;
    last = --w->tasks_count;
    w->tasks[last].work(w->tasks[last].task);
    w->tasks[last].done(w->tasks[last].task);
}

// ---- life

void world_start_coord(struct world *w)
{
    struct coord_options options = {
        .clock = &w->clock.clock,
        .fs = crash_fs_ops(w->fs),
        .journal = w->journal,
        .store = "/store",
        .state_dir = "/state",
        .heartbeat_ms = 500,
        .lease_ms = 2000,
        .settle_ms = 1000,
        .seed = 42,
        .tokens = w->tokens,
        .proofs = w->proofs,
        .quotas = w->quotas,
        .quotas_count = w->quotas_count,
        .feed = w->feed,
    };
    struct coord_io io = {
        .arg = w,
        .send = io_send,
        .hang_up = io_hang_up,
        .cut_off = io_hang_up,
        .certificate = io_certificate,
        .work = io_work,
        .changed = io_changed,
        .fatal = io_fatal,
    };

    memcpy(options.secret, w->secret, sizeof(w->secret));
    T_OK(coord_new(&w->coord, &options, &io, t_err()));
}

void world_stop_coord(struct world *w)
{
    unsigned ran = (unsigned)world_below(w, 2);

    if (w->coord == NULL)
        return;
    // A manifest that was being written is there, or not.
    for (unsigned i = 0; i < w->tasks_count; i++) {
        if (ran)
            w->tasks[i].work(w->tasks[i].task);
    }
    coord_free(w->coord);
    w->coord = NULL;
    for (unsigned i = 0; i < w->tasks_count; i++)
        w->tasks[i].done(w->tasks[i].task);
    w->tasks_count = 0;
    memset(w->holder, 0, sizeof(w->holder));
    memset(w->second, 0, sizeof(w->second));
    for (unsigned i = 0; i < WORLD_MEMBERS; i++)
        fake_disconnected(&w->members[i]);
    crash_fs_reboot(w->fs);
}

void world_init(struct world *w, uint64_t seed)
{
    struct sl_error err = SL_ERROR_INIT;

    memset(w, 0, sizeof(*w));
    w->random = sl_mix64(seed);
    w->fs = crash_fs_new(seed);
    clock_fake_init(&w->clock, 1000000, 1700000000000000);
    T_OK(fs_mkdirs(crash_fs_ops(w->fs), "/store", &err));
    T_OK(journal_open(&w->journal, ":memory:", t_err()));
    w->window = 6;
    world_start_coord(w);
}

void world_release(struct world *w)
{
    if (w->coord != NULL)
        world_stop_coord(w);
    for (unsigned i = 0; i < WORLD_MEMBERS; i++)
        fake_free(&w->members[i]);
    for (unsigned i = 0; i < w->files_count; i++)
        counted_release(&w->files[i].counted);
    journal_close(w->journal);
    crash_fs_free(w->fs);
}

struct fake_member *world_add(struct world *w, int role, const char *name)
{
    for (unsigned i = 0; i < WORLD_MEMBERS; i++) {
        struct fake_member *m = &w->members[i];

        if (m->used)
            continue;
        m->used = m->alive = true;
        m->role = role;
        snprintf(m->name, sizeof(m->name), "%s", name);
        m->process = ++w->processes;
        m->edition = model_edition_known();
        return m;
    }
    T_ASSERT(!"room for one more member");
    return NULL;
}

void world_attach(struct world *w, struct fake_member *m)
{
    Sluice__V1__Hello hello = SLUICE__V1__HELLO__INIT;
    struct sl_error err = SL_ERROR_INIT;

    if (w->coord == NULL || !m->alive || m->stream != 0)
        return;
    hello.role = (Sluice__V1__Role)m->role;
    hello.name = m->name;
    hello.process = m->process;
    if (m->host != NULL)
        hello.host = (char *)m->host;
    hello.address = m->role == FAKE_PSSERVER ? "127.0.0.1:1" : "";
    hello.protocol = WIRE_PROTOCOL;
    hello.external = m->external;
    hello.ranks = m->ranks;
    hello.groups = m->groups;
    hello.map_changes = !w->whole_maps;
    hello.waits_for_round = w->ahead;
    hello.edition = m->edition;
    hello.memory_bytes = m->memory_bytes;
    hello.test_kind = m->test_kind;
    hello.test_vector = m->test_vector;
    m->stream = ++w->streams;
    m->next_beat_ms = sl_now_ms(&w->clock.clock);
    if (coord_attach(w->coord, m->stream, &hello, MEMBER_LOCAL, &err) != SL_OK)
        fake_disconnected(m);
    else if (m->role == FAKE_PSSERVER)
        fake_hello_live(w, m);
}

void world_people(struct world *w, unsigned psservers, unsigned workers)
{
    char name[32];

    for (unsigned i = 0; i < psservers; i++) {
        snprintf(name, sizeof(name), "ps-%u", i);
        world_attach(w, world_add(w, FAKE_PSSERVER, name));
    }
    for (unsigned i = 0; i < workers; i++) {
        snprintf(name, sizeof(name), "w-%u", i);
        world_attach(w, world_add(w, FAKE_WORKER, name));
    }
}

void world_break(struct world *w, struct fake_member *m)
{
    uint64_t stream = m->stream;

    if (stream == 0)
        return;
    forget_holder(w, stream);
    fake_disconnected(m);
    if (w->coord != NULL)
        coord_detach(w->coord, stream);
}

void world_kill(struct world *w, struct fake_member *m)
{
    m->alive = false;
    world_break(w, m);
    fake_forget_memory(m);
}

void world_restart(struct world *w, struct fake_member *m)
{
    m->alive = true;
    m->draining = false;
    m->stuck_until = 0;
    m->process = ++w->processes;
    world_attach(w, m);
}

uint64_t world_submit(struct world *w, const char *json)
{
    Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
    Sluice__V1__SubmitReply *reply = NULL;
    ProtobufCMessage *spec = NULL;
    json_t *value = NULL;
    uint64_t job;

    T_OK(sl_json_parse(&value, "job", json, strlen(json), NULL, t_err()));
    T_OK(pbjson_read(&spec, &sluice__v1__job_spec__descriptor, value, "job",
                     t_err()));
    json_decref(value);
    request.spec = (Sluice__V1__JobSpec *)spec;
    request.request_id =
        strcmp(request.spec->name, "life") == 0 ? "r-1" : request.spec->name;
    request.queue = w->queue;
    T_OK(coord_submit(w->coord, &request, &reply, t_err()));
    job = reply->job;
    w->job = job;
    w->schedule = (struct schedule){
        .samples = 40,
        .batch = spec_step_samples(request.spec),
        .epochs = request.spec->train->epochs,
        .steps_per_closure = request.spec->train->steps_per_closure,
    };
    wire_free(&reply->base);
    wire_free(spec);
    return job;
}

uint64_t world_submit_as(struct world *w, const char *json, const char *name,
                         int priority)
{
    const char *train = strstr(json, "\"train\":{\"batch");
    char text[4096];

    if (train == NULL)
        train = strstr(json, "\"train\":{\"mode");
    T_ASSERT(train != NULL);
    train += strlen("\"train\":{");
    snprintf(text, sizeof(text), "{\"name\":\"%s\"%.*s\"priority\":%d,%s", name,
             (int)(train - strchr(json, ',')), strchr(json, ','), priority,
             train);
    return world_submit(w, text);
}

unsigned world_leases(const struct fake_member *m, uint64_t *jobs,
                      Sluice__V1__LeaseKind *kinds, unsigned most)
{
    unsigned count = 0;

    for (unsigned i = 0; i < m->inbox_count; i++) {
        const Sluice__V1__AttendDown *down = m->inbox[i];

        if (down->kind_case != SLUICE__V1__ATTEND_DOWN__KIND_LEASES)
            continue;
        for (size_t k = 0; k < down->leases->n_lease; k++) {
            T_LT(count, most);
            jobs[count] = down->leases->lease[k]->job;
            kinds[count++] = down->leases->lease[k]->kind;
        }
    }
    return count;
}

uint64_t world_submit_callbacks(struct world *w, const char *callbacks)
{
    char text[2048];

    snprintf(text, sizeof(text), "%.*s,\"callbacks\":%s}",
             (int)strlen(world_graph_job) - 1, world_graph_job, callbacks);
    memcpy(strstr(text, "\"epochs\":3"), "\"epochs\":8", 10);
    return world_submit(w, text);
}

enum sl_err world_try_submit(struct world *w, const char *request_id,
                             const char *resume, uint64_t *job,
                             struct sl_error *err)
{
    Sluice__V1__SubmitRequest message = SLUICE__V1__SUBMIT_REQUEST__INIT;
    Sluice__V1__SubmitReply *reply = NULL;
    ProtobufCMessage *spec = NULL;
    json_t *value = NULL;
    enum sl_err rc;

    T_OK(sl_json_parse(&value, "job", world_graph_job, strlen(world_graph_job),
                       NULL, t_err()));
    T_OK(pbjson_read(&spec, &sluice__v1__job_spec__descriptor, value, "job",
                     t_err()));
    json_decref(value);
    message.spec = (Sluice__V1__JobSpec *)spec;
    message.request_id = (char *)request_id;
    message.resume = (char *)resume;
    rc = coord_submit(w->coord, &message, &reply, err);
    if (rc == SL_OK && job != NULL)
        *job = reply->job;
    wire_free((ProtobufCMessage *)reply);
    wire_free(spec);
    return rc;
}

Sluice__V1__JobStatus *world_status(struct world *w)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status = NULL;
    char id[24];

    snprintf(id, sizeof(id), "j-%llu", (unsigned long long)w->job);
    request.id = id;
    request.shards = true;
    T_OK(coord_get(w->coord, &request, &status, t_err()));
    T_OK(wire_check(&status->base, t_err()));
    return status;
}

int world_state(struct world *w)
{
    Sluice__V1__JobStatus *s;
    int state;

    if (w->coord == NULL)
        return 0;
    s = world_status(w);
    state = (int)s->state;
    wire_free(&s->base);
    return state;
}

const char *world_reason(struct world *w)
{
    static char text[4096];
    Sluice__V1__JobStatus *s = world_status(w);

    snprintf(text, sizeof(text), "%s", s->reason);
    wire_free(&s->base);
    return text;
}

// ---- time

static bool stuck(struct world *w, const struct fake_member *m)
{
    return sl_now_ms(&w->clock.clock) < m->stuck_until;
}

// One message of each kind of a member's that is due, or a piece of its work.
static void act(struct world *w, struct fake_member *m)
{
    if (!m->used || !m->alive || stuck(w, m))
        return;
    if (m->stream == 0) {
        world_attach(w, m);
        return;
    }
    if (m->outbox_count > 0 && world_below(w, 2) == 0)
        fake_deliver_up(w, m);
    else if (m->inbox_count > 0 && world_below(w, 3) != 0)
        fake_read(w, m);
    else
        fake_work(w, m);
}

static void beat_all(struct world *w)
{
    uint64_t now = sl_now_ms(&w->clock.clock);

    for (unsigned i = 0; i < WORLD_MEMBERS; i++) {
        struct fake_member *m = &w->members[i];

        if (!m->used || !m->alive || m->stream == 0 || stuck(w, m) ||
            now < m->next_beat_ms)
            continue;
        m->next_beat_ms = now + 500;
        fake_beat(w, m);
    }
}

bool world_trains(const struct fake_member *m)
{
    return m->leases_count > 0 &&
           m->leases[0].lease->kind == SLUICE__V1__LEASE_KIND__LEASE_TRAIN;
}

void world_step(struct world *w)
{
    clock_fake_advance_ms(&w->clock, 1 + world_below(w, 20));
    if (w->coord != NULL && world_below(w, 4) == 0)
        coord_tick(w->coord);
    beat_all(w);
    if (!w->hold_tasks && world_below(w, 5) == 0)
        world_task(w);
    act(w, &w->members[world_below(w, WORLD_MEMBERS)]);
}

bool world_run(struct world *w, int state, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++) {
        world_step(w);
        if (w->fatal != SL_OK)
            return false;
        if (i % 16 == 0 && world_state(w) == state)
            return true;
    }
    return world_state(w) == state;
}

void world_pass(struct world *w, uint64_t ms)
{
    for (uint64_t t = 0; t < ms; t += 50) {
        clock_fake_advance_ms(&w->clock, 50);
        beat_all(w);
        for (unsigned i = 0; i < WORLD_MEMBERS; i++) {
            fake_deliver_all(w, &w->members[i]);
        }
        if (w->coord != NULL)
            coord_tick(w->coord);
    }
}
