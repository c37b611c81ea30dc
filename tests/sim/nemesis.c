// SPDX-License-Identifier: Apache-2.0
// tests/sim/nemesis.c -- what happens to processes, hosts and links.
//
// Strokes: a worker or psserver is killed, perhaps in the middle of a write; a
// host loses power, and its disk keeps, drops or tears what was not synced; a
// process is stopped for a while; a psserver is replaced while it lives, and
// lives on; a session breaks, for both ends or for one; the coordinator is
// killed, perhaps again while it recovers; somebody is told to leave; a disk is
// lost, where no promise is on it (K2). Links are cut and clogged by the tick.
#include "tests/sim/nemesis.h"

#include "tests/sim/boss.h"
#include "tests/sim/hand.h"
#include "tests/sim/disk.h"
#include "tests/sim/net.h"
#include "tests/sim/pool.h"
#include "tests/sim/server.h"
#include "tests/sim/truth.h"

#define TICK_US (100 * 1000)

// A slot of that role, by chance; without psservers a worker's.
static uint32_t any(struct sim *s, enum sim_role wanted)
{
    enum sim_role role =
        wanted == SIM_SERVER && s->knobs.psservers == 0 ? SIM_WORKER : wanted;
    uint32_t first = role == SIM_BOSS     ? 0
                     : role == SIM_SERVER ? 1
                                          : 1 + s->knobs.psservers;
    uint32_t count = role == SIM_BOSS     ? 1
                     : role == SIM_SERVER ? s->knobs.psservers
                                          : s->knobs.workers;

    return first + (uint32_t)sim_below(s, count);
}

static struct proc *of(struct sim *s, uint32_t slot)
{
    return proc_get(s, s->slots[slot].now);
}

static uint64_t soon(struct sim *s)
{
    return sim_chance(s, 300) ? sim_between(s, 1, 20) * 1000
                              : sim_between(s, 20, 4000) * 1000;
}

// Some of what its pool has to write is written, and no more.
static void die_writing(struct sim *s, struct proc *p)
{
    if (!sim_chance(s, 700))
        return;
    p->files.dies_after = sim_between(s, 1, 14);
    pool_begin_one(s, p);
    p->files.dead = true;
}

static void kill(struct sim *s, uint32_t slot)
{
    struct proc *p = of(s, slot);

    if (p == NULL)
        return;
    s->seen.kills++;
    die_writing(s, p);
    proc_kill(s, p, sim_chance(s, 100));
    proc_restart_after(s, slot, soon(s));
}

static void kill_boss(struct sim *s)
{
    if (of(s, 0) == NULL)
        return;
    s->seen.boss_kills++;
    die_writing(s, of(s, 0));
    proc_kill(s, of(s, 0), sim_chance(s, 100));
    if (sim_chance(s, 300)) { // and the next one, before it knows much
        proc_start(s, 0, 0);
        for (uint64_t n = sim_below(s, 12); n > 0 && of(s, 0) != NULL; n--)
            sim_turn(s, UINT64_MAX);
        if (of(s, 0) != NULL)
            proc_kill(s, of(s, 0), false);
        s->seen.double_kills++;
    }
    proc_restart_after(s, 0, soon(s));
}

// All that runs on a host goes at once, in the middle of a write.
static void power_cut(struct sim *s, uint32_t slot)
{
    uint32_t host = s->slots[slot].host;
    struct crash_fs *disk = disk_for(s, s->slots[slot].role, host);
    bool own = disk == s->hosts[host];

    s->seen.power_cuts++;
    for (uint32_t n = 1; n <= s->procs_count; n++) {
        struct proc *p = proc_get(s, n);

        if (p == NULL || p->host != host)
            continue;
        if (sim_chance(s, s->knobs.torn)) {
            if (own)
                crash_fs_die_at(disk, sim_between(s, 1, 14));
            else
                p->files.dies_after = sim_between(s, 1, 14);
            pool_begin_one(s, p);
        }
        p->files.dead = true;
        proc_kill(s, p, true);
    }
    if (own || sim_chance(s, 500))
        crash_fs_reboot(disk);
    cuts_verify(s);
    proc_restart_after(s, slot, soon(s));
}

static void stop_a_while(struct sim *s)
{
    uint64_t roles = sim_below(s, 8);
    struct proc *p = of(s, any(s, roles == 0  ? SIM_BOSS
                                  : roles < 4 ? SIM_SERVER
                                              : SIM_WORKER));

    if (p == NULL)
        return;
    s->seen.pauses++;
    p->paused_until_us = sim_now(s) + sim_between(s, 300, 7000) * 1000;
}

static unsigned living(struct sim *s, uint32_t slot)
{
    unsigned n = 0;

    for (uint32_t i = 1; i <= s->procs_count; i++)
        n += proc_get(s, i) != NULL && proc_get(s, i)->slot == slot;
    return n;
}

// N5: a second process takes the psserver's name, and the first one is only
// stopped, or cut off from the coordinator.
static void replace(struct sim *s)
{
    uint32_t slot = any(s, SIM_SERVER), host = s->slots[slot].host;
    uint64_t us = sim_between(s, 1000, 12000) * 1000;
    struct proc *old = of(s, slot);

    if (old == NULL || living(s, slot) > 2)
        return;
    s->seen.zombies++;
    if (s->knobs.shared_store && sim_chance(s, 700))
        host = SIM_HOSTS - 1 - (uint32_t)sim_below(s, 2);
    if (host == old->host || sim_chance(s, 500)) {
        old->paused_until_us = sim_now(s) + us;
    } else {
        net_partition(s, old->host, 0, us);
        net_partition(s, 0, old->host, us);
    }
    s->slots[slot].host = host;
    proc_start(s, slot, host);
}

static void leave_or_lose(struct sim *s)
{
    uint32_t slot = any(s, sim_chance(s, 400) ? SIM_SERVER : SIM_WORKER);
    struct proc *p = of(s, slot);
    struct boss_sight now;

    s->seen.drains++;
    if (p != NULL && p->role == SIM_WORKER) {
        hand_drain(s, p);
    } else if (p != NULL && (s->knobs.shared_store || sim_chance(s, 400))) {
        server_drain_proc(s, p);
    } else if (p != NULL && boss_look(s, &now) && !now.making && !cuts_any(s)) {
        power_cut(s, slot);
        disk_lose(s, s->slots[slot].host);
    }
}

static void break_session(struct sim *s)
{
    struct proc *p =
        of(s, any(s, sim_chance(s, 500) ? SIM_SERVER : SIM_WORKER));

    if (p != NULL)
        session_break(s, p, (unsigned)sim_below(s, 3));
}

static void strike(struct sim *s, unsigned which)
{
    switch (which) {
    case 0:
        kill(s, any(s, SIM_WORKER));
        break;
    case 1:
        kill(s, any(s, SIM_SERVER));
        break;
    case 2:
        power_cut(s, any(s, sim_chance(s, 700) ? SIM_SERVER : SIM_BOSS));
        break;
    case 3:
        stop_a_while(s);
        break;
    case 4:
        replace(s);
        break;
    case 5:
        break_session(s);
        break;
    case 6:
        kill_boss(s);
        break;
    default:
        leave_or_lose(s);
        break;
    }
}

static void strike_run(struct sim *s, struct sim_event *e)
{
    uint64_t total = 0, at;

    if (s->healed || sim_now(s) >= e->b)
        return;
    for (unsigned i = 0; i < 8; i++)
        total += s->knobs.weights >> 8 * i & 255;
    sim_after(s, s->knobs.gap_us / 2 + sim_below(s, s->knobs.gap_us), e);
    if (total == 0)
        return;
    at = sim_below(s, total);
    for (unsigned i = 0; i < 8; i++) {
        uint64_t weight = s->knobs.weights >> 8 * i & 255;

        if (at < weight) {
            strike(s, i);
            return;
        }
        at -= weight;
    }
}

// ---- links

static uint32_t some_host(struct sim *s)
{
    return s->slots[sim_below(s, s->slots_count)].host;
}

static void cut_links(struct sim *s)
{
    uint32_t a = some_host(s), b = some_host(s);
    uint64_t us = sim_between(s, 50, 6000) * 1000;

    if (sim_chance(s, 300)) { // one host from all others
        for (uint32_t h = 0; h < SIM_HOSTS; h++) {
            net_partition(s, a, h, us);
            net_partition(s, h, a, us);
        }
        return;
    }
    net_partition(s, a, b, us);
    if (sim_chance(s, 500)) // else one way only
        net_partition(s, b, a, us);
}

static void links_run(struct sim *s, struct sim_event *e)
{
    if (s->healed || sim_now(s) >= e->b)
        return;
    sim_after(s, TICK_US, e);
    if (sim_chance(s, s->knobs.partition))
        cut_links(s);
    for (unsigned i = 0; i < s->slots_count; i++)
        if (sim_chance(s, s->knobs.clog))
            net_clog(s, some_host(s), some_host(s),
                     sim_between(s, 20, 2000) * 1000);
}

// ---- moments

static void moment_run(struct sim *s, struct sim_event *e)
{
    struct proc *p = proc_get(s, e->proc);

    if (s->healed || s->slots[p->slot].now != p->number)
        return;
    if (p->role == SIM_BOSS && sim_chance(s, 500))
        kill(s, any(s, SIM_SERVER)); // while a cut that names it is written
    else if (sim_chance(s, 500))
        power_cut(s, p->slot);
    else if (p->role == SIM_BOSS)
        kill_boss(s);
    else
        kill(s, p->slot);
}

// A cut of a ring gets to its manifest more rarely.
void nemesis_tempt(struct sim *s, struct proc *p)
{
    bool rare = p->role == SIM_BOSS && s->knobs.mode == SIM_RING;

    if (s->healed || s->knobs.gap_us == 0 ||
        !sim_chance(s, s->knobs.tempted * (rare ? 4 : 1)))
        return;
    sim_after(s, sim_below(s, 12000),
              &(struct sim_event){
                  .kind = SIM_NEMESIS, .proc = p->number, .run = moment_run});
}

void nemesis_start(struct sim *s)
{
    uint64_t until = sim_now(s) + s->knobs.faults_us;

    if (s->knobs.gap_us == 0)
        return;
    sim_after(s, s->knobs.gap_us,
              &(struct sim_event){
                  .kind = SIM_NEMESIS, .b = until, .run = strike_run});
    sim_after(
        s, TICK_US,
        &(struct sim_event){.kind = SIM_NEMESIS, .b = until, .run = links_run});
}
