// SPDX-License-Identifier: Apache-2.0
// state/shard/coded.h -- how the differences of a shard are coded
// (kernels/pack.h), for contributions and for what workers are sent.
//
// A payload follows the shard's flat range of elements, stretch by stretch: a
// stretch is the elements between two moving statistics, of several variables
// or pieces, and is cut into blocks from its own first element. A moving
// statistic is no difference: its elements stand there as f32, and replace
// those that the receiver has. So the size of a payload depends on the shard
// and the code alone. With a type that is no code it is plain elements.
//
// Threads  read-only after coded_add: any.
// Memory   coded_release frees. Payloads may be cut anywhere.
// Units    elements of the shard; bytes.
// Errors   coded_add: SL_ENOMEM. coded_check: SL_EINVAL, SL_ENUMERIC.
#ifndef STATE_SHARD_CODED_H
#define STATE_SHARD_CODED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/slices.h"
#include "common/base/status.h"
#include "kernels/pack.h"
#include "proto/wire.h"

struct coded_stretch {
    uint64_t elements;
    bool exact; // moving statistics
};

struct coded {
    struct coded_stretch *stretches; // owned
    size_t count;
};

// A part of a payload that is coded as one.
struct coded_block {
    uint64_t first;    // element of the shard
    size_t n, bytes;   // elements; bytes in the payload
    enum wire_type as; // F32 in a moving statistic
};

// A place in a payload, between two blocks.
struct coded_walk {
    const struct coded *p;
    enum wire_type type;
    size_t stretch;
    uint64_t in;              // element of the stretch
    struct coded_block block; // the last one
};

// A payload that is read from its front, some elements at a time.
struct coded_reader {
    struct coded_walk walk;
    struct slices_cursor at;
    size_t left;                 // elements of `part` that were not read
    float part[PACK_BLOCK_MOST]; // the last block, if it was read in parts
};

// Adds the next `elements` elements of the shard to *p, all zeroes at first;
// `exact`: they are moving statistics. Returns SL_OK; SL_ENOMEM: nothing was
// added.
enum sl_err coded_add(struct coded *p, uint64_t elements, bool exact);
// Frees the stretches, and zeroes *p; a zeroed one is allowed.
void coded_release(struct coded *p);

// Returns the bytes of a payload of this type.
size_t coded_bytes(const struct coded *p, enum wire_type type);

// Checks a payload, all of it, of a code or of plain elements. Returns SL_OK;
// SL_EINVAL: its size is wrong; SL_ENUMERIC: a block, of which the text names
// the first element, is no code or not finite.
enum sl_err coded_check(const struct coded *p, enum wire_type type,
                        const struct sl_slices *payload, struct sl_error *err);

// Begins to read a payload that coded_check has passed. Form and payload are
// borrowed as long as *r is used.
void coded_reader_init(struct coded_reader *r, const struct coded *p,
                       enum wire_type type, const struct sl_slices *payload);
// Writes what the next n elements, which must be there, stand for to `out`, as
// f32, and steps over them.
void coded_reader_take(struct coded_reader *r, size_t n, float *out);

// Writes what a payload that coded_check has passed stands for to `values`, an
// f32 for each element of the shard, and returns the largest of their
// magnitudes; 0 without elements.
float coded_read(const struct coded *p, enum wire_type type,
                 const struct sl_slices *payload, float *values);

// Returns a number that no magnitude of what a payload that coded_check has
// passed stands for exceeds: the largest one, but for the rounding of a code.
float coded_bound(const struct coded *p, enum wire_type type,
                  const struct sl_slices *payload);

// Writes `values`, which are finite, as a payload of this type to `out`
// (coded_bytes).
void coded_write(const struct coded *p, enum wire_type type,
                 const float *values, void *out);

// Writes a payload as coded_write does, of `values` plus `beta` times what
// earlier payloads left out, which is kept in `rest` (an element for each of
// the values, at first 0), and keeps in `rest` what this one leaves out. To a
// moving statistic nothing is added, and its rest becomes 0. Where a sum is not
// finite, neither is `rest` from then on, and coded_check refuses the payload.
void coded_write_rest(const struct coded *p, enum wire_type type, float beta,
                      const float *values, float *rest, void *out);

// Moves `held` towards `values` by a payload of `type`, a code, which it writes
// to `out` (coded_bytes): it is what `coded_apply` adds to an equal copy of
// `held`. A moving statistic of `held` equals that of `values` then. Returns
// false if `values` has an element that is not finite: then `held` equals
// `values` in its block, and the payload is worth nothing.
bool coded_follow(const struct coded *p, enum wire_type type,
                  const float *values, float *held, void *out);

// Adds a payload of coded_follow, which coded_check has passed, to `held`; a
// moving statistic is replaced by that in the payload.
void coded_apply(const struct coded *p, enum wire_type type,
                 const struct sl_slices *payload, float *held);

#endif
