// SPDX-License-Identifier: Apache-2.0
// tests/sim/crew.h -- a worker's process (crew.c), and the lease that it works
// at (task.c).
//
// A script of trainer/attend/member.c and trainer/push/sync_ps*.c: one closure
// at a time, the next one held; a call per shard in flight; a call whose
// outcome is unknown is made again with the same key; evidence is the worker's
// own (W1, W2).
#ifndef TESTS_SIM_CREW_H
#define TESTS_SIM_CREW_H

#include "tests/sim/net.h"
#include "trainer/push/evidence.h"

#define CREW_LEASES 8
#define CREW_KEPT 64 // reports that wait for a session
#define CREW_BEATS 64

enum part_want { PART_REST, PART_ASK, PART_PULL, PART_PUSH, PART_CUT };

// One shard, as the task sees it.
struct part {
    enum part_want want;
    uint64_t call; // in flight; 0: none
    uint64_t due_us;
    unsigned tries;
    struct step_evidence evidence;
    bool have; // fresh parameters, of
    uint64_t have_incarnation, version;
    bool skip;
    bool held, closed; // by its last push (sync)
};

enum task_phase { TASK_NONE, TASK_BEGIN, TASK_COMPUTE, TASK_PUSH, TASK_CUT };

struct task {
    enum task_phase phase;
    uint64_t number; // of computations: which of them ends
    uint32_t step;
    bool again, fenced, early, failed, map_wanted;
    bool left;              // its lease is of a stream that has ended
    bool grouped;           // it was begun within a place in a group,
    struct wire_attempt of; // leased as this attempt
    uint64_t generation;    // that computes the step
    uint64_t map_asked_us, wake_us;
    struct part parts[SIM_SHARDS];
    Sluice__V1__StepMetrics metrics;
};

struct crew {
    struct sim *sim;
    struct proc *proc;
    // the oldest is the task's, unless that has none
    Sluice__V1__Lease *leases[CREW_LEASES];
    bool revoked[CREW_LEASES];
    unsigned leases_count;
    bool ended; // the whole job was revoked
    uint64_t opened, job_incarnation;
    Sluice__V1__JobOpen *open; // in allreduce; owned
    uint32_t shards;
    uint64_t elements[SIM_SHARDS];
    uint64_t map_version;
    struct {
        char address[24];
        uint64_t incarnation;
    } map[SIM_SHARDS];
    uint64_t seq, sent_us[CREW_BEATS], renewed_us;
    Sluice__V1__AttendUp *kept[CREW_KEPT];
    unsigned kept_count;
    struct task task;
    struct rank *rank;   // in allreduce; else NULL
    struct place *place; // in hybrid; else NULL
};

void crew_start(struct sim *s, struct proc *p);
void crew_stop(struct sim *s, struct proc *p);
// SIGTERM: what it has goes back, then it ends.
void crew_drain(struct sim *s, struct proc *p);

// ---- from the session, and of shards: see net.h

bool crew_welcome(struct sim *s, struct proc *p, const Sluice__V1__Welcome *m);
void crew_attached(struct sim *s, struct proc *p);
void crew_down(struct sim *s, struct proc *p,
               const Sluice__V1__AttendDown *down);
void crew_beat(struct sim *s, struct proc *p);
void crew_renewed(struct sim *s, struct proc *p, uint64_t seq);
void crew_reply(struct sim *s, struct proc *p, const struct sim_reply *r);
void crew_deadline(struct sim *s, struct proc *p, uint64_t id);

void crew_send(struct crew *c, const Sluice__V1__AttendUp *up);
void crew_drop_lease(struct crew *c, unsigned i);
// The lease is done, or goes back.
void crew_complete(struct crew *c, unsigned i);
void crew_send_hand_back(struct crew *c, const Sluice__V1__Lease *l);
void crew_hand_back(struct crew *c, unsigned i);

// ---- task.c

// Goes on with whatever can be gone on with.
void task_drive(struct crew *c);
// An answer to a part's call; NULL: it is given up (its outcome is unknown).
void task_answer(struct crew *c, struct part *p, const struct sim_reply *r);
void task_map(struct crew *c); // the map has changed
// Ends the task, with or without words; its lease goes.
enum task_end { TASK_COMPLETE, TASK_HAND_BACK, TASK_FAILED, TASK_DROPPED };
void task_finish(struct crew *c, enum task_end how);
bool task_gate_open(struct crew *c);

#endif
