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

// Writes the vector of one step.
void truth_step(double out[SIM_FIELDS], uint64_t closure, uint32_t step);

// Makes s->truth, which knows of nothing yet.
void truth_new(struct sim *s);

// Frees s->truth, with the references to shards that it has.
void truth_free(struct sim *s);

// Returns the memory that a process has of a shard now, with a reference to the
// shard; met for the first time, it must be what the snapshot it came from had,
// and each incarnation that it shows for the first time is checked (I1, K7).
// Lives until truth_free. NULL: nobody looks (soak.h).
struct memory *truth_memory(struct sim *s, struct proc *p, struct shard *shard);

// Returns the memory that had this incarnation of a shard, alive or not; NULL:
// none was seen with it.
struct memory *truth_incarnation(struct sim *s, uint32_t shard,
                                 uint64_t incarnation);

// Gives back the references to the shards of a process that is gone.
void truth_gone(struct sim *s, struct proc *p);

// ---- after a call to a shard, with its result: notes what it counted, and
// checks the answer and the whole shard; `values` are the floats of the answer,
// read only where it has some

void truth_ask(struct sim *s, struct memory *m, const struct wire_ask *ask,
               enum sl_err rc, const struct wire_ask_reply *reply);
void truth_push(struct sim *s, struct memory *m, const struct wire_push *push,
                enum sl_err rc, const struct wire_push_reply *reply,
                const float *values);
void truth_pull(struct sim *s, struct memory *m, const struct wire_pull *pull,
                enum sl_err rc, const struct wire_pull_reply *reply,
                const float *values);

// ---- what a psserver says

// Checks the hello of a shard that is in memory or was loaded.
void truth_hello(struct sim *s, struct memory *m,
                 const Sluice__V1__ShardHello *hello);

// Checks the report of a snapshot, which did not fail, and its file, and notes
// what that holds. One that its successor has deleted is passed over.
void truth_report(struct sim *s, struct proc *p,
                  const Sluice__V1__SnapshotReport *report);

// Returns what a snapshot that was reported held, until truth_free; NULL: it
// never was.
const struct ledger *truth_snapshot(struct sim *s, uint32_t shard,
                                    struct wire_tag tag);

// ---- ledgers

// Returns the first closure of which a step is not in the ledger; the number of
// closures if it has all.
uint64_t truth_low(struct sim *s, const struct ledger *l);

// Checks that a shard's values are those of the ledger.
void truth_values(const struct ledger *l, const float *values, size_t count);

// Returns the id of the row of a shard whose gradient each step has, in a job
// with a table: so that row is what the shard's values are.
uint64_t truth_row(uint32_t shard, uint32_t shards);

// Checks that row of a shard; nothing without a table.
void truth_rows(const struct ledger *l, const struct shard *shard);

// Checks that `counted` holds exactly the keys of the ledger.
void truth_equal(const struct ledger *l, const struct counted *counted);

// ---- what the coordinator says and believes

// Notes a copy of the spec by which a shard is placed, the first time.
void truth_place(struct sim *s, const Sluice__V1__ShardSpec *spec);

// Notes that a shard is admitted, and checks that its incarnation does not fall
// (I1).
void truth_admit(struct sim *s, uint32_t shard, uint64_t incarnation);

// Returns the newest incarnation of a shard that was ever admitted; 0: none.
uint64_t truth_newest(struct sim *s, uint32_t shard);

// Notes the newest incarnations as they are before the coordinator is called.
void truth_mark(struct sim *s);

// Returns what truth_newest was at the last truth_mark.
uint64_t truth_marked(struct sim *s, uint32_t shard);

// Checks that the coordinator believes of this incarnation of a shard only what
// that has counted (C1, C2); nothing if it was never seen.
void truth_evidence(struct sim *s, uint32_t shard, uint64_t incarnation,
                    const struct counted *believed);

// Returns a new shard by the spec that was placed, for shard_unref.
struct shard *truth_shard(struct sim *s, uint32_t shard);

// ---- rounds.c

struct job;
struct evidence_shard;

// Checks a psserver that was told to end the open round of a shard that holds a
// closure, and was at `version` before: if it ended one, it held the closure
// (L2), and what it held is counted.
void rounds_told(struct sim *s, struct memory *m, uint64_t closure,
                 uint64_t version);

// Checks that a closure of a job in sync may be leased (Y3, Y4).
void rounds_lease(struct sim *s, const struct job *job, uint64_t closure);

// Checks that what the coordinator believes to be held by a shard is held, or
// counted (Y3).
void rounds_believed(struct sim *s, uint32_t shard,
                     const struct evidence_shard *e);

// ---- cuts.c

// Takes a copy of the coordinator's published cuts, if they have changed, and
// checks a new one (K4, C4, E3) and the files of all (cuts_verify). To be
// called whenever they may have changed; nothing while the coordinator is down.
void cuts_look(struct sim *s);

// Checks that all that the cuts of the last cuts_look name is there and is what
// they say (`durable`).
void cuts_verify(struct sim *s);

// Returns the tag that the last cut names for a shard; (0, 0): there is no cut.
struct wire_tag cuts_last(struct sim *s, uint32_t shard);

// Returns the lowest tag that a cut that is kept names for a shard; (0, 0):
// there is no cut.
struct wire_tag cuts_oldest(struct sim *s, uint32_t shard);

// Returns true if a cut was ever published.
bool cuts_any(struct sim *s);

// Checks that a file of a cut is there and is what the cut and the ledger,
// which is not NULL, say; `full`: complete, too. `read` is a new shard, which
// is filled.
void cuts_check_file(const Sluice__V1__CheckpointShard *f, struct fs *fs,
                     struct shard *read, const struct ledger *ledger,
                     bool full);

// Frees the copy of cuts_look, for truth_free.
void cuts_free(struct sim *s);

#endif
