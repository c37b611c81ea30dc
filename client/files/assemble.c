// SPDX-License-Identifier: Apache-2.0
// client/files/assemble.c -- the join of a cut's shards: rows go back to their
// variables, in Keras' layout, one variable at a time.
#include "client/files/assemble.h"

#include <string.h>

#include "common/base/hash.h"
#include "common/base/mem.h"

enum sl_err assemble_names_all(const Sluice__V1__Checkpoint *cut,
                               const struct layout *layout,
                               struct sl_error *err)
{
    bool *named = sl_calloc(layout->shards_count, sizeof(*named));
    enum sl_err rc = SL_OK;

    if (named == NULL)
        return sl_no_memory(err);
    if (cut->n_shards != layout->shards_count)
        rc = sl_fail(
            err, SL_ECORRUPT, "cut %llu names %zu shards, %u are right",
            (unsigned long long)cut->cut, cut->n_shards, layout->shards_count);
    for (size_t i = 0; rc == SL_OK && i < cut->n_shards; i++) {
        uint32_t shard = cut->shards[i]->shard;

        if (shard >= layout->shards_count || named[shard])
            rc = sl_fail(err, SL_ECORRUPT, "cut %llu names shard %u %s",
                         (unsigned long long)cut->cut, shard,
                         shard < layout->shards_count ? "twice"
                                                      : "which is not there");
        else
            named[shard] = true;
    }
    sl_free(named);
    return rc;
}

enum sl_err assemble_payload(float *flat, const struct layout *layout,
                             uint32_t shard, const struct sl_slices *payload,
                             struct sl_error *err)
{
    const struct layout_shard *s;

    if (shard >= layout->shards_count)
        return sl_fail(err, SL_ECORRUPT, "there is no shard %u", shard);
    s = &layout->shards[shard];
    if (payload->bytes != s->elements * sizeof(float))
        return sl_fail(
            err, SL_ECORRUPT, "shard %u: %zu bytes came, %llu are right", shard,
            payload->bytes, (unsigned long long)(s->elements * sizeof(float)));
    slices_copy(flat + s->first, payload);
    return SL_OK;
}

// ---- a snapshot file

static enum sl_err copy_piece(float *flat, const struct layout *layout,
                              const struct layout_piece *piece,
                              const struct tensorfile *file, const char *path,
                              struct sl_error *err)
{
    const char *name = layout->variables[piece->variable].name;
    const struct tensor_info *t = tensorfile_find(file, name);
    size_t bytes = piece->elements * sizeof(float);

    if (t == NULL)
        return sl_fail(err, SL_ECORRUPT, "%s: it lacks '%s'", path, name);
    if (t->dtype != TENSOR_F32 || t->end - t->begin != bytes)
        return sl_fail(err, SL_ECORRUPT,
                       "%s: '%s' has another size or type "
                       "than the cut says",
                       path, name);
    memcpy(flat + piece->first, tensorfile_data(file, t), bytes);
    return SL_OK;
}

enum sl_err assemble_snapshot(float *flat, const struct layout *layout,
                              uint32_t shard, struct fs *fs, const char *path,
                              const uint8_t *sha256, struct sl_error *err)
{
    const struct layout_shard *s;
    struct tensorfile *file = NULL;
    enum sl_err rc = SL_OK;

    if (shard >= layout->shards_count)
        return sl_fail(err, SL_ECORRUPT, "%s: there is no shard %u", path,
                       shard);
    s = &layout->shards[shard];
    if (sha256 != NULL)
        rc = sha256_file_is(fs, path, sha256, "cut", err);
    if (rc == SL_OK)
        rc = tensorfile_open(&file, fs, path, TENSORFILE_HEADER_OURS, err);
    if (rc != SL_OK)
        return rc;
    rc = tensorfile_verify(file, err);
    for (uint32_t i = 0; rc == SL_OK && i < s->pieces; i++)
        rc = copy_piece(flat, layout, &layout->pieces[s->first_piece + i], file,
                        path, err);
    tensorfile_close(file);
    return rc;
}

// ---- the export file

static void assemble_tensor_info(struct tensor_info *t,
                                 const struct layout_variable *v)
{
    struct model_shape shape = layout_keras_shape(v);

    *t = (struct tensor_info){
        .name = v->name, .dtype = TENSOR_F32, .rank = shape.rank};
    for (uint32_t i = 0; i < shape.rank; i++)
        t->shape[i] = shape.dim[i];
}

static enum sl_err assemble_append_tensor(struct tensorfile_writer *w,
                                          const struct layout *layout,
                                          const float *flat,
                                          const struct tensor_info *t,
                                          float *space, struct sl_error *err)
{
    const struct layout_variable *v =
        &layout->variables[layout_find(layout, t->name)];

    layout_to_keras(v, space, flat + v->first);
    return tensorfile_append(w, space, v->elements * sizeof(float), err);
}

enum sl_err assemble_write(struct fs *fs, const char *path,
                           const struct layout *layout, const float *flat,
                           const struct tensor_meta *meta, size_t meta_count,
                           uint64_t *bytes, struct sl_error *err)
{
    uint32_t count = layout->variables_count;
    struct tensor_info *tensors = sl_calloc(count, sizeof(*tensors));
    struct tensorfile_writer *w = NULL;
    uint64_t largest = 0;
    float *space = NULL;
    enum sl_err rc = tensors != NULL ? SL_OK : SL_ENOMEM;

    for (uint32_t i = 0; rc == SL_OK && i < count; i++) {
        assemble_tensor_info(&tensors[i], &layout->variables[i]);
        if (layout->variables[i].elements > largest)
            largest = layout->variables[i].elements;
    }
    if (rc == SL_OK)
        space = sl_malloc_array(largest, sizeof(*space));
    if (space == NULL) {
        sl_free(tensors);
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", path);
    }
    rc = tensorfile_layout(tensors, count, err);
    if (rc == SL_OK)
        rc = tensorfile_create(&w, fs, path, tensors, count, meta, meta_count,
                               false, err);
    for (uint32_t i = 0; rc == SL_OK && i < count; i++)
        rc = assemble_append_tensor(w, layout, flat, &tensors[i], space, err);
    if (rc == SL_OK)
        rc = tensorfile_finish(w, bytes, err);
    else
        tensorfile_abort(w);
    sl_free(space);
    sl_free(tensors);
    return rc;
}
