// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/cut.h -- shard snapshots -> one cut: what is asked for,
// when, and whether it may be published.
//
//   cut_new -> SnapshotRequest to every shard -> cut_take per report ->
//   cut_publishable (K4) -> intent to the journal -> manifest, durable ->
//   outcome to the journal -> only now it exists (core/cuts/publish.c does it)
//
// Between intent and outcome the cut is `writing`, and no shard of the job is
// admitted (K5). A cut is a set of snapshots of different moments: repairable,
// not one version (E3).
//
// Threads  the loop.
// Memory   cut_free frees all; strings and sets that are taken are copied. No
//          pointer may be NULL but where it is said; `err` may be.
// Units    steps, closures, bytes; *_ms monotonic. Shards count from 0, and are
//          below those of cut_new.
#ifndef COORDINATOR_RULES_CUT_H
#define COORDINATOR_RULES_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/counted.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "coordinator/rules/evidence.h"
#include "proto/wire.h"

// Shards that do not report for this long are asked again, and the event feed
// says so. The wait grows to what the largest shard takes at CUT_BYTES_PER_MS,
// if that is longer, and doubles each time. A ring's cut is given up instead:
// its parts are to be of one round, which has passed by then.
#define CUT_PATIENCE_MS 60000
#define CUT_BYTES_PER_MS 4096
#define CUT_RETRY_MS 3000 // after a failure

// What the coordinator believed that a shard had counted when it was asked; a
// file written afterwards holds at least that much.
struct cut_asked {
    bool once; // whether the shard was asked
    uint64_t steps, low;
};

struct cut_shard {
    struct cut_asked asked;
    bool reported;
    struct wire_tag tag;
    char *psserver, *address, *folder, *file; // owned
    uint64_t file_bytes;                      // size of the file
    bool not_finite; // some parameter is NaN or infinite
    uint8_t sha256[SHA256_BYTES];
    struct counted counted;           // what that file holds
    Sluice__V1__ShardCounts *counts;  // its counts by epoch; owned
    Sluice__V1__SnapshotChain *below; // files that it needs; owned; NULL: none
};

struct cut {
    uint64_t n;        // number within its job, from 1
    uint64_t request;  // which SnapshotRequest its reports answer
    uint64_t moved_ms; // when it was begun, reported to or asked for again
    uint32_t late;     // times that shards were asked again
    bool one_round;    // only reports of its own request fit together (R6)
    bool writing;      // the intent is in the journal, the outcome is not
    uint32_t shards;
    struct cut_shard *shard; // owned
};

// Makes cut `n` of a job of `shards` shards, without a report, as begun at
// now_ms; `request` is the number of its SnapshotRequest. The caller sets
// one_round. For cut_free. NULL: no memory.
struct cut *cut_new(uint64_t n, uint64_t request, uint32_t shards,
                    uint64_t now_ms);

// Frees c and all that it owns, whether it is being written or not. NULL is
// allowed.
void cut_free(struct cut *c);

// Notes what the evidence `e` says that the shard has counted as it is asked
// for its snapshot (cut_belies compares that). Only the first call for a shard
// counts, since the answer to that question may be on its way.
void cut_ask(struct cut *c, uint32_t shard, const struct evidence *e);

// Returns for how many milliseconds cut c waits for its next report before
// shards are asked again: CUT_PATIENCE_MS, or what a file of `bytes` bytes,
// that of its largest shard, takes at CUT_BYTES_PER_MS, if that is longer;
// doubled c->late times, at most 6 times.
uint64_t cut_patience_ms(const struct cut *c, uint64_t bytes);

// Takes one report, which has a tag, a counted set and counts, into its shard's
// entry, in place of an earlier one, from the psserver of that name and
// address. `e` is the job's evidence. The report may answer an older request:
// it is a file of this incarnation all the same (K4). The caller sets
// c->moved_ms. Returns SL_OK or:
//
// SL_ESTALE    the cut has no such shard; the report answers another request
//              and c->one_round is set; its tag is lower than that of the file
//              at hand; its incarnation is not the shard's newest in `e`; or c
//              is being written
// SL_ECORRUPT  its counted set does not fit the job, or its checksum is of
//              another length
// SL_ENOMEM    the shard may be without a report now, even if it had one
//
// Any failure but SL_ENOMEM changes nothing.
enum sl_err cut_take(struct cut *c, const Sluice__V1__SnapshotReport *report,
                     const char *psserver, const char *address,
                     const struct evidence *e, struct sl_error *err);

// Returns true if the shard's file, written for `request` after the shard was
// asked, holds less than cut_ask noted: some worker reported steps as completed
// that the shard had not counted. False if `request` is not c->request, or the
// shard was not asked or has no report.
bool cut_belies(const struct cut *c, uint32_t shard, uint64_t request);

// Forgets the report of a shard that was admitted anew, and that it was asked:
// it is to be asked again. c must not be being written (asserted).
void cut_void(struct cut *c, uint32_t shard);

// Sets c->writing, as the cut's intent is in the journal; once (asserted). From
// then on nothing in c changes until cut_free.
void cut_begin_write(struct cut *c);

// Returns true if K4 holds: every shard has a report, and every reported
// snapshot is of the incarnation that is its shard's newest in `e` now. False
// without shards.
bool cut_publishable(const struct cut *c, const struct evidence *e);

// Returns true if every shard has a report, and the counted set of every file
// holds all steps of the job (E1). False without shards.
bool cut_full(const struct cut *c);

// ---- numbers of a cut that is publishable

// Returns the durable watermark (C4): every file holds all closures below this
// one.
uint64_t cut_low(const struct cut *c);

// Returns the number of steps in the file that has counted the fewest.
uint64_t cut_steps(const struct cut *c);

// Returns how many whole epochs, from the first on, every file holds. The cut
// has at least one shard.
uint32_t cut_epochs(const struct cut *c);

// Returns the size of all files together and of those that they need (T10), in
// bytes.
uint64_t cut_file_bytes(const struct cut *c);

// ---- when a cut is due

enum cut_why {
    CUT_NOT,   // no cut is due
    CUT_FINAL, // all is counted: E1 wants a cut that holds it
    CUT_EPOCH, // an epoch is counted on every shard
    CUT_STEPS, // a mark of evaluate.every_steps is counted on every shard
    CUT_TIME,  // checkpoint.every_seconds have passed, with new steps
    CUT_ASKED, // a user or a caller wishes one
};

struct cut_when {
    bool all_counted;        // the evidence is full
    bool last_full;          // the last published cut is full
    uint32_t epochs;         // whole epochs in the evidence
    uint32_t last_epochs;    // whole epochs in the last published cut
    bool every_epoch;        // checkpoint.every_epoch
    uint32_t evaluate_every; // evaluate.every_epochs; 0: never
    uint32_t marks;          // marks of evaluate.every_steps in the evidence
    uint32_t last_marks;     // marks in the last published cut
    uint64_t every_ms;       // checkpoint.every_seconds; 0: never
    uint64_t since_ms;       // time since the last cut, or since the job ran
    uint64_t steps;          // steps in the evidence, on every shard
    uint64_t last_steps;     // steps in the last published cut
    bool asked;              // a cut is wished that was not published yet
};

// A wish for a cut that holds at least `steps`, or that is begun later than cut
// `after`. (A shard may come back with less: then a later cut holds all that is
// counted.)
struct cut_wish {
    bool made; // false: no wish
    uint64_t steps, after;
};

// Returns a wish that only those cuts grant which grant both a and b: the
// higher `steps` and the higher `after`. If one of them is not made, returns
// the other one, made or not.
struct cut_wish cut_wish_both(struct cut_wish a, struct cut_wish b);

// Returns true if cut `n`, which holds `steps` steps, grants the wish *w: it
// holds w->steps or more, or its number is above w->after. A cut that is
// `complete`, with all steps of the job, grants any wish. Does not look at
// w->made: any cut grants a wish of zeroes.
bool cut_grants(const struct cut_wish *w, uint64_t n, uint64_t steps,
                bool complete);

// Returns why a cut should be begun now, or CUT_NOT. Once all steps are counted
// that is CUT_FINAL, or CUT_NOT if the last cut holds them all, even if a
// client wishes one. Before that it is the first reason of CUT_ASKED,
// CUT_EPOCH, CUT_STEPS and CUT_TIME that holds. Changes nothing.
enum cut_why cut_due(const struct cut_when *w);

// ---- which cuts to keep

// Sets drop[i] for each of the `count` published cuts, oldest first: true if
// cut i is neither among the newest `keep` (0 counts as 1, so the last cut
// always stays) nor needed[i], as for an evaluation. Both arrays have `count`
// items. Returns how many of drop[] are true.
size_t cut_prune(const bool *needed, size_t count, uint32_t keep, bool *drop);

#endif
