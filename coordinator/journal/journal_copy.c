// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_copy.c -- a journal on its way to etcd or back.
#include "coordinator/journal/journal_copy.h"

#include <stdio.h>
#include <string.h>

#include "common/base/fs.h"
#include "coordinator/journal/journal_sql.h"

// Seconds of the lease of the copy's key, renewed before each write and at the
// end.
#define LEASE_S 60
#define LIMIT_MS 5000
#define NAME "coordinator migrate"

// ---- the same rows?

static enum sl_err digest_value(struct sha256 *h, sqlite3_stmt *s, int column)
{
    int kind = sqlite3_column_type(s, column);
    struct journal_blob b = journal_blob_at(s, column); // a number as its text
    uint64_t head[2] = {(uint64_t)kind, b.bytes};
    enum sl_err rc;

    if (kind == SQLITE_FLOAT) { // all its bits
        double real = sqlite3_column_double(s, column);

        return sha256_update(h, &real, sizeof(real));
    }
    rc = sha256_update(h, head, sizeof(head));
    return rc == SL_OK ? sha256_update(h, b.data, b.bytes) : rc;
}

static enum sl_err digest_rows(struct journal *j, struct sha256 *h,
                               const char *sql, struct sl_error *err)
{
    sqlite3_stmt *s = journal_walk(j, err, sql, NULL, 0);
    enum sl_err rc;

    while ((rc = journal_step(j, s, err)) == SL_OK)
        for (int i = 0; i < sqlite3_column_count(s) && rc == SL_OK; i++)
            rc = digest_value(h, s, i);
    return journal_walked(s, rc);
}

// Appends the columns of a table to *sql, for its order: where rows have no key
// that is theirs alone, their places may differ.
static enum sl_err digest_order(struct journal *j, const char *table,
                                struct buf *sql, struct sl_error *err)
{
    const struct journal_value name[] = {TEXT(table)};
    sqlite3_stmt *s = journal_walk(
        j, err, "SELECT count(*) FROM pragma_table_info(?1)", name, 1);
    enum sl_err rc = journal_step(j, s, err);
    int columns = rc == SL_OK ? sqlite3_column_int(s, 0) : 0;

    sqlite3_finalize(s);
    for (int i = 1; i <= columns && rc == SL_OK; i++)
        rc = buf_appendf(sql, "%s%d", i == 1 ? "" : ", ", i);
    return rc;
}

static enum sl_err digest_table(struct journal *j, struct sha256 *h,
                                const char *table, struct sl_error *err)
{
    struct buf sql = BUF_INIT;
    enum sl_err rc = sha256_update(h, table, strlen(table) + 1);

    if (rc == SL_OK)
        rc = buf_appendf(&sql, "SELECT * FROM \"%s\" ORDER BY ", table);
    if (rc == SL_OK)
        rc = digest_order(j, table, &sql, err);
    if (rc == SL_OK)
        rc = digest_rows(j, h, buf_text(&sql), err);
    buf_release(&sql);
    return rc;
}

enum sl_err journal_digest(struct journal *j, uint8_t out[SHA256_BYTES],
                           struct sl_error *err)
{
    static const char tables[] =
        "SELECT name FROM sqlite_schema WHERE type = 'table'"
        " AND name NOT LIKE 'sqlite_stat%' ORDER BY name";
    struct sha256 h = {0};
    enum sl_err rc = sha256_init(&h);
    sqlite3_stmt *s = NULL;

    if (rc == SL_OK) {
        s = journal_walk(j, err, tables, NULL, 0);
        while ((rc = journal_step(j, s, err)) == SL_OK) {
            rc = digest_table(j, &h, journal_text(s, 0), err);
            if (rc != SL_OK)
                break;
        }
        rc = journal_walked(s, rc);
    }
    if (rc == SL_OK)
        rc = sha256_final(&h, out);
    sha256_release(&h);
    return rc;
}

static enum sl_err journal_compare(struct journal *a, struct journal *b,
                                   const char *where, struct sl_error *err)
{
    uint8_t left[SHA256_BYTES], right[SHA256_BYTES];
    enum sl_err rc = journal_digest(a, left, err);

    if (rc == SL_OK)
        rc = journal_digest(b, right, err);
    if (rc == SL_OK && memcmp(left, right, sizeof(left)) != 0)
        rc = sl_fail(err, SL_ECORRUPT, "the rows in %s are not those copied",
                     where);
    return rc;
}

static enum sl_err journal_copy_rows(struct journal *from, struct journal *to,
                                     struct sl_error *err)
{
    sqlite3_backup *b = sqlite3_backup_init(to->db, "main", from->db, "main");

    if (b == NULL)
        return journal_bad(to, "copying", err);
    (void)sqlite3_backup_step(b, -1); // finish says how it went
    return sqlite3_backup_finish(b) == SQLITE_OK
               ? SL_OK
               : journal_bad(to, "copying", err);
}

#define COPY_NAME 64

// What errors call the rows of a kind: "is a journal", "are rows of tasks".
static const char *copy_name(char out[COPY_NAME],
                             const struct journal_kind *kind, bool some)
{
    if (kind == &journal_kind_own)
        return some ? "is a journal" : "is no journal";
    snprintf(out, COPY_NAME, "are %srows of %s", some ? "" : "no ", kind->name);
    return out;
}

static enum sl_err fail_led(const struct etcd *etcd, struct sl_error *err)
{
    return sl_fail(
        err, SL_ESTATE,
        "a coordinator leads in %s: stop it, and those that stand by",
        etcd_url(etcd));
}

enum sl_err journal_copy_free(struct etcd *etcd, const char *path,
                              const struct journal_kind *kind,
                              struct sl_error *err)
{
    struct journal *j = NULL;
    char name[COPY_NAME];
    enum sl_err rc;

    if (path != NULL)
        return fs_exists(fs_posix(), path)
                   ? sl_fail(err, SL_EEXIST, "%s: there %s already", path,
                             copy_name(name, kind, true))
                   : SL_OK;
    rc = journal_follow(&j, etcd, kind, err);
    if (rc == SL_OK && !journal_is_blank(j))
        rc = sl_fail(err, SL_EEXIST, "there %s in %s already",
                     copy_name(name, kind, true), etcd_url(etcd));
    journal_close(j);
    return rc;
}

// ---- to etcd

// The leader's key, while a copy has it.
struct copy_key {
    struct etcd *etcd;
    int64_t lease, term;
};

// Takes the leader's key for a copy. Fails if another process has the key, or
// if etcd has a journal already.
static enum sl_err copy_key_take(struct copy_key *k, struct sl_error *err)
{
    int64_t granted;
    enum sl_err rc =
        etcd_lease_grant(k->etcd, LEASE_S, LIMIT_MS, &k->lease, &granted, err);

    if (rc == SL_OK)
        rc = journal_claim(k->etcd, k->lease, NAME, LIMIT_MS, &k->term, err);
    return rc == SL_OK && k->term == 0 ? fail_led(k->etcd, err) : rc;
}

static enum sl_err copy_key_renew(const struct copy_key *k)
{
    int64_t granted;

    return etcd_lease_renew(k->etcd, k->lease, LIMIT_MS, &granted, NULL);
}

// Renews the lease, and returns for how many ms the copy has the key. An answer
// that does not come says nothing: the write asks for the key in any case.
static int64_t copy_key_left_ms(void *arg)
{
    return copy_key_renew(arg) == SL_ENOENT ? 0 : (int64_t)LEASE_S * 1000;
}

static enum sl_err copy_in(struct copy_key *key, struct journal *file,
                           struct sl_error *err)
{
    const struct journal_leader leader = {
        .term = key->term, .left_ms = copy_key_left_ms, .arg = key};
    struct etcd *etcd = key->etcd;
    struct journal *to = NULL, *again = NULL;
    enum sl_err rc = journal_copy_free(etcd, NULL, file->kind, err);

    if (rc == SL_OK)
        rc = journal_follow(&to, etcd, file->kind, err);
    if (rc == SL_OK)
        rc = journal_copy_rows(file, to, err);
    if (rc == SL_OK)
        rc = journal_lead(to, &leader, err);
    if (rc == SL_OK) {
        (void)copy_key_renew(key); // it outlasts the comparison
        rc = journal_follow(&again, etcd, file->kind, err);
    }
    if (rc == SL_OK)
        rc = journal_compare(file, again, etcd_url(etcd), err);
    journal_close(again);
    journal_close(to);
    return rc;
}

enum sl_err journal_copy_in(struct etcd *etcd, const char *path,
                            const struct journal_kind *kind,
                            struct sl_error *err)
{
    struct journal *file = NULL;
    struct copy_key key = {.etcd = etcd};
    char name[COPY_NAME];
    enum sl_err rc;

    if (!fs_exists(fs_posix(), path))
        return sl_fail(err, SL_ENOENT, "%s: there %s", path,
                       copy_name(name, kind, false));
    rc = journal_open_kind(&file, path, kind, err);
    if (rc == SL_OK)
        rc = copy_key_take(&key, err);
    if (rc == SL_OK)
        rc = copy_in(&key, file, err);
    if (key.lease != 0) // or it expires
        (void)etcd_lease_revoke(etcd, key.lease, LIMIT_MS, NULL);
    journal_close(file);
    return rc;
}

// ---- from etcd

static enum sl_err refuse_leader(struct etcd *etcd, struct sl_error *err)
{
    const struct etcd_op get = {.what = ETCD_GET, .key = JOURNAL_LEADER};
    struct etcd_reply reply = {0};
    enum sl_err rc = etcd_get(etcd, &get, LIMIT_MS, &reply, err);

    if (rc == SL_OK && reply.count > 0)
        rc = fail_led(etcd, err);
    etcd_reply_release(&reply);
    return rc;
}

enum sl_err journal_copy_out(struct etcd *etcd, const char *path,
                             const struct journal_kind *kind,
                             struct sl_error *err)
{
    struct journal *from = NULL, *file = NULL;
    char name[COPY_NAME];
    enum sl_err rc = refuse_leader(etcd, err);

    if (rc == SL_OK)
        rc = journal_copy_free(NULL, path, kind, err);
    if (rc == SL_OK)
        rc = journal_follow(&from, etcd, kind, err);
    if (rc == SL_OK && journal_is_blank(from))
        rc = sl_fail(err, SL_ENOENT, "there %s in %s",
                     copy_name(name, kind, false), etcd_url(etcd));
    if (rc == SL_OK) // upgrades the tables in memory, as it will the file's
        rc = journal_set_up_schema(from, etcd_url(etcd), err);
    if (rc == SL_OK)
        rc = journal_open_kind(&file, path, kind, err);
    if (rc == SL_OK)
        rc = journal_copy_rows(from, file, err);
    if (rc == SL_OK)
        rc = journal_compare(from, file, path, err);
    if (rc == SL_OK)
        rc = refuse_leader(etcd, err); // none led meanwhile
    journal_close(file);
    journal_close(from);
    return rc;
}
