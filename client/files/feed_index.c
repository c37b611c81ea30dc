// SPDX-License-Identifier: Apache-2.0
// client/files/feed_index.c -- index.json of a feed.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/files/table_feed.h"
#include "common/base/buf.h"
#include "common/base/json.h"
#include "common/base/mem.h"

#define FEED_FORMAT 1
#define INDEX_BYTES (4u << 20)

bool feed_owns(const char *name)
{
    return (strncmp(name, "base-", 5) == 0 ||
            strncmp(name, "delta-", 6) == 0) &&
           strchr(name, '/') == NULL && strlen(name) < FEED_NAME;
}

// ---- reading

static enum sl_err feed_file_read(struct feed_file *out, const json_t *value,
                                  struct sl_error *err)
{
    const char *name, *digest;
    enum sl_err rc = sl_json_str(&name, value, "file", err);

    out->base = json_object_get(value, "from") == NULL;
    if (rc == SL_OK)
        rc = sl_json_str(&digest, value, "digest", err);
    if (rc == SL_OK && !out->base)
        rc = sl_json_u64(&out->from, value, "from", err);
    if (rc == SL_OK)
        rc = sl_json_u64(&out->cut, value, "cut", err);
    if (rc == SL_OK)
        rc = sl_json_u64(&out->changed, value, "changed", err);
    if (rc == SL_OK)
        rc = sl_json_u64(&out->gone, value, "gone", err);
    if (rc == SL_OK)
        rc = sl_json_u64(&out->bytes, value, "bytes", err);
    if (rc == SL_OK)
        rc = sl_json_u64(&out->sum.rows, value, "rows", err);
    if (rc != SL_OK)
        return rc;
    if (!feed_owns(name) || strspn(digest, "0123456789abcdef") != 16 ||
        sscanf(digest, "%16" SCNx64, &out->sum.digest) != 1)
        return sl_fail(err, SL_ECORRUPT, "'%.100s' or its digest is malformed",
                       name);
    memcpy(out->name, name, strlen(name) + 1);
    return SL_OK;
}

static enum sl_err feed_files_read(struct table_feed *f, const json_t *list,
                                   struct sl_error *err)
{
    size_t count = json_array_size(list);
    bool base = false;

    if (count == 0 || count > FEED_FILES_MOST)
        return sl_fail(err, SL_ECORRUPT, "%zu files", count);
    f->files = sl_calloc(count, sizeof(*f->files));
    if (f->files == NULL)
        return sl_no_memory(err);
    for (; f->count < count; f->count++) {
        enum sl_err rc = feed_file_read(&f->files[f->count],
                                        json_array_get(list, f->count), err);

        if (rc != SL_OK)
            return rc;
        base = base || f->files[f->count].base;
    }
    return base ? SL_OK : sl_fail(err, SL_ECORRUPT, "no file is a base");
}

// Checks that the index is of the table that is followed.
static enum sl_err feed_index_is(struct table_feed *f, const json_t *root,
                                 struct sl_error *err)
{
    const char *id, *table, *job;
    uint64_t format, dim;
    enum sl_err rc = sl_json_u64(&format, root, "format", err);

    if (rc == SL_OK && format != FEED_FORMAT)
        return sl_fail(err, SL_ENOTSUP,
                       "format %" PRIu64 ", and this version reads %u", format,
                       FEED_FORMAT);
    if (rc == SL_OK)
        rc = sl_json_str(&id, root, "id", err);
    if (rc == SL_OK)
        rc = sl_json_str(&table, root, "table", err);
    if (rc == SL_OK)
        rc = sl_json_str(&job, root, "job", err);
    if (rc == SL_OK)
        rc = sl_json_u64(&dim, root, "dim", err);
    if (rc != SL_OK)
        return rc;
    if (strcmp(id, f->id) != 0 || strcmp(table, f->table) != 0 || dim != f->dim)
        return sl_fail(err, SL_EEXIST,
                       "this folder follows table %.100s of %.30s, of dim "
                       "%" PRIu64 ": name another folder with --to",
                       table, id, dim);
    f->job = sl_strdup(job);
    return f->job != NULL ? SL_OK : sl_no_memory(err);
}

static enum sl_err feed_index_parse(struct table_feed *f, const char *path,
                                    const struct buf *text,
                                    struct sl_error *err)
{
    json_t *root = NULL;
    enum sl_err rc = sl_json_parse(&root, path, (const char *)text->data,
                                   text->len, NULL, err);

    if (rc == SL_OK) {
        rc = feed_index_is(f, root, err);
        if (rc == SL_OK)
            rc = feed_files_read(f, json_object_get(root, "files"), err);
        json_decref(root);
        if (rc != SL_OK)
            sl_prefix(err, rc, "%s", path);
    }
    // A damaged index: its text is no JSON, or lacks a key, or has a key of
    // another type.
    if (rc == SL_EINVAL || rc == SL_ENOENT) {
        rc = SL_ECORRUPT;
        if (err != NULL)
            err->code = rc;
    }
    return rc;
}

enum sl_err feed_index_read(struct table_feed *f, struct sl_error *err)
{
    struct buf text = BUF_INIT;
    char *path = fs_join(f->folder, FEED_INDEX);
    enum sl_err rc =
        path != NULL ? fs_read_all(fs_posix(), path, INDEX_BYTES, &text, err)
                     : sl_no_memory(err);

    if (rc == SL_OK)
        rc = feed_index_parse(f, path, &text, err);
    buf_release(&text);
    sl_free(path);
    return rc;
}

// ---- writing

// Returns NULL without memory.
static json_t *feed_file_json(const struct feed_file *file)
{
    char digest[20];
    json_t *out;

    snprintf(digest, sizeof(digest), "%016" PRIx64, file->sum.digest);
    out = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s}", "file", file->name,
                    "cut", (json_int_t)file->cut, "changed",
                    (json_int_t)file->changed, "gone", (json_int_t)file->gone,
                    "bytes", (json_int_t)file->bytes, "rows",
                    (json_int_t)file->sum.rows, "digest", digest);
    if (out == NULL || file->base)
        return out;
    if (json_object_set_new(out, "from",
                            json_integer((json_int_t)file->from)) == 0)
        return out;
    json_decref(out);
    return NULL;
}

static json_t *feed_index_json(const struct table_feed *f)
{
    json_t *list = json_array();
    bool whole = list != NULL;

    for (size_t i = 0; whole && i < f->count; i++)
        whole = json_array_append_new(list, feed_file_json(&f->files[i])) == 0;
    if (!whole) {
        json_decref(list);
        return NULL;
    }
    return json_pack("{s:i, s:s, s:s, s:s, s:I, s:I, s:o}", "format",
                     FEED_FORMAT, "id", f->id, "job", f->job, "table", f->table,
                     "dim", (json_int_t)f->dim, "cut",
                     (json_int_t)f->files[f->count - 1].cut, "files", list);
}

enum sl_err feed_index_write(const struct table_feed *f, struct sl_error *err)
{
    struct buf text = BUF_INIT;
    char *path = fs_join(f->folder, FEED_INDEX);
    json_t *root = feed_index_json(f);
    enum sl_err rc = path != NULL && root != NULL &&
                             sl_json_write(&text, root, true) == SL_OK
                         ? SL_OK
                         : sl_no_memory(err);

    if (rc == SL_OK)
        rc = fs_write_durable(fs_posix(), path, text.data, text.len, err);
    json_decref(root);
    buf_release(&text);
    sl_free(path);
    return rc;
}
