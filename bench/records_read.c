// SPDX-License-Identifier: Apache-2.0
// bench/records_read.c -- how fast a worker reads images from TFRecord files or
// tar archives.
//
// The set is opened, and its samples are drawn in an epoch's shuffled order,
// decoded, resized and put together in batches by the input threads, as in a
// job; nobody computes on them. One epoch warms the files, and the next ones
// count, for --seconds.
#include <stdio.h>

#include "bench/program.h"
#include "tests/harness/roots.h"
#include "worker/data/input.h"

static uint64_t records_epoch(struct input *in, struct data *data,
                              uint64_t epoch, uint32_t batch, double until)
{
    struct sl_error err = SL_ERROR_INIT;
    struct input_run run = {.data = data,
                            .shuffle = true,
                            .epoch = epoch,
                            .count = data_samples(data),
                            .batch = batch};
    uint64_t samples = 0;
    struct batch one;

    program_must(order_init(&run.order, 1, epoch, run.count), NULL, "an order");
    input_open(in, &run);
    for (uint32_t i = 0; i < input_run_steps(&run); i++) {
        program_must(input_get(in, &run, i, &one, &err), &err, "a batch");
        samples += one.n;
        input_put(in, &one);
        if (program_now_s() > until)
            break;
    }
    input_close(in, &run);
    return samples;
}

static const struct conf_about about = {
    .program = "records_read",
    .usage = "records_read --format FORMAT --x PATTERN [OPTION]...",
    .text = "Reads images from records or archives as a worker does.",
    .example = "records_read --format tfrecord --x 'train-*.tfrecord'",
};

static const struct conf_key keys[] = {
    {.name = "format",
     .kind = CONF_CHOICE,
     .value = "tfrecord",
     .choices = "tfrecord|webdataset",
     .help = "Of the files."},
    {.name = "x", .kind = CONF_STRING, .help = "The files."},
    {.name = "side",
     .kind = CONF_INT,
     .value = "224",
     .min = 1,
     .max = 4096,
     .unit = "pixels",
     .help = "Of the images that a model reads."},
    {.name = "classes",
     .kind = CONF_INT,
     .value = "1000",
     .min = 2,
     .max = 1 << 20,
     .help = "Of the labels."},
    {.name = "batch",
     .kind = CONF_INT,
     .value = "32",
     .min = 1,
     .max = 1 << 16,
     .unit = "samples",
     .help = "Of one step."},
    {.name = "threads",
     .kind = CONF_INT,
     .value = "2",
     .min = 1,
     .max = INPUT_THREADS_MAX,
     .help = "That decode."},
    {.name = "seconds", .kind = CONF_FLOAT, .value = "5", .help = "Measured."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, NULL};

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    struct data_source source = {.format = conf_str(c, "format"),
                                 .x = conf_str(c, "x"),
                                 .image = {.key = "image/encoded"},
                                 .label = {.key = "image/class/label"},
                                 .roots = t_roots(),
                                 .scale = 1.0 / 255};
    uint64_t side = (uint64_t)conf_int(c, "side"), samples = 0;
    struct data_want want = {.rank = 3,
                             .dim = {side, side, 3},
                             .outputs = (uint64_t)conf_int(c, "classes"),
                             .labels = DATA_INDEX,
                             .u8 = true};
    uint32_t batch = (uint32_t)conf_int(c, "batch");
    double seconds = conf_float(c, "seconds"), began = program_now_s(), opened,
           cpu;
    struct sl_error err = SL_ERROR_INIT;
    struct data *data;
    struct input *in;

    if (source.x == NULL)
        program_die("--x is missing: which files?");
    if (source.format[0] == 'w')
        source.image.key = source.label.key = NULL;
    program_must(data_open(&data, &source, &want, &err), &err, "the data");
    opened = program_now_s() - began;
    program_must(input_new(&in, (unsigned)conf_int(c, "threads"), &err), &err,
                 "the input");
    (void)records_epoch(in, data, 0, batch, program_now_s() + seconds);
    cpu = program_cpu_s();
    began = program_now_s();
    for (uint64_t epoch = 1; program_now_s() < began + seconds; epoch++)
        samples += records_epoch(in, data, epoch, batch, began + seconds);
    began = program_now_s() - began;
    cpu = program_cpu_s() - cpu;
    printf("{\"what\": \"records_read\", \"samples\": %llu, \"open_s\": %.6f, "
           "\"index_bytes\": %llu, \"per_s\": %.1f, \"cpu_us\": %.1f}\n",
           (unsigned long long)data_samples(data), opened,
           (unsigned long long)data_memory(data), (double)samples / began,
           cpu * 1e6 / (double)samples);
    input_free(in);
    data_free(data);
    conf_free(c);
    return 0;
}
