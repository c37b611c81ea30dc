// SPDX-License-Identifier: Apache-2.0
// A psserver as others see it: the stream to the coordinator, and what it
// answers to workers.
#include "psserver/service/attend.h"

#include <sched.h>
#include <stdatomic.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "plan/tables.h"
#include "psserver/service/rounds.h"
#include "state/snap/snap.h"
#include "tests/unit/psserver/stage.h"

enum { ALL = 47, KERNEL = 35, MOVING = 3 };

static struct stage stage;

static void push_one(struct stage *s, uint64_t incarnation, uint64_t closure,
                     uint32_t step, float value, enum wire_push_result want)
{
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_push push;

    kit_payload_equal(&payload, value, ALL, 0);
    push = kit_push(closure, step, &payload);
    push.incarnation = incarnation;
    T_OK(stage_push(s, WIRE_PUSH, &push, &reply));
    T_EQ(reply.result, want);
    T_EQ(reply.payload.bytes, 0);
    kit_payload_release(&payload);
}

TEST(attend, a_worker_is_served_as_the_protocol_says)
{
    struct wire_ask ask = kit_ask(0, 1);
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    struct wire_push_reply pushed;
    struct wire_pull_reply pulled;
    struct wire_ask_reply asked;
    struct kit_payload payload;
    struct wire_push push;
    float values[ALL];
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    T_FAILS(SL_EUNAVAIL, stage_ask(&stage, &ask, &asked)); // S5
    stage_serve(&stage, &k);
    T_OK(stage_ask(&stage, &ask, &asked));
    T_EQ(asked.counted[0], 0);

    kit_payload_equal(&payload, -1, ALL, 0);
    push = kit_push(0, 0, &payload);
    for (int i = 0; i < 2; i++) { // the second time it is a duplicate
        T_OK(stage_push(&stage, WIRE_PUSH_PULL, &push, &pushed));
        T_EQ(pushed.result, i == 0 ? WIRE_PUSH_COUNTED : WIRE_PUSH_DUPLICATE);
        T_EQ(pushed.incarnation, 1);
        T_EQ(pushed.version, 1);
        stage_floats(&pushed.payload, values, ALL);
        T_EQ(values[0], 1);
        T_TRUE(values[KERNEL] == -0.5f); // a moving mean
        T_EQ(values[ALL - 1], 1);
    }
    push.incarnation = 9;
    T_OK(stage_push(&stage, WIRE_PUSH_PULL, &push, &pushed));
    T_EQ(pushed.result, WIRE_PUSH_REFUSED);
    T_EQ(pushed.refused.why, WIRE_REFUSED_INCARNATION);
    T_EQ(pushed.payload.bytes, 0);
    push = kit_push(0, 1, &payload);
    push.payload.bytes -= 4;
    T_FAILS(SL_EINVAL, stage_push(&stage, WIRE_PUSH, &push, &pushed));

    T_OK(stage_pull(&stage, &pull, &pulled));
    T_EQ(pulled.version, 1);
    stage_floats(&pulled.payload, values, ALL);
    T_EQ(values[1], 1);
    pull.incarnation = 9;
    T_FAILS(SL_ESTALE, stage_pull(&stage, &pull, &pulled));
    pull.shard = 5;
    T_FAILS(SL_EUNAVAIL, stage_pull(&stage, &pull, &pulled));
    T_OK(stage_ask(&stage, &ask, &asked));
    T_EQ(asked.counted[0], 1);
    kit_payload_release(&payload);
    stage_close(&stage);
}

TEST(attend, heartbeats_report_what_is_counted)
{
    const Sluice__V1__ShardReport *r;
    const Sluice__V1__Heartbeat *m;
    uint64_t seq = 0;
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    push_one(&stage, 1, 0, 0, 1, WIRE_PUSH_COUNTED);
    push_one(&stage, 1, 0, 0, 1, WIRE_PUSH_DUPLICATE);
    do {
        m = stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT)
                ->heartbeat;
        T_GT(m->seq, seq);
        seq = m->seq;
        r = m->shards[0];
    } while (r->counts->duplicates == 0);
    T_EQ(r->job, 7);
    T_EQ(r->counts->applied, 1);
    T_EQ(r->counts->counted, 1);
    T_EQ(r->counts->staleness[0], 1);
    T_EQ(r->counts->n_epochs, 0);
    T_GT(m->resident_bytes, 1u << 20);
    T_TRUE(m->known_pushes_case != 0);
    T_EQ(m->pushes, 2); // not those of psservers before it in this process
    stage_close(&stage);
}

// A report may be lost on its way, so all tables are told now and then.
TEST(attend, heartbeats_report_tables_that_changed_and_all_every_16)
{
    const Sluice__V1__Heartbeat *m;
    unsigned reports = 0;
    struct kit k;

    kit_init(&k);
    kit_table(&k, "users", 3);
    kit_table(&k, "tags", 3);
    stage_open(&stage);
    stage_serve(&stage, &k);
    do {
        m = stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT)
                ->heartbeat;
        // The first report after the hello has all; then no table changes.
        if (m->n_shards > 0 && ++reports > 1)
            T_EQ(m->shards[0]->n_tables, m->seq % 16 == 0 ? 2 : 0);
    } while (reports < 4 || m->seq % 16 != 0);
    T_EQ(m->shards[0]->tables[1]->table, 1);
    stage_close(&stage);
}

// It would fence all that come after it.
TEST(attend, an_attempt_above_the_coordinators_term_is_not_seen)
{
    struct wire_ask ask = kit_ask(0, 1);
    struct wire_ask_reply asked;
    struct kit_payload payload;
    struct wire_push_reply pushed;
    struct wire_push push;
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    ask.attempt.term = UINT64_C(1) << 40;
    T_FAILS(SL_EUNAVAIL, stage_ask(&stage, &ask, &asked));
    kit_payload_equal(&payload, -1, ALL, 0);
    push = kit_push(0, 0, &payload);
    push.attempt.term = UINT64_C(1) << 40;
    T_FAILS(SL_EUNAVAIL, stage_push(&stage, WIRE_PUSH, &push, &pushed));
    kit_payload_release(&payload);
    ask.attempt.term = 1;
    T_OK(stage_ask(&stage, &ask, &asked));
    T_EQ(asked.refused.why, WIRE_REFUSED_NOT);
    push_one(&stage, 1, 0, 0, -1, WIRE_PUSH_COUNTED);
    stage_close(&stage);
}

TEST(attend, a_snapshot_is_reported_and_its_values_are_pulled_by_tag)
{
    struct wire_pull pull = {.job = 7,
                             .job_incarnation = 1,
                             .shard = 2,
                             .has_tag = true,
                             .tag = {1, 1}};
    const Sluice__V1__SnapshotReport *report;
    struct wire_pull_reply pulled;
    float values[ALL];
    char path[600];
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    push_one(&stage, 1, 0, 0, -1, WIRE_PUSH_COUNTED);
    report = stage_snapshot(&stage, 1, 77);
    T_STR(report->failure, "");
    T_EQ(report->request, 77);
    T_EQ(report->tag->incarnation, 1);
    T_EQ(report->tag->sequence, 1);
    T_EQ(report->counted->n_sparse, 1);
    T_EQ(report->counted->sparse[0]->steps.data[0], 1);
    T_EQ(report->counts->n_epochs, 1);
    T_EQ(report->counts->epochs[0]->samples, 1);
    T_EQ(report->counts->epochs[0]->digest, schedule_digest(0, 0));
    snprintf(path, sizeof(path), "%s/%s", report->folder, report->file);
    T_TRUE(fs_exists(fs_posix(), path));

    push_one(&stage, 1, 0, 1, -1, WIRE_PUSH_COUNTED);
    for (int i = 0; i < 2; i++) { // opened; then from the mapping
        T_OK(stage_pull(&stage, &pull, &pulled));
        T_EQ(pulled.version, 1);
        T_EQ(pulled.incarnation, 1);
        stage_floats(&pulled.payload, values, ALL);
        T_EQ(values[0], 1);
    }
    pull.tag.sequence = 2;
    for (int i = 0; i < 2; i++) // one that failed is looked for again
        T_FAILS(SL_ENOENT, stage_pull(&stage, &pull, &pulled));
    // Of another incarnation than it is: no snapshot, and a reason.
    report = stage_snapshot(&stage, 4, 78);
    T_EQ(report->request, 78);
    T_HAS(report->failure, "incarnation 4");
    stage_close(&stage);
}

TEST(attend, it_serves_on_without_a_coordinator_and_is_announced_alive)
{
    const Sluice__V1__ShardHello *hello;
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    push_one(&stage, 1, 0, 0, 1, WIRE_PUSH_COUNTED);
    stage_hang_up(&stage);
    push_one(&stage, 1, 0, 1, 1, WIRE_PUSH_COUNTED);
    stage_welcome(&stage, 2);
    hello = stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO)
                ->shard_hello;
    T_EQ(hello->live_incarnation, 1); // I1: it kept its memory
    T_EQ(hello->counted->sparse[0]->steps.data[0], 3);
    T_EQ(hello->counts->counted, 2);
    stage_admit(&stage, 2, 1);
    push_one(&stage, 1, 0, 2, 1, WIRE_PUSH_COUNTED);
    stage_close(&stage);
}

TEST(attend, a_coordinator_of_an_older_term_is_left_alone)
{
    const Sluice__V1__AttendUp *m;
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    stage_hang_up(&stage);
    stage_welcome(&stage, 5);
    stage_hang_up(&stage);
    stage_welcome(&stage, 4); // I5: hangs up and dials again
    m = stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_HELLO);
    T_TRUE(m->hello->process != 0);
    T_EQ(stage.streams, 4);
    stage_close(&stage);
}

static void keep(struct stage *s, uint64_t term, struct wire_tag tag)
{
    struct kit_keep k;

    kit_keep_init(&k, term, tag);
    stage_send(s, SLUICE__V1__ATTEND_DOWN__KIND_KEEP, &k.msg.base);
}

// K3.
TEST(attend, snapshots_go_by_keep_only_and_not_by_one_of_an_older_term)
{
    const Sluice__V1__SnapshotReport *report;
    char first[600];
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    stage_hang_up(&stage);
    stage_welcome(&stage, 3);
    report = stage_snapshot(&stage, 1, 1);
    snprintf(first, sizeof(first), "%s/%s", report->folder, report->file);
    for (uint64_t i = 2; i < 5; i++)
        T_STR(stage_snapshot(&stage, 1, i)->failure, "");
    keep(&stage, 2, (struct wire_tag){1, 3}); // an older term's
    keep(&stage, 3, (struct wire_tag){9, 1}); // a replaced psserver hears it
    for (int i = 0; i < 3; i++)
        stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT);
    T_TRUE(fs_exists(fs_posix(), first));
    keep(&stage, 3, (struct wire_tag){1, 3});
    STAGE_UNTIL(&stage, !fs_exists(fs_posix(), first));
    T_STR(stage_snapshot(&stage, 1, 9)->failure, "");
    stage_close(&stage);
}

// It is told to drop its memory for the snapshot (1, 1).
static void refuse(struct stage *s)
{
    Sluice__V1__Refuse m = SLUICE__V1__REFUSE__INIT;
    Sluice__V1__Tag load = wire_tag_msg((struct wire_tag){1, 1});

    m.term = 1;
    m.job = 7;
    m.shard = 2;
    m.why = (char *)"incarnation 2 exists";
    m.load = &load;
    stage_send(s, SLUICE__V1__ATTEND_DOWN__KIND_REFUSE, &m.base);
}

// The zombie's end: what it counted since its snapshot is redone, once.
TEST(attend, a_refused_shard_drops_its_memory_and_loads)
{
    const Sluice__V1__ShardHello *hello;
    struct wire_push_reply reply;
    struct wire_push push;
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    push_one(&stage, 1, 0, 0, 1, WIRE_PUSH_COUNTED);
    T_STR(stage_snapshot(&stage, 1, 1)->failure, "");
    push_one(&stage, 1, 0, 1, 1, WIRE_PUSH_COUNTED);
    refuse(&stage);
    hello = stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO)
                ->shard_hello;
    T_EQ(hello->live_incarnation, 0);
    T_EQ(hello->loaded->incarnation, 1);
    T_EQ(hello->loaded->sequence, 1);
    T_EQ(hello->counts->counted, 1);
    push = kit_push(0, 2, NULL);
    T_FAILS(SL_EUNAVAIL, stage_push(&stage, WIRE_PUSH, &push, &reply));
    stage_admit(&stage, 1, 1); // I1: not the number that it had
    T_HAS(stage_snapshot(&stage, 1, 2)->failure, "not admitted");
    stage_admit(&stage, 1, 3);
    STAGE_UNTIL(&stage, stage_push(&stage, WIRE_PUSH, &push, &reply) == SL_OK);
    T_EQ(reply.refused.why, WIRE_REFUSED_INCARNATION);
    T_EQ(reply.incarnation, 3);
    push_one(&stage, 3, 0, 0, 1, WIRE_PUSH_DUPLICATE);
    push_one(&stage, 3, 0, 1, 1, WIRE_PUSH_COUNTED);
    stage_close(&stage);
}

// The renewal was sent for the memory that was dropped since: what was loaded
// in its place holds less than that one had counted.
TEST(attend, I1_a_late_renewal_is_not_of_the_memory_loaded_since)
{
    struct wire_push_reply reply;
    struct wire_push push;
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    push_one(&stage, 1, 0, 0, 1, WIRE_PUSH_COUNTED);
    T_STR(stage_snapshot(&stage, 1, 1)->failure, "");
    stage_admit(&stage, 1, 4);
    push = kit_push(0, 1, NULL);
    push.incarnation = 4;
    // The renewal comes on another connection.
    STAGE_UNTIL(&stage, stage_push(&stage, WIRE_PUSH, &push, &reply) == SL_OK &&
                            reply.result == WIRE_PUSH_COUNTED);
    refuse(&stage);
    T_EQ(stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO)
             ->shard_hello->loaded->incarnation,
         1);
    stage_admit(&stage, 1, 4);
    T_HAS(stage_snapshot(&stage, 4, 2)->failure, "not admitted");
    stage_admit(&stage, 1, 5);
    push = kit_push(0, 2, NULL);
    STAGE_UNTIL(&stage, stage_push(&stage, WIRE_PUSH, &push, &reply) == SL_OK);
    T_EQ(reply.incarnation, 5);
    stage_close(&stage);
}

// Two hellos of the old memory were on their way: the second refusal finds what
// the first had loaded, whose own hello the coordinator may be answering now. A
// third memory would be admitted for what the second had counted. (sim.life,
// seed 20260747)
TEST(attend, a_refusal_that_was_obeyed_already_changes_nothing)
{
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    push_one(&stage, 1, 0, 0, 1, WIRE_PUSH_COUNTED);
    T_STR(stage_snapshot(&stage, 1, 1)->failure, "");
    refuse(&stage);
    stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO);
    refuse(&stage);
    stage_admit(&stage, 1, 3);
    T_STR(stage_snapshot(&stage, 3, 2)->failure, "");
    stage_close(&stage);
}

TEST(attend, a_snapshot_that_is_missing_is_said_and_looked_for_again)
{
    const Sluice__V1__ShardHello *hello;
    struct shard *s;
    char *folder;
    struct kit k;

    kit_init(&k);
    s = kit_shard(&k);
    shard_admit(s, 2);
    folder = snap_folder(t_path("store"), &s->plan);
    stage_open(&stage);
    stage_welcome(&stage, 1);
    stage_place(&stage, &k, 1, (struct wire_tag){2, 1});
    hello = stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO)
                ->shard_hello;
    T_HAS(hello->failure, "DATA_LOSS");
    T_HAS(hello->failure, "shard-2.i2.n1.safetensors");
    kit_snap(fs_posix(), folder, s);
    stage_place(&stage, &k, 1, (struct wire_tag){2, 1});
    hello = stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO)
                ->shard_hello;
    T_STR(hello->failure, "");
    T_EQ(hello->loaded->incarnation, 2);
    sl_free(folder);
    shard_unref(s);
    stage_close(&stage);
}

static void must_be_too_large(struct stage *s)
{
    const Sluice__V1__ShardHello *hello =
        stage_expect(s, SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO)->shard_hello;

    T_HAS(hello->failure, "larger than a message may be");
    T_EQ(hello->counted->n_sparse, 0);
}

// A hello that is too large would end the stream, which all shards share.
TEST(attend, a_set_that_cannot_be_told_fails_its_shard_alone)
{
    Sluice__V1__HelloWanted wanted = SLUICE__V1__HELLO_WANTED__INIT;
    struct shard *s;
    char *folder;
    struct kit k;

    kit_init(&k);
    kit_long_closures(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    s = store_find(stage.store, 7, 2);
    pthread_mutex_lock(&s->lock);
    kit_count_too_much(s);
    pthread_mutex_unlock(&s->lock);
    wanted.term = 1;
    wanted.job = 7;
    wanted.shard = 2;
    stage_send(&stage, SLUICE__V1__ATTEND_DOWN__KIND_HELLO_WANTED,
               &wanted.base);
    must_be_too_large(&stage);
    T_HAS(stage_snapshot(&stage, 1, 5)->failure,
          "larger than a message may be");
    T_EQ(stage.streams, 1);
    stage_close(&stage);
    shard_unref(s);

    s = kit_admitted(&k); // and where an earlier version has written it
    folder = snap_folder(t_path("store"), &s->plan);
    kit_snap_too_much(fs_posix(), folder, s);
    stage_open(&stage);
    stage_welcome(&stage, 1);
    stage_place(&stage, &k, 1, (struct wire_tag){1, 1});
    must_be_too_large(&stage);
    sl_free(folder);
    shard_unref(s);
    stage_close(&stage);
}

TEST(attend, a_closed_shard_says_for_the_last_time_what_it_counted)
{
    Sluice__V1__CloseJob m = SLUICE__V1__CLOSE_JOB__INIT;
    const Sluice__V1__ShardReport *r;
    const Sluice__V1__Heartbeat *beat;
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    push_one(&stage, 1, 0, 0, 1, WIRE_PUSH_COUNTED);
    m.term = 1;
    m.job = 7;
    m.job_uid = k.spec.job_uid;
    stage_send(&stage, SLUICE__V1__ATTEND_DOWN__KIND_CLOSE_JOB, &m.base);
    do
        beat = stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT)
                   ->heartbeat;
    while (beat->n_shards > 0 && beat->shards[0]->counts->n_epochs == 0);
    T_EQ(beat->n_shards, 1);
    r = beat->shards[0];
    T_EQ(r->incarnation, 1);
    T_EQ(r->counts->counted, 1);
    T_EQ(r->counts->epochs[0]->steps, 1);
    stage_close(&stage);
}

static void serve_another(struct stage *s, struct kit *k, uint32_t shard)
{
    Sluice__V1__Admit m = SLUICE__V1__ADMIT__INIT;

    k->spec.shard = shard;
    for (size_t i = 0; i < k->spec.n_pieces; i++)
        k->pieces[i].shard = shard;
    stage_place(s, k, 1, (struct wire_tag){0, 0});
    T_STR(stage_expect(s, SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO)
              ->shard_hello->failure,
          "");
    m.term = m.incarnation = m.map_version = 1;
    m.job = 7;
    m.shard = shard;
    stage_send(s, SLUICE__V1__ATTEND_DOWN__KIND_ADMIT, &m.base);
}

TEST(attend, reports_of_many_shards_are_several_heartbeats)
{
    enum { SHARDS = ROSTER_REPORTS_MOST + 50 };
    static bool reported[SHARDS];
    unsigned count = 0;
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    // A sanitizer build makes and reads a thousand reports in more than 5 ms:
    // what is asked for would wait behind ever more of them.
    stage.heartbeat_ms = 200;
    stage_welcome(&stage, 1);
    for (uint32_t i = 0; i < SHARDS; i++)
        serve_another(&stage, &k, i);
    while (count < SHARDS) {
        const Sluice__V1__Heartbeat *beat =
            stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT)
                ->heartbeat;

        T_LE(beat->n_shards, ROSTER_REPORTS_MOST);
        for (size_t i = 0; i < beat->n_shards; i++) {
            count += !reported[beat->shards[i]->shard];
            reported[beat->shards[i]->shard] = true;
        }
    }
    stage_close(&stage);
}

// All numbers at their largest.
TEST(attend, so_many_reports_can_be_read)
{
    static Sluice__V1__ShardReport report, *list[ROSTER_REPORTS_MOST], last;
    static Sluice__V1__TableFigures *tables[ROSTER_TABLES_MOST + TABLES_MOST];
    Sluice__V1__TableFigures t = SLUICE__V1__TABLE_FIGURES__INIT;
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Heartbeat beat = SLUICE__V1__HEARTBEAT__INIT;
    Sluice__V1__ShardCounts k = SLUICE__V1__SHARD_COUNTS__INIT;
    uint64_t buckets[WIRE_STALENESS_BUCKETS];
    struct buf packed = BUF_INIT;

    memset(buckets, 0xff, sizeof(buckets));
    k.staleness = buckets;
    k.n_staleness = WIRE_STALENESS_BUCKETS;
    k.version = k.applied = k.skipped = k.counted = k.duplicates = UINT64_MAX;
    k.refused = k.low = k.stale = k.late = UINT64_MAX;
    sluice__v1__shard_report__init(&report);
    report.job = report.job_uid = report.incarnation = UINT64_MAX;
    report.shard = UINT32_MAX;
    report.counts = &k;
    for (unsigned i = 0; i < ROSTER_REPORTS_MOST; i++)
        list[i] = &report;
    t.table = UINT32_MAX;
    t.rows = t.waiting = t.bytes = t.admitted = t.evicted = UINT64_MAX;
    t.forgotten = t.unadmitted = t.largest_bucket = UINT64_MAX;
    t.hottest_id = t.hottest_updates = UINT64_MAX;
    t.disk_rows = t.disk_bytes = t.found_memory = UINT64_MAX;
    t.found_disk = t.to_disk = UINT64_MAX;
    t.evicted_full = t.gradients = UINT64_MAX;
    for (size_t i = 0; i < SL_COUNT(tables); i++)
        tables[i] = &t;
    last = report;
    last.tables = tables;
    last.n_tables = SL_COUNT(tables);
    list[ROSTER_REPORTS_MOST - 1] = &last;
    beat.shards = list;
    beat.n_shards = ROSTER_REPORTS_MOST;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT;
    up.heartbeat = &beat;
    T_OK(wire_pack(&up.base, &packed));
    T_OK(wire_scan(&sluice__v1__attend_up__descriptor, packed.data, packed.len,
                   NULL, t_err()));
    buf_release(&packed);
}

TEST(attend, a_closed_job_is_forgotten_and_a_deleted_one_leaves_no_file)
{
    Sluice__V1__CloseJob m = SLUICE__V1__CLOSE_JOB__INIT;
    const Sluice__V1__JobDeleted *deleted;
    const Sluice__V1__SnapshotReport *report;
    struct wire_push push = kit_push(0, 0, NULL);
    struct wire_push_reply reply;
    char path[600];
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    report = stage_snapshot(&stage, 1, 1);
    snprintf(path, sizeof(path), "%s/%s", report->folder, report->file);
    m.term = 1;
    m.job = 7;
    m.job_uid = k.spec.job_uid;
    m.delete_snapshots = 1;
    stage_send(&stage, SLUICE__V1__ATTEND_DOWN__KIND_CLOSE_JOB, &m.base);
    deleted =
        stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_DELETED)->deleted;
    T_EQ(deleted->job, 7);
    T_EQ(deleted->job_uid, k.spec.job_uid);
    T_FALSE(fs_exists(fs_posix(), path));
    T_FAILS(SL_EUNAVAIL, stage_push(&stage, WIRE_PUSH, &push, &reply));
    report = stage_snapshot(&stage, 1, 2);
    T_HAS(report->failure, "does not hold");
    stage_close(&stage);
}

// ---- many workers, snapshots and readers of snapshots at once

enum { WORKERS = 3 };

struct wire_worker {
    struct rpc_channel *channel;
    unsigned number;
    _Atomic unsigned *done;
};

static void push_pull_twice(struct rpc_channel *channel,
                            const struct wire_push *push)
{
    struct rpc_call_options options = {.deadline_ms = 60000,
                                       .max_reply_bytes = RPC_DATA_BYTES};
    struct wire_push_reply reply;
    struct rpc_body *body;
    float values[ALL];
    struct rpc_msg msg;

    for (int i = 0; i < 2; i++) {
        rpc_msg_init(&msg);
        T_ASSERT(wire_head_push(&msg, push, push->payload.bytes) == SL_OK);
        rpc_msg_part(&msg, push->payload.at[0].data, push->payload.bytes);
        T_ASSERT(rpc_call_sync(channel, WIRE_PUSH_PULL, &msg, &options, &body,
                               NULL) == SL_OK);
        T_ASSERT(wire_read_push_reply(&reply, rpc_body_slices(body), NULL) ==
                 SL_OK);
        T_ASSERT(reply.result ==
                 (i == 0 ? WIRE_PUSH_COUNTED : WIRE_PUSH_DUPLICATE));
        T_ASSERT(reply.payload.bytes == sizeof(values));
        slices_copy(values, &reply.payload);
        // Torn-free: the first and the last element are of one version.
        T_ASSERT(values[0] == (float)reply.version);
        T_ASSERT(values[ALL - 1] == (float)reply.version);
        rpc_body_free(body);
    }
}

static void *wire_work(void *arg)
{
    struct wire_worker *w = arg;
    struct kit_payload payload;
    struct wire_push push;

    kit_payload_equal(&payload, -1, ALL, 0);
    for (uint64_t closure = w->number; closure < 30; closure += WORKERS)
        for (uint32_t step = 0; step < 4; step++) {
            push = kit_push(closure, step, &payload);
            push_pull_twice(w->channel, &push);
        }
    kit_payload_release(&payload);
    atomic_fetch_add(w->done, 1);
    return NULL;
}

TEST(attend, everything_at_once)
{
    struct wire_pull pull = {
        .job = 7, .job_incarnation = 1, .shard = 2, .has_tag = true};
    const Sluice__V1__SnapshotReport *report;
    struct wire_worker workers[WORKERS];
    struct wire_pull_reply pulled;
    pthread_t threads[WORKERS];
    _Atomic unsigned done = 0;
    uint64_t request = 0;
    float values[ALL];
    bool last = false;
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].number = i;
        workers[i].done = &done;
        T_OK(rpc_channel_new(&workers[i].channel, stage.io, stage.psserver,
                             NULL, NULL, t_err()));
        pthread_create(&threads[i], NULL, wire_work, &workers[i]);
    }
    while (!last) {
        last = done == WORKERS;
        report = stage_snapshot(&stage, 1, ++request);
        T_STR(report->failure, "");
        T_EQ(report->counts->applied, report->counts->counted);
        pull.tag = wire_tag_of(report->tag);
        T_OK(stage_pull(&stage, &pull, &pulled));
        T_EQ(pulled.version, report->counts->version);
        stage_floats(&pulled.payload, values, ALL);
        T_TRUE(values[0] == (float)pulled.version);
        T_TRUE(values[ALL - 1] == (float)pulled.version);
    }
    // What was acknowledged before the request is in the file (E1).
    T_EQ(report->counted->low, 30);
    T_EQ(report->counts->counted, 120);
    T_EQ(report->counts->duplicates, 120);
    for (unsigned i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
        rpc_channel_free(workers[i].channel);
    }
    stage_close(&stage);
}

// ---- a drain saves what is new

static void on_saved(void *arg)
{
    sem_post(arg);
}

static void on_loop_save(void *arg)
{
    roster_save(stage.roster, on_saved, arg);
}

TEST(attend, a_drain_saves_what_no_snapshot_holds)
{
    struct shard *fresh;
    char *folder;
    sem_t saved;
    struct kit k;

    kit_init(&k);
    sem_init(&saved, 0, 0);
    stage_open(&stage);
    stage_serve(&stage, &k);
    push_one(&stage, 1, 0, 0, 1, WIRE_PUSH_COUNTED);
    for (int i = 0; i < 2; i++) { // the second time there is nothing new
        T_OK(loop_post(stage.loop, on_loop_save, &saved));
        while (sem_wait(&saved) != 0)
            ;
    }
    stage_close(&stage);
    fresh = kit_shard(&k);
    folder = snap_folder(t_path("store"), &fresh->plan);
    T_OK(snap_load(fs_posix(), folder, (struct wire_tag){0, 0}, false, fresh,
                   NULL, NULL, t_err()));
    T_EQ(fresh->from.sequence, 1);
    T_EQ(once_version(&fresh->once), 1);
    sl_free(folder);
    shard_unref(fresh);
}

// The loop, between a snapshot that was written and its end there.
struct held_save {
    sem_t begun, go, saved;
};

static void on_loop_snapshot_and_save(void *arg)
{
    Sluice__V1__SnapshotRequest m = SLUICE__V1__SNAPSHOT_REQUEST__INIT;
    struct held_save *held = arg;

    m.job = 7;
    m.shard = 2;
    m.incarnation = 1;
    m.request = 1;
    roster_snapshot(stage.roster, &m);
    sem_post(&held->begun);
    while (sem_wait(&held->go) != 0)
        ;
    roster_save(stage.roster, on_saved, &held->saved);
}

static void wait_for_file(const char *folder, const char *name)
{
    char *path = fs_join(folder, name);

    while (!fs_exists(fs_posix(), path))
        sched_yield();
    sl_free(path);
}

TEST(attend, a_drain_saves_what_the_snapshot_under_way_lacks)
{
    struct held_save held;
    struct shard *fresh;
    char *folder;
    struct kit k;

    kit_init(&k);
    sem_init(&held.begun, 0, 0);
    sem_init(&held.go, 0, 0);
    sem_init(&held.saved, 0, 0);
    fresh = kit_shard(&k);
    folder = snap_folder(t_path("store"), &fresh->plan);
    stage_open(&stage);
    stage_serve(&stage, &k);
    push_one(&stage, 1, 0, 0, 1, WIRE_PUSH_COUNTED);
    T_OK(loop_post(stage.loop, on_loop_snapshot_and_save, &held));
    while (sem_wait(&held.begun) != 0)
        ;
    wait_for_file(folder, "shard-2.i1.n1.safetensors");
    push_one(&stage, 1, 0, 1, 1, WIRE_PUSH_COUNTED);
    sem_post(&held.go);
    while (sem_wait(&held.saved) != 0)
        ;
    stage_close(&stage);
    T_OK(snap_load(fs_posix(), folder, (struct wire_tag){0, 0}, false, fresh,
                   NULL, NULL, t_err()));
    T_EQ(fresh->from.sequence, 2);
    T_EQ(once_version(&fresh->once), 2);
    sl_free(folder);
    shard_unref(fresh);
}

// ---- a cut that takes long

static void want_snapshot(uint64_t incarnation, uint64_t request)
{
    Sluice__V1__SnapshotRequest m = SLUICE__V1__SNAPSHOT_REQUEST__INIT;

    m.job = 7;
    m.shard = 2;
    m.incarnation = incarnation;
    m.request = request;
    stage_send(&stage, SLUICE__V1__ATTEND_DOWN__KIND_SNAPSHOT, &m.base);
}

static const Sluice__V1__SnapshotReport *next_snapshot(void)
{
    return stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT)->snapshot;
}

// Asked for impatience it is not two questions, of which one is given up.
TEST(attend, a_snapshot_that_is_asked_for_again_and_again_does_not_fail)
{
    const Sluice__V1__SnapshotReport *report;
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    for (int i = 0; i < 5; i++)
        want_snapshot(1, 10);
    report = next_snapshot();
    T_STR(report->failure, "");
    want_snapshot(1, 11);
    while (report->request != 11) {
        report = next_snapshot();
        T_STR(report->failure, "");
    }
    stage_close(&stage);
}

// The shard was admitted anew while its file was written: the same cut asks for
// what it has now.
TEST(attend, the_same_request_of_another_incarnation_is_answered)
{
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    want_snapshot(1, 10);
    want_snapshot(4, 10);
    T_STR(next_snapshot()->failure, "");
    T_HAS(next_snapshot()->failure, "incarnation 4");
    stage_close(&stage);
}

// ---- pulls that wait for a round

static struct waiting_pull {
    enum sl_err rc;
    struct rpc_body *body;
    struct wire_pull_reply reply;
} waiting;

// On a thread of its own: the test's own error is not for it.
static void *pull_after(void *arg)
{
    struct rpc_call_options options = {.deadline_ms = 60000,
                                       .max_reply_bytes = RPC_DATA_BYTES};
    struct wire_pull pull = {
        .job = 7, .job_incarnation = 1, .shard = 2, .after_round_of = 1};
    struct sl_error err = SL_ERROR_INIT;
    struct waiting_pull *w = arg;
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    w->rc = wire_head_pull(&msg, &pull, 0);
    if (w->rc == SL_OK)
        w->rc = rpc_call_sync(stage.worker, WIRE_PULL, &msg, &options, &w->body,
                              &err);
    if (w->rc == SL_OK)
        w->rc = wire_read_pull_reply(&w->reply, rpc_body_slices(w->body), &err);
    return NULL;
}

// Asks again where the other push took longer than a pull waits.
static void *pull_until_made(void *arg)
{
    struct waiting_pull *w = arg;
    uint64_t begun_ms;

    for (;;) {
        begun_ms = sl_real_ms();
        pull_after(w);
        if (w->rc != SL_OK || w->reply.version > 0 ||
            sl_real_ms() - begun_ms < (ROUNDS_LOOKS - 1) * ROUNDS_LOOK_MS)
            return NULL;
        rpc_body_free(w->body);
    }
}

static void has_waited(uint64_t version, uint64_t open_first)
{
    T_OK(waiting.rc);
    T_EQ(waiting.reply.version, version);
    T_EQ(waiting.reply.open_first, open_first);
    rpc_body_free(waiting.body);
    stage_close(&stage);
}

static void serve_rounds(struct kit *k)
{
    kit_init(k);
    k->geometry.steps_per_closure = 1;
    k->spec.contributions = 2;
    stage_open(&stage);
    stage_serve(&stage, k);
    waiting = (struct waiting_pull){.rc = SL_OK};
}

// Whether it comes before or after the push, it has what the round made.
TEST(attend, a_pull_waits_for_the_round_that_it_names)
{
    pthread_t thread;
    struct kit k;

    serve_rounds(&k);
    push_one(&stage, 1, 0, 0, -1, WIRE_PUSH_HELD);
    T_EQ(pthread_create(&thread, NULL, pull_until_made, &waiting), 0);
    push_one(&stage, 1, 1, 0, -1, WIRE_PUSH_COUNTED);
    pthread_join(thread, NULL);
    has_waited(1, 3);
}

// Nobody makes the round whole: then it is told what there is.
TEST(attend, a_pull_does_not_wait_for_a_round_for_ever)
{
    struct kit k;

    serve_rounds(&k);
    push_one(&stage, 1, 0, 0, -1, WIRE_PUSH_HELD);
    pull_after(&waiting);
    has_waited(0, 1);
}
