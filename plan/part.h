// SPDX-License-Identifier: Apache-2.0
// plan/part.h -- rows -> pieces -> shards -> servers, pure.
//
// The model is one flat vector: all variables, in model order, one after
// another. It is cut into shards, each a contiguous range of elements; cuts
// lie at row boundaries of a variable or between two. A piece is what a shard
// holds of one variable: a range of its rows. So a variable has one piece per
// shard that it touches, pieces in order cover every row exactly once, and a
// shard's pieces are neighbours.
// The automatic rule makes shards of about equal bytes, and a variable as large
// as a shard does not share one with what lies before or behind it, unless that
// is next to nothing: a shard is sent when the last of its layers is ready, and
// the next step waits for it with the first, so small early layers must not
// wait for the bytes of a large one. A user's partitioner
// (TensorFlow's arithmetic, seen on Sluice's shapes) says where a variable may
// be cut; shards are then grown to about the target from whole parts. A
// variable marked `whole` is never cut. The number of shards is fixed when the
// job is placed: they move, they never split or merge.
//
// Threads  pure.
// Memory   part_plan_release frees; names for part_explain are borrowed, and so
//          are variables and rules, for the call.
// Units    elements are f32 (4 bytes); servers count from 0.
// Errors   SL_EINVAL names the variable or the number; SL_ENOMEM; *out
//          untouched. `err` may be NULL, no other argument.
#ifndef PLAN_PART_H
#define PLAN_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct buf;

#define PART_ELEMENT_BYTES 4
#define PART_TARGET_BYTES (UINT64_C(4) << 20) // shard of a large model
#define PART_LEAST_BYTES (UINT64_C(1) << 20)  // shard of a small model
#define PART_TARGET_SHARDS 64                 // shards of a model in between
#define PART_MAX_SHARDS 65536
#define PART_MAX_VARIABLES 1000000
#define PART_MAX_ELEMENTS (UINT64_C(1) << 44)
#define PART_MIN_SIZE_BYTES 262144 // MinSizePartitioner's default

enum part_kind {
    PART_AUTO,     // any row may start a shard
    PART_FIXED,    // min(count, rows) parts
    PART_MIN_SIZE, // max(1, min(rows, max_shards, ceil(bytes / min)))
    PART_MAX_SIZE, // ceil(rows / max(1, floor(max / row))), <= max_shards
};

struct part_rule {
    enum part_kind kind;
    uint64_t count;       // PART_FIXED
    uint64_t shard_bytes; // PART_MIN_SIZE: at least; PART_MAX_SIZE: at most
    uint64_t max_shards;  // PART_MIN_SIZE; PART_MAX_SIZE, 0: no limit
};

struct part_var {
    uint64_t rows;         // size of axis 0; 1 for a scalar
    uint64_t row_elements; // product of the other axes
    bool whole;            // never cut
};

struct part_piece {
    uint32_t variable; // index in model order
    uint32_t shard;
    uint64_t first_row, rows;         // its range of the variable's rows
    uint64_t first_element, elements; // its range of the flat vector
};

struct part_shard {
    uint64_t first_element, elements; // its range of the flat vector
    uint32_t first_piece, pieces;     // its range of part_plan.pieces
    uint32_t server;
};

struct part_plan {
    struct part_piece *pieces; // owned
    uint32_t piece_count;
    struct part_shard *shards; // owned
    uint32_t shard_count;
    uint32_t servers;
    uint64_t elements; // number of elements of the whole model
};

// Sets *out to the number of parts into which `rule` cuts a variable (f32), of
// at least a row and an element; `whole` is not looked at. PART_AUTO: as many
// as it has rows. SL_EINVAL: the rule's kind is unknown, or one of its numbers
// is 0 (max_shards of PART_MAX_SIZE may be).
enum sl_err part_count(uint64_t *out, const struct part_rule *rule,
                       const struct part_var *var, struct sl_error *err);

// Sets *first and *count to the rows of part k of n, if `rows` rows are cut
// into n parts as even as can be, the first rows % n of them a row longer
// (TensorFlow's "div"). k == n gives first = rows, count = 0. n is not 0, and k
// at most n.
void part_div(uint64_t rows, uint64_t n, uint64_t k, uint64_t *first,
              uint64_t *count);

// Cuts a model into shards and places them on `servers` servers (part_assign);
// *out is the caller's to release. target_bytes, at least PART_ELEMENT_BYTES
// (not checked), is the size of a shard that is aimed at; 0: PART_TARGET_SHARDS
// shards, so that the gradient of one goes out while the parameters of another
// come in, but none below PART_LEAST_BYTES or above PART_TARGET_BYTES. Makes at
// least `servers` shards, if there are that many places to cut, and at most
// PART_MAX_SHARDS. SL_EINVAL unless there are at most PART_MAX_VARIABLES
// variables, each of at least a row and an element, PART_MAX_ELEMENTS elements
// at most in all, 1 to PART_MAX_SHARDS servers, and a rule that part_count
// accepts. A model without variables (count 0, whatever the rule) has one shard
// for each server, without elements: it has rows of tables alone.
enum sl_err part_plan_make(struct part_plan *out, const struct part_var *vars,
                           size_t count, const struct part_rule *rule,
                           uint64_t target_bytes, uint32_t servers,
                           struct sl_error *err);

// Returns the bytes of a shard that are aimed at for a model of `elements`
// elements: target_bytes, or if that is 0 what part_plan_make says of 0.
uint64_t part_target(uint64_t elements, uint64_t target_bytes);

// Sets the `server` of each of the `count` shards, by size: the largest first,
// each to the server with the fewest elements, ties to the lower number. Also
// for a new number of servers. SL_EINVAL for 0 servers, SL_ENOMEM: nothing has
// changed.
enum sl_err part_assign(struct part_shard *shards, uint32_t count,
                        uint32_t servers);

// Adds `shards` (at least 1) shards without elements at the end, each on a
// server of its own, from 0 on: they have rows of tables alone. p->servers
// becomes `shards` if it was less. SL_ENOMEM: nothing has changed.
enum sl_err part_plan_more(struct part_plan *p, uint32_t shards);

// Returns the number of shards without elements, which come last.
uint32_t part_plan_empty(const struct part_plan *p);

// Frees the arrays and leaves *p all zeroes, which is allowed.
void part_plan_release(struct part_plan *p);

// Appends an explanation of the placement as lines of text: servers with their
// bytes, shards with their pieces. names[i] is the name of variable i.
// SL_ENOMEM: `out` may hold a part.
enum sl_err part_explain(struct buf *out, const struct part_plan *p,
                         const char *const *names);

#endif
