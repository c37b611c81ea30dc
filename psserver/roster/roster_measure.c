// SPDX-License-Identifier: Apache-2.0
// psserver/roster/roster_measure.c -- the figures of the shards that are here,
// and of their snapshots.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "psserver/roster/roster_inner.h"
#include "state/rows/row_disk.h"

#define VERSIONS 64 // most shards with a version: a label has few values

// What became of ids, since the tables' shards were loaded.
static const struct table_result {
    const char *name;
    size_t at; // in struct rowset_counts
} results[] = {
    {"admitted", offsetof(struct rowset_counts, admitted)},
    {"evicted_full", offsetof(struct rowset_counts, evicted_full)},
    {"evicted_unused", offsetof(struct rowset_counts, evicted_unused)},
    {"evicted_small", offsetof(struct rowset_counts, evicted_small)},
    {"forgotten", offsetof(struct rowset_counts, forgotten)},
    {"unadmitted", offsetof(struct rowset_counts, unadmitted)},
};
#define TABLE_RESULTS SL_COUNT(results)

struct measured {
    uint64_t values, slots, entries, age_ms;
    uint64_t version[VERSIONS];
    uint32_t shards;
    uint64_t rows, waiting, row_bytes, cold, hits, misses, cooled;
    uint64_t results[TABLE_RESULTS];
};

static void tables_measure(const struct rowset_counts *counts,
                           struct measured *m)
{
    m->rows += counts->rows;
    m->waiting += counts->waiting;
    m->row_bytes += counts->bytes;
    m->cold += counts->cold;
    m->hits += counts->hits;
    m->misses += counts->misses;
    m->cooled += counts->cooled;
    for (size_t i = 0; i < TABLE_RESULTS; i++)
        m->results[i] +=
            *(const uint64_t *)(const void *)((const char *)counts +
                                              results[i].at);
}

static void hosted_measure(struct hosted *h, uint64_t now_ms,
                           struct measured *m)
{
    uint32_t shard = h->spec->shard;
    struct shard_brief brief = h->brief;
    uint64_t values, age;

    if (h->shard == NULL)
        return;
    values = plan_values_bytes(&h->shard->plan);
    m->values += values;
    m->slots += values * optim_slots(&h->shard->plan.optim);
    // A shard that is applying is measured by its last report.
    if (shard_brief(h->shard, false, &brief))
        h->brief = brief;
    m->entries += brief.sparse;
    tables_measure(&brief.tables, m);
    if (shard < VERSIONS && brief.counts.version > m->version[shard])
        m->version[shard] = brief.counts.version;
    if (shard < VERSIONS && shard >= m->shards)
        m->shards = shard + 1;
    age = now_ms - h->saved_ms;
    if (brief.steps != h->saved_steps && age > m->age_ms)
        m->age_ms = age;
}

static void put_shards(const struct measured *m, struct expo *e)
{
    char number[12];

    expo_family(e, "sluice_parameter_bytes", EXPO_GAUGE,
                "Memory of the shards of this psserver.");
    expo_value(e, (double)m->values, "kind", "values", NULL);
    expo_value(e, (double)m->slots, "kind", "slots", NULL);
    expo_single(e, "sluice_counted_set_entries", EXPO_GAUGE,
                "Closures above the watermarks, which the counted sets keep "
                "one by one.",
                (double)m->entries);
    expo_family(e, "sluice_shard_version", EXPO_GAUGE,
                "Updates applied to the shard of that number, the highest of "
                "all jobs.");
    for (uint32_t i = 0; i < m->shards; i++) {
        snprintf(number, sizeof(number), "%u", i);
        expo_value(e, (double)m->version[i], "shard", number, NULL);
    }
}

enum tenant_figure {
    TENANT_MEMORY,
    TENANT_DISK,
    TENANT_MEMORY_MOST,
    TENANT_DISK_MOST,
};

// A family of figures with one value for each tenant.
struct tenant_family {
    struct expo *e;
    enum tenant_figure figure;
};

static void put_tenant(void *arg, const char *tenant,
                       struct row_tenant_bytes used,
                       struct row_tenant_bytes most)
{
    const struct tenant_family *f = arg;
    const uint64_t bytes[] = {[TENANT_MEMORY] = used.memory,
                              [TENANT_DISK] = used.disk,
                              [TENANT_MEMORY_MOST] = most.memory,
                              [TENANT_DISK_MOST] = most.disk};

    if (bytes[f->figure] != ROW_TENANT_FREE) // there is no limit
        expo_value(f->e, (double)bytes[f->figure], "tenant", tenant, NULL);
}

static void put_tenants(struct expo *e, const char *name,
                        enum tenant_figure figure, const char *help)
{
    struct tenant_family f = {e, figure};

    expo_family(e, name, EXPO_GAUGE, help);
    row_tenants_each(put_tenant, &f);
}

// The second tier of rows: a psserver without --rows-dir has none.
static void put_tier(const struct measured *m, struct expo *e)
{
    if (!row_disk_is_on())
        return;
    expo_single(e, "sluice_table_disk_rows", EXPO_GAUGE,
                "Rows of sparse tables that lie in --rows-dir.",
                (double)m->cold);
    expo_single(e, "sluice_table_disk_bytes", EXPO_GAUGE,
                "Bytes that rows of sparse tables have taken in --rows-dir.",
                (double)row_disk_used());
    if (row_disk_limit() != 0)
        expo_single(e, "sluice_table_disk_bytes_limit", EXPO_GAUGE,
                    "Most bytes in --rows-dir (--rows-disk); absent without a "
                    "limit.",
                    (double)row_disk_limit());
    expo_family(e, "sluice_table_found_total", EXPO_COUNTER,
                "Rows that pulls and pushes found in memory, and in "
                "--rows-dir, since their shards were loaded.");
    expo_value(e, (double)m->hits, "place", "memory", NULL);
    expo_value(e, (double)m->misses, "place", "disk", NULL);
    expo_single(e, "sluice_table_to_disk_total", EXPO_COUNTER,
                "Rows that left memory for --rows-dir, since their shards were "
                "loaded.",
                (double)m->cooled);
    put_tenants(e, "sluice_table_tenant_disk_bytes", TENANT_DISK,
                "Bytes that rows of a tenant's jobs have taken in --rows-dir.");
    put_tenants(e, "sluice_table_tenant_disk_bytes_limit", TENANT_DISK_MOST,
                "Most bytes of a tenant's rows in --rows-dir (--quota "
                "rows_disk=); absent without a limit.");
}

static void put_tables(const struct measured *m, struct expo *e)
{
    expo_family(e, "sluice_table_rows", EXPO_GAUGE,
                "Rows of sparse tables, and ids that wait for theirs.");
    expo_value(e, (double)m->rows, "kind", "rows", NULL);
    expo_value(e, (double)m->waiting, "kind", "waiting", NULL);
    expo_single(e, "sluice_table_bytes", EXPO_GAUGE,
                "Memory of the rows of sparse tables, with their index.",
                (double)m->row_bytes);
    if (row_memory_limit() != UINT64_MAX)
        expo_single(e, "sluice_table_bytes_limit", EXPO_GAUGE,
                    "Most memory for rows of sparse tables, of all jobs "
                    "together; absent without a limit.",
                    (double)row_memory_limit());
    put_tier(m, e);
    put_tenants(e, "sluice_table_tenant_bytes", TENANT_MEMORY,
                "Memory that rows of a tenant's jobs have taken here.");
    put_tenants(e, "sluice_table_tenant_bytes_limit", TENANT_MEMORY_MOST,
                "Most memory for rows of a tenant's jobs here (coordinator "
                "--quota rows=); absent without a limit.");
    expo_family(e, "sluice_table_ids_total", EXPO_COUNTER,
                "What became of ids of sparse tables since their shards were "
                "loaded (unadmitted: changed no row).");
    for (size_t i = 0; i < TABLE_RESULTS; i++)
        expo_value(e, (double)m->results[i], "result", results[i].name, NULL);
}

bool roster_full(const struct roster *r)
{
    return r->full;
}

void roster_measure(struct roster *r, struct expo *e)
{
    uint64_t now = sl_real_ms();
    struct measured m = {.values = 0};
    struct pairmap_at at = {0};
    struct hosted *h;

    while ((h = pairmap_next(&r->hosted, &at)) != NULL)
        hosted_measure(h, now, &m);
    put_shards(&m, e);
    put_tables(&m, e);
    expo_family(e, "sluice_snapshots_total", EXPO_COUNTER,
                "Snapshots, of one shard each, by result.");
    expo_value(e, (double)r->written, "result", "written", NULL);
    expo_value(e, (double)r->no_space, "result", "enospc", NULL);
    expo_value(e, (double)r->unwritten, "result", "failed", NULL);
    expo_family(e, "sluice_snapshot_seconds", EXPO_HISTOGRAM,
                "Time from the start of a snapshot until the disk has it.");
    expo_histogram(e, &r->took, NULL);
    expo_single(e, "sluice_snapshot_age_seconds", EXPO_GAUGE,
                "Age of the newest snapshot of a shard that has counted steps "
                "since, the highest of all shards.",
                (double)m.age_ms / 1000);
    expo_single(e, "sluice_snapshot_bytes", EXPO_GAUGE,
                "Size of the last written snapshot.", (double)r->written_bytes);
}
