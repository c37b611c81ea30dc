// SPDX-License-Identifier: Apache-2.0
// The client against a real etcd: conditions, leases, watches, and what is said
// when it does not answer.
#include <pthread.h>

#include "common/base/deadline.h"
#include "common/base/mem.h"
#include "tests/harness/t.h"
#include "tests/unit/coordinator/etcd_kit.h"

#define LIMIT_MS 60000
#define SHORT_MS 300

static struct sl_slice text(const char *t)
{
    return (struct sl_slice){(const uint8_t *)t, strlen(t)};
}

static int64_t put(struct etcd *e, const char *key, const char *value,
                   int64_t lease)
{
    const struct etcd_op op = {
        .what = ETCD_PUT, .key = key, .value = text(value), .lease = lease};
    struct etcd_reply r = {0};
    int64_t revision;

    T_OK(etcd_txn(e, &(struct etcd_txn){.then = &op, .then_count = 1}, LIMIT_MS,
                  &r, t_err()));
    T_TRUE(r.held);
    revision = r.revision;
    etcd_reply_release(&r);
    return revision;
}

static struct etcd_reply get(struct etcd *e, struct etcd_op op)
{
    struct etcd_reply r = {0};

    op.what = ETCD_GET;
    T_OK(etcd_get(e, &op, LIMIT_MS, &r, t_err()));
    return r;
}

static size_t count(struct etcd *e, const char *key)
{
    struct etcd_reply r = get(e, (struct etcd_op){.key = key});
    size_t n = r.count;

    etcd_reply_release(&r);
    return n;
}

TEST(etcd, a_url_names_members_and_a_prefix)
{
    static const char *const bad[] = {
        "",
        "etcd://",
        "etcd://[::1]:1",
        "etcd://[::1]:1/",
        "etcd:///p",
        "http://[::1]:1/p",
        "etcd://host/p",
        "etcd://[::1]:1,/p",
        "[::1]:1/p",
        "etcd://[::1]:1//p",
        "etcd://,[::1]:1/p",
    };
    struct sl_error err = SL_ERROR_INIT;
    struct etcd *e = NULL;
    struct rpc_io *io = NULL;

    T_OK(rpc_io_new(&io, NULL, t_err()));
    for (size_t i = 0; i < SL_COUNT(bad); i++)
        T_FAILS(SL_EINVAL, etcd_new(&e, io, bad[i], NULL, &err));
    // A host of others, and no certificates.
    T_FAILS(SL_EDENIED, etcd_new(&e, io, "etcd://10.0.0.5:1/p", NULL, &err));
    T_OK(etcd_new(&e, io, "etcd://127.0.0.1:1,[::1]:2/a/b", NULL, t_err()));
    etcd_free(e);
    rpc_io_free(io);
}

TEST(etcd, keys_lie_below_the_prefix_and_rows_are_as_they_were)
{
    struct etcd *e = kit_etcd(0);
    int64_t first = put(e, "log/1", "one", 0);
    struct etcd_reply r;

    put(e, "log/2", "two", 0);
    put(e, "other", "", 0);
    kit_etcdctl("put testing not-ours");
    r = get(e, (struct etcd_op){.key = "log/", .end = "log0"});
    T_EQ(r.count, 2);
    T_STR(r.rows[0].key, "log/1");
    T_MEM(r.rows[0].value.data, "one", 3);
    T_EQ(r.rows[0].created, first);
    T_EQ(r.rows[1].modified, first + 1);
    T_FALSE(r.more);
    etcd_reply_release(&r);
    r = get(e, (struct etcd_op){.key = "log/", .end = "log0", .most = 1});
    T_EQ(r.count, 1);
    T_TRUE(r.more);
    etcd_reply_release(&r);
    // As it was before the second.
    r = get(e,
            (struct etcd_op){.key = "log/", .end = "log0", .revision = first});
    T_EQ(r.count, 1);
    etcd_reply_release(&r);
}

TEST(etcd, a_transaction_is_done_if_all_its_conditions_hold)
{
    struct etcd *e = kit_etcd(0);
    int64_t leader = put(e, "leader", "a", 0);
    struct etcd_if ifs[] = {{ETCD_CREATED, "leader", leader},
                            {ETCD_VERSION, "log/1", 0}};
    const struct etcd_op then[] = {
        {.what = ETCD_PUT, .key = "log/1", .value = text("x")},
        {.what = ETCD_DELETE, .key = "old/", .end = "old0"}};
    const struct etcd_op otherwise[] = {{.what = ETCD_GET, .key = "leader"},
                                        {.what = ETCD_GET, .key = "log/1"}};
    const struct etcd_txn txn = {ifs, 2, then, 2, otherwise, 2};
    struct etcd_reply r = {0};

    put(e, "old/1", "", 0);
    put(e, "old/2", "", 0);
    T_OK(etcd_txn(e, &txn, LIMIT_MS, &r, t_err()));
    T_TRUE(r.held);
    T_EQ(r.count, 0);
    etcd_reply_release(&r);
    T_EQ(count(e, "old/1") + count(e, "old/2"), 0);
    T_OK(etcd_txn(e, &txn, LIMIT_MS, &r, t_err())); // now it is there
    T_FALSE(r.held);
    T_EQ(r.count, 2);
    T_STR(r.rows[1].key, "log/1");
    T_MEM(r.rows[1].value.data, "x", 1);
    etcd_reply_release(&r);
    put(e, "leader", "b", 0); // made once: its revision stays
    ifs[1].is = 1;
    T_OK(etcd_txn(e, &txn, LIMIT_MS, &r, t_err()));
    T_TRUE(r.held);
    etcd_reply_release(&r);
}

// Unknown is unknown: what is told as not done was not done, though memory runs
// short while the answer is read.
TEST(etcd, a_transaction_that_was_done_is_never_told_as_not_done)
{
    struct etcd *e = kit_etcd(0);
    bool done_and_failed = false, more = true;

    put(e, "leader", "a", 0);
    for (uint64_t n = 1; more; n++) {
        char key[32];
        struct etcd_op then[] = {
            {.what = ETCD_PUT, .key = key, .value = text("x")},
            {.what = ETCD_GET, .key = "leader"}};
        const struct etcd_txn txn = {.then = then, .then_count = 2};
        struct sl_error err = SL_ERROR_INIT;
        struct etcd_reply r = {0};
        enum sl_err rc;

        snprintf(key, sizeof(key), "done/%u", (unsigned)n);
        sl_mem_fail_at(n);
        rc = etcd_txn(e, &txn, LIMIT_MS, &r, &err);
        more = sl_mem_failed();
        sl_mem_fail_at(0);
        if (rc == SL_OK)
            etcd_reply_release(&r);
        else if (!etcd_unknown(rc, &err))
            T_EQ(count(e, key), 0);
        else
            done_and_failed |= count(e, key) == 1;
    }
    T_TRUE(done_and_failed);
}

TEST(etcd, a_lease_ends_with_its_keys)
{
    struct etcd *e = kit_etcd(0);
    int64_t id = 0, granted = 0;

    T_OK(etcd_lease_grant(e, 30, LIMIT_MS, &id, &granted, t_err()));
    T_EQ(granted, 30);
    put(e, "leader", "a", id);
    granted = 0;
    T_OK(etcd_lease_renew(e, id, LIMIT_MS, &granted, t_err()));
    T_EQ(granted, 30);
    T_OK(etcd_lease_revoke(e, id, LIMIT_MS, t_err()));
    T_EQ(count(e, "leader"), 0);
    T_FAILS(SL_ENOENT, etcd_lease_renew(e, id, LIMIT_MS, &granted, t_err()));
    T_FAILS(SL_ENOENT, etcd_lease_revoke(e, id, LIMIT_MS, t_err()));
}

// ---- what fails

TEST(etcd, no_answer_leaves_a_write_unknown_and_it_is_not_repeated)
{
    struct etcd *e = kit_etcd(0);
    const struct etcd_op op = {.what = ETCD_PUT, .key = "n"};
    const struct etcd_txn txn = {.then = &op, .then_count = 1};
    struct sl_error err = SL_ERROR_INIT;
    struct etcd_reply r = {0};
    enum sl_err rc;

    kit_etcd_pause(true);
    rc = etcd_txn(e, &txn, SHORT_MS, &r, &err);
    T_EQ(rc, SL_ETIMEDOUT);
    T_TRUE(etcd_unknown(rc, &err));
    kit_etcd_pause(false);
    // It was done at most once, sooner or later.
    put(e, "n", "", 0);
    r = get(e, (struct etcd_op){.key = "n"});
    T_LE(r.rows[0].modified - r.rows[0].created, 1);
    etcd_reply_release(&r);
    kit_etcd_kill();
    rc = etcd_txn(e, &txn, LIMIT_MS, &r, &err);
    T_EQ(rc, SL_EUNAVAIL);
    T_TRUE(etcd_unknown(rc, &err));
}

TEST(etcd, a_value_that_is_too_large_is_refused)
{
    struct etcd *e = kit_etcd(0);
    size_t bytes = 25u << 16; // 1.6 MiB
    uint8_t *data = calloc(1, bytes);
    const struct etcd_op op = {
        .what = ETCD_PUT, .key = "n", .value = {data, bytes}};
    struct sl_error err = SL_ERROR_INIT;
    struct etcd_reply r = {0};
    enum sl_err rc =
        etcd_txn(e, &(struct etcd_txn){.then = &op, .then_count = 1}, LIMIT_MS,
                 &r, &err);

    T_EQ(rc, SL_EINVAL);
    T_FALSE(etcd_unknown(rc, &err));
    T_EQ(count(e, "n"), 0);
    free(data);
}

TEST(etcd, the_next_call_goes_to_the_next_member)
{
    struct etcd *e = kit_etcd(0), *list = NULL;
    struct rpc_io *io = NULL;
    char url[120];
    struct etcd_status status;
    struct sl_error err = SL_ERROR_INIT;

    // At the first address there is no member.
    snprintf(url, sizeof(url), "etcd://127.0.0.1:1,%s",
             etcd_url(e) + strlen(ETCD_SCHEME));
    T_OK(rpc_io_new(&io, NULL, t_err()));
    T_OK(etcd_new(&list, io, url, NULL, t_err()));
    T_FAILS(SL_EUNAVAIL, etcd_status(list, LIMIT_MS, &status, &err));
    T_HAS(err.text, "127.0.0.1:1");
    T_OK(etcd_status(list, LIMIT_MS, &status, t_err()));
    T_TRUE(status.led);
    T_FALSE(status.full);
    T_TRUE(status.version[0] == '3');
    T_TRUE(status.bytes >= status.used && status.used > 0);
    etcd_free(list);
    rpc_io_free(io);
}

// ---- watches

struct seen {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned puts, deletes;
    char last[40];
    bool ended, compacted;
};

static void on_changed(void *arg, const struct etcd_change *change)
{
    struct seen *s = arg;

    pthread_mutex_lock(&s->lock);
    s->puts += !change->deleted;
    s->deletes += change->deleted;
    snprintf(s->last, sizeof(s->last), "%s=%.*s", change->row.key,
             (int)change->row.value.len, (const char *)change->row.value.data);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void on_ended(void *arg, enum sl_err code, const struct sl_error *err)
{
    struct seen *s = arg;

    T_ASSERT(code != SL_OK);
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    s->compacted = etcd_compacted(err);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static const struct etcd_watch_events events = {on_changed, on_ended};

static struct etcd_watch *watch(struct seen *s, struct etcd *e, int64_t from)
{
    struct etcd_watch *w = NULL;

    *s = (struct seen){0};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    T_OK(etcd_watch_open(&w, e, "log/", "log0", from, &events, s, t_err()));
    return w;
}

#define WAIT(s, condition)                                                     \
    do {                                                                       \
        struct deadline until_ = deadline_in_ms(LIMIT_MS);                     \
        bool in_time_ = true;                                                  \
        pthread_mutex_lock(&(s)->lock);                                        \
        while (!(condition) && in_time_)                                       \
            in_time_ = deadline_wait(&until_, &(s)->changed, &(s)->lock);      \
        pthread_mutex_unlock(&(s)->lock);                                      \
        T_TRUE(in_time_);                                                      \
    } while (0)

TEST(etcd, a_watch_tells_of_each_change_from_its_revision_on)
{
    struct etcd *e = kit_etcd(0);
    int64_t first = put(e, "log/1", "a", 0);
    int64_t lease = 0, granted = 0;
    struct etcd_watch *w;
    struct seen s;

    put(e, "log/2", "b", 0);
    w = watch(&s, e, first + 1);
    WAIT(&s, s.puts == 1);
    T_STR(s.last, "log/2=b");
    put(e, "other", "", 0);
    T_OK(etcd_lease_grant(e, 30, LIMIT_MS, &lease, &granted, t_err()));
    put(e, "log/3", "c", lease);
    WAIT(&s, s.puts == 2);
    T_OK(etcd_lease_revoke(e, lease, LIMIT_MS, t_err()));
    WAIT(&s, s.deletes == 1);
    T_STR(s.last, "log/3=");
    T_FALSE(s.ended);
    etcd_watch_close(w);
    T_FALSE(s.ended);
}

TEST(etcd, a_watch_of_a_forgotten_revision_ends_and_says_so)
{
    struct etcd *e = kit_etcd(0);
    int64_t first = put(e, "log/1", "a", 0);
    struct etcd_watch *w;
    struct seen s;
    char line[40];

    put(e, "log/1", "b", 0);
    snprintf(line, sizeof(line), "compact %lld", (long long)first + 1);
    kit_etcdctl(line);
    w = watch(&s, e, first);
    WAIT(&s, s.ended);
    T_TRUE(s.compacted);
    etcd_watch_close(w);
}

TEST(etcd, a_watch_ends_with_its_member)
{
    struct etcd *e = kit_etcd(0);
    int64_t first = put(e, "log/1", "a", 0);
    struct etcd_watch *w;
    struct seen s;

    w = watch(&s, e, first);
    WAIT(&s, s.puts == 1); // it has begun
    kit_etcd_kill();
    WAIT(&s, s.ended);
    T_FALSE(s.compacted);
    etcd_watch_close(w);
}
