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

// Starts a call of worker `p`; its number. Answers come by hand_reply, the end
// of the caller's patience by hand_deadline.
uint64_t net_call(struct sim *s, struct proc *p, enum call_kind kind,
                  const char *to, const void *head, size_t head_bytes,
                  const void *payload, size_t payload_bytes);

// A number that no call has.
uint64_t net_number(struct sim *s);
// Answers a call that was left for later.
void net_answer(struct sim *s, const struct sim_call *call,
                const struct sim_reply *reply);

uint64_t net_delay(struct sim *s, uint32_t from, uint32_t to); // hosts
bool net_cut(struct sim *s, uint32_t from, uint32_t to);
uint32_t net_host(const char *address);

void net_partition(struct sim *s, uint32_t from, uint32_t to, uint64_t us);
void net_clog(struct sim *s, uint32_t from, uint32_t to, uint64_t us);
void net_heal(struct sim *s);

// ---- session.c: Attend. A session has the coordinator's number for it.

// The member goes for a (new) session; does nothing while it has one.
void session_dial(struct sim *s, struct proc *p);
// Member -> coordinator; false if there is no session.
bool session_up(struct sim *s, struct proc *p, const Sluice__V1__AttendUp *up);
// Member: it is no good. What was said and not heard is lost.
void session_drop(struct sim *s, struct proc *p);
// Its process has died; `quietly`: nobody is told.
void session_orphan(struct sim *s, struct proc *p, bool quietly);

// Coordinator -> member.
void session_down(struct sim *s, uint64_t number,
                  const Sluice__V1__AttendDown *down);
// It ends the session, after what was said or at once.
void session_hang_up(struct sim *s, uint64_t number, bool at_once);
void session_boss_gone(struct sim *s, uint32_t boss, bool quietly);

// The connection breaks. `who` learns of it: 0 both, 1 the coordinator,
// 2 the member.
void session_break(struct sim *s, struct proc *p, unsigned who);

// Its stream (rpc_stream_open), if it has one, ends for good: it has died.
void session_end_stream(struct proc *p);

// ---- what they call

struct proc *boss_of(struct sim *s);
void boss_hello(struct sim *s, struct proc *boss, uint64_t number,
                const Sluice__V1__Hello *hello);
void boss_receive(struct sim *s, struct proc *boss, uint64_t number,
                  const Sluice__V1__AttendUp *up);
void boss_detach(struct sim *s, struct proc *boss, uint64_t number);

bool server_welcome(struct sim *s, struct proc *p,
                    const Sluice__V1__Welcome *m);
void server_attached(struct sim *s, struct proc *p);
void server_down(struct sim *s, struct proc *p,
                 const Sluice__V1__AttendDown *down);
void server_beat(struct sim *s, struct proc *p);
// False: it answers later, by net_answer, or not at all.
bool server_call(struct sim *s, struct proc *p, const struct sim_call *call,
                 struct sim_reply *reply);

// What a worker says in the simulation, where its process would tell of itself.
void hand_say(struct sim *s, const struct proc *p, Sluice__V1__AttendUp *up);
void hand_reply(struct sim *s, struct proc *p, const struct sim_reply *r);
void hand_deadline(struct sim *s, struct proc *p, uint64_t id);

void net_begin(struct sim *s);
void net_end(struct sim *s);

#endif
