// SPDX-License-Identifier: Apache-2.0
// state/snap/snap_weights.c -- values of a shard out of a file that is no
// snapshot: whole variables by name, in Keras' layout.
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/tensorfile.h"
#include "proto/model.h"
#include "state/snap/snap.h"

// ---- axes

// A variable as the file has it, seen along our axes.
struct axes {
    unsigned rank;
    uint64_t size[WIRE_RANK_MAX];   // of the piece, ours
    uint64_t stride[WIRE_RANK_MAX]; // in the file, of our axis
    uint64_t keras[WIRE_RANK_MAX];  // shape of the whole variable in the file
};

static unsigned ours_of(const struct plan_piece *p, unsigned axis)
{
    return p->keras_rank == 0 ? axis : p->keras_order[axis];
}

static void axes_of(struct axes *out, const struct plan_piece *p)
{
    uint64_t run = 1;

    out->rank = p->rank;
    for (unsigned i = 0; i < p->rank; i++) {
        unsigned ours = ours_of(p, i);

        out->size[i] = p->shape[i];
        out->keras[i] = ours == 0 ? p->of_rows : p->shape[ours];
    }
    for (unsigned i = p->rank; i-- > 0; run *= out->keras[i])
        out->stride[ours_of(p, i)] = run;
}

// Row by row of the piece, as our axes count, from the whole variable.
static void snap_weights_copy_rows(float *to, const uint8_t *from,
                                   const struct plan_piece *p,
                                   const struct axes *a)
{
    uint64_t index[WIRE_RANK_MAX] = {0};
    uint64_t at = a->rank == 0 ? 0 : p->first_row * a->stride[0];

    for (uint64_t n = 0; n < p->elements; n++) {
        memcpy(&to[n], from + at * sizeof(float), sizeof(float));
        for (unsigned i = a->rank; i-- > 0;) {
            at += a->stride[i];
            if (++index[i] < a->size[i])
                break;
            at -= a->stride[i] * a->size[i];
            index[i] = 0;
        }
    }
}

// ---- the file

static void snap_weights_shape_text(char out[MODEL_SHAPE_TEXT], unsigned rank,
                                    const uint64_t *shape)
{
    struct model_shape s = {.rank =
                                rank < MODEL_RANK_MAX ? rank : MODEL_RANK_MAX};

    memcpy(s.dim, shape, s.rank * sizeof(s.dim[0]));
    (void)model_shape_text(out, &s);
}

static enum sl_err other_shape(const struct plan_piece *p, const struct axes *a,
                               const struct tensor_info *t,
                               struct sl_error *err)
{
    char want[MODEL_SHAPE_TEXT], has[MODEL_SHAPE_TEXT];

    snap_weights_shape_text(want, a->rank, a->keras);
    snap_weights_shape_text(has, t->rank, t->shape);
    return sl_fail(
        err, SL_EINVAL,
        "tensor '%s' is %s %s, the model's variable F32 %s in Keras' "
        "layout",
        p->name, tensor_dtype_name(t->dtype), has, want);
}

static bool snap_weights_are_finite(const float *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

// The whole tensor; sl_free.
static enum sl_err snap_weights_read_tensor(uint8_t **out,
                                            const struct tensorfile *f,
                                            const struct tensor_info *t,
                                            struct sl_error *err)
{
    size_t n = (size_t)(t->end - t->begin);
    uint8_t *bytes = sl_malloc(n);
    enum sl_err rc = bytes == NULL
                         ? sl_fail(err, SL_ENOMEM, "tensor '%s'", t->name)
                         : tensorfile_read(f, t, 0, bytes, n, err);

    if (rc == SL_OK)
        *out = bytes;
    else
        sl_free(bytes);
    return rc;
}

// Says which value of the tensor is not finite.
static enum sl_err snap_weights_find_nonfinite(const struct tensorfile *f,
                                               const struct tensor_info *t,
                                               struct sl_error *err)
{
    char place[TENSOR_PLACE_TEXT] = ": a value is not finite";
    uint8_t *whole = NULL;
    enum sl_err rc = snap_weights_read_tensor(&whole, f, t, err);

    if (rc != SL_OK)
        return rc;
    (void)tensor_not_finite(t, whole, place);
    sl_free(whole);
    return sl_fail(err, SL_EINVAL, "%s%s", t->name, place);
}

static enum sl_err snap_weights_read_piece(float *values,
                                           const struct tensorfile *f,
                                           const struct plan_piece *p,
                                           struct sl_error *err)
{
    const struct tensor_info *t = tensorfile_find(f, p->name);
    uint8_t *whole = NULL;
    struct axes a;
    enum sl_err rc;

    if (t == NULL)
        return sl_fail(err, SL_EINVAL, "it has no tensor '%s'", p->name);
    axes_of(&a, p);
    if (t->dtype != TENSOR_F32 || t->rank != a.rank ||
        memcmp(t->shape, a.keras, a.rank * sizeof(a.keras[0])) != 0)
        return other_shape(p, &a, t, err);
    if (p->keras_rank == 0) {
        rc = tensorfile_read(f, t, p->offset * sizeof(float), values + p->first,
                             p->elements * sizeof(float), err);
    } else {
        rc = snap_weights_read_tensor(&whole, f, t, err);
        if (rc == SL_OK)
            snap_weights_copy_rows(values + p->first, whole, p, &a);
        sl_free(whole);
    }
    if (rc == SL_OK && !snap_weights_are_finite(values + p->first, p->elements))
        rc = snap_weights_find_nonfinite(f, t, err);
    return rc;
}

// ---- the whole file

static bool snap_weights_is_stopped(const struct snap_from *from)
{
    return from->stopped != NULL && from->stopped(from->arg);
}

static enum sl_err snap_weights_stop_error(struct sl_error *err)
{
    return sl_fail(err, SL_ECANCELED, "the job needs these weights no longer");
}

static enum sl_err check_size(struct fs_file *file, uint64_t most,
                              uint64_t *bytes, struct sl_error *err)
{
    enum sl_err rc = fs_size(file, bytes, err);

    if (rc != SL_OK || most == 0 || *bytes <= most)
        return rc;
    return sl_fail(err, SL_ERANGE,
                   "%s is larger than the weights of this model, or grew since "
                   "it was submitted: the limit is %llu bytes",
                   file->path, (unsigned long long)most);
}

enum sl_err snap_weights_check(struct fs_file *file,
                               const struct plan_source *source,
                               const struct snap_from *from, uint64_t *bytes,
                               struct sl_error *err)
{
    struct sha256_part all = {.stopped = from->stopped, .arg = from->arg};
    enum sl_err rc = check_size(file, source->most_bytes, bytes, err);

    if (rc != SL_OK)
        return rc;
    all.bytes = *bytes;
    rc = sha256_part_is(file, &all, source->sha256, "job", err);
    return rc == SL_ECANCELED ? snap_weights_stop_error(err) : rc;
}

enum sl_err snap_weights(struct shard *s, struct fs_file *file, uint64_t bytes,
                         const struct snap_from *from, struct sl_error *err)
{
    struct tensorfile *f = NULL;
    enum sl_err rc = tensorfile_open_read(&f, file, bytes, 0, err);

    for (size_t i = 0; rc == SL_OK && i < s->plan.piece_count; i++)
        rc = snap_weights_is_stopped(from)
                 ? snap_weights_stop_error(err)
                 : snap_weights_read_piece(s->memory.values, f,
                                           &s->plan.pieces[i], err);
    tensorfile_close(f);
    return rc;
}
