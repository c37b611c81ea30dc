// SPDX-License-Identifier: Apache-2.0
// tests/sim/truth.h -- what was counted, by who saw it happen.
//
// Every memory that a shard ever had is known here: what it was loaded from,
// which incarnations it had, which keys it counted and whether they were
// applied or skipped. It is kept when the process is gone, since snapshots and
// cuts go on telling of it.
//
// In sync what a shard holds of its open round is known as well (rounds.c).
//
// A step's gradient has four fields, over and over: the prime of its closure,
// 1, the closure's number and the step's (from 1). Parameters start at 0 and
// the rate is 1, so a shard's values are minus the sum over what it applied,
// exactly, at every moment: `once` and `conserved` are looked at after every
// single call.
//
// The names of the invariants are those of tests/history/README.md, the rules
// those of docs/protocol.md. A check that fails ends the test.
#ifndef TESTS_SIM_TRUTH_H
#define TESTS_SIM_TRUTH_H

#include "state/shard/shard.h"
#include "state/snap/snap.h"
#include "tests/sim/sim.h"

enum { TRUTH_NOT, TRUTH_APPLIED, TRUTH_SKIPPED };
#define TRUTH_INCARNATIONS 8 // of one memory
// Most contributions of a round without slots. A contribution to one is of
// TRUTH_SHARES shares, which any number of them divide.
#define TRUTH_OPEN_MOST 4
#define TRUTH_SHARES 12

struct ledger {
    uint8_t of[SIM_STEPS];     // by global step
    uint8_t shares[SIM_STEPS]; // times that the step's gradient was applied
    double sum[SIM_FIELDS];
};

struct memory {
    struct list_node node;
    uint32_t proc, number; // number: of the shard
    struct shard *shard;   // a reference; NULL: the process is gone
    struct wire_tag from;
    uint64_t incarnations[TRUTH_INCARNATIONS];
    unsigned incarnations_count;
    struct ledger ledger;
    struct wire_attempt newest[SIM_CLOSURES]; // seen by it (I4)
    uint8_t held[SIM_CLOSURES];               // of its open round: see rounds.c
};

// The vector of one step.
void truth_step(double out[SIM_FIELDS], uint64_t closure, uint32_t step);

void truth_new(struct sim *s);
void truth_free(struct sim *s);

// The memory that a process has of a shard now; met for the first time, it
// must be what the snapshot it came from had. NULL: nobody looks (soak.h).
struct memory *truth_memory(struct sim *s, struct proc *p, struct shard *shard);
struct memory *truth_incarnation(struct sim *s, uint32_t shard,
                                 uint64_t incarnation); // or NULL
// The process is gone: its shards' references are given back.
void truth_gone(struct sim *s, struct proc *p);

// After a call to a shard.
void truth_ask(struct sim *s, struct memory *m, const struct wire_ask *ask,
               enum sl_err rc, const struct wire_ask_reply *reply);
void truth_push(struct sim *s, struct memory *m, const struct wire_push *push,
                enum sl_err rc, const struct wire_push_reply *reply,
                const float *values);
void truth_pull(struct sim *s, struct memory *m, const struct wire_pull *pull,
                enum sl_err rc, const struct wire_pull_reply *reply,
                const float *values);

// A psserver says what it has, or has written.
void truth_hello(struct sim *s, struct memory *m,
                 const Sluice__V1__ShardHello *hello);
void truth_report(struct sim *s, struct proc *p,
                  const Sluice__V1__SnapshotReport *report);

// What a snapshot that was reported held; NULL: it never was.
const struct ledger *truth_snapshot(struct sim *s, uint32_t shard,
                                    struct wire_tag tag);
// The first closure of which a step is not in it.
uint64_t truth_low(struct sim *s, const struct ledger *l);
void truth_values(const struct ledger *l, const float *values, size_t count);
// In a job with a table each step has the gradient of one row of each shard,
// the one of truth_row. So that row is what the shard's values are.
uint64_t truth_row(uint32_t shard, uint32_t shards);
void truth_rows(const struct ledger *l, const struct shard *shard);
// `counted` holds exactly the keys of the ledger.
void truth_equal(const struct ledger *l, const struct counted *counted);

// The coordinator placed, or admitted, a shard.
void truth_place(struct sim *s, const Sluice__V1__ShardSpec *spec);
void truth_admit(struct sim *s, uint32_t shard, uint64_t incarnation);
uint64_t truth_newest(struct sim *s, uint32_t shard); // ever admitted
// The coordinator is about to be called: what is newest now.
void truth_mark(struct sim *s);
uint64_t truth_marked(struct sim *s, uint32_t shard);
// C1, C2: the coordinator believes of a shard's newest incarnation only what
// that has counted.
void truth_evidence(struct sim *s, uint32_t shard, uint64_t incarnation,
                    const struct counted *believed);

// A fresh shard by the spec that was placed (shard_unref).
struct shard *truth_shard(struct sim *s, uint32_t shard);

// ---- rounds.c

struct job;
struct evidence_shard;

// A psserver was told to end the open round of a shard that holds a closure,
// and had applied so many updates before (L2).
void rounds_told(struct sim *s, struct memory *m, uint64_t closure,
                 uint64_t version);
// A closure of a job in sync is leased (Y4); what is believed to be held (Y3).
void rounds_lease(struct sim *s, const struct job *job, uint64_t closure);
void rounds_believed(struct sim *s, uint32_t shard,
                     const struct evidence_shard *e);

// ---- cuts.c

// The coordinator's published cuts, whenever they may have changed.
void cuts_look(struct sim *s);
// `durable`: all that they name is there and is what they say.
void cuts_verify(struct sim *s);
struct wire_tag cuts_last(struct sim *s, uint32_t shard);
struct wire_tag cuts_oldest(struct sim *s, uint32_t shard); // that is kept
bool cuts_any(struct sim *s);
// A file of a cut is there and is what the cut and the ledger say; `full`:
// complete, too. `read`: a fresh shard, which is filled.
void cuts_check_file(const Sluice__V1__CheckpointShard *f, struct fs *fs,
                     struct shard *read, const struct ledger *ledger,
                     bool full);
void cuts_free(struct sim *s);

#endif
