// SPDX-License-Identifier: Apache-2.0
// worker/data/data_libsvm.c -- lines of a label and numbered values:
//
//     +1 3:0.5 17:1 120:1      # a note
//
// Numbers rise within a line; a value that a line does not name is 0. The first
// values fill the model's input. Where the source has a column of ids, the
// numbers behind them, whose value is 1, are the sample's bag. A label of -1 is
// class 0, as in files with two classes.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "worker/data/data_lines.h"
#include "worker/data/data_source.h"

#define BLANKS " \t"

struct libsvm {
    struct data data;
    struct text_lines lines;
    uint64_t first; // the lowest number of a value
};

// A value of a line.
struct entry {
    uint64_t number; // as in the file
    double value;
};

static enum sl_err entry_fail(const struct libsvm *f, size_t line,
                              const char *text, const char *why,
                              struct sl_error *err)
{
    return sl_fail(err, SL_EINVAL, "%s: line %zu: '%.40s' %s", f->lines.path,
                   line + 1, text, why);
}

// Reads `number:value`.
static enum sl_err entry_read(const struct libsvm *f, size_t line, char *text,
                              struct entry *out, struct sl_error *err)
{
    char *colon = strchr(text, ':'), *end;

    errno = 0;
    out->number = strtoull(text, &end, 10);
    if (colon == NULL || end != colon || *text < '0' || *text > '9' ||
        errno != 0)
        return entry_fail(
            f, line, text,
            strncmp(text, "qid:", 4) == 0
                ? "belongs to a ranking, which workers do not read"
                : "is not of the form number:value",
            err);
    if (!data_parse_number(colon + 1, &out->value))
        return entry_fail(f, line, text, "lacks a number behind the colon",
                          err);
    return SL_OK;
}

static enum sl_err entry_put(struct libsvm *f, size_t line, const char *text,
                             const struct entry *e, float *x,
                             struct sl_error *err)
{
    struct data *d = &f->data;

    if (e->number < f->first)
        return entry_fail(f, line, text,
                          "is numbered from 0; say first_index: 0", err);
    if (e->number - f->first < d->features) {
        x[e->number - f->first] = (float)e->value * d->scale + d->offset;
        return SL_OK;
    }
    if (d->ids_count == 0)
        return sl_fail(err, SL_EINVAL,
                       "%s: line %zu: '%.40s' is beyond the model's input of "
                       "%zu numbers",
                       f->lines.path, line + 1, text, d->features);
    if (e->value != 0 && e->value != 1)
        return entry_fail(f, line, text, "is an id, which has the value 1 or 0",
                          err);
    if (e->value == 1 &&
        buf_append(&d->ids[0].bag, &e->number, sizeof(e->number)) != SL_OK)
        return sl_no_memory(err);
    return SL_OK;
}

// Sets the features to what a line that names none has.
static void libsvm_clear(struct libsvm *f, float *x)
{
    if (f->data.ids_count > 0)
        buf_reset(&f->data.ids[0].bag);
    for (size_t i = 0; i < f->data.features; i++)
        x[i] = f->data.offset;
}

static enum sl_err libsvm_put_label(struct libsvm *f, size_t line,
                                    const char *text, void *y,
                                    struct sl_error *err)
{
    double label;

    if (text == NULL)
        return lines_fail(&f->lines, line, err, SL_EINVAL, "is empty");
    if (!data_parse_number(text, &label))
        return entry_fail(
            f, line, text,
            strchr(text, ',') != NULL
                ? "has several labels, and one is read"
                : "is not a number, as the label that comes first",
            err);
    if (f->data.want.labels != DATA_VALUES && label == -1)
        label = 0;
    return lines_put_label(&f->lines, line, &f->data, label, y, err);
}

static enum sl_err libsvm_read(struct data *d, uint64_t number, void *x,
                               void *y, struct sl_error *err)
{
    struct libsvm *f = sl_container_of(d, struct libsvm, data);
    size_t line = (size_t)number, length = 0;
    char *save = NULL, *text = f->lines.text, *word;
    struct entry e = {0}, last;
    bool any = false;
    enum sl_err rc = lines_read(&f->lines, line, &length, err);

    if (rc != SL_OK)
        return rc;
    if (strlen(text) < length)
        return lines_fail(&f->lines, line, err, SL_EINVAL,
                          "holds a NUL byte: the file is damaged");
    text[strcspn(text, "#")] = '\0';
    libsvm_clear(f, x);
    rc = libsvm_put_label(f, line, strtok_r(text, BLANKS, &save), y, err);
    for (; rc == SL_OK && (word = strtok_r(NULL, BLANKS, &save)) != NULL;
         any = true) {
        last = e;
        rc = entry_read(f, line, word, &e, err);
        if (rc == SL_OK && any && e.number <= last.number)
            rc = entry_fail(f, line, word, "breaks the rising order of numbers",
                            err);
        if (rc == SL_OK)
            rc = entry_put(f, line, word, &e, x, err);
    }
    return rc;
}

static void libsvm_release(struct data *d)
{
    lines_release(&sl_container_of(d, struct libsvm, data)->lines);
}

static uint64_t libsvm_memory(const struct data *d)
{
    const struct libsvm *f =
        sl_container_of((struct data *)(uintptr_t)d, struct libsvm, data);

    return lines_memory(&f->lines);
}

static const struct data_ops libsvm_ops = {
    .read = libsvm_read, .memory = libsvm_memory, .release = libsvm_release};

static enum sl_err libsvm_open_file(struct libsvm *f,
                                    const struct data_source *s,
                                    struct sl_error *err)
{
    enum sl_err rc;

    if (s->x == NULL)
        return sl_fail(err, SL_EINVAL,
                       "data of format libsvm needs the path x");
    if (f->data.want.labels == DATA_VALUES && f->data.want.outputs != 1)
        return sl_fail(err, SL_EINVAL,
                       "%s: a line has one label, but the model has %" PRIu64
                       " outputs",
                       s->x, f->data.want.outputs);
    rc = data_set_ids(&f->data, s, err);
    if (rc == SL_OK)
        rc = lines_open(&f->lines, s, err);
    if (rc == SL_OK && f->lines.count == 0)
        rc = sl_fail(err, SL_EINVAL, "%s: is empty", s->x);
    if (rc == SL_OK)
        rc = data_set_samples(&f->data, f->lines.count, s, err);
    if (rc != SL_OK)
        return rc;
    lines_hash(&f->lines, &f->data);
    data_hash_number(&f->data, f->first);
    return SL_OK;
}

enum sl_err data_open_libsvm(struct data **out, const struct data_source *s,
                             const struct data_want *want, struct sl_error *err)
{
    struct libsvm *f = sl_calloc(1, sizeof(*f));
    enum sl_err rc;

    if (f == NULL)
        return sl_no_memory(err);
    data_init(&f->data, &libsvm_ops, s, want);
    f->first = s->first_index;
    rc = libsvm_open_file(f, s, err);
    if (rc != SL_OK) {
        data_free(&f->data);
        return rc;
    }
    *out = &f->data;
    return SL_OK;
}
