// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_manifest_read.c -- a manifest, read back to start
// a job from.
//
// A person may have edited it: every value that is relied on later is checked
// here, as if it had come from the wire.
#include "coordinator/journal/journal_manifest.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "proto/layout.h"
#include "proto/manifest.h"
#include "proto/pbjson.h"
#include "proto/spec.h"

typedef Sluice__V1__CheckpointShard shard_t;

// ---- shards

static enum sl_err set_sha256(shard_t *shard, const char *hex)
{
    uint8_t *bytes = sl_malloc(SHA256_BYTES);

    if (bytes == NULL)
        return SL_ENOMEM;
    if (hex == NULL || hex_decode(bytes, SHA256_BYTES, hex) != SL_OK) {
        sl_free(bytes);
        return SL_ECORRUPT;
    }
    shard->sha256.data = bytes;
    shard->sha256.len = SHA256_BYTES;
    return SL_OK;
}

// Reads a shard: a CheckpointShard with its checksum in hex, and its counts.
static enum sl_err manifest_read_shard(shard_t **out,
                                       Sluice__V1__ShardCounts **counts,
                                       const json_t *value,
                                       struct sl_error *err)
{
    json_t *plain = json_copy((json_t *)value);
    const char *hex = json_string_value(json_object_get(value, "sha256"));
    ProtobufCMessage *shard = NULL, *numbers = NULL;
    enum sl_err rc;

    if (plain == NULL)
        return sl_no_memory(err);
    json_object_del(plain, "sha256");
    json_object_del(plain, "counts");
    rc = pbjson_read_checked(&shard, &sluice__v1__checkpoint_shard__descriptor,
                             plain, "shards", err);
    json_decref(plain);
    if (rc == SL_OK && set_sha256((shard_t *)shard, hex) != SL_OK)
        rc = sl_fail(err, SL_ECORRUPT, "shards: sha256 is no SHA-256");
    if (rc == SL_OK && ((shard_t *)shard)->file[0] == '\0')
        rc = sl_fail(err, SL_ECORRUPT, "shards: one names no file");
    if (rc == SL_OK)
        rc = pbjson_read_checked(
            &numbers, &sluice__v1__shard_counts__descriptor,
            json_object_get(value, "counts"), "counts", err);
    if (rc != SL_OK) {
        wire_free(shard);
        return rc;
    }
    *out = (shard_t *)shard;
    *counts = (Sluice__V1__ShardCounts *)numbers;
    return SL_OK;
}

static enum sl_err manifest_read_shards(struct manifest_found *m,
                                        Sluice__V1__Checkpoint *cut,
                                        const json_t *root,
                                        struct sl_error *err)
{
    const json_t *array = json_object_get(root, "shards");
    size_t n = json_array_size(array);
    enum sl_err rc = SL_OK;

    cut->shards = sl_calloc(n, sizeof(cut->shards[0]));
    m->counts = sl_calloc(n, sizeof(m->counts[0]));
    if (cut->shards == NULL || m->counts == NULL)
        return sl_no_memory(err);
    for (size_t i = 0; rc == SL_OK && i < n; i++) {
        rc = manifest_read_shard(&cut->shards[i], &m->counts[i],
                                 json_array_get(array, i), err);
        if (rc != SL_OK)
            break;
        cut->n_shards = m->shards = i + 1;
        if (cut->shards[i]->shard != i)
            rc = sl_fail(err, SL_ECORRUPT, "shards: %zu stands for shard %u", i,
                         cut->shards[i]->shard);
    }
    return rc;
}

// ---- all of it

static enum sl_err manifest_new_checkpoint(Sluice__V1__CheckpointsReply *reply,
                                           const char *path)
{
    Sluice__V1__Checkpoint *cut = wire_new(&sluice__v1__checkpoint__descriptor);

    reply->checkpoints = sl_calloc(1, sizeof(reply->checkpoints[0]));
    if (cut == NULL || reply->checkpoints == NULL) {
        sl_free(cut);
        return SL_ENOMEM;
    }
    reply->checkpoints[0] = cut;
    reply->n_checkpoints = 1;
    cut->manifest = sl_strdup(path);
    return cut->manifest == NULL ? SL_ENOMEM : SL_OK;
}

static enum sl_err manifest_read_numbers(struct manifest_found *m,
                                         const json_t *root,
                                         struct sl_error *err)
{
    Sluice__V1__CheckpointsReply *reply = m->source->cut;
    Sluice__V1__Checkpoint *cut = reply->checkpoints[0];
    uint64_t epoch = 0;
    enum sl_err rc = sl_json_u64(&reply->job, root, "job", err);

    if (rc == SL_OK)
        rc = sl_json_u64(&cut->cut, root, "cut", err);
    if (rc == SL_OK)
        rc = sl_json_u64(&cut->steps, root, "steps", err);
    if (rc == SL_OK)
        rc = sl_json_u64(&epoch, root, "epoch", err);
    cut->epoch = epoch > UINT32_MAX ? UINT32_MAX : (uint32_t)epoch;
    if (rc == SL_OK &&
        sscanf(json_string_value(json_object_get(root, "job_uid")) == NULL
                   ? ""
                   : json_string_value(json_object_get(root, "job_uid")),
               "0x%" SCNx64, &m->source->job_uid) != 1)
        rc = sl_fail(err, SL_ECORRUPT, "'job_uid' is missing");
    return rc;
}

// Checks that the pieces lie as a layout does, and that there is a file for
// each shard.
static enum sl_err
manifest_check_layout(const Sluice__V1__CheckpointsReply *reply,
                      struct sl_error *err)
{
    struct layout layout = {0};
    size_t shards = reply->checkpoints[0]->n_shards;
    enum sl_err rc =
        layout_make(&layout, reply->variables, reply->n_variables,
                    reply->pieces, reply->n_pieces, reply->rows_shards, err);

    if (rc == SL_OK && layout.shards_count != shards)
        rc = sl_fail(err, SL_ECORRUPT, "%zu shards, %u are right", shards,
                     layout.shards_count);
    layout_release(&layout);
    return rc;
}

// Checks that the counts are of the job that the manifest describes.
static enum sl_err check_counted(const struct manifest_found *m,
                                 struct sl_error *err)
{
    const Sluice__V1__Checkpoint *cut = m->source->cut->checkpoints[0];
    struct schedule schedule = wire_schedule(m->source->geometry);
    enum sl_err rc = schedule_check(&schedule, err);

    if (rc != SL_OK)
        return rc;
    if (cut->epoch > schedule.epochs || cut->steps > schedule_steps(&schedule))
        return sl_fail(err, SL_ECORRUPT,
                       "%u epochs and %" PRIu64
                       " steps are more than the job has",
                       cut->epoch, cut->steps);
    return SL_OK;
}

static enum sl_err read_root(struct manifest_found *m, const json_t *root,
                             struct sl_error *err)
{
    Sluice__V1__CheckpointsReply *reply = m->source->cut;
    ProtobufCMessage *one = NULL;
    enum sl_err rc = manifest_read_numbers(m, root, err);

    if (rc == SL_OK)
        rc = manifest_layout(reply, root, err);
    if (rc == SL_OK)
        rc = manifest_read_shards(m, reply->checkpoints[0], root, err);
    if (rc == SL_OK)
        rc = manifest_check_layout(reply, err);
    if (rc == SL_OK)
        rc = pbjson_read_checked(&one, &sluice__v1__geometry__descriptor,
                                 json_object_get(root, "geometry"), "geometry",
                                 err);
    if (rc == SL_OK) {
        m->source->geometry = (Sluice__V1__Geometry *)one;
        rc = check_counted(m, err);
    }
    if (rc == SL_OK)
        rc = pbjson_read_checked(&one, &sluice__v1__job_spec__descriptor,
                                 json_object_get(root, "spec"), "spec", err);
    if (rc == SL_OK) {
        m->spec = (Sluice__V1__JobSpec *)one;
        rc = spec_check(m->spec, err);
    }
    return rc;
}

enum sl_err manifest_load(struct manifest_found *out, struct fs *fs,
                          const char *path, struct sl_error *err)
{
    struct manifest_found m = {0};
    json_t *root = NULL;
    enum sl_err rc = manifest_parse(&root, fs, path, err);

    if (rc != SL_OK)
        return rc;
    m.source = wire_new(&sluice__v1__resume_source__descriptor);
    if (m.source != NULL)
        m.source->cut = wire_new(&sluice__v1__checkpoints_reply__descriptor);
    rc = m.source == NULL || m.source->cut == NULL
             ? SL_ENOMEM
             : manifest_new_checkpoint(m.source->cut, path);
    if (rc == SL_OK) {
        rc = read_root(&m, root, err);
        if (rc != SL_OK) // a missing or wrong value was edited
            rc = sl_prefix(
                err, rc == SL_ENOTSUP || rc == SL_ENOMEM ? rc : SL_ECORRUPT,
                "%s", path);
    }
    json_decref(root);
    if (rc == SL_OK)
        *out = m;
    else
        manifest_found_release(&m);
    return rc;
}

void manifest_found_release(struct manifest_found *m)
{
    for (size_t i = 0; i < m->shards; i++)
        wire_free((ProtobufCMessage *)m->counts[i]);
    sl_free(m->counts);
    wire_free((ProtobufCMessage *)m->source);
    wire_free((ProtobufCMessage *)m->spec);
    *m = (struct manifest_found){0};
}
