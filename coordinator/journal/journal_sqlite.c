// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_sqlite.c -- opening, the schema, transactions.
//
// One connection, used by the loop alone; the daemon's own lock on the state
// folder decides which process may write. Another process may read, and so make
// a backup while the coordinator runs (`sqlite3 journal.sqlite '.backup
// FILE'`): in WAL a reader does not keep a writer waiting. No code here opens
// these files but by SQLite: closing any descriptor of theirs would drop its
// locks.
#include "coordinator/journal/journal_sql.h"

#include <errno.h>

#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/fs.h"
#include "common/base/mem.h"

// How long to wait for a reader. Only a reader's recovery takes a lock that the
// coordinator waits for, and briefly: that of a journal left by a killed
// coordinator.
#define LOCKED_MS 10000

static const char schema[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL);"
    "INSERT INTO meta VALUES('term', 0);"
    "CREATE TABLE jobs("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, uid INTEGER NOT NULL,"
    " incarnation INTEGER NOT NULL, name TEXT NOT NULL, request_id TEXT,"
    " state INTEGER NOT NULL, reason TEXT NOT NULL, spec BLOB NOT NULL,"
    " layout BLOB, final BLOB, train_samples INTEGER, test_samples INTEGER,"
    " train_hash INTEGER, test_hash INTEGER, submitted_us INTEGER NOT NULL,"
    " ended_us INTEGER NOT NULL DEFAULT 0,"
    " closures_retried INTEGER NOT NULL DEFAULT 0,"
    " workers_lost INTEGER NOT NULL DEFAULT 0,"
    " psservers_lost INTEGER NOT NULL DEFAULT 0,"
    " restarts INTEGER NOT NULL DEFAULT 0,"
    " elapsed_ms INTEGER NOT NULL DEFAULT 0);"
    "CREATE UNIQUE INDEX jobs_request ON jobs(request_id)"
    " WHERE request_id IS NOT NULL;"
    "CREATE TABLE shards("
    " job INTEGER NOT NULL, shard INTEGER NOT NULL, psserver TEXT NOT NULL,"
    " incarnation INTEGER NOT NULL DEFAULT 0,"
    " cut_incarnation INTEGER NOT NULL DEFAULT 0,"
    " cut_sequence INTEGER NOT NULL DEFAULT 0,"
    " PRIMARY KEY(job, shard)) WITHOUT ROWID;"
    "CREATE TABLE cuts("
    " job INTEGER NOT NULL, cut INTEGER NOT NULL, state INTEGER NOT NULL,"
    " path TEXT NOT NULL, epochs INTEGER NOT NULL, low INTEGER NOT NULL,"
    " checkpoint BLOB NOT NULL, counts BLOB NOT NULL,"
    " PRIMARY KEY(job, cut));"
    "CREATE TABLE evaluations("
    " job INTEGER NOT NULL, epoch INTEGER NOT NULL, cut INTEGER NOT NULL,"
    " samples INTEGER NOT NULL, loss REAL, accuracy REAL,"
    " PRIMARY KEY(job, epoch)) WITHOUT ROWID;"
    "CREATE TABLE blames("
    " job INTEGER NOT NULL, closure INTEGER NOT NULL, worker INTEGER NOT NULL,"
    " PRIMARY KEY(job, closure, worker)) WITHOUT ROWID;"
    "CREATE TABLE deleted("
    " job INTEGER NOT NULL, uid INTEGER NOT NULL, psserver TEXT NOT NULL,"
    " PRIMARY KEY(psserver, job)) WITHOUT ROWID;"
    "PRAGMA user_version = 1;";

// Tables outside the schema version: older programs leave them alone. The
// indexes serve lists and starts: jobs that have ended, and cuts that are kept.
// (4: JOB_FINISHED; 0 and 1: JOURNAL_CUT_INTENT and _PUBLISHED.)
static const char more[] =
    "CREATE TABLE IF NOT EXISTS gaps("
    " first INTEGER PRIMARY KEY, last INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS past("
    " job INTEGER PRIMARY KEY, cuts INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS tenants("
    " job INTEGER PRIMARY KEY, tenant TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS classes("
    " job INTEGER PRIMARY KEY, facts BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS pauses("
    " job INTEGER PRIMARY KEY, state INTEGER NOT NULL, who TEXT NOT NULL,"
    " why TEXT NOT NULL, note TEXT NOT NULL, since_us INTEGER NOT NULL,"
    " total_ms INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS clocks("
    " job INTEGER PRIMARY KEY, elapsed_ms INTEGER NOT NULL,"
    " seen_us INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS drains("
    " role INTEGER NOT NULL, name TEXT NOT NULL, who TEXT NOT NULL,"
    " why TEXT NOT NULL, PRIMARY KEY(role, name));"
    "CREATE TABLE IF NOT EXISTS tainted("
    " name TEXT NOT NULL, job INTEGER NOT NULL, work BLOB NOT NULL,"
    " PRIMARY KEY(name, job));"
    "CREATE TABLE IF NOT EXISTS metrics("
    " job INTEGER NOT NULL, epoch INTEGER NOT NULL,"
    " steps INTEGER NOT NULL, name TEXT NOT NULL,"
    " value REAL, PRIMARY KEY(job, epoch, steps, name)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS loads("
    " job INTEGER PRIMARY KEY, times INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS swept(job INTEGER PRIMARY KEY);"
    "CREATE TABLE IF NOT EXISTS replicas("
    " job INTEGER NOT NULL, shard INTEGER NOT NULL, psserver TEXT NOT NULL,"
    " feed INTEGER NOT NULL, PRIMARY KEY(job, shard)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS queue("
    " job INTEGER PRIMARY KEY, turn INTEGER NOT NULL);"
    "CREATE INDEX IF NOT EXISTS tenants_of ON tenants(tenant, job);"
    "CREATE INDEX IF NOT EXISTS jobs_named ON jobs(name, id);"
    "CREATE INDEX IF NOT EXISTS jobs_live ON jobs(id) WHERE state < 4;"
    "CREATE INDEX IF NOT EXISTS jobs_ended ON jobs(id, uid, state, name)"
    " WHERE state >= 4;"
    "CREATE INDEX IF NOT EXISTS cuts_other ON cuts(job, state)"
    " WHERE state <> 1;";

// From schema 1 to 2: jobs that start from a cut.
static const char schema_2[] = "ALTER TABLE jobs ADD COLUMN resume BLOB;"
                               "PRAGMA user_version = 2;";

// From schema 2 to 3: evaluations by steps, and callbacks that look at them.
static const char schema_3[] =
    "CREATE TABLE evaluations_3("
    " job INTEGER NOT NULL, epoch INTEGER NOT NULL, cut INTEGER NOT NULL,"
    " samples INTEGER NOT NULL, loss REAL, accuracy REAL,"
    " steps INTEGER NOT NULL DEFAULT 0,"
    " train_samples INTEGER NOT NULL DEFAULT 0,"
    " train_loss REAL NOT NULL DEFAULT 0,"
    " train_accuracy REAL NOT NULL DEFAULT 0,"
    " PRIMARY KEY(job, epoch, steps)) WITHOUT ROWID;"
    "INSERT INTO evaluations_3(job, epoch, cut, samples, loss, accuracy)"
    " SELECT job, epoch, cut, samples, loss, accuracy FROM evaluations;"
    "DROP TABLE evaluations;"
    "ALTER TABLE evaluations_3 RENAME TO evaluations;"
    "CREATE TABLE callbacks("
    " job INTEGER PRIMARY KEY, state BLOB NOT NULL);"
    "ALTER TABLE jobs ADD COLUMN trained_samples INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN trained_correct INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN trained_loss REAL NOT NULL DEFAULT 0;"
    "PRAGMA user_version = 3;";

// SQLite 3.40 takes a table for damaged (PRAGMA integrity_check: NULL value in
// ...) that is WITHOUT ROWID and does not begin with the columns of its key,
// and so says of a good backup that it is none. The version stays: programs of
// before name the columns, and read and write these tables as well.
static const char key_first[] =
    "CREATE TABLE deleted_2("
    " psserver TEXT NOT NULL, job INTEGER NOT NULL, uid INTEGER NOT NULL,"
    " PRIMARY KEY(psserver, job)) WITHOUT ROWID;"
    "INSERT INTO deleted_2(psserver, job, uid)"
    " SELECT psserver, job, uid FROM deleted;"
    "DROP TABLE deleted;"
    "ALTER TABLE deleted_2 RENAME TO deleted;"
    "CREATE TABLE evaluations_4("
    " job INTEGER NOT NULL, epoch INTEGER NOT NULL,"
    " steps INTEGER NOT NULL DEFAULT 0, cut INTEGER NOT NULL,"
    " samples INTEGER NOT NULL, loss REAL, accuracy REAL,"
    " train_samples INTEGER NOT NULL DEFAULT 0,"
    " train_loss REAL NOT NULL DEFAULT 0,"
    " train_accuracy REAL NOT NULL DEFAULT 0,"
    " PRIMARY KEY(job, epoch, steps)) WITHOUT ROWID;"
    "INSERT INTO evaluations_4(job, epoch, steps, cut, samples, loss, accuracy,"
    " train_samples, train_loss, train_accuracy)"
    " SELECT job, epoch, steps, cut, samples, loss, accuracy,"
    " train_samples, train_loss, train_accuracy FROM evaluations;"
    "DROP TABLE evaluations;"
    "ALTER TABLE evaluations_4 RENAME TO evaluations;";

static bool no_space(struct journal *j, int code)
{
    int why = sqlite3_system_errno(j->db);

    return code == SQLITE_FULL ||
           (code == SQLITE_IOERR && (why == ENOSPC || why == EDQUOT));
}

enum sl_err journal_bad(struct journal *j, const char *what,
                        struct sl_error *err)
{
    int code = sqlite3_errcode(j->db);

    if (!j->failed)
        j->full = no_space(j, code);
    j->failed = true;
    if (j->full)
        return sl_fail(err, SL_EUNAVAIL,
                       "%s: no space left for %s: nothing is accepted until "
                       "there is",
                       j->kind->name, sqlite3_db_filename(j->db, "main"));
    return sl_fail(err,
                   code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? SL_ECORRUPT
                                                                   : SL_EIO,
                   "%s: %s: %s; %s", j->kind->name, what, sqlite3_errmsg(j->db),
                   j->kind->ends);
}

static enum sl_err failed_before(struct journal *j, struct sl_error *err)
{
    return sl_fail(err, SL_EIO, "%s: it failed before; its log says how",
                   j->kind->name);
}

enum sl_err journal_exec(struct journal *j, const char *sql,
                         struct sl_error *err)
{
    if (j->failed)
        return failed_before(j, err);
    if (sqlite3_exec(j->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return journal_bad(j, "exec", err);
    return SL_OK;
}

static void journal_bind_values(sqlite3_stmt *s,
                                const struct journal_value *values,
                                size_t count)
{
    for (int i = 0; i < (int)count; i++) {
        const struct journal_value *v = &values[i];

        if (v->kind == JOURNAL_U64)
            sqlite3_bind_int64(s, i + 1, (sqlite3_int64)v->u64);
        else if (v->kind == JOURNAL_REAL)
            sqlite3_bind_double(s, i + 1, v->real);
        else if (v->kind == JOURNAL_TEXT)
            sqlite3_bind_text(s, i + 1, v->text, -1, SQLITE_STATIC);
        else if (v->blob.bytes == 0)
            sqlite3_bind_zeroblob(s, i + 1, 0);
        else
            sqlite3_bind_blob64(s, i + 1, v->blob.data, v->blob.bytes,
                                SQLITE_STATIC);
    }
}

// Keeps why a statement is not made, for journal_step.
static sqlite3_stmt *not_made(struct journal *j, enum sl_err why)
{
    j->not_made = why;
    return NULL;
}

// Returns the cached statement of `sql`, reset and without values.
static sqlite3_stmt *prepared(struct journal *j, const char *sql,
                              struct sl_error *err)
{
    sqlite3_stmt *stmt = NULL;

    if (j->failed)
        return not_made(j, failed_before(j, err));
    for (unsigned i = 0; i < j->cached; i++) {
        if (j->cache[i].sql == sql) {
            sqlite3_reset(j->cache[i].stmt);
            sqlite3_clear_bindings(j->cache[i].stmt);
            return j->cache[i].stmt;
        }
    }
    if (j->cached == JOURNAL_STATEMENTS ||
        sqlite3_prepare_v3(j->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt,
                           NULL) != SQLITE_OK)
        return not_made(j, journal_bad(j, sql, err));
    j->cache[j->cached].sql = sql;
    j->cache[j->cached].stmt = stmt;
    j->cached++;
    return stmt;
}

sqlite3_stmt *journal_sql(struct journal *j, struct sl_error *err,
                          const char *sql, const struct journal_value *values,
                          size_t count)
{
    sqlite3_stmt *s = prepared(j, sql, err);

    if (s != NULL)
        journal_bind_values(s, values, count);
    return s;
}

enum sl_err journal_step(struct journal *j, sqlite3_stmt *stmt,
                         struct sl_error *err)
{
    int rc;

    if (stmt == NULL)
        return j->not_made;
    rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        return SL_OK;
    if (rc == SQLITE_DONE) {
        sqlite3_reset(stmt); // a statement left open would hold the snapshot
        return SL_ENOENT;
    }
    return journal_bad(j, sqlite3_sql(stmt), err);
}

// Notes the time of a commit by the real clock, whichever clock decides
// elsewhere.
static void note_commit(struct journal *j, uint64_t begun_us)
{
    histogram_add(&j->commits, sl_real_us() - begun_us);
}

enum sl_err journal_write(struct journal *j, struct sl_error *err,
                          const char *sql, const struct journal_value *values,
                          size_t count)
{
    bool commits = sqlite3_get_autocommit(j->db) != 0;
    bool alone = commits && (j->queued_count > 0 || j->keeper != NULL);
    uint64_t begun = sl_real_us();
    enum sl_err rc = alone ? journal_begin(j, err) : SL_OK;

    if (rc != SL_OK)
        return rc;
    FAULT("journal.begin");
    rc = journal_step(j, journal_sql(j, err, sql, values, count), err);
    if (rc == SL_ENOENT)
        rc = SL_OK;
    if (alone)
        rc = journal_end(j, rc, err);
    else if (commits && rc == SL_OK)
        note_commit(j, begun);
    FAULT("journal.committed"); // unless a transaction is open
    return rc;
}

sqlite3_stmt *journal_walk(struct journal *j, struct sl_error *err,
                           const char *sql, const struct journal_value *values,
                           size_t count)
{
    sqlite3_stmt *s = NULL;

    if (j->failed)
        return not_made(j, failed_before(j, err));
    if (sqlite3_prepare_v2(j->db, sql, -1, &s, NULL) != SQLITE_OK)
        return not_made(j, journal_bad(j, sql, err));
    journal_bind_values(s, values, count);
    return s;
}

enum sl_err journal_walked(sqlite3_stmt *s, enum sl_err rc)
{
    // A busy statement stands at a row: SL_ENOENT is then the callback's.
    bool over = s == NULL || sqlite3_stmt_busy(s) == 0;

    sqlite3_finalize(s);
    return rc == SL_ENOENT && over ? SL_OK : rc;
}

enum sl_err journal_begin(struct journal *j, struct sl_error *err)
{
    enum sl_err rc = journal_exec(j, "BEGIN IMMEDIATE", err);

    // Blame and counters, for which no caller waits, go with this commit: a
    // sync for each held the loop for seconds when 500 workers were lost.
    if (rc == SL_OK && j->queued_count > 0)
        rc = j->write_queued(j, err);
    if (rc != SL_OK)
        sqlite3_exec(j->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

static enum sl_err commit(struct journal *j, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (j->keeper != NULL && !j->failed) {
        rc = j->keeper->keep(j, err);
        j->failed = j->failed || rc != SL_OK;
    }
    return rc == SL_OK ? journal_exec(j, "COMMIT", err) : rc;
}

enum sl_err journal_end(struct journal *j, enum sl_err rc, struct sl_error *err)
{
    uint64_t begun = sl_real_us();

    FAULT("journal.commit");
    if (rc == SL_OK)
        rc = commit(j, err);
    if (rc == SL_OK) {
        note_commit(j, begun);
        j->queued_count = 0;
    } else {
        sqlite3_exec(j->db, "ROLLBACK", NULL, NULL, NULL);
    }
    if (j->keeper != NULL)
        j->keeper->over(j, rc == SL_OK);
    return rc;
}

// ---- values

uint64_t journal_u64(sqlite3_stmt *s, int column)
{
    return (uint64_t)sqlite3_column_int64(s, column);
}

const char *journal_text(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);

    return text == NULL ? "" : text;
}

struct journal_blob journal_blob_at(sqlite3_stmt *s, int column)
{
    struct journal_blob b = {sqlite3_column_blob(s, column), 0};

    b.bytes = (size_t)sqlite3_column_bytes(s, column);
    return b;
}

// ---- open

enum sl_err journal_pragma(struct journal *j, const char *sql, int *out,
                           struct sl_error *err)
{
    sqlite3_stmt *stmt = NULL;
    enum sl_err rc = SL_OK;

    if (sqlite3_prepare_v2(j->db, sql, -1, &stmt, NULL) != SQLITE_OK ||
        sqlite3_step(stmt) != SQLITE_ROW)
        rc = journal_bad(j, sql, err);
    else
        *out = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return rc;
}

enum sl_err journal_set_up_schema(struct journal *j, const char *path,
                                  struct sl_error *err)
{
    enum sl_err rc;
    int version = 0;

    rc = journal_exec(j,
                      "PRAGMA journal_mode = WAL;"
                      "PRAGMA synchronous = FULL;"
                      "PRAGMA journal_size_limit = 16777216;"
                      "PRAGMA foreign_keys = OFF;",
                      err);
    if (rc == SL_OK)
        rc = journal_pragma(j, "PRAGMA user_version", &version, err);
    if (rc != SL_OK)
        return rc;
    if (version > j->kind->schema)
        return sl_fail(err, SL_ENOTSUP,
                       "%s has schema %d, this program knows %d: it was "
                       "written by a newer coordinator",
                       path, version, j->kind->schema);
    rc = journal_begin(j, err);
    if (rc != SL_OK)
        return rc;
    return journal_end(j, j->kind->make(j, version, err), err);
}

static enum sl_err put_keys_first(struct journal *j, struct sl_error *err)
{
    int column = 0;
    enum sl_err rc = journal_pragma(
        j, "SELECT cid FROM pragma_table_info('deleted') WHERE name = 'uid'",
        &column, err);

    return rc == SL_OK && column < 2 ? journal_exec(j, key_first, err) : rc;
}

static enum sl_err make_tables(struct journal *j, int version,
                               struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (version < 1)
        rc = journal_exec(j, schema, err);
    if (rc == SL_OK && version < 2)
        rc = journal_exec(j, schema_2, err);
    if (rc == SL_OK && version < 3)
        rc = journal_exec(j, schema_3, err);
    if (rc == SL_OK)
        rc = put_keys_first(j, err);
    return rc == SL_OK ? journal_exec(j, more, err) : rc;
}

const struct journal_kind journal_kind_own = {
    .name = "journal",
    .ends = "the coordinator cannot go on",
    .schema = JOURNAL_SCHEMA,
    .make = make_tables,
    .folder = "",
    .numbered = "jobs",
};

enum sl_err journal_open(struct journal **out, const char *path,
                         struct sl_error *err)
{
    return journal_open_kind(out, path, &journal_kind_own, err);
}

// Makes the files readable by their owner alone: they hold the cluster's keys
// and every spec. SQLite gives the files beside it the mode of the file itself;
// the modes of files of older versions are mended.
static void keep_private(const char *path)
{
    static const char *const files[] = {"", "-wal", "-shm"};

    for (size_t i = 0; i < SL_COUNT(files); i++) {
        struct buf name = BUF_INIT;
        struct fs_file *file = NULL;

        if (buf_appendf(&name, "%s%s", path, files[i]) == SL_OK &&
            (i == 0 || fs_exists(fs_private(), buf_text(&name))))
            (void)fs_open(fs_private(), &file, buf_text(&name), FS_APPEND,
                          NULL); // sqlite says what is wrong with it
        fs_close(file);
        buf_release(&name);
    }
}

// Opens the database alone; *out is set in any case, NULL without memory.
static enum sl_err journal_open_db(struct journal **out, const char *path,
                                   const struct journal_kind *kind,
                                   struct sl_error *err)
{
    struct journal *j = *out = sl_calloc(1, sizeof(*j));

    if (j == NULL)
        return sl_fail(err, SL_ENOMEM, "%s", path);
    j->kind = kind;
    j->commits = (struct histogram)HISTOGRAM_DURATIONS;
    if (path[0] != ':')
        keep_private(path);
    if (sqlite3_open_v2(path, &j->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                            SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        return journal_bad(j, path, err);
    sqlite3_busy_timeout(j->db, LOCKED_MS);
    return SL_OK;
}

static enum sl_err journal_open_end(struct journal **out, struct journal *j,
                                    enum sl_err rc)
{
    if (rc == SL_OK)
        *out = j;
    else
        journal_close(j);
    return rc;
}

enum sl_err journal_open_kind(struct journal **out, const char *path,
                              const struct journal_kind *kind,
                              struct sl_error *err)
{
    struct journal *j;
    enum sl_err rc = journal_open_db(&j, path, kind, err);

    if (rc == SL_OK)
        rc = journal_set_up_schema(j, path, err);
    return journal_open_end(out, j, rc);
}

enum sl_err journal_open_blank(struct journal **out,
                               const struct journal_kind *kind,
                               struct sl_error *err)
{
    struct journal *j;
    enum sl_err rc = journal_open_db(&j, ":memory:", kind, err);

    return journal_open_end(out, j, rc);
}

bool journal_failed(const struct journal *j)
{
    return j->failed;
}

bool journal_full(const struct journal *j)
{
    return j->full;
}

const struct histogram *journal_commits(const struct journal *j)
{
    return &j->commits;
}

void journal_swap(struct journal *j, sqlite3 *db)
{
    for (unsigned i = 0; i < j->cached; i++)
        sqlite3_finalize(j->cache[i].stmt);
    j->cached = 0;
    sqlite3_close(j->db);
    j->db = db;
}

void journal_close(struct journal *j)
{
    struct sl_error err = SL_ERROR_INIT;

    if (j == NULL)
        return;
    // Queued rows that are lost here are worth nothing.
    if (!j->failed && j->queued_count > 0 && journal_begin(j, &err) == SL_OK)
        (void)journal_end(j, SL_OK, &err);
    if (j->keeper != NULL)
        j->keeper->free(j);
    sl_free(j->queued);
    journal_swap(j, NULL);
    sl_free(j);
}

// ---- meta

enum sl_err journal_number(struct journal *j, uint64_t *out,
                           struct sl_error *err, const char *sql,
                           const struct journal_value *values, size_t count)
{
    sqlite3_stmt *s = journal_sql(j, err, sql, values, count);
    enum sl_err rc = journal_step(j, s, err);

    if (rc != SL_OK && rc != SL_ENOENT)
        return rc;
    *out = rc == SL_OK ? journal_u64(s, 0) : 0;
    sqlite3_reset(s);
    return SL_OK;
}

enum sl_err journal_meta(struct journal *j, const char *key, uint64_t *out,
                         struct sl_error *err)
{
    return journal_number(j, out, err, "SELECT value FROM meta WHERE key = ?1",
                          JOURNAL_VALUES(TEXT(key)));
}

enum sl_err journal_meta_set(struct journal *j, const char *key, uint64_t value,
                             struct sl_error *err)
{
    return journal_write(
        j, err, "INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)",
        JOURNAL_VALUES(TEXT(key), U64(value)));
}

enum sl_err journal_term(struct journal *j, uint64_t *term,
                         struct sl_error *err)
{
    sqlite3_stmt *s = journal_sql(
        j, err, "SELECT value FROM meta WHERE key = 'term'", NULL, 0);
    enum sl_err rc = journal_step(j, s, err);

    if (rc != SL_OK)
        return rc == SL_ENOENT ? sl_fail(err, SL_ECORRUPT, "journal: no term")
                               : rc;
    *term = journal_u64(s, 0);
    sqlite3_reset(s);
    return SL_OK;
}

enum sl_err journal_next_term(struct journal *j, uint64_t *term,
                              struct sl_error *err)
{
    enum sl_err rc =
        journal_write(j, err,
                      "UPDATE meta SET value = 1 + max(value, coalesce("
                      "(SELECT value FROM meta WHERE key = 'seen_term'), 0))"
                      " WHERE key = 'term'",
                      NULL, 0);

    return rc == SL_OK ? journal_term(j, term, err) : rc;
}

enum sl_err journal_last_job(struct journal *j, uint64_t *id,
                             struct sl_error *err)
{
    return journal_number(j, id, err,
                          "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'",
                          NULL, 0);
}
