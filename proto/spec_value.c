// SPDX-License-Identifier: Apache-2.0
// proto/spec_value.c -- words, numbers and ranges, as each part of a spec
// checks them.
#include "proto/spec_check.h"

#include <math.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/suggest.h"
#include "proto/field.h"

enum sl_err spec_string(char **at, const char *value)
{
    if (*at != NULL)
        return SL_OK;
    *at = sl_strdup(value);
    return *at != NULL ? SL_OK : SL_ENOMEM;
}

enum sl_err spec_message(void *at, const ProtobufCMessageDescriptor *of)
{
    ProtobufCMessage **m = at;

    if (*m != NULL)
        return SL_OK;
    *m = wire_new(of);
    return *m != NULL ? SL_OK : SL_ENOMEM;
}

enum sl_err spec_same(bool *same, const ProtobufCMessage *a,
                      const ProtobufCMessage *b)
{
    struct buf x = BUF_INIT, y = BUF_INIT;
    enum sl_err rc = wire_pack(a, &x);

    if (rc == SL_OK)
        rc = wire_pack(b, &y);
    if (rc == SL_OK)
        *same = x.len == y.len &&
                (x.len == 0 || memcmp(x.data, y.data, x.len) == 0);
    buf_release(&x);
    buf_release(&y);
    return rc;
}

enum sl_err spec_word(const char *path, const char *word,
                      const char *const *words, size_t count, unsigned *index,
                      struct sl_error *err)
{
    struct buf list = BUF_INIT;
    const char *near;
    enum sl_err rc;

    for (size_t i = 0; word != NULL && i < count; i++)
        if (strcmp(word, words[i]) == 0) {
            if (index != NULL)
                *index = (unsigned)i;
            return SL_OK;
        }
    for (size_t i = 0; i < count; i++)
        if (buf_appendf(&list, "%s%s", i > 0 ? ", " : "", words[i]) != SL_OK)
            break;
    near = word != NULL ? sl_suggest(word, words, count) : NULL;
    if (word == NULL)
        rc = sl_fail(err, SL_EINVAL, "%s is missing; known are %s", path,
                     buf_text(&list));
    else if (near != NULL)
        rc = sl_fail(err, SL_EINVAL, "%s: unknown '%.60s'; did you mean '%s'?",
                     path, word, near);
    else
        rc = sl_fail(err, SL_EINVAL, "%s: unknown '%.60s'; known are %s", path,
                     word, buf_text(&list));
    buf_release(&list);
    return rc;
}

enum sl_err spec_only(const char *path, const ProtobufCMessage *m,
                      const char *words, const char *what, struct sl_error *err)
{
    const char *name = field_outside(m, words);

    if (name == NULL)
        return SL_OK;
    return sl_fail(err, SL_EINVAL, "%s: takes no '%s' with %s", path, name,
                   what);
}

enum sl_err spec_range(const char *path, uint64_t value, uint64_t min,
                       uint64_t max, struct sl_error *err)
{
    if (value >= min && value <= max)
        return SL_OK;
    return sl_fail(err, SL_EINVAL, "%s: wants %llu to %llu, got %llu", path,
                   (unsigned long long)min, (unsigned long long)max,
                   (unsigned long long)value);
}

enum sl_err spec_real(const char *path, double value, double min, double max,
                      enum spec_ends ends, struct sl_error *err)
{
    bool low = ends == SPEC_OPEN_LOW ? value > min : value >= min;
    bool high = ends == SPEC_OPEN_HIGH ? value < max : value <= max;

    if (isfinite(value) && low && high)
        return SL_OK;
    if (isinf(max))
        return sl_fail(err, SL_EINVAL, "%s: wants a number %s %g, got %g", path,
                       ends == SPEC_OPEN_LOW ? "above" : "of at least", min,
                       value);
    return sl_fail(err, SL_EINVAL, "%s: wants a number in %c%g, %g%c, got %g",
                   path, ends == SPEC_OPEN_LOW ? '(' : '[', min, max,
                   ends == SPEC_OPEN_HIGH ? ')' : ']', value);
}

bool spec_external(const Sluice__V1__JobSpec *spec)
{
    return spec->model != NULL && spec->model->type != NULL &&
           strcmp(spec->model->type, "external") == 0;
}

bool spec_rows_only(const Sluice__V1__JobSpec *spec)
{
    return spec_external(spec) && spec->model->n_variables == 0 &&
           spec->model->n_tables > 0;
}

enum wire_type spec_type_of(const char *word, unsigned count,
                            enum wire_type missing)
{
    unsigned type = missing;

    if (word != NULL)
        (void)spec_word("", word, wire_type_names, count, &type, NULL);
    return (enum wire_type)type;
}
