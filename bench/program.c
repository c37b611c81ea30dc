// SPDX-License-Identifier: Apache-2.0
#include "bench/program.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/fs.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

static const char *name = "bench";

void program_die(const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "%s: ", name);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    fflush(NULL);
    _exit(1); // perhaps on a thread that exit() would wait for
}

void program_must(enum sl_err rc, const struct sl_error *err, const char *what)
{
    if (rc == SL_OK)
        return;
    if (err != NULL && err->text[0] != '\0')
        program_die("%s: %s", what, err->text);
    program_die("%s: %s", what, sl_err_text(rc));
}

struct conf *program_options(const struct conf_about *about,
                             const struct conf_key *const *tables, int argc,
                             char **argv)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf help = BUF_INIT;
    struct conf *conf = NULL;
    enum sl_err rc = conf_new(&conf, about, tables[0]);

    name = about->program;
    for (size_t i = 1; rc == SL_OK && tables[i] != NULL; i++)
        rc = conf_add(conf, tables[i]);
    program_must(rc, NULL, "options");
    rc = conf_load(conf, fs_posix(), argc, argv, NULL, &err);
    if (rc != SL_OK) {
        fprintf(stderr, "%s: %s\n", name, err.text);
        exit(2);
    }
    if (!conf_wants_help(conf))
        return conf;
    program_must(conf_help(&help, conf), NULL, "help");
    fwrite(help.data, 1, help.len, stdout);
    exit(0);
}

void program_pin(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((unsigned)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        program_die("cannot run on CPU %d: %s", cpu, strerror(errno));
}

double program_now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void program_print_list(const char *key, const double *x, int count)
{
    printf("\"%s\": [", key);
    for (int i = 0; i < count; i++)
        printf("%s%.6g", i ? ", " : "", x[i]);
    printf("]");
}

void *program_memory(size_t bytes)
{
    size_t whole = (bytes + HUGE_PAGE_BYTES - 1) & ~(HUGE_PAGE_BYTES - 1);
    void *at = aligned_alloc(HUGE_PAGE_BYTES, whole ? whole : HUGE_PAGE_BYTES);

    if (at == NULL)
        program_die("%zu bytes of memory are not to be had", bytes);
    if (whole > HUGE_PAGE_BYTES)
        (void)madvise(at, whole, MADV_HUGEPAGE); // a wish
    memset(at, 0, whole);
    return at;
}

// ---- two processes

const struct conf_key pair_keys[] = {
    {.name = "far-cpu",
     .kind = CONF_INT,
     .value = "0",
     .help = "Core of the far end."},
    {.name = "near-cpu", .kind = CONF_INT, .value = "1", .help = "Ours."},
    {.name = NULL},
};

const struct conf_key message_keys[] = {
    {.name = "bytes",
     .kind = CONF_BYTES,
     .value = "1MiB",
     .min = 16,
     .max = 1 << 30,
     .help = "Size of a message."},
    {.name = "outstanding",
     .kind = CONF_INT,
     .value = "4",
     .min = 1,
     .max = OUTSTANDING_MAX,
     .unit = "messages",
     .help = "How many may be on their way."},
    {.name = NULL},
};

void pair_far(const struct conf *c)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    program_pin((int)conf_int(c, "far-cpu"));
}

void pair_near(const struct conf *c)
{
    program_pin((int)conf_int(c, "near-cpu"));
}

// ---- the meter

const struct conf_key meter_keys[] = {
    {.name = "seconds",
     .kind = CONF_FLOAT,
     .value = "2",
     .help = "How long to count."},
    {.name = "warmup",
     .kind = CONF_FLOAT,
     .value = "0.3",
     .help = "Seconds before that."},
    {.name = NULL},
};

static double cpu_s(int who)
{
    struct rusage u;

    if (getrusage(who, &u) != 0)
        return 0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

double program_cpu_s(void)
{
    return cpu_s(RUSAGE_SELF);
}

double program_thread_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double program_peak_bytes(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return 1024.0 * (double)used.ru_maxrss;
}

static double all_cpu_s(void)
{
    return program_cpu_s() + cpu_s(RUSAGE_CHILDREN);
}

void meter_start(struct meter *m, const struct conf *c)
{
    *m = (struct meter){.from_s = program_now_s() + conf_float(c, "warmup"),
                        .cpu_s = all_cpu_s()};
    m->until_s = m->from_s + conf_float(c, "seconds");
}

void meter_release(struct meter *m)
{
    free(m->ms);
    *m = (struct meter){0};
}

bool meter_add(struct meter *m, uint64_t bytes, double began_s, double now_s)
{
    m->all_bytes += bytes;
    if (now_s >= m->until_s)
        return false;
    if (now_s < m->from_s)
        return true;
    if (m->messages == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 1 << 16;
        m->ms = realloc(m->ms, m->cap * sizeof(*m->ms));
        if (m->ms == NULL)
            program_die("memory for %zu latencies is not to be had", m->cap);
    }
    m->ms[m->messages++] = (now_s - began_s) * 1e3;
    m->bytes += bytes;
    return true;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

void program_sort(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), by_size);
}

double program_percentile(const double *sorted, size_t n, double part)
{
    double place = part * (double)n;
    size_t at = (size_t)place;

    if (n == 0)
        return 0;
    if ((double)at == place && at > 0)
        at--;
    return sorted[at < n ? at : n - 1];
}

void meter_print(struct meter *m, const char *what)
{
    double seconds = m->until_s - m->from_s;

    if (m->messages == 0)
        program_die("%s: not one message in %g s", what, seconds);
    program_sort(m->ms, m->messages);
    printf("{\"what\": \"%s\", \"messages\": %llu, \"seconds\": %.3f, "
           "\"bytes_per_s\": %.6g, \"per_s\": %.6g, \"p50_ms\": %.6g, "
           "\"p99_ms\": %.6g, \"max_ms\": %.6g, \"all_bytes\": %llu, "
           "\"cpu_s\": %.6g}\n",
           what, (unsigned long long)m->messages, seconds,
           (double)m->bytes / seconds, (double)m->messages / seconds,
           program_percentile(m->ms, m->messages, 0.5),
           program_percentile(m->ms, m->messages, 0.99),
           program_percentile(m->ms, m->messages, 1),
           (unsigned long long)m->all_bytes, all_cpu_s() - m->cpu_s);
}
