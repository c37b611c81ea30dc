// SPDX-License-Identifier: Apache-2.0
// bench/lib_push.c -- a program of libsluice that computes nothing: it takes
// closures of a job and ends each step with a gradient that it has ready.
//
// What python_loop.py does with NumPy, for the comparison. With --tables it
// also pulls rows of each table, and pushes gradients for them.
#include <string.h>

#include "bench/program.h"
#include "common/base/rng.h"
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
    {.name = "tables",
     .kind = CONF_INT,
     .value = "0",
     .max = 1000,
     .help = "Tables of the job."},
    {.name = "ids",
     .kind = CONF_INT,
     .value = "2048",
     .min = 1,
     .max = 1 << 20,
     .help = "Ids of a step and table."},
    {.name = "dim",
     .kind = CONF_INT,
     .value = "16",
     .min = 1,
     .max = 4096,
     .help = "Values of a row, as the job has them."},
    {.name = "ahead",
     .kind = CONF_BOOL,
     .value = "true",
     .help = "Rows of the next step are asked for while a step is under way."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, meter_keys, NULL};

#define KNOWN_IDS 65536 // of a table

struct load {
    float *gradient; // of the variables; NULL: not there yet
    uint32_t tables, ids, dim;
    bool ahead;
    struct rng rng;
    // Of each table, of this step and of the next one; `rows` are their
    // gradients, too.
    struct sluice_rows *of, *next;
};

static struct sluice_rows *rows_new(const struct load *l)
{
    struct sluice_rows *of = program_memory((l->tables + 1) * sizeof(*of));

    for (uint32_t t = 0; t < l->tables; t++)
        of[t] = (struct sluice_rows){
            .table = t,
            .n = l->ids,
            .ids = program_memory(l->ids * sizeof(uint64_t)),
            .rows = program_memory((size_t)l->ids * l->dim * sizeof(float))};
    return of;
}

static void rows_draw(struct load *l, struct sluice_rows *of)
{
    for (uint32_t t = 0; t < l->tables; t++)
        for (uint32_t i = 0; i < l->ids; i++)
            ((uint64_t *)of[t].ids)[i] = rng_u32(&l->rng) % KNOWN_IDS;
}

static void load_init(struct load *l, const struct conf *c)
{
    l->tables = (uint32_t)conf_int(c, "tables");
    l->ids = (uint32_t)conf_int(c, "ids");
    l->dim = (uint32_t)conf_int(c, "dim");
    l->ahead = conf_bool(c, "ahead");
    rng_init(&l->rng, 5, 5);
    l->of = rows_new(l);
    l->next = rows_new(l);
    rows_draw(l, l->next);
}

// Pulls rows of each table and pushes them as their gradients; returns the
// bytes of both, with ids.
static uint64_t push_rows(struct load *l, struct sluice_closure *c)
{
    struct sl_error err = SL_ERROR_INIT;
    struct sluice_rows *of = l->next;

    l->next = l->of;
    l->of = of;
    program_must(sluice_rows_pull_all(c, of, l->tables, &err), &err, "rows");
    rows_draw(l, l->next);
    if (l->ahead)
        program_must(sluice_rows_ahead(c, l->next, l->tables, &err), &err,
                     "rows of the next step");
    for (uint32_t t = 0; t < l->tables; t++)
        program_must(
            sluice_rows_push(c, t, l->ids, of[t].ids, of[t].rows, &err), &err,
            "gradients of rows");
    return 2 * (uint64_t)l->tables * l->ids *
           (sizeof(uint64_t) + l->dim * sizeof(float));
}

// False: the time is over.
static bool one_closure(struct meter *m, struct sluice_closure *c,
                        struct load *l)
{
    uint64_t bytes = sluice_closure_info(c)->elements * sizeof(float);
    struct sluice_result result = {.loss_sum = 1};
    struct sl_error err = SL_ERROR_INIT;
    struct sluice_step step;
    enum sl_err rc;
    bool more = true;

    if (l->gradient == NULL)
        l->gradient = program_memory(bytes);
    while (more) {
        double began = program_now_s();
        uint64_t moved;

        rc = sluice_begin(c, &step, &err);
        if (rc == SL_ECANCELED) // the closure was lost
            break;
        program_must(rc, &err, "a step");
        if (step.none)
            break;
        memcpy(sluice_grads(c), l->gradient, bytes);
        moved = bytes + push_rows(l, c);
        rc = sluice_end(c, &result, &err);
        if (rc == SL_ECANCELED)
            break;
        program_must(rc, &err, "its end");
        more = meter_add(m, moved, began, program_now_s());
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
    struct load load = {.gradient = NULL};
    struct sluice *s;

    load_init(&load, conf);
    if (conf_int(conf, "cpu") >= 0)
        program_pin((int)conf_int(conf, "cpu"));
    program_must(sluice_open(&s, &o, &err), &err, "a session");
    program_must(sluice_attach(s, 10000, &err), &err, "the coordinator");
    meter_start(&meter, conf);
    do
        program_must(sluice_take(s, 10000, &c, &err), &err, "a closure");
    while (one_closure(&meter, c, &load));
    meter_print(&meter, "lib_push");
    meter_release(&meter);
    sluice_close(s);
    conf_free(conf);
    return 0;
}
