// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/shards/shard_rows.h"

#include <string.h>

#include "plan/tables.h"
#include "tests/harness/t.h"

static Sluice__V1__TableFigures figures[TABLES_MOST], *list[TABLES_MOST];

// A report of so many tables, from the first one on, each with these rows.
static Sluice__V1__ShardReport report_of(size_t tables, uint64_t rows)
{
    Sluice__V1__ShardReport r = SLUICE__V1__SHARD_REPORT__INIT;

    for (uint32_t i = 0; i < tables; i++) {
        sluice__v1__table_figures__init(&figures[i]);
        figures[i].table = i;
        figures[i].rows = rows;
        list[i] = &figures[i];
    }
    r.tables = list;
    r.n_tables = tables;
    return r;
}

static Sluice__V1__ShardStatus *shown(const struct shard_rows *rows,
                                      uint64_t now_ms)
{
    Sluice__V1__ShardStatus *m =
        wire_new(&sluice__v1__shard_status__descriptor);

    T_TRUE(m != NULL && shard_rows_show(rows, m, now_ms));
    return m;
}

TEST(shard_rows, growth_is_over_the_last_minutes)
{
    struct shard_rows rows = {0};
    Sluice__V1__ShardReport r = report_of(2, 100);
    Sluice__V1__ShardStatus *m;

    r.tables = &list[1]; // of the second table alone
    r.n_tables = 1;
    shard_rows_take(&rows, &r, 2, 1, 1000);
    m = shown(&rows, 1000);
    T_EQ(m->n_tables, 1);
    T_EQ(m->tables[0]->table, 1);
    T_FALSE(m->tables[0]->known_rows_per_minute_case);
    wire_free(&m->base);

    for (uint64_t s = 10; s <= 300; s += 10) { // a row a second, then two
        figures[1].rows = s <= 150 ? s : 2 * s - 150;
        shard_rows_take(&rows, &r, 2, 1, s * 1000);
        m = shown(&rows, s * 1000);
        if (s >= 280)
            T_TRUE(WIRE_KNOWN(m->tables[0], rows_per_minute) == 120);
        wire_free(&m->base);
    }
    shard_rows_release(&rows);
}

// Whatever memory they came in, and however many a peer says.
TEST(shard_rows, the_hottest_ids_are_kept)
{
    uint64_t ids[TABLE_HOT + 2], updates[TABLE_HOT + 1];
    struct shard_rows rows = {0};
    Sluice__V1__ShardReport r = report_of(1, 5);
    Sluice__V1__ShardStatus *m;

    for (uint64_t i = 0; i < TABLE_HOT + 1; i++) {
        ids[i] = 100 + i;
        updates[i] = 50 - i;
    }
    figures[0].hot_ids = ids;
    figures[0].n_hot_ids = TABLE_HOT + 2;
    figures[0].hot_updates = updates;
    figures[0].n_hot_updates = TABLE_HOT + 1;
    shard_rows_take(&rows, &r, 1, 1, 1000);
    memset(ids, 0, sizeof(ids));
    m = shown(&rows, 1000);
    T_EQ(m->tables[0]->n_hot_ids, TABLE_HOT);
    T_EQ(m->tables[0]->n_hot_updates, TABLE_HOT);
    T_EQ(m->tables[0]->hot_ids[TABLE_HOT - 1], 100 + TABLE_HOT - 1);
    T_EQ(m->tables[0]->hot_updates[0], 50);
    wire_free(&m->base);
    T_EQ(shard_rows_sum(&rows).rows, 5);
    figures[0].n_hot_ids = figures[0].n_hot_updates = 0;
    shard_rows_take(&rows, &r, 1, 1, 1000);
    m = shown(&rows, 1000);
    T_EQ(m->tables[0]->n_hot_ids, 0);
    wire_free(&m->base);
    shard_rows_release(&rows);
}

TEST(shard_rows, a_job_has_room_for_so_many)
{
    struct shard_rows rows = {0};
    Sluice__V1__ShardReport r = report_of(TABLES_MOST, 1);
    Sluice__V1__ShardStatus *m;

    shard_rows_take(&rows, &r, TABLES_MOST, 64, 1000);
    m = shown(&rows, 1000);
    T_EQ(m->n_tables, SHARD_ROWS_MOST / 64);
    wire_free(&m->base);
    shard_rows_release(&rows);

    // A shard that tells of tables which its job has not.
    shard_rows_take(&rows, &r, 2, 64, 1000);
    m = shown(&rows, 1000);
    T_EQ(m->n_tables, 2);
    wire_free(&m->base);
    shard_rows_release(&rows);

    shard_rows_take(&rows, &r, 2, WIRE_SHARDS_MAX, 1000);
    m = shown(&rows, 1000);
    T_EQ(m->n_tables, 0);
    wire_free(&m->base);
    shard_rows_release(&rows);
}

TEST(shard_rows, the_last_report_takes_the_place_of_those_before)
{
    struct shard_rows rows = {0};
    Sluice__V1__ShardReport r = report_of(3, 1);
    Sluice__V1__ShardStatus *m;

    shard_rows_take(&rows, &r, 3, 1, 1000);
    m = shown(&rows, 1000);
    r = report_of(3, 7);
    r.n_tables = 2; // a heartbeat that was under way tells of what changed
    T_FALSE(shard_rows_replace(m, &r, 1));
    T_EQ(m->tables[0]->rows, 1);
    r.n_tables = 3;
    T_TRUE(shard_rows_replace(m, &r, 1));
    T_EQ(m->n_tables, 3);
    T_EQ(m->tables[2]->rows, 7);
    wire_free(&m->base);
    shard_rows_release(&rows);
}
