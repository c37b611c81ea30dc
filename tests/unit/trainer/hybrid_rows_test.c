// SPDX-License-Identifier: Apache-2.0
// Rows of tables in a step of a group: members in this process, each with its
// own server, thread and tables. Two share memory, the third does not.
#include "trainer/lease/hybrid_rows.h"

#include <string.h>

#include "common/base/mem.h"
#include "proto/table_rows.h"
#include "tests/harness/t.h"
#include "tests/unit/trainer/rank_server.h"
#include "trainer/sum/sum_group.h"

enum { JOB = 7, MEMBERS = 3, DIM = 2, TABLES = 2, MOST = 4 };

// Psservers of the leader's: the row of an id of table t is {id, t}.
struct pulls {
    struct sync base;
    enum sync_result result;
    uint32_t count; // of ids that were pulled last
};

static enum sync_result pull_rows(struct sync *s, const struct sync_rows *rows,
                                  struct sl_error *err)
{
    static const uint32_t dims[TABLES] = {DIM, DIM};
    struct pulls *p = (struct pulls *)s;
    struct table_rows_at at = {rows->ids[0].blocks, rows->ids[0].bytes, 0};
    struct table_rows b;

    p->count = 0;
    if (p->result == SYNC_FAILED)
        (void)sl_fail(err, SL_EIO, "no rows today");
    for (uint32_t i = 0; p->result == SYNC_OK && at.left > 0; i++) {
        T_OK(table_rows_next(&b, &at, dims, TABLES, false, t_err()));
        for (uint32_t k = 0; k < b.count; k++) {
            uint64_t id;

            memcpy(&id, b.ids + k * sizeof(id), sizeof(id));
            rows->tables[i].values[k * DIM] = (float)id;
            rows->tables[i].values[k * DIM + 1] = (float)b.table;
        }
        p->count += b.count;
    }
    return p->result;
}

static const struct sync_ops pulls_ops = {.rows = pull_rows};

// What a member has of a micro-batch, by table.
struct part {
    uint64_t ids[TABLES][MOST];
    size_t count[TABLES];
};

struct member {
    struct rank_server at;
    struct pulls pulls;
    struct job_tables *tables;
    struct hybrid *hybrid;
    pthread_t thread;
    const struct part *parts;
    uint32_t parts_count, all; // ours, and micro-batches of the step
    bool audits;
    struct hybrid_step step;
    enum sl_err rc;
    struct sl_error err;
};

struct party {
    struct member member[MEMBERS];
};

static struct job_tables *two_tables(void)
{
    Sluice__V1__TableSpec spec[] = {SLUICE__V1__TABLE_SPEC__INIT,
                                    SLUICE__V1__TABLE_SPEC__INIT};
    Sluice__V1__TableSpec *list[] = {&spec[0], &spec[1]};
    Sluice__V1__ModelSpec model = SLUICE__V1__MODEL_SPEC__INIT;
    struct job_tables *t = NULL;

    spec[0].name = "users";
    spec[1].name = "items";
    spec[0].dim = spec[1].dim = DIM;
    spec[0].buckets = spec[1].buckets = 4;
    model.tables = list;
    model.n_tables = TABLES;
    T_OK(job_tables_new(&t, &model, 1, t_err()));
    return t;
}

static void party_open(struct party *p)
{
    static const char *const hosts[MEMBERS] = {"a", "a", "b"};
    struct group_rank who[MEMBERS];

    *p = (struct party){.member[0].rc = SL_OK};
    for (uint32_t i = 0; i < MEMBERS; i++) {
        rank_server_open(&p->member[i].at, 100 + i);
        who[i] = (struct group_rank){p->member[i].at.address, hosts[i]};
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct member *m = &p->member[i];
        struct group_options o = {.io = m->at.io,
                                  .ranks = m->at.ranks,
                                  .of = {.job = JOB, .generation = 1},
                                  .rank = who,
                                  .count = MEMBERS,
                                  .self = i,
                                  .timeout_ms = 60000};

        m->pulls.base.ops = &pulls_ops;
        m->tables = two_tables();
        T_OK(hybrid_new(&m->hybrid));
        T_OK(
            hybrid_rows_new(&m->hybrid->rows, m->tables, 1, WIRE_F32, t_err()));
        m->hybrid->members = MEMBERS;
        m->hybrid->self = i;
        T_OK(group_new(&m->hybrid->group, &o, t_err()));
    }
}

static void party_close(struct party *p)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct hybrid *h = p->member[i].hybrid;

        hybrid_rows_free(h->rows);
        hybrid_free(h);
        job_tables_free(p->member[i].tables);
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        rank_server_close(&p->member[i].at);
}

// Checks the rows of a micro-batch, number `at` of a share, and adds a gradient
// for each of its ids: {1, member}.
static enum sl_err use_rows(struct member *m, const struct part *part,
                            uint32_t at)
{
    float rows[MOST * DIM], grads[MOST * DIM];
    enum sl_err rc = SL_OK;

    for (uint32_t t = 0; rc == SL_OK && t < TABLES; t++) {
        if (m->audits && part->count[t] > 0)
            rc = job_tables_kept_rows(m->tables, at, t, part->count[t],
                                      part->ids[t], rows, &m->err);
        else if (!m->audits)
            hybrid_rows_copy(m->hybrid->rows, t, rows);
        if (rc != SL_OK)
            return rc;
        for (size_t k = 0; k < part->count[t]; k++) {
            T_EQ(rows[k * DIM], part->ids[t][k]);
            T_EQ(rows[k * DIM + 1], t);
            grads[k * DIM] = 1;
            grads[k * DIM + 1] = (float)m->hybrid->self;
        }
        rc = job_tables_add(m->tables, t, part->count[t], part->ids[t], grads,
                            &m->err);
    }
    return rc;
}

// Four micro-batches: the leader has two, and the last member an empty one.
static const struct part leader[] = {
    {{{5, 5, 9}, {1}}, {3, 1}},
    {{{6}, {0}}, {1, 0}},
};
static const struct part second = {{{9, 5}, {2, 1, 2}}, {2, 3}};
static const struct part third = {{{0}}, {0, 0}};
static const struct part *const dealt[] = {leader, &second, &third};
static const uint32_t dealt_count[] = {2, 1, 1};

// Computes the shares of all other members from the rows that are kept, and
// then the own one.
static enum sl_err step_shares(struct member *m)
{
    uint32_t self = m->hybrid->self;
    enum sl_err rc = SL_OK;

    for (uint32_t i = 1; rc == SL_OK && i <= MEMBERS; i++) {
        uint32_t of = (self + i) % MEMBERS;

        rc = job_tables_again(m->tables, &m->err);
        for (uint32_t k = 0; rc == SL_OK && k < dealt_count[of]; k++)
            rc = use_rows(m, &dealt[of][k], k);
    }
    return rc;
}

static enum sl_err step_parts(struct member *m)
{
    enum sl_err rc = SL_OK;

    if (m->audits)
        hybrid_rows_keep(m->hybrid->rows);
    for (uint32_t k = 0; rc == SL_OK && k < m->parts_count; k++) {
        struct hybrid_ids mine[TABLES];

        for (uint32_t t = 0; t < TABLES; t++)
            mine[t] =
                (struct hybrid_ids){m->parts[k].ids[t], m->parts[k].count[t]};
        rc = hybrid_rows_pull(&m->step, mine, &m->err);
        if (rc == SL_OK && !m->audits)
            rc = use_rows(m, &m->parts[k], k);
    }
    if (rc == SL_OK)
        rc = hybrid_rows_rest(&m->step, &m->err);
    return rc == SL_OK && m->audits ? step_shares(m) : rc;
}

static void *member_step(void *arg)
{
    struct member *m = arg;
    struct hybrid_sums sums = {.digest = 1};

    m->err = (struct sl_error)SL_ERROR_INIT;
    m->step = (struct hybrid_step){
        .hybrid = m->hybrid, .sync = &m->pulls.base, .count = m->all};
    hybrid_rows_begin(m->hybrid->rows);
    m->rc = step_parts(m);
    if (m->rc == SL_OK)
        m->rc = hybrid_rows_sum(m->hybrid, &m->err);
    if (m->rc == SL_OK)
        m->rc = hybrid_tail(m->hybrid, &sums, &m->err);
    T_TRUE(m->rc != SL_OK || sums.digest == MEMBERS);
    return NULL;
}

static void party_step(struct party *p)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        T_EQ(pthread_create(&p->member[i].thread, NULL, member_step,
                            &p->member[i]),
             0);
    for (uint32_t i = 0; i < MEMBERS; i++)
        pthread_join(p->member[i].thread, NULL);
}

static void deal_parts(struct party *p)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        p->member[i].parts = dealt[i];
        p->member[i].parts_count = dealt_count[i];
        p->member[i].all = 4;
    }
}

// Checks the push of a member: each id once, with the sum over all members.
static void check_push(const struct member *m)
{
    static const struct elements range = {0, 8};
    static const uint32_t dims[TABLES] = {DIM, DIM};
    static const struct {
        uint32_t table;
        uint64_t id;
        float uses, members;
    } want[] = {
        {0, 5, 3, 1}, {0, 9, 2, 1}, {0, 6, 1, 0}, {1, 1, 2, 1}, {1, 2, 2, 2}};
    struct sync_step step = {.step = 0};
    struct table_rows_at at;
    struct table_rows b;
    unsigned found = 0;

    T_OK(job_tables_pack(m->tables, WIRE_F32, WIRE_F32, &range, t_err()));
    T_TRUE(job_tables_fill(m->tables, 0, &step));
    at = (struct table_rows_at){step.rows, step.rows_bytes, 0};
    while (at.left > 0) {
        T_OK(table_rows_next(&b, &at, dims, TABLES, true, t_err()));
        found += b.count;
        for (size_t i = 0; i < SL_COUNT(want); i++)
            for (uint32_t k = 0; k < b.count; k++)
                if (b.table == want[i].table &&
                    memcmp(b.ids + k * 8, &want[i].id, 8) == 0) {
                    const float sum[DIM] = {want[i].uses, want[i].members};

                    T_MEM(b.elements + k * sizeof(sum), sum, sizeof(sum));
                    found += 100;
                }
    }
    T_EQ(found, SL_COUNT(want) * 101);
}

TEST(hybrid_rows, T3_an_id_stands_once_with_the_sum_over_the_group)
{
    struct party p;

    party_open(&p);
    deal_parts(&p);
    for (unsigned again = 0; again < 2; again++) {
        party_step(&p);
        for (uint32_t i = 0; i < MEMBERS; i++) {
            T_EQ(p.member[i].rc, SL_OK);
            check_push(&p.member[i]);
            T_EQ(p.member[i].pulls.count, i == 0); // the leader's second part
        }
    }
    party_close(&p);
}

// All members have the rows of all micro-batches, which are among the inputs of
// each share. One member audits nothing, as one on a GPU.
TEST(hybrid_rows, A3_nothing_of_another_share_is_summed)
{
    struct party p;

    party_open(&p);
    deal_parts(&p);
    p.member[0].audits = p.member[2].audits = true;
    for (unsigned again = 0; again < 2; again++) {
        party_step(&p);
        for (uint32_t i = 0; i < MEMBERS; i++) {
            T_EQ(p.member[i].rc, SL_OK);
            check_push(&p.member[i]);
        }
        T_NE(job_tables_inputs(p.member[0].tables, 5), 5);
        T_EQ(job_tables_inputs(p.member[0].tables, 5),
             job_tables_inputs(p.member[2].tables, 5));
    }
    party_close(&p);
}

TEST(hybrid_rows, without_the_leader_s_rows_all_let_go_of_the_step)
{
    static const enum sync_result results[] = {SYNC_STOPPED, SYNC_FAILED};
    struct party p;

    party_open(&p);
    deal_parts(&p);
    for (size_t k = 0; k < SL_COUNT(results); k++) {
        p.member[0].pulls.result = results[k];
        party_step(&p);
        for (uint32_t i = 0; i < MEMBERS; i++) {
            T_EQ(p.member[i].rc,
                 i == 0 && results[k] == SYNC_FAILED ? SL_EIO : SL_ECANCELED);
            T_TRUE(p.member[i].step.dropped);
            T_FALSE(p.member[i].hybrid->lost);
        }
        T_EQ(p.member[0].step.pulled, results[k]);
    }
    T_STR(p.member[0].err.text, "no rows today");
    p.member[0].pulls.result = SYNC_OK;
    party_step(&p); // the generation has gone on
    for (uint32_t i = 0; i < MEMBERS; i++)
        check_push(&p.member[i]);
    party_close(&p);
}

struct liar {
    struct hybrid *hybrid;
    uint64_t count;
};

// Says that it has `count` ids of each table.
static void *lie(void *arg)
{
    const struct liar *l = arg;
    uint64_t words[MEMBERS * TABLES] = {0};

    for (uint32_t t = 0; t < TABLES; t++)
        words[l->hybrid->self * TABLES + t] = l->count;
    T_OK(hybrid_gather(l->hybrid, words, SL_COUNT(words), NULL));
    return NULL;
}

TEST(hybrid_rows, a_member_with_more_ids_than_a_pull_has_is_refused)
{
    static const uint64_t counts[] = {SYNC_ROWS_BYTES / 8, UINT64_MAX};
    struct party p;

    for (size_t k = 0; k < SL_COUNT(counts); k++) {
        struct liar liar;
        pthread_t thread;

        party_open(&p);
        deal_parts(&p);
        liar = (struct liar){p.member[2].hybrid, counts[k]};
        T_EQ(pthread_create(&thread, NULL, lie, &liar), 0);
        for (uint32_t i = 0; i < 2; i++)
            T_EQ(pthread_create(&p.member[i].thread, NULL, member_step,
                                &p.member[i]),
                 0);
        for (uint32_t i = 0; i < 2; i++) {
            pthread_join(p.member[i].thread, NULL);
            T_EQ(p.member[i].rc, SL_ERANGE);
            T_HAS(p.member[i].err.text, "table users: the group has more than");
        }
        pthread_join(thread, NULL);
        party_close(&p);
    }
}

static void rows_once(struct hybrid *h, struct job_tables *tables)
{
    static const struct hybrid_ids ids[TABLES] = {{leader[0].ids[0], 3},
                                                  {leader[0].ids[1], 1}};
    struct pulls pulls = {.base.ops = &pulls_ops};
    struct hybrid_step s = {.hybrid = h, .sync = &pulls.base, .count = 1};
    float rows[MOST * DIM];

    hybrid_rows_begin(h->rows);
    if (hybrid_rows_pull(&s, ids, NULL) != SL_OK)
        return;
    hybrid_rows_copy(h->rows, 0, rows);
    T_EQ(rows[0], 5);
    if (job_tables_add(tables, 0, 3, ids[0].ids, rows, NULL) == SL_OK &&
        hybrid_rows_sum(h, NULL) == SL_OK)
        T_OK(hybrid_rows_rest(&s, NULL));
}

TEST(hybrid_rows, without_memory_a_step_is_refused)
{
    for (uint64_t n = 1;; n++) {
        struct job_tables *tables = two_tables();
        struct hybrid *h = NULL;
        bool failed;

        T_OK(hybrid_new(&h));
        h->members = 1;
        sl_mem_fail_at(n);
        if (hybrid_rows_new(&h->rows, tables, 1, WIRE_F32, NULL) == SL_OK)
            rows_once(h, tables);
        failed = sl_mem_failed();
        sl_mem_fail_at(0);
        if (h->rows != NULL)
            rows_once(h, tables);
        hybrid_rows_free(h->rows);
        hybrid_free(h);
        job_tables_free(tables);
        if (!failed)
            break;
    }
}
