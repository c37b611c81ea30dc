// SPDX-License-Identifier: Apache-2.0
// psserver/roster/roster_tables.c -- what heartbeats tell of sparse tables.
//
// A message has room for 262,144 fields, and a shard may have 1,000 tables. So
// a heartbeat tells of ROSTER_TABLES_MOST tables and the rest of one shard's.
// If there are more, the shards take turns: the tables of all shards, one after
// the other, are a circle on which each heartbeat begins where the one before
// ended.
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "plan/tables.h"
#include "psserver/roster/roster_inner.h"

// Of more tables only the hottest row is told.
#define HOT_TABLES_MOST 1024
#define ALL_EVERY 16 // heartbeats: one may have been lost, or come too early

static size_t hosted_table_count(const struct hosted *h)
{
    return h->shard == NULL ? 0 : h->shard->plan.table_count;
}

struct rowset_counts *hosted_tables(struct hosted *h)
{
    size_t n = hosted_table_count(h);

    if (h->tables == NULL && n > 0)
        h->tables = sl_calloc(2 * n, sizeof(*h->tables));
    return h->tables;
}

static void table_reports_make(struct table_reports *t, size_t room)
{
    t->msgs = sl_malloc_array(room, sizeof(*t->msgs));
    t->list = sl_malloc_array(room, sizeof(*t->list));
    if (room <= HOT_TABLES_MOST)
        t->hot = sl_malloc_array(room, sizeof(*t->hot));
    t->room = t->msgs == NULL || t->list == NULL ? 0 : room;
}

void table_reports_init(struct table_reports *t, struct roster *r, uint64_t seq)
{
    struct pairmap_at at = {0};
    struct hosted *h;
    uint64_t room;

    *t = (struct table_reports){.all = seq % ALL_EVERY == 0};
    while ((h = pairmap_next(&r->hosted, &at)) != NULL)
        if (h->state == HOSTED_ADMITTED)
            t->total += hosted_table_count(h);
    room = sl_min(t->total, ROSTER_TABLES_MOST + TABLES_MOST);
    if (room > 0)
        table_reports_make(t, (size_t)room);
    if (t->total > ROSTER_TABLES_MOST)
        t->from = (size_t)(seq * ROSTER_TABLES_MOST % t->total);
}

void table_reports_init_one(struct table_reports *t, const struct hosted *h)
{
    *t = (struct table_reports){.all = true, .total = hosted_table_count(h)};
    if (t->total > 0)
        table_reports_make(t, t->total);
}

static void table_reports_put_hot(Sluice__V1__TableFigures *to,
                                  struct table_hot_report *hot,
                                  const struct rowset_counts *c)
{
    size_t n = 0;

    for (; n < TABLE_HOT && c->hot[n].updates > 0; n++) {
        hot->ids[n] = c->hot[n].id;
        hot->updates[n] = c->hot[n].updates;
    }
    to->hot_ids = hot->ids;
    to->hot_updates = hot->updates;
    to->n_hot_ids = to->n_hot_updates = n;
}

static void table_reports_put(Sluice__V1__TableFigures *to, size_t table,
                              const struct rowset_counts *c)
{
    sluice__v1__table_figures__init(to);
    to->table = (uint32_t)table;
    to->rows = c->rows;
    to->waiting = c->waiting;
    to->bytes = c->bytes;
    to->admitted = c->admitted;
    to->evicted = rowset_evicted(c);
    to->forgotten = c->forgotten;
    to->unadmitted = c->unadmitted;
    to->largest_bucket = c->largest;
    to->evicted_full = c->evicted_full;
    to->gradients = c->gradients;
    to->hottest_id = c->hot[0].id;
    to->hottest_updates = c->hot[0].updates;
    to->disk_rows = c->cold;
    to->disk_bytes = c->file_bytes;
    to->found_memory = c->hits;
    to->found_disk = c->misses;
    to->to_disk = c->cooled;
}

// Returns true if it is the turn of a shard with n tables, and steps over them.
static bool table_reports_turn(struct table_reports *t, size_t n)
{
    size_t ahead = (t->at + t->total - t->from) % t->total;

    t->at += n;
    return ahead < ROSTER_TABLES_MOST && t->used + n <= t->room;
}

void table_reports_add(struct table_reports *t, struct hosted *h,
                       Sluice__V1__ShardReport *msg)
{
    size_t n = hosted_table_count(h);
    struct rowset_counts *now = h->tables, *told;

    if (n == 0 || now == NULL || !table_reports_turn(t, n))
        return;
    told = now + n;
    msg->tables = t->list + t->used;
    for (size_t i = 0; i < n; i++) {
        if (!t->all && !h->untold &&
            memcmp(&now[i], &told[i], sizeof(*now)) == 0)
            continue;
        table_reports_put(&t->msgs[t->used], i, &now[i]);
        if (t->hot != NULL)
            table_reports_put_hot(&t->msgs[t->used], &t->hot[t->used], &now[i]);
        t->list[t->used] = &t->msgs[t->used];
        t->used++;
        msg->n_tables++;
    }
    memcpy(told, now, n * sizeof(*now));
    h->untold = false;
}

void table_reports_release(struct table_reports *t)
{
    sl_free(t->msgs);
    sl_free(t->list);
    sl_free(t->hot);
    *t = (struct table_reports){0};
}
