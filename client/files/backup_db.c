// SPDX-License-Identifier: Apache-2.0
// client/files/backup_db.c -- copies of the journal, and what it knows, by
// SQLite.
#include "client/files/backup_db.h"

#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

#define LOCKED_MS 10000
#define PUBLISHED "1" // JOURNAL_CUT_PUBLISHED

static enum sl_err backup_db_error(sqlite3 *db, const char *path,
                                   struct sl_error *err)
{
    int code = sqlite3_errcode(db);

    return sl_fail(err,
                   code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? SL_ECORRUPT
                                                                   : SL_EIO,
                   "%s: %s", path, sqlite3_errmsg(db));
}

static enum sl_err open_db(sqlite3 **out, const char *path, int flags,
                           struct sl_error *err)
{
    if (sqlite3_open_v2(path, out, flags | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK)
        return backup_db_error(*out, path, err);
    sqlite3_busy_timeout(*out, LOCKED_MS);
    return SL_OK;
}

static enum sl_err copy_pages(sqlite3 *from, sqlite3 *to, const char *path,
                              struct sl_error *err)
{
    sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");

    if (b == NULL)
        return backup_db_error(to, path, err);
    (void)sqlite3_backup_step(b, -1); // finish says how it went
    return sqlite3_backup_finish(b) == SQLITE_OK
               ? SL_OK
               : backup_db_error(to, path, err);
}

static enum sl_err backup_db_check_integrity(sqlite3 *db, const char *path,
                                             struct sl_error *err)
{
    sqlite3_stmt *s = NULL;
    enum sl_err rc = SL_OK;
    const char *said;

    if (sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL) !=
            SQLITE_OK ||
        sqlite3_step(s) != SQLITE_ROW)
        rc = backup_db_error(db, path, err);
    said = rc == SL_OK ? (const char *)sqlite3_column_text(s, 0) : NULL;
    if (rc == SL_OK && (said == NULL || strcmp(said, "ok") != 0))
        rc = sl_fail(err, SL_ECORRUPT, "%s is damaged: %s", path,
                     said != NULL ? said : "out of memory");
    sqlite3_finalize(s);
    return rc;
}

enum sl_err backup_db_copy(const char *from, const char *to,
                           struct sl_error *err)
{
    sqlite3 *in = NULL, *out = NULL;
    bool made = false;
    enum sl_err rc = open_db(&in, from, SQLITE_OPEN_READONLY, err);

    if (rc == SL_OK) {
        rc = open_db(&out, to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, err);
        made = true;
    }
    if (rc == SL_OK)
        rc = copy_pages(in, out, to, err);
    if (rc == SL_OK)
        rc = backup_db_check_integrity(out, to, err);
    sqlite3_close(in);
    sqlite3_close(out);
    if (rc != SL_OK && made)
        unlink(to); // half of it
    return rc;
}

enum sl_err backup_db_jobs(const char *path, backup_job_fn fn, void *arg,
                           struct sl_error *err)
{
    static const char sql[] =
        "SELECT id, coalesce((SELECT max(cut) FROM cuts WHERE job = id), 0),"
        " coalesce((SELECT path FROM cuts WHERE job = id AND state = " PUBLISHED
        " ORDER BY cut DESC LIMIT 1), '') FROM jobs ORDER BY id";
    sqlite3_stmt *s = NULL;
    sqlite3 *db = NULL;
    enum sl_err rc = open_db(&db, path, SQLITE_OPEN_READONLY, err);
    int step = SQLITE_DONE;

    if (rc == SL_OK && sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        rc = backup_db_error(db, path, err);
    while (rc == SL_OK && (step = sqlite3_step(s)) == SQLITE_ROW)
        rc = fn(arg, (uint64_t)sqlite3_column_int64(s, 0),
                (uint64_t)sqlite3_column_int64(s, 1),
                (const char *)sqlite3_column_text(s, 2), err);
    if (rc == SL_OK && step != SQLITE_DONE)
        rc = backup_db_error(db, path, err);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return rc;
}
