// SPDX-License-Identifier: Apache-2.0
#include "client/show/table_sums.h"

#include "plan/tables.h"

#include "proto/wire.h"
#include "tests/harness/t.h"

enum { SHARDS = 3 };

static struct {
    Sluice__V1__JobStatus status;
    Sluice__V1__JobSpec spec;
    Sluice__V1__ModelSpec model;
    Sluice__V1__OptimizerSpec optimizer, own;
    Sluice__V1__TableSpec table[2], *tables[2];
    Sluice__V1__ShardStatus shard[SHARDS], *shards[SHARDS];
    Sluice__V1__TableFigures figures[SHARDS][2], *list[SHARDS][2];
} j;

// ps-0 has shards 0 and 2, ps-1 has shard 1. Table 1 has two buckets.
static void job_init(void)
{
    sluice__v1__job_status__init(&j.status);
    sluice__v1__job_spec__init(&j.spec);
    sluice__v1__model_spec__init(&j.model);
    sluice__v1__optimizer_spec__init(&j.optimizer);
    sluice__v1__optimizer_spec__init(&j.own);
    j.optimizer.type = (char *)"adam";
    j.own.type = (char *)"rowwise_adagrad";
    for (uint32_t t = 0; t < 2; t++) {
        sluice__v1__table_spec__init(&j.table[t]);
        j.table[t].name = (char *)(t == 0 ? "users" : "items");
        j.table[t].dim = 8;
        j.tables[t] = &j.table[t];
    }
    j.table[1].buckets = 2;
    j.table[1].optimizer = &j.own;
    j.model.tables = j.tables;
    j.model.n_tables = 2;
    j.spec.model = &j.model;
    j.spec.optimizer = &j.optimizer;
    j.status.spec = &j.spec;
    j.status.shards = j.shards;
    j.status.n_shards = SHARDS;
    for (uint32_t i = 0; i < SHARDS; i++) {
        sluice__v1__shard_status__init(&j.shard[i]);
        j.shards[i] = &j.shard[i];
        j.shard[i].psserver = (char *)(i == 1 ? "ps-1" : "ps-0");
        j.shard[i].tables = j.list[i];
        for (uint32_t t = 0; t < 2; t++) {
            sluice__v1__table_figures__init(&j.figures[i][t]);
            j.list[i][t] = &j.figures[i][t];
            j.figures[i][t].table = t;
            j.figures[i][t].rows = 100 * (i + 1);
            j.figures[i][t].largest_bucket = 10 - i;
            j.figures[i][t].hottest_id = 70 + i;
            j.figures[i][t].disk_rows = 10 * i;
            j.figures[i][t].disk_bytes = 1000 * i;
            j.figures[i][t].found_memory = 7 * i;
            j.figures[i][t].found_disk = 5 * i;
            j.figures[i][t].to_disk = 20 * i;
            j.figures[i][t].hottest_updates = i == 1 ? 9 : 8;
            WIRE_SET_KNOWN(
                &j.figures[i][t], rows_per_minute,
                SLUICE__V1__TABLE_FIGURES__KNOWN_ROWS_PER_MINUTE_ROWS_PER_MINUTE,
                6.0);
        }
    }
}

TEST(table_sums, shards_are_summed_for_all_and_for_each_psserver)
{
    struct tables_report r;

    job_init();
    for (uint32_t i = 0; i < SHARDS; i++)
        j.shard[i].n_tables = 2;
    T_OK(tables_report_init(&r, &j.status, false));
    T_EQ(r.msg.n_tables, 2);
    T_STR(r.msg.tables[0]->name, "users");
    T_STR(r.msg.tables[0]->optimizer, "adam");
    T_STR(r.msg.tables[1]->optimizer, "rowwise_adagrad");
    T_EQ(r.msg.tables[0]->figures->rows, 600);
    T_EQ(r.msg.tables[0]->figures->largest_bucket, 10);
    T_EQ(r.msg.tables[0]->figures->hottest_id, 71);
    T_EQ(r.msg.tables[0]->figures->hottest_updates, 9);
    T_EQ(r.msg.tables[0]->figures->n_hot_ids, SHARDS);
    T_EQ(r.msg.tables[0]->figures->hot_ids[0], 71);
    T_EQ(r.msg.tables[0]->figures->disk_rows, 30);
    T_EQ(r.msg.tables[0]->figures->disk_bytes, 3000);
    T_EQ(r.msg.tables[0]->figures->found_memory, 21);
    T_EQ(r.msg.tables[0]->figures->found_disk, 15);
    T_EQ(r.msg.tables[0]->figures->to_disk, 60);
    T_EQ(r.msg.tables[0]->known, SHARDS);
    T_TRUE(WIRE_KNOWN(r.msg.tables[0]->figures, rows_per_minute) == 18);
    T_EQ(r.msg.tables[1]->shards, 2); // with two buckets
    T_EQ(r.unsaid, 0);
    tables_report_release(&r);

    T_OK(tables_report_init(&r, &j.status, true));
    T_EQ(r.msg.n_tables, 4);
    T_STR(r.msg.tables[0]->psserver, "ps-0");
    T_EQ(r.msg.tables[0]->figures->rows, 400);
    T_STR(r.msg.tables[1]->psserver, "ps-1");
    T_EQ(r.msg.tables[1]->figures->rows, 200);
    tables_report_release(&r);
}

// Each shard has its own ids.
TEST(table_sums, the_hottest_ids_of_shards_are_merged)
{
    static uint64_t ids[SHARDS][TABLE_HOT], updates[SHARDS][TABLE_HOT];
    const Sluice__V1__TableFigures *f;
    struct tables_report r;

    job_init();
    for (uint32_t i = 0; i < SHARDS; i++) {
        j.shard[i].n_tables = 1;
        for (uint32_t k = 0; k < TABLE_HOT; k++) {
            ids[i][k] = 100 * i + k;
            updates[i][k] = 3 * (TABLE_HOT - k) + i; // 24 to 26, 21 to 23 ...
        }
        j.figures[i][0].hot_ids = ids[i];
        j.figures[i][0].hot_updates = updates[i];
        j.figures[i][0].n_hot_ids = j.figures[i][0].n_hot_updates = TABLE_HOT;
    }
    T_OK(tables_report_init(&r, &j.status, false));
    f = r.msg.tables[0]->figures;
    T_EQ(f->n_hot_ids, TABLE_HOT);
    T_EQ(f->n_hot_updates, TABLE_HOT);
    for (uint64_t k = 0; k < TABLE_HOT; k++) {
        T_EQ(f->hot_updates[k], 3 * TABLE_HOT + SHARDS - 1 - k);
        T_EQ(f->hot_ids[k], 100 * (SHARDS - 1 - k % SHARDS) + k / SHARDS);
    }
    T_EQ(f->hottest_id, f->hot_ids[0]);
    T_EQ(f->hottest_updates, f->hot_updates[0]);
    tables_report_release(&r);
}

TEST(table_sums, what_an_older_psserver_does_not_report_is_unknown)
{
    struct tables_report r;

    job_init();
    T_OK(tables_report_init(&r, &j.status, false));
    T_EQ(r.msg.n_tables, 2);
    T_EQ(r.msg.tables[0]->known, 0);
    T_EQ(r.msg.tables[0]->shards, SHARDS);
    T_FALSE(r.msg.tables[0]->figures->known_rows_per_minute_case);
    T_EQ(r.unsaid, SHARDS + 2);
    tables_report_release(&r);

    j.shard[0].n_tables = j.shard[1].n_tables = 2;
    j.figures[1][0].known_rows_per_minute_case = 0;
    T_OK(tables_report_init(&r, &j.status, false));
    T_EQ(r.msg.tables[0]->known, 2);
    T_EQ(r.msg.tables[0]->figures->rows, 300);
    T_FALSE(r.msg.tables[0]->figures->known_rows_per_minute_case);
    T_TRUE(WIRE_KNOWN(r.msg.tables[1]->figures, rows_per_minute) == 12);
    T_EQ(r.unsaid, 1); // shard 2 has no bucket of table 1
    tables_report_release(&r);
}
