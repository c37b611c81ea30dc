// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_job.c -- rows of jobs and shards.
#include "coordinator/journal/journal_sql.h"

#include <math.h>

#include <stdio.h>

static enum sl_err journal_insert_job(struct journal *j,
                                      const struct journal_job *job,
                                      uint64_t *id, struct sl_error *err)
{
    enum sl_err rc = journal_write(
        j, err,
        "INSERT INTO jobs(uid, incarnation, name, request_id, state, reason,"
        " spec, submitted_us, resume)"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        JOURNAL_VALUES(
            U64(job->uid), U64(job->incarnation),
            TEXT(journal_or_null(job->name)),
            TEXT(journal_or_null(job->request_id)), U64((uint64_t)job->state),
            TEXT(job->reason == NULL ? "" : job->reason), BLOB(job->spec),
            U64(job->submitted_us), BLOB(job->resume)));

    if (rc == SL_OK)
        *id = (uint64_t)sqlite3_last_insert_rowid(j->db);
    return rc;
}

enum sl_err journal_job_add(struct journal *j, const struct journal_job *job,
                            uint64_t *id, struct sl_error *err)
{
    bool owned = journal_or_null(job->tenant) != NULL;
    uint64_t given = 0;
    enum sl_err rc;

    if (!owned && !job->queued)
        return journal_insert_job(j, job, id, err);
    rc = journal_begin(j, err);
    if (rc != SL_OK)
        return rc;
    rc = journal_insert_job(j, job, &given, err);
    if (rc == SL_OK && owned)
        rc = journal_write(j, err,
                           "INSERT INTO tenants(job, tenant) VALUES(?1, ?2)",
                           JOURNAL_VALUES(U64(given), TEXT(job->tenant)));
    if (rc == SL_OK && job->queued)
        rc =
            journal_write(j, err, "INSERT INTO queue(job, turn) VALUES(?1, ?2)",
                          JOURNAL_VALUES(U64(given), U64(JOURNAL_TURN_WAITS)));
    rc = journal_end(j, rc, err);
    if (rc == SL_OK)
        *id = given;
    return rc;
}

enum sl_err journal_job_turn(struct journal *j, uint64_t id,
                             enum journal_turn *out, struct sl_error *err)
{
    uint64_t turn = JOURNAL_TURN_NONE;
    enum sl_err rc =
        journal_number(j, &turn, err, "SELECT turn FROM queue WHERE job = ?1",
                       JOURNAL_VALUES(U64(id)));

    if (rc == SL_OK)
        *out = turn > JOURNAL_TURN_CAME ? JOURNAL_TURN_CAME
                                        : (enum journal_turn)turn;
    return rc;
}

enum sl_err journal_job_turn_came(struct journal *j, uint64_t id,
                                  struct sl_error *err)
{
    return journal_write(j, err, "UPDATE queue SET turn = ?2 WHERE job = ?1",
                         JOURNAL_VALUES(U64(id), U64(JOURNAL_TURN_CAME)));
}

enum sl_err journal_job_tenant(struct journal *j, uint64_t id,
                               char out[JOURNAL_TENANT], struct sl_error *err)
{
    sqlite3_stmt *s =
        journal_sql(j, err, "SELECT tenant FROM tenants WHERE job = ?1",
                    JOURNAL_VALUES(U64(id)));
    enum sl_err rc = journal_step(j, s, err);

    if (rc == SL_OK || rc == SL_ENOENT)
        snprintf(out, JOURNAL_TENANT, "%s",
                 rc == SL_OK ? journal_text(s, 0) : "");
    sqlite3_reset(s);
    return rc == SL_ENOENT ? SL_OK : rc;
}

enum sl_err journal_job_by_request(struct journal *j, const char *request_id,
                                   uint64_t *id, struct sl_error *err)
{
    sqlite3_stmt *s =
        journal_sql(j, err, "SELECT id FROM jobs WHERE request_id = ?1",
                    JOURNAL_VALUES(TEXT(journal_or_null(request_id))));
    enum sl_err rc = journal_step(j, s, err);

    if (rc != SL_OK)
        return rc;
    *id = journal_u64(s, 0);
    sqlite3_reset(s);
    return SL_OK;
}

enum sl_err journal_job_facts(struct journal *j, uint64_t id,
                              const struct journal_facts *facts,
                              struct sl_error *err)
{
    return journal_write(
        j, err,
        "UPDATE jobs SET train_samples = ?2, test_samples = ?3,"
        " train_hash = ?4, test_hash = ?5 WHERE id = ?1",
        JOURNAL_VALUES(U64(id), U64(facts->train_samples),
                       U64(facts->test_samples), U64(facts->train_hash),
                       U64(facts->test_hash)));
}

enum sl_err journal_job_classes(struct journal *j, uint64_t id,
                                struct journal_blob facts, struct sl_error *err)
{
    return journal_write(
        j, err, "INSERT OR REPLACE INTO classes(job, facts) VALUES(?1, ?2)",
        JOURNAL_VALUES(U64(id), BLOB(facts)));
}

enum sl_err journal_job_classes_of(struct journal *j, uint64_t id,
                                   struct buf *out, struct sl_error *err)
{
    sqlite3_stmt *s =
        journal_sql(j, err, "SELECT facts FROM classes WHERE job = ?1",
                    JOURNAL_VALUES(U64(id)));
    struct journal_blob blob;
    enum sl_err rc = journal_step(j, s, err);

    if (rc != SL_OK)
        return rc == SL_ENOENT ? SL_OK : rc;
    blob = journal_blob_at(s, 0);
    rc = buf_append(out, blob.data, blob.bytes);
    sqlite3_reset(s);
    return rc == SL_OK ? SL_OK : sl_fail(err, rc, "names of classes");
}

static enum sl_err journal_insert_shard(struct journal *j, uint64_t job,
                                        uint32_t shard, const char *psserver,
                                        struct sl_error *err)
{
    return journal_write(
        j, err, "INSERT INTO shards(job, shard, psserver) VALUES(?1, ?2, ?3)",
        JOURNAL_VALUES(U64(job), U64(shard), TEXT(psserver)));
}

enum sl_err journal_job_place(struct journal *j, uint64_t id,
                              struct journal_blob layout,
                              const char *const *names, uint32_t shards,
                              struct sl_error *err)
{
    enum sl_err rc = journal_begin(j, err);

    if (rc != SL_OK)
        return rc;
    rc = journal_write(j, err, "UPDATE jobs SET layout = ?2 WHERE id = ?1",
                       JOURNAL_VALUES(U64(id), BLOB(layout)));
    for (uint32_t i = 0; rc == SL_OK && i < shards; i++)
        rc = journal_insert_shard(j, id, i, names[i], err);
    return journal_end(j, rc, err);
}

enum sl_err journal_job_state(struct journal *j, uint64_t id, int state,
                              struct sl_error *err)
{
    return journal_write(j, err, "UPDATE jobs SET state = ?2 WHERE id = ?1",
                         JOURNAL_VALUES(U64(id), U64((uint64_t)state)));
}

enum sl_err journal_job_end(struct journal *j, uint64_t id, int state,
                            const char *reason, uint64_t ended_us,
                            struct journal_blob final,
                            const struct journal_counters *counters,
                            struct sl_error *err)
{
    enum sl_err rc = journal_job_counters(j, id, counters, err);

    if (rc == SL_OK)
        rc = journal_begin(j, err);
    if (rc != SL_OK)
        return rc;
    rc =
        journal_write(j, err,
                      "UPDATE jobs SET state = ?2, reason = ?3, ended_us = ?4,"
                      " final = ?5 WHERE id = ?1",
                      JOURNAL_VALUES(U64(id), U64((uint64_t)state),
                                     TEXT(reason), U64(ended_us), BLOB(final)));
    return journal_end(j, rc, err);
}

enum sl_err journal_job_final(struct journal *j, uint64_t id,
                              struct journal_blob final, struct sl_error *err)
{
    return journal_write(j, err, "UPDATE jobs SET final = ?2 WHERE id = ?1",
                         JOURNAL_VALUES(U64(id), BLOB(final)));
}

static enum sl_err by_job(struct journal *j, const char *sql, uint64_t job,
                          struct sl_error *err)
{
    return journal_write(j, err, sql, JOURNAL_VALUES(U64(job)));
}

enum sl_err journal_job_delete(struct journal *j, uint64_t id,
                               struct sl_error *err)
{
    static const char *const statements[] = {
        "INSERT OR REPLACE INTO deleted(job, uid, psserver)"
        " SELECT DISTINCT jobs.id, jobs.uid, shards.psserver"
        " FROM jobs JOIN shards ON shards.job = jobs.id WHERE jobs.id = ?1"
        " AND shards.psserver <> ''"
        " UNION SELECT jobs.id, jobs.uid, replicas.psserver"
        " FROM jobs JOIN replicas ON replicas.job = jobs.id"
        " WHERE jobs.id = ?1",
        "INSERT OR REPLACE INTO swept(job) VALUES(?1)", // journal_sweep
        "DELETE FROM past WHERE job = ?1",
        "DELETE FROM callbacks WHERE job = ?1",
        "DELETE FROM tenants WHERE job = ?1",
        "DELETE FROM classes WHERE job = ?1",
        "DELETE FROM clocks WHERE job = ?1",
        "DELETE FROM pauses WHERE job = ?1",
        "DELETE FROM queue WHERE job = ?1",
        "DELETE FROM loads WHERE job = ?1",
        "DELETE FROM jobs WHERE id = ?1",
    };
    enum sl_err rc = journal_begin(j, err);

    if (rc != SL_OK)
        return rc;
    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(statements); i++)
        rc = by_job(j, statements[i], id, err);
    if (rc == SL_OK)
        rc = journal_ring_forget(j, id, err);
    j->swept = false;
    return journal_end(j, rc, err);
}

static enum sl_err raise_incarnation(struct journal *j, uint64_t job,
                                     uint32_t shard, uint64_t incarnation,
                                     struct sl_error *err)
{
    enum sl_err rc =
        journal_write(j, err,
                      "UPDATE shards SET incarnation = ?3"
                      " WHERE job = ?1 AND shard = ?2 AND incarnation < ?3",
                      JOURNAL_VALUES(U64(job), U64(shard), U64(incarnation)));

    if (rc == SL_OK && sqlite3_changes(j->db) != 1)
        return sl_fail(err, SL_EINTERNAL,
                       "journal: incarnation %llu of shard %u of job %llu "
                       "does not rise",
                       (unsigned long long)incarnation, shard,
                       (unsigned long long)job);
    return rc;
}

enum sl_err journal_shard_incarnations(struct journal *j, uint64_t job,
                                       const struct journal_incarnation *list,
                                       size_t count, struct sl_error *err)
{
    enum sl_err rc = journal_begin(j, err);

    if (rc != SL_OK)
        return rc;
    for (size_t i = 0; rc == SL_OK && i < count; i++)
        rc = raise_incarnation(j, job, list[i].shard, list[i].incarnation, err);
    return journal_end(j, rc, err);
}

enum sl_err journal_shard_replica(struct journal *j, uint64_t job,
                                  uint32_t shard, const char *psserver,
                                  uint64_t feed, struct sl_error *err)
{
    return journal_write(
        j, err,
        "INSERT OR REPLACE INTO replicas(job, shard, psserver, feed)"
        " VALUES(?1, ?2, ?3, ?4)",
        JOURNAL_VALUES(U64(job), U64(shard), TEXT(psserver), U64(feed)));
}

enum sl_err journal_shard_move(struct journal *j, uint64_t job, uint32_t shard,
                               const char *psserver, struct sl_error *err)
{
    return journal_write(
        j, err, "UPDATE shards SET psserver = ?3 WHERE job = ?1 AND shard = ?2",
        JOURNAL_VALUES(U64(job), U64(shard), TEXT(psserver)));
}

// A replica that becomes the owner keeps its row: its memory is that of the
// feed (P4).
static enum sl_err write_outcome(struct journal *j, uint64_t job,
                                 const struct journal_outcome *o,
                                 struct sl_error *err)
{
    if (o->owner != NULL)
        return journal_shard_move(j, job, o->shard, o->owner, err);
    return journal_write(j, err,
                         "DELETE FROM replicas WHERE job = ?1 AND shard = ?2",
                         JOURNAL_VALUES(U64(job), U64(o->shard)));
}

enum sl_err journal_shard_outcomes(struct journal *j, uint64_t job,
                                   const struct journal_outcome *list,
                                   size_t count, struct sl_error *err)
{
    enum sl_err rc = journal_begin(j, err);

    if (rc != SL_OK)
        return rc;
    for (size_t i = 0; rc == SL_OK && i < count; i++)
        rc = write_outcome(j, job, &list[i], err);
    return journal_end(j, rc, err);
}

// ---- reading

static void journal_read_job(struct journal_job *row, sqlite3_stmt *s)
{
    *row = (struct journal_job){
        .id = journal_u64(s, 0),
        .uid = journal_u64(s, 1),
        .incarnation = journal_u64(s, 2),
        .name = journal_text(s, 3),
        .request_id = journal_text(s, 4),
        .state = (int)journal_u64(s, 5),
        .reason = journal_text(s, 6),
        .spec = journal_blob_at(s, 7),
        .layout = journal_blob_at(s, 8),
        .final = journal_blob_at(s, 9),
        .has_facts = sqlite3_column_type(s, 10) != SQLITE_NULL,
        .facts = {journal_u64(s, 10), journal_u64(s, 11), journal_u64(s, 12),
                  journal_u64(s, 13)},
        .submitted_us = journal_u64(s, 14),
        .ended_us = journal_u64(s, 15),
        .counters = {journal_u64(s, 16), journal_u64(s, 17), journal_u64(s, 18),
                     journal_u64(s, 19), journal_u64(s, 20),
                     .trained = {journal_u64(s, 22), journal_u64(s, 23),
                                 sqlite3_column_double(s, 24)}},
        .resume = journal_blob_at(s, 21),
    };
    // every one of some steps was skipped
    if (!isfinite(row->counters.trained.loss_sum))
        row->counters.trained =
            (struct journal_trained){.steps = 1, .skipped = 1};
}

#define JOB_ROW                                                                \
    "SELECT id, uid, incarnation, name, request_id, state, reason,"            \
    " spec, layout, final, train_samples, test_samples, train_hash,"           \
    " test_hash, submitted_us, ended_us, closures_retried,"                    \
    " workers_lost, psservers_lost, restarts, elapsed_ms, resume,"             \
    " trained_samples, trained_correct, trained_loss FROM jobs"

static enum sl_err walk_jobs(struct journal *j, const char *sql,
                             const struct journal_value *values, size_t count,
                             journal_job_fn fn, void *arg, struct sl_error *err)
{
    sqlite3_stmt *s;
    enum sl_err rc = journal_flush(j, err);

    if (rc != SL_OK)
        return rc;
    s = journal_walk(j, err, sql, values, count);
    while (rc == SL_OK && (rc = journal_step(j, s, err)) == SL_OK) {
        struct journal_job row;

        journal_read_job(&row, s);
        rc = fn(arg, &row, err);
    }
    return journal_walked(s, rc);
}

enum sl_err journal_each_job(struct journal *j, journal_job_fn fn, void *arg,
                             struct sl_error *err)
{
    return walk_jobs(j,
                     JOB_ROW " WHERE id IN (SELECT id FROM jobs WHERE state < 4"
                             " UNION SELECT job FROM cuts"
                             " WHERE state <> 1 AND state = 0) ORDER BY id",
                     NULL, 0, fn, arg, err);
}

enum sl_err journal_job_read(struct journal *j, uint64_t id, journal_job_fn fn,
                             void *arg, struct sl_error *err)
{
    return walk_jobs(j, JOB_ROW " WHERE id = ?1", JOURNAL_VALUES(U64(id)), fn,
                     arg, err);
}

enum sl_err journal_jobs_list(struct journal *j,
                              const struct journal_list *which, uint64_t *out,
                              size_t most, size_t *count, struct sl_error *err)
{
    const char *name = which->name == NULL ? "" : which->name;
    const char *tenant = which->tenant == NULL ? "" : which->tenant;
    const char *sql = "SELECT id FROM jobs WHERE id < ?1"
                      " ORDER BY id DESC LIMIT ?4";
    sqlite3_stmt *s;
    enum sl_err rc = SL_OK;

    if (which->tenant != NULL)
        sql = "SELECT t.job FROM tenants t JOIN jobs j ON j.id = t.job"
              " WHERE t.tenant = ?2 AND t.job < ?1"
              " AND (?3 = '' OR j.name = ?3) ORDER BY t.job DESC LIMIT ?4";
    else if (name[0] != '\0')
        sql = "SELECT id FROM jobs WHERE id < ?1 AND name = ?3"
              " ORDER BY id DESC LIMIT ?4";
    s = journal_sql(j, err, sql,
                    JOURNAL_VALUES(U64(which->before), TEXT(tenant), TEXT(name),
                                   U64(most)));
    *count = 0;
    while (*count < most && (rc = journal_step(j, s, err)) == SL_OK)
        out[(*count)++] = journal_u64(s, 0);
    sqlite3_reset(s);
    return rc == SL_ENOENT ? SL_OK : rc;
}

enum sl_err journal_each_ended(struct journal *j, journal_job_fn fn, void *arg,
                               struct sl_error *err)
{
    sqlite3_stmt *s = journal_walk(
        j, err, "SELECT id, uid, state, name FROM jobs WHERE state >= 4", NULL,
        0);
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && (rc = journal_step(j, s, err)) == SL_OK) {
        struct journal_job row = {
            .id = journal_u64(s, 0),
            .uid = journal_u64(s, 1),
            .state = (int)journal_u64(s, 2),
            .name = journal_text(s, 3),
        };

        rc = fn(arg, &row, err);
    }
    return journal_walked(s, rc);
}

enum sl_err journal_each_shard(struct journal *j, uint64_t job,
                               journal_shard_fn fn, void *arg,
                               struct sl_error *err)
{
    sqlite3_stmt *s = journal_walk(
        j, err,
        "SELECT s.shard, s.psserver, s.incarnation, s.cut_incarnation,"
        " s.cut_sequence, r.psserver, r.feed FROM shards s"
        " LEFT JOIN replicas r ON r.job = s.job AND r.shard = s.shard"
        " WHERE s.job = ?1 ORDER BY s.shard",
        JOURNAL_VALUES(U64(job)));
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && (rc = journal_step(j, s, err)) == SL_OK) {
        struct journal_shard row = {
            .shard = (uint32_t)journal_u64(s, 0),
            .psserver = journal_text(s, 1),
            .incarnation = journal_u64(s, 2),
            .cut = {journal_u64(s, 3), journal_u64(s, 4)},
            .replica = journal_text(s, 5),
            .feed = journal_u64(s, 6),
        };

        rc = fn(arg, &row, err);
    }
    return journal_walked(s, rc);
}

// Walks the rows of `s`, of journal_walk: job, uid, psserver.
static enum sl_err walk_deleted(struct journal *j, sqlite3_stmt *s,
                                journal_deleted_fn fn, void *arg,
                                struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && (rc = journal_step(j, s, err)) == SL_OK)
        rc = fn(arg, journal_u64(s, 0), journal_u64(s, 1), journal_text(s, 2),
                err);
    return journal_walked(s, rc);
}

enum sl_err journal_each_deleted(struct journal *j, const char *psserver,
                                 journal_deleted_fn fn, void *arg,
                                 struct sl_error *err)
{
    return walk_deleted(
        j,
        journal_walk(j, err,
                     "SELECT job, uid, psserver FROM deleted"
                     " WHERE psserver = ?1 ORDER BY job",
                     JOURNAL_VALUES(TEXT(journal_or_null(psserver)))),
        fn, arg, err);
}

enum sl_err journal_each_deleted_of(struct journal *j, uint64_t job,
                                    journal_deleted_fn fn, void *arg,
                                    struct sl_error *err)
{
    return walk_deleted(j,
                        journal_walk(j, err,
                                     "SELECT job, uid, psserver FROM deleted"
                                     " WHERE job = ?1",
                                     JOURNAL_VALUES(U64(job))),
                        fn, arg, err);
}
