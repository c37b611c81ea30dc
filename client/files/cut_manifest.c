// SPDX-License-Identifier: Apache-2.0
// client/files/cut_manifest.c -- the reader of a manifest's layout and files
// for an export without a coordinator.
#include "client/files/cut_manifest.h"

#include <string.h>

#include "common/base/base64.h"
#include "common/base/buf.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "proto/manifest.h"
#include "proto/pbjson.h"
#include "proto/wire.h"

static enum sl_err read_layout(struct layout *out, const json_t *root,
                               const char *path, struct sl_error *err)
{
    Sluice__V1__CheckpointsReply *found =
        wire_new(&sluice__v1__checkpoints_reply__descriptor);
    enum sl_err rc;

    if (found == NULL)
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", path);
    rc = manifest_layout(found, root, err);
    if (rc == SL_OK)
        rc = layout_make(out, found->variables, found->n_variables,
                         found->pieces, found->n_pieces, found->rows_shards,
                         err);
    wire_free(&found->base);
    return rc == SL_OK ? SL_OK : sl_prefix(err, rc, "%s", path);
}

// ---- shards

static enum sl_err read_sha256(uint8_t out[SHA256_BYTES], const char *text)
{
    struct buf raw = BUF_INIT;
    enum sl_err rc = hex_decode(out, SHA256_BYTES, text);

    if (rc == SL_OK)
        return SL_OK;
    rc = base64_decode(&raw, text, strlen(text));
    if (rc == SL_OK && raw.len == SHA256_BYTES)
        memcpy(out, raw.data, SHA256_BYTES);
    else if (rc != SL_ENOMEM)
        rc = SL_ECORRUPT;
    buf_release(&raw);
    return rc;
}

static enum sl_err manifest_find_snapshot(char **out, struct fs *fs,
                                          const char *manifest,
                                          const char *folder, const char *file,
                                          struct sl_error *err)
{
    char *dir = fs_dirname(manifest), *path = fs_join(folder, file);
    char *beside = dir != NULL ? fs_join(dir, file) : NULL;
    enum sl_err rc = path != NULL && beside != NULL ? SL_OK : sl_no_memory(err);

    if (rc == SL_OK && !fs_exists(fs, path) && fs_exists(fs, beside)) {
        sl_free(path);
        path = beside;
        beside = NULL;
    }
    sl_free(dir);
    sl_free(beside);
    if (rc == SL_OK)
        *out = path;
    else
        sl_free(path);
    return rc;
}

static enum sl_err manifest_parse_shard(struct checkpoint_manifest *m,
                                        struct fs *fs, const json_t *value,
                                        const char *path, struct sl_error *err)
{
    const char *folder, *file, *sha256;
    uint64_t shard;
    struct manifest_shard *s;
    enum sl_err rc = sl_json_u64(&shard, value, "shard", err);

    if (rc == SL_OK)
        rc = sl_json_str(&folder, value, "folder", err);
    if (rc == SL_OK)
        rc = sl_json_str(&file, value, "file", err);
    if (rc == SL_OK)
        rc = sl_json_str(&sha256, value, "sha256", err);
    if (rc != SL_OK)
        return sl_prefix(err, SL_ECORRUPT, "%s: shards", path);
    if (shard >= m->layout.shards_count || m->shards[shard].path != NULL)
        return sl_fail(err, SL_ECORRUPT,
                       "%s: shard %llu appears twice, or is not of the layout",
                       path, (unsigned long long)shard);
    // A name that leads out of the folder is nothing that we wrote.
    if (strchr(file, '/') != NULL)
        return sl_fail(err, SL_ECORRUPT, "%s: '%s' is no file name", path,
                       file);
    s = &m->shards[shard];
    rc = read_sha256(s->sha256, sha256);
    if (rc == SL_ENOMEM)
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", path);
    if (rc != SL_OK)
        return sl_fail(err, SL_ECORRUPT, "%s: shard %llu: sha256 is no SHA-256",
                       path, (unsigned long long)shard);
    sl_json_u64(&s->steps, json_object_get(value, "counts"), "counted", NULL);
    return manifest_find_snapshot(&s->path, fs, path, folder, file, err);
}

static enum sl_err manifest_parse_shards(struct checkpoint_manifest *m,
                                         struct fs *fs, const json_t *root,
                                         const char *path, struct sl_error *err)
{
    const json_t *list = json_object_get(root, "shards");
    enum sl_err rc = SL_OK;

    if (json_array_size(list) != m->layout.shards_count)
        return sl_fail(err, SL_ECORRUPT, "%s: %zu shards, %u are right", path,
                       json_array_size(list), m->layout.shards_count);
    m->shards = sl_calloc(m->layout.shards_count, sizeof(*m->shards));
    if (m->shards == NULL)
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", path);
    for (size_t i = 0; rc == SL_OK && i < m->layout.shards_count; i++)
        rc = manifest_parse_shard(m, fs, json_array_get(list, i), path, err);
    return rc;
}

// ---- all of it

// Reads the job's spec; *out stays if this version cannot read it, or there is
// none. SL_ENOMEM.
static enum sl_err manifest_spec(Sluice__V1__JobSpec **out, const json_t *root,
                                 const char *path, struct sl_error *err)
{
    const json_t *value = json_object_get(root, "spec");
    ProtobufCMessage *spec = NULL;
    enum sl_err rc = value == NULL
                         ? SL_OK
                         : pbjson_read(&spec, &sluice__v1__job_spec__descriptor,
                                       value, NULL, NULL);

    if (rc == SL_ENOMEM)
        return sl_fail(err, rc, "%s: out of memory", path);
    if (rc == SL_OK)
        *out = (Sluice__V1__JobSpec *)spec;
    return SL_OK;
}

enum sl_err manifest_read(struct checkpoint_manifest *out, struct fs *fs,
                          const char *path, struct sl_error *err)
{
    struct checkpoint_manifest m = {.cut = 0};
    json_t *root = NULL;
    enum sl_err rc = manifest_parse(&root, fs, path, err);

    if (rc == SL_OK)
        rc = read_layout(&m.layout, root, path, err);
    if (rc == SL_OK)
        rc = manifest_parse_shards(&m, fs, root, path, err);
    if (rc == SL_OK) {
        rc = sl_json_u64(&m.cut, root, "cut", err);
        if (rc == SL_OK)
            rc = sl_json_u64(&m.job, root, "job", err);
        if (rc != SL_OK)
            rc = sl_prefix(err, SL_ECORRUPT, "%s", path);
    }
    if (rc == SL_OK)
        rc = manifest_spec(&m.spec, root, path, err);
    if (rc == SL_OK)
        *out = m;
    else
        manifest_release(&m);
    json_decref(root);
    return rc;
}

void manifest_release(struct checkpoint_manifest *m)
{
    for (uint32_t i = 0; m->shards != NULL && i < m->layout.shards_count; i++)
        sl_free(m->shards[i].path);
    sl_free(m->shards);
    wire_free((ProtobufCMessage *)m->spec);
    layout_release(&m->layout);
    *m = (struct checkpoint_manifest){.cut = 0};
}
