// SPDX-License-Identifier: Apache-2.0
// coordinator/tasks/task_store.c -- the tables, and a line of SQL for each
// decision.
//
// `bytes` is a task's payload until it has ended, then its result: the payload
// is not needed any more, and a queue is bounded by what it keeps.
#include "coordinator/tasks/task_store.h"

#include <string.h>

#include "common/base/mem.h"
#include "coordinator/journal/journal_sql.h"

struct task_store {
    struct journal *db;
    bool begun;
    uint64_t last_id, last_ended; // as last written
};

static const char task_tables[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL);"
    "CREATE TABLE queues("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL,"
    " name TEXT NOT NULL, most INTEGER NOT NULL, UNIQUE(tenant, name));"
    "CREATE TABLE clients("
    " queue INTEGER NOT NULL, client INTEGER NOT NULL, last INTEGER NOT NULL,"
    " session INTEGER NOT NULL,"
    " born INTEGER PRIMARY KEY AUTOINCREMENT, UNIQUE(queue, client));"
    "CREATE TABLE tasks("
    " id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, client INTEGER NOT NULL,"
    " number INTEGER NOT NULL, name TEXT NOT NULL, state INTEGER NOT NULL,"
    " losses INTEGER NOT NULL DEFAULT 0, ended INTEGER NOT NULL DEFAULT 0,"
    " error TEXT NOT NULL DEFAULT '', bytes BLOB NOT NULL);"
    "CREATE INDEX tasks_queue ON tasks(queue);"
    "PRAGMA user_version = 1;";

static enum sl_err store_make_tables(struct journal *j, int version,
                                     struct sl_error *err)
{
    return version < 1 ? journal_exec(j, task_tables, err) : SL_OK;
}

// The number of a queue, which tells a client that its own was deleted, is not
// given again; that of a client only orders them.
const struct journal_kind task_store_kind = {
    .name = "tasks",
    .ends = "it is opened again, and calls fail until that succeeds",
    .schema = 1,
    .make = store_make_tables,
    .folder = "tasks/",
    .numbered = "queues",
    .lean = true,
};

enum sl_err store_open(struct task_store **out, const char *path,
                       struct sl_error *err)
{
    struct journal *db;
    enum sl_err rc = journal_open_kind(&db, path, &task_store_kind, err);

    return rc == SL_OK ? store_of_rows(out, db, err) : rc;
}

enum sl_err store_of_rows(struct task_store **out, struct journal *db,
                          struct sl_error *err)
{
    struct task_store *s = sl_calloc(1, sizeof(*s));

    if (s == NULL) {
        journal_close(db);
        return sl_fail(err, SL_ENOMEM, "no memory for tasks");
    }
    s->db = db;
    *out = s;
    return SL_OK;
}

void store_close(struct task_store *s)
{
    if (s == NULL)
        return;
    if (s->begun)
        (void)journal_end(s->db, SL_ECANCELED, NULL);
    journal_close(s->db);
    sl_free(s);
}

// ---- load

static struct book_queue *queue_of(struct book *b, uint64_t id)
{
    list_for(n, &b->queues)
    {
        struct book_queue *q = list_entry(n, struct book_queue, node);

        if (q->id == id)
            return q;
    }
    return NULL;
}

static enum sl_err store_fail_orphan(const char *what, uint64_t id,
                                     struct sl_error *err)
{
    return sl_fail(
        err, SL_ECORRUPT,
        "tasks: %s %llu belongs to a queue or client that does not exist", what,
        (unsigned long long)id);
}

static enum sl_err load_queue(struct book *b, sqlite3_stmt *row,
                              struct sl_error *err)
{
    return book_queue_add(b, journal_u64(row, 0), journal_text(row, 1),
                          journal_text(row, 2),
                          (uint32_t)journal_u64(row, 3)) == NULL
               ? sl_fail(err, SL_ENOMEM, "tasks: queues")
               : SL_OK;
}

static enum sl_err load_client(struct book *b, sqlite3_stmt *row,
                               struct sl_error *err)
{
    struct book_queue *q = queue_of(b, journal_u64(row, 0));
    struct book_client *c;

    if (q == NULL)
        return store_fail_orphan("client", journal_u64(row, 1), err);
    c = book_client_add(q, journal_u64(row, 1));
    if (c == NULL)
        return sl_fail(err, SL_ENOMEM, "tasks: clients");
    c->last = journal_u64(row, 2);
    c->session = journal_u64(row, 3);
    return SL_OK;
}

static enum sl_err load_task(struct book *b, sqlite3_stmt *row,
                             struct sl_error *err)
{
    uint64_t id = journal_u64(row, 0), state = journal_u64(row, 5);
    struct book_queue *q = queue_of(b, journal_u64(row, 1));
    struct book_client *c =
        q != NULL ? book_client_find(q, journal_u64(row, 2)) : NULL;
    size_t bytes = (size_t)journal_u64(row, 8);
    struct book_task *t;

    if (c == NULL || state == 0 || state >= BOOK_STATES)
        return store_fail_orphan("task", id, err);
    t = book_add(b, c, id, journal_u64(row, 3), journal_text(row, 4), bytes);
    if (t == NULL)
        return sl_fail(err, SL_ENOMEM, "tasks: %llu", (unsigned long long)id);
    t->losses = (uint32_t)journal_u64(row, 6);
    if (state > BOOK_LEASED)
        book_ended(b, t, (enum book_state)state, journal_u64(row, 7), bytes);
    return SL_OK;
}

static enum sl_err store_load_rows(
    struct task_store *s, struct book *b, const char *sql,
    enum sl_err (*one)(struct book *b, sqlite3_stmt *row, struct sl_error *err),
    struct sl_error *err)
{
    sqlite3_stmt *rows = journal_walk(s->db, err, sql, NULL, 0);
    enum sl_err rc;

    while ((rc = journal_step(s->db, rows, err)) == SL_OK) {
        rc = one(b, rows, err);
        if (rc != SL_OK)
            break;
    }
    return journal_walked(rows, rc);
}

enum sl_err store_load(struct task_store *s, struct book *b,
                       struct sl_error *err)
{
    enum sl_err rc = store_load_rows(
        s, b, "SELECT id, tenant, name, most FROM queues", load_queue, err);

    if (rc == SL_OK)
        rc = store_load_rows(s, b,
                             "SELECT queue, client, last, session FROM clients"
                             " ORDER BY born",
                             load_client, err);
    // Ended tasks in the order in which they ended; the others by id.
    if (rc == SL_OK)
        rc = store_load_rows(
            s, b,
            "SELECT id, queue, client, number, name, state, losses,"
            " ended, length(bytes) FROM tasks ORDER BY ended, id",
            load_task, err);
    if (rc == SL_OK)
        rc = journal_meta(s->db, "last_id", &s->last_id, err);
    if (rc == SL_OK)
        rc = journal_meta(s->db, "last_ended", &s->last_ended, err);
    if (rc != SL_OK)
        return rc;
    if (s->last_id > b->last_id)
        b->last_id = s->last_id;
    if (s->last_ended > b->last_ended)
        b->last_ended = s->last_ended;
    return SL_OK;
}

// ---- transactions

enum sl_err store_begin(struct task_store *s, struct sl_error *err)
{
    enum sl_err rc = s->begun ? SL_OK : journal_begin(s->db, err);

    s->begun = s->begun || rc == SL_OK;
    return rc;
}

// Writes the highest drawn ids: a number is not drawn again, even after its
// task is forgotten.
static enum sl_err write_drawn(struct task_store *s, const struct book *b,
                               struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (b->last_id != s->last_id)
        rc = journal_meta_set(s->db, "last_id", b->last_id, err);
    if (rc == SL_OK && b->last_ended != s->last_ended)
        rc = journal_meta_set(s->db, "last_ended", b->last_ended, err);
    return rc;
}

enum sl_err store_commit(struct task_store *s, const struct book *b,
                         struct sl_error *err)
{
    enum sl_err rc;

    if (!s->begun)
        return SL_OK;
    rc = write_drawn(s, b, err);
    rc = journal_end(s->db, rc, err);
    s->begun = false;
    if (rc == SL_OK) {
        s->last_id = b->last_id;
        s->last_ended = b->last_ended;
    }
    return rc;
}

static enum sl_err store_write_sql(struct task_store *s, struct sl_error *err,
                                   const char *sql,
                                   const struct journal_value *values,
                                   size_t count)
{
    enum sl_err rc = store_begin(s, err);

    return rc == SL_OK ? journal_write(s->db, err, sql, values, count) : rc;
}

// ---- writing decisions

static struct journal_value blob(const ProtobufCBinaryData *b)
{
    return BLOB(((struct journal_blob){b->data, b->len}));
}

enum sl_err store_queue_add(struct task_store *s, uint64_t *id,
                            const char *tenant, const char *name,
                            uint32_t limit, struct sl_error *err)
{
    enum sl_err rc = store_write_sql(
        s, err, "INSERT INTO queues(tenant, name, most) VALUES(?1, ?2, ?3)",
        JOURNAL_VALUES(TEXT(tenant), TEXT(name), U64(limit)));

    if (rc == SL_OK)
        *id = (uint64_t)sqlite3_last_insert_rowid(s->db->db);
    return rc;
}

enum sl_err store_queue_limit(struct task_store *s, uint64_t id, uint32_t limit,
                              struct sl_error *err)
{
    return store_write_sql(s, err, "UPDATE queues SET most = ?2 WHERE id = ?1",
                           JOURNAL_VALUES(U64(id), U64(limit)));
}

enum sl_err store_queue_remove(struct task_store *s, uint64_t id,
                               struct sl_error *err)
{
    enum sl_err rc = store_write_sql(
        s, err, "DELETE FROM tasks WHERE queue = ?1", JOURNAL_VALUES(U64(id)));

    if (rc == SL_OK)
        rc = store_write_sql(s, err, "DELETE FROM clients WHERE queue = ?1",
                             JOURNAL_VALUES(U64(id)));
    if (rc == SL_OK)
        rc = store_write_sql(s, err, "DELETE FROM queues WHERE id = ?1",
                             JOURNAL_VALUES(U64(id)));
    return rc;
}

enum sl_err store_client(struct task_store *s, const struct book_client *c,
                         struct sl_error *err)
{
    return store_write_sql(s, err,
                           "INSERT INTO clients(queue, client, last, session)"
                           " VALUES(?1, ?2, ?3, ?4)"
                           " ON CONFLICT(queue, client)"
                           " DO UPDATE SET last = ?3, session = ?4",
                           JOURNAL_VALUES(U64(c->queue->id), U64(c->id),
                                          U64(c->last), U64(c->session)));
}

enum sl_err store_client_remove(struct task_store *s, uint64_t queue,
                                uint64_t client, struct sl_error *err)
{
    return store_write_sql(
        s, err, "DELETE FROM clients WHERE queue = ?1 AND client = ?2",
        JOURNAL_VALUES(U64(queue), U64(client)));
}

enum sl_err store_add(struct task_store *s, const struct book_task *t,
                      const ProtobufCBinaryData *payload, struct sl_error *err)
{
    return store_write_sql(
        s, err,
        "INSERT INTO tasks(id, queue, client, number, name, state,"
        " bytes) VALUES(?1, ?2, ?3, ?4, ?5, 1, ?6)",
        JOURNAL_VALUES(U64(t->id), U64(t->client->queue->id),
                       U64(t->client->id), U64(t->number), TEXT(t->kind->name),
                       blob(payload)));
}

enum sl_err store_lost(struct task_store *s, const struct book_task *t,
                       struct sl_error *err)
{
    return store_write_sql(s, err, "UPDATE tasks SET losses = ?2 WHERE id = ?1",
                           JOURNAL_VALUES(U64(t->id), U64(t->losses)));
}

enum sl_err store_end(struct task_store *s, const struct book_task *t,
                      enum book_state state, const ProtobufCBinaryData *result,
                      const char *error, struct sl_error *err)
{
    return store_write_sql(
        s, err,
        "UPDATE tasks SET state = ?2, ended = ?3, losses = ?4,"
        " error = ?5, bytes = ?6 WHERE id = ?1",
        JOURNAL_VALUES(U64(t->id), U64((uint64_t)state), U64(t->ended),
                       U64(t->losses), TEXT(error), blob(result)));
}

enum sl_err store_forget(struct task_store *s, uint64_t id,
                         struct sl_error *err)
{
    return store_write_sql(s, err, "DELETE FROM tasks WHERE id = ?1",
                           JOURNAL_VALUES(U64(id)));
}

static enum sl_err copy_row(sqlite3_stmt *row, ProtobufCBinaryData *bytes,
                            char **error, struct sl_error *err)
{
    struct journal_blob b = journal_blob_at(row, 0);
    uint8_t *data = b.bytes > 0 ? sl_malloc(b.bytes) : NULL;
    char *text = error != NULL ? sl_strdup(journal_text(row, 1)) : NULL;

    if ((b.bytes > 0 && data == NULL) || (error != NULL && text == NULL)) {
        sl_free(data);
        sl_free(text);
        return sl_fail(err, SL_ENOMEM, "tasks: %zu bytes", b.bytes);
    }
    if (b.bytes > 0)
        memcpy(data, b.data, b.bytes);
    *bytes = (ProtobufCBinaryData){b.bytes, data};
    if (error != NULL)
        *error = text;
    return SL_OK;
}

enum sl_err store_read(struct task_store *s, uint64_t id,
                       ProtobufCBinaryData *bytes, char **error,
                       struct sl_error *err)
{
    sqlite3_stmt *row =
        journal_sql(s->db, err, "SELECT bytes, error FROM tasks WHERE id = ?1",
                    JOURNAL_VALUES(U64(id)));
    enum sl_err rc = journal_step(s->db, row, err);

    if (rc == SL_ENOENT)
        return sl_fail(err, SL_ECORRUPT, "tasks: %llu has no row",
                       (unsigned long long)id);
    if (rc != SL_OK)
        return rc;
    rc = copy_row(row, bytes, error, err);
    sqlite3_reset(row);
    return rc;
}
