// SPDX-License-Identifier: Apache-2.0
// proto/spec.c -- the check of a whole job spec.
#include "proto/spec_check.h"

#include <string.h>

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

// Checks the optimizer of the steps. That of steps which a program takes by
// itself is the program's.
static enum sl_err check_job_optimizer(Sluice__V1__JobSpec *spec,
                                       struct sl_error *err)
{
    bool own = spec_external(spec) && spec_local(spec);
    enum sl_err rc;

    if (own && spec->optimizer == NULL)
        return SL_OK;
    if (own)
        return sl_fail(err, SL_EINVAL,
                       "optimizer: the model is external, and in local its "
                       "program takes the steps with its own; leave it out, "
                       "and say that of the psservers in train.outer");
    if (spec->optimizer == NULL)
        return sl_fail(err, SL_EINVAL,
                       "optimizer is missing, e.g. optimizer: {type: adam}");
    rc = spec_check_optimizer(spec->optimizer, err);
    return rc == SL_OK ? spec_check_groups(spec->optimizer, err) : rc;
}

static enum sl_err check_parts(Sluice__V1__JobSpec *spec, const struct model *m,
                               struct sl_error *err)
{
    enum sl_err rc = spec_check_loss(spec, m, err);

    if (rc == SL_OK)
        rc = check_job_optimizer(spec, err);
    if (rc == SL_OK)
        rc = spec_check_data(spec, m, err);
    if (rc == SL_OK)
        rc = spec_check_labels("data.train", spec->data->train, spec, m, err);
    if (rc == SL_OK)
        rc = spec_check_labels("data.test", spec->data->test, spec, m, err);
    if (rc == SL_OK)
        rc = spec_check_train(spec, err);
    if (rc == SL_OK)
        rc = spec_check_weights(spec, m, err);
    if (rc == SL_OK)
        rc = spec_check_placement(spec, err);
    if (rc == SL_OK)
        rc = spec_check_checkpoint(spec, err);
    if (rc == SL_OK)
        rc = spec_check_evaluate(spec, m, err);
    if (rc == SL_OK)
        rc = spec_check_callbacks(spec, err);
    if (rc == SL_OK)
        rc = spec_check_observe(spec, err);
    if (rc == SL_OK)
        rc = spec_check_grouped(spec, m, err);
    if (rc == SL_OK)
        rc = spec_check_tables(spec, m, err);
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
        rc = spec_set_outputs(spec, err);
    if (rc == SL_OK)
        rc = model_make(&m, spec->model, err);
    if (rc == SL_ENOMEM)
        return sl_fail(err, rc, "out of memory while checking the job spec");
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
