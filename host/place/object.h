// SPDX-License-Identifier: Apache-2.0
// host/place/object.h -- one version of an object at a place.
//
// Every answer is of the version that was opened, or it is an error: SL_ENOENT
// says that the object was replaced or is gone.
//
// Threads  any.
// Memory   objects are counted; object_unref. The client outlives them.
// Units    bytes; pieces of PIECE_BYTES, by number.
// Errors   SL_ENOENT: no such object, or not in that version; SL_EDENIED: it
//          may not be read; SL_EUNAVAIL: the place does not answer, for the
//          client's patience; SL_EIO: what answers is no such server;
//          SL_ECANCELED: the client is leaving; SL_ENOMEM. `err` may be NULL.
#ifndef HOST_PLACE_OBJECT_H
#define HOST_PLACE_OBJECT_H

#include <stdatomic.h>

#include "host/place/pieces.h"
#include "host/store/s3.h"

#define OBJECT_INDEX_BITS 24 // of a piece's number
#define OBJECT_VERSION S3_ETAG

struct object {
    struct s3 *client; // borrowed
    struct s3_name name;
    struct s3_object found; // size and version
    uint8_t id[PIECES_ID];  // of the name, the size and the version
    uint64_t number;        // in this process
    _Atomic unsigned refs;
    _Atomic uint32_t last; // piece that was read last; UINT32_MAX: none
};

// Makes an object of what `found` says, with one reference; `name` and `found`
// are copied. Asks no server. SL_ENOTSUP: it has no version (neither ETag nor
// time), or over 16 TiB; SL_ENOMEM.
enum sl_err object_new(struct object **out, struct s3 *client,
                       const struct s3_name *name,
                       const struct s3_object *found, struct sl_error *err);

// Takes one more reference and returns `o`.
struct object *object_ref(struct object *o);
// Drops a reference; the last one frees. NULL is allowed.
void object_unref(struct object *o);

// Returns the bytes of a piece, fewer at the end; 0 past it.
size_t object_piece_bytes(const struct object *o, uint32_t index);

// Fetches a piece, which has at least one byte, to `to`, which has space for
// its object_piece_bytes; undefined after a failure. Waits for the place.
enum sl_err object_get(const struct object *o, uint32_t index, void *to,
                       struct sl_error *err);

#endif
