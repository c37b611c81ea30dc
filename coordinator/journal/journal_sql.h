// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_sql.h -- how the journal uses SQLite:
// connection, prepared statements, transactions. For journal_*.c, and for other
// files of that kind (coordinator/tasks/task_store.c).
//
// Threads  one at a time for each file. Steps and commits wait for the disk.
// Memory   values are borrowed until their statement has been stepped to its
//          end, or is used again. Statements of journal_sql are the journal's;
//          of one text only one may be in use at a time. No pointer is NULL but
//          where it is said, and `values` with count 0.
// Errors   those of journal.h. Each failure of SQLite marks the journal as
//          failed, and no statement is made after one. Outputs are set on SL_OK
//          alone; `err` may be NULL.
#ifndef COORDINATOR_JOURNAL_JOURNAL_SQL_H
#define COORDINATOR_JOURNAL_JOURNAL_SQL_H

#include <sqlite3.h>

#include "common/base/histogram.h"
#include "coordinator/journal/journal.h"

#define JOURNAL_STATEMENTS 96 // more texts than the journal has

// A row that is written with the next commit, in the order of the queue.
// Several counters of a job are one row: the last.
struct journal_queued {
    enum {
        QUEUED_BLAME,
        QUEUED_ABSOLVE,
        QUEUED_COUNTERS,
        QUEUED_DELETED,
    } what;
    uint64_t job, uid, closure, worker;
    struct journal_counters counters;   // QUEUED_COUNTERS
    char psserver[WIRE_NAME_BYTES + 1]; // QUEUED_DELETED
};

// The kind of a file: its schema, and its name in errors.
struct journal_kind {
    const char *name; // name of the file in errors
    const char *ends; // consequence of a failure: "the coordinator ..."
    int schema;       // the newest known schema
    // Upgrades the tables from `version` to `schema`, in a transaction.
    enum sl_err (*make)(struct journal *j, int version, struct sl_error *err);
    // What follows is for rows in etcd (journal_etcd.h).
    const char *folder;   // of their keys: "", or a name with "/" at the end
    const char *numbered; // table whose numbers (AUTOINCREMENT) are given once
    bool lean; // records leave out values of before, which may be large
};

// The other place that a journal in memory is kept in (journal_etcd.c).
struct journal_keeper {
    // Makes the changes of the open transaction durable, before its commit. A
    // failure fails the journal.
    enum sl_err (*keep)(struct journal *j, struct sl_error *err);
    void (*over)(struct journal *j, bool committed); // a transaction has ended
    void (*free)(struct journal *j);                 // frees j->log
};

struct journal_log;

struct journal {
    sqlite3 *db;
    const struct journal_kind *kind;
    bool failed;              // a write failed: no call succeeds any more
    bool full;                // it failed for want of space
    enum sl_err not_made;     // why journal_sql or journal_walk was NULL last
    bool swept;               // no row of a deleted job is left (journal_sweep)
    struct histogram commits; // microseconds until a write was on the disk
    struct {
        const char *sql; // a literal: compared by address
        sqlite3_stmt *stmt;
    } cache[JOURNAL_STATEMENTS];
    unsigned cached;
    struct journal_queued *queued; // owned
    size_t queued_count, queued_space;
    const struct journal_keeper *keeper; // NULL: the file is all there is
    struct journal_log *log;             // the keeper's
    // Set by journal_queue.c: writes queued rows into the transaction that has
    // begun.
    enum sl_err (*write_queued)(struct journal *j, struct sl_error *err);
};

// A value for a statement, in the order of its parameters. Binding cannot fail
// but for memory, which the step then reports.
struct journal_value {
    enum { JOURNAL_U64, JOURNAL_REAL, JOURNAL_TEXT, JOURNAL_BLOB } kind;
    uint64_t u64;
    double real;
    const char *text; // NULL: SQL's NULL
    struct journal_blob blob;
};

#define U64(v) ((struct journal_value){.kind = JOURNAL_U64, .u64 = (v)})
#define REAL(v) ((struct journal_value){.kind = JOURNAL_REAL, .real = (v)})
#define TEXT(t) ((struct journal_value){.kind = JOURNAL_TEXT, .text = (t)})
#define BLOB(b) ((struct journal_value){.kind = JOURNAL_BLOB, .blob = (b)})

// Returns `text`, or NULL (SQL's NULL) if it is NULL or "".
static inline const char *journal_or_null(const char *text)
{
    return text == NULL || text[0] == '\0' ? NULL : text;
}

// Two arguments: an array of values, and its length.
#define JOURNAL_VALUES(...)                                                    \
    (const struct journal_value[]){__VA_ARGS__},                               \
        SL_COUNT(((const struct journal_value[]){__VA_ARGS__}))

// Opens the file of another kind at `path`, as journal_open does: makes it if
// it is missing, gives it mode 0600 (":memory:" is allowed), and has kind->make
// bring its tables up to date. Waits for the disk, and up to 10 s for the lock
// of another process. `path` is borrowed for the call, `kind` until
// journal_close. SL_ENOTSUP: the schema is newer; SL_ECORRUPT: it is no
// database; SL_EUNAVAIL: no space left; SL_EIO; SL_ENOMEM. A file that was made
// stays after a failure.
enum sl_err journal_open_kind(struct journal **out, const char *path,
                              const struct journal_kind *kind,
                              struct sl_error *err);

// Makes a journal in memory without tables, for a keeper, and for
// journal_close. SL_ENOMEM, SL_EIO.
enum sl_err journal_open_blank(struct journal **out,
                               const struct journal_kind *kind,
                               struct sl_error *err);

// Closes the connection of a journal with its statements, which no caller may
// use any more, and gives it another one (NULL: none), which is then the
// journal's to close. Cannot fail.
void journal_swap(struct journal *j, sqlite3 *db);

// Makes or upgrades the tables (kind->make), in one transaction, as
// journal_open does, and sets how SQLite writes the file; `name` is for errors.
// SL_ENOTSUP: the schema is newer than kind->schema; nothing was changed.
enum sl_err journal_set_up_schema(struct journal *j, const char *name,
                                  struct sl_error *err);

// Sets *out to the number that a PRAGMA or query of one row gives, also of a
// journal that has failed. No row, as any failure, marks the journal as failed.
enum sl_err journal_pragma(struct journal *j, const char *sql, int *out,
                           struct sl_error *err);

// Runs SQL without values, of one statement or more, and drops its rows; in the
// open transaction, if there is one. A failure marks the journal as failed.
enum sl_err journal_exec(struct journal *j, const char *sql,
                         struct sl_error *err);

// Returns a prepared statement with its values bound, for journal_step; NULL on
// failure, which the next journal_step(j, NULL, ...) returns. `sql` must be a
// literal. The statement is the journal's: it is not freed, and one of the same
// text that was in use is reset. A caller that does not step it to its end
// resets it.
sqlite3_stmt *journal_sql(struct journal *j, struct sl_error *err,
                          const char *sql, const struct journal_value *values,
                          size_t count);

// Marks the journal as failed, and as full if space was lacking; sets *err to
// SQLite's last failure, with `what` failed. Returns SL_EUNAVAIL if it is full,
// SL_ECORRUPT or SL_EIO.
enum sl_err journal_bad(struct journal *j, const char *what,
                        struct sl_error *err);

// Begins a transaction, where none is open, and writes queued rows into it. On
// failure none is begun and journal_end must not be called.
enum sl_err journal_begin(struct journal *j, struct sl_error *err);

// Ends the transaction that journal_begin began and returns rc: commits if it
// is SL_OK, and then no row is queued any more; else rolls back, and the rows
// stay queued. Returns the error of a commit that fails, which rolls back as
// well and fails the journal.
enum sl_err journal_end(struct journal *j, enum sl_err rc,
                        struct sl_error *err);

// Steps a statement. Returns SL_OK: there is a row; SL_ENOENT, without a text
// in *err: no more rows, and the statement is reset; else an error. A caller
// that stops at a row resets the statement itself. `stmt` NULL, from
// journal_sql or journal_walk: returns the error of that, and leaves *err.
enum sl_err journal_step(struct journal *j, sqlite3_stmt *stmt,
                         struct sl_error *err);

// Runs a query (a literal) and sets *out to the first column of its first row;
// 0: there is no row.
enum sl_err journal_number(struct journal *j, uint64_t *out,
                           struct sl_error *err, const char *sql,
                           const struct journal_value *values, size_t count);

// Sets *out to the number `key` of the table meta; 0: it was never written.
enum sl_err journal_meta(struct journal *j, const char *key, uint64_t *out,
                         struct sl_error *err);

// Writes the number `key` of the table meta, in place of an earlier one, as
// journal_write does.
enum sl_err journal_meta_set(struct journal *j, const char *key, uint64_t value,
                             struct sl_error *err);

// Runs a statement (a literal) that returns no row: within the transaction that
// has begun or, without one, in one of its own, which commits before the call
// returns, queued rows with it.
enum sl_err journal_write(struct journal *j, struct sl_error *err,
                          const char *sql, const struct journal_value *values,
                          size_t count);

// Returns a statement with its values bound, to be read row by row with
// journal_step while a callback may use the journal; journal_walked frees it.
// `sql` need not be a literal. NULL on failure, which the next journal_step
// returns.
sqlite3_stmt *journal_walk(struct journal *j, struct sl_error *err,
                           const char *sql, const struct journal_value *values,
                           size_t count);

// Frees the statement of a walk (NULL is allowed). `rc` is the result of the
// last journal_step, or of the callback that ended the walk: returns SL_OK if
// it is the SL_ENOENT of a step, the end of the rows; else `rc`, also an
// SL_ENOENT of the callback.
enum sl_err journal_walked(sqlite3_stmt *s, enum sl_err rc);

// Deletes rows of dropped and aborted cuts, but not the job's newest row, and
// counts the dropped ones for journal_cuts_past (journal_tidy.c). Within a
// transaction.
enum sl_err journal_cuts_clear(struct journal *j, uint64_t job,
                               struct sl_error *err);

// Deletes the rows of a deleted job's ring (journal_ring.c). To be called
// within a transaction.
enum sl_err journal_ring_forget(struct journal *j, uint64_t job,
                                struct sl_error *err);

// Returns a column of the present row as a number, all 64 bits as they were
// written; 0 for NULL.
uint64_t journal_u64(sqlite3_stmt *s, int column);

// Returns a column as text, never NULL: "" for SQL's NULL; valid until the next
// step.
const char *journal_text(sqlite3_stmt *s, int column);

// Returns the bytes of a column, none for NULL or an empty one, of which `data`
// may be NULL; valid until the next step.
struct journal_blob journal_blob_at(sqlite3_stmt *s, int column);

#endif
