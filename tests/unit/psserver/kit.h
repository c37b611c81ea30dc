// SPDX-License-Identifier: Apache-2.0
// tests/unit/psserver/kit.h -- shards for tests, and what one says to them.
//
// A kit is a ShardSpec with everything it points at. kit_init makes a small
// job: two trainable variables around a moving statistic, all zero, SGD with
// rate 1, 40 samples in steps of 1, 4 steps per closure, 3 epochs.
//
// Threads  one; what is called on the shards it makes, any.
// Memory   a kit owns nothing: what a shard is made of is copied, and names
//          that are passed live as long as the kit. Shards are for shard_unref.
// Errors   what fails that should not ends the program.
#ifndef TESTS_UNIT_PSSERVER_KIT_H
#define TESTS_UNIT_PSSERVER_KIT_H

#include "state/shard/shard.h"
#include "state/snap/snap.h"
#include "tests/harness/t.h"

#define KIT_VARIABLES 8
#define KIT_TABLES 4

struct kit {
    Sluice__V1__ShardSpec spec;
    Sluice__V1__OptimizerSpec optimizer;
    Sluice__V1__Geometry geometry;
    Sluice__V1__Variable variables[KIT_VARIABLES];
    Sluice__V1__Variable *variable_list[KIT_VARIABLES];
    uint32_t variable_ids[KIT_VARIABLES];
    Sluice__V1__Piece pieces[KIT_VARIABLES];
    Sluice__V1__Piece *piece_list[KIT_VARIABLES];
    uint64_t shapes[KIT_VARIABLES][4];
    Sluice__V1__Table tables[KIT_TABLES];
    Sluice__V1__Table *table_list[KIT_TABLES];
    Sluice__V1__OptimizerSpec table_optimizers[KIT_TABLES];
};

// Sets *k to the small job above: job 7, incarnation 1, its shard 2.
void kit_init(struct kit *k);

// Sets *k to that job without variables, which kit_variable adds.
void kit_clear(struct kit *k);

// Adds a variable, all of it on the kit's shard, and returns it, to be changed;
// at most KIT_VARIABLES. A 0 ends the 0 to 3 dimensions of `shape`. `name` is
// borrowed.
Sluice__V1__Variable *kit_variable(struct kit *k, const char *name,
                                   const uint64_t *shape);

// Leaves rows [first, first + rows) of the variable that was added last on the
// kit's shard.
void kit_rows(struct kit *k, uint64_t first, uint64_t rows);

// Adds a table of 8 buckets, all zeroes, with rowwise_adagrad, and returns it;
// any id is admitted, no row goes. The kit is shard 2 of 4 then. At most
// KIT_TABLES; `name` is borrowed.
Sluice__V1__Table *kit_table(struct kit *k, const char *name, uint32_t dim);

#define KIT_FIRST 7.0f

// Returns a table of 8 buckets for a plan of one shard, with SGD; rows begin
// with KIT_FIRST everywhere. Its name is a copy, which the plan owns then.
struct plan_table kit_plan_table(const char *name, const struct plan *plan,
                                 uint32_t number, uint32_t dim);

// Compares two ids, for qsort, by their hashes, as messages have them.
int kit_ids_by_hash(const void *a, const void *b);

// Sets the optimizer by its name, which is borrowed, with this rate, no
// momentum, and Keras' defaults for the rest.
void kit_optimizer(struct kit *k, const char *name, double rate);

// Gives the job closures of 4096 steps, 50,000 of them.
void kit_long_closures(struct kit *k);

// Counts the first step of every second one of the 7,700 long closures behind
// the watermark, as no lease could have had it: as a set it can be read and is
// larger than a message may be.
void kit_count_too_much(struct shard *s);

// Returns a new shard of the kit, which is not admitted.
struct shard *kit_shard(struct kit *k);

// Returns a new shard of the kit, admitted as incarnation 1.
struct shard *kit_admitted(struct kit *k);

// A payload of `n` elements in pieces cut at `cut` bytes each (0: one piece).
struct kit_payload {
    uint8_t *bytes; // in `block`, misaligned on purpose
    uint8_t *block; // owned
    struct sl_slice *at;
    struct sl_slices slices; // what is sent, borrowed from *p
};

// Makes a payload of floats, which are copied; for kit_payload_release.
void kit_payload_init(struct kit_payload *p, const float *values, size_t n,
                      size_t cut);

// Makes a payload of a wire type, as kit_payload_init does; `cut` may lie
// within an element.
void kit_payload_wire(struct kit_payload *p, enum wire_type type,
                      const float *values, size_t n, size_t cut);

// Makes a payload of n equal floats, as kit_payload_init does.
void kit_payload_equal(struct kit_payload *p, float value, size_t n,
                       size_t cut);

// Frees a payload; no push of it is used any more.
void kit_payload_release(struct kit_payload *p);

// Returns a push of incarnation 1 of job incarnation 1, attempt (1, 1), which
// borrows the payload; NULL: the step is skipped. Its digest fits closures of 4
// steps.
struct wire_push kit_push(uint64_t closure, uint32_t step,
                          const struct kit_payload *payload);

// Returns an ask to the shard of kit_push, of attempt (1, n).
struct wire_ask kit_ask(uint64_t closure, uint64_t n);

// Pushes a step of equal elements `value` to the shard, at its incarnation, and
// asserts that it is counted. Any thread.
void kit_count(struct shard *s, uint64_t closure, uint32_t step, float value);

// ---- snapshots

// Writes a snapshot of the shard as it is now, and returns its tag.
struct wire_tag kit_snap(struct fs *fs, const char *folder, struct shard *s);

// Calls kit_count_too_much, and writes the file that a snapshot of the shard
// would be then, which the product does not write. Returns its tag.
struct wire_tag kit_snap_too_much(struct fs *fs, const char *folder,
                                  struct shard *s);

// Loads the newest snapshot of at_least or later into *out, a new shard of the
// kit, as snap_load does, whose errors it returns. `passed` (or NULL) takes a
// line for each file that was passed over. *out is NULL after a failure.
enum sl_err kit_load(struct fs *fs, const char *folder, struct kit *k,
                     struct wire_tag at_least, struct buf *passed,
                     struct shard **out, struct sl_error *err);

// What a coordinator says: keep this snapshot of the kit's shard and newer
// ones. The message lives as long as *k.
struct kit_keep {
    Sluice__V1__Keep msg;
    Sluice__V1__Tag tag, *list[1];
};

// Sets k->msg to such a message, of this term; *k does not move after it.
void kit_keep_init(struct kit_keep *k, uint64_t term, struct wire_tag tag);

#endif
