// SPDX-License-Identifier: Apache-2.0
// client/spec/weights.c -- does a file have the variables of a model?
#include "client/spec/weights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/tensorfile.h"
#include "proto/model.h"

static struct model_shape keras_shape(const struct model_variable *v)
{
    struct model_shape s = v->shape;

    for (uint32_t i = 0; i < v->keras_rank; i++)
        s.dim[i] = v->shape.dim[v->keras_order[i]];
    return s;
}

static void weights_shape_text(char out[MODEL_SHAPE_TEXT],
                               const struct tensor_info *t)
{
    struct model_shape s = {.rank = t->rank};

    if (s.rank > MODEL_RANK_MAX)
        s.rank = MODEL_RANK_MAX;
    for (uint32_t i = 0; i < s.rank; i++)
        s.dim[i] = t->shape[i];
    (void)model_shape_text(out, &s);
}

static bool same_shape(const struct model_shape *s, const struct tensor_info *t)
{
    if (s->rank != t->rank)
        return false;
    for (uint32_t i = 0; i < s->rank; i++)
        if (s->dim[i] != t->shape[i])
            return false;
    return true;
}

static enum sl_err weights_check_tensor(const struct tensorfile *f,
                                        const struct model_variable *v,
                                        const char *path, struct sl_error *err)
{
    const struct tensor_info *t = tensorfile_find(f, v->name);
    struct model_shape want = keras_shape(v);
    char a[MODEL_SHAPE_TEXT], b[MODEL_SHAPE_TEXT], place[TENSOR_PLACE_TEXT];

    if (t == NULL)
        return sl_fail(err, SL_EINVAL,
                       "%s has no tensor '%s', which is a variable of the "
                       "model; 'sluice validate FILE' lists them",
                       path, v->name);
    if (t->dtype == TENSOR_F32 && same_shape(&want, t))
        return tensor_not_finite(t, tensorfile_data(f, t), place)
                   ? sl_fail(
                         err, SL_EINVAL,
                         "%s: %s%s: a job that starts with it learns nothing; "
                         "export it from a checkpoint with finite values",
                         path, v->name, place)
                   : SL_OK;
    (void)model_shape_text(a, &want);
    weights_shape_text(b, t);
    return sl_fail(err, SL_EINVAL,
                   "%s: tensor '%s' is %s %s, the model's variable F32 %s in "
                   "Keras' layout",
                   path, v->name, tensor_dtype_name(t->dtype), b, a);
}

static enum sl_err weights_check_file(struct weights *w, struct fs *fs,
                                      const struct model *m,
                                      struct sl_error *err)
{
    struct tensorfile *f = NULL;
    enum sl_err rc = tensorfile_open(&f, fs, w->path, 0, err);

    for (uint32_t i = 0; rc == SL_OK && i < m->variables_count; i++)
        rc = weights_check_tensor(f, &m->variables[i], w->path, err);
    if (rc == SL_OK)
        w->others = tensorfile_count(f) - m->variables_count;
    tensorfile_close(f);
    return rc;
}

// Psservers look for it under its whole path.
enum sl_err weights_name(struct weights *w, const char *path,
                         struct sl_error *err)
{
    char *whole = realpath(path, NULL), *slash;
    int why = errno;

    *w = (struct weights){.path = NULL};
    if (whole == NULL)
        return sl_fail(err, why == ENOENT ? SL_ENOENT : SL_EIO, "%s: %s", path,
                       strerror(why));
    w->path = sl_strdup(whole);
    w->folder = sl_strdup(whole);
    free(whole);
    if (w->path == NULL || w->folder == NULL)
        return sl_no_memory(err);
    slash = strrchr(w->folder, '/');
    *slash = '\0';
    sluice__v1__weights_file__init(&w->file);
    w->file.folder = slash == w->folder ? (char *)"/" : w->folder;
    w->file.file = strrchr(w->path, '/') + 1;
    w->file.sha256 = (ProtobufCBinaryData){sizeof(w->sha256), w->sha256};
    return SL_OK;
}

enum sl_err weights_seal(struct weights *w, struct fs *fs, struct sl_error *err)
{
    struct fs_stat stat;
    enum sl_err rc = fs_stat_path(fs, w->path, &stat, err);

    if (rc != SL_OK)
        return rc;
    w->file.bytes = stat.bytes;
    return sha256_file(fs, w->path, w->sha256, err);
}

enum sl_err weights_read(struct weights *out, struct fs *fs, const char *path,
                         const Sluice__V1__JobSpec *spec, struct sl_error *err)
{
    struct model *m = NULL;
    enum sl_err rc = weights_name(out, path, err);

    if (rc == SL_OK)
        rc = model_make(&m, spec->model, err);
    if (rc == SL_OK)
        rc = weights_check_file(out, fs, m, err);
    if (rc == SL_OK)
        rc = weights_seal(out, fs, err);
    model_free(m);
    if (rc != SL_OK)
        weights_release(out);
    return rc;
}

void weights_release(struct weights *w)
{
    sl_free(w->path);
    sl_free(w->folder);
    *w = (struct weights){.path = NULL};
}
