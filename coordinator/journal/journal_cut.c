// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_cut.c -- rows of cuts, evaluations and blames.
#include "coordinator/journal/journal_sql.h"

#include <math.h>

static enum sl_err journal_insert_intent(struct journal *j, uint64_t job,
                                         const struct journal_cut *cut,
                                         struct sl_error *err)
{
    return journal_write(
        j, err,
        "INSERT INTO cuts(job, cut, state, path, epochs, low, checkpoint,"
        " counts) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        JOURNAL_VALUES(U64(job), U64(cut->cut), U64(JOURNAL_CUT_INTENT),
                       TEXT(journal_or_null(cut->path)), U64(cut->epochs),
                       U64(cut->low), BLOB(cut->checkpoint),
                       BLOB(cut->counts)));
}

enum sl_err journal_cut_intent(struct journal *j, uint64_t job,
                               const struct journal_cut *cut,
                               struct sl_error *err)
{
    enum sl_err rc = journal_begin(j, err);

    if (rc != SL_OK)
        return rc;
    rc = journal_insert_intent(j, job, cut, err);
    // Else the rows of dropped and aborted cuts, with two blobs each, stay for
    // ever.
    if (rc == SL_OK)
        rc = journal_cuts_clear(j, job, err);
    return journal_end(j, rc, err);
}

static enum sl_err set_state(struct journal *j, uint64_t job, uint64_t cut,
                             enum journal_cut_state from,
                             enum journal_cut_state to, struct sl_error *err)
{
    enum sl_err rc =
        journal_write(j, err,
                      "UPDATE cuts SET state = ?3"
                      " WHERE job = ?1 AND cut = ?2 AND state = ?4",
                      JOURNAL_VALUES(U64(job), U64(cut), U64(to), U64(from)));

    if (rc == SL_OK && sqlite3_changes(j->db) != 1)
        return sl_fail(err, SL_ENOENT,
                       "journal: cut %llu of job %llu is not in that state",
                       (unsigned long long)cut, (unsigned long long)job);
    return rc;
}

static enum sl_err set_tag(struct journal *j, uint64_t job, uint32_t shard,
                           struct wire_tag tag, struct sl_error *err)
{
    return journal_write(
        j, err,
        "UPDATE shards SET cut_incarnation = ?3, cut_sequence = ?4"
        " WHERE job = ?1 AND shard = ?2",
        JOURNAL_VALUES(U64(job), U64(shard), U64(tag.incarnation),
                       U64(tag.sequence)));
}

enum sl_err journal_cut_publish(struct journal *j, uint64_t job, uint64_t cut,
                                const struct wire_tag *tags, uint32_t shards,
                                struct sl_error *err)
{
    enum sl_err rc = journal_begin(j, err);

    if (rc != SL_OK)
        return rc;
    rc = set_state(j, job, cut, JOURNAL_CUT_INTENT, JOURNAL_CUT_PUBLISHED, err);
    for (uint32_t i = 0; rc == SL_OK && i < shards; i++)
        rc = set_tag(j, job, i, tags[i], err);
    return journal_end(j, rc, err);
}

enum sl_err journal_cut_abort(struct journal *j, uint64_t job, uint64_t cut,
                              struct sl_error *err)
{
    return set_state(j, job, cut, JOURNAL_CUT_INTENT, JOURNAL_CUT_ABORTED, err);
}

enum sl_err journal_cut_drop(struct journal *j, uint64_t job, uint64_t cut,
                             struct sl_error *err)
{
    return set_state(j, job, cut, JOURNAL_CUT_PUBLISHED, JOURNAL_CUT_DROPPED,
                     err);
}

static enum sl_err journal_insert_metrics(struct journal *j, uint64_t job,
                                          const struct journal_evaluation *row,
                                          struct sl_error *err)
{
    // A replaced evaluation may have had other metrics.
    enum sl_err rc = journal_write(
        j, err,
        "DELETE FROM metrics WHERE job = ?1 AND epoch = ?2 AND steps = ?3",
        JOURNAL_VALUES(U64(job), U64(row->epoch), U64(row->steps)));

    for (unsigned m = 0; rc == SL_OK && m < SPEC_METRIC_COUNT; m++) {
        if ((row->metrics >> m & 1) == 0)
            continue;
        rc = journal_write(
            j, err,
            "INSERT INTO metrics(job, epoch, steps, name, value)"
            " VALUES(?1, ?2, ?3, ?4, ?5)",
            JOURNAL_VALUES(U64(job), U64(row->epoch), U64(row->steps),
                           TEXT(spec_metric_name((enum spec_metric)m)),
                           REAL(row->metric[m])));
    }
    return rc;
}

// Returns a mean for columns without NULL: 0 where train_samples is 0.
static double or_zero(double value)
{
    return isfinite(value) ? value : 0;
}

static enum sl_err
journal_insert_evaluation(struct journal *j, uint64_t job,
                          const struct journal_evaluation *row,
                          struct sl_error *err)
{
    enum sl_err rc = journal_write(
        j, err,
        "INSERT OR REPLACE INTO evaluations(job, epoch, cut, samples, loss, "
        "accuracy,"
        " steps, train_samples, train_loss, train_accuracy)"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        JOURNAL_VALUES(U64(job), U64(row->epoch), U64(row->cut),
                       U64(row->samples), REAL(row->loss), REAL(row->accuracy),
                       U64(row->steps), U64(row->train_samples),
                       REAL(or_zero(row->train_loss)),
                       REAL(or_zero(row->train_accuracy))));

    return rc == SL_OK ? journal_insert_metrics(j, job, row, err) : rc;
}

enum sl_err journal_evaluations_add(struct journal *j, uint64_t job,
                                    const struct journal_evaluation *rows,
                                    size_t count, struct journal_blob callbacks,
                                    struct sl_error *err)
{
    enum sl_err rc = journal_begin(j, err);

    if (rc != SL_OK)
        return rc;
    for (size_t i = 0; rc == SL_OK && i < count; i++)
        rc = journal_insert_evaluation(j, job, &rows[i], err);
    if (rc == SL_OK && callbacks.bytes > 0)
        rc = journal_write(
            j, err,
            "INSERT OR REPLACE INTO callbacks(job, state) VALUES(?1, ?2)",
            JOURNAL_VALUES(U64(job), BLOB(callbacks)));
    return journal_end(j, rc, err);
}

enum sl_err journal_callbacks_read(struct journal *j, uint64_t job,
                                   struct buf *out, struct sl_error *err)
{
    sqlite3_stmt *s =
        journal_sql(j, err, "SELECT state FROM callbacks WHERE job = ?1",
                    JOURNAL_VALUES(U64(job)));
    struct journal_blob blob;
    enum sl_err rc = journal_step(j, s, err);

    if (rc == SL_OK) {
        blob = journal_blob_at(s, 0);
        if (buf_append(out, blob.data, blob.bytes) != SL_OK)
            rc = sl_fail(err, SL_ENOMEM, "callbacks");
    }
    sqlite3_reset(s);
    return rc == SL_ENOENT ? SL_OK : rc;
}

// ---- reading

static enum sl_err walk_cuts(struct journal *j, const char *sql, uint64_t job,
                             journal_cut_fn fn, void *arg, struct sl_error *err)
{
    sqlite3_stmt *s = journal_walk(j, err, sql, JOURNAL_VALUES(U64(job)));
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && (rc = journal_step(j, s, err)) == SL_OK) {
        struct journal_cut row = {
            .cut = journal_u64(s, 0),
            .state = (enum journal_cut_state)journal_u64(s, 1),
            .path = journal_text(s, 2),
            .epochs = (uint32_t)journal_u64(s, 3),
            .low = journal_u64(s, 4),
            .checkpoint = journal_blob_at(s, 5),
            .counts = journal_blob_at(s, 6),
        };

        rc = fn(arg, &row, err);
    }
    return journal_walked(s, rc);
}

enum sl_err journal_each_cut(struct journal *j, uint64_t job, journal_cut_fn fn,
                             void *arg, struct sl_error *err)
{
    return walk_cuts(j,
                     "SELECT cut, state, path, epochs, low, checkpoint,"
                     " counts FROM cuts WHERE job = ?1 ORDER BY cut",
                     job, fn, arg, err);
}

enum sl_err journal_each_cut_path(struct journal *j, uint64_t job,
                                  journal_cut_fn fn, void *arg,
                                  struct sl_error *err)
{
    return walk_cuts(j,
                     "SELECT cut, state, path, epochs, low, NULL, NULL"
                     " FROM cuts WHERE job = ?1 ORDER BY cut",
                     job, fn, arg, err);
}

// Reads a real; SQLite keeps NAN as NULL.
static double real_at(sqlite3_stmt *s, int column)
{
    return sqlite3_column_type(s, column) == SQLITE_NULL
               ? (double)NAN
               : sqlite3_column_double(s, column);
}

// Reads the metrics of an evaluation; a name of a later version is left out.
static enum sl_err read_metrics(struct journal *j, uint64_t job,
                                struct journal_evaluation *row,
                                struct sl_error *err)
{
    sqlite3_stmt *s =
        journal_sql(j, err,
                    "SELECT name, value FROM metrics"
                    " WHERE job = ?1 AND epoch = ?2 AND steps = ?3",
                    JOURNAL_VALUES(U64(job), U64(row->epoch), U64(row->steps)));
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && (rc = journal_step(j, s, err)) == SL_OK) {
        enum spec_metric m = spec_metric_named(journal_text(s, 0));

        if (m == SPEC_METRIC_COUNT)
            continue;
        row->metrics |= UINT32_C(1) << m;
        row->metric[m] = real_at(s, 1);
    }
    return rc == SL_ENOENT ? SL_OK : rc;
}

enum sl_err journal_each_evaluation(struct journal *j, uint64_t job,
                                    journal_evaluation_fn fn, void *arg,
                                    struct sl_error *err)
{
    sqlite3_stmt *s =
        journal_walk(j, err,
                     "SELECT epoch, cut, samples, loss, accuracy, steps,"
                     " train_samples, train_loss, train_accuracy"
                     " FROM evaluations WHERE job = ?1 ORDER BY epoch, steps",
                     JOURNAL_VALUES(U64(job)));
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && (rc = journal_step(j, s, err)) == SL_OK) {
        struct journal_evaluation row = {
            .epoch = (uint32_t)journal_u64(s, 0),
            .cut = journal_u64(s, 1),
            .samples = journal_u64(s, 2),
            .loss = real_at(s, 3),
            .accuracy = real_at(s, 4),
            .steps = journal_u64(s, 5),
            .train_samples = journal_u64(s, 6),
            .train_loss = sqlite3_column_double(s, 7),
            .train_accuracy = sqlite3_column_double(s, 8),
        };

        if (row.samples == 0) // 0 in journals of older versions
            row.loss = row.accuracy = (double)NAN;
        if (row.train_samples == 0)
            row.train_loss = row.train_accuracy = (double)NAN;
        rc = read_metrics(j, job, &row, err);
        if (rc == SL_OK)
            rc = fn(arg, &row, err);
    }
    return journal_walked(s, rc);
}

enum sl_err journal_each_blame(struct journal *j, uint64_t job,
                               journal_blame_fn fn, void *arg,
                               struct sl_error *err)
{
    sqlite3_stmt *s =
        journal_walk(j, err,
                     "SELECT closure, worker FROM blames WHERE job = ?1"
                     " ORDER BY closure, worker",
                     JOURNAL_VALUES(U64(job)));
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && (rc = journal_step(j, s, err)) == SL_OK)
        rc = fn(arg, journal_u64(s, 0), journal_u64(s, 1), err);
    return journal_walked(s, rc);
}
