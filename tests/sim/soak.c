// SPDX-License-Identifier: Apache-2.0
// tests/sim/soak.c -- deaths of a long life, and its books: see soak.h.
#include "tests/sim/soak.h"

#include <inttypes.h>
#include <malloc.h>
#include <math.h>

#include "common/base/mem.h"
#include "tests/sim/disk.h"
#include "tests/sim/net_own.h"
#include "tests/sim/truth.h"

#define WORKERS 70
#define STEP_US (60 * SIM_SECOND)
#define SERVER_LIVES_US (24 * 3600 * SIM_SECOND)
#define STEPS_PER_CLOSURE 5
#define EPOCHS SOAK_PARTS
#define WORD sizeof(size_t) // of the heap, before what it gives out

void soak_knobs(struct knobs *k, struct soak *soak)
{
    // A worker's life is so many steps.
    uint64_t steps = soak->losses * (soak->minutes * 60 * SIM_SECOND / STEP_US);

    *k = (struct knobs){
        .mode = SIM_ASYNC,
        .psservers = 2,
        .workers = WORKERS,
        .pieces = 1,
        .delay_us = 500,
        .jitter_us = 2000,
        .compute_us = STEP_US,
        .keep = 3,
        .window = 2 * WORKERS,
        .attempts = 4, // the default
        .cut_every_ms = 10 * 60 * 1000,
        .every_epoch = true,
        .evaluate_every = 1,
        .heartbeat_us = 10 * SIM_SECOND,
        .lease_us = 40 * SIM_SECOND,
        .tick_us = SIM_SECOND,
        .soak = soak,
    };
    k->schedule = (struct schedule){
        .samples = steps / EPOCHS * 4,
        .batch = 4,
        .epochs = EPOCHS,
        .steps_per_closure = STEPS_PER_CLOSURE,
    };
}

// ---- books

// A sanitizer's heap is not that of which mallinfo speaks: 0 then, and what is
// live is counted in allocations alone.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static uint64_t heap_bytes(const struct sim *s)
{
    (void)s;
    return 0;
}
#else
static uint64_t heap_bytes(const struct sim *s)
{
    struct mallinfo2 heap = mallinfo2();
    uint64_t own = malloc_usable_size(s->procs) +
                   malloc_usable_size(s->net->sessions) +
                   crash_fs_bytes(s->store);

    for (uint32_t h = 0; h < SIM_HOSTS; h++)
        own += crash_fs_bytes(s->hosts[h]);
    for (uint32_t i = 0; i < s->procs_count; i++)
        own += malloc_usable_size(s->procs[i]) + WORD;
    for (uint32_t i = 0; i < s->net->sessions_count; i++)
        own += malloc_usable_size(s->net->sessions[i]) + WORD;
    return heap.uordblks + heap.hblkhd - own;
}
#endif

static void look_at_books(struct sim *s)
{
    struct soak *k = s->knobs.soak;
    struct soak_books *now = &k->at[k->count];

    if (k->count > SOAK_PARTS || k->lost * SOAK_PARTS < k->count * k->losses)
        return;
    *now = (struct soak_books){
        .at_us = sim_now(s),
        .lost = k->lost,
        .allocations = sl_mem_live(),
        .bytes = heap_bytes(s),
    };
    if (++k->count == SOAK_PARTS) { // what it kept is in the journal
        proc_kill(s, proc_get(s, s->slots[0].now), false);
        proc_restart_after(s, 0, SIM_SECOND);
    }
    printf("    hour %4" PRIu64 ": %6" PRIu64 " workers and %" PRIu64
           " psservers lost, %8" PRIu64 " pushes, %6" PRIu64
           " allocations, %6" PRIu64 " KiB\n",
           now->at_us / (3600 * SIM_SECOND), k->lost, k->servers_lost,
           k->pushed, now->allocations, now->bytes / 1024);
    fflush(stdout);
}

// ---- deaths

static void die_run(struct sim *s, struct sim_event *e)
{
    struct proc *p = proc_get(s, e->proc);
    struct soak *k = s->knobs.soak;
    uint32_t slot = p->slot;

    if (p->role == SIM_WORKER)
        k->lost++;
    else
        k->servers_lost++;
    proc_kill(s, p, sim_chance(s, 300));
    proc_restart_after(s, slot, sim_between(s, 20, 120) * SIM_SECOND);
    look_at_books(s);
}

void soak_started(struct sim *s, struct proc *p)
{
    uint64_t lives = SERVER_LIVES_US;
    double luck = ((double)sim_below(s, 1 << 30) + 1) / (1 << 30);

    if (p->role == SIM_BOSS || s->knobs.soak == NULL)
        return;
    if (p->role == SIM_WORKER)
        lives = s->knobs.soak->minutes * 60 * SIM_SECOND;
    sim_after(s, (uint64_t)(-log(luck) * (double)lives),
              &(struct sim_event){
                  .kind = SIM_NEMESIS, .proc = p->number, .run = die_run});
}

// ---- what was done

void soak_pushed(struct sim *s, enum sl_err rc,
                 const struct wire_push_reply *reply)
{
    struct soak *k = s->knobs.soak;

    if (k == NULL || rc != SL_OK)
        return;
    k->pushed += reply->result == WIRE_PUSH_COUNTED;
    k->again += reply->result == WIRE_PUSH_DUPLICATE;
}

static void check_file(struct sim *s, const Sluice__V1__CheckpointShard *f)
{
    struct shard *read = truth_shard(s, f->shard);
    struct crash_fs *disk = NULL;

    for (uint32_t i = 0; i < s->slots_count; i++)
        if (strcmp(s->slots[i].name, f->psserver) == 0)
            disk = disk_for(s, SIM_SERVER, s->slots[i].host);
    T_TRUE(disk != NULL);
    T_OK(snap_read(crash_fs_ops(disk), f->folder, wire_tag_of(f->tag),
                   (struct wire_tag){0, 0}, read, t_err()));
    T_TRUE(counted_full(&read->once.counted)); // E1
    for (uint64_t i = 0; i < read->plan.elements; i++)
        T_EQ(-(double)read->memory.values[i],
             (double)schedule_steps(&s->knobs.schedule));
    shard_unref(read);
}

void soak_check_files(struct sim *s, const Sluice__V1__Checkpoint *last)
{
    for (size_t i = 0; i < last->n_shards; i++)
        check_file(s, last->shards[i]);
}
