// SPDX-License-Identifier: Apache-2.0
// bench/net_job.c -- see net_job.h.
#include "bench/net_job.h"

#include "bench/program.h"
#include "client/spec/specfile.h"
#include "common/base/rng.h"

#define SETS_MAX 16

const struct conf_key net_job_keys[] = {
    {.name = "spec", .kind = CONF_STRING, .help = "A job's spec."},
    {.name = "set",
     .kind = CONF_MULTI,
     .help = "PATH=VALUE: changes a field of the spec, as `sluice submit`."},
    {.name = NULL},
};

struct record *net_job_record(const struct conf *c)
{
    Sluice__V1__JobOpen open = SLUICE__V1__JOB_OPEN__INIT;
    struct sl_error err = SL_ERROR_INIT;
    const char *sets[SETS_MAX];
    struct record *record = NULL;
    size_t count = conf_list_count(c, "set");

    if (conf_str(c, "spec") == NULL || count > SETS_MAX)
        program_die("one --spec, and at most %d --set are wanted", SETS_MAX);
    for (size_t i = 0; i < count; i++)
        sets[i] = conf_list_at(c, "set", i);
    program_must(
        specfile_load(&open.spec, conf_str(c, "spec"), sets, count, &err), &err,
        "the spec");
    program_must(record_new(&record, &open, &err), &err, "the job");
    wire_free(&open.spec->base);
    return record;
}

void net_job_params(float *params, const struct model *m)
{
    for (uint32_t i = 0; i < m->variables_count; i++) {
        const struct model_variable *v = &m->variables[i];
        float *at = params + v->first;

        rng_fill_uniform(at, 1, i, 0, v->elements);
        for (uint64_t k = 0; k < v->elements; k++) {
            double span =
                v->init.kind == MODEL_INIT_UNIFORM ? v->init.b - v->init.a : 0;
            at[k] = (float)(v->init.a + span * at[k]);
        }
    }
}
