// SPDX-License-Identifier: Apache-2.0
// proto/spec.c -- the check of a whole job spec, and what its parts share.
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

// Whether it has ASCII letters, digits, '-' and '_' alone.
static bool spec_is_plain_name(const char *name)
{
    for (; *name != '\0'; name++)
        if (!(*name >= 'a' && *name <= 'z') &&
            !(*name >= 'A' && *name <= 'Z') &&
            !(*name >= '0' && *name <= '9') && *name != '-' && *name != '_')
            return false;
    return true;
}

// Checks a name that becomes part of files' names.
static enum sl_err spec_check_name(const char *name, struct sl_error *err)
{
    size_t len = name != NULL ? strlen(name) : 0;

    if (len == 0)
        return sl_fail(err, SL_EINVAL, "name is missing");
    if (len > SPEC_NAME_BYTES || !spec_is_plain_name(name) || name[0] == '-' ||
        name[len - 1] == '-')
        return sl_fail(
            err, SL_EINVAL,
            "name: wants 1 to %u of letters, 0-9, '-' and '_', not beginning "
            "or ending with '-', got '%.80s'",
            SPEC_NAME_BYTES, name);
    return SL_OK;
}

enum sl_err spec_check_new(const Sluice__V1__JobSpec *spec,
                           struct sl_error *err)
{
    const char *number =
        strncmp(spec->name, "j-", 2) == 0 ? spec->name + 2 : "";

    if (number[0] != '\0' && number[strspn(number, "0123456789")] == '\0')
        return sl_fail(err, SL_EINVAL,
                       "name: '%s' looks like the id of a job; choose another",
                       spec->name);
    return SL_OK;
}

static enum sl_err check_head(Sluice__V1__JobSpec *spec, struct sl_error *err)
{
    static const char *const versions[] = {"sluice/v1"};
    static const char *const kinds[] = {"Job"};
    enum sl_err rc;

    rc = spec_string(&spec->api_version, versions[0]);
    if (rc == SL_OK)
        rc = spec_string(&spec->kind, kinds[0]);
    if (rc == SL_OK)
        rc =
            spec_word("api_version", spec->api_version, versions, 1, NULL, err);
    if (rc == SL_OK)
        rc = spec_word("kind", spec->kind, kinds, 1, NULL, err);
    return rc == SL_OK ? spec_check_name(spec->name, err) : rc;
}

static enum sl_err check_parts(Sluice__V1__JobSpec *spec, const struct model *m,
                               struct sl_error *err)
{
    enum sl_err rc = spec_check_loss(spec, m, err);

    if (rc == SL_OK && spec->optimizer == NULL)
        return sl_fail(err, SL_EINVAL,
                       "optimizer is missing, e.g. optimizer: {type: adam}");
    if (rc == SL_OK)
        rc = spec_check_optimizer(spec->optimizer, err);
    if (rc == SL_OK)
        rc = spec_check_data(spec, m->external, err);
    if (rc == SL_OK)
        rc = spec_check_labels("data.train", spec->data->train, spec_loss(spec),
                               m, err);
    if (rc == SL_OK)
        rc = spec_check_labels("data.test", spec->data->test, spec_loss(spec),
                               m, err);
    if (rc == SL_OK)
        rc = spec_check_train(spec, err);
    if (rc == SL_OK)
        rc = spec_check_placement(spec, err);
    if (rc == SL_OK)
        rc = spec_check_checkpoint(spec, err);
    if (rc == SL_OK)
        rc = spec_check_evaluate(spec, err);
    if (rc == SL_OK)
        rc = spec_check_callbacks(spec, err);
    if (rc == SL_OK)
        rc = spec_check_observe(spec, err);
    if (rc == SL_OK)
        rc = spec_check_grouped(spec, m, err);
    return rc;
}

enum sl_err spec_check(Sluice__V1__JobSpec *spec, struct sl_error *err)
{
    struct model *m;
    enum sl_err rc = check_head(spec, err);

    if (rc != SL_OK)
        return rc;
    if (spec->model == NULL)
        return sl_fail(err, SL_EINVAL,
                       "model is missing: give input_shape and layers");
    rc = spec_string(&spec->model->type, "graph");
    if (rc == SL_OK)
        rc = model_make(&m, spec->model, err);
    if (rc != SL_OK)
        return rc;
    spec->model->has_edition = m->edition > 0;
    spec->model->edition = m->edition;
    rc = check_parts(spec, m, err);
    model_free(m);
    if (rc == SL_ENOMEM)
        return sl_fail(err, rc, "out of memory while checking the job spec");
    return rc;
}
