// SPDX-License-Identifier: Apache-2.0
// coordinator/feed/feed_store.c -- two tables, and a transaction for all that
// waits.
#include "coordinator/feed/feed_store.h"

#include <math.h>

#include "common/base/mem.h"
#include "coordinator/journal/journal_sql.h"

struct feed_store {
    struct journal *db;
};

static const char feed_tables[] =
    "CREATE TABLE events("
    " id INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, job INTEGER NOT NULL,"
    " uid INTEGER NOT NULL, kind TEXT NOT NULL, closure INTEGER NOT NULL,"
    " term INTEGER NOT NULL, n INTEGER NOT NULL, member TEXT NOT NULL,"
    " text TEXT NOT NULL);"
    "CREATE TABLE minutes("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, uid INTEGER NOT NULL,"
    " at_us INTEGER NOT NULL, steps INTEGER NOT NULL, epoch INTEGER NOT NULL,"
    " loss REAL NOT NULL, accuracy REAL NOT NULL, samples INTEGER NOT NULL,"
    " rate REAL NOT NULL, staleness INTEGER NOT NULL,"
    " workers INTEGER NOT NULL);"
    "CREATE INDEX minutes_of ON minutes(uid, id);"
    "PRAGMA user_version = 1;";

static enum sl_err feed_store_make_tables(struct journal *j, int version,
                                          struct sl_error *err)
{
    return version < 1 ? journal_exec(j, feed_tables, err) : SL_OK;
}

const struct journal_kind feed_store_kind = {
    .name = "events",
    .ends = "what happened is kept in memory alone until that succeeds",
    .schema = 1,
    .make = feed_store_make_tables,
    .folder = "events/",
    .numbered = "minutes",
    .lean = true,
};

static enum sl_err feed_store_open_file(struct journal **out, const char *path,
                                        struct sl_error *err)
{
    struct journal *db = NULL;
    enum sl_err rc = journal_open_kind(&db, path, &feed_store_kind, err);

    if (rc == SL_OK)
        rc = journal_exec(db, "PRAGMA synchronous = NORMAL", err);
    if (rc == SL_OK)
        *out = db;
    else
        journal_close(db);
    return rc;
}

enum sl_err feed_store_open(struct feed_store **out, const char *path,
                            const struct feed_home *home, struct sl_error *err)
{
    struct journal *db = NULL;
    enum sl_err rc = home == NULL ? feed_store_open_file(&db, path, err)
                                  : home->open(home->arg, &db, err);

    return rc == SL_OK ? feed_store_of(out, db, err) : rc;
}

enum sl_err feed_store_of(struct feed_store **out, struct journal *db,
                          struct sl_error *err)
{
    struct feed_store *s = sl_calloc(1, sizeof(*s));

    if (s == NULL) {
        journal_close(db);
        return sl_fail(err, SL_ENOMEM, "no memory for events");
    }
    s->db = db;
    *out = s;
    return SL_OK;
}

void feed_store_close(struct feed_store *s)
{
    if (s == NULL)
        return;
    journal_close(s->db);
    sl_free(s);
}

// ---- load

static void load_event(const struct feed_load *load, sqlite3_stmt *row)
{
    struct event said = {
        .id = journal_u64(row, 0),
        .wall_us = journal_u64(row, 1),
        .job = journal_u64(row, 2),
        .uid = journal_u64(row, 3),
        .closure = journal_u64(row, 5),
        .term = journal_u64(row, 6),
        .n = journal_u64(row, 7),
        .member = journal_text(row, 8),
    };

    // A file of a newer version may have more kinds.
    if (event_find(journal_text(row, 4), &said.kind))
        load->event(load->arg, &said, journal_text(row, 9));
}

// Returns the value as stored: SQLite keeps no NAN, and these columns no NULL.
static double stored(double value)
{
    return isfinite(value) ? value : (double)INFINITY;
}

static double feed_store_read_real(sqlite3_stmt *row, int column)
{
    double value = sqlite3_column_double(row, column);

    return isfinite(value) ? value : (double)NAN;
}

static void load_minute(const struct feed_load *load, sqlite3_stmt *row)
{
    struct curve_point point = {
        .wall_us = journal_u64(row, 1),
        .steps = journal_u64(row, 2),
        .epoch = (uint32_t)journal_u64(row, 3),
        .loss = feed_store_read_real(row, 4),
        .accuracy = feed_store_read_real(row, 5),
        .samples = journal_u64(row, 6),
        .rate = sqlite3_column_double(row, 7),
        .staleness_p50 = (uint32_t)journal_u64(row, 8),
        .workers = (uint32_t)journal_u64(row, 9),
    };

    if (point.samples == 0) // 0 in files of older versions
        point.loss = point.accuracy = (double)NAN;
    load->minute(load->arg, journal_u64(row, 0), &point);
}

static enum sl_err feed_store_each_row(
    struct feed_store *s, const struct feed_load *load, const char *sql,
    void (*one)(const struct feed_load *load, sqlite3_stmt *row),
    struct sl_error *err)
{
    sqlite3_stmt *rows = journal_walk(s->db, err, sql, NULL, 0);
    enum sl_err rc;

    while ((rc = journal_step(s->db, rows, err)) == SL_OK)
        one(load, rows);
    return journal_walked(rows, rc);
}

enum sl_err feed_store_load(struct feed_store *s, const struct feed_load *load,
                            struct sl_error *err)
{
    enum sl_err rc = feed_store_each_row(
        s, load,
        "SELECT id, at_us, job, uid, kind, closure, term, n,"
        " member, text FROM events ORDER BY id",
        load_event, err);

    if (rc == SL_OK)
        rc = feed_store_each_row(
            s, load,
            "SELECT uid, at_us, steps, epoch, loss, accuracy, samples,"
            " rate, staleness, workers FROM minutes ORDER BY id",
            load_minute, err);
    return rc;
}

// ---- write

// Runs a statement without the journal's points of failure, which tests count.
static enum sl_err feed_store_run_sql(struct feed_store *s,
                                      struct sl_error *err, const char *sql,
                                      const struct journal_value *values,
                                      size_t count)
{
    sqlite3_stmt *stmt = journal_sql(s->db, err, sql, values, count);
    enum sl_err rc = journal_step(s->db, stmt, err);

    return rc == SL_ENOENT ? SL_OK : rc;
}

static enum sl_err write_event(struct feed_store *s, const struct event *e,
                               struct sl_error *err)
{
    return feed_store_run_sql(
        s, err,
        "INSERT OR REPLACE INTO events(id, at_us, job, uid, kind,"
        " closure, term, n, member, text)"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        JOURNAL_VALUES(U64(e->id), U64(e->wall_us), U64(e->job), U64(e->uid),
                       TEXT(event_word(e->kind)), U64(e->closure), U64(e->term),
                       U64(e->n), TEXT(e->member), TEXT(e->text)));
}

static enum sl_err write_minute(struct feed_store *s, uint64_t uid,
                                const struct curve_point *p,
                                struct sl_error *err)
{
    enum sl_err rc = feed_store_run_sql(
        s, err,
        "INSERT INTO minutes(uid, at_us, steps, epoch, loss, accuracy,"
        " samples, rate, staleness, workers)"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        JOURNAL_VALUES(U64(uid), U64(p->wall_us), U64(p->steps), U64(p->epoch),
                       REAL(stored(p->loss)), REAL(stored(p->accuracy)),
                       U64(p->samples), REAL(p->rate), U64(p->staleness_p50),
                       U64(p->workers)));

    if (rc == SL_OK)
        rc = feed_store_run_sql(
            s, err,
            "DELETE FROM minutes WHERE id <="
            " (SELECT id FROM minutes WHERE uid = ?1"
            "  ORDER BY id DESC LIMIT 1 OFFSET ?2) AND uid = ?1",
            JOURNAL_VALUES(U64(uid), U64(TRACES_MINUTES)));
    return rc;
}

static enum sl_err write_row(struct feed_store *s, const struct feed_row *row,
                             struct sl_error *err)
{
    switch (row->what) {
    case FEED_ROW_EVENT:
        return write_event(s, &row->event, err);
    case FEED_ROW_DROP:
        return feed_store_run_sql(s, err, "DELETE FROM events WHERE id = ?1",
                                  JOURNAL_VALUES(U64(row->id)));
    case FEED_ROW_MINUTE:
        return write_minute(s, row->uid, &row->point, err);
    default:
        return feed_store_run_sql(s, err, "DELETE FROM minutes WHERE uid = ?1",
                                  JOURNAL_VALUES(U64(row->uid)));
    }
}

// Deletes the oldest points beyond FEED_MINUTES_ALL; ids of rows rise.
static enum sl_err prune(struct feed_store *s, struct sl_error *err)
{
    return feed_store_run_sql(s, err,
                              "DELETE FROM minutes WHERE id <="
                              " (SELECT max(id) FROM minutes) - ?1",
                              JOURNAL_VALUES(U64(FEED_MINUTES_ALL)));
}

enum sl_err feed_store_write(struct feed_store *s, const struct list *rows,
                             struct sl_error *err)
{
    bool kept = s->db->keeper != NULL; // a file has no points of failure here
    enum sl_err rc = kept ? journal_begin(s->db, err)
                          : journal_exec(s->db, "BEGIN IMMEDIATE", err);

    if (rc != SL_OK)
        return rc;
    list_for(n, rows)
    {
        if (rc == SL_OK)
            rc = write_row(s, list_entry(n, struct feed_row, node), err);
    }
    if (rc == SL_OK)
        rc = prune(s, err);
    if (kept)
        return journal_end(s->db, rc, err);
    return rc == SL_OK ? journal_exec(s->db, "COMMIT", err) : rc;
}
