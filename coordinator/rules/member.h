// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/member.h -- which members are alive.
//
// A member is one process that keeps an Attend stream. It is seen with
// every message; silence makes it suspect after two missed heartbeats (then
// its leases go to others at once, since a zombie is harmless: C1, K4, K7) and
// lost after the lease. A stream that ends is a loss at once. Lost members are
// remembered for people; they are in no other list and in no count.
//
// Threads  the loop.
// Memory   members own their members; a pointer holds until members_remove or
//          members_lose, and one of `lost` until the next members_add or
//          members_lose. Texts that are passed are copied.
// Units    *_ms on the monotonic clock of the caller, passed in as now_ms.
// Errors   SL_ENOMEM only: nothing has changed, and *out is untouched. No
//          pointer is NULL but where it is said.
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

// For how long a worker that handed a lease back is given none, so that it does
// not spin.
#define MEMBER_PAUSE_MS 100

// A worker that stood still gets no lease until it lets the old one go; a
// program that does not know that answer is tried again after this long.
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

// Most lost members of each role that are remembered; and for how long people
// are told of one on which nothing waits.
#define MEMBERS_LOST_MOST 100
#define MEMBERS_LOST_MS 3600000

// The states that may follow each state (moves.h).
extern const unsigned member_moves[MEMBER_STATES];

// The proof by which a member claims its name.
enum member_claim {
    MEMBER_LOCAL, // this host, without a certificate
    MEMBER_ANY,   // a certificate that many members may show
    MEMBER_OWN,   // a certificate of that name
};

// What a Hello says; all borrowed for the call. The name is not NULL; other
// texts may be, and are then "".
struct member_hello {
    enum member_role role;
    enum member_claim claim;
    const char *name, *address, *host, *version, *device;
    const char *certificate; // the name on its certificate; NULL, "": none
    uint64_t process, pid;
    // It runs external models alone; it takes maps of what changed alone; it
    // waits with a slot of a round that is not open yet (Y4).
    bool external, map_changes, waits_for_round;
    bool log_lines;        // it answers requests for lines of its log
    bool ranks;            // external: may be a rank
    bool groups;           // external: may be a member of a group
    bool own_steps;        // external: takes steps by itself (mode local)
    bool no_store;         // worker: writes no parts of checkpoints
    uint64_t only_job;     // the only job that it takes; 0: any
    uint32_t edition;      // newest edition of the layers that it knows
    uint64_t memory_bytes; // memory that it may use; 0: not said
    // worker: its kind, and what it computed of the test vector; 0: not said
    uint64_t test_kind, test_vector;
};

// A lease of an older stream that a worker still computes, as its heartbeats
// say: leases of the present stream wait behind it.
struct member_before {
    uint64_t job; // 0: none was seen
    struct attempt attempt;
    uint64_t progress, seen_ms;
};

// An attempt that was revoked, because it stood still or because another worker
// had contributed for the same slot, and that its worker has not let go yet.
struct member_debt {
    uint64_t job; // 0: none
    uint64_t closure;
    bool second; // the cause: another worker was first
    struct attempt attempt;
    uint64_t until_ms; // forgiven then
};

struct members;

struct member {
    struct members *of;
    struct list_node node; // link in members.all, oldest first
    struct list_node open; // link in members.open: a worker that may hold more
    uint64_t id;           // number of its stream
    enum member_role role;
    enum member_claim claim;
    enum member_state state;
    char *name, *address, *host, *version, *device; // owned
    // Kernels that it leaves out as wrong, in words; owned; NULL: none.
    char *left_out;
    // The member's reason for draining, or how it was lost; owned; NULL: it
    // leaves without a reason.
    char *why;
    uint64_t process, pid;
    uint64_t identity; // hash of its name, whichever process has it
    uint64_t witness;  // its number as a witness (witness.h)
    // as member_hello, but `draining`: its heartbeats say that it drains
    bool external, ranks, groups, own_steps, no_store, map_changes,
        waits_for_round, log_lines, draining;
    bool yields;          // worker: it lets others go first, once (suspects.h)
    bool drained;         // an admin drains it, whatever its heartbeats say
    bool empties;         // psserver: it ends when its shards have moved away
    uint64_t no_moves_ms; // psserver: no shard moves to it before (move.h)
    uint64_t only_job;    // worker: as member_hello
    uint32_t edition;
    uint64_t attached_ms, seen_ms;
    uint64_t pause_until_ms;         // worker: give it nothing before
    uint64_t memory_bytes;           // memory that it may use; 0: not said
    uint64_t test_kind, test_vector; // worker: as member_hello
    uint64_t resident_bytes; // memory that it uses, by its last heartbeat
    struct busy busy;
    struct offset clock; // offset of its clock from the coordinator's
    struct list leases;  // worker: struct work, oldest first
    uint32_t lease_count, lease_most; // most: see dispatch.h
    bool seated;             // worker: one of `leases` is a place in a group
    uint32_t streams;        // worker: leases whose closures are computed, but
                             // not yet counted everywhere, at most (L8)
    struct list_node unsent; // link in members.unsent
    uint32_t leases_unsent;  // how many of its newest leases are unsent
    // worker: takes leases, from half of lease_most until it has all
    bool refills;
    double lease_ms;        // worker: recent time per lease
    uint64_t lease_from_ms; // worker: when the lease under way began, about
    struct map opened;      // worker: job -> struct opened, see job.h
    struct map losing; // worker: job -> job, for leases taken while suspect
    struct member_debt owes;     // worker
    struct member_before before; // worker
    struct map conduct;          // worker: job -> struct conduct, owned
    // psserver: ended job that it was told to close -> how many of its reports
    // are still heard.
    struct map closing;
};

struct members {
    uint32_t heartbeat_ms, lease_ms;
    struct list all;
    // Workers that compute 0, 1, ... leases (member_computes) and may be given
    // more.
    struct list open[DISPATCH_LEASES_WIDEST];
    struct list unsent; // workers that leases are to be sent to
    struct list lost;   // lost members, newest first
    struct map by_id;
    uint32_t workers, psservers; // members in `all`, by role
};

// Sets *ms to no members, which are suspect after MEMBER_MISSED heartbeats and
// lost after lease_ms of silence.
void members_init(struct members *ms, uint32_t heartbeat_ms, uint32_t lease_ms);

// Frees all members, lost ones too, and leaves *ms without any; the leases that
// they held are in no list then.
void members_release(struct members *ms);

// Makes a member from its `hello`, READY, seen at now_ms, adds it to ms and
// sets *out to it; a worker may be given leases at once (ms->open). Forgets and
// frees a lost member of the same role and name. `id` is a number of the
// caller's choice: not 0, never used before. Does not check whether another
// member has the name (members_find).
enum sl_err members_add(struct members *ms, struct member **out, uint64_t id,
                        const struct member_hello *hello, uint64_t now_ms);

// Takes m, which must hold no lease, out of all lists and counts of ms and
// frees it, without a trace in `lost`.
void members_remove(struct members *ms, struct member *m);

// Moves m, which is MEMBER_LOST and holds nothing, from ms->all to ms->lost, as
// the newest there: it keeps what it was, how it did with jobs, when it was
// seen, and `why` ("": no reason). Of its role the oldest are freed beyond
// MEMBERS_LOST_MOST.
void members_lose(struct members *ms, struct member *m, const char *why);

// Takes two texts of a heartbeat. `why`: the reason why the member takes no
// leases; "": it takes them. `device`: the device that it computes on now; "":
// as before. Without memory the old texts stay.
void member_describe(struct member *m, const char *why, const char *device);

// Returns true if a and b compute on the same number and kind of devices, as
// their device texts say; which one of its host's GPUs a device is does not
// count.
bool member_same_device(const struct member *a, const struct member *b);

// Takes the text of a heartbeat that names the kernels which worker m does not
// use, as they compute wrong numbers on its host; "": none. Without memory the
// old text stays.
void member_leaves_out(struct member *m, const char *what);

// Sets how many leases worker m holds, its place in a group included, and
// whether it takes more (m->refills): it does once it computes
// (member_computes) at most half of m->lease_most, until it computes all. Puts
// m last into m->of->open at the number of leases that it computes, if it takes
// more, and else takes m out of that.
void member_holds(struct member *m, uint32_t leases);

// Returns the number of leases that the worker holds, not counting its place in
// a group, nor those that a stream has computed.
uint32_t member_computes(const struct member *m);

// Counts the newest lease in m->leases as not sent yet, and puts m into
// m->of->unsent if it is not there: the next send_leases sends the lease.
void member_sends(struct member *m);

// Notes that worker m is given one more lease, and calls member_holds for it;
// if it computed none until now, the time of the lease counts from now_ms
// (m->lease_from_ms). The caller puts the lease into m->leases, before or
// after.
void member_begins(struct member *m, uint64_t now_ms);

// Notes that worker m completed a lease at now_ms, which it still holds, and so
// how long its leases take lately (m->lease_ms). From the next member_holds on
// m may hold as many as last `ahead_ms` together, at most `most`
// (dispatch_most). Not to be called for leases that fail.
void member_completes(struct member *m, uint64_t now_ms, double ahead_ms,
                      uint32_t most);

// Forgets how long the leases of each worker take, until it has shown that
// again: each may hold DISPATCH_LEASES_LEAST then, so that none has so many
// that it holds completions back.
void members_forget_pace(struct members *ms);

// Returns the member with this stream number, in whatever state, or NULL.
struct member *members_get(const struct members *ms, uint64_t id);

// Returns the oldest member of this role and name in ms->all, in whatever state
// (a LOST one too, until it is removed), or NULL.
struct member *members_find(const struct members *ms, enum member_role role,
                            const char *name);

// Returns the psserver of that name if it is attached and READY or DRAINING, or
// NULL.
const struct member *members_psserver(const struct members *ms,
                                      const char *name);

// Returns true if another process, which claims m's name by `claim`, may take
// it from m. MEMBER_OWN and MEMBER_LOCAL may always; MEMBER_ANY only if m's own
// claim is not MEMBER_OWN, and m is silent or is the same `process`.
bool member_yields(const struct member *m, enum member_claim claim,
                   uint64_t process);

// Notes a message of m at now_ms. m, which must not be LOST (asserted), becomes
// READY, or DRAINING where m->draining or m->drained. Returns true if it was
// SUSPECT until now.
bool member_seen(struct member *m, uint64_t now_ms);

// Sets m->drained: an admin drains m, or does so no more. The state of m
// follows at once, or for a silent member when it is seen again.
void member_drain(struct member *m, bool drained);

// Sets m to MEMBER_LOST, since its stream has ended; it may be so already. m
// stays in ms until members_lose or members_remove.
void member_lost(struct member *m);

// Returns the state that m's silence until now_ms makes of it, whatever
// m->state is: READY (or DRAINING), SUSPECT or LOST. Changes nothing.
enum member_state member_judge(const struct members *ms, const struct member *m,
                               uint64_t now_ms);

// Sets the state of m, which must not be LOST, to what member_judge returns.
// Returns true if it changed.
bool member_check(const struct members *ms, struct member *m, uint64_t now_ms);

// Returns true if worker m may be given leases at now_ms: it is READY, does not
// pause (MEMBER_PAUSE_MS), and owes no revoked attempt (struct member_debt), or
// one that is forgiven by then.
bool member_ready(const struct member *m, uint64_t now_ms);

// Returns "worker" or "psserver".
const char *member_role_name(enum member_role role);

// Returns the state's name in lower case; "unknown" for no state.
const char *member_state_name(enum member_state state);

#endif
