// SPDX-License-Identifier: Apache-2.0
// proto/tensorboard.h -- records of TensorBoard's event files.
//
// A file is a version, then events in the order of their time. The first value
// of a tag in a file says what kind it is (`first`).
//
// Threads  any.
// Memory   framed records are appended to the caller's buffer; everything else
//          is borrowed for the length of the call.
// Units    wall_us since 1970.
// Errors   SL_ENOMEM leaves the buffer as it was. No pointer may be NULL.
#ifndef PROTO_TENSORBOARD_H
#define PROTO_TENSORBOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"

struct tensorboard_at {
    uint64_t wall_us;
    uint64_t step;
};

// Appends the first record of a file, the version of its format.
enum sl_err tensorboard_version(struct buf *out, uint64_t wall_us);

// Appends a START event: readers drop values of step at->step and later ones,
// and the run starts there anew.
enum sl_err tensorboard_start(struct buf *out, const struct tensorboard_at *at);

struct tensorboard_scalar {
    const char *tag;
    float value;
    bool first;
};

// Appends one event with scalars[count]; SL_OK and nothing if count is 0. More
// than 32 are SL_ENOMEM, too.
enum sl_err tensorboard_scalars(struct buf *out,
                                const struct tensorboard_at *at,
                                const struct tensorboard_scalar *scalars,
                                size_t count);

#define TENSORBOARD_BUCKETS_MAX 64

struct tensorboard_bucket {
    float left, right, count;
};

// Appends one event with the histogram buckets[count] under `tag`; those beyond
// TENSORBOARD_BUCKETS_MAX are left out.
enum sl_err tensorboard_histogram(struct buf *out,
                                  const struct tensorboard_at *at,
                                  const char *tag, bool first,
                                  const struct tensorboard_bucket *buckets,
                                  size_t count);

// Appends one event with the string `text`, Markdown, under `tag`, each time as
// the first of that tag.
enum sl_err tensorboard_text(struct buf *out, const struct tensorboard_at *at,
                             const char *tag, const char *text);

#endif
