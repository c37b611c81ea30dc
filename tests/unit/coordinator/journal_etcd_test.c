// SPDX-License-Identifier: Apache-2.0
// The journal in a real etcd: what a standby reads, what is written while etcd
// fails, and what is not written by a coordinator that leads no longer. (The
// tests of journal_test.c run over etcd as well.)
#include "coordinator/journal/journal_etcd.h"

#include <sqlite3.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "coordinator/journal/journal_copy.h"
#include "coordinator/journal/journal_log.h"
#include "coordinator/journal/journal_sql.h"
#include "coordinator/tasks/task_store.h"
#include "tests/harness/t.h"
#include "tests/unit/coordinator/etcd_kit.h"

#define LIMIT_MS 60000
#define MIB ((size_t)1 << 20)

static uint64_t add_job_of(struct journal *j, struct journal_blob spec)
{
    struct journal_job row = {.uid = 7,
                              .incarnation = 1,
                              .name = "fashion",
                              .state = 1,
                              .reason = "",
                              .spec = spec};
    uint64_t id = 0;

    T_OK(journal_job_add(j, &row, &id, t_err()));
    return id;
}

static uint64_t add_job(struct journal *j)
{
    return add_job_of(j, (struct journal_blob){"spec", 4});
}

static void check_same(struct journal *a, struct journal *b)
{
    uint8_t left[SHA256_BYTES], right[SHA256_BYTES];

    T_OK(journal_digest(a, left, t_err()));
    T_OK(journal_digest(b, right, t_err()));
    T_MEM(left, right, sizeof(left));
}

// The journal that a coordinator would find now.
static void check_replay(struct etcd *e, struct journal *j)
{
    struct journal *found = NULL;

    T_OK(journal_follow(&found, e, &journal_kind_own, t_err()));
    check_same(j, found);
    journal_close(found);
}

static size_t keys(struct etcd *e, const char *from, const char *end)
{
    const struct etcd_op get = {.what = ETCD_GET, .key = from, .end = end};
    struct etcd_reply r = {0};
    size_t n;

    T_OK(etcd_get(e, &get, LIMIT_MS, &r, t_err()));
    n = r.count;
    etcd_reply_release(&r);
    return n;
}

static size_t records(struct etcd *e)
{
    return keys(e, "log/", "log0");
}

// ---- following

static void random_write(struct journal *j, uint64_t *jobs)
{
    static uint8_t bytes[200000];
    struct journal_counters counters = {.elapsed_ms = t_below(1000)};
    struct journal_cut cut = {
        .cut = 1 + t_below(1000000),
        .path = "p",
        .checkpoint = {bytes, t_below(sizeof(bytes))},
        .counts = {bytes, t_below(100)},
    };
    uint64_t id = *jobs == 0 ? 0 : 1 + t_below(*jobs);

    bytes[t_below(sizeof(bytes))] ^= (uint8_t)t_rand();
    switch (id == 0 ? 0 : t_below(8)) {
    case 0:
        *jobs = add_job(j);
        break;
    case 1:
        T_OK(journal_job_delete(j, id, t_err()));
        break;
    case 2:
        T_OK(journal_job_counters(j, id, &counters, t_err()));
        T_OK(journal_flush(j, t_err()));
        break;
    case 3:
        T_OK(journal_blame(j, id, t_below(9), t_below(9), t_err()));
        break;
    case 4:
        T_OK(journal_drain(j, 1, "a", t_below(2) ? "ada" : NULL, "why",
                           t_err()));
        break;
    case 5:
        T_OK(journal_jobs_skip(j, *jobs + 1, *jobs + 3, t_err()));
        *jobs += 3;
        break;
    default:
        if (journal_cut_intent(j, id, &cut, t_err()) == SL_OK)
            T_OK(journal_cut_abort(j, id, cut.cut, t_err()));
    }
}

TEST(journal_etcd, a_standby_has_the_rows_of_the_leader)
{
    struct etcd *e = kit_etcd(0);
    struct journal *j = kit_journal(e, kit_etcd_lead(e)), *standby = NULL;
    uint64_t jobs = 0;

    T_OK(journal_follow(&standby, e, &journal_kind_own, t_err()));
    for (int i = 0; i < 400; i++) {
        random_write(j, &jobs);
        if (t_below(20) != 0)
            continue;
        T_OK(journal_flush(j, t_err()));
        T_OK(journal_follow_on(standby, t_err()));
        check_same(j, standby);
    }
    T_OK(journal_flush(j, t_err()));
    check_replay(e, j);
    journal_close(j);
    // And it goes on where the leader stopped.
    T_OK(journal_lead(
        standby, &(struct journal_leader){.term = kit_etcd_lead(e)}, t_err()));
    add_job(standby);
    check_replay(e, standby);
    journal_close(standby);
}

TEST(journal_etcd, H3_a_coordinator_that_was_chosen_reads_what_it_lacks)
{
    struct etcd *e = kit_etcd(0);
    struct journal *j = kit_journal(e, kit_etcd_lead(e)), *standby = NULL;
    uint64_t term = 0, job = 0;

    T_OK(journal_next_term(j, &term, t_err()));
    T_OK(journal_follow(&standby, e, &journal_kind_own, t_err()));
    job = add_job(j); // it was answered: the standby has not heard of it
    journal_close(j);
    T_OK(journal_lead(
        standby, &(struct journal_leader){.term = kit_etcd_lead(e)}, t_err()));
    T_OK(journal_last_job(standby, &term, t_err()));
    T_EQ(term, job);
    T_OK(journal_next_term(standby, &term, t_err()));
    T_EQ(term, 2);
    check_replay(e, standby);
    journal_close(standby);
}

TEST(journal_etcd, I5_each_leader_has_the_next_term)
{
    struct etcd *e = kit_etcd(0);
    struct journal_cluster cluster = {.seen_term = 1000};
    struct journal *j = NULL;
    uint64_t term = 0;

    for (uint64_t i = 1; i < 4; i++) {
        journal_close(j);
        j = kit_journal(e, kit_etcd_lead(e));
        T_OK(journal_next_term(j, &term, t_err()));
        T_EQ(term, i);
    }
    T_OK(journal_cluster_set(j, &cluster, t_err()));
    journal_close(j);
    j = kit_journal(e, kit_etcd_lead(e));
    T_OK(journal_next_term(j, &term, t_err()));
    T_EQ(term, 1001);
    journal_close(j);
}

TEST(journal_etcd, an_image_takes_the_place_of_the_records)
{
    static uint8_t spec[400000];
    struct etcd *e = kit_etcd(0);
    struct journal *j = kit_journal(e, kit_etcd_lead(e)), *standby = NULL;
    uint64_t until = sl_real_ms() + LIMIT_MS;
    int written = 0;
    char line[60];

    T_OK(journal_follow(&standby, e, &journal_kind_own, t_err()));
    // 4 MiB of records, and as many more as come while it is written.
    for (size_t had = 0; records(e) >= had && sl_real_ms() < until; written++) {
        had = records(e);
        T_OK(journal_job_delete(
            j, add_job_of(j, (struct journal_blob){spec, sizeof(spec)}),
            t_err()));
    }
    T_LT(records(e), 2 * written);
    T_LE(keys(e, "bases/", "bases0"), 8);      // one image, in parts
    T_OK(journal_follow_on(standby, t_err())); // over the gap
    check_same(j, standby);
    add_job(j);
    T_OK(journal_follow_on(standby, t_err()));
    check_same(j, standby);
    // An attempt that etcd makes only now, at a key that the image deleted.
    snprintf(line, sizeof(line), "put test/log/%016x late", 1);
    kit_etcdctl(line);
    T_OK(journal_follow_on(standby, t_err()));
    check_same(j, standby);
    check_replay(e, j);
    journal_close(j);
    journal_close(standby);
}

TEST(journal_etcd, a_transaction_larger_than_a_request_goes_in_parts)
{
    struct etcd *e = kit_etcd(0);
    struct journal *j = kit_journal(e, kit_etcd_lead(e));
    uint8_t *spec = malloc(3 * MIB);

    for (size_t i = 0; i < 3 * MIB; i++)
        spec[i] = (uint8_t)t_rand();
    add_job_of(j, (struct journal_blob){spec, 3 * MIB});
    T_EQ(records(e), 1);
    T_EQ(keys(e, "part/", "part0"), 4);
    check_replay(e, j);
    journal_close(j);
    free(spec);
}

// More parts, and more records, than one call reads.
TEST(journal_etcd, an_image_of_many_parts_is_read_whole)
{
    static uint8_t spec[1000000];
    struct etcd *e = kit_etcd(0);
    int64_t number = kit_etcd_lead(e);
    struct journal *j = kit_journal(e, number), *found = NULL;

    for (int i = 0; i % 8 != 0 || keys(e, "bases/", "bases0") <= 16; i++) {
        T_LT(i, 400); // images come when they are due, and are soon written
        spec[t_below(sizeof(spec))] ^= 1;
        add_job_of(j, (struct journal_blob){spec, sizeof(spec)});
    }
    T_OK(journal_follow(&found, e, &journal_kind_own, t_err()));
    check_same(j, found);
    journal_close(j); // and with it an image that is being written
    T_OK(journal_follow_on(found, t_err()));
    j = kit_journal(e, number);
    check_same(j, found);
    journal_close(found);
    journal_close(j);
}

// ---- a leader that is none

TEST(journal_etcd, H1_a_leader_that_has_lost_its_key_writes_nothing)
{
    struct etcd *e = kit_etcd(0);
    struct journal *j = kit_journal(e, kit_etcd_lead(e)), *next;
    struct journal_job row = {.name = "late", .reason = "", .spec = {"s", 1}};
    struct sl_error err = SL_ERROR_INIT;
    uint64_t id = 0, last = 0;

    add_job(j);
    next = kit_journal(e, kit_etcd_lead(e));
    T_FAILS(SL_ESTALE, journal_job_add(j, &row, &id, &err));
    T_HAS(err.text, "another coordinator's");
    T_TRUE(journal_failed(j));
    T_FALSE(journal_full(j));
    T_EQ(records(e), 1);
    add_job(next);
    check_replay(e, next);
    T_OK(journal_last_job(next, &last, t_err()));
    T_EQ(last, 2);
    journal_close(j);
    journal_close(next);
}

// ---- etcd fails

// left_ms of a writer: does something before an attempt of its number.
struct script {
    int attempts, kill_at, restart_at, pause_at, resume_at, lose_at;
};

static int64_t scripted_left_ms(void *arg)
{
    struct script *s = arg;
    int n = ++s->attempts;

    if (n == s->kill_at)
        kit_etcd_kill();
    if (n == s->restart_at)
        kit_etcd_restart();
    if (n == s->pause_at)
        kit_etcd_pause(true);
    if (n == s->resume_at)
        kit_etcd_pause(false);
    return s->lose_at != 0 && n >= s->lose_at ? 0 : LIMIT_MS;
}

static struct journal *scripted(struct etcd *e, int64_t term, struct script *s)
{
    struct journal_leader leader = {term, scripted_left_ms, s};
    const struct script plan = *s;
    struct journal *j = NULL;

    T_OK(journal_follow(&j, e, &journal_kind_own, t_err()));
    *s = (struct script){.attempts = 0}; // its first image asks, too
    T_OK(journal_lead(j, &leader, t_err()));
    *s = plan;
    return j;
}

TEST(journal_etcd, a_commit_waits_for_a_member_that_is_killed)
{
    struct etcd *e = kit_etcd(0);
    struct script s = {.kill_at = 1, .restart_at = 3};
    struct journal *j = scripted(e, kit_etcd_lead(e), &s);

    add_job(j);
    T_GE(s.attempts, 3);
    T_EQ(records(e), 1);
    add_job(j);
    check_replay(e, j);
    journal_close(j);
}

// The request of the first attempt lies in the socket of a member that stands
// still, and may be done when that goes on: beside the second one.
TEST(journal_etcd, H2_a_commit_without_an_answer_is_made_once)
{
    struct etcd *e = kit_etcd(0);
    struct script s = {.pause_at = 1, .resume_at = 2};
    struct journal *j = scripted(e, kit_etcd_lead(e), &s);

    add_job(j);
    T_GE(s.attempts, 2);
    T_EQ(records(e), 1);
    add_job(j);
    T_EQ(records(e), 2);
    check_replay(e, j);
    journal_close(j);
}

TEST(journal_etcd, H1_what_an_attempt_before_has_written_is_not_written_again)
{
    struct etcd *e = kit_etcd(0);
    const struct log_place at = {e, &journal_kind_own};
    const struct journal_leader leader = {.term = kit_etcd_lead(e)};
    const struct etcd_op get = {.what = ETCD_GET, .key = "log/1"};
    struct log_put put = {.key = "log/1", .value = {(const uint8_t *)"a", 1}};
    struct etcd_reply r = {0};
    struct log_writer w;

    log_writer_init(&w, &at, &leader);
    T_OK(log_put(&w, &put, t_err()));
    T_OK(log_put(&w, &put, t_err())); // the attempt whose answer was lost
    T_OK(etcd_get(e, &get, LIMIT_MS, &r, t_err()));
    T_EQ(r.rows[0].version, 1);
    etcd_reply_release(&r);
    put.value.data = (const uint8_t *)"b";
    T_FAILS(SL_ECORRUPT, log_put(&w, &put, t_err()));
}

TEST(journal_etcd, a_write_waits_no_longer_than_its_leadership_lasts)
{
    struct etcd *e = kit_etcd(0);
    struct script s = {.kill_at = 1, .lose_at = 4};
    struct journal *j = scripted(e, kit_etcd_lead(e), &s);
    struct sl_error err = SL_ERROR_INIT;
    uint64_t term = 0;

    T_FAILS(SL_ETIMEDOUT, journal_next_term(j, &term, &err));
    T_HAS(err.text, "etcd does not say");
    T_EQ(s.attempts, 4);
    T_TRUE(journal_failed(j));
    T_FALSE(journal_full(j));
    journal_close(j);
}

TEST(journal_etcd, a_standby_goes_on_after_a_failure_to_read)
{
    struct etcd *e = kit_etcd(0);
    struct journal *j = kit_journal(e, kit_etcd_lead(e)), *standby = NULL;

    T_OK(journal_follow(&standby, e, &journal_kind_own, t_err()));
    add_job(j);
    kit_etcd_kill();
    T_FAILS(SL_EUNAVAIL, journal_follow_on(standby, t_err()));
    T_FALSE(journal_failed(standby));
    kit_etcd_restart();
    T_OK(journal_follow_on(standby, t_err()));
    check_same(j, standby);
    journal_close(j);
    journal_close(standby);
}

static void fill(struct etcd *e)
{
    static uint8_t bytes[1 << 20];
    const struct etcd_op put = {
        .what = ETCD_PUT, .key = "filler", .value = {bytes, sizeof(bytes)}};
    struct sl_error err = SL_ERROR_INIT;
    struct etcd_reply r = {0};

    while (etcd_txn(e, &(struct etcd_txn){.then = &put, .then_count = 1},
                    LIMIT_MS, &r, &err) == SL_OK)
        etcd_reply_release(&r);
    T_TRUE(etcd_full(&err));
}

TEST(journal_etcd, a_full_etcd_is_a_full_journal_that_goes_on_with_space)
{
    struct etcd *e = kit_etcd(16 * MIB);
    int64_t number = kit_etcd_lead(e);
    struct journal *j = kit_journal(e, number);
    struct journal_job row = {.name = "late", .reason = "", .spec = {"s", 1}};
    struct sl_error err = SL_ERROR_INIT;
    struct etcd_status status;
    uint64_t id = 0, last = 0;
    struct etcd_reply r = {0};
    char line[60];

    add_job(j);
    fill(e);
    T_FAILS(SL_EUNAVAIL, journal_job_add(j, &row, &id, &err));
    T_HAS(err.text, "no space left in etcd://");
    T_TRUE(journal_full(j));
    journal_close(j);
    T_OK(etcd_status(e, LIMIT_MS, &status, t_err()));
    T_TRUE(status.full);
    // As docs/operations.md has it.
    kit_etcdctl("del test/filler");
    T_OK(etcd_get(e, &(struct etcd_op){.what = ETCD_GET, .key = "x"}, LIMIT_MS,
                  &r, t_err()));
    snprintf(line, sizeof(line), "compact %lld", (long long)r.revision);
    etcd_reply_release(&r);
    kit_etcdctl(line);
    kit_etcdctl("defrag");
    kit_etcdctl("alarm disarm");
    j = kit_journal(e, number);
    T_OK(journal_last_job(j, &last, t_err()));
    T_EQ(last, 1);
    add_job(j);
    check_replay(e, j);
    journal_close(j);
}

// ---- other versions

// Puts an image of `db` in force, as a coordinator of that schema would.
static void put_image_of(struct etcd *e, sqlite3 *db, uint32_t schema,
                         int64_t version)
{
    const struct log_place at = {e, &journal_kind_own};
    const struct journal_leader leader = {.term = kit_etcd_lead(e)};
    struct log_put put = {.key = "base", .version = version};
    Journal__Record record = JOURNAL__RECORD__INIT;
    sqlite3_int64 bytes = 0;
    uint8_t *image = sqlite3_serialize(db, "main", &bytes, 0);
    struct log_writer w;

    record.schema = schema;
    log_writer_init(&w, &at, &leader);
    T_OK(log_nonce(&record, t_err()));
    T_OK(log_put_record(&w, &put, &record, true,
                        (struct sl_slice){image, (size_t)bytes}, t_err()));
    sqlite3_free(image);
}

TEST(journal_etcd, a_newer_schema_is_refused)
{
    struct etcd *e = kit_etcd(0);
    struct journal *j = kit_journal(e, kit_etcd_lead(e)), *found = NULL;
    struct sl_error err = SL_ERROR_INIT;

    put_image_of(e, j->db, JOURNAL_SCHEMA + 1, 1);
    T_FAILS(SL_ENOTSUP, journal_follow(&found, e, &journal_kind_own, &err));
    T_HAS(err.text, "written by a newer coordinator");
    journal_close(j);
}

TEST(journal_etcd, tables_of_before_are_upgraded_by_the_next_leader)
{
    struct etcd *e = kit_etcd(0);
    struct journal *j = NULL, *standby = NULL;

    T_OK(journal_open(&j, ":memory:", t_err()));
    add_job(j);
    T_OK(journal_exec(j,
                      "ALTER TABLE jobs DROP COLUMN trained_samples;"
                      "ALTER TABLE jobs DROP COLUMN trained_correct;"
                      "ALTER TABLE jobs DROP COLUMN trained_loss;"
                      "DROP TABLE callbacks; DROP TABLE evaluations;"
                      "CREATE TABLE evaluations("
                      " job INTEGER NOT NULL, epoch INTEGER NOT NULL,"
                      " cut INTEGER NOT NULL, samples INTEGER NOT NULL,"
                      " loss REAL, accuracy REAL, PRIMARY KEY(job, epoch))"
                      " WITHOUT ROWID; PRAGMA user_version = 2",
                      t_err()));
    put_image_of(e, j->db, 2, 0);
    journal_close(j);
    T_OK(journal_follow(&standby, e, &journal_kind_own, t_err()));
    j = kit_journal(e, kit_etcd_lead(e));
    add_job(j);
    T_OK(journal_follow_on(standby, t_err()));
    check_same(j, standby);
    journal_close(j);
    journal_close(standby);
}

TEST(journal_etcd, changes_that_do_not_fit_are_refused)
{
    struct etcd *e = kit_etcd(0);
    struct journal *j = kit_journal(e, kit_etcd_lead(e)), *standby = NULL;

    T_OK(journal_follow(&standby, e, &journal_kind_own, t_err()));
    T_OK(journal_exec(standby, "UPDATE meta SET value = 5", t_err()));
    T_OK(journal_meta_set(j, "term", 7, t_err()));
    T_FAILS(SL_ECORRUPT, journal_follow_on(standby, t_err()));
    T_TRUE(journal_failed(standby));
    journal_close(j);
    journal_close(standby);
}

TEST(journal_etcd, a_gap_or_a_deleted_journal_is_refused)
{
    struct etcd *e = kit_etcd(0);
    struct journal *j = kit_journal(e, kit_etcd_lead(e)), *standby = NULL;
    struct journal *found = NULL;
    char line[60];

    T_OK(journal_follow(&standby, e, &journal_kind_own, t_err()));
    add_job(j);
    add_job(j);
    snprintf(line, sizeof(line), "del test/log/%016x", 1);
    kit_etcdctl(line);
    T_FAILS(SL_ECORRUPT, journal_follow(&found, e, &journal_kind_own, t_err()));
    kit_etcdctl("del test/base");
    T_FAILS(SL_ECORRUPT, journal_follow_on(standby, t_err()));
    journal_close(j);
    journal_close(standby);
}

// ---- rows of another kind

static struct task_store *lead_tasks(struct etcd *e, int64_t term)
{
    const struct journal_leader leader = {.term = term};
    struct task_store *s = NULL;
    struct journal *j = NULL;

    T_OK(journal_follow(&j, e, &task_store_kind, t_err()));
    T_OK(journal_lead(j, &leader, t_err()));
    T_OK(store_of_rows(&s, j, t_err()));
    return s;
}

static struct book_task *add_task(struct task_store *s, struct book *b,
                                  struct book_client *c, size_t bytes)
{
    ProtobufCBinaryData body = {bytes, sl_malloc(bytes)};
    struct book_task *t =
        book_add(b, c, b->last_id + 1, c->last + 1, "square", bytes);

    T_ASSERT(t != NULL && body.data != NULL);
    memset(body.data, (int)t->id, bytes);
    T_OK(store_add(s, t, &body, t_err()));
    T_OK(store_client(s, c, t_err()));
    sl_free(body.data);
    return t;
}

static void check_bytes(struct task_store *s, uint64_t id, size_t bytes)
{
    ProtobufCBinaryData found = {0};

    T_OK(store_read(s, id, &found, NULL, t_err()));
    T_EQ(found.len, bytes);
    for (size_t i = 0; i < bytes; i += 1000)
        T_EQ(found.data[i], id);
    sl_free(found.data);
}

// A queue that is made and deleted within a transaction leaves no row in its
// record, and its number is not given again all the same.
TEST(journal_etcd, tasks_are_those_of_the_leader_before)
{
    struct etcd *e = kit_etcd(0);
    int64_t term = kit_etcd_lead(e);
    struct journal *j = kit_journal(e, term);
    struct task_store *s = lead_tasks(e, term);
    const ProtobufCBinaryData result = {6, (uint8_t *)"result"};
    struct book b, found;
    uint64_t queue = 0, gone = 0, next = 0;
    struct book_client *c;
    struct book_task *t;

    book_init(&b);
    add_job(j);
    T_OK(store_queue_add(s, &queue, "", "q", 100, t_err()));
    c = book_client_add(book_queue_add(&b, queue, "", "q", 100), 7);
    t = add_task(s, &b, c, 10);
    add_task(s, &b, c, 3 * MIB); // in parts
    T_OK(store_commit(s, &b, t_err()));
    book_end(&b, t, BOOK_DONE, result.len);
    T_OK(store_end(s, t, BOOK_DONE, &result, "", t_err()));
    T_OK(store_commit(s, &b, t_err()));
    add_task(s, &b, c, 20);
    T_OK(store_queue_add(s, &gone, "", "gone", 100, t_err()));
    T_OK(store_queue_remove(s, gone, t_err()));
    T_OK(store_commit(s, &b, t_err()));
    T_EQ(records(e), 1); // of jobs: tasks lie in a folder of their own
    T_EQ(keys(e, "tasks/log/", "tasks/log0"), 3);
    T_EQ(keys(e, "tasks/part/", "tasks/part0"), 4); // and of its row

    term = kit_etcd_lead(e); // another coordinator
    add_task(s, &b, c, 30);
    T_FAILS(SL_ESTALE, store_commit(s, &b, t_err()));
    store_close(s);
    book_release(&b);
    s = lead_tasks(e, term);
    book_init(&found);
    T_OK(store_load(s, &found, t_err()));
    T_EQ(found.tasks.len, 3);
    T_EQ(found.last_id, 3);
    T_EQ(found.pending, 2);
    check_bytes(s, 2, 3 * MIB);
    check_bytes(s, 3, 20);
    T_OK(store_queue_add(s, &next, "", "next", 100, t_err()));
    T_EQ(next, gone + 1);
    T_OK(store_commit(s, &found, t_err()));
    store_close(s);
    book_release(&found);
    check_replay(e, j);
    journal_close(j);
}

// Memory that runs out is no damage of what is in etcd.
TEST(journal_etcd, without_memory_a_record_is_not_called_spoilt)
{
    const struct log_place place = {kit_etcd(0), &journal_kind_own};
    Journal__Record record = JOURNAL__RECORD__INIT;
    uint8_t bytes[100];
    struct etcd_row row = {.key = "log/1"};
    struct log_read r;
    enum sl_err rc = SL_ENOMEM;

    record.format = 1;
    record.schema = (uint32_t)journal_kind_own.schema;
    record.data = (ProtobufCBinaryData){4, (uint8_t *)"rows"};
    record.bytes = 4;
    T_ASSERT(journal__record__get_packed_size(&record) <= sizeof(bytes));
    row.value = (struct sl_slice){bytes, journal__record__pack(&record, bytes)};
    for (uint64_t n = 1; rc != SL_OK; n++) {
        sl_mem_fail_at(n);
        rc = log_read(&r, &place, &row, NULL);
        if (sl_mem_failed())
            T_EQ(rc, SL_ENOMEM);
        else
            T_OK(rc);
        sl_mem_fail_at(0);
        log_read_release(&r);
        T_LT(n, 100u);
    }
}

// ---- moving

static unsigned renewals; // of leases

enum sl_err __real_etcd_lease_renew(struct etcd *e, int64_t id,
                                    int64_t limit_ms, int64_t *granted_s,
                                    struct sl_error *err);
enum sl_err __wrap_etcd_lease_renew(struct etcd *e, int64_t id,
                                    int64_t limit_ms, int64_t *granted_s,
                                    struct sl_error *err);
enum sl_err __wrap_etcd_lease_renew(struct etcd *e, int64_t id,
                                    int64_t limit_ms, int64_t *granted_s,
                                    struct sl_error *err)
{
    renewals++;
    return __real_etcd_lease_renew(e, id, limit_ms, granted_s, err);
}

// A copy may take longer than its lease: each of its writes renews that.
TEST(journal_etcd, a_copy_renews_its_lease_with_each_write)
{
    struct etcd *e = kit_etcd(0);
    struct journal *file = NULL;
    uint64_t jobs = 0;

    T_OK(journal_open(&file, t_path("long"), t_err()));
    for (int i = 0; i < 10; i++)
        random_write(file, &jobs);
    journal_close(file);
    renewals = 0;
    T_OK(journal_copy_in(e, t_path("long"), &journal_kind_own, t_err()));
    T_GE(renewals, 2u);
}

TEST(journal_etcd, a_file_moves_to_etcd_and_back)
{
    struct etcd *e = kit_etcd(0);
    struct journal *file = NULL, *back = NULL, *j;
    uint64_t jobs = 0;

    T_FAILS(SL_ENOENT,
            journal_copy_in(e, t_path("j"), &journal_kind_own, t_err()));
    T_FAILS(SL_ENOENT,
            journal_copy_out(e, t_path("k"), &journal_kind_own, t_err()));
    T_OK(journal_open(&file, t_path("j"), t_err()));
    for (int i = 0; i < 100; i++)
        random_write(file, &jobs);
    journal_close(file);
    T_OK(journal_copy_in(e, t_path("j"), &journal_kind_own, t_err()));
    T_FAILS(SL_EEXIST,
            journal_copy_in(e, t_path("j"), &journal_kind_own, t_err()));
    T_OK(journal_copy_out(e, t_path("k"), &journal_kind_own, t_err()));
    T_FAILS(SL_EEXIST,
            journal_copy_out(e, t_path("k"), &journal_kind_own, t_err()));
    T_OK(journal_open(&file, t_path("j"), t_err()));
    T_OK(journal_open(&back, t_path("k"), t_err()));
    check_same(file, back);
    journal_close(back);
    journal_close(file);

    j = kit_journal(e, kit_etcd_lead(e));
    random_write(j, &jobs);
    T_FAILS(SL_ESTATE,
            journal_copy_out(e, t_path("l"), &journal_kind_own, t_err()));
    T_FAILS(SL_ESTATE,
            journal_copy_in(e, t_path("j"), &journal_kind_own, t_err()));
    check_replay(e, j);
    journal_close(j);
}
