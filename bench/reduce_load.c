// SPDX-License-Identifier: Apache-2.0
// bench/reduce_load.c -- all-reduce between processes: one vector after
// another, as a ring's ranks add their gradients.
//
// Rank 0 decides when it is over, through the sum itself: its first element.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/program.h"
#include "common/base/mem.h"
#include "trainer/sum/sum_group.h"

#define RANKS_MOST 64

struct ranks_said {
    char *text; // owned, cut into the rest
    struct group_rank rank[RANKS_MOST];
    uint32_t count;
};

static const struct conf_about about = {
    .program = "reduce_load",
    .usage = "reduce_load [OPTION]...",
    .text = "Adds a vector over several processes, again and again, and says "
            "how long that takes.",
    .example = "reduce_load --ranks unix:/tmp/a=h,unix:/tmp/b=h --bytes 1MiB",
};

static const struct conf_key keys[] = {
    {.name = "ranks",
     .kind = CONF_STRING,
     .help = "ADDRESS=HOST of each rank, with commas between; those of one "
             "host share memory."},
    {.name = "self",
     .kind = CONF_INT,
     .value = "-1",
     .min = -1,
     .max = RANKS_MOST - 1,
     .help = "Which of them this process is; -1: start all of them here, each "
             "on a core."},
    {.name = "bytes",
     .kind = CONF_BYTES,
     .value = "1MiB",
     .min = 4,
     .max = 1 << 30,
     .help = "Size of the vector."},
    {.name = "bucket",
     .kind = CONF_BYTES,
     .value = "64MiB",
     .min = 4,
     .max = 1 << 30,
     .help = "It is cut into buckets of so many bytes, which are started at "
             "once."},
    {.name = "cpu",
     .kind = CONF_INT,
     .value = "-1",
     .min = -1,
     .max = 4096,
     .help = "Core of this process; -1: any, or one each with --self -1."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, meter_keys, tls_keys,
                                                NULL};

static void read_ranks(struct ranks_said *r, const char *text)
{
    char *save = NULL;

    r->text = sl_strdup(text);
    for (char *one = strtok_r(r->text, ",", &save); one != NULL;
         one = strtok_r(NULL, ",", &save)) {
        char *host = strrchr(one, '=');

        if (host == NULL || r->count == RANKS_MOST)
            program_die("--ranks: '%s' is no ADDRESS=HOST", one);
        *host = '\0';
        r->rank[r->count++] = (struct group_rank){one, host + 1};
    }
    if (r->count == 0)
        program_die("--ranks names nobody");
}

// Forks until this process is one rank; rank 0 is the one that was started.
static uint32_t start_all(uint32_t count, int cpus)
{
    for (uint32_t i = 1; i < count; i++) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            program_pin((int)i % cpus);
            return i;
        }
    }
    program_pin(0);
    return 0;
}

struct sums {
    struct rank_group *group;
    float *data;
    size_t elements, bucket;
    uint64_t number;
};

static void add(struct sums *s)
{
    struct sl_error err = SL_ERROR_INIT;
    uint64_t first = s->number;

    for (size_t at = 0; at < s->elements; at += s->bucket) {
        size_t some =
            s->elements - at < s->bucket ? s->elements - at : s->bucket;

        program_must(
            group_start(s->group, s->number++, s->data + at, some, &err), &err,
            "group_start");
    }
    for (uint64_t b = first; b < s->number; b++)
        program_must(group_wait(s->group, b, &err), &err, "group_wait");
}

// Values stay small: each run begins with ones.
static void run(struct sums *s, struct meter *m, uint32_t self)
{
    bool more = true;

    while (more) {
        double began = program_now_s();

        s->data[0] = self == 0 && m->until_s <= began ? 1 : 0;
        add(s);
        more = s->data[0] == 0;
        if (self == 0 && more)
            meter_add(m, s->elements * sizeof(float), began, program_now_s());
        if (s->data[1] > 1e30f || s->data[s->elements - 1] > 1e30f)
            for (size_t i = 1; i < s->elements; i++)
                s->data[i] = 1;
    }
}

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    struct ranks_said said = {0};
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_io_options io_options = {.threads = 1};
    struct group_options o = {.of = {.job = 1, .generation = 1},
                              .timeout_ms = 10000};
    struct rpc_server *server;
    struct rpc_tls tls;
    struct rpc_table table;
    struct sums s = {0};
    struct meter meter;
    int self = (int)conf_int(c, "self");

    read_ranks(&said, conf_str(c, "ranks"));
    if (self < 0)
        self = (int)start_all(said.count, (int)sysconf(_SC_NPROCESSORS_ONLN));
    else if (conf_int(c, "cpu") >= 0)
        program_pin((int)conf_int(c, "cpu"));
    program_must(tls_read_conf(&tls, c, &err), &err, "TLS");
    o.tls = tls.ca_file != NULL ? &tls : NULL;
    program_must(rpc_io_new(&o.io, &io_options, &err), &err, "rpc_io_new");
    program_must(ranks_new(&o.ranks), &err, "ranks_new");
    table = ranks_table(o.ranks);
    program_must(rpc_server_new(&server, o.io, &table, 1, NULL, &err), &err,
                 "rpc_server_new");
    program_must(
        rpc_server_bind(server, said.rank[self].address, o.tls, NULL, &err),
        &err, "rpc_server_bind");
    rpc_server_start(server);
    o.rank = said.rank;
    o.count = said.count;
    o.self = (uint32_t)self;
    program_must(group_new(&s.group, &o, &err), &err, "group_new");
    s.elements = (size_t)conf_int(c, "bytes") / sizeof(float);
    s.bucket = (size_t)conf_int(c, "bucket") / sizeof(float);
    s.data = program_memory(s.elements * sizeof(float));
    for (size_t i = 0; i < s.elements; i++)
        s.data[i] = 1;
    meter_start(&meter, c);
    run(&s, &meter, (uint32_t)self);
    group_free(s.group);
    if (self != 0)
        _exit(0);
    while (wait(NULL) > 0)
        ;
    meter_print(&meter, "allreduce");
    meter_release(&meter);
    rpc_server_free(server);
    ranks_free(o.ranks);
    rpc_io_free(o.io);
    sl_free(said.text);
    conf_free(c);
    return 0;
}
