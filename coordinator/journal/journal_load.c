// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_load.c -- jobs that a coordinator was loading
// when it ended.
//
// What kills the process while a job is loaded (its host's kernel, for want of
// memory) does so again at each start, unless the next one knows of it. The
// note is no decision: a process that is killed leaves it, and a host that
// loses its power may forget it. So it waits for no disk.
#include "coordinator/journal/journal_sql.h"

static enum sl_err write_soon(struct journal *j, struct sl_error *err,
                              const char *sql,
                              const struct journal_value *values, size_t count)
{
    enum sl_err rc = journal_exec(j, "PRAGMA synchronous = NORMAL", err);
    enum sl_err full;

    if (rc != SL_OK)
        return rc;
    rc = journal_write(j, err, sql, values, count);
    full = journal_exec(j, "PRAGMA synchronous = FULL", err);
    return rc == SL_OK ? full : rc;
}

enum sl_err journal_loading(struct journal *j, uint64_t job, uint64_t *times,
                            struct sl_error *err)
{
    enum sl_err rc =
        write_soon(j, err,
                   "INSERT INTO loads(job, times) VALUES(?1, 1)"
                   " ON CONFLICT(job) DO UPDATE SET times = times + 1",
                   JOURNAL_VALUES(U64(job)));

    return rc == SL_OK
               ? journal_number(j, times, err,
                                "SELECT times FROM loads WHERE job = ?1",
                                JOURNAL_VALUES(U64(job)))
               : rc;
}

enum sl_err journal_loaded(struct journal *j, uint64_t job,
                           struct sl_error *err)
{
    return write_soon(j, err, "DELETE FROM loads WHERE job = ?1",
                      JOURNAL_VALUES(U64(job)));
}
