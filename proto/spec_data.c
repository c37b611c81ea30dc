// SPDX-License-Identifier: Apache-2.0
// proto/spec_data.c -- the check of where samples come from.
#include "proto/spec_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/paths.h"
#include "common/base/remote.h"
#include "common/base/utf8.h"

#define SAMPLES_MAX (UINT64_C(1) << 40)
#define SCALED " format scale offset limit augment "

enum format {
    IDX,
    NPY,
    NPZ,
    CSV,
    LIBSVM,
    IMAGES,
    TFRECORD,
    WEBDATASET,
    TAR,
    SYNTHETIC,
    EXTERNAL,
    FORMATS
};

static const char *const formats[FORMATS] = {
    [IDX] = "idx",
    [NPY] = "npy",
    [NPZ] = "npz",
    [CSV] = "csv",
    [LIBSVM] = "libsvm",
    [IMAGES] = "images",
    [SYNTHETIC] = "synthetic",
    [EXTERNAL] = "external",
    [TFRECORD] = "tfrecord",
    [WEBDATASET] = "webdataset",
    [TAR] = "tar",
};

// What a format takes, each word with a blank on both sides, and what it needs.
static const struct takes {
    const char *fields;
    bool x, y, samples; // needed
    bool several;       // x and y may be patterns
} takes[FORMATS] = {
    [IDX] = {SCALED " x y sample_weight ", true, true, false, true},
    [NPY] = {SCALED " x y sample_weight ", true, true, false, true},
    [NPZ] = {SCALED " x x_member y_member sample_weight ids ", true, false,
             false, true},
    [CSV] = {SCALED " x header delimiter label_column label_columns "
                    "sample_weight columns ids ",
             true, false, false, true},
    [LIBSVM] = {SCALED " x ids first_index ", true, false, false, true},
    [IMAGES] = {SCALED " x depth ", true, false, false, false},
    [TFRECORD] = {SCALED " x depth features columns ids ", true, false, false,
                  true},
    [WEBDATASET] = {SCALED " x depth features ", true, false, false, true},
    [TAR] = {SCALED " x depth ", true, false, false, true},
    [SYNTHETIC] = {" format samples seed generator classes scale offset "
                   "augment ",
                   false, false, true, false},
    [EXTERNAL] = {" format samples ", false, false, true, false},
};

static enum sl_err spec_fail_missing(const char *path, const char *field,
                                     struct sl_error *err)
{
    return sl_fail(err, SL_EINVAL, "%s.%s is missing", path, field);
}

static enum sl_err check_needed(const Sluice__V1__SourceSpec *s,
                                const struct takes *t, const char *path,
                                struct sl_error *err)
{
    char at[64];

    if (t->x && (s->x == NULL || s->x[0] == '\0'))
        return spec_fail_missing(path, "x", err);
    if (t->y && (s->y == NULL || s->y[0] == '\0'))
        return spec_fail_missing(path, "y", err);
    if ((s->x != NULL && !utf8_plain(s->x, strlen(s->x))) ||
        (s->y != NULL && !utf8_plain(s->y, strlen(s->y))))
        return sl_fail(err, SL_EINVAL,
                       "%s: a file's name has a control character, or one "
                       "that turns the direction of writing",
                       path);
    if (!t->samples)
        return SL_OK;
    if (!s->has_samples)
        return spec_fail_missing(path, "samples", err);
    snprintf(at, sizeof(at), "%s.samples", path);
    return spec_range(at, s->samples, 1, SAMPLES_MAX, err);
}

static int spec_compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Returns the names in order, for sl_free: then a long list costs no more than
// its sorting. NULL: no memory.
static char **spec_sorted(char *const *names, size_t count)
{
    char **sorted = sl_malloc_array(count, sizeof(*sorted));

    if (sorted != NULL) {
        memcpy(sorted, names, count * sizeof(*sorted));
        qsort(sorted, count, sizeof(*sorted), spec_compare_names);
    }
    return sorted;
}

// Returns a name that stands twice in a list in order; NULL: none does.
static const char *spec_twice(char *const *sorted, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            return sorted[i];
    return NULL;
}

// Checks that no name stands twice in label_columns, and none in columns too.
static enum sl_err check_label_columns_apart(const Sluice__V1__SourceSpec *s,
                                             const char *path,
                                             struct sl_error *err)
{
    size_t n = s->n_label_columns;
    char **sorted = spec_sorted(s->label_columns, n);
    const char *twice;
    enum sl_err rc = SL_OK;

    if (sorted == NULL)
        return sl_no_memory(err);
    twice = spec_twice(sorted, n);
    if (twice != NULL)
        rc = sl_fail(err, SL_EINVAL, "%s.label_columns: '%.60s' appears twice",
                     path, twice);
    for (size_t i = 0; rc == SL_OK && i < s->n_columns; i++)
        if (bsearch(&s->columns[i], sorted, n, sizeof(*sorted),
                    spec_compare_names) != NULL)
            rc = sl_fail(err, SL_EINVAL,
                         "%s.columns: '%.60s' is one of label_columns too",
                         path, s->columns[i]);
    sl_free(sorted);
    return rc;
}

// Checks the label_column, or label_columns, which are none of the features.
static enum sl_err check_csv_labels(const Sluice__V1__SourceSpec *s,
                                    const char *path, struct sl_error *err)
{
    if (s->n_label_columns > 0 && s->label_column != NULL)
        return sl_fail(err, SL_EINVAL,
                       "%s: has label_column and label_columns; say one of "
                       "them",
                       path);
    if (s->n_label_columns > 0)
        return check_label_columns_apart(s, path, err);
    if (s->label_column == NULL || s->label_column[0] == '\0')
        return spec_fail_missing(path, "label_column", err);
    for (size_t i = 0; i < s->n_columns; i++)
        if (strcmp(s->columns[i], s->label_column) == 0)
            return sl_fail(err, SL_EINVAL,
                           "%s.columns: '%.60s' is the label_column too", path,
                           s->columns[i]);
    return SL_OK;
}

static enum sl_err check_csv(Sluice__V1__SourceSpec *s, const char *path,
                             struct sl_error *err)
{
    enum sl_err rc = spec_string(&s->delimiter, ",");

    if (rc != SL_OK)
        return rc;
    SPEC_DEFAULT(s, header, false);
    if (strlen(s->delimiter) != 1 || strchr("\"\r\n", s->delimiter[0]) != NULL)
        return sl_fail(err, SL_EINVAL,
                       "%s.delimiter: wants one byte, not a quote or a line "
                       "end, got '%.20s'",
                       path, s->delimiter);
    return check_csv_labels(s, path, err);
}

static enum sl_err check_libsvm(Sluice__V1__SourceSpec *s, const char *path,
                                struct sl_error *err)
{
    char at[64];

    SPEC_DEFAULT(s, first_index, 1);
    if (s->n_ids > 1)
        return sl_fail(err, SL_EINVAL,
                       "%s.ids: a libsvm file has one column of ids, got %zu",
                       path, s->n_ids);
    snprintf(at, sizeof(at), "%s.first_index", path);
    return spec_range(at, s->first_index, 0, 1, err);
}

static bool is_folder_name(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n < 256 && name[0] != '.' && strchr(name, '/') == NULL &&
           utf8_plain(name, n);
}

static enum sl_err spec_check_duplicates(char *const *names, size_t count,
                                         struct sl_error *err)
{
    char **sorted = spec_sorted(names, count);
    const char *twice = sorted != NULL ? spec_twice(sorted, count) : NULL;

    sl_free(sorted);
    if (sorted == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for names of classes");
    return twice == NULL
               ? SL_OK
               : sl_fail(err, SL_EINVAL,
                         "data.classes: '%.60s' stands there twice", twice);
}

enum sl_err spec_check_classes(char *const *names, size_t count,
                               struct sl_error *err)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        if (!is_folder_name(names[i]))
            return sl_fail(err, SL_EINVAL,
                           "data.classes[%zu]: wants the name of a folder, of "
                           "1 to 255 bytes, without '/' and not hidden",
                           i);
        bytes += strlen(names[i]) + 1;
        if (bytes > SPEC_CLASSES_BYTES)
            return sl_fail(err, SL_EINVAL,
                           "data.classes: the names are more than %d bytes "
                           "long; leave them out to have them in byte order",
                           SPEC_CLASSES_BYTES);
    }
    return count > 1 ? spec_check_duplicates(names, count, err) : SL_OK;
}

// The names say what folders of images are, and nothing of other formats.
static enum sl_err spec_data_check_classes(const Sluice__V1__DataSpec *data,
                                           struct sl_error *err)
{
    if (data->n_classes == 0)
        return SL_OK;
    if (strcmp(data->train->format, formats[IMAGES]) != 0 &&
        strcmp(data->train->format, formats[TAR]) != 0)
        return sl_fail(err, SL_EINVAL,
                       "data.classes: names folders of images, and data.train "
                       "is of format %s",
                       data->train->format);
    return spec_check_classes(data->classes, data->n_classes, err);
}

static enum sl_err check_scale(Sluice__V1__SourceSpec *s, const char *path,
                               struct sl_error *err)
{
    SPEC_DEFAULT(s, scale, 1);
    SPEC_DEFAULT(s, offset, 0);
    if (!isfinite(s->scale) || s->scale == 0 || !isfinite(s->offset))
        return sl_fail(err, SL_EINVAL,
                       "%s: scale must be finite and not 0, offset finite",
                       path);
    return SL_OK;
}

static enum sl_err check_synthetic(Sluice__V1__SourceSpec *s, const char *path,
                                   struct sl_error *err)
{
    static const char *const generators[] = {"binary", "classes", "images"};
    char at[64];
    unsigned index;
    enum sl_err rc;

    snprintf(at, sizeof(at), "%s.generator", path);
    rc = spec_word(at, s->generator, generators, 3, &index, err);
    if (rc == SL_OK)
        rc = check_scale(s, path, err);
    if (rc != SL_OK)
        return rc;
    SPEC_DEFAULT(s, seed, 1);
    if (index == 0)
        return s->has_classes ? sl_fail(err, SL_EINVAL,
                                        "%s: takes no 'classes' with generator "
                                        "binary",
                                        path)
                              : SL_OK;
    if (!s->has_classes)
        return spec_fail_missing(path, "classes", err);
    snprintf(at, sizeof(at), "%s.classes", path);
    return spec_range(at, s->classes, 2, 100000, err);
}

static enum sl_err check_files(Sluice__V1__SourceSpec *s, enum format format,
                               const struct model *m, const char *path,
                               struct sl_error *err)
{
    char at[64];
    enum sl_err rc = check_scale(s, path, err);

    if (rc == SL_OK && s->has_limit) {
        snprintf(at, sizeof(at), "%s.limit", path);
        rc = spec_range(at, s->limit, 1, SAMPLES_MAX, err);
    }
    if (rc == SL_OK && s->has_depth) {
        snprintf(at, sizeof(at), "%s.depth", path);
        rc = spec_range(at, s->depth, 8, 16, err);
    }
    if (rc == SL_OK && format == NPZ)
        rc = spec_string(&s->x_member, "x");
    if (rc == SL_OK && format == NPZ)
        rc = spec_string(&s->y_member, "y");
    if (rc == SL_OK && format == CSV)
        rc = check_csv(s, path, err);
    if (rc == SL_OK && format == LIBSVM)
        rc = check_libsvm(s, path, err);
    if (rc == SL_OK)
        rc = spec_check_features(s, format == TFRECORD, m, path, err);
    return rc == SL_OK ? spec_check_ids(s, formats[format], path, err) : rc;
}

static enum sl_err check_source(Sluice__V1__SourceSpec *s,
                                const struct model *m, const char *path,
                                struct sl_error *err)
{
    bool external = m->external;
    char at[64];
    unsigned format;
    enum sl_err rc;

    snprintf(at, sizeof(at), "%s.format", path);
    if (external && s->format == NULL &&
        spec_string(&s->format, "external") != SL_OK)
        return sl_no_memory(err);
    rc = spec_word(at, s->format, formats, FORMATS, &format, err);
    if (rc != SL_OK)
        return rc;
    if (external != (format == EXTERNAL))
        return sl_fail(
            err, SL_EINVAL, "%s: wants %s with this model, got '%s'", at,
            external ? "'external'" : "a format that workers read", s->format);
    rc = spec_only(path, &s->base, takes[format].fields, s->format, err);
    if (rc == SL_OK)
        rc = check_needed(s, &takes[format], path, err);
    if (rc != SL_OK || format == EXTERNAL)
        return rc;
    return format == SYNTHETIC ? check_synthetic(s, path, err)
                               : check_files(s, format, m, path, err);
}

// Returns the format of a source that was checked.
static enum format spec_data_format(const Sluice__V1__SourceSpec *s)
{
    unsigned format = EXTERNAL;

    (void)spec_word("", s->format, formats, FORMATS, &format, NULL);
    return (enum format)format;
}

// Returns the edition that a worker must know to read the source; 0: any.
static unsigned spec_data_edition(const Sluice__V1__SourceSpec *s)
{
    switch (spec_data_format(s)) {
    case TFRECORD:
        return MODEL_EDITION_RECORDS;
    case WEBDATASET:
    case TAR:
        return MODEL_EDITION_ARCHIVES;
    case LIBSVM:
        return MODEL_EDITION_LIBSVM;
    default:
        return paths_is_pattern(s->x) || paths_is_pattern(s->y)
                   ? MODEL_EDITION_FILES
                   : 0;
    }
}

// Checks a path of a source that may name a place, and has workers know them;
// `path` may be NULL.
static enum sl_err spec_data_check_place(Sluice__V1__JobSpec *spec,
                                         const Sluice__V1__SourceSpec *s,
                                         const char *path, struct sl_error *err)
{
    if (path == NULL || strstr(path, "://") == NULL)
        return SL_OK;
    if (!remote_is(path))
        return sl_fail(err, SL_EINVAL,
                       "%.160s: a place begins with s3:// or https://, before "
                       "any pattern",
                       path);
    if (!takes[spec_data_format(s)].several)
        return sl_fail(err, SL_EINVAL,
                       "%.160s: format %s reads folders of a worker's disk "
                       "alone; pack the images as format tar",
                       path, s->format);
    spec_needs(spec, MODEL_EDITION_PLACES);
    return remote_check(path, err);
}

// Checks the patterns and places of a source, which may be NULL, and has
// workers know them.
static enum sl_err spec_data_check_files(Sluice__V1__JobSpec *spec,
                                         const Sluice__V1__SourceSpec *s,
                                         const char *path, struct sl_error *err)
{
    enum sl_err rc;
    unsigned edition;

    if (s == NULL)
        return SL_OK;
    rc = spec_data_check_place(spec, s, s->x, err);
    if (rc == SL_OK)
        rc = spec_data_check_place(spec, s, s->y, err);
    if (rc == SL_OK && s->y != NULL)
        rc = spec_data_check_place(spec, s, s->sample_weight, err);
    if (rc != SL_OK)
        return sl_prefix(err, rc, "%s", path);
    if (s->y != NULL && paths_is_pattern(s->sample_weight) &&
        !paths_is_pattern(s->x) && !paths_is_pattern(s->y))
        return sl_fail(err, SL_EINVAL,
                       "%s.sample_weight: is a pattern, and x is one file",
                       path);
    if (s->n_label_columns > 0)
        spec_needs(spec, MODEL_EDITION_OUTPUTS);
    edition = takes[spec_data_format(s)].several ? spec_data_edition(s) : 0;
    if (edition == 0)
        return SL_OK;
    spec_needs(spec, edition);
    rc = paths_check(s->x, err);
    if (rc == SL_OK && s->y != NULL)
        rc = paths_check(s->y, err);
    if (rc == SL_OK && s->y != NULL && s->sample_weight != NULL)
        rc = paths_check(s->sample_weight, err);
    return rc == SL_OK ? rc : sl_prefix(err, rc, "%s", path);
}

uint32_t spec_skip_bad(const Sluice__V1__JobSpec *spec)
{
    return spec->data != NULL ? spec->data->skip_bad : 0;
}

// Refuses skip_bad for an external model: a user's program reads its samples.
static enum sl_err check_skip_bad(Sluice__V1__DataSpec *data, bool external,
                                  struct sl_error *err)
{
    if (external && data->skip_bad > 0)
        return sl_fail(err, SL_EINVAL,
                       "data.skip_bad: the model is external, so its own "
                       "program reads the data");
    SPEC_DEFAULT(data, skip_bad, 0);
    return spec_range("data.skip_bad", data->skip_bad, 0, SPEC_SKIP_BAD_MAX,
                      err);
}

static enum sl_err data_check_share(const Sluice__V1__DataSpec *data,
                                    struct sl_error *err)
{
    enum sl_err rc = spec_real("data.validation", data->validation, 0, 1,
                               SPEC_OPEN_LOW, err);

    return rc == SL_OK && data->validation == 1
               ? sl_fail(err, SL_EINVAL,
                         "data.validation: leaves nothing to train with; give "
                         "a share below 1")
               : rc;
}

// Has evaluations be of a part of data.train, which was checked: data.test
// becomes a copy of it, unless it is one already.
static enum sl_err spec_check_validation(Sluice__V1__JobSpec *spec,
                                         bool external, struct sl_error *err)
{
    Sluice__V1__DataSpec *data = spec->data;
    Sluice__V1__SourceSpec copy = *data->train;
    ProtobufCMessage *test = NULL;
    bool same = false;
    enum sl_err rc;

    if (external)
        return sl_fail(err, SL_EINVAL,
                       "data.validation: the model is external, so its own "
                       "program reads the data");
    rc = data_check_share(data, err);
    if (rc != SL_OK)
        return rc;
    spec_needs(spec, MODEL_EDITION_VALIDATION);
    copy.n_augment = 0;
    if (data->test != NULL) {
        rc = spec_same(&same, &copy.base, &data->test->base);
        if (rc == SL_OK && !same)
            rc = sl_fail(err, SL_EINVAL,
                         "data.validation: takes a share of data.train; leave "
                         "out data.test, or validation");
        return rc;
    }
    rc = wire_dup(&test, &copy.base);
    if (rc == SL_OK)
        data->test = (Sluice__V1__SourceSpec *)test;
    return rc;
}

static bool data_ids_are_read(const struct model *m)
{
    for (uint32_t i = 0; i < m->nodes_count; i++)
        if (m->nodes[i].column != NULL)
            return true;
    return false;
}

// Checks that a source, which may be NULL, has a format, and its ids names.
static enum sl_err data_fits_source(const Sluice__V1__SourceSpec *s,
                                    const char *path, struct sl_error *err)
{
    if (s == NULL)
        return SL_OK;
    if (s->format == NULL)
        return spec_fail_missing(path, "format", err);
    for (size_t i = 0; i < s->n_ids; i++)
        if (s->ids[i]->name == NULL)
            return sl_fail(err, SL_EINVAL, "%s.ids[%zu].name is missing", path,
                           i);
    return SL_OK;
}

enum sl_err spec_data_fits(const Sluice__V1__JobSpec *spec,
                           const struct model *m, struct sl_error *err)
{
    const Sluice__V1__DataSpec *data = spec->data;
    enum sl_err rc = SL_OK;

    if (data == NULL || data->train == NULL)
        return spec_fail_missing("data", "train", err);
    if (data->has_validation)
        rc = data_check_share(data, err);
    if (rc == SL_OK)
        rc = data_fits_source(data->train, "data.train", err);
    if (rc == SL_OK)
        rc = data_fits_source(data->test, "data.test", err);
    if (rc == SL_OK && data_ids_are_read(m)) {
        rc = spec_check_ids_same(data, err);
        if (rc == SL_OK)
            rc = spec_check_columns(data->train, m, err);
    }
    return rc == SL_OK ? spec_augment_fits(spec, m, err) : rc;
}

enum sl_err spec_check_data(Sluice__V1__JobSpec *spec, const struct model *m,
                            struct sl_error *err)
{
    bool external = m->external;
    enum sl_err rc;

    if (spec->data == NULL || spec->data->train == NULL)
        return spec_fail_missing("data", "train", err);
    rc = check_skip_bad(spec->data, external, err);
    if (rc == SL_OK)
        rc = check_source(spec->data->train, m, "data.train", err);
    if (rc == SL_OK && spec->data->has_validation)
        rc = spec_check_validation(spec, external, err);
    if (rc == SL_OK && spec->data->test != NULL)
        rc = check_source(spec->data->test, m, "data.test", err);
    if (rc == SL_OK)
        rc = spec_data_check_files(spec, spec->data->train, "data.train", err);
    if (rc == SL_OK)
        rc = spec_data_check_files(spec, spec->data->test, "data.test", err);
    if (rc == SL_OK)
        rc = spec_check_augment(spec, m, err);
    if (rc == SL_OK)
        rc = spec_data_check_classes(spec->data, err);
    if (rc == SL_OK)
        rc = spec_check_ids_same(spec->data, err);
    if (rc == SL_OK)
        rc = spec_check_columns(spec->data->train, m, err);
    return rc;
}
