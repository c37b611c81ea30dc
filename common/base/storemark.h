// SPDX-License-Identifier: Apache-2.0
// common/base/storemark.h -- the file that tells a store of this cluster from
// an empty or foreign folder.
//
//   <store>/cluster.id    16 hex digits: the id of the cluster
//
// A folder that should hold checkpoints and does not bear the mark is not
// mounted, or belongs to another cluster. A daemon that has used a store notes
// that in its own state, and then refuses an empty folder.
//
// Threads  any; all but storemark_parse wait for a disk or a store.
// Units    an id is never 0.
// Errors   SL_ECORRUPT: the file holds no id. SL_ERANGE: it has over 64 bytes.
//          SL_ESTATE: not our store. Those of the file system unchanged. *id is
//          then untouched; `err` may be NULL, and SL_ENOMEM may leave it
//          without text.
#ifndef COMMON_BASE_STOREMARK_H
#define COMMON_BASE_STOREMARK_H

#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/status.h"

#define STOREMARK_FILE "cluster.id"

// Reads the mark of a store; *id is 0 if the folder bears none or is missing.
enum sl_err storemark_read(uint64_t *id, struct fs *fs, const char *store,
                           struct sl_error *err);

// Makes the folder and marks it; after SL_OK the mark survives any crash.
// SL_ESTATE: it bears another mark. If two clusters mark a store of objects at
// once, one gets SL_ESTATE.
enum sl_err storemark_write(struct fs *fs, const char *store, uint64_t id,
                            struct sl_error *err);

// Checks that the folder bears the mark `id`. SL_ESTATE, with a cure, if not.
enum sl_err storemark_check(struct fs *fs, const char *store, uint64_t id,
                            struct sl_error *err);

// Reads the text of a mark, an id of lower-case digits and a newline (which may
// be missing); what follows is not read. `where` is for the error.
enum sl_err storemark_parse(uint64_t *id, const char *text, const char *where,
                            struct sl_error *err);

#endif
