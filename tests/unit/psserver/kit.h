// SPDX-License-Identifier: Apache-2.0
// tests/unit/psserver/kit.h -- shards for tests, and what one says to them.
//
// A kit is a ShardSpec with everything it points at. kit_init makes a small
// job: two trainable variables around a moving statistic, all zero, SGD with
// rate 1, 40 samples in steps of 1, 4 steps per closure, 3 epochs.
//
// Threads  one; what is called on the shards it makes, any.
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

void kit_init(struct kit *k);

// An empty job: add variables. Dimensions end with 0.
void kit_clear(struct kit *k);
Sluice__V1__Variable *kit_variable(struct kit *k, const char *name,
                                   const uint64_t *shape);

// Rows [first, first + rows) of the variable that was added last; by default
// it is there whole.
void kit_rows(struct kit *k, uint64_t first, uint64_t rows);

// Adds a table of 8 buckets, all zeroes, with rowwise_adagrad; any id is
// admitted, no row goes. The kit is shard 2 of 4 then.
Sluice__V1__Table *kit_table(struct kit *k, const char *name, uint32_t dim);

// A table of 8 buckets for a plan of one shard, with SGD; rows begin with
// KIT_FIRST everywhere.
#define KIT_FIRST 7.0f
struct plan_table kit_plan_table(const char *name, const struct plan *plan,
                                 uint32_t number, uint32_t dim);

// Orders ids as messages have them.
int kit_ids_by_hash(const void *a, const void *b);

// SGD, rate 1, no momentum; or any other name with Keras' defaults.
void kit_optimizer(struct kit *k, const char *name, double rate);

// Closures of 4096 steps, 50,000 of them.
void kit_long_closures(struct kit *k);

// Counts the first step of every second one of the 7,700 long closures behind
// the watermark, as no lease could have had it: as a set it can be read and is
// larger than a message may be.
void kit_count_too_much(struct shard *s);

// Asserts that it works.
struct shard *kit_shard(struct kit *k);

// The same, admitted as incarnation 1.
struct shard *kit_admitted(struct kit *k);

// A payload of `n` floats in pieces cut at `cut` bytes each (0: one piece).
struct kit_payload {
    uint8_t *bytes; // owned, misaligned on purpose
    uint8_t *block;
    struct sl_slice *at;
    struct sl_slices slices;
};
void kit_payload_init(struct kit_payload *p, const float *values, size_t n,
                      size_t cut);
// The same in a wire type, and cut anywhere.
void kit_payload_wire(struct kit_payload *p, enum wire_type type,
                      const float *values, size_t n, size_t cut);
void kit_payload_equal(struct kit_payload *p, float value, size_t n,
                       size_t cut);
void kit_payload_release(struct kit_payload *p);

// A push of incarnation 1 of job incarnation 1, attempt (1, 1); an ask to it,
// of attempt (1, n).
struct wire_push kit_push(uint64_t closure, uint32_t step,
                          const struct kit_payload *payload);
struct wire_ask kit_ask(uint64_t closure, uint64_t n);

// Pushes `n` equal elements `value`; T_OK and COUNTED, or aborts. Any thread.
void kit_count(struct shard *s, uint64_t closure, uint32_t step, float value);

// ---- snapshots

// A snapshot of the shard as it is now; asserts that it works.
struct wire_tag kit_snap(struct fs *fs, const char *folder, struct shard *s);

// The same of a shard with kit_count_too_much, which no snapshot is written of.
struct wire_tag kit_snap_too_much(struct fs *fs, const char *folder,
                                  struct shard *s);

// Loads into a new shard of the kit. `passed` (or NULL) takes a line for each
// file that was passed over. *out is NULL after a failure.
enum sl_err kit_load(struct fs *fs, const char *folder, struct kit *k,
                     struct wire_tag at_least, struct buf *passed,
                     struct shard **out, struct sl_error *err);

// What a coordinator says: keep this snapshot of the kit's shard and newer
// ones. The message lives as long as *k.
struct kit_keep {
    Sluice__V1__Keep msg;
    Sluice__V1__Tag tag, *list[1];
};
void kit_keep_init(struct kit_keep *k, uint64_t term, struct wire_tag tag);

#endif
