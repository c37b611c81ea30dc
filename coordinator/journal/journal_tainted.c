// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_tainted.c -- what suspect workers contributed.
#include "coordinator/journal/journal_sql.h"

enum sl_err journal_taint(struct journal *j, const char *name, uint64_t job,
                          struct journal_blob work, struct sl_error *err)
{
    return journal_write(j, err,
                         "INSERT OR REPLACE INTO tainted(name, job, work)"
                         " VALUES(?1, ?2, ?3)",
                         JOURNAL_VALUES(TEXT(name), U64(job), BLOB(work)));
}

enum sl_err journal_untaint(struct journal *j, const char *name,
                            struct sl_error *err)
{
    return journal_write(j, err, "DELETE FROM tainted WHERE name = ?1",
                         JOURNAL_VALUES(TEXT(name)));
}

enum sl_err journal_each_taint(struct journal *j, journal_taint_fn fn,
                               void *arg, struct sl_error *err)
{
    sqlite3_stmt *rows = journal_walk(
        j, err, "SELECT work FROM tainted ORDER BY name, job", NULL, 0);
    enum sl_err rc;

    while ((rc = journal_step(j, rows, err)) == SL_OK) {
        rc = fn(arg, journal_blob_at(rows, 0), err);
        if (rc != SL_OK)
            break;
    }
    return journal_walked(rows, rc);
}
