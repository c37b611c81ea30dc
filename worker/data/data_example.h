// SPDX-License-Identifier: Apache-2.0
// worker/data/data_example.h -- the features of a tf.train.Example, read from
// its bytes.
//
// An Example is a map from keys to lists of bytes, floats or 64-bit integers
// (tensorflow/core/example/feature.proto). Its three levels are walked in one
// pass that looks for some keys; nothing is copied. Numbers may be packed or
// not. If two features have one key, the last counts, as in protobuf. Unknown
// fields are passed over.
//
// Threads  any.
// Memory   lists point into the caller's bytes.
// Errors   SL_ECORRUPT: it is no Example, a length leads out of it, or a group
//          is in it. Errors name the byte, and never what the bytes are. `err`
//          may be NULL.
#ifndef WORKER_DATA_DATA_EXAMPLE_H
#define WORKER_DATA_DATA_EXAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum example_kind {
    EXAMPLE_MISSING, // missing key, or a key without a list
    EXAMPLE_BYTES,
    EXAMPLE_FLOATS,
    EXAMPLE_INTS,
};

struct example_list {
    enum example_kind kind;
    const uint8_t *at, *end; // the fields of a BytesList, FloatList, Int64List
    const uint8_t *packed, *packed_end; // numbers that were entered
};

// Fills in lists[i] of the feature keys[i]; a key that is missing, or "", is
// EXAMPLE_MISSING. The lists are undefined on failure.
enum sl_err example_find(const uint8_t *bytes, size_t n,
                         const char *const *keys, size_t count,
                         struct example_list *lists, struct sl_error *err);

// Takes the next element of a list, which is of the kind that the name says
// (l->kind), and moves the list behind it. At the end *more is false, and *out
// and *n say nothing. SL_ECORRUPT, without a text: the list is then not used
// any more.
enum sl_err example_next_bytes(struct example_list *l, const uint8_t **out,
                               size_t *n, bool *more);
enum sl_err example_next_float(struct example_list *l, float *out, bool *more);
enum sl_err example_next_int(struct example_list *l, int64_t *out, bool *more);

#endif
