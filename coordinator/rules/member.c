// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/member.c -- the table of members, and which are alive.
//
//             a heartbeat says so           member_check: silent
//   READY <------------------------> DRAINING ------+
//    | ^                               | ^          | for two heartbeats
//    | |     member_seen               | |          v
//    +-|-------------------------------|-+------> SUSPECT
//    | +-------------------------------+-----------+ |
//    |                                 |             | for a lease
//    +---------------------------------+-------------+------> LOST
//                          member_lost: its stream has ended
//
// No state follows LOST: a process that dials again is a new member.
#include "coordinator/rules/member.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/moves.h"
#include "common/base/rng.h"
#include "coordinator/rules/witness.h"

void members_init(struct members *ms, uint32_t heartbeat_ms, uint32_t lease_ms)
{
    memset(ms, 0, sizeof(*ms));
    ms->heartbeat_ms = heartbeat_ms;
    ms->lease_ms = lease_ms;
    list_init(&ms->all);
    list_init(&ms->unsent);
    list_init(&ms->lost);
    for (uint32_t i = 0; i < DISPATCH_LEASES_WIDEST; i++)
        list_init(&ms->open[i]);
    map_init(&ms->by_id);
}

static void member_free(struct member *m)
{
    sl_free(m->name);
    sl_free(m->address);
    sl_free(m->host);
    sl_free(m->version);
    sl_free(m->device);
    sl_free(m->left_out);
    sl_free(m->why);
    map_release_owned(&m->opened);
    map_release(&m->losing);
    map_release_owned(&m->conduct);
    map_release(&m->closing);
    sl_free(m);
}

static char *member_copy_text(const char *text)
{
    return sl_strdup(text == NULL ? "" : text);
}

static uint64_t witness(const struct member_hello *hello)
{
    bool proved = hello->certificate != NULL && hello->certificate[0] != '\0';

    return witness_of(proved ? hello->certificate : hello->name,
                      hello->host == NULL ? "" : hello->host);
}

static struct member *member_new(const struct member_hello *hello)
{
    struct member *m = sl_calloc(1, sizeof(*m));

    if (m == NULL)
        return NULL;
    m->name = member_copy_text(hello->name);
    m->address = member_copy_text(hello->address);
    m->host = member_copy_text(hello->host);
    m->version = member_copy_text(hello->version);
    m->device = member_copy_text(hello->device);
    if (m->name == NULL || m->address == NULL || m->host == NULL ||
        m->version == NULL || m->device == NULL) {
        member_free(m);
        return NULL;
    }
    m->role = hello->role;
    m->claim = hello->claim;
    m->process = hello->process;
    m->identity = sl_hash64(hello->name, strlen(hello->name));
    m->witness = witness(hello);
    m->pid = hello->pid;
    m->external = hello->external;
    m->ranks = hello->ranks;
    m->groups = hello->groups;
    m->own_steps = hello->own_steps;
    m->no_store = hello->no_store;
    m->memory_bytes = hello->memory_bytes;
    m->test_kind = hello->test_kind;
    m->test_vector = hello->test_vector;
    m->map_changes = hello->map_changes;
    m->waits_for_round = hello->waits_for_round;
    m->log_lines = hello->log_lines;
    m->only_job = hello->only_job;
    m->edition = hello->edition;
    m->lease_ms = DISPATCH_AHEAD_MS;
    m->lease_most = DISPATCH_LEASES_LEAST;
    list_init(&m->leases);
    map_init(&m->opened);
    map_init(&m->losing);
    map_init(&m->conduct);
    map_init(&m->closing);
    return m;
}

static void member_forget(struct member *m)
{
    list_remove(&m->node);
    member_free(m);
}

static void forget_lost(struct members *ms, const struct member *by)
{
    list_for_safe(n, &ms->lost)
    {
        struct member *m = list_entry(n, struct member, node);

        if (m->role == by->role && strcmp(m->name, by->name) == 0)
            member_forget(m);
    }
}

enum sl_err members_add(struct members *ms, struct member **out, uint64_t id,
                        const struct member_hello *hello, uint64_t now_ms)
{
    struct member *m = member_new(hello);

    if (m == NULL)
        return SL_ENOMEM;
    m->id = id;
    if (map_put(&ms->by_id, m->id, m) != SL_OK) {
        member_free(m);
        return SL_ENOMEM;
    }
    forget_lost(ms, m);
    m->attached_ms = m->seen_ms = now_ms;
    m->of = ms;
    list_push_back(&ms->all, &m->node);
    if (m->role == MEMBER_WORKER) {
        ms->workers++;
        member_holds(m, 0);
    } else {
        ms->psservers++;
    }
    *out = m;
    return SL_OK;
}

static void take_out(struct members *ms, struct member *m)
{
    if (m->role == MEMBER_WORKER)
        ms->workers--;
    else
        ms->psservers--;
    map_remove(&ms->by_id, m->id);
    list_remove(&m->node);
    list_remove(&m->open);
    list_remove(&m->unsent);
}

void members_remove(struct members *ms, struct member *m)
{
    take_out(ms, m);
    member_free(m);
}

void members_release(struct members *ms)
{
    list_for_safe(n, &ms->all)
    {
        struct member *m = list_entry(n, struct member, node);

        while (list_pop_front(&m->leases) != NULL)
            continue;
        members_remove(ms, m);
    }
    list_for_safe(n, &ms->lost)
    {
        member_forget(list_entry(n, struct member, node));
    }
    map_release(&ms->by_id);
}

void members_lose(struct members *ms, struct member *m, const char *why)
{
    unsigned newer = 0;

    take_out(ms, m);
    map_release_owned(&m->opened);
    map_release(&m->losing);
    map_release(&m->closing);
    m->resident_bytes = 0;
    m->busy = (struct busy){0};
    m->owes = (struct member_debt){0};
    member_describe(m, why, "");
    list_push_front(&ms->lost, &m->node);
    list_for_safe(n, &ms->lost)
    {
        struct member *old = list_entry(n, struct member, node);

        if (old->role == m->role && ++newer > MEMBERS_LOST_MOST)
            member_forget(old);
    }
}

uint32_t member_computes(const struct member *m)
{
    uint32_t idle = m->seated + m->streams;

    return m->lease_count > idle ? m->lease_count - idle : 0;
}

void member_holds(struct member *m, uint32_t leases)
{
    m->lease_count = leases;
    leases = member_computes(m);
    if (leases <= m->lease_most / 2)
        m->refills = true;
    if (leases >= m->lease_most)
        m->refills = false;
    list_remove(&m->open);
    if (m->refills)
        list_push_back(&m->of->open[leases], &m->open);
}

void member_sends(struct member *m)
{
    if (m->leases_unsent++ == 0)
        list_push_back(&m->of->unsent, &m->unsent);
}

// Weight of the newest lease in the mean: a worker that comes to another job
// learns its pace within a few leases.
#define PACE_SHARE 0.125

void member_begins(struct member *m, uint64_t now_ms)
{
    if (member_computes(m) == 0)
        m->lease_from_ms = now_ms;
    member_holds(m, m->lease_count + 1);
}

void member_completes(struct member *m, uint64_t now_ms, double ahead_ms,
                      uint32_t most)
{
    double took = (double)(now_ms - m->lease_from_ms);

    m->lease_from_ms = now_ms;
    m->lease_ms += PACE_SHARE * (took - m->lease_ms);
    m->lease_most = dispatch_most(m->lease_ms, ahead_ms, most);
}

void members_forget_pace(struct members *ms)
{
    list_for(n, &ms->all)
    {
        struct member *m = list_entry(n, struct member, node);

        m->lease_ms = DISPATCH_AHEAD_MS;
        m->lease_most = DISPATCH_LEASES_LEAST;
        if (m->role == MEMBER_WORKER)
            member_holds(m, m->lease_count);
    }
}

struct member *members_get(const struct members *ms, uint64_t id)
{
    return map_get(&ms->by_id, id);
}

struct member *members_find(const struct members *ms, enum member_role role,
                            const char *name)
{
    list_for(n, &ms->all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (m->role == role && strcmp(m->name, name) == 0)
            return m;
    }
    return NULL;
}

const struct member *members_psserver(const struct members *ms,
                                      const char *name)
{
    struct member *m = members_find(ms, MEMBER_PSSERVER, name);

    return m == NULL || m->state >= MEMBER_SUSPECT ? NULL : m;
}

static void member_replace_text(char **text, const char *by)
{
    char *new_text;

    if (*text != NULL && strcmp(*text, by) == 0)
        return;
    new_text = sl_strdup(by);
    if (new_text == NULL)
        return;
    sl_free(*text);
    *text = new_text;
}

// Takes a text of which "" is none, which NULL stands for.
static void member_take_text(char **text, const char *by)
{
    if (by[0] != '\0') {
        member_replace_text(text, by);
    } else {
        sl_free(*text);
        *text = NULL;
    }
}

// Returns what follows the number of a GPU ("cuda:0: NVIDIA H200"), or all of
// the text.
static const char *device_kind(const char *device)
{
    const char *at = strstr(device, "cuda:");

    return at == NULL ? device : at + 5 + strspn(at + 5, "0123456789");
}

bool member_same_device(const struct member *a, const struct member *b)
{
    const char *x = device_kind(a->device), *y = device_kind(b->device);
    size_t before = strcspn(a->device, ":"); // a team's devices, counted

    return strcmp(x, y) == 0 && strcspn(b->device, ":") == before &&
           memcmp(a->device, b->device, before) == 0;
}

void member_leaves_out(struct member *m, const char *what)
{
    member_take_text(&m->left_out, what);
}

void member_describe(struct member *m, const char *why, const char *device)
{
    member_take_text(&m->why, why);
    if (device[0] != '\0')
        member_replace_text(&m->device, device);
}

static enum member_state alive(const struct member *m)
{
    return m->draining || m->drained ? MEMBER_DRAINING : MEMBER_READY;
}

const unsigned member_moves[MEMBER_STATES] = {
    [MEMBER_READY] = MOVES_TO(MEMBER_DRAINING) | MOVES_TO(MEMBER_SUSPECT) |
                     MOVES_TO(MEMBER_LOST),
    [MEMBER_DRAINING] = MOVES_TO(MEMBER_READY) | MOVES_TO(MEMBER_SUSPECT) |
                        MOVES_TO(MEMBER_LOST),
    [MEMBER_SUSPECT] = MOVES_TO(MEMBER_READY) | MOVES_TO(MEMBER_DRAINING) |
                       MOVES_TO(MEMBER_LOST),
};

// The only function of the program that changes a member's state. Returns false
// if m is in that state already.
static bool member_enter_state(struct member *m, enum member_state next)
{
    if (m->state == next)
        return false;
    assert(moves_have(member_moves, m->state, next));
    m->state = next;
    return true;
}

bool member_yields(const struct member *m, enum member_claim claim,
                   uint64_t process)
{
    if (claim != MEMBER_ANY)
        return true;
    return m->claim != MEMBER_OWN &&
           (m->process == process || m->state >= MEMBER_SUSPECT);
}

bool member_seen(struct member *m, uint64_t now_ms)
{
    bool back = m->state == MEMBER_SUSPECT;

    m->seen_ms = now_ms;
    member_enter_state(m, alive(m));
    return back;
}

void member_drain(struct member *m, bool drained)
{
    m->drained = drained;
    if (m->state < MEMBER_SUSPECT)
        member_enter_state(m, alive(m));
}

void member_lost(struct member *m)
{
    member_enter_state(m, MEMBER_LOST);
}

enum member_state member_judge(const struct members *ms, const struct member *m,
                               uint64_t now_ms)
{
    uint64_t silent_ms = now_ms > m->seen_ms ? now_ms - m->seen_ms : 0;

    if (silent_ms >= ms->lease_ms)
        return MEMBER_LOST;
    if (silent_ms >= (uint64_t)MEMBER_MISSED * ms->heartbeat_ms)
        return MEMBER_SUSPECT;
    return alive(m);
}

bool member_check(const struct members *ms, struct member *m, uint64_t now_ms)
{
    return member_enter_state(m, member_judge(ms, m, now_ms));
}

bool member_ready(const struct member *m, uint64_t now_ms)
{
    return m->state == MEMBER_READY && now_ms >= m->pause_until_ms &&
           (m->owes.job == 0 || now_ms >= m->owes.until_ms);
}

const char *member_role_name(enum member_role role)
{
    return role == MEMBER_WORKER ? "worker" : "psserver";
}

const char *member_state_name(enum member_state state)
{
    static const char *const names[] = {"ready", "draining", "suspect", "lost"};

    return (unsigned)state < SL_COUNT(names) ? names[state] : "unknown";
}
