// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/member.h -- who is alive.
//
// A member is one process that keeps an Attend stream. It is seen with
// every message; silence makes it suspect after two missed heartbeats (then
// its leases go to others at once, since a zombie is harmless: C1, K4, K7) and
// lost after the lease. A stream that ends is a loss at once. Lost members are
// remembered for people; they are in no other list and in no count.
//
// Threads  the loop.
// Memory   members own their members; a pointer holds until members_remove or
//          members_lose, and one of `lost` until the next of those.
// Units    *_ms on the monotonic clock of the caller, passed in as now_ms.
// Errors   SL_ENOMEM only.
#ifndef COORDINATOR_RULES_MEMBER_H
#define COORDINATOR_RULES_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/base/offset.h"
#include "common/base/status.h"
#include "coordinator/rules/busy.h"
#include "coordinator/rules/closure.h"
#include "coordinator/rules/dispatch.h"

// Heartbeats that may be missed before a member is suspect.
#define MEMBER_MISSED 2

// A worker that handed something back is given nothing for so long, so that
// nobody spins.
#define MEMBER_PAUSE_MS 100

// One that stood still gets nothing until it lets go; but a program that knows
// nothing of that answer is tried again after so long.
#define MEMBER_DEBT_MS 600000

enum member_role {
    MEMBER_WORKER,
    MEMBER_PSSERVER,
};

enum member_state {
    MEMBER_READY,
    MEMBER_DRAINING, // leases nothing more
    MEMBER_SUSPECT,  // silent: its leases were given to others
    MEMBER_LOST,     // silent for a lease, or gone: to be removed
    MEMBER_STATES,
};

// Lost members that are remembered, of each role; and for how long people are
// told of one on which nothing waits.
#define MEMBERS_LOST_MOST 100
#define MEMBERS_LOST_MS 3600000

// Which states may follow each (moves.h).
extern const unsigned member_moves[MEMBER_STATES];

// By what a member claims its name.
enum member_claim {
    MEMBER_LOCAL, // of this host: it shows no certificate
    MEMBER_ANY,   // one that many may show
    MEMBER_OWN,   // a certificate of that name
};

// What a Hello says; all borrowed.
struct member_hello {
    enum member_role role;
    enum member_claim claim;
    const char *name, *address, *host, *version, *device;
    const char *certificate; // that it shows; NULL, "": none
    uint64_t process, pid;
    bool external, map_changes, waits_for_round;
    bool log_lines;        // it can be asked for lines of its log
    bool ranks;            // external: may be a rank
    bool groups;           // external: may be a member of a group
    bool no_store;         // worker: writes no parts of checkpoints
    uint64_t only_job;     // 0: any that suits it
    uint32_t edition;      // of the layers, that it knows
    uint64_t memory_bytes; // that it may use; 0: not said
};

// A lease of an older stream that a worker still computes, as its heartbeats
// say: what it has of this one waits behind it.
struct member_before {
    uint64_t job; // 0: none was seen
    struct attempt attempt;
    uint64_t progress, seen_ms;
};

// An attempt that was revoked because it stood still, or because another worker
// had contributed for the same slot, and not answered yet.
struct member_debt {
    uint64_t job; // 0: none
    uint64_t closure;
    bool second; // another worker was first
    struct attempt attempt;
    uint64_t until_ms; // forgiven then
};

struct members;

struct member {
    struct members *of;
    struct list_node node; // in members.all, oldest first
    struct list_node open; // in members.open: a worker that may hold more
    uint64_t id;
    enum member_role role;
    enum member_claim claim;
    enum member_state state;
    char *name, *address, *host, *version, *device; // owned
    // It says, of its draining; how it was lost; owned, or NULL: it leaves.
    char *why;
    uint64_t process, pid;
    uint64_t identity; // of its name, whatever process has it
    uint64_t witness;  // whose word its word is (witness.h)
    bool external, ranks, groups, no_store, map_changes, waits_for_round,
        log_lines, draining;
    bool drained;      // by an admin, whatever it says itself
    uint64_t only_job; // worker: as member_hello
    uint32_t edition;
    uint64_t attached_ms, seen_ms;
    uint64_t pause_until_ms; // worker: give it nothing before
    uint64_t memory_bytes;   // that it may use; 0: not said
    uint64_t resident_bytes;
    struct busy busy;
    struct offset clock;              // how far its own is from ours
    struct list leases;               // worker: struct work, oldest first
    uint32_t lease_count, lease_most; // most: see dispatch.h
    bool seated;             // worker: one of those is a place in a group
    struct list_node unsent; // in members.unsent
    uint32_t leases_unsent;  // the last so many of its leases
    bool refills;    // worker: from when it holds half of the most, until all
    double lease_ms; // worker: that one takes, lately
    uint64_t lease_from_ms; // worker: the one under way, about
    struct map opened;      // worker: job -> struct opened, see job.h
    struct map losing;      // worker: job -> job, of leases taken while suspect
    struct member_debt owes;     // worker
    struct member_before before; // worker
    struct map conduct;          // worker: job -> struct conduct, owned
    // psserver: ended job that it was told to close -> reports of it that are
    // still heard, a number.
    struct map closing;
};

struct members {
    uint32_t heartbeat_ms, lease_ms;
    struct list all;
    // Workers that hold 0, 1, ... leases and may be given more.
    struct list open[DISPATCH_LEASES_MOST];
    struct list unsent; // workers that leases are to be sent to
    struct list lost;   // by members_lose, newest first
    struct map by_id;
    uint32_t workers, psservers;
};

void members_init(struct members *ms, uint32_t heartbeat_ms, uint32_t lease_ms);
void members_release(struct members *ms); // frees all members

// `id` is the caller's, not 0, never used before. What is remembered of a lost
// member of this role and name is forgotten.
enum sl_err members_add(struct members *ms, struct member **out, uint64_t id,
                        const struct member_hello *hello, uint64_t now_ms);
void members_remove(struct members *ms, struct member *m);

// Removes one that is MEMBER_LOST and holds nothing, and remembers in `lost`
// what it was, how it did with jobs, when it was seen, and `why`.
void members_lose(struct members *ms, struct member *m, const char *why);

// What a heartbeat says: why it takes nothing, and what it computes on by now;
// "" says nothing. Without memory the old text stays.
void member_describe(struct member *m, const char *why, const char *device);

// A worker holds so many leases now; it is the last of those who do. A place in
// a group is nothing that it computes.
void member_holds(struct member *m, uint32_t leases);

// Of those that it may be given more than it has.
uint32_t member_computes(const struct member *m);

// Its newest lease goes with the next send_leases.
void member_sends(struct member *m);

// A worker is given one more lease.
void member_begins(struct member *m, uint64_t now_ms);

// A worker has completed one, which it still holds: so it is learned how long
// they take, and it may hold as many as last `ahead_ms` (dispatch_most).
// Nothing is learned from those that fail.
void member_completes(struct member *m, uint64_t now_ms, double ahead_ms);

// All workers get their leases as at first, until they show again how long
// those take: none has so many that it holds completions back.
void members_forget_pace(struct members *ms);

struct member *members_get(const struct members *ms, uint64_t id); // or NULL
struct member *members_find(const struct members *ms, enum member_role role,
                            const char *name); // or NULL
// The psserver of that name if it is attached and not silent, or NULL.
const struct member *members_psserver(const struct members *ms,
                                      const char *name);

// Whether a process takes the name of this member. A certificate of the name
// does, and a process without one, of this host; one that many may show only if
// the holder shows no better one and is silent, or is the same process.
bool member_yields(const struct member *m, enum member_claim claim,
                   uint64_t process);

// A message of it came. True if it had been suspect: it is back.
bool member_seen(struct member *m, uint64_t now_ms);

// An admin drains it, or takes it back.
void member_drain(struct member *m, bool drained);

// Its stream has ended.
void member_lost(struct member *m);

// What its silence makes of it: READY (or DRAINING), SUSPECT or LOST.
enum member_state member_judge(const struct members *ms, const struct member *m,
                               uint64_t now_ms);

// Sets `state` as judged; true if it changed.
bool member_check(const struct members *ms, struct member *m, uint64_t now_ms);

// Worker: may be given leases.
bool member_ready(const struct member *m, uint64_t now_ms);

const char *member_role_name(enum member_role role);
const char *member_state_name(enum member_state state);

#endif
