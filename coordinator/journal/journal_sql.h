// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_sql.h -- how the journal uses SQLite:
// connection, prepared statements, transactions. For journal_*.c only.
#ifndef COORDINATOR_JOURNAL_JOURNAL_SQL_H
#define COORDINATOR_JOURNAL_JOURNAL_SQL_H

#include <sqlite3.h>

#include "coordinator/journal/journal.h"

#define JOURNAL_STATEMENTS 48 // more texts than the journal has

struct journal {
    sqlite3 *db;
    bool failed; // a write failed: nothing is believed any more
    struct {
        const char *sql; // a literal: compared by address
        sqlite3_stmt *stmt;
    } cache[JOURNAL_STATEMENTS];
    unsigned cached;
};

// A prepared statement, reset and unbound. NULL on failure. `sql` must be a
// literal.
sqlite3_stmt *journal_sql(struct journal *j, const char *sql,
                          struct sl_error *err);

// Runs a statement that returns no row. On failure the journal is failed.
enum sl_err journal_run(struct journal *j, sqlite3_stmt *stmt,
                        struct sl_error *err);

// What SQLite says, as an error; marks the journal as failed.
enum sl_err journal_bad(struct journal *j, const char *what,
                        struct sl_error *err);

// begin; end commits if rc is SL_OK and rolls back otherwise.
enum sl_err journal_begin(struct journal *j, struct sl_error *err);
enum sl_err journal_end(struct journal *j, enum sl_err rc,
                        struct sl_error *err);

// SL_OK: a row; SL_ENOENT: no more; else an error.
enum sl_err journal_step(struct journal *j, sqlite3_stmt *stmt,
                         struct sl_error *err);

// Binding cannot fail but for memory, which the step then reports.
void journal_bind_u64(sqlite3_stmt *s, int at, uint64_t v);
void journal_bind_text(sqlite3_stmt *s, int at, const char *text);
void journal_bind_blob(sqlite3_stmt *s, int at, struct journal_blob b);

uint64_t journal_u64(sqlite3_stmt *s, int column);
const char *journal_text(sqlite3_stmt *s, int column); // "" for NULL
struct journal_blob journal_blob_at(sqlite3_stmt *s, int column);

#endif
