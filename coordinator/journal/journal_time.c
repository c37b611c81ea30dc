// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_time.c -- when jobs were seen last.
#include "coordinator/journal/journal_sql.h"

enum sl_err journal_clock_read(struct journal *j, uint64_t id,
                               uint64_t *elapsed_ms, uint64_t *seen_us,
                               struct sl_error *err)
{
    sqlite3_stmt *s = journal_sql(
        j, err, "SELECT elapsed_ms, seen_us FROM clocks WHERE job = ?1",
        JOURNAL_VALUES(U64(id)));
    enum sl_err rc = journal_step(j, s, err);

    if (rc == SL_OK || rc == SL_ENOENT)
        *elapsed_ms = *seen_us = 0;
    if (rc == SL_OK) {
        *elapsed_ms = journal_u64(s, 0);
        *seen_us = journal_u64(s, 1);
    }
    sqlite3_reset(s);
    return rc == SL_ENOENT ? SL_OK : rc;
}
