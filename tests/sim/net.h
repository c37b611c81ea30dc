// SPDX-License-Identifier: Apache-2.0
// tests/sim/net.h -- the calls of workers to shards, and who reaches whom.
//
// A request or an answer is lost, late, overtaken by others, or comes again
// later: at once, or minutes after, when its server may be another process and
// the coordinator another term. An answer to a repeated request looks like any
// other; the caller knows by its number whether it still waits for it.
//
// A direction between two hosts may be cut (what is sent is lost; what a
// session has is held) or clogged (what is sent comes when it is free again).
#ifndef TESTS_SIM_NET_H
#define TESTS_SIM_NET_H

#include "tests/sim/sim.h"

// CALL_PUSH is answered with parameters, CALL_PUSH_BARE is not.
enum call_kind { CALL_ASK, CALL_PUSH, CALL_PULL, CALL_PUSH_BARE };

struct sim_call {
    uint64_t id;
    uint32_t from; // process of the caller
    enum call_kind kind;
    char to[24]; // address
    size_t bytes;
    uint8_t data[]; // the message as the wire has it
};

struct sim_reply {
    uint64_t id;
    enum call_kind kind;
    enum sl_err rc;
    union {
        struct wire_ask_reply ask;
        struct wire_push_reply push;
        struct wire_pull_reply pull;
    };
    size_t elements; // of a pull's values
    float values[64];
};

// Starts a call of worker `p` and returns its number. Answers come by
// hand_reply, none, one or more; the end of the caller's patience, in any case,
// by hand_deadline. What is sent is copied; `payload` may be NULL if
// payload_bytes is 0.
uint64_t net_call(struct sim *s, struct proc *p, enum call_kind kind,
                  const char *to, const void *head, size_t head_bytes,
                  const void *payload, size_t payload_bytes);

// Returns a number that no call has.
uint64_t net_number(struct sim *s);

// Sends the answer of a call, which is copied; for one that server_call left
// for later, too. It may be lost; a caller that is dead gets none.
void net_answer(struct sim *s, const struct sim_call *call,
                const struct sim_reply *reply);

// Draws how long a message takes between two hosts, in microseconds; longer
// while that way is clogged.
uint64_t net_delay(struct sim *s, uint32_t from, uint32_t to);

// Returns true while the way from one host to another is cut.
bool net_cut(struct sim *s, uint32_t from, uint32_t to);

// Returns the host of an address of a process, such as "10.0.0.3:1".
uint32_t net_host(const char *address);

// Cuts, or clogs, the way from one host to another for `us` at least; the way
// back stays.
void net_partition(struct sim *s, uint32_t from, uint32_t to, uint64_t us);
void net_clog(struct sim *s, uint32_t from, uint32_t to, uint64_t us);

// Ends all cuts and clogs.
void net_heal(struct sim *s);

// ---- session.c: Attend. A session has the coordinator's number for it.

// Messages are copied.

// Has a psserver dial for a session and say Hello, again and again until it has
// one; does nothing while it has one, or ends.
void session_dial(struct sim *s, struct proc *p);

// Says a message of an attached psserver to the coordinator; returns false, and
// nothing is said, if it is not attached or dead.
bool session_up(struct sim *s, struct proc *p, const Sluice__V1__AttendUp *up);

// Ends the member's session, on its side: what it said and was not heard is
// lost, the coordinator is told, and it dials anew. Nothing without a session.
void session_drop(struct sim *s, struct proc *p);

// Ends the session of a process that has died; the coordinator hears what it
// said before, and is told. `quietly`: it is not told.
void session_orphan(struct sim *s, struct proc *p, bool quietly);

// Says a message to the member of a session; lost if the coordinator has ended
// that.
void session_down(struct sim *s, uint64_t number,
                  const Sluice__V1__AttendDown *down);

// Ends a session on the coordinator's side, after what was said or, `at_once`,
// without it; the member is told.
void session_hang_up(struct sim *s, uint64_t number, bool at_once);

// Ends all sessions of a coordinator that has died; members are told, unless
// `quietly`.
void session_boss_gone(struct sim *s, uint32_t boss, bool quietly);

// Breaks the member's connection, if it has one: what is on its way is lost.
// `who` learns of it: 0 both, 1 the coordinator, 2 the member.
void session_break(struct sim *s, struct proc *p, unsigned who);

// Ends the stream (rpc_stream_open) of a worker that has died, if it has one.
void session_end_stream(struct proc *p);

// ---- functions that sessions and calls call

// Returns the coordinator's process, or NULL if it is down.
struct proc *boss_of(struct sim *s);

// Hears a member's Hello on session `number`, and ends that if it is refused.
void boss_hello(struct sim *s, struct proc *boss, uint64_t number,
                const Sluice__V1__Hello *hello);

// Hears a message of a session; after it, what the coordinator believes is
// compared with what was counted.
void boss_receive(struct sim *s, struct proc *boss, uint64_t number,
                  const Sluice__V1__AttendUp *up);

// Hears that a session has ended.
void boss_detach(struct sim *s, struct proc *boss, uint64_t number);

// Hears a Welcome. Returns false if it is of an older term, and the session is
// to be dropped.
bool server_welcome(struct sim *s, struct proc *p,
                    const Sluice__V1__Welcome *m);

// Hears that its session is there, after server_welcome.
void server_attached(struct sim *s, struct proc *p);

// Hears a message of the coordinator; now and then, after it, one that was said
// to its slot in an older term.
void server_down(struct sim *s, struct proc *p,
                 const Sluice__V1__AttendDown *down);

// Sends a heartbeat, and does what the roster does with each.
void server_beat(struct sim *s, struct proc *p);

// Answers a call of a worker in *reply, whose id and kind are set before, and
// returns true. False: it answers later, by net_answer, or not at all.
bool server_call(struct sim *s, struct proc *p, const struct sim_call *call,
                 struct sim_reply *reply);

// Changes a worker's Hello to what its process would tell of itself here; other
// messages stay.
void hand_say(struct sim *s, const struct proc *p, Sluice__V1__AttendUp *up);

// Hears an answer, perhaps of a call that has ended.
void hand_reply(struct sim *s, struct proc *p, const struct sim_reply *r);

// Hears that the patience for call `id` is over, which may have ended.
void hand_deadline(struct sim *s, struct proc *p, uint64_t id);

// Makes s->net, without cuts, calls and sessions.
void net_begin(struct sim *s);

// Frees s->net with all sessions, and what is on its way in them.
void net_end(struct sim *s);

#endif
