// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_manifest.c -- manifests: their names, their text,
// and their durable writing.
#include "coordinator/journal/journal_manifest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "proto/manifest.h"
#include "proto/pbjson.h"

// Appends a job's name. The spec's check makes it a DNS label; a name that came
// in another way cannot lead out of the store.
static enum sl_err append_name(struct buf *out, const char *name)
{
    enum sl_err rc = SL_OK;

    for (; rc == SL_OK && *name != '\0'; name++)
        rc = buf_append_char(
            out, isalnum((unsigned char)*name) || *name == '-' ? *name : '_');
    return rc;
}

enum sl_err manifest_folder(struct buf *out, const char *store,
                            const char *name, uint64_t id, uint64_t uid)
{
    enum sl_err rc = buf_appendf(out, "%s/", store);

    if (rc == SL_OK)
        rc = append_name(out, name);
    if (rc == SL_OK)
        rc = buf_appendf(out, "-j-%llu-%08x", (unsigned long long)id,
                         (unsigned)(uint32_t)uid);
    return rc;
}

enum sl_err manifest_path(struct buf *out, const char *store, const char *name,
                          uint64_t id, uint64_t uid, uint64_t cut)
{
    enum sl_err rc = manifest_folder(out, store, name, id, uid);

    if (rc == SL_OK)
        rc = buf_appendf(out, "/cut-%llu.json", (unsigned long long)cut);
    return rc;
}

// ---- text

// Sets a key; jansson's *_new calls take the value, also when they fail.
static enum sl_err manifest_set_key(json_t *object, const char *key,
                                    json_t *value)
{
    return json_object_set_new(object, key, value) == 0 ? SL_OK : SL_ENOMEM;
}

static enum sl_err set_msg(json_t *object, const char *key,
                           const ProtobufCMessage *msg)
{
    json_t *value = NULL;
    enum sl_err rc = pbjson_write(&value, msg);

    return rc == SL_OK ? manifest_set_key(object, key, value) : rc;
}

static enum sl_err set_list(json_t *object, const char *key,
                            ProtobufCMessage *const *list, size_t count)
{
    json_t *array = json_array(), *value = NULL;
    enum sl_err rc = array == NULL ? SL_ENOMEM : SL_OK;

    for (size_t i = 0; rc == SL_OK && i < count; i++) {
        rc = pbjson_write(&value, list[i]);
        if (rc == SL_OK && json_array_append_new(array, value) != 0)
            rc = SL_ENOMEM;
    }
    if (rc == SL_OK)
        return manifest_set_key(object, key, array);
    json_decref(array);
    return rc;
}

// Adds a shard as CheckpointShard has it, but with its checksum as people (and
// sha256sum) write it, and with its counts.
static enum sl_err manifest_add_shard(json_t *array,
                                      const Sluice__V1__CheckpointShard *shard,
                                      const Sluice__V1__ShardCounts *counts)
{
    char hex[SHA256_HEX];
    json_t *value = NULL;
    enum sl_err rc = pbjson_write(&value, &shard->base);

    if (rc != SL_OK)
        return rc;
    hex_encode(hex, shard->sha256.data, shard->sha256.len);
    rc = manifest_set_key(value, "sha256", json_string(hex));
    if (rc == SL_OK)
        rc = set_msg(value, "counts", &counts->base);
    if (rc == SL_OK)
        return json_array_append_new(array, value) == 0 ? SL_OK : SL_ENOMEM;
    json_decref(value);
    return rc;
}

static enum sl_err set_shards(json_t *object, const struct manifest *m)
{
    json_t *array = json_array();
    enum sl_err rc = array == NULL ? SL_ENOMEM : SL_OK;

    for (size_t i = 0; rc == SL_OK && i < m->checkpoint->n_shards; i++)
        rc = manifest_add_shard(array, m->checkpoint->shards[i],
                                m->counts->shards[i]->counts);
    if (rc == SL_OK)
        return manifest_set_key(object, "shards", array);
    json_decref(array);
    return rc;
}

static enum sl_err manifest_set_head(json_t *o, const struct manifest *m)
{
    const Sluice__V1__Checkpoint *c = m->checkpoint;
    char uid[24];
    enum sl_err rc;

    snprintf(uid, sizeof(uid), "0x%016llx", (unsigned long long)m->job_uid);
    rc = manifest_set_key(o, "format",
                          json_integer(m->layout->rows_shards > 0 ? 2 : 1));
    if (rc == SL_OK)
        rc = manifest_set_key(o, "program",
                              json_string("sluice " SLUICE_VERSION));
    if (rc == SL_OK)
        rc = manifest_set_key(o, "job", json_integer((json_int_t)m->job));
    if (rc == SL_OK)
        rc = manifest_set_key(o, "job_name", json_string(m->job_name));
    if (rc == SL_OK)
        rc = manifest_set_key(o, "job_uid", json_string(uid));
    if (rc == SL_OK)
        rc = manifest_set_key(o, "job_incarnation",
                              json_integer((json_int_t)m->job_incarnation));
    if (rc == SL_OK)
        rc = manifest_set_key(o, "term", json_integer((json_int_t)m->term));
    if (rc == SL_OK)
        rc = manifest_set_key(o, "cut", json_integer((json_int_t)c->cut));
    if (rc == SL_OK)
        rc = manifest_set_key(o, "unix_time", json_real(c->unix_time));
    if (rc == SL_OK)
        rc = manifest_set_key(o, "epoch", json_integer(c->epoch));
    if (rc == SL_OK)
        rc = manifest_set_key(o, "steps", json_integer((json_int_t)c->steps));
    if (rc == SL_OK)
        rc = manifest_set_key(o, "complete", json_boolean(c->complete));
    return rc;
}

static enum sl_err set_body(json_t *o, const struct manifest *m)
{
    Sluice__V1__Geometry geometry = wire_geometry(m->schedule);
    enum sl_err rc = set_msg(o, "spec", &m->spec->base);

    if (rc == SL_OK)
        rc = set_msg(o, "geometry", &geometry.base);
    if (rc == SL_OK)
        rc = set_list(o, "variables",
                      (ProtobufCMessage *const *)m->layout->variables,
                      m->layout->n_variables);
    if (rc == SL_OK)
        rc = set_list(o, "pieces", (ProtobufCMessage *const *)m->layout->pieces,
                      m->layout->n_pieces);
    if (rc == SL_OK && m->layout->rows_shards > 0)
        rc = manifest_set_key(o, "rows_shards",
                              json_integer(m->layout->rows_shards));
    if (rc == SL_OK)
        rc = set_shards(o, m);
    return rc;
}

enum sl_err manifest_text(struct buf *out, const struct manifest *m)
{
    json_t *o = json_object();
    enum sl_err rc = o == NULL ? SL_ENOMEM : manifest_set_head(o, m);

    if (rc == SL_OK)
        rc = set_body(o, m);
    if (rc == SL_OK)
        rc = sl_json_write(out, o, true);
    if (rc == SL_OK)
        rc = buf_append_char(out, '\n');
    json_decref(o);
    return rc;
}

// ---- file

enum sl_err manifest_write(struct fs *fs, const char *path,
                           const struct buf *text, struct sl_error *err)
{
    char *folder;
    enum sl_err rc;

    if (text->len > MANIFEST_BYTES) // manifest_load would not read it
        return sl_fail(err, SL_ERANGE, "%s: %zu bytes; it may have %zu", path,
                       text->len, MANIFEST_BYTES);
    folder = fs_dirname(path);
    if (folder == NULL)
        return sl_fail(err, SL_ENOMEM, "%s", path);
    rc = fs_mkdirs(fs, folder, err);
    sl_free(folder);
    if (rc != SL_OK)
        return rc;
    return fs_write_new(fs, path, text->data, text->len, err);
}

static enum sl_err sync_folder(struct fs *fs, const char *path,
                               struct sl_error *err)
{
    char *folder = fs_dirname(path);
    enum sl_err rc;

    if (folder == NULL)
        return sl_fail(err, SL_ENOMEM, "%s", path);
    rc = fs_sync_dir(fs, folder, err);
    sl_free(folder);
    return rc;
}

enum sl_err manifest_remove(struct fs *fs, const char *path,
                            struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc = fs_unlink(fs, path, &why);

    if (rc != SL_OK && rc != SL_ENOENT)
        return sl_fail(err, rc, "%s", why.text);
    // A call before this one may have removed it, and failed to sync.
    rc = sync_folder(fs, path, &why);
    return rc == SL_OK || rc == SL_ENOENT ? SL_OK
                                          : sl_fail(err, rc, "%s", why.text);
}

enum sl_err manifest_settle(struct fs *fs, const char *path, bool *there,
                            struct sl_error *err)
{
    struct fs_stat st;
    enum sl_err rc = fs_stat_path(fs, path, &st, err);

    if (rc == SL_ENOENT) {
        *there = false;
        return SL_OK;
    }
    if (rc == SL_OK)
        rc = sync_folder(fs, path, err);
    if (rc == SL_OK)
        *there = true;
    return rc;
}

static enum sl_err look_at_name(void *arg, const char *name)
{
    uint64_t *highest = arg;
    unsigned long long n;
    int end = 0;

    if (sscanf(name, "cut-%llu.json%n", &n, &end) == 1 && end > 0 &&
        name[end] == '\0' && n > *highest)
        *highest = n;
    return SL_OK;
}

// Lists a folder, if it exists. One that cannot be read is an error, not a
// missing one.
static enum sl_err list_if_there(struct fs *fs, const char *folder,
                                 fs_name_fn fn, void *arg, struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc = fs_list(fs, folder, fn, arg, &why);

    if (rc != SL_OK && rc != SL_ENOENT && err != NULL)
        *err = why;
    return rc == SL_ENOENT ? SL_OK : rc;
}

enum sl_err manifest_highest(struct fs *fs, const char *folder, uint64_t *cut,
                             struct sl_error *err)
{
    uint64_t highest = 0;
    enum sl_err rc = list_if_there(fs, folder, look_at_name, &highest, err);

    if (rc == SL_OK)
        *cut = highest;
    return rc;
}

// Reads ID of a folder NAME-j-ID-UID; a name may hold such a piece itself, so
// the last one counts.
static enum sl_err manifest_note_folder_id(void *arg, const char *name)
{
    uint64_t *highest = arg;
    unsigned long long id;
    unsigned uid;
    int end;

    for (const char *at = name; (at = strstr(at, "-j-")) != NULL; at++) {
        end = 0;
        if (sscanf(at, "-j-%llu-%8x%n", &id, &uid, &end) == 2 && end > 0 &&
            at[end] == '\0' && id > *highest)
            *highest = id;
    }
    return SL_OK;
}

enum sl_err manifest_highest_job(struct fs *fs, const char *store,
                                 uint64_t *job, struct sl_error *err)
{
    uint64_t highest = 0;
    enum sl_err rc =
        list_if_there(fs, store, manifest_note_folder_id, &highest, err);

    if (rc == SL_OK)
        *job = highest;
    return rc;
}
