// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_pause.c -- pauses that clients asked for.
#include "coordinator/journal/journal_sql.h"

#include <stdio.h>

enum sl_err journal_pause_set(struct journal *j, uint64_t id,
                              const struct journal_pause *pause,
                              struct sl_error *err)
{
    return journal_write(
        j, err,
        "INSERT OR REPLACE INTO pauses(job, state, who, why, note, since_us,"
        " total_ms) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        JOURNAL_VALUES(U64(id), U64((uint64_t)pause->state), TEXT(pause->who),
                       TEXT(pause->why), TEXT(pause->note),
                       U64(pause->since_us), U64(pause->total_ms)));
}

static void journal_pause_read_text(char out[JOURNAL_PAUSE_TEXT],
                                    sqlite3_stmt *s, int column)
{
    snprintf(out, JOURNAL_PAUSE_TEXT, "%s", journal_text(s, column));
}

enum sl_err journal_pause_read(struct journal *j, uint64_t id,
                               struct journal_pause *out, struct sl_error *err)
{
    sqlite3_stmt *s = journal_sql(
        j, err,
        "SELECT state, who, why, note, since_us, total_ms FROM pauses"
        " WHERE job = ?1",
        JOURNAL_VALUES(U64(id)));
    enum sl_err rc = journal_step(j, s, err);

    if (rc == SL_OK || rc == SL_ENOENT)
        *out = (struct journal_pause){JOURNAL_PAUSE_NONE};
    if (rc == SL_OK) {
        // A state that a newer program defined is a pause, too.
        out->state = journal_u64(s, 0) <= JOURNAL_PAUSE_HOLDS
                         ? (enum journal_pause_state)journal_u64(s, 0)
                         : JOURNAL_PAUSE_HOLDS;
        journal_pause_read_text(out->who, s, 1);
        journal_pause_read_text(out->why, s, 2);
        journal_pause_read_text(out->note, s, 3);
        out->since_us = journal_u64(s, 4);
        out->total_ms = journal_u64(s, 5);
    }
    sqlite3_reset(s);
    return rc == SL_ENOENT ? SL_OK : rc;
}
