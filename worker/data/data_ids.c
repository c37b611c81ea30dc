// SPDX-License-Identifier: Apache-2.0
// worker/data/data_ids.c -- ids out of arrays; see data_ids.h.
#include "worker/data/data_ids.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "worker/data/ids.h"

#define OFFSETS 65536 // offsets between two looks whether to go on

static bool id_array_is_bags(const struct id_array *a)
{
    return a->offsets.path != NULL;
}

// ---- offsets

// Reads the offsets of a sample: its ids are *from to *end - 1.
static enum sl_err id_array_range(const struct id_array *a, uint64_t sample,
                                  uint64_t *from, uint64_t *end,
                                  struct sl_error *err)
{
    uint64_t scratch[2], pair[2];
    const uint8_t *raw = NULL;
    const char *why = NULL;
    enum sl_err rc = array_rows(&a->offsets, sample, 2, scratch, &raw, err);

    if (rc != SL_OK)
        return rc;
    array_words(&a->offsets, raw, 2, pair);
    if (pair[1] < pair[0])
        why = "fall";
    else if (pair[1] > a->values.rows)
        why = "point beyond the ids";
    else if (pair[1] - pair[0] > IDS_BAG_MAX)
        why = "are over 1000000 ids apart";
    if (why != NULL)
        return sl_fail(
            err, SL_EINVAL, "%s: the offsets of sample %llu in '%s.offsets' %s",
            a->values.path, (unsigned long long)sample, a->name, why);
    *from = pair[0];
    *end = pair[1];
    return SL_OK;
}

// Checks that the samples' bags are the whole of the ids.
static enum sl_err id_array_check_ends(const struct id_array *a,
                                       struct sl_error *err)
{
    uint64_t first = 0, last = 0, end = 0;
    enum sl_err rc = id_array_range(a, 0, &first, &end, err);

    if (rc == SL_OK)
        rc = id_array_range(a, a->offsets.rows - 2, &end, &last, err);
    if (rc != SL_OK || (first == 0 && last == a->values.rows))
        return rc;
    return sl_fail(err, SL_EINVAL,
                   "%s: '%s.offsets' goes from %llu to %llu; 0 to %llu, the "
                   "number of ids in '%s', is expected",
                   a->values.path, a->name, (unsigned long long)first,
                   (unsigned long long)last, (unsigned long long)a->values.rows,
                   a->name);
}

// Checks the offsets that are in memory, so that a wrong one is found before
// anything is computed; others are checked as they are read.
static enum sl_err id_array_check_offsets(const struct id_array *a,
                                          struct pulse *pulse,
                                          struct sl_error *err)
{
    uint64_t from, end;
    enum sl_err rc = id_array_check_ends(a, err);

    if (a->offsets.memory == NULL)
        return rc;
    for (uint64_t i = 0; i + 1 < a->offsets.rows && rc == SL_OK; i++) {
        if (i % OFFSETS == 0)
            rc = pulse_piece(pulse, err);
        if (rc == SL_OK)
            rc = id_array_range(a, i, &from, &end, err);
    }
    return rc;
}

// ---- shapes

static enum sl_err id_array_check_type(const struct array *a, const char *name,
                                       const char *suffix, struct sl_error *err)
{
    if (array_is_words(a))
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "%s: array '%s%s' is of another type than int64, uint64, "
                   "int32 and uint32; save it with .astype(numpy.int64)",
                   a->path, name, suffix);
}

static enum sl_err id_array_check_rows(const struct id_array *a,
                                       uint64_t samples, struct sl_error *err)
{
    const struct array *v = &a->values, *o = &a->offsets;

    if (id_array_is_bags(a) &&
        (v->nd != 1 || o->nd != 1 || o->rows != samples + 1))
        return sl_fail(err, SL_EINVAL,
                       "%s: of %llu samples with bags, '%s' has one dimension, "
                       "and '%s.offsets' %llu numbers",
                       v->path, (unsigned long long)samples, a->name, a->name,
                       (unsigned long long)samples + 1);
    if (id_array_is_bags(a))
        return SL_OK;
    if (v->nd > 2 || v->rows != samples)
        return sl_fail(err, SL_EINVAL,
                       "%s: of %llu samples, array '%s' of ids has the shape "
                       "(%llu) or (%llu, k), or there is a '%s.offsets'",
                       v->path, (unsigned long long)samples, a->name,
                       (unsigned long long)samples, (unsigned long long)samples,
                       a->name);
    if (v->row_elements == 0 || v->row_elements > IDS_BAG_MAX)
        return sl_fail(err, SL_EINVAL,
                       "%s: array '%s' has %llu ids in each sample; 1 to %d "
                       "are read",
                       v->path, a->name, (unsigned long long)v->row_elements,
                       IDS_BAG_MAX);
    return SL_OK;
}

static enum sl_err id_array_check(const struct id_array *a, uint64_t samples,
                                  struct pulse *pulse, struct sl_error *err)
{
    enum sl_err rc = id_array_check_type(&a->values, a->name, "", err);

    if (rc == SL_OK && id_array_is_bags(a))
        rc = id_array_check_type(&a->offsets, a->name, ".offsets", err);
    if (rc == SL_OK)
        rc = id_array_check_rows(a, samples, err);
    if (rc == SL_OK && id_array_is_bags(a) && samples > 0)
        rc = id_array_check_offsets(a, pulse, err);
    return rc;
}

enum sl_err id_array_open(struct id_array *out, const struct roots *roots,
                          const char *path, const char *name, uint64_t samples,
                          struct pulse *pulse, struct sl_error *err)
{
    struct id_array a = {.values.stay = out->values.stay,
                         .offsets.stay = out->offsets.stay,
                         .name = sl_strdup(name)};
    char offsets[256];
    enum sl_err rc = a.name == NULL ? sl_no_memory(err)
                                    : array_open_npz(&a.values, roots, path,
                                                     name, pulse, err);

    if (rc == SL_OK) { // a name that is cut is too long for a member, too
        snprintf(offsets, sizeof(offsets), "%s.offsets", name);
        rc = array_open_npz_any(&a.offsets, roots, path, offsets, pulse, err);
    }
    if (rc == SL_OK)
        rc = id_array_check(&a, samples, pulse, err);
    if (rc != SL_OK) {
        id_array_release(&a);
        return rc;
    }
    *out = a;
    return SL_OK;
}

void id_array_release(struct id_array *a)
{
    array_release(&a->values);
    array_release(&a->offsets);
    sl_free(a->name);
    *a = (struct id_array){.name = NULL};
}

// ---- reading

enum sl_err id_array_read(const struct id_array *a, uint64_t sample,
                          struct buf *scratch, struct buf *out,
                          struct sl_error *err)
{
    const struct array *v = &a->values;
    uint64_t from = sample, end = sample + 1;
    const uint8_t *raw = NULL;
    void *words, *space;
    size_t n;
    enum sl_err rc = SL_OK;

    if (id_array_is_bags(a))
        rc = id_array_range(a, sample, &from, &end, err);
    if (rc != SL_OK)
        return rc;
    n = (size_t)(end - from) * (size_t)v->row_elements;
    buf_reset(out);
    buf_reset(scratch);
    words = buf_extend(out, n * sizeof(uint64_t));
    space = buf_extend(scratch, n * array_type_bytes(v->type));
    if (words == NULL || space == NULL)
        return sl_no_memory(err);
    rc = array_rows(v, from, end - from, space, &raw, err);
    if (rc == SL_OK)
        array_words(v, raw, n, words);
    return rc;
}
