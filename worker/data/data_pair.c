// SPDX-License-Identifier: Apache-2.0
// worker/data/data_pair.c -- two arrays, samples and labels, as one source:
// idx, npy, npz; and the arrays of ids beside them in an npz.
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "worker/data/data_array.h"
#include "worker/data/data_ids.h"
#include "worker/data/data_source.h"

#define LABELS 65536 // labels between two looks whether to go on

struct array_pair {
    struct data data;
    struct array x, y;
    struct array weights; // path NULL: none
    uint8_t *scratch;     // one row of any, for arrays that lie in a file
    struct id_array *ids; // as many as the data has id columns; NULL: none
    struct buf id_scratch;
};

// Writes the classes of a sample's rows, which lie at `raw`.
static enum sl_err pair_put_classes(const struct array_pair *p,
                                    const uint8_t *raw, uint8_t *y,
                                    struct sl_error *err)
{
    size_t rows = (size_t)p->y.row_elements, size = array_type_bytes(p->y.type);
    size_t each = data_row_bytes(&p->data);
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < rows; i++)
        rc = data_put_class(&p->data, array_double(&p->y, raw + i * size),
                            y + i * each, err);
    return rc;
}

static enum sl_err read_label(struct array_pair *p, uint64_t number, void *y,
                              struct sl_error *err)
{
    const struct data_want *want = &p->data.want;
    const uint8_t *raw = NULL;
    enum sl_err rc = array_row(&p->y, number, p->scratch, &raw, err);

    if (rc != SL_OK)
        return rc;
    if (want->labels == DATA_VALUES ||
        p->y.row_elements != data_want_rows(want)) {
        array_floats(&p->y, raw, (size_t)p->y.row_elements, 1, 0, y);
        return SL_OK;
    }
    rc = pair_put_classes(p, raw, y, err);
    if (rc != SL_OK)
        return sl_prefix(err, rc, "%s, sample %llu", p->y.path,
                         (unsigned long long)number);
    return SL_OK;
}

// Reads the weights of a sample: one weight for all rows, or one for each row.
static enum sl_err pair_read_weights(struct array_pair *p, uint64_t number,
                                     struct sl_error *err)
{
    size_t size = array_type_bytes(p->weights.type);
    bool one = p->weights.row_elements == 1;
    const uint8_t *raw = NULL;
    enum sl_err rc = SL_OK;

    if (p->data.weights == NULL)
        return SL_OK;
    rc = array_row(&p->weights, number, p->scratch, &raw, err);
    for (size_t i = 0; rc == SL_OK && i < data_want_rows(&p->data.want); i++) {
        double weight = array_double(&p->weights, raw + (one ? 0 : i * size));

        rc = data_check_weight(weight, err);
        if (rc != SL_OK)
            return sl_prefix(err, rc, "%s, sample %llu", p->weights.path,
                             (unsigned long long)number);
        p->data.weights[i] = (float)weight;
    }
    return rc;
}

static enum sl_err pair_read_ids(struct array_pair *p, uint64_t number,
                                 struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < p->data.ids_count; i++)
        rc = id_array_read(&p->ids[i], number, &p->id_scratch,
                           &p->data.ids[i].bag, err);
    return rc;
}

// Reads a sample. Elements that are wanted as they are go straight to their
// place, without scratch.
static enum sl_err pair_read(struct data *d, uint64_t number, void *x, void *y,
                             struct sl_error *err)
{
    struct array_pair *p = sl_container_of(d, struct array_pair, data);
    const uint8_t *raw = NULL;
    bool whole = d->u8 || array_is_floats(&p->x);
    enum sl_err rc =
        array_row(&p->x, number, whole ? x : p->scratch, &raw, err);

    if (rc != SL_OK)
        return rc;
    if (!d->u8)
        array_floats(&p->x, raw, d->features, d->scale, d->offset, x);
    else if (raw != x)
        memcpy(x, raw, d->features);
    rc = read_label(p, number, y, err);
    if (rc == SL_OK)
        rc = pair_read_weights(p, number, err);
    return rc == SL_OK ? pair_read_ids(p, number, err) : rc;
}

// Returns the array in which a sample's row, or its first offset, lies.
static const struct array *pair_id_rows(const struct array_pair *p, size_t i)
{
    const struct id_array *a = &p->ids[i];

    return a->offsets.path != NULL ? &a->offsets : &a->values;
}

static void pair_soon(struct data *d, uint64_t number)
{
    struct array_pair *p = sl_container_of(d, struct array_pair, data);

    array_soon(&p->x, number);
    array_soon(&p->y, number);
    array_soon(&p->weights, number);
    for (size_t i = 0; p->ids != NULL && i < d->ids_count; i++)
        array_soon(pair_id_rows(p, i), number);
}

static void pair_expect(struct data *d, uint64_t number)
{
    struct array_pair *p = sl_container_of(d, struct array_pair, data);

    array_expect(&p->x, number);
    array_expect(&p->y, number);
    array_expect(&p->weights, number);
    for (size_t i = 0; p->ids != NULL && i < d->ids_count; i++)
        array_expect(pair_id_rows(p, i), number);
}

static uint64_t array_bytes_in_memory(const struct array *a)
{
    return a->memory != NULL ? a->bytes : 0;
}

static uint64_t pair_memory(const struct data *d)
{
    const struct array_pair *p =
        sl_container_of((struct data *)(uintptr_t)d, struct array_pair, data);
    uint64_t bytes = array_bytes_in_memory(&p->x) +
                     array_bytes_in_memory(&p->y) +
                     array_bytes_in_memory(&p->weights);

    for (size_t i = 0; p->ids != NULL && i < d->ids_count; i++)
        bytes += array_bytes_in_memory(&p->ids[i].values) +
                 array_bytes_in_memory(&p->ids[i].offsets);
    return bytes;
}

static void pair_release(struct data *d)
{
    struct array_pair *p = sl_container_of(d, struct array_pair, data);

    array_release(&p->x);
    array_release(&p->y);
    array_release(&p->weights);
    sl_free(p->scratch);
    for (size_t i = 0; p->ids != NULL && i < d->ids_count; i++)
        id_array_release(&p->ids[i]);
    sl_free(p->ids);
    buf_release(&p->id_scratch);
}

static const struct data_ops pair_ops = {
    .read = pair_read,
    .soon = pair_soon,
    .expect = pair_expect,
    .memory = pair_memory,
    .release = pair_release,
};

// Writes a shape as "(60000, 28, 28)".
static const char *pair_shape_text(char *out, size_t size, unsigned nd,
                                   const uint64_t *dim)
{
    size_t n = (size_t)snprintf(out, size, "(");

    for (unsigned i = 0; i < nd && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%llu", i > 0 ? ", " : "",
                              (unsigned long long)dim[i]);
    if (n < size)
        snprintf(out + n, size - n, ")");
    return out;
}

// Returns true if rows fit the model. Dimensions of 1 are not compared ((28,
// 28) feeds a model of (28, 28, 1)), and a flat row of the right length fits
// every shape.
static bool pair_rows_fit(const struct array *a, const struct data_want *want)
{
    unsigned i = 1, k = 0;

    if (a->nd == 2 && want->rank > 1)
        return true;
    for (;;) {
        while (i < a->nd && a->dim[i] == 1)
            i++;
        while (k < want->rank && want->dim[k] == 1)
            k++;
        if (i == a->nd || k == want->rank)
            return i == a->nd && k == want->rank;
        if (a->dim[i++] != want->dim[k++])
            return false;
    }
}

// Checks that labels have as many numbers as the loss reads of a sample: a
// class for each row of outputs, or all outputs.
static enum sl_err pair_check_label_shape(const struct array_pair *p,
                                          struct sl_error *err)
{
    const struct data_want *want = &p->data.want;
    uint64_t rows = data_want_rows(want), have = p->y.row_elements;

    if (have == rows && want->labels != DATA_VALUES)
        return SL_OK;
    if (want->labels == DATA_INDEX && rows > 1)
        return sl_fail(err, SL_EINVAL,
                       "%s: %llu labels per sample are wanted, one for each "
                       "row of outputs, not %llu; for one a sample, put a "
                       "layer of type flatten before the dense ones",
                       p->y.path, (unsigned long long)rows,
                       (unsigned long long)have);
    if (have != rows * want->outputs && want->parts > 0)
        return sl_fail(err, SL_EINVAL,
                       "%s: labels are of %llu numbers, and the losses of the "
                       "outputs read %llu",
                       p->y.path, (unsigned long long)have,
                       (unsigned long long)want->outputs);
    if (have != rows * want->outputs)
        return sl_fail(err, SL_EINVAL,
                       "%s: labels of %llu numbers do not fit the model's %llu "
                       "outputs",
                       p->y.path, (unsigned long long)have,
                       (unsigned long long)(rows * want->outputs));
    if (want->labels == DATA_INDEX)
        return sl_fail(err, SL_EINVAL,
                       "%s: one label per sample is wanted, not %llu numbers; "
                       "one-hot labels go with categorical_crossentropy",
                       p->y.path, (unsigned long long)have);
    return SL_OK;
}

// Checks that an array, labels or weights, has as many rows as there are
// samples.
static enum sl_err pair_check_count(const struct array_pair *p,
                                    const struct array *a, struct sl_error *err)
{
    return a->rows == p->x.rows
               ? SL_OK
               : sl_fail(err, SL_EINVAL, "%s has %llu samples but %s has %llu",
                         p->x.path, (unsigned long long)p->x.rows, a->path,
                         (unsigned long long)a->rows);
}

static enum sl_err pair_check_weight_shape(const struct array_pair *p,
                                           struct sl_error *err)
{
    uint64_t rows = data_want_rows(&p->data.want);

    if (p->weights.path == NULL)
        return SL_OK;
    if (pair_check_count(p, &p->weights, err) != SL_OK)
        return SL_EINVAL;
    if (p->weights.row_elements == 1 || p->weights.row_elements == rows)
        return SL_OK;
    return sl_fail(
        err, SL_EINVAL, "%s: one weight per sample is wanted%s, not %llu",
        p->weights.path, rows > 1 ? ", or one for each row of outputs" : "",
        (unsigned long long)p->weights.row_elements);
}

static enum sl_err pair_check_shapes(const struct array_pair *p,
                                     struct sl_error *err)
{
    const struct data_want *want = &p->data.want;
    char have[128], need[128];

    if (p->x.row_elements != p->data.features || !pair_rows_fit(&p->x, want))
        return sl_fail(
            err, SL_EINVAL,
            "%s: samples of shape %s do not fit the model's input "
            "%s",
            p->x.path,
            pair_shape_text(have, sizeof(have), p->x.nd - 1, p->x.dim + 1),
            pair_shape_text(need, sizeof(need), want->rank, want->dim));
    if (pair_check_count(p, &p->y, err) != SL_OK)
        return SL_EINVAL;
    if (pair_check_weight_shape(p, err) != SL_OK)
        return SL_EINVAL;
    return pair_check_label_shape(p, err);
}

// Checks the labels that are in memory, so that one that is no class is found
// before anything is computed.
static enum sl_err pair_check_labels(struct array_pair *p, struct pulse *pulse,
                                     struct sl_error *err)
{
    uint8_t *y;
    enum sl_err rc = SL_OK;

    if (p->data.want.labels == DATA_VALUES || p->y.memory == NULL)
        return SL_OK; // read_label checks the classes it reads
    y = sl_malloc(data_label_bytes(&p->data));
    if (y == NULL)
        return sl_no_memory(err);
    for (uint64_t i = 0; i < p->data.samples && rc == SL_OK; i++) {
        if (i % LABELS == 0)
            rc = pulse_piece(pulse, err);
        if (rc == SL_OK)
            rc = read_label(p, i, y, err);
    }
    sl_free(y);
    return rc;
}

// Returns SL_ENOENT if an array of the file was read when that was another
// object: each is opened by itself.
static enum sl_err pair_check_version(const struct array_pair *p,
                                      const struct array *a,
                                      struct sl_error *err)
{
    return a->path == NULL || a->version == p->x.version
               ? SL_OK
               : sl_fail(err, SL_ENOENT,
                         "%s was replaced while the job opened it: stop the "
                         "job and submit it again",
                         a->path);
}

static enum sl_err pair_open_npz(struct array_pair *p,
                                 const struct data_source *s,
                                 struct sl_error *err)
{
    enum sl_err rc = array_open_npz(
        &p->x, s->roots, s->x, s->x_member ? s->x_member : "x", s->pulse, err);

    if (rc == SL_OK)
        rc = array_open_npz(&p->y, s->roots, s->x,
                            s->y_member ? s->y_member : "y", s->pulse, err);
    if (rc == SL_OK)
        rc = pair_check_version(p, &p->y, err);
    if (rc == SL_OK && s->weights != NULL)
        rc = array_open_npz(&p->weights, s->roots, s->x, s->weights, s->pulse,
                            err);
    return rc == SL_OK ? pair_check_version(p, &p->weights, err) : rc;
}

static enum sl_err pair_open_files(struct array_pair *p,
                                   const struct data_source *s,
                                   struct sl_error *err)
{
    enum sl_err (*open)(struct array *, const struct roots *, const char *,
                        struct pulse *, struct sl_error *) =
        strcmp(s->format, "npy") == 0 ? array_open_npy : array_open_idx;
    enum sl_err rc = open(&p->x, s->roots, s->x, s->pulse, err);

    if (rc == SL_OK)
        rc = open(&p->y, s->roots, s->y, s->pulse, err);
    if (rc == SL_OK && s->weights != NULL)
        rc = open(&p->weights, s->roots, s->weights, s->pulse, err);
    return rc;
}

static enum sl_err open_both(struct array_pair *p, const struct data_source *s,
                             struct sl_error *err)
{
    bool npz = strcmp(s->format, "npz") == 0;

    if (s->x == NULL || (!npz && s->y == NULL))
        return sl_fail(err, SL_EINVAL, "data of format %s needs the paths x%s",
                       s->format, npz ? "" : " and y");
    p->x.stay = p->y.stay = p->weights.stay = s->stay;
    return npz ? pair_open_npz(p, s, err) : pair_open_files(p, s, err);
}

static enum sl_err pair_open_ids(struct array_pair *p,
                                 const struct data_source *s,
                                 struct sl_error *err)
{
    enum sl_err rc = data_set_ids(&p->data, s, err);

    if (rc != SL_OK || s->ids_count == 0)
        return rc;
    p->ids = sl_calloc(s->ids_count, sizeof(*p->ids));
    if (p->ids == NULL)
        return sl_no_memory(err);
    for (size_t i = 0; rc == SL_OK && i < s->ids_count; i++) {
        p->ids[i].values.stay = p->ids[i].offsets.stay = s->stay;
        rc = id_array_open(&p->ids[i], s->roots, s->x, s->ids[i].name,
                           p->x.rows, s->pulse, err);
        if (rc == SL_OK)
            rc = pair_check_version(p, &p->ids[i].values, err);
        if (rc == SL_OK)
            rc = pair_check_version(p, &p->ids[i].offsets, err);
    }
    return rc;
}

static void hash_array(struct data *d, const struct array *a)
{
    data_hash_name(d, a->path);
    data_hash_number(d, a->file_bytes);
    data_hash_version(d, a->version);
    for (unsigned i = 0; i < a->nd; i++)
        data_hash_number(d, a->dim[i]);
}

enum sl_err data_open_arrays(struct data **out, const struct data_source *s,
                             const struct data_want *want, struct sl_error *err)
{
    struct array_pair *p = sl_calloc(1, sizeof(*p));
    size_t row;
    enum sl_err rc;

    if (p == NULL)
        return sl_no_memory(err);
    data_init(&p->data, &pair_ops, s, want);
    rc = open_both(p, s, err);
    if (rc == SL_OK)
        rc = pair_check_shapes(p, err);
    if (rc == SL_OK)
        rc = data_set_samples(&p->data, p->x.rows, s, err);
    if (rc == SL_OK && s->weights != NULL)
        rc = data_set_weights(&p->data, err);
    if (rc == SL_OK)
        rc = pair_open_ids(p, s, err);
    p->data.u8 = want->u8 && p->x.type == ARRAY_U8;
    if (rc == SL_OK) {
        hash_array(&p->data, &p->x);
        hash_array(&p->data, &p->y);
        if (p->weights.path != NULL)
            hash_array(&p->data, &p->weights);
        for (size_t i = 0; i < p->data.ids_count; i++) {
            hash_array(&p->data, &p->ids[i].values);
            if (p->ids[i].offsets.path != NULL)
                hash_array(&p->data, &p->ids[i].offsets);
        }
        row = p->x.row_bytes > p->y.row_bytes ? p->x.row_bytes : p->y.row_bytes;
        if (row < p->weights.row_bytes)
            row = p->weights.row_bytes;
        p->scratch = sl_malloc(row);
        rc = p->scratch == NULL ? sl_no_memory(err)
                                : pair_check_labels(p, s->pulse, err);
    }
    if (rc != SL_OK) {
        data_free(&p->data);
        return rc;
    }
    *out = &p->data;
    return SL_OK;
}
