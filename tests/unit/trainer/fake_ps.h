// SPDX-License-Identifier: Apache-2.0
// tests/unit/trainer/fake_ps.h -- a psserver for tests of the worker: real RPC,
// shards in memory, plain SGD, and bad luck on request.
//
// Shared memory that a call named whose answer was lost it spoils from then on,
// with what is not finite.
//
// It counts as docs/protocol.md says (I3, I4, S2), keeps the ground truth, and
// aborts at once if a worker does what none may do: a push with the wrong
// number of bytes, digests that differ between attempts, or ids of rows that do
// not rise by their hash or are another shard's (T3).
//
// Threads  all functions: any.
#ifndef TESTS_UNIT_TRAINER_FAKE_PS_H
#define TESTS_UNIT_TRAINER_FAKE_PS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/net/rpc.h"
#include "proto/wire.h"
#include "psserver/local/local_shared.h"

#define FAKE_SHARDS 8
#define FAKE_CLOSURES 64
#define FAKE_STEPS 64
#define FAKE_TABLES 2
#define FAKE_BUCKETS 32 // of each table
#define FAKE_ROWS 4096  // of a shard
#define FAKE_DIM 8      // elements of a row, at most

struct fake_row {
    uint32_t table;
    uint64_t id;
    float values[FAKE_DIM];
};

struct fake_shard {
    size_t first, count;
    uint64_t incarnation, version;
    float *values;
    bool counted[FAKE_CLOSURES][FAKE_STEPS];
    bool holds; // says of what it counts that it is held
    uint64_t digest[FAKE_CLOSURES][FAKE_STEPS];
    struct wire_attempt newest[FAKE_CLOSURES];
    uint64_t applied, skipped, duplicates, refused, pushes;
    uint64_t shared; // of `applied`: the gradient was in shared memory
    uint64_t narrow; // of `applied`: it came in 16 bits
    uint64_t late;   // of `applied`: it said that it had been refused before
    uint64_t pulls;  // of what it has now
    uint64_t have;   // of the last of them
    unsigned stale[FAKE_CLOSURES][FAKE_STEPS]; // refusals for a delay
    double largest_norm;                       // of a push
    struct fake_row *rows;                     // those that a push has made
    unsigned rows_count;
    uint64_t rows_pulls;
    uint64_t delay;       // of the last push that it counted
    uint64_t rows_before; // before_round_of of the last of them
    // Moments that the last push brought that had some.
    uint64_t moments_t;
    uint8_t moments[4096];
    size_t moments_bytes;
};

struct fake_ps;

struct fake_ps_options {
    const char *address; // to listen on
    uint32_t shards;
    const size_t *counts; // elements of each
    uint64_t job, job_incarnation;
    float rate;
    struct local *local;        // NULL: it shares no memory
    uint32_t dims[FAKE_TABLES]; // of rows; 0: there is no such table
};

// Makes a psserver that serves at once: shards of incarnation 1 with drawn
// values, nothing counted. *o is copied but for `counts`, which is read now;
// `io` and `local` are borrowed until fake_ps_free.
struct fake_ps *fake_ps_new(struct rpc_io *io, const struct fake_ps_options *o);

// Fails calls that are held (fake_ps_hold), waits for open ones, and frees f.
void fake_ps_free(struct fake_ps *f);

// Returns what element k of an id without a row is.
float fake_first(uint32_t table, uint64_t id, uint32_t k);

// Takes the lock and returns the shards, an array, to be read and changed until
// fake_ps_unlock; no call is answered meanwhile.
struct fake_shard *fake_ps_lock(struct fake_ps *f);
void fake_ps_unlock(struct fake_ps *f);

// Shares memory through another one from now on (what it had before may be
// freed); NULL: no more.
void fake_ps_local(struct fake_ps *f, struct local *local);

// Has so many of 1000 pushes that name shared memory be told that it is
// unknown.
void fake_ps_forget(struct fake_ps *f, unsigned of_1000);

// Has so many of 1000 pushes be refused for their delay, unless they say that
// they are late, which only a push that was refused three times may say.
void fake_ps_stale(struct fake_ps *f, unsigned of_1000);

// Has each Ask and push be refused from now on, as of a later round.
void fake_ps_ahead(struct fake_ps *f);

// Has so many of 1000 pulls be answered with f32, as by a psserver that knows
// nothing else.
void fake_ps_wide(struct fake_ps *f, unsigned of_1000);

// Has pulls that want a code be answered with a change, of `n` bytes, at most
// 256, which are copied, to that version; before this is called with f32.
void fake_ps_change(struct fake_ps *f, uint64_t version, const void *bytes,
                    size_t n);

// Has so many of 1000 calls fail with SL_EUNAVAIL before anything happened, and
// so many of 1000 pushes after they were done, so that the answer is lost.
void fake_ps_luck(struct fake_ps *f, unsigned before, unsigned after);

// Holds calls, up to 64, without an answer and undone; `hold` false: fails
// those that are held with SL_EUNAVAIL, and holds no more.
void fake_ps_hold(struct fake_ps *f, bool hold);

// Calls fn(arg) once, after so many more pushes of any shard, refused ones too:
// on an I/O thread, with the lock. 0: not at all. In place of an earlier one.
void fake_ps_after(struct fake_ps *f, unsigned pushes, void (*fn)(void *arg),
                   void *arg);

#endif
