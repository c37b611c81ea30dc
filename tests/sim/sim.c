// SPDX-License-Identifier: Apache-2.0
// tests/sim/sim.c -- processes, and a life from sim_new to sim_free.
#include "tests/sim/sim.h"

#include "common/base/rng.h"
#include "coordinator/journal/journal.h"
#include "tests/sim/boss.h"
#include "tests/sim/calls.h"
#include "tests/sim/disk.h"
#include "tests/sim/fiber.h"
#include "tests/sim/hand.h"
#include "tests/sim/nemesis.h"
#include "tests/sim/net.h"
#include "tests/sim/rings.h"
#include "tests/sim/server.h"
#include "tests/sim/soak.h"
#include "tests/sim/truth.h"

// ---- processes

struct proc *proc_get(struct sim *s, uint32_t number)
{
    struct proc *p;

    if (number == 0 || number > s->procs_count)
        return NULL;
    p = s->procs[number - 1];
    return p->alive ? p : NULL;
}

char *proc_host_name(const struct proc *p)
{
    static char even[] = "even", odd[] = "odd"; // the wire wants no const

    return p->slot % 2 == 0 ? even : odd;
}

bool sim_is_wrong(const struct sim *s, const char *name)
{
    return s->knobs.flips > 0 && strcmp(name, "w-0") == 0;
}

uint64_t sim_kind(const struct sim *s, const char *name)
{
    return s->knobs.kinds == 0
               ? 1
               : 1 + strtoul(name + strlen("w-"), NULL, 10) % s->knobs.kinds;
}

struct proc *proc_at(struct sim *s, const char *address)
{
    for (uint32_t i = 0; i < s->slots_count; i++) {
        struct proc *p = proc_get(s, s->slots[i].now);

        if (p != NULL && strcmp(p->address, address) == 0)
            return p;
    }
    if (s->knobs.soak != NULL)
        return NULL; // nobody else lives on
    for (uint32_t i = s->procs_count; i-- > 0;)
        if (s->procs[i]->alive && strcmp(s->procs[i]->address, address) == 0)
            return s->procs[i];
    return NULL;
}

struct proc *proc_of(struct sim *s, uint64_t process)
{
    for (uint32_t i = s->procs_count; i-- > 0;)
        if (s->procs[i]->process == process)
            return s->procs[i]->alive ? s->procs[i] : NULL;
    return NULL;
}

// The port that its predecessor had, unless that one still has it.
static void name_address(struct sim *s, struct proc *p)
{
    struct slot *slot = &s->slots[p->slot];
    char address[24];

    snprintf(address, sizeof(address), "10.0.0.%u:%u", p->host,
             p->slot * 100 + 1);
    while (proc_at(s, address) != NULL)
        snprintf(address, sizeof(address), "10.0.0.%u:%u", p->host,
                 p->slot * 100 + 2 + (unsigned)++slot->ports);
    memcpy(p->address, address, sizeof(address));
}

struct proc *proc_start(struct sim *s, uint32_t slot, uint32_t host)
{
    struct proc *p = calloc(1, sizeof(*p));

    T_ASSERT(p != NULL);
    if (s->procs_count == s->procs_space) {
        s->procs_space = s->procs_space == 0 ? 64 : 2 * s->procs_space;
        s->procs = realloc(s->procs, s->procs_space * sizeof(struct proc *));
        T_ASSERT(s->procs != NULL);
    }
    s->procs[s->procs_count++] = p;
    p->number = s->procs_count;
    p->slot = slot;
    p->host = host;
    p->role = s->slots[slot].role;
    p->process = sl_mix64(s->seed ^ (uint64_t)p->number << 40) | 1;
    list_init(&p->pool);
    list_init(&p->fibers);
    list_init(&p->posted);
    list_init(&p->timers);
    if (p->role == SIM_SERVER || s->knobs.mode >= SIM_RING)
        name_address(s, p);
    disk_attach(s, p);
    p->alive = true;
    s->slots[slot].now = p->number;
    soak_started(s, p);
    if (p->role == SIM_BOSS)
        boss_start(s, p);
    else if (p->role == SIM_SERVER)
        server_start_proc(s, p);
    else
        hand_start(s, p);
    return p;
}

void proc_kill(struct sim *s, struct proc *p, bool quietly)
{
    p->alive = false;
    p->files.dead = true;
    if (s->slots[p->slot].now == p->number)
        s->slots[p->slot].now = 0;
    if (p->role == SIM_BOSS) {
        session_boss_gone(s, p->number, quietly);
        boss_stop(s, p);
        return;
    }
    session_orphan(s, p, quietly);
    calls_gone(s, p, quietly);
    if (p->role == SIM_SERVER)
        server_stop_proc(s, p);
    else
        hand_stop(s, p);
}

static void start_run(struct sim *s, struct sim_event *e)
{
    uint32_t slot = (uint32_t)e->a;

    if (proc_get(s, s->slots[slot].now) == NULL)
        proc_start(s, slot, s->slots[slot].host);
}

void proc_restart_after(struct sim *s, uint32_t slot, uint64_t us)
{
    sim_after(
        s, us,
        &(struct sim_event){.kind = SIM_START, .a = slot, .run = start_run});
}

static void exit_run(struct sim *s, struct sim_event *e)
{
    struct proc *p = proc_get(s, e->proc);
    uint32_t slot = p->slot;
    bool boss = p->role == SIM_BOSS;

    proc_kill(s, p, false);
    proc_restart_after(s, slot,
                       boss ? SIM_SECOND : sim_between(s, 10, 3000) * 1000);
}

void proc_exit(struct sim *s, const struct proc *p)
{
    sim_after(s, 0,
              &(struct sim_event){
                  .kind = SIM_EXIT, .proc = p->number, .run = exit_run});
}

// ---- life

static void add_slot(struct sim *s, enum sim_role role, const char *name,
                     unsigned number, uint64_t late_us)
{
    struct slot *slot = &s->slots[s->slots_count];

    T_LT(s->slots_count, SIM_SLOTS);
    slot->role = role;
    slot->host = s->slots_count % SIM_HOSTS;
    snprintf(slot->name, sizeof(slot->name), "%s-%u", name, number);
    proc_restart_after(s, s->slots_count++, late_us + sim_below(s, 300000));
}

// The last workers of some lives come when a job is under way.
static uint64_t late_us(struct sim *s, unsigned worker)
{
    return worker < s->knobs.workers - s->knobs.late
               ? 0
               : sim_below(s, 15 * SIM_SECOND);
}

// Four workers, of which one is wrong, and rounds or closures that are all
// audited. A ring has three ranks at least.
static void audited_knobs(struct knobs *k, const struct sim_audited *how)
{
    k->ranks_min = k->mode == SIM_RING ? 3 : 0;
    k->workers = 4;
    k->contributions = how->contributions;
    k->schedule = (struct schedule){
        .samples = 56, .batch = 2, .epochs = 4, .steps_per_closure = 1};
    if (k->mode == SIM_HYBRID) {
        k->group = k->workers;
        k->by_host = how->by_host;
        k->schedule.samples *= k->group;
        k->schedule.batch *= k->group;
        k->schedule.epochs /= 2; // a step after the other
        k->compute_us = 100000;
        k->psservers = 1;
    }
    k->skips = 0;
    k->audit = 1000;
    k->flips = how->flips;
    k->wrong = how->wrong;
    k->kinds = how->kinds;
    k->soak = how->soak;
    if (how->soak == NULL)
        return;
    k->tables = false;
    k->schedule.samples = 2 * how->closures;
    k->schedule.epochs = 1;
    k->psservers = k->pieces = 1;
    k->compute_us = 100000;
    k->cut_every_ms = 0;
}

static struct sim *make(uint64_t seed, enum sim_mode mode, bool quiet,
                        struct soak *soak, const struct sim_audited *audited,
                        bool wrong)
{
    struct sim *s = calloc(1, sizeof(*s));

    T_ASSERT(s != NULL);
    s->seed = sl_mix64(seed);
    fiber_world(s);
    clock_fake_init(&s->clock, 1000000, 1700000000000000);
    knobs_draw(s, &s->knobs, mode);
    if (quiet) {
        s->knobs.lose = s->knobs.replay = s->knobs.clog = 0;
        s->knobs.rubbish = s->knobs.sick = s->knobs.backup = 0;
        s->knobs.partition = s->knobs.read_fault = s->knobs.write_fault = 0;
        s->knobs.gap_us = 0;
        s->knobs.jitter_us = 1000;
    }
    if (soak != NULL)
        soak_knobs(&s->knobs, soak);
    if (audited != NULL)
        audited_knobs(&s->knobs, audited);
    if (wrong)
        knobs_wrong(s, &s->knobs);
    for (uint32_t h = 0; h < SIM_HOSTS; h++)
        disk_new(s, &s->hosts[h]);
    disk_new(s, &s->store);
    T_OK(journal_open(&s->journal, ":memory:", t_err()));
    net_begin(s);
    calls_new(s);
    truth_new(s);
    rings_new(s);
    add_slot(s, SIM_BOSS, "boss", 0, 0);
    for (unsigned i = 0; i < s->knobs.psservers; i++)
        add_slot(s, SIM_SERVER, "ps", i, 0);
    for (unsigned i = 0; i < s->knobs.workers; i++)
        add_slot(s, SIM_WORKER, "w", i, late_us(s, i));
    nemesis_start(s);
    return s;
}

struct sim *sim_new(uint64_t seed, enum sim_mode mode)
{
    return make(seed, mode, false, NULL, NULL, false);
}

struct sim *sim_new_quiet(uint64_t seed, enum sim_mode mode)
{
    return make(seed, mode, true, NULL, NULL, false);
}

struct sim *sim_new_soak(uint64_t seed, struct soak *soak)
{
    return make(seed, SIM_ASYNC, true, soak, NULL, false);
}

struct sim *sim_new_audited(uint64_t seed, const struct sim_audited *how)
{
    return make(seed, how->mode, true, NULL, how, false);
}

struct sim *sim_new_wrong(uint64_t seed, enum sim_mode mode)
{
    return make(seed, mode, false, NULL, NULL, true);
}

void sim_free(struct sim *s)
{
    for (uint32_t i = s->procs_count; i-- > 0;)
        if (s->procs[i]->alive)
            proc_kill(s, s->procs[i], true);
    agenda_release(&s->agenda);
    net_end(s);
    calls_free(s);
    truth_free(s);
    rings_free(s);
    journal_close(s->journal);
    for (uint32_t i = 0; i < s->procs_count; i++)
        free(s->procs[i]);
    free(s->procs);
    for (uint32_t h = 0; h < SIM_HOSTS; h++)
        crash_fs_free(s->hosts[h]);
    for (uint32_t i = 0; i < s->lost_count; i++)
        crash_fs_free(s->lost[i]);
    crash_fs_free(s->store);
    for (uint32_t i = 0; i < SIM_ECHOES; i++)
        wire_free((ProtobufCMessage *)s->echoes[i].message);
    fiber_world(NULL);
    free(s);
}

bool sim_run(struct sim *s, uint64_t us)
{
    uint64_t until = sim_now(s) + us;
    bool before = s->finished;

    while (s->finished == before && sim_turn(s, until))
        ;
    s->seen.events = s->agenda.done;
    if (s->finished == before && sim_now(s) < until)
        clock_fake_advance_us(&s->clock, until - sim_now(s));
    return s->finished;
}

void sim_heal(struct sim *s)
{
    bool spare = sim_chance(s, 500); // zombies

    s->healed = true;
    s->knobs.lose = s->knobs.replay = s->knobs.rubbish = 0;
    if (s->knobs.jitter_us > 20000)
        s->knobs.jitter_us = 20000;
    net_heal(s);
    for (uint32_t n = 1; n <= s->procs_count; n++) {
        struct proc *p = proc_get(s, n);

        if (p == NULL)
            continue;
        p->paused_until_us = 0;
        if (!spare && s->slots[p->slot].now != n)
            proc_kill(s, p, false);
    }
    for (uint32_t i = 0; i < s->slots_count; i++)
        proc_restart_after(s, i, 1000);
}
