// SPDX-License-Identifier: Apache-2.0
// bench/lib_push.c -- a program of libsluice that computes nothing: it takes
// closures of a job and ends each step with a gradient that it has ready.
//
// What python_loop.py does with NumPy, for the comparison.
#include <string.h>

#include "bench/program.h"
#include "lib/sluice.h"

static const struct conf_about about = {
    .program = "lib_push",
    .usage = "lib_push --coordinator ADDRESS --job N [OPTION]...",
    .text =
        "Copies a gradient into the session's vector, step after step; says "
        "steps and bytes per second.",
    .example = "lib_push --coordinator 127.0.0.1:7070 --job 1 --seconds 2",
};

static const struct conf_key keys[] = {
    {.name = "coordinator",
     .kind = CONF_STRING,
     .value = "",
     .help = "Its address."},
    {.name = "job",
     .kind = CONF_INT,
     .value = "0",
     .max = INT64_MAX,
     .help = "Its number."},
    {.name = "cpu",
     .kind = CONF_INT,
     .value = "-1",
     .min = -1,
     .max = 4096,
     .help = "-1: any core."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, meter_keys, NULL};

// False: the time is over.
static bool one_closure(struct meter *m, struct sluice_closure *c,
                        float **gradient)
{
    uint64_t bytes = sluice_closure_info(c)->elements * sizeof(float);
    struct sluice_result result = {.loss_sum = 1};
    struct sl_error err = SL_ERROR_INIT;
    struct sluice_step step;
    bool more = true;

    if (*gradient == NULL)
        *gradient = program_memory(bytes);
    while (more) {
        double began = program_now_s();

        program_must(sluice_begin(c, &step, &err), &err, "a step");
        if (step.none)
            break;
        memcpy(sluice_grads(c), *gradient, bytes);
        program_must(sluice_end(c, &result, &err), &err, "its end");
        more = meter_add(m, bytes, began, program_now_s());
    }
    sluice_finish(c, NULL);
    return more;
}

int main(int argc, char **argv)
{
    struct conf *conf = program_options(&about, tables, argc, argv);
    struct sluice_options o = {.size = sizeof(o),
                               .coordinator = conf_str(conf, "coordinator"),
                               .name = "lib_push",
                               .job = (uint64_t)conf_int(conf, "job")};
    struct sl_error err = SL_ERROR_INIT;
    struct sluice_closure *c;
    struct meter meter = {0};
    float *gradient = NULL;
    struct sluice *s;

    if (conf_int(conf, "cpu") >= 0)
        program_pin((int)conf_int(conf, "cpu"));
    program_must(sluice_open(&s, &o, &err), &err, "a session");
    program_must(sluice_attach(s, 10000, &err), &err, "the coordinator");
    meter_start(&meter, conf);
    do
        program_must(sluice_take(s, 10000, &c, &err), &err, "a closure");
    while (one_closure(&meter, c, &gradient));
    meter_print(&meter, "lib_push");
    meter_release(&meter);
    sluice_close(s);
    conf_free(conf);
    return 0;
}
