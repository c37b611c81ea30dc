// SPDX-License-Identifier: Apache-2.0
// What was committed is there after the journal is opened again; what was not
// is not. (The system tests kill the process instead of closing the file.)
//
// With JOURNAL_OVER_ETCD=1 in the environment the journal is in etcd, where
// each opening replays it, and is to find the rows that were there when it was
// closed (unit.coordinator.journal_over_etcd).
#include "coordinator/journal/journal.h"

#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "coordinator/journal/journal_copy.h"
#include "coordinator/journal/journal_sql.h"
#include "tests/harness/t.h"
#include "tests/unit/coordinator/etcd_kit.h"

static bool over_etcd(void)
{
    return getenv("JOURNAL_OVER_ETCD") != NULL;
}

// The journal of this test in etcd: the first call starts etcd.
static struct journal *open_in_etcd(void)
{
    static char folder[400];
    static struct etcd *etcd;
    static int64_t term;

    if (strcmp(folder, t_tmpdir()) != 0) {
        etcd = kit_etcd(0);
        term = kit_etcd_lead(etcd);
        snprintf(folder, sizeof(folder), "%s", t_tmpdir());
    }
    return kit_journal(etcd, term);
}

static struct journal *open_at(const char *name)
{
    struct journal *j = NULL;

    if (over_etcd())
        return open_in_etcd();
    T_OK(journal_open(&j, t_path(name), t_err()));
    return j;
}

static void reopen(struct journal **j)
{
    uint8_t before[SHA256_BYTES], after[SHA256_BYTES];
    bool failed = journal_failed(*j);

    if (!failed) {
        T_OK(journal_flush(*j, t_err()));
        T_OK(journal_digest(*j, before, t_err()));
    }
    journal_close(*j);
    *j = open_at("j");
    T_OK(journal_digest(*j, after, t_err()));
    if (!failed)
        T_MEM(before, after, sizeof(before));
}

// For tests of the file itself.
#define OF_THE_FILE()                                                          \
    do {                                                                       \
        if (over_etcd())                                                       \
            T_SKIP("about the file of SQLite");                                \
    } while (0)

static void check_file_size(off_t most)
{
    struct stat st;

    if (over_etcd())
        return;
    T_EQ(stat(t_path("j"), &st), 0);
    T_LT(st.st_size, most);
}

static uint64_t add_job(struct journal *j, const char *request)
{
    struct journal_job row = {
        .uid = UINT64_C(0xfedcba9876543210),
        .incarnation = 1,
        .name = "fashion",
        .request_id = request,
        .state = 1,
        .reason = "",
        .spec = {"spec", 4},
        .submitted_us = 12345,
    };
    uint64_t id = 0;

    T_OK(journal_job_add(j, &row, &id, t_err()));
    return id;
}

static enum sl_err copy_job(void *arg, const struct journal_job *row,
                            struct sl_error *err)
{
    struct journal_job *to = arg;

    T_EQ(row->uid, UINT64_C(0xfedcba9876543210));
    T_STR(row->name, "fashion");
    T_EQ(row->spec.bytes, 4);
    T_MEM(row->spec.data, "spec", 4);
    *to = *row;
    to->name = to->request_id = to->reason = NULL;
    return SL_OK;
}

static struct journal_job only_job(struct journal *j)
{
    struct journal_job row = {0};

    T_OK(journal_job_read(j, 1, copy_job, &row, t_err()));
    return row;
}

static unsigned mode_of(const char *path)
{
    struct stat st;

    T_ASSERT(stat(path, &st) == 0);
    return st.st_mode & 0777;
}

// It holds the keys of all tokens, and all specs.
TEST(journal, is_for_its_user_alone)
{
    OF_THE_FILE();
    static const char *const files[] = {"j.sqlite", "j.sqlite-wal",
                                        "j.sqlite-shm"};
    mode_t was = umask(022);
    struct journal *j = open_at("j.sqlite");

    add_job(j, "r");
    for (size_t i = 0; i < SL_COUNT(files); i++)
        T_EQ(mode_of(t_path(files[i])), 0600);
    journal_close(j);
    T_ASSERT(chmod(t_path("j.sqlite"), 0644) == 0); // as earlier versions did
    j = open_at("j.sqlite");
    T_EQ(mode_of(t_path("j.sqlite")), 0600);
    journal_close(j);
    umask(was);
}

TEST(journal, I5_the_term_rises_and_stays)
{
    struct journal *j = open_at("j");
    uint64_t term = 9;

    T_OK(journal_term(j, &term, t_err()));
    T_EQ(term, 0);
    for (uint64_t i = 1; i < 5; i++) {
        T_OK(journal_next_term(j, &term, t_err()));
        T_EQ(term, i);
        reopen(&j);
    }
    T_OK(journal_term(j, &term, t_err()));
    T_EQ(term, 4);
    journal_close(j);
}

TEST(journal, a_job_comes_back_as_it_was_accepted)
{
    struct journal *j = open_at("j");
    struct journal_facts facts = {60000, 10000, UINT64_MAX, 7};
    struct journal_counters counters = {1, 2, 3, 4, 5, 0, {6, 7, 8, 0, 0}};
    struct journal_job row;
    uint64_t id = add_job(j, "r-1"), found = 0, last = 0;

    reopen(&j);
    row = only_job(j);
    T_EQ(row.id, id);
    T_FALSE(row.has_facts);
    T_EQ(row.submitted_us, 12345);
    T_OK(journal_job_by_request(j, "r-1", &found, t_err()));
    T_EQ(found, id);
    T_FAILS(SL_ENOENT, journal_job_by_request(j, "r-2", &found, t_err()));

    T_OK(journal_job_facts(j, id, &facts, t_err()));
    T_OK(journal_job_counters(j, id, &counters, t_err()));
    reopen(&j);
    row = only_job(j);
    T_TRUE(row.has_facts);
    T_EQ(row.facts.train_hash, UINT64_MAX);
    T_EQ(row.counters.workers_lost, 2);
    T_EQ(row.counters.elapsed_ms, 5);
    T_EQ(row.counters.trained.samples, 6);
    T_EQ(row.counters.trained.skipped, 0);
    // Of steps that were all skipped it is known that there were some.
    counters.trained = (struct journal_trained){.steps = 9, .skipped = 9};
    T_OK(journal_job_counters(j, id, &counters, t_err()));
    reopen(&j);
    row = only_job(j);
    T_EQ(row.counters.trained.samples, 0);
    T_NEAR(row.counters.trained.loss_sum, 0, 0);
    T_TRUE(row.counters.trained.skipped > 0 &&
           row.counters.trained.skipped == row.counters.trained.steps);
    T_OK(journal_last_job(j, &last, t_err()));
    T_EQ(last, id);
    journal_close(j);
}

TEST(journal, a_pause_goes_with_its_job)
{
    struct journal *j = open_at("j");
    struct journal_pause pause = {
        JOURNAL_PAUSE_HOLDS, "ada", "lunch", "n", 77, 9};
    struct journal_pause found;
    uint64_t id = add_job(j, "r-1");

    T_OK(journal_pause_read(j, id, &found, t_err()));
    T_EQ(found.state, JOURNAL_PAUSE_NONE);
    T_OK(journal_pause_set(j, id, &pause, t_err()));
    reopen(&j);
    T_OK(journal_pause_read(j, id, &found, t_err()));
    T_EQ(found.state, JOURNAL_PAUSE_HOLDS);
    T_STR(found.who, "ada");
    T_STR(found.why, "lunch");
    T_STR(found.note, "n");
    T_EQ(found.since_us, 77);
    T_EQ(found.total_ms, 9);
    T_OK(journal_job_delete(j, id, t_err()));
    T_OK(journal_pause_read(j, id, &found, t_err()));
    T_EQ(found.state, JOURNAL_PAUSE_NONE);
    journal_close(j);
}

// A read that fails writes none of its outputs.
TEST(journal, a_failed_read_changes_nothing)
{
    static const char drop[] = "DROP TABLE queue; DROP TABLE tenants;"
                               "DROP TABLE pauses; DROP TABLE clocks";
    struct journal *j = open_at("j");
    struct journal_pause pause = {.since_us = 77};
    uint64_t id = add_job(j, "r-1"), elapsed = 9, seen = 8;
    enum journal_turn turn = JOURNAL_TURN_CAME;
    char tenant[JOURNAL_TENANT] = "ada";

    T_OK(journal_exec(j, drop, t_err()));
    T_FAILS(SL_EIO, journal_job_turn(j, id, &turn, t_err()));
    T_EQ(turn, JOURNAL_TURN_CAME);
    T_FAILS(SL_EIO, journal_job_tenant(j, id, tenant, t_err()));
    T_STR(tenant, "ada");
    T_FAILS(SL_EIO, journal_pause_read(j, id, &pause, t_err()));
    T_EQ(pause.since_us, 77);
    T_FAILS(SL_EIO, journal_clock_read(j, id, &elapsed, &seen, t_err()));
    T_EQ(elapsed, 9);
    T_EQ(seen, 8);
    journal_close(j);
}

// A failure is final, and a statement that cannot be made is one.
TEST(journal, no_row_is_walked_after_a_failure)
{
    struct journal *j = open_at("j");
    struct sl_error err = SL_ERROR_INIT;
    struct journal_job row = {0};
    uint64_t id = add_job(j, "r-1");

    T_OK(journal_job_read(j, id, copy_job, &row, t_err()));
    T_FAILS(SL_EIO, journal_exec(j, "no SQL", t_err()));
    row.id = 0;
    T_FAILS(SL_EIO, journal_job_read(j, id, copy_job, &row, &err));
    T_HAS(err.text, "it failed before");
    T_EQ(row.id, 0);
    journal_close(j);
}

// What cannot be read is no failed input or output: it is said as it is, also
// where no statement could be made for it.
TEST(journal, a_failure_returns_what_its_error_says)
{
    static const char damage[] =
        "PRAGMA writable_schema = ON;"
        "UPDATE sqlite_master SET sql = 'CREATE TABLE' WHERE name = 'jobs';"
        "PRAGMA writable_schema = RESET";
    struct journal *j = open_at("j");
    struct sl_error err = SL_ERROR_INIT;
    uint64_t id = add_job(j, "r-1");

    T_OK(journal_exec(j, damage, t_err()));
    T_FAILS(SL_ECORRUPT, journal_job_state(j, id, 2, &err));
    T_EQ(err.code, SL_ECORRUPT);
    journal_close(j);
}

TEST(journal, a_job_that_is_not_committed_has_no_number)
{
    struct journal *j = open_at("j");
    struct journal_job row = {
        .name = "x", .tenant = "ada", .spec = {"s", 1}, .state = 1};
    uint64_t id = 77;

    T_OK(journal_exec(j, "DROP TABLE tenants", t_err()));
    T_FAILS(SL_EIO, journal_job_add(j, &row, &id, t_err()));
    T_EQ(id, 77);
    journal_close(j);
}

static enum sl_err find_none(void *arg, const struct journal_job *row,
                             struct sl_error *err)
{
    unsigned *seen = arg;

    (void)row;
    ++*seen;
    return sl_fail(err, SL_ENOENT, "not found");
}

// Also a callback's SL_ENOENT ends the walk with that, unlike the end of rows.
TEST(journal, a_walk_ends_with_what_its_callback_says)
{
    struct journal *j = open_at("j");
    unsigned seen = 0;

    T_OK(journal_each_job(j, find_none, &seen, t_err()));
    (void)add_job(j, "r-1");
    (void)add_job(j, "r-2");
    T_FAILS(SL_ENOENT, journal_each_job(j, find_none, &seen, t_err()));
    T_EQ(seen, 1);
    journal_close(j);
}

TEST(journal, a_clock_that_was_seen_is_told_again)
{
    struct journal *j = open_at("j");
    struct journal_counters counters = {.elapsed_ms = 5, .seen_us = 70};
    uint64_t id = add_job(j, "r-1"), elapsed = 9, seen = 9;

    T_OK(journal_clock_read(j, id, &elapsed, &seen, t_err()));
    T_EQ(elapsed + seen, 0);
    T_OK(journal_job_counters(j, id, &counters, t_err()));
    T_OK(journal_flush(j, t_err()));
    counters = (struct journal_counters){.elapsed_ms = 6}; // it does not run
    T_OK(journal_job_counters(j, id, &counters, t_err()));
    T_OK(journal_flush(j, t_err()));
    reopen(&j);
    T_EQ(only_job(j).counters.elapsed_ms, 6);
    T_OK(journal_clock_read(j, id, &elapsed, &seen, t_err()));
    T_EQ(elapsed, 5);
    T_EQ(seen, 70);
    T_OK(journal_job_delete(j, id, t_err()));
    T_OK(journal_clock_read(j, id, &elapsed, &seen, t_err()));
    T_EQ(elapsed + seen, 0);
    journal_close(j);
}

TEST(journal, a_second_row_of_a_request_id_is_refused)
{
    struct journal *j = open_at("j");
    struct journal_job row = {
        .name = "x", .request_id = "r-1", .spec = {"s", 1}, .state = 1};
    uint64_t id = 0;

    add_job(j, "r-1");
    T_FAILS(SL_EIO, journal_job_add(j, &row, &id, NULL));
    // A write that failed is final: nothing is acknowledged after it.
    T_FAILS(SL_EIO, journal_next_term(j, &id, NULL));
    reopen(&j);
    T_EQ(only_job(j).id, 1);
    add_job(j, "");
    add_job(j, ""); // none is not the same
    journal_close(j);
}

static enum sl_err see_shard(void *arg, const struct journal_shard *row,
                             struct sl_error *err)
{
    ((struct journal_shard *)arg)[row->shard] = *row;
    T_STR(row->psserver, row->shard == 0 ? "ps-a" : "ps-b");
    return SL_OK;
}

static enum sl_err raise_both(struct journal *j, uint64_t job, uint64_t first,
                              uint64_t second, struct sl_error *err)
{
    const struct journal_incarnation list[] = {{0, first}, {1, second}};

    return journal_shard_incarnations(j, job, list, 2, err);
}

static enum sl_err raise_one(struct journal *j, uint64_t job, uint32_t shard,
                             uint64_t incarnation, struct sl_error *err)
{
    const struct journal_incarnation one = {shard, incarnation};

    return journal_shard_incarnations(j, job, &one, 1, err);
}

// A commit of several takes all or none.
TEST(journal, I1_incarnations_of_a_batch_rise_together)
{
    static const char *const names[] = {"ps-a", "ps-b"};
    struct journal *j = open_at("j");
    struct journal_shard shards[2];
    uint64_t id = add_job(j, "");

    T_OK(journal_job_place(j, id, (struct journal_blob){"lay", 3}, names, 2,
                           t_err()));
    T_OK(raise_both(j, id, 1, 4, t_err()));
    T_FAILS(SL_EINTERNAL, raise_both(j, id, 2, 4, NULL));
    reopen(&j);
    T_OK(journal_each_shard(j, id, see_shard, shards, t_err()));
    T_EQ(shards[0].incarnation, 1);
    T_EQ(shards[1].incarnation, 4);
    journal_close(j);
}

TEST(journal, I1_incarnations_only_rise)
{
    static const char *const names[] = {"ps-a", "ps-b"};
    struct journal *j = open_at("j");
    struct journal_shard shards[2];
    uint64_t id = add_job(j, "");

    T_OK(journal_job_place(j, id, (struct journal_blob){"lay", 3}, names, 2,
                           t_err()));
    T_OK(raise_one(j, id, 1, 1, t_err()));
    T_OK(raise_one(j, id, 1, 2, t_err()));
    reopen(&j);
    T_OK(journal_each_shard(j, id, see_shard, shards, t_err()));
    T_EQ(shards[0].incarnation, 0);
    T_EQ(shards[1].incarnation, 2);
    T_EQ(only_job(j).layout.bytes, 3);
    T_FAILS(SL_EINTERNAL, raise_one(j, id, 1, 2, NULL));
    T_FAILS(SL_EINTERNAL, raise_one(j, id, 7, 1, NULL));
    journal_close(j);
}

struct cuts {
    unsigned count;
    enum journal_cut_state state[8];
};

static enum sl_err see_cut(void *arg, const struct journal_cut *row,
                           struct sl_error *err)
{
    struct cuts *c = arg;

    c->state[row->cut] = row->state;
    c->count++;
    T_EQ(row->epochs, 3);
    T_EQ(row->low, 33);
    T_MEM(row->checkpoint.data, "check", 5);
    T_MEM(row->counts.data, "counts", 6);
    return SL_OK;
}

static struct cuts cuts_of(struct journal *j, uint64_t job)
{
    struct cuts c = {0};

    T_OK(journal_each_cut(j, job, see_cut, &c, t_err()));
    return c;
}

static enum sl_err see_generation(void *arg, const struct journal_shard *row,
                                  struct sl_error *err)
{
    T_STR(row->psserver, "");
    T_EQ(row->incarnation, *(uint64_t *)arg);
    return SL_OK;
}

TEST(journal, R1_a_generation_is_of_all_parts_and_only_rises)
{
    static const char *const names[] = {"", "", ""};
    struct journal *j = open_at("j");
    uint64_t id = add_job(j, "r-1"), generation = 4;
    uint32_t contributions = 9;
    uint64_t redone = 9;

    T_OK(journal_job_place(j, id, (struct journal_blob){"layout", 6}, names, 3,
                           t_err()));
    T_OK(journal_ring_open(j, id, 4, t_err()));
    T_FAILS(SL_EINTERNAL, journal_ring_open(j, id, 4, NULL));
    T_OK(journal_ring_read(j, id, &contributions, t_err()));
    T_EQ(contributions, 0);
    T_OK(journal_ring_contributions(j, id, 8, t_err()));
    T_OK(journal_ring_redone_read(j, id, &redone, t_err()));
    T_EQ(redone, 0);
    T_OK(journal_ring_redone(j, id, UINT64_C(5) << 32, t_err()));
    reopen(&j);
    T_OK(journal_each_shard(j, id, see_generation, &generation, t_err()));
    T_OK(journal_ring_read(j, id, &contributions, t_err()));
    T_EQ(contributions, 8);
    T_OK(journal_ring_redone_read(j, id, &redone, t_err()));
    T_EQ(redone, UINT64_C(5) << 32);
    T_OK(journal_job_delete(j, id, t_err()));
    T_OK(journal_ring_read(j, id, &contributions, t_err()));
    T_EQ(contributions, 0);
    T_OK(journal_ring_redone_read(j, id, &redone, t_err()));
    T_EQ(redone, 0);
    journal_close(j);
}

TEST(journal, K4_a_cut_is_intent_until_its_outcome)
{
    static const char *const names[] = {"ps-a", "ps-b"};
    static const struct wire_tag tags[] = {{1, 5}, {2, 6}};
    struct journal *j = open_at("j");
    struct journal_shard shards[2];
    uint64_t id = add_job(j, "");
    struct journal_cut cut = {.path = "/p",
                              .epochs = 3,
                              .low = 33,
                              .checkpoint = {"check", 5},
                              .counts = {"counts", 6}};

    T_OK(journal_job_place(j, id, (struct journal_blob){"l", 1}, names, 2,
                           t_err()));
    for (cut.cut = 1; cut.cut <= 3; cut.cut++)
        T_OK(journal_cut_intent(j, id, &cut, t_err()));
    reopen(&j);
    T_EQ(cuts_of(j, id).count, 3);
    T_EQ(cuts_of(j, id).state[1], JOURNAL_CUT_INTENT);

    T_OK(journal_cut_publish(j, id, 1, tags, 2, t_err()));
    T_OK(journal_cut_abort(j, id, 2, t_err()));
    reopen(&j);
    T_EQ(cuts_of(j, id).state[1], JOURNAL_CUT_PUBLISHED);
    T_EQ(cuts_of(j, id).state[2], JOURNAL_CUT_ABORTED);
    T_EQ(cuts_of(j, id).state[3], JOURNAL_CUT_INTENT);
    T_OK(journal_each_shard(j, id, see_shard, shards, t_err()));
    T_EQ(shards[1].cut.incarnation, 2);
    T_EQ(shards[1].cut.sequence, 6);

    // K6: aborted is aborted, also if the manifest turns up later.
    T_FAILS(SL_ENOENT, journal_cut_publish(j, id, 2, tags, 2, NULL));
    T_FAILS(SL_ENOENT, journal_cut_drop(j, id, 3, NULL));
    T_OK(journal_cut_drop(j, id, 1, t_err()));
    reopen(&j);
    T_EQ(cuts_of(j, id).state[1], JOURNAL_CUT_DROPPED);
    T_EQ(cuts_of(j, id).state[2], JOURNAL_CUT_ABORTED);
    journal_close(j);
}

static enum sl_err count_cut(void *arg, const struct journal_cut *row,
                             struct sl_error *err)
{
    ++*(unsigned *)arg;
    return SL_OK;
}

static unsigned rows_of(struct journal *j, uint64_t job)
{
    unsigned rows = 0;

    T_OK(journal_each_cut(j, job, count_cut, &rows, t_err()));
    return rows;
}

// Cuts first..last, of which three are kept and every tenth is aborted.
static void make_cuts(struct journal *j, uint64_t id, uint64_t first,
                      uint64_t last)
{
    static char blob[20000];
    struct journal_cut cut = {
        .path = "/p",
        .checkpoint = {blob, sizeof(blob)},
        .counts = {blob, sizeof(blob)},
    };

    for (cut.cut = first; cut.cut <= last; cut.cut++) {
        T_OK(journal_cut_intent(j, id, &cut, t_err()));
        if (cut.cut % 10 == 0)
            T_OK(journal_cut_abort(j, id, cut.cut, t_err()));
        else
            T_OK(journal_cut_publish(j, id, cut.cut, NULL, 0, t_err()));
        if (cut.cut > 3 && (cut.cut - 3) % 10 != 0)
            T_OK(journal_cut_drop(j, id, cut.cut - 3, t_err()));
    }
}

TEST(journal, cuts_that_are_gone_take_no_space)
{
    struct journal *j = open_at("j");
    uint64_t id = add_job(j, ""), other = add_job(j, ""), past = 0;

    make_cuts(j, other, 1, 4);
    make_cuts(j, id, 1, 1000);
    T_LT(rows_of(j, id), 8);
    T_EQ(rows_of(j, other), 4); // no new cut of it was begun
    journal_close(j);
    check_file_size(1000000);
    j = open_at("j");
    T_OK(journal_cuts_past(j, id, &past, t_err()));
    T_EQ(past, 900 - 3); // 998, 999 are kept; 997 has its row
    T_OK(journal_job_delete(j, id, t_err()));
    T_OK(journal_cuts_past(j, id, &past, t_err()));
    T_EQ(past, 0);
    journal_close(j);
}

// As a program left it that cleared nothing away.
TEST(journal, rows_of_before_are_cleared_and_the_file_shrinks)
{
    OF_THE_FILE();
    struct journal *j = open_at("j");
    uint64_t id = add_job(j, ""), past = 0;
    struct stat st;
    sqlite3 *db;

    make_cuts(j, id, 1, 3);
    journal_close(j);
    T_EQ(sqlite3_open(t_path("j"), &db), SQLITE_OK);
    T_EQ(sqlite3_exec(db,
                      "WITH RECURSIVE n(i) AS (SELECT 4 UNION ALL"
                      " SELECT i + 1 FROM n WHERE i < 2000)"
                      "INSERT INTO cuts SELECT 1, i, 3, '/p', 1, 1,"
                      " zeroblob(20000), zeroblob(20000) FROM n;"
                      "DROP TABLE past;",
                      NULL, NULL, NULL),
         SQLITE_OK);
    sqlite3_close(db);
    T_EQ(stat(t_path("j"), &st), 0);
    T_GT(st.st_size, 80000000);
    j = open_at("j");
    T_OK(journal_tidy(j, t_err()));
    T_EQ(rows_of(j, id), 4); // the newest keeps its number
    T_OK(journal_cuts_past(j, id, &past, t_err()));
    T_EQ(past, 1996);
    journal_close(j);
    T_EQ(stat(t_path("j"), &st), 0);
    T_LT(st.st_size, 1000000);
}

static enum sl_err see_evaluation(void *arg,
                                  const struct journal_evaluation *row,
                                  struct sl_error *err)
{
    double *sum = arg;

    *sum += row->loss * row->epoch + row->accuracy;
    if (row->metrics != 0) {
        T_EQ(row->epoch, 2);
        T_EQ(row->metrics, 1u << SPEC_METRIC_AUC | 1u << SPEC_METRIC_RECALL);
        T_NEAR(row->metric[SPEC_METRIC_AUC], 0.9, 0);
        T_TRUE(isnan(row->metric[SPEC_METRIC_RECALL]));
        *sum += 100;
    }
    return SL_OK;
}

static enum sl_err see_blame(void *arg, uint64_t closure, uint64_t worker,
                             struct sl_error *err)
{
    *(uint64_t *)arg += closure * 100 + worker;
    return SL_OK;
}

static enum sl_err see_unknown(void *arg, const struct journal_evaluation *row,
                               struct sl_error *err)
{
    (*(unsigned *)arg)++;
    T_TRUE(isnan(row->loss) && isnan(row->train_loss));
    T_TRUE(isnan(row->train_accuracy));
    T_TRUE(row->epoch == 1 ? isnan(row->accuracy) : row->accuracy == 0.5);
    return SL_OK;
}

TEST(journal, what_is_not_known_of_an_evaluation_is_not_0_afterwards)
{
    const struct journal_evaluation rows[] = {{.epoch = 1,
                                               .loss = (double)NAN,
                                               .accuracy = (double)NAN,
                                               .train_loss = (double)NAN,
                                               .train_accuracy = (double)NAN},
                                              {.epoch = 2,
                                               .samples = 9,
                                               .loss = (double)NAN,
                                               .accuracy = 0.5,
                                               .train_loss = (double)NAN,
                                               .train_accuracy = (double)NAN}};
    struct journal *j = open_at("j");
    uint64_t id = add_job(j, "");
    unsigned seen = 0;

    T_OK(journal_evaluations_add(j, id, rows, 2, (struct journal_blob){NULL, 0},
                                 t_err()));
    reopen(&j);
    T_OK(journal_each_evaluation(j, id, see_unknown, &seen, t_err()));
    T_EQ(seen, 2);
    journal_close(j);
}

static enum sl_err add_losses(void *arg, const struct journal_evaluation *row,
                              struct sl_error *err)
{
    *(double *)arg += row->loss;
    return SL_OK;
}

static enum sl_err see_metrics(void *arg, const struct journal_evaluation *row,
                               struct sl_error *err)
{
    *(uint32_t *)arg = (uint32_t)row->metrics;
    return SL_OK;
}

// Two evaluations may have no step between them; a row that is refused would
// end the coordinator.
TEST(journal, an_evaluation_replaces_one_of_the_same_steps)
{
    struct journal_evaluation row = {
        .epoch = 1, .cut = 7, .samples = 100, .loss = 0.5, .accuracy = 0.25};
    struct journal *j = open_at("j");
    uint64_t id = add_job(j, "");
    double sum = 0;

    for (int i = 0; i < 2; i++) {
        T_OK(journal_evaluations_add(j, id, &row, 1,
                                     (struct journal_blob){NULL, 0}, t_err()));
        row.loss = 0.25;
    }
    T_OK(journal_each_evaluation(j, id, add_losses, &sum, t_err()));
    T_NEAR(sum, 0.25, 1e-12);
    journal_close(j);
}

// One that was replaced leaves none of its metrics behind.
TEST(journal, an_evaluation_that_replaces_another_has_its_own_metrics_alone)
{
    struct journal_evaluation row = {
        .epoch = 1, .cut = 7, .samples = 100, .loss = 0.5, .accuracy = 0.25};
    const uint32_t metrics[] = {1u << SPEC_METRIC_AUC |
                                    1u << SPEC_METRIC_RECALL,
                                1u << SPEC_METRIC_RECALL, 0};
    struct journal *j = open_at("j");
    uint64_t id = add_job(j, "");

    for (size_t i = 0; i < SL_COUNT(metrics); i++) {
        uint32_t seen = UINT32_MAX;

        row.metrics = metrics[i];
        T_OK(journal_evaluations_add(j, id, &row, 1,
                                     (struct journal_blob){NULL, 0}, t_err()));
        T_OK(journal_each_evaluation(j, id, see_metrics, &seen, t_err()));
        T_EQ(seen, metrics[i]);
    }
    journal_close(j);
}

TEST(journal, evaluations_and_blames_survive)
{
    struct journal_evaluation rows[] = {
        {.epoch = 1, .cut = 7, .samples = 100, .loss = 0.5, .accuracy = 0.25},
        {.epoch = 2, .cut = 7, .samples = 100, .loss = 0.25, .accuracy = 0.5}};
    struct journal *j = open_at("j");
    uint64_t id = add_job(j, ""), blames = 0;
    struct buf state = BUF_INIT;
    double sum = 0;

    rows[1].metrics = 1u << SPEC_METRIC_AUC | 1u << SPEC_METRIC_RECALL;
    rows[1].metric[SPEC_METRIC_AUC] = 0.9;
    rows[1].metric[SPEC_METRIC_RECALL] = (double)NAN;
    T_OK(journal_callbacks_read(j, id, &state, t_err()));
    T_EQ(state.len, 0);
    T_OK(journal_evaluations_add(j, id, rows, 2,
                                 (struct journal_blob){"state", 5}, t_err()));
    T_OK(journal_blame(j, id, 3, 1, t_err()));
    T_OK(journal_blame(j, id, 3, 1, t_err())); // once
    T_OK(journal_blame(j, id, 3, 2, t_err()));
    T_OK(journal_blame(j, id, 4, 5, t_err()));
    T_OK(journal_absolve(j, id, 4, t_err()));
    reopen(&j);
    T_OK(journal_each_evaluation(j, id, see_evaluation, &sum, t_err()));
    T_NEAR(sum, 100 + 0.5 + 0.25 + 0.5 + 0.5, 1e-12);
    T_OK(journal_callbacks_read(j, id, &state, t_err()));
    T_STR(buf_text(&state), "state");
    buf_release(&state);
    T_OK(journal_each_blame(j, id, see_blame, &blames, t_err()));
    T_EQ(blames, 301 + 302);
    journal_close(j);
}

static uint64_t wal_bytes(void)
{
    char path[4096];
    struct stat st;

    snprintf(path, sizeof(path), "%s-wal", t_path("j"));
    T_EQ(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

// 500 workers that are lost at once: one commit, of a few pages.
TEST(journal, what_nobody_waits_for_is_one_commit)
{
    OF_THE_FILE();
    struct journal *j = open_at("j");
    struct journal_counters counters = {0};
    uint64_t id = add_job(j, "r-1"), blames = 0, before = wal_bytes();

    for (uint64_t i = 0; i < 500; i++) {
        T_OK(journal_blame(j, id, i, 1, t_err()));
        counters.workers_lost = i + 1;
        T_OK(journal_job_counters(j, id, &counters, t_err()));
    }
    T_EQ(wal_bytes(), before);
    T_OK(journal_absolve(j, id, 499, t_err()));
    T_OK(journal_flush(j, t_err()));
    T_GT(wal_bytes(), before);
    T_LT(wal_bytes(), before + 30 * 4096);
    T_EQ(only_job(j).counters.workers_lost, 500);
    T_OK(journal_each_blame(j, id, see_blame, &blames, t_err()));
    T_EQ(blames, 498 * 499 / 2 * 100 + 499);

    // It goes with the next write that somebody does wait for.
    T_OK(journal_blame(j, id, 700, 1, t_err()));
    T_OK(journal_job_state(j, id, 2, t_err()));
    blames = 0;
    T_OK(journal_each_blame(j, id, see_blame, &blames, t_err()));
    T_EQ(blames, 498 * 499 / 2 * 100 + 499 + 70001);
    journal_close(j);
}

static enum sl_err see_deleted(void *arg, uint64_t job, uint64_t uid,
                               const char *psserver, struct sl_error *err)
{
    *(uint64_t *)arg = job;
    T_EQ(uid, UINT64_C(0xfedcba9876543210));
    return SL_OK;
}

TEST(journal, a_deleted_job_leaves_word_for_its_psservers)
{
    static const char *const names[] = {"ps-a", "ps-b"};
    struct journal *j = open_at("j");
    uint64_t id = add_job(j, "r-1"), sent = 0, last = 0;

    T_OK(journal_job_place(j, id, (struct journal_blob){"l", 1}, names, 2,
                           t_err()));
    T_OK(journal_job_end(j, id, 4, "done", 99, (struct journal_blob){"f", 1},
                         &(struct journal_counters){0}, t_err()));
    T_EQ(only_job(j).state, 4);
    T_EQ(only_job(j).ended_us, 99);
    T_OK(journal_job_delete(j, id, t_err()));
    reopen(&j);
    T_EQ(only_job(j).id, 0);
    T_OK(journal_each_deleted(j, "ps-b", see_deleted, &sent, t_err()));
    T_EQ(sent, id);
    sent = 0;
    T_OK(journal_each_deleted(j, "ps-c", see_deleted, &sent, t_err()));
    T_EQ(sent, 0);
    T_OK(journal_last_job(j, &last, t_err())); // a number is never used again
    T_EQ(last, id);
    T_GT(add_job(j, "r-1"), id);
    journal_close(j);
}

static enum sl_err count_shard(void *arg, const struct journal_shard *row,
                               struct sl_error *err)
{
    ++*(uint64_t *)arg;
    return SL_OK;
}

static enum sl_err count_blame(void *arg, uint64_t closure, uint64_t worker,
                               struct sl_error *err)
{
    ++*(uint64_t *)arg;
    return SL_OK;
}

static uint64_t all_rows(struct journal *j, uint64_t job)
{
    uint64_t count = 0;

    T_OK(journal_each_shard(j, job, count_shard, &count, t_err()));
    T_OK(journal_each_blame(j, job, count_blame, &count, t_err()));
    return count;
}

static uint64_t add_wide_job(struct journal *j, const char *request,
                             uint32_t shards)
{
    const char **names = sl_malloc_array(shards, sizeof(*names));
    uint64_t id = add_job(j, request);

    for (uint32_t i = 0; i < shards; i++)
        names[i] = "ps-a";
    T_OK(journal_job_place(j, id, (struct journal_blob){"l", 1}, names, shards,
                           t_err()));
    for (uint64_t i = 0; i < 7; i++)
        T_OK(journal_blame(j, id, i, 9, t_err()));
    T_OK(journal_flush(j, t_err()));
    sl_free(names);
    return id;
}

// One commit of so many rows a tick, whoever goes on with it.
TEST(journal, rows_of_a_deleted_job_go_some_at_a_time)
{
    enum { SHARDS = 2 * JOURNAL_SWEEP + 5, BLAMES = 7 };
    struct journal *j = open_at("j");
    uint64_t id = add_wide_job(j, "r-1", SHARDS), sent = 0;
    uint64_t other = add_wide_job(j, "r-2", 3);

    T_OK(journal_job_delete(j, id, t_err()));
    T_EQ(only_job(j).id, 0);
    T_OK(journal_each_deleted_of(j, id, see_deleted, &sent, t_err()));
    T_EQ(sent, id);
    T_EQ(all_rows(j, id), SHARDS + BLAMES); // they are nobody's
    T_OK(journal_sweep(j, t_err()));
    T_EQ(all_rows(j, id), SHARDS + BLAMES - JOURNAL_SWEEP);
    reopen(&j); // between two turns
    T_EQ(only_job(j).id, 0);
    T_OK(journal_sweep(j, t_err()));
    T_EQ(all_rows(j, id), 5 + BLAMES);
    T_OK(journal_job_delete(j, other, t_err())); // as well
    T_OK(journal_sweep(j, t_err()));
    T_EQ(all_rows(j, id), 0);
    T_EQ(all_rows(j, other), 3 + BLAMES);
    T_OK(journal_sweep(j, t_err()));
    T_EQ(all_rows(j, other), 0);
    T_OK(journal_sweep(j, t_err())); // nothing is left
    journal_close(j);
}

TEST(journal, a_newer_schema_and_a_foreign_file_are_refused)
{
    OF_THE_FILE();
    struct journal *j = open_at("j");
    sqlite3 *db;
    int fd;

    journal_close(j);
    T_EQ(sqlite3_open(t_path("j"), &db), SQLITE_OK);
    T_EQ(sqlite3_exec(db, "PRAGMA user_version = 4", NULL, NULL, NULL),
         SQLITE_OK);
    sqlite3_close(db);
    T_FAILS(SL_ENOTSUP, journal_open(&j, t_path("j"), NULL));

    fd = open(t_path("k"), O_CREAT | O_WRONLY, 0600);
    T_EQ(write(fd, "this is no database, whatever its name may say", 46), 46);
    close(fd);
    T_FAILS(SL_ECORRUPT, journal_open(&j, t_path("k"), t_err()));
}

// As the sqlite3 command makes one, in a process of its own.
static void back_up(const char *from, const char *to)
{
    sqlite3_backup *b;
    sqlite3 *in, *out;

    T_EQ(sqlite3_open_v2(from, &in, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    T_EQ(sqlite3_open(to, &out), SQLITE_OK);
    b = sqlite3_backup_init(out, "main", in, "main");
    T_TRUE(b != NULL);
    T_EQ(sqlite3_backup_step(b, -1), SQLITE_DONE);
    T_EQ(sqlite3_backup_finish(b), SQLITE_OK);
    sqlite3_close(in);
    sqlite3_close(out);
}

TEST(journal, a_backup_is_made_while_it_is_open)
{
    OF_THE_FILE();
    struct journal *j = open_at("j");
    uint64_t term = 0;

    add_job(j, "a");
    T_OK(journal_next_term(j, &term, t_err()));
    back_up(t_path("j"), t_path("copy"));
    T_OK(journal_next_term(j, &term, t_err())); // it goes on meanwhile
    T_EQ(term, 2);
    journal_close(j);

    j = open_at("copy"); // as it was at that moment
    only_job(j);
    T_OK(journal_next_term(j, &term, t_err()));
    T_EQ(term, 2);
    journal_close(j);
}

// What SQLite's own check says of a file.
static void check_integrity(const char *path)
{
    sqlite3_stmt *s;
    sqlite3 *db;

    T_EQ(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    T_EQ(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL),
         SQLITE_OK);
    T_EQ(sqlite3_step(s), SQLITE_ROW);
    T_STR((const char *)sqlite3_column_text(s, 0), "ok");
    sqlite3_finalize(s);
    sqlite3_close(db);
}

// Places a job, has it evaluated once without a loss, and deletes another.
static uint64_t fill_tables(struct journal *j)
{
    static const char *const names[] = {"ps-a"};
    static const struct journal_evaluation one = {
        .epoch = 1, .steps = 10, .cut = 3, .samples = 5, .loss = 2};
    const struct journal_blob layout = {"l", 1};
    uint64_t gone = add_job(j, "gone"), id = add_job(j, "stays");

    T_OK(journal_job_place(j, gone, layout, names, 1, t_err()));
    T_OK(journal_job_place(j, id, layout, names, 1, t_err()));
    T_OK(journal_evaluations_add(j, id, &one, 1, (struct journal_blob){NULL, 0},
                                 t_err()));
    T_OK(journal_job_delete(j, gone, t_err()));
    T_OK(journal_flush(j, t_err()));
    return gone;
}

TEST(journal, a_backup_of_it_passes_sqlites_check)
{
    OF_THE_FILE();
    struct journal *j = open_at("j");

    fill_tables(j);
    back_up(t_path("j"), t_path("copy"));
    check_integrity(t_path("copy"));
    journal_close(j);
}

// Tables that begin with another column than their key does, as they were.
TEST(journal, tables_of_before_are_taken_over_with_their_keys_first)
{
    OF_THE_FILE();
    struct journal *j = open_at("j");
    uint64_t gone = fill_tables(j), sent = 0;
    double sum = 0;
    sqlite3 *db;

    journal_close(j);
    T_EQ(sqlite3_open(t_path("j"), &db), SQLITE_OK);
    T_EQ(sqlite3_exec(
             db,
             "CREATE TABLE d(job INTEGER NOT NULL, uid INTEGER NOT NULL,"
             " psserver TEXT NOT NULL, PRIMARY KEY(psserver, job))"
             " WITHOUT ROWID;"
             "INSERT INTO d(job, uid, psserver) SELECT job, uid, psserver"
             " FROM deleted; DROP TABLE deleted;"
             "ALTER TABLE d RENAME TO deleted;"
             "CREATE TABLE e(job INTEGER NOT NULL, epoch INTEGER NOT NULL,"
             " cut INTEGER NOT NULL, samples INTEGER NOT NULL, loss REAL,"
             " accuracy REAL, steps INTEGER NOT NULL DEFAULT 0,"
             " train_samples INTEGER NOT NULL DEFAULT 0,"
             " train_loss REAL NOT NULL DEFAULT 0,"
             " train_accuracy REAL NOT NULL DEFAULT 0,"
             " PRIMARY KEY(job, epoch, steps)) WITHOUT ROWID;"
             "INSERT INTO e(job, epoch, cut, samples, loss, accuracy, steps)"
             " SELECT job, epoch, cut, samples, loss, accuracy, steps"
             " FROM evaluations; DROP TABLE evaluations;"
             "ALTER TABLE e RENAME TO evaluations;",
             NULL, NULL, NULL),
         SQLITE_OK);
    sqlite3_close(db);
    j = open_at("j");
    T_OK(journal_each_deleted(j, "ps-a", see_deleted, &sent, t_err()));
    T_EQ(sent, gone);
    T_OK(journal_each_evaluation(j, gone + 1, see_evaluation, &sum, t_err()));
    T_NEAR(sum, 2, 1e-12);
    T_OK(journal_deleted(j, gone, 7, "ps-a", t_err()));
    reopen(&j);
    check_integrity(t_path("j"));
    journal_close(j);
}

#define BEFORE_3                                                               \
    "DROP TABLE callbacks; DROP TABLE evaluations;"                            \
    "ALTER TABLE jobs DROP COLUMN trained_samples;"                            \
    "ALTER TABLE jobs DROP COLUMN trained_correct;"                            \
    "ALTER TABLE jobs DROP COLUMN trained_loss;"                               \
    "CREATE TABLE evaluations("                                                \
    " job INTEGER NOT NULL, epoch INTEGER NOT NULL, cut INTEGER NOT NULL,"     \
    " samples INTEGER NOT NULL, loss REAL, accuracy REAL,"                     \
    " PRIMARY KEY(job, epoch)) WITHOUT ROWID;"

// Evaluations that were made stay, and by steps there may be more of an epoch.
TEST(journal, schema_2_becomes_schema_3)
{
    OF_THE_FILE();
    static const struct journal_evaluation more[] = {
        {.epoch = 1, .steps = 10, .cut = 3, .samples = 5, .loss = 2},
        {.epoch = 1, .steps = 20, .cut = 4, .samples = 5, .loss = 4},
    };
    struct journal *j = open_at("j");
    uint64_t id = add_job(j, "r-1");
    struct journal_counters counters = {.trained = {7, 3, 1.5, 0, 0}};
    double sum = 0;
    sqlite3 *db;

    journal_close(j);
    T_EQ(sqlite3_open(t_path("j"), &db), SQLITE_OK);
    T_EQ(sqlite3_exec(db,
                      BEFORE_3
                      "INSERT INTO evaluations VALUES(1, 1, 2, 10, 0.5, 0.25);"
                      "PRAGMA user_version = 2",
                      NULL, NULL, NULL),
         SQLITE_OK);
    sqlite3_close(db);
    j = open_at("j");
    T_OK(journal_each_evaluation(j, id, see_evaluation, &sum, t_err()));
    T_NEAR(sum, 0.75, 1e-12);
    T_OK(journal_evaluations_add(j, id, more, 2, (struct journal_blob){NULL, 0},
                                 t_err()));
    T_OK(journal_job_counters(j, id, &counters, t_err()));
    reopen(&j);
    sum = 0;
    T_OK(journal_each_evaluation(j, id, see_evaluation, &sum, t_err()));
    T_NEAR(sum, 0.75 + 6, 1e-12);
    T_EQ(only_job(j).counters.trained.samples, 7);
    T_NEAR(only_job(j).counters.trained.loss_sum, 1.5, 1e-12);
    journal_close(j);
}

// What an older coordinator wrote goes on, and can hold what it did not know.
TEST(journal, schema_1_becomes_schema_2)
{
    OF_THE_FILE();
    struct journal *j = open_at("j");
    struct journal_job row;
    sqlite3 *db;

    add_job(j, "r-1");
    journal_close(j);
    T_EQ(sqlite3_open(t_path("j"), &db), SQLITE_OK);
    T_EQ(sqlite3_exec(db,
                      "ALTER TABLE jobs DROP COLUMN resume;" BEFORE_3
                      "PRAGMA user_version = 1",
                      NULL, NULL, NULL),
         SQLITE_OK);
    sqlite3_close(db);
    j = open_at("j");
    row = only_job(j);
    T_EQ(row.resume.bytes, 0);
    T_GT(add_job(j, "r-2"), row.id);
    journal_close(j);
}

// A transaction that was not committed when the process died is not there: a
// torn submit is no job. Copies of the files are what a kill leaves behind.
TEST(journal, a_torn_submit_is_no_job)
{
    OF_THE_FILE();
    struct journal *j = open_at("j");
    const char *copied = t_path("c"), *from = t_path("j");
    char wal[4096];
    struct stat st;
    uint64_t whole = 0;

    add_job(j, "r-1");
    snprintf(wal, sizeof(wal), "%s-wal", from);
    T_EQ(stat(wal, &st), 0);
    T_GT(st.st_size, 0);
    whole = (uint64_t)st.st_size;
    add_job(j, "r-2");
    T_EQ(stat(wal, &st), 0);
    T_GT(st.st_size, whole);

    for (uint64_t cut = whole; cut < (uint64_t)st.st_size; cut += 97) {
        char cmd[9000];
        struct journal *copy = NULL;
        uint64_t id = 0;

        snprintf(cmd, sizeof(cmd), "cp %s %s && head -c %llu %s > %s-wal", from,
                 copied, (unsigned long long)cut, wal, copied);
        T_EQ(system(cmd), 0);
        T_OK(journal_open(&copy, copied, t_err()));
        T_OK(journal_job_by_request(copy, "r-1", &id, t_err()));
        T_FAILS(SL_ENOENT, journal_job_by_request(copy, "r-2", &id, t_err()));
        journal_close(copy);
    }
    journal_close(j);
}

// ---- jobs that have ended

static enum sl_err count_job(void *arg, const struct journal_job *row,
                             struct sl_error *err)
{
    (*(uint64_t *)arg)++;
    return SL_OK;
}

static uint64_t count_jobs(struct journal *j,
                           enum sl_err (*each)(struct journal *, journal_job_fn,
                                               void *, struct sl_error *))
{
    uint64_t count = 0;

    T_OK(each(j, count_job, &count, t_err()));
    return count;
}

// A start has to read the others whole only: they would be ever more.
TEST(journal, jobs_that_have_ended_are_walked_by_themselves)
{
    struct journal *j = open_at("j");
    struct journal_blob blob = {"b", 1};
    struct journal_counters none = {0};
    struct journal_cut cut = {
        .cut = 1, .path = "p", .checkpoint = blob, .counts = blob};
    uint64_t id = add_job(j, "r-1"), ended = 0;

    add_job(j, "r-2");
    T_OK(journal_cut_intent(j, id, &cut, t_err()));
    T_OK(journal_job_end(j, id, 5, "why", 99, blob, &none, t_err()));
    T_EQ(count_jobs(j, journal_each_ended), 1);
    T_EQ(count_jobs(j, journal_each_job), 2); // of one a cut is open (K6)
    T_OK(journal_cut_publish(j, id, 1, NULL, 0, t_err()));
    T_EQ(count_jobs(j, journal_each_job), 1);
    T_OK(journal_job_read(j, id, count_job, &ended, t_err()));
    T_EQ(ended, 1);
    T_OK(journal_job_read(j, 99, count_job, &ended, t_err()));
    T_EQ(ended, 1);
    journal_close(j);
}
