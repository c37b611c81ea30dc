// SPDX-License-Identifier: Apache-2.0
// bench/ps_load.c -- a worker that computes nothing: calls to the shards of a
// job, as many on their way per shard as asked for, one after the other.
//
// The job is an `external` one that a real coordinator placed on real
// psservers. Keys are used up in ascending order, so a shard's version is the
// number of its next step, and a second run goes on where the first one ended.
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench/program.h"
#include "bench/target.h"

struct load {
    enum target_call call;
    uint64_t steps_per_closure;
    size_t shards;
    bool in_turn; // an op goes from shard to shard
    struct target target[TARGETS_MAX];
    atomic_uint_fast64_t next_step[TARGETS_MAX];
    atomic_uint active; // ops on their way, and one for main
    sem_t over;
    size_t turn;        // the I/O thread's, as
    struct meter meter; // this, the I/O thread's while it runs
};

static void next(struct load *l, struct target_op *op)
{
    uint64_t step = 0;

    if (l->call == TARGET_PUSH || l->call == TARGET_PUSH_PULL)
        step = atomic_fetch_add(&l->next_step[op->target - l->target], 1);
    op->closure = step / l->steps_per_closure;
    op->step = (uint32_t)(step % l->steps_per_closure);
    target_start(op);
}

static void one_over(struct load *l)
{
    if (atomic_fetch_sub(&l->active, 1) == 1)
        sem_post(&l->over);
}

static void done(struct target_op *op, enum sl_err rc,
                 const struct sl_error *err)
{
    struct load *l = op->arg;

    program_must(rc, err, "a call to a shard");
    if (!meter_add(&l->meter, target_op_bytes(op), op->began_s,
                   program_now_s())) {
        one_over(l);
        return;
    }
    if (l->in_turn)
        op->target = &l->target[l->turn++ % l->shards];
    next(l, op);
}

static void run(struct load *l, size_t count)
{
    struct target_op *ops = calloc(count, sizeof(*ops));

    if (ops == NULL)
        program_die("no memory for %zu calls", count);
    sem_init(&l->over, 0, 0);
    atomic_store(&l->active, 1);
    for (size_t i = 0; i < count; i++) {
        ops[i] = (struct target_op){.target = &l->target[i % l->shards],
                                    .call = l->call,
                                    .slot = l->in_turn ? i : i / l->shards,
                                    .attempt = {1, 1},
                                    .done = done,
                                    .arg = l};
        atomic_fetch_add(&l->active, 1);
        next(l, &ops[i]);
    }
    one_over(l);
    while (sem_wait(&l->over) != 0)
        ; // a signal
    sem_destroy(&l->over);
    free(ops);
}

static enum target_call call_of(const char *mode)
{
    static const char *const names[] = {
        [TARGET_PUSH] = "push",
        [TARGET_PULL] = "pull",
        [TARGET_PUSH_PULL] = "pushpull",
        [TARGET_ASK] = "ask",
    };
    unsigned i = 0;

    while (strcmp(names[i], mode) != 0)
        i++; // conf has checked that it is one of them
    return (enum target_call)i;
}

static const struct conf_about about = {
    .program = "ps_load",
    .usage = "ps_load --job N --shard ADDRESS=INCARNATION [OPTION]...",
    .text = "Calls the shards of a job of a running cluster and says how many "
            "bytes and calls per second, and how long a call takes.",
    .example = "ps_load --job 1 --shard 127.0.0.1:4000=1 --mode pushpull",
};

static const struct conf_key keys[] = {
    {.name = "steps-per-closure",
     .kind = CONF_INT,
     .value = "16",
     .min = 1,
     .max = WIRE_CLOSURE_STEPS_MAX,
     .help = "Of the job."},
    {.name = "mode",
     .kind = CONF_CHOICE,
     .value = "push",
     .choices = "push|pull|pushpull|ask",
     .help = "Which call."},
    {.name = "outstanding",
     .kind = CONF_INT,
     .value = "4",
     .min = 1,
     .max = 1024,
     .unit = "calls",
     .help = "How many may be on their way to one shard."},
    {.name = "in-all",
     .kind = CONF_INT,
     .value = "0",
     .min = 0,
     .max = 1024,
     .unit = "calls",
     .help = "Not 0: so many to all shards, which take turns."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, target_keys, tls_keys,
                                                meter_keys, NULL};

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    static struct load load;
    struct rpc_io *io;

    load.call = call_of(conf_str(c, "mode"));
    load.steps_per_closure = (uint64_t)conf_int(c, "steps-per-closure");
    load.shards = targets_open(load.target, &io, c);
    for (size_t i = 0; i < load.shards; i++)
        atomic_store(&load.next_step[i], load.target[i].version);
    targets_share(load.target, load.shards,
                  (size_t)(conf_int(c, "in-all") > 0
                               ? conf_int(c, "in-all")
                               : conf_int(c, "outstanding")),
                  c);
    meter_start(&load.meter, c);
    load.in_turn = conf_int(c, "in-all") > 0;
    run(&load, load.in_turn ? (size_t)conf_int(c, "in-all")
                            : load.shards * (size_t)conf_int(c, "outstanding"));
    meter_print(&load.meter, conf_str(c, "mode"));
    targets_close(load.target, load.shards, io);
    meter_release(&load.meter);
    conf_free(c);
    return 0;
}
