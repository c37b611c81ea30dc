// SPDX-License-Identifier: Apache-2.0
// bench/input_read.c -- how fast a worker reads samples, and how fast a file
// is.
//
// Ours is the worker's own: the files are opened, samples are drawn in an
// epoch's shuffled order and put together in batches by the input thread, bytes
// as bytes; nobody computes on them. Plain is read(2) of the same files
// from the first byte to the last. Both on one core, from when nothing is open,
// for at most --seconds; once when the system has the files in memory, once
// after it was told to forget them.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/program.h"
#include "tests/harness/roots.h"
#include "worker/data/input.h"

#define PLAIN_BYTES ((size_t)1 << 20) // of one read
#define ROUNDS_MAX 64

struct reader {
    struct data_source source;
    struct data_want want;
    uint32_t batch;
    double seconds;
    uint64_t samples; // in the files
    void *room;       // PLAIN_BYTES
};

// Samples per second of each round.
struct rates {
    double ours[ROUNDS_MAX], ours_cold[ROUNDS_MAX];
    double plain[ROUNDS_MAX], plain_cold[ROUNDS_MAX];
};

static int open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        program_die("%s cannot be read", path);
    return fd;
}

static void forget(const char *path)
{
    int fd = open_file(path);

    (void)fdatasync(fd); // what is not on the disk yet is kept
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static void forget_both(const struct reader *r)
{
    forget(r->source.x);
    forget(r->source.y);
}

// ---- ours

static uint64_t drain(struct reader *r, struct input *in, struct input_run *run,
                      double until)
{
    struct sl_error err = SL_ERROR_INIT;
    uint64_t samples = 0;
    struct batch batch;

    for (uint32_t i = 0; i < input_run_steps(run); i++) {
        program_must(input_get(in, run, i, &batch, &err), &err, "a batch");
        samples += batch.n;
        input_put(in, &batch);
        if (program_now_s() > until)
            break;
    }
    return samples;
}

static double ours(struct reader *r, uint64_t epoch)
{
    double began = program_now_s();
    struct sl_error err = SL_ERROR_INIT;
    struct input_run run = {.shuffle = true, .epoch = epoch, .batch = r->batch};
    struct input *in;
    uint64_t samples;

    program_must(data_open(&run.data, &r->source, &r->want, &err), &err,
                 "the data");
    program_must(input_new(&in, 1, &err), &err, "the input");
    run.count = r->samples = data_samples(run.data);
    program_must(order_init(&run.order, 1, epoch, run.count), NULL, "an order");
    input_open(in, &run);
    samples = drain(r, in, &run, began + r->seconds);
    began = program_now_s() - began;
    input_close(in, &run);
    input_free(in);
    data_free(run.data);
    return (double)samples / began;
}

// ---- plain

static uint64_t read_plain(const struct reader *r, const char *path,
                           double until)
{
    int fd = open_file(path);
    uint64_t bytes = 0;
    ssize_t n = 1;

    while (n > 0 && program_now_s() < until) {
        n = read(fd, r->room, PLAIN_BYTES);
        bytes += n > 0 ? (uint64_t)n : 0;
    }
    close(fd);
    return bytes;
}

static uint64_t size_of(const char *path)
{
    int fd = open_file(path);
    off_t end = lseek(fd, 0, SEEK_END);

    close(fd);
    return (uint64_t)end;
}

// Labels first: they are few, and count as their share of the bytes.
static double plain(const struct reader *r)
{
    double began = program_now_s(), until = began + r->seconds, share;
    uint64_t bytes = read_plain(r, r->source.y, until);

    bytes += read_plain(r, r->source.x, until);
    share =
        (double)bytes / (double)(size_of(r->source.x) + size_of(r->source.y));
    return share * (double)r->samples / (program_now_s() - began);
}

// ---- the program

static void measure(struct reader *r, struct rates *out, int rounds)
{
    (void)ours(r, 0); // warm
    (void)plain(r);
    for (int i = 0; i < rounds; i++) {
        out->ours[i] = ours(r, (uint64_t)i);
        out->plain[i] = plain(r);
    }
    for (int i = 0; i < rounds; i++) {
        forget_both(r);
        out->ours_cold[i] = ours(r, (uint64_t)i);
        forget_both(r);
        out->plain_cold[i] = plain(r);
    }
    (void)plain(r); // as they were
}

static void print(const char *key, const double *rate, int rounds)
{
    printf(", ");
    program_print_list(key, rate, rounds);
}

static const struct conf_about about = {
    .program = "input_read",
    .usage = "input_read --format FORMAT --x FILE --y FILE [OPTION]...",
    .text = "Reads images of 28 x 28 and their labels as a worker does, and "
            "plainly.",
    .example = "input_read --format npy --x x.npy --y y.npy",
};

static const struct conf_key keys[] = {
    {.name = "format",
     .kind = CONF_CHOICE,
     .value = "idx",
     .choices = "idx|npy",
     .help = "Of both files."},
    {.name = "x", .kind = CONF_STRING, .help = "The images."},
    {.name = "y", .kind = CONF_STRING, .help = "Their labels, 0 to 9."},
    {.name = "batch",
     .kind = CONF_INT,
     .value = "64",
     .min = 1,
     .max = 1 << 16,
     .unit = "samples",
     .help = "Of one step."},
    {.name = "rounds",
     .kind = CONF_INT,
     .value = "3",
     .min = 1,
     .max = ROUNDS_MAX,
     .help = "How often each is measured."},
    {.name = "seconds",
     .kind = CONF_FLOAT,
     .value = "2",
     .help = "At most, of one reading."},
    {.name = "cpu", .kind = CONF_INT, .value = "1", .help = "Our core."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, NULL};

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    int rounds = (int)conf_int(c, "rounds");
    static struct rates rates;
    struct reader r = {
        .source = {.format = conf_str(c, "format"),
                   .x = conf_str(c, "x"),
                   .y = conf_str(c, "y"),
                   .roots = t_roots(),
                   .scale = 1.0 / 255},
        .want = {.rank = 3,
                 .dim = {28, 28, 1},
                 .outputs = 10,
                 .labels = DATA_INDEX,
                 .u8 = true},
        .batch = (uint32_t)conf_int(c, "batch"),
        .seconds = conf_float(c, "seconds"),
        .room = program_memory(PLAIN_BYTES),
    };

    if (r.source.x == NULL || r.source.y == NULL)
        program_die("--x and --y are missing: which files?");
    program_pin((int)conf_int(c, "cpu"));
    measure(&r, &rates, rounds);
    printf("{\"what\": \"input_read\", \"samples\": %llu",
           (unsigned long long)r.samples);
    print("ours_per_s", rates.ours, rounds);
    print("ours_cold_per_s", rates.ours_cold, rounds);
    print("plain_per_s", rates.plain, rounds);
    print("plain_cold_per_s", rates.plain_cold, rounds);
    printf("}\n");
    free(r.room);
    conf_free(c);
    return 0;
}
