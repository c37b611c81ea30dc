// SPDX-License-Identifier: Apache-2.0
// proto/manifest.h -- how every reader of a cut's manifest begins.
//
// The coordinator writes it (coordinator/journal/journal_manifest.h says what
// is in it). It is read to start a job from, and by a client without a
// coordinator; a user may have edited it in between.
//
// Threads  any; manifest_parse waits for a disk.
// Memory   json_decref what was parsed; messages made of it are copies.
// Errors   manifest_parse's name the file; manifest_layout's begin with the
//          key. SL_ECORRUPT: something is missing. SL_EINVAL: it is there, but
//          wrong. SL_ENOTSUP: written by a newer sluice. SL_ENOMEM. `err` may
//          be NULL.
#ifndef PROTO_MANIFEST_H
#define PROTO_MANIFEST_H

#include <stddef.h>

#include "common/base/fs.h"
#include "common/base/json.h"
#include "common/base/status.h"
#include "proto/jobs.pb-c.h"

#define MANIFEST_FORMAT 2                 // 1: each shard has pieces
#define MANIFEST_BYTES ((size_t)64 << 20) // longer ones are not read

// Parses file `path`, if it is a manifest of a format that we know, to *out,
// for json_decref. Also SL_ENOENT and SL_EIO: the file; SL_ERANGE: it is longer
// than MANIFEST_BYTES; SL_EINVAL and SL_ERANGE as sl_json_parse. A failure
// leaves *out untouched.
enum sl_err manifest_parse(json_t **out, struct fs *fs, const char *path,
                           struct sl_error *err);

// Fills variables, pieces and rows_shards of *out, an empty message of the
// heap, from the manifest `root`; one of tables alone gives rows_shards alone.
// Each is valid by itself (wire_check); whether they fit each other is
// layout_make's to say. SL_ECORRUPT, too: rows_shards is above WIRE_SHARDS_MAX.
// After a failure some may be there. Free *out with wire_free in any case.
enum sl_err manifest_layout(Sluice__V1__CheckpointsReply *out,
                            const json_t *root, struct sl_error *err);

#endif
