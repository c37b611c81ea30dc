// SPDX-License-Identifier: Apache-2.0
// proto/manifest.c -- the checks with which each reader of a manifest begins.
#include "proto/manifest.h"

#include "common/base/mem.h"
#include "proto/pbjson.h"
#include "proto/wire.h"

static enum sl_err manifest_check_format(const json_t *root, const char *path,
                                         struct sl_error *err)
{
    uint64_t format = 0;
    enum sl_err rc = sl_json_u64(&format, root, "format", err);

    if (rc != SL_OK)
        return sl_prefix(err, SL_ECORRUPT, "%s: not a manifest", path);
    if (format > MANIFEST_FORMAT)
        return sl_fail(err, SL_ENOTSUP,
                       "%s: format %llu is newer than this sluice knows (%d)",
                       path, (unsigned long long)format, MANIFEST_FORMAT);
    return SL_OK;
}

enum sl_err manifest_parse(json_t **out, struct fs *fs, const char *path,
                           struct sl_error *err)
{
    struct sl_json_limits limits = {.bytes = MANIFEST_BYTES};
    struct buf text = BUF_INIT;
    json_t *root = NULL;
    enum sl_err rc = fs_read_all(fs, path, MANIFEST_BYTES, &text, err);

    if (rc == SL_OK)
        rc =
            sl_json_parse(&root, path, buf_text(&text), text.len, &limits, err);
    if (rc == SL_OK)
        rc = manifest_check_format(root, path, err);
    buf_release(&text);
    if (rc == SL_OK)
        *out = root;
    else
        json_decref(root);
    return rc;
}

// *list is made for all of the array; *count of them are there, also after a
// failure.
static enum sl_err
manifest_read_list(ProtobufCMessage ***list, size_t *count,
                   const ProtobufCMessageDescriptor *descriptor,
                   const json_t *root, const char *key, struct sl_error *err)
{
    const json_t *array = json_object_get(root, key);
    size_t n = json_array_size(array);
    enum sl_err rc = SL_OK;

    if (n == 0)
        return sl_fail(err, SL_ECORRUPT, "'%s' is missing", key);
    *list = sl_calloc(n, sizeof(**list));
    if (*list == NULL)
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", key);
    for (*count = 0; rc == SL_OK && *count < n; *count += rc == SL_OK)
        rc = pbjson_read_checked(&(*list)[*count], descriptor,
                                 json_array_get(array, *count), key, err);
    return rc;
}

// Reads the number of shards that have rows of tables alone, which most
// manifests do not have.
static enum sl_err manifest_rows_shards(uint32_t *out, const json_t *root,
                                        struct sl_error *err)
{
    uint64_t n = 0;
    enum sl_err rc = json_object_get(root, "rows_shards") == NULL
                         ? SL_OK
                         : sl_json_u64(&n, root, "rows_shards", err);

    if (rc == SL_OK && n > WIRE_SHARDS_MAX)
        rc = sl_fail(err, SL_ECORRUPT, "'rows_shards' is above %d",
                     WIRE_SHARDS_MAX);
    *out = (uint32_t)n;
    return rc;
}

enum sl_err manifest_layout(Sluice__V1__CheckpointsReply *out,
                            const json_t *root, struct sl_error *err)
{
    enum sl_err rc = manifest_rows_shards(&out->rows_shards, root, err);

    // A job of tables alone has neither.
    if (rc != SL_OK || (out->rows_shards > 0 &&
                        json_array_size(json_object_get(root, "pieces")) == 0))
        return rc;
    rc = manifest_read_list(
        (ProtobufCMessage ***)&out->variables, &out->n_variables,
        &sluice__v1__variable__descriptor, root, "variables", err);
    if (rc == SL_OK)
        rc = manifest_read_list((ProtobufCMessage ***)&out->pieces,
                                &out->n_pieces, &sluice__v1__piece__descriptor,
                                root, "pieces", err);
    return rc;
}
