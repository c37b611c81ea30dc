// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_etcd.c -- the journal kept in etcd: reading it,
// and each transaction's changes on their way there.
//
// Changes are SQLite's own changesets (its session extension), made before the
// commit and applied row by row by a standby, which a difference of a single
// column stops. Three things are in no changeset:
//
//   the last number given        each record carries it (sqlite_sequence): of
//                                a job; of the kind's table, journal_kind
//   the layout of the tables     changes only in journal_lead, which then puts
//                                an image in force; each record names its
//                                layout
//   schema version               in the image
#define SQLITE_ENABLE_SESSION
#define SQLITE_ENABLE_PREUPDATE_HOOK
#include <sqlite3.h>

#include "coordinator/journal/journal_etcd.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/run/log.h"
#include "coordinator/journal/journal_image.h"
#include "coordinator/journal/journal_sql.h"

#define IMAGE_LEAST ((uint64_t)4 << 20) // of records: fewer need no image
#define IMAGE_AGAIN ((uint64_t)1 << 20) // more records after a failed image
#define RECORDS_READ 16                 // per call, where they may be large
#define RECORDS_READ_MOST 256           // where those before were small
#define RECORDS_SMALL 4096              // bytes of one, on average
#define READ_TRIES 5                    // while etcd forgets what is being read

// Bytes of SQLite's file format that say how a file is written.
enum { FORMAT_WRITE = 18, FORMAT_READ = 19, FORMAT_ROLLBACK = 1 };

struct journal_log {
    struct log_place place;
    struct journal_leader leader; // term 0: it follows
    sqlite3_session *session;     // notes the changes since the last commit
    uint64_t sequence;            // of the last record that the rows hold
    uint64_t layout, last_number; // of the rows
    uint64_t bytes;               // of records since the image
    uint64_t image_at;            // how many bytes of them ask for an image
    struct {
        int64_t version;   // of the key "base"; 0: no such key
        uint64_t sequence; // of the last record that it holds
    } base;
    struct journal_image *image; // that is being written; NULL: none
};

static enum sl_err etcd_journal_fail(struct journal *j, enum sl_err rc)
{
    j->failed = true;
    return rc;
}

// ---- numbers of the rows

static enum sl_err log_read_layout(struct journal *j, uint64_t *out,
                                   struct sl_error *err)
{
    int number = 0;
    enum sl_err rc = journal_pragma(j, "PRAGMA schema_version", &number, err);

    if (rc == SL_OK)
        *out = (uint64_t)(uint32_t)number;
    return rc;
}

static uint64_t last_number_of(struct journal *j)
{
    sqlite3_stmt *s = NULL;
    uint64_t number = 0;

    if (sqlite3_prepare_v2(j->db,
                           "SELECT seq FROM sqlite_sequence WHERE name = ?1",
                           -1, &s, NULL) == SQLITE_OK &&
        sqlite3_bind_text(s, 1, j->kind->numbered, -1, SQLITE_STATIC) ==
            SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        number = journal_u64(s, 0);
    sqlite3_finalize(s);
    return number;
}

static int set_last_number(struct journal *j, uint64_t number)
{
    char sql[256];

    if (number == last_number_of(j))
        return SQLITE_OK;
    snprintf(sql, sizeof(sql),
             "DELETE FROM sqlite_sequence WHERE name = '%s';"
             "INSERT INTO sqlite_sequence(name, seq) VALUES('%s', %lld)",
             j->kind->numbered, j->kind->numbered, (long long)number);
    return sqlite3_exec(j->db, sql, NULL, NULL, NULL);
}

// ---- reading

static int refuse_conflict(void *arg, int kind, sqlite3_changeset_iter *at)
{
    (void)arg;
    (void)kind;
    (void)at;
    return SQLITE_CHANGESET_ABORT;
}

// Applies changes to the rows, in one transaction.
static enum sl_err apply_changes(struct journal *j, const struct log_read *r,
                                 struct sl_error *err)
{
    sqlite3 *db = j->db;
    int rc = sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3changeset_apply(db, (int)r->record->bytes, r->bytes, NULL,
                                    refuse_conflict, NULL);
    if (rc == SQLITE_OK)
        rc = set_last_number(j, r->record->last_number);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        return SL_OK;
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return etcd_journal_fail(
        j,
        sl_fail(err, rc == SQLITE_NOMEM ? SL_ENOMEM : SL_ECORRUPT,
                "the %s in %s: record %llu does not fit the rows before it: %s",
                j->kind->name, etcd_url(j->log->place.etcd),
                (unsigned long long)r->record->sequence, sqlite3_errstr(rc)));
}

static enum sl_err apply_record(struct journal *j, const struct etcd_row *row,
                                int64_t revision, struct sl_error *err)
{
    struct journal_log *log = j->log;
    struct log_read r;
    enum sl_err rc = log_read(&r, &log->place, row, err);

    if (rc == SL_OK && (r.record->sequence != log->sequence + 1 ||
                        r.record->layout != log->layout))
        rc = etcd_journal_fail(
            j, sl_fail(err, SL_ECORRUPT,
                       "the %s in %s: %s does not follow record %llu",
                       j->kind->name, etcd_url(log->place.etcd), row->key,
                       (unsigned long long)log->sequence));
    if (rc == SL_OK)
        rc = log_read_bytes(&r, &log->place, row, revision, false, err);
    if (rc == SL_OK)
        rc = apply_changes(j, &r, err);
    if (rc == SL_OK) {
        log->sequence++;
        log->last_number = r.record->last_number;
        log->bytes += row->value.len + (r.record->parts ? r.record->bytes : 0);
    }
    log_read_release(&r);
    return rc;
}

// Returns how many records the next call asks for, after `reply` to one that
// asked for `most`: a coordinator that has followed no rows of a kind reads
// thousands of small ones.
static int64_t log_next_most(const struct etcd_reply *reply, int64_t most)
{
    size_t bytes = 0;

    for (size_t i = 0; i < reply->count; i++)
        bytes += reply->rows[i].value.len;
    return bytes > reply->count * RECORDS_SMALL
               ? RECORDS_READ
               : sl_min(4 * most, RECORDS_READ_MOST);
}

// Reads at most *most records after the last one, as of `revision`, and sets
// *more if there are others. A call of many may fail for their size: then the
// next one asks for few.
static enum sl_err log_read_some(struct journal *j, int64_t revision,
                                 int64_t *most, bool *more,
                                 struct sl_error *err)
{
    const struct log_place *at = &j->log->place;
    char key[LOG_KEY_BYTES], end[LOG_KEY_BYTES];
    const struct etcd_op get = {.what = ETCD_GET,
                                .key = key,
                                .end = end,
                                .most = *most,
                                .revision = revision};
    struct etcd_reply reply = {0};
    enum sl_err rc;

    log_key(key, at, j->log->sequence + 1);
    log_name(end, at, "log0");
    rc = etcd_get(at->etcd, &get, LOG_READ_MS, &reply, err);
    if (rc != SL_OK && !etcd_compacted(err) && *most > RECORDS_READ) {
        *most = RECORDS_READ;
        return SL_OK;
    }
    if (rc != SL_OK)
        return rc;
    *most = log_next_most(&reply, *most);
    for (size_t i = 0; i < reply.count && rc == SL_OK; i++)
        rc = apply_record(j, &reply.rows[i], revision, err);
    *more = reply.more && reply.count > 0;
    etcd_reply_release(&reply);
    return rc;
}

// Puts an image in the place of all rows. Takes the bytes of *r. The connection
// is a new one: SQLite 3.40 does not survive it in one that has used a table of
// its own kind (pragma_table_info).
static enum sl_err log_load_image(struct journal *j, struct log_read *r,
                                  struct sl_error *err)
{
    size_t bytes = r->record->bytes;
    uint8_t *image = r->bytes;
    sqlite3 *db = NULL;

    if (sqlite3_open(":memory:", &db) != SQLITE_OK) {
        sqlite3_close(db);
        return sl_no_memory(err);
    }
    journal_swap(j, db);
    r->bytes = NULL; // SQLite frees them, also on a failure
    if (sqlite3_deserialize(j->db, "main", image, (sqlite3_int64)bytes,
                            (sqlite3_int64)bytes,
                            SQLITE_DESERIALIZE_FREEONCLOSE |
                                SQLITE_DESERIALIZE_RESIZEABLE) != SQLITE_OK)
        return journal_bad(j, "an image from etcd", err);
    return log_read_layout(j, &j->log->layout, err);
}

static void log_note_image(struct journal_log *log,
                           const Journal__Record *record, int64_t version)
{
    log->base.version = version;
    log->base.sequence = record->sequence;
    log->image_at = record->bytes > IMAGE_LEAST ? record->bytes : IMAGE_LEAST;
}

// Reads the image of `row`, if the rows do not hold what it holds.
static enum sl_err log_read_image(struct journal *j, const struct etcd_row *row,
                                  int64_t revision, struct sl_error *err)
{
    struct journal_log *log = j->log;
    struct log_read r;
    enum sl_err rc;

    if (row->version == log->base.version)
        return SL_OK;
    rc = log_read(&r, &log->place, row, err);
    if (rc == SL_OK &&
        (log->base.version == 0 || r.record->sequence > log->sequence ||
         r.record->layout != log->layout)) {
        rc = log_read_bytes(&r, &log->place, row, revision, true, err);
        if (rc == SL_OK)
            rc = log_load_image(j, &r, err);
        if (rc == SL_OK) {
            log->sequence = r.record->sequence;
            log->last_number = last_number_of(j);
        }
    }
    if (rc == SL_OK) {
        log_note_image(log, r.record, row->version);
        log->bytes = 0; // records that it does not hold are counted too low
    }
    log_read_release(&r);
    return rc;
}

// Reads what is new, as of one moment.
static enum sl_err log_read_new(struct journal *j, struct sl_error *err)
{
    char base[LOG_KEY_BYTES];
    const struct etcd_op get = {.what = ETCD_GET, .key = base};
    struct journal_log *log = j->log;
    struct etcd_reply reply = {0};
    int64_t most = RECORDS_READ;
    bool more = true;
    enum sl_err rc;

    log_name(base, &log->place, "base");
    rc = etcd_get(log->place.etcd, &get, LOG_READ_MS, &reply, err);
    if (rc != SL_OK)
        return rc;
    if (reply.count == 1)
        rc = log_read_image(j, &reply.rows[0], reply.revision, err);
    else if (log->base.version != 0)
        rc = sl_fail(err, SL_ECORRUPT,
                     "the %s in %s is gone: its image was deleted",
                     j->kind->name, etcd_url(log->place.etcd));
    while (rc == SL_OK && more && log->base.version != 0)
        rc = log_read_some(j, reply.revision, &most, &more, err);
    etcd_reply_release(&reply);
    return rc;
}

enum sl_err journal_follow_on(struct journal *j, struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc = log_read_new(j, &why);

    for (int i = 1; i < READ_TRIES && rc != SL_OK && etcd_compacted(&why); i++)
        rc = log_read_new(j, &why);
    if (rc == SL_ECORRUPT || rc == SL_ENOTSUP)
        j->failed = true;
    if (rc != SL_OK && err != NULL)
        *err = why;
    return rc;
}

// ---- writing

static void end_session(struct journal_log *log)
{
    if (log->session != NULL)
        sqlite3session_delete(log->session);
    log->session = NULL;
}

static enum sl_err begin_session(struct journal *j, struct sl_error *err)
{
    end_session(j->log);
    if (sqlite3session_create(j->db, "main", &j->log->session) != SQLITE_OK ||
        sqlite3session_attach(j->log->session, NULL) != SQLITE_OK)
        return etcd_journal_fail(j, sl_no_memory(err));
    return SL_OK;
}

static Journal__Record log_record_of(const struct journal_log *log,
                                     uint64_t sequence)
{
    Journal__Record record = JOURNAL__RECORD__INIT;

    record.schema = (uint32_t)log->place.kind->schema;
    record.layout = log->layout;
    record.sequence = sequence;
    record.last_number = log->last_number;
    return record;
}

static enum sl_err put_changes(struct journal *j, struct sl_slice changes,
                               struct sl_error *err)
{
    struct journal_log *log = j->log;
    Journal__Record record = log_record_of(log, log->sequence + 1);
    char key[LOG_KEY_BYTES];
    struct log_put put = {.key = key};
    struct log_writer w;
    enum sl_err rc = log_nonce(&record, err);

    if (rc != SL_OK)
        return rc;
    log_key(key, &log->place, record.sequence);
    log_writer_init(&w, &log->place, &log->leader);
    rc = log_put_record(&w, &put, &record, false, changes, err);
    j->full = w.full;
    if (rc == SL_OK) {
        log->sequence = record.sequence;
        log->bytes += changes.len;
    }
    return rc;
}

static enum sl_err etcd_keep(struct journal *j, struct sl_error *err)
{
    struct journal_log *log = j->log;
    uint64_t last = last_number_of(j);
    void *changes = NULL;
    enum sl_err rc = SL_OK;
    int bytes = 0;
    int made;

    if (log->session == NULL)
        return SL_OK; // it makes the tables
    made = j->kind->lean
               ? sqlite3session_patchset(log->session, &bytes, &changes)
               : sqlite3session_changeset(log->session, &bytes, &changes);
    if (made != SQLITE_OK)
        return sl_no_memory(err);
    if (bytes > 0 || last != log->last_number) {
        log->last_number = last;
        rc = put_changes(j, (struct sl_slice){changes, (size_t)bytes}, err);
    }
    sqlite3_free(changes);
    return rc;
}

// ---- images

static struct journal_image *log_take_image(struct journal *j,
                                            const struct journal_leader *leader)
{
    struct journal_log *log = j->log;
    struct journal_image *image = sl_calloc(1, sizeof(*image));
    sqlite3_int64 bytes = 0;
    uint8_t *rows;

    if (image == NULL)
        return NULL;
    rows = sqlite3_serialize(j->db, "main", &bytes, 0);
    if (rows == NULL) {
        sl_free(image);
        return NULL;
    }
    // Rows that came from a file say that it has a WAL; in memory there is
    // none.
    rows[FORMAT_WRITE] = rows[FORMAT_READ] = FORMAT_ROLLBACK;
    image->bytes = (struct sl_slice){rows, (size_t)bytes};
    image->record = log_record_of(log, log->sequence);
    image->version = log->base.version;
    image->holds = log->bytes;
    log_writer_init(&image->writer, &log->place, leader);
    return image;
}

// Takes note of an image that is written, or of its failure.
static void log_end_image(struct journal_log *log)
{
    struct journal_image *image = log->image;

    log->image = NULL;
    if (image->rc == SL_OK) {
        log_note_image(log, &image->record, image->version + 1);
        log->bytes -= sl_min(log->bytes, image->holds);
    } else {
        log->image_at = log->bytes + IMAGE_AGAIN;
        LOG(WARN, "no new image of the rows in etcd", "of=%s why=%s",
            log->place.kind->name, image->err.text);
    }
    image_free(image);
}

static void etcd_over(struct journal *j, bool committed)
{
    struct journal_log *log = j->log;

    // The image's thread may not ask left_ms; its writes have the condition all
    // the same.
    const struct journal_leader without_clock = {.term = log->leader.term};

    if (log->session == NULL)
        return;
    (void)begin_session(j, NULL); // without memory the journal has failed
    if (log->image != NULL && atomic_load(&log->image->done))
        log_end_image(log);
    if (!committed || log->image != NULL || log->bytes < log->image_at)
        return;
    log->image = log_take_image(j, &without_clock);
    if (log->image != NULL)
        image_start(log->image);
}

// ---- begin and end

static void etcd_log_free(struct journal *j)
{
    end_session(j->log);
    image_free(j->log->image);
    sl_free(j->log);
    j->log = NULL;
}

enum sl_err journal_claim(struct etcd *etcd, int64_t lease, const char *value,
                          int64_t limit_ms, int64_t *term, struct sl_error *err)
{
    const struct etcd_if free = {.what = ETCD_CREATED, .key = JOURNAL_LEADER};
    const struct etcd_op put = {
        .what = ETCD_PUT,
        .key = JOURNAL_LEADER,
        .lease = lease,
        .value = {(const uint8_t *)value, strlen(value)}};
    const struct etcd_txn txn = {
        .ifs = &free, .if_count = 1, .then = &put, .then_count = 1};
    struct etcd_reply reply = {0};
    enum sl_err rc = etcd_txn(etcd, &txn, limit_ms, &reply, err);

    *term = rc == SL_OK && reply.held ? reply.revision : 0;
    etcd_reply_release(&reply);
    return rc;
}

enum sl_err journal_follow(struct journal **out, struct etcd *etcd,
                           const struct journal_kind *kind,
                           struct sl_error *err)
{
    static const struct journal_keeper keeper = {etcd_keep, etcd_over,
                                                 etcd_log_free};
    struct journal *j;
    enum sl_err rc = journal_open_blank(&j, kind, err);

    if (rc != SL_OK)
        return rc;
    j->log = sl_calloc(1, sizeof(*j->log));
    rc = j->log == NULL ? sl_no_memory(err) : SL_OK;
    if (rc == SL_OK) {
        j->keeper = &keeper;
        j->log->place = (struct log_place){etcd, kind};
        rc = journal_follow_on(j, err);
    }
    if (rc != SL_OK) {
        journal_close(j);
        return rc;
    }
    *out = j;
    return SL_OK;
}

bool journal_is_blank(const struct journal *j)
{
    return j->log->base.version == 0;
}

// Puts an image of the rows in force, and waits for it.
static enum sl_err log_put_image(struct journal *j, struct sl_error *err)
{
    struct journal_log *log = j->log;
    struct journal_image *image = log_take_image(j, &log->leader);
    enum sl_err rc;

    if (image == NULL)
        return sl_no_memory(err);
    image_write(image);
    rc = image->rc;
    if (rc == SL_OK)
        log_note_image(log, &image->record, image->version + 1);
    else if (err != NULL)
        *err = image->err;
    j->full = image->writer.full;
    log->bytes = 0;
    image_free(image);
    return rc;
}

// Checks that etcd still has the last record that the rows hold: one that was
// restored from a copy, or lost its disks, is behind them, and a record that
// followed would leave a gap for every reader.
static enum sl_err log_check_last(struct journal *j, struct sl_error *err)
{
    char key[LOG_KEY_BYTES];
    const struct etcd_op get = {.what = ETCD_GET, .key = key};
    struct journal_log *log = j->log;
    struct etcd_reply reply = {0};
    enum sl_err rc;

    if (log->sequence <= log->base.sequence)
        return SL_OK;
    log_key(key, &log->place, log->sequence);
    rc = etcd_get(log->place.etcd, &get, LOG_READ_MS, &reply, err);
    if (rc == SL_OK && reply.count == 0)
        rc = etcd_journal_fail(
            j, sl_fail(err, SL_ECORRUPT,
                       "the %s in %s is older than what was read from it "
                       "before; it is read anew",
                       j->kind->name, etcd_url(log->place.etcd)));
    etcd_reply_release(&reply);
    return rc;
}

enum sl_err journal_lead(struct journal *j, const struct journal_leader *leader,
                         struct sl_error *err)
{
    struct journal_log *log = j->log;
    enum sl_err rc = journal_follow_on(j, err);
    uint64_t layout = log->layout;

    if (rc == SL_OK)
        rc = log_check_last(j, err);
    if (rc != SL_OK)
        return rc;
    log->leader = *leader;
    rc = journal_set_up_schema(j, etcd_url(log->place.etcd), err);
    if (rc == SL_OK)
        rc = log_read_layout(j, &log->layout, err);
    if (rc == SL_OK) // no more than a reader takes (IMAGE_BYTES_MOST)
        rc = journal_exec(j, "PRAGMA max_page_count = 262144", err);
    if (rc == SL_OK && (log->base.version == 0 || log->layout != layout))
        rc = log_put_image(j, err);
    if (rc == SL_OK)
        rc = begin_session(j, err);
    return rc == SL_OK ? rc : etcd_journal_fail(j, rc);
}
