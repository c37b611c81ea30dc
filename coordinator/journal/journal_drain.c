// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_drain.c -- members that an admin has drained.
#include "coordinator/journal/journal_sql.h"

enum sl_err journal_drain(struct journal *j, int role, const char *name,
                          const char *who, const char *why,
                          struct sl_error *err)
{
    if (who == NULL)
        return journal_write(j, err,
                             "DELETE FROM drains WHERE role = ?1 AND name = ?2",
                             JOURNAL_VALUES(U64((uint64_t)role), TEXT(name)));
    return journal_write(
        j, err,
        "INSERT OR REPLACE INTO drains(role, name, who, why)"
        " VALUES(?1, ?2, ?3, ?4)",
        JOURNAL_VALUES(U64((uint64_t)role), TEXT(name), TEXT(who), TEXT(why)));
}

enum sl_err journal_each_drain(struct journal *j, journal_drain_fn fn,
                               void *arg, struct sl_error *err)
{
    sqlite3_stmt *rows = journal_walk(
        j, err, "SELECT role, name, who, why FROM drains ORDER BY role, name",
        NULL, 0);
    enum sl_err rc;

    while ((rc = journal_step(j, rows, err)) == SL_OK) {
        rc = fn(arg, (int)journal_u64(rows, 0), journal_text(rows, 1),
                journal_text(rows, 2), journal_text(rows, 3), err);
        if (rc != SL_OK)
            break;
    }
    return journal_walked(rows, rc);
}
