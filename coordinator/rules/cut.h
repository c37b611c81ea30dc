// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/cut.h -- shard snapshots -> one cut: what is asked for,
// when, and whether it may be published.
//
//   cut_new -> SnapshotRequest to every shard -> cut_take per report ->
//   cut_publishable (K4) -> intent to the journal -> manifest, durable ->
//   outcome to the journal -> only now it exists (core/publish.c does it)
//
// Between intent and outcome the cut is `writing`, and no shard of the job is
// admitted (K5). A cut is a set of snapshots of different moments: repairable,
// not one version (E3).
//
// Threads  the loop.
// Memory   cut_free frees all; strings and sets that are taken are copied.
// Units    steps, closures, bytes; *_ms monotonic.
#ifndef COORDINATOR_RULES_CUT_H
#define COORDINATOR_RULES_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/plan/counted.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "coordinator/rules/evidence.h"
#include "proto/wire.h"

// Shards that say nothing for so long are asked again, and people are told. As
// long as the largest shard takes at so many bytes a millisecond, if that is
// longer, and twice as long each time. A ring's cut is given up instead: its
// parts are to be of one round, which has passed by then.
#define CUT_PATIENCE_MS 60000
#define CUT_BYTES_PER_MS 4096
#define CUT_RETRY_MS 3000 // after a failure

// What was believed of a shard's memory when it was asked; a file that is
// written afterwards holds that much at least.
struct cut_asked {
    bool once; // it was
    uint64_t steps, low;
};

struct cut_shard {
    struct cut_asked asked;
    bool reported;
    struct wire_tag tag;
    char *psserver, *address, *folder, *file; // owned
    uint64_t file_bytes;
    bool not_finite; // a value of its parameters
    uint8_t sha256[SHA256_BYTES];
    struct counted counted;          // of that file
    Sluice__V1__ShardCounts *counts; // of that file, with epochs; owned
};

struct cut {
    uint64_t n;        // number within its job, from 1
    uint64_t request;  // which SnapshotRequest its reports answer
    uint64_t moved_ms; // begun, reported to, or asked for again
    uint32_t late;     // times that shards were asked again
    bool one_round;    // only reports of its own request fit together (R6)
    bool writing;      // the intent is in the journal, the outcome is not
    uint32_t shards;
    struct cut_shard *shard; // owned
};

struct cut *cut_new(uint64_t n, uint64_t request, uint32_t shards,
                    uint64_t now_ms); // NULL: no memory
void cut_free(struct cut *c);         // NULL is allowed

// The shard is asked (again), and so much of it is believed by now.
void cut_ask(struct cut *c, uint32_t shard, const struct evidence *e);

// How long it waits for the next report, of a shard of at most so many bytes.
uint64_t cut_patience_ms(const struct cut *c, uint64_t bytes);

// Takes one report from the psserver of that name and address, whatever request
// it answers: it is a file of this incarnation (K4). SL_ESTALE: it answers
// another request, and may not, or is older than the one that is here; is not
// of the shard's newest incarnation; or the cut is being written. SL_ECORRUPT:
// its counted set does not fit the job.
enum sl_err cut_take(struct cut *c, const Sluice__V1__SnapshotReport *report,
                     const char *psserver, const char *address,
                     const struct evidence *e, struct sl_error *err);

// The file of this shard, which was written after it was asked, holds less than
// was believed of it then: somebody completed what was not counted there.
bool cut_belies(const struct cut *c, uint32_t shard, uint64_t request);

// The shard was admitted anew: its unpublished report is void.
void cut_void(struct cut *c, uint32_t shard);

// Its intent is in the journal: nothing of it changes any more until it is
// freed with its outcome.
void cut_begin_write(struct cut *c);

// K4: every shard is reported, and every named snapshot is of its shard's
// newest incarnation now.
bool cut_publishable(const struct cut *c, const struct evidence *e);

// E1: the counted set of every named file is full.
bool cut_full(const struct cut *c);

uint64_t cut_low(const struct cut *c);    // the durable watermark (C4)
uint64_t cut_steps(const struct cut *c);  // counted in every file, at least
uint32_t cut_epochs(const struct cut *c); // whole epochs in every file
uint64_t cut_file_bytes(const struct cut *c);

// ---- when

enum cut_why {
    CUT_NOT,
    CUT_FINAL, // all is counted: E1 wants a cut that holds it
    CUT_EPOCH, // an epoch is counted on every shard
    CUT_STEPS, // a mark of the evaluation by steps is
    CUT_TIME,
    CUT_ASKED, // somebody wants one
};

struct cut_when {
    bool all_counted;        // evidence is full
    bool last_full;          // the last published cut is
    uint32_t epochs;         // whole epochs in the evidence
    uint32_t last_epochs;    // in the last published cut
    bool every_epoch;        // checkpoint.every_epoch
    uint32_t evaluate_every; // evaluate.every_epochs; 0: never
    uint32_t marks;          // of evaluate.every_steps, in the evidence
    uint32_t last_marks;     // in the last published cut
    uint64_t every_ms;       // checkpoint.every_seconds; 0: never
    uint64_t since_ms;       // since the last cut, or since the job ran
    uint64_t steps;          // in the evidence, on every shard
    uint64_t last_steps;     // in the last published cut
    bool asked;              // for one that there is not yet
};

// What somebody wants of a cut: it holds so many steps, or is begun later than
// that one. (A shard may come back with less: then a later one holds all that
// there is.)
struct cut_wish {
    bool made; // else nobody wants any
    uint64_t steps, after;
};

// Both, of whom either wanted one.
struct cut_wish cut_wish_both(struct cut_wish a, struct cut_wish b);

// A cut of that number and so many steps is what was wanted; one that holds all
// that there is to count always is.
bool cut_grants(const struct cut_wish *w, uint64_t n, uint64_t steps,
                bool complete);

enum cut_why cut_due(const struct cut_when *w);

// ---- which to keep

// Marks in drop[] which of `count` published cuts (oldest first) go: all but
// the newest `keep`, those in `needed` (an evaluation reads them), never the
// last. Returns how many.
size_t cut_prune(const bool *needed, size_t count, uint32_t keep, bool *drop);

#endif
