// SPDX-License-Identifier: Apache-2.0
// client/show/listing_kinds.c -- the table of lists: columns, cells and names
// of each.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/listing.h"
#include "client/show/progress.h"
#include "client/show/shards.h"
#include "proto/events.pb-c.h"
#include "proto/jobs.pb-c.h"
#include "proto/tasks.pb-c.h"
#include "proto/wire.h"

static const char *dash(const char *text)
{
    return text[0] != '\0' ? text : "-";
}

static const char *list_number_text(char out[LIST_NAME], uint64_t n)
{
    snprintf(out, LIST_NAME, "%" PRIu64, n);
    return out;
}

// ---- jobs

static const char *const jobs_head[] = {
    "id",  "name",    "state", "epoch", "step",      "loss",   "samples/s",
    "age", "workers", "cuts",  "up",    "submitted", "reason", NULL};

static void job_row(struct table *t, const ProtobufCMessage *item)
{
    const Sluice__V1__JobStatus *s = (const Sluice__V1__JobStatus *)item;
    char a[OUT_NUMBER], b[OUT_NUMBER];

    table_cell(t, "%s", s->id);
    table_cell(t, "%s", s->name);
    table_cell(t, "%s", progress_word(s));
    table_cell(t, "%u/%u", s->epoch, s->epochs);
    table_cell(t, "%s/%s", out_count(a, s->steps_counted),
               out_count(b, s->steps_asked));
    table_cell(t, "%s", out_mean(a, WIRE_KNOWN(s, loss)));
    if (progress_ended(s->state) || s->reason[0] != '\0')
        table_cell(t, "-");
    else
        table_cell(t, "%s", out_count(a, (uint64_t)s->images_per_second));
    table_cell(t, "%s", out_age(a, s->submitted_unix));
    table_cell(t, "%u", s->workers);
    table_cell(t, "%s", out_count(a, s->cuts));
    table_cell(t, "%s", out_time(a, s->elapsed_seconds));
    table_cell(t, "%s", out_when(a, s->submitted_unix));
    table_cell(t, "%s", dash(s->reason));
}

static const char *list_job_name(char out[LIST_NAME],
                                 const ProtobufCMessage *item)
{
    (void)out;
    return ((const Sluice__V1__JobStatus *)item)->id;
}

// ---- members

static const char *const workers_head[] = {
    "name",   "state", "leases", "host",    "device", "pid",
    "memory", "beat",  "up",     "version", "reason", NULL};
static const char *const servers_head[] = {
    "name",     "state", "shards", "bytes",   "cores",   "pushes/s",
    "replicas", "lag",   "jobs",   "host",    "address", "pid",
    "memory",   "beat",  "up",     "version", "reason",  NULL};
static const char *const members_head[] = {
    "name",   "role",   "state", "leases",
    "shards", "memory", "beat",  "device or address",
    "host",   "pid",    "up",    "version",
    NULL};

bool list_is_lost(const Sluice__V1__MemberStatus *member)
{
    return strcmp(member->state, "lost") == 0;
}

// A lost one's may have been hours ago, or before the coordinator began.
static void list_heartbeat_cell(struct table *t,
                                const Sluice__V1__MemberStatus *m)
{
    char text[OUT_NUMBER];

    if (!list_is_lost(m))
        table_cell(t, "%.0f ms", m->heartbeat_age_ms);
    else if (m->reason[0] == '\0')
        table_cell(t, "-");
    else
        table_cell(t, "%s", out_time(text, m->heartbeat_age_ms / 1000));
}

static void fares(struct table *t, const Sluice__V1__MemberStatus *m)
{
    char text[OUT_NUMBER];

    table_cell(t, "%" PRIu64, m->pid);
    table_cell(t, "%s", out_bytes(text, m->resident_bytes));
    list_heartbeat_cell(t, m);
    table_cell(t, "%s", out_time(text, m->attached_seconds));
    table_cell(t, "%s", dash(m->version));
    table_cell(t, "%s", dash(m->reason));
}

enum sl_err list_reasons(struct buf *out, Sluice__V1__MemberStatus *const *list,
                         size_t count)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < count; i++) {
        const Sluice__V1__MemberStatus *m = list[i];
        char text[OUT_NUMBER];

        if (m->reason[0] == '\0')
            continue;
        rc = buf_appendf(out, "%s%s: ", out->len == 0 ? "\n" : "", m->name);
        if (rc == SL_OK && list_is_lost(m))
            rc = buf_appendf(out, "lost %s ago: ",
                             out_time(text, m->heartbeat_age_ms / 1000));
        if (rc == SL_OK)
            rc = buf_appendf(out, "%s\n", m->reason);
    }
    return rc;
}

static enum sl_err list_tainted_one(struct buf *out,
                                    const Sluice__V1__TaintedWork *w)
{
    enum sl_err rc = buf_appendf(
        out, "%s: %llu steps of %llu closures of %s are in doubt, %s",
        w->worker, (unsigned long long)w->steps,
        (unsigned long long)w->closures, w->job, w->rough ? "within " : "");

    for (size_t i = 0; rc == SL_OK && i < w->n_ranges; i++) {
        const Sluice__V1__TaintedRange *r = w->ranges[i];

        rc = buf_appendf(out, "%s%llu", i == 0 ? "" : ", ",
                         (unsigned long long)r->first);
        if (rc == SL_OK && r->last > r->first)
            rc = buf_appendf(out, "-%llu", (unsigned long long)r->last);
    }
    if (rc == SL_OK && w->cut > 0)
        rc = buf_appendf(out, "; checkpoint %llu is the last from before\n",
                         (unsigned long long)w->cut);
    else if (rc == SL_OK)
        rc = buf_appendf(out, "; no checkpoint is known to be from before\n");
    return rc;
}

enum sl_err list_tainted(struct buf *out, Sluice__V1__TaintedWork *const *list,
                         size_t count)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < count; i++)
        rc = list_tainted_one(out, list[i]);
    return rc;
}

static void worker_row(struct table *t, const ProtobufCMessage *item)
{
    const Sluice__V1__MemberStatus *m = (const Sluice__V1__MemberStatus *)item;

    table_cell(t, "%s", m->name);
    table_cell(t, "%s", m->state);
    table_cell(t, "%u", m->leases);
    table_cell(t, "%s", dash(m->host));
    table_cell(t, "%s", dash(m->device));
    fares(t, m);
}

static void cells_of_load(struct table *t, const Sluice__V1__MemberStatus *m)
{
    const Sluice__V1__MemberUsage *u = m->usage;
    char text[OUT_NUMBER];

    if (u != NULL)
        table_cell(t, "%.2f", u->cpu_cores);
    else
        table_cell(t, "-");
    if (u != NULL && u->known_pushes_per_second_case != 0 &&
        u->pushes_per_second >= 0 && u->pushes_per_second < 1e18)
        table_cell(t, "%s",
                   out_count(text, (uint64_t)(u->pushes_per_second + 0.5)));
    else
        table_cell(t, "-");
}

static void cells_of_replicas(struct table *t,
                              const Sluice__V1__MemberStatus *m)
{
    char text[OUT_NUMBER];

    if (m->replicas == 0) {
        table_cell(t, "-");
        table_cell(t, "-");
        return;
    }
    if (m->follows > 0)
        table_cell(t, "%u (%u follow)", m->replicas, m->follows);
    else
        table_cell(t, "%u", m->replicas);
    table_cell(t, "%s", out_count(text, m->replica_lag));
}

static void cell_of_jobs(struct table *t, const Sluice__V1__MemberStatus *m)
{
    struct buf text = BUF_INIT;

    for (size_t i = 0; i < m->n_jobs; i++)
        (void)buf_appendf(&text, "%s%s", i > 0 ? "," : "", m->jobs[i]);
    table_cell(t, "%s", dash(buf_text(&text)));
    buf_release(&text);
}

static void server_row(struct table *t, const ProtobufCMessage *item)
{
    const Sluice__V1__MemberStatus *m = (const Sluice__V1__MemberStatus *)item;
    char text[OUT_NUMBER];

    table_cell(t, "%s", m->name);
    table_cell(t, "%s", m->state);
    table_cell(t, "%u", m->shards);
    table_cell(t, "%s", out_bytes(text, m->shard_bytes));
    cells_of_load(t, m);
    cells_of_replicas(t, m);
    cell_of_jobs(t, m);
    table_cell(t, "%s", dash(m->host));
    table_cell(t, "%s", dash(m->address));
    fares(t, m);
}

static void member_row(struct table *t, const ProtobufCMessage *item)
{
    const Sluice__V1__MemberStatus *m = (const Sluice__V1__MemberStatus *)item;
    char text[OUT_NUMBER];

    table_cell(t, "%s", m->name);
    table_cell(t, "%s", m->role);
    table_cell(t, "%s", m->state);
    table_cell(t, "%u", m->leases);
    table_cell(t, "%u", m->shards);
    table_cell(t, "%s", out_bytes(text, m->resident_bytes));
    list_heartbeat_cell(t, m);
    table_cell(t, "%s", m->device[0] != '\0' ? m->device : dash(m->address));
    table_cell(t, "%s", dash(m->host));
    table_cell(t, "%" PRIu64, m->pid);
    table_cell(t, "%s", out_time(text, m->attached_seconds));
    table_cell(t, "%s", dash(m->version));
}

static const char *member_name(char out[LIST_NAME],
                               const ProtobufCMessage *item)
{
    (void)out;
    return ((const Sluice__V1__MemberStatus *)item)->name;
}

// ---- events: lines that go on, not a table

static const char *const events_head[] = {"time", "kind",  "job",    "text",
                                          "id",   "level", "member", NULL};

static const char *event_name(char out[LIST_NAME], const ProtobufCMessage *item)
{
    return list_number_text(out, ((const Sluice__V1__Event *)item)->id);
}

// ---- checkpoints

static const char *const checkpoints_head[] = {
    "cut", "epoch",    "steps",    "whole",  "kept",      "size",
    "age", "manifest", "taken at", "shards", "psservers", NULL};

// Adds the psservers that wrote the checkpoint's shards: "ps-0,ps-1".
static void writers(struct table *t, const Sluice__V1__Checkpoint *c)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < c->n_shards; i++) {
        size_t seen = 0;

        while (strcmp(c->shards[seen]->psserver, c->shards[i]->psserver) != 0)
            seen++;
        if (seen == i)
            rc = buf_appendf(&text, "%s%s", text.len > 0 ? "," : "",
                             c->shards[i]->psserver);
    }
    if (rc == SL_OK)
        rc = buf_append_char(&text, '\0');
    table_cell(t, "%s", rc == SL_OK ? dash((const char *)text.data) : "?");
    buf_release(&text);
}

static void checkpoint_row(struct table *t, const ProtobufCMessage *item)
{
    const Sluice__V1__Checkpoint *c = (const Sluice__V1__Checkpoint *)item;
    char text[OUT_NUMBER];

    table_cell(t, "%" PRIu64, c->cut);
    table_cell(t, "%u", c->epoch);
    table_cell(t, "%s", out_count(text, c->steps));
    table_cell(t, "%s", c->complete ? "yes" : "no");
    table_cell(t, "%s", c->restored ? "restored" : c->best ? "best" : "");
    table_cell(t, "%s", out_bytes(text, c->bytes));
    table_cell(t, "%s", out_age(text, c->unix_time));
    table_cell(t, "%s", c->manifest);
    table_cell(t, "%s", out_when(text, c->unix_time));
    table_cell(t, "%zu", c->n_shards);
    writers(t, c);
}

static const char *checkpoint_name(char out[LIST_NAME],
                                   const ProtobufCMessage *item)
{
    (void)out;
    return ((const Sluice__V1__Checkpoint *)item)->manifest;
}

// ---- shards

static const char *const shards_head[] = {
    "shard",      "psserver", "incarnation", "size",    "counted", "applied",
    "duplicates", "refused",  "staleness",   "skipped", "known",   NULL};

static void shard_row(struct table *t, const ProtobufCMessage *item)
{
    static const Sluice__V1__ShardCounts none = SLUICE__V1__SHARD_COUNTS__INIT;
    const Sluice__V1__ShardStatus *s = (const Sluice__V1__ShardStatus *)item;
    const Sluice__V1__ShardCounts *c = s->counts != NULL ? s->counts : &none;
    char text[OUT_NUMBER];

    table_cell(t, "%u", s->shard);
    if (s->replica[0] == '\0')
        table_cell(t, "%s", s->psserver);
    else
        table_cell(t, "%s (%s%s)", s->psserver, s->replica,
                   s->follows ? " follows" : "");
    if (s->incarnation == 0)
        table_cell(t, "waiting");
    else
        table_cell(t, "%" PRIu64, s->incarnation);
    table_cell(t, "%s", out_bytes(text, s->bytes));
    table_cell(t, "%s", out_count(text, c->counted));
    table_cell(t, "%s", out_count(text, c->applied));
    table_cell(t, "%s", out_count(text, c->duplicates));
    table_cell(t, "%s", out_count(text, c->refused));
    table_cell(t, "p50 %s", shards_median(c));
    table_cell(t, "%s", out_count(text, c->skipped));
    table_cell(t, "%s", out_count(text, s->evidence_steps));
}

// ---- sparse tables

static const char *const tables_head[] = {
    "table",          "psserver",    "dim",           "rows",
    "waiting",        "rows/min",    "admitted",      "evicted",
    "unadmitted",     "size",        "on disk",       "optimizer",
    "largest bucket", "hottest ids", "found on disk", "to disk",
    "shards",         NULL};

// A table of which nothing is known has a dash for each number.
static void list_table_cell(struct table *t, const Sluice__V1__TableStatus *s,
                            uint64_t n)
{
    char text[OUT_NUMBER];

    table_cell(t, "%s", s->known > 0 ? out_count(text, n) : "-");
}

static void list_growth_cell(struct table *t, double per_minute)
{
    char text[OUT_NUMBER];

    if (isfinite(per_minute))
        table_cell(t, "%c%s", per_minute < 0 ? '-' : '+',
                   out_count(text, (uint64_t)fmin(fabs(per_minute), 1e18)));
    else
        table_cell(t, "-");
}

// The bucket's share of all rows: ids spread evenly, so a large one is a sign
// of a small table, or of ids that were chosen to fall together.
static void list_bucket_cell(struct table *t, const Sluice__V1__TableFigures *f)
{
    char text[OUT_NUMBER];

    if (f->rows == 0)
        table_cell(t, "-");
    else
        table_cell(
            t, "%s (%.3g %%)", out_count(text, f->largest_bucket),
            fmin(100, (double)f->largest_bucket * 100 / (double)f->rows));
}

// The hottest ids with their updates: the first three, as JSON has all.
static void list_hottest_cell(struct table *t,
                              const Sluice__V1__TableFigures *f)
{
    char text[3 * (OUT_NUMBER + 24)] = "-", number[OUT_NUMBER];
    size_t at = 0;

    for (size_t i = 0; i < f->n_hot_ids && i < 3; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%llu (%s)",
                               i == 0 ? "" : ", ",
                               (unsigned long long)f->hot_ids[i],
                               out_count(number, f->hot_updates[i]));
    table_cell(t, "%s", text);
}

// Rows on disk, and what the table's files take of it.
static void list_disk_cell(struct table *t, const Sluice__V1__TableStatus *s)
{
    const Sluice__V1__TableFigures *f = s->figures;
    char rows[OUT_NUMBER], bytes[OUT_NUMBER];

    if (s->known == 0 || f->disk_bytes == 0)
        list_table_cell(t, s, f->disk_rows);
    else
        table_cell(t, "%s (%s)", out_count(rows, f->disk_rows),
                   out_bytes(bytes, f->disk_bytes));
}

// With the share of all rows that were looked for: how often memory was short.
static void list_found_cell(struct table *t, const Sluice__V1__TableStatus *s)
{
    const Sluice__V1__TableFigures *f = s->figures;
    double all = (double)f->found_memory + (double)f->found_disk;
    char text[OUT_NUMBER];

    if (s->known == 0 || all == 0)
        list_table_cell(t, s, f->found_disk);
    else
        table_cell(t, "%s (%.3g %%)", out_count(text, f->found_disk),
                   (double)f->found_disk * 100 / all);
}

static void table_status_row(struct table *t, const ProtobufCMessage *item)
{
    const Sluice__V1__TableStatus *s = (const Sluice__V1__TableStatus *)item;
    const Sluice__V1__TableFigures *f = s->figures;
    char text[OUT_NUMBER];

    table_cell(t, "%s", s->name);
    table_cell(t, "%s", s->psserver[0] != '\0' ? s->psserver : "all");
    table_cell(t, "%u", s->dim);
    list_table_cell(t, s, f->rows);
    list_table_cell(t, s, f->waiting);
    list_growth_cell(t, WIRE_KNOWN(f, rows_per_minute));
    list_table_cell(t, s, f->admitted);
    list_table_cell(t, s, f->evicted);
    list_table_cell(t, s, f->unadmitted);
    table_cell(t, "%s", s->known > 0 ? out_bytes(text, f->bytes) : "-");
    list_disk_cell(t, s);
    table_cell(t, "%s", dash(s->optimizer));
    list_bucket_cell(t, f);
    list_hottest_cell(t, f);
    list_found_cell(t, s);
    list_table_cell(t, s, f->to_disk);
    table_cell(t, "%u of %u", s->known, s->shards);
}

static const char *table_status_name(char out[LIST_NAME],
                                     const ProtobufCMessage *item)
{
    (void)out;
    return ((const Sluice__V1__TableStatus *)item)->name;
}

// ---- tenants

static const char *const tenants_head[] = {
    "tenant", "jobs", "shards",       "parameters", "checkpoints",
    "kept",   "rows", "rows on disk", NULL};

static void list_quota_cell(struct table *t, const Sluice__V1__QuotaFigure *f,
                            bool bytes)
{
    char used[OUT_NUMBER], most[OUT_NUMBER];

    if (bytes)
        out_bytes(used, f->used), out_bytes(most, f->most);
    else
        out_count(used, f->used), out_count(most, f->most);
    if (f->limited)
        table_cell(t, "%s of %s", used, most);
    else
        table_cell(t, "%s", used);
}

static void tenant_row(struct table *t, const ProtobufCMessage *item)
{
    const Sluice__V1__QuotaTenant *one = (const Sluice__V1__QuotaTenant *)item;

    table_cell(t, "%s", dash(one->tenant));
    list_quota_cell(t, one->jobs, false);
    list_quota_cell(t, one->shards, false);
    list_quota_cell(t, one->parameters, true);
    list_quota_cell(t, one->checkpoints, true);
    list_quota_cell(t, one->kept, false);
    list_quota_cell(t, one->rows, true);
    list_quota_cell(t, one->rows_disk, true);
}

static const char *tenant_name(char out[LIST_NAME],
                               const ProtobufCMessage *item)
{
    (void)out;
    return dash(((const Sluice__V1__QuotaTenant *)item)->tenant);
}

// ---- tasks

static const char *const queues_head[] = {
    "queue",  "tenant",    "pending", "leased", "done",
    "failed", "cancelled", "limit",   "size",   NULL};
static const char *const tasks_head[] = {"id",     "handler", "state",
                                         "worker", "lost",    NULL};

static void queue_row(struct table *t, const ProtobufCMessage *item)
{
    const Sluice__V1__TaskQueue *q = (const Sluice__V1__TaskQueue *)item;
    char a[OUT_NUMBER];

    table_cell(t, "%s", q->name);
    table_cell(t, "%s", dash(q->tenant));
    table_cell(t, "%s", out_count(a, q->pending));
    table_cell(t, "%s", out_count(a, q->leased));
    table_cell(t, "%s", out_count(a, q->done));
    table_cell(t, "%s", out_count(a, q->failed));
    table_cell(t, "%s", out_count(a, q->cancelled));
    table_cell(t, "%s", out_count(a, q->limit));
    table_cell(t, "%s", out_bytes(a, q->bytes));
}

static const char *queue_name(char out[LIST_NAME], const ProtobufCMessage *item)
{
    (void)out;
    return ((const Sluice__V1__TaskQueue *)item)->name;
}

static void task_row(struct table *t, const ProtobufCMessage *item)
{
    static const char *const states[] = {"unknown", "pending", "leased",
                                         "done",    "failed",  "cancelled"};
    const Sluice__V1__TaskLine *one = (const Sluice__V1__TaskLine *)item;
    size_t state = (size_t)one->state;

    table_cell(t, "%" PRIu64, one->id);
    table_cell(t, "%s", one->name);
    table_cell(t, "%s", states[state < SL_COUNT(states) ? state : 0]);
    table_cell(t, "%s", dash(one->worker));
    table_cell(t, "%u", one->losses);
}

static const char *task_name(char out[LIST_NAME], const ProtobufCMessage *item)
{
    return list_number_text(out, ((const Sluice__V1__TaskLine *)item)->id);
}

// ---- the table

const struct list_format lists[LIST_KINDS] = {
    [LIST_JOBS] = {"jobs", jobs_head, 8, 0x7f0u, "the id", job_row,
                   list_job_name},
    [LIST_WORKERS] = {"workers", workers_head, 5, 0xe4u, "the name", worker_row,
                      member_name},
    [LIST_SERVERS] = {"psservers", servers_head, 11, 0x38fcu, "the name",
                      server_row, member_name},
    [LIST_MEMBERS] = {"members", members_head, 8, 0x678u, "the name",
                      member_row, member_name},
    [LIST_EVENTS] = {"events", events_head, 4, 0, "the id", NULL, event_name},
    [LIST_CHECKPOINTS] = {"checkpoints", checkpoints_head, 8, 0x267u,
                          "the manifest", checkpoint_row, checkpoint_name},
    // No verb is called with the number of a shard.
    [LIST_SHARDS] = {"shards", shards_head, 9, 0x7fcu, NULL, shard_row, NULL},
    [LIST_TABLES] = {"tables", tables_head, 11, 0x7fcu, "the name",
                     table_status_row, table_status_name},
    [LIST_TENANTS] = {"tenants", tenants_head, 7, 0xfeu, "the tenant",
                      tenant_row, tenant_name},
    [LIST_QUEUES] = {"queues", queues_head, 9, 0x1fcu, "the name", queue_row,
                     queue_name},
    [LIST_TASKS] = {"tasks", tasks_head, 5, 0x11u, "the id", task_row,
                    task_name},
};
