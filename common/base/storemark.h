// SPDX-License-Identifier: Apache-2.0
// common/base/storemark.h -- the file by which a store is known to be the one
// that was used before.
//
//   <store>/cluster.id    16 hex digits: the id of the cluster
//
// A folder that should hold checkpoints and does not bear the mark is not
// mounted, or somebody else's. Who used a store once says so in its own state
// and does not take an empty folder for it.
//
// Threads  any; they may wait for a disk.
// Units    an id is never 0.
// Errors   SL_ECORRUPT: what lies there is no id. SL_ESTATE: not our store.
#ifndef COMMON_BASE_STOREMARK_H
#define COMMON_BASE_STOREMARK_H

#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/status.h"

#define STOREMARK_FILE "cluster.id"

// *id is 0 if the folder bears none, also where there is no such folder.
enum sl_err storemark_read(uint64_t *id, struct fs *fs, const char *store,
                           struct sl_error *err);

// Makes the folder and marks it; after SL_OK that survives any crash. Of two
// clusters that mark a store of objects at once, one is told SL_ESTATE.
enum sl_err storemark_write(struct fs *fs, const char *store, uint64_t id,
                            struct sl_error *err);

// SL_OK if the folder bears this id. SL_ESTATE says what to do.
enum sl_err storemark_check(struct fs *fs, const char *store, uint64_t id,
                            struct sl_error *err);

// The text of a mark: an id and a newline. `where` is for the error.
enum sl_err storemark_parse(uint64_t *id, const char *text, const char *where,
                            struct sl_error *err);

#endif
