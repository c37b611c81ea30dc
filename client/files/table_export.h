// SPDX-License-Identifier: Apache-2.0
// client/files/table_export.h -- the rows of a sparse table of a cut, as one
// file.
//
// The file has the tensors `ids`, U64 of shape [rows], and `values`, F32 of
// shape [rows, dim]: row i is that of ids[i], in no order. Optimizer slots and
// ids that wait for a row are left out. Rows are read twice, ids first, so that
// no process has all of them in memory.
//
// Threads  main only; _file, _psserver, _fetch and _write wait, for files or
//          psservers.
// Memory   table_export_release frees, also after a failure. `name`, `api` and
//          `reply` are borrowed until then.
// Errors   name the file or the psserver. SL_ECORRUPT: records do not fit the
//          table; those of tensorfile.h, table_chain.h and cut_pull.h;
//          SL_ENOMEM. No file is left half written.
#ifndef CLIENT_FILES_TABLE_EXPORT_H
#define CLIENT_FILES_TABLE_EXPORT_H

#include "client/files/cut_pull.h"
#include "common/base/fs.h"
#include "common/base/tensorfile.h"
#include "proto/table_chain.h"

struct table_part; // one shard's rows

struct table_export {
    const char *name;
    uint32_t dim;
    uint32_t first, shards;  // shards before `first` have no rows
    struct table_part *part; // owned; one for each shard
    uint64_t rows;           // rows of the shards that are named by now
    struct api_client *api;
    const Sluice__V1__CheckpointsReply *reply;
};

// Begins the export of the table `name`, with rows of `dim` numbers, from
// shards [first, shards). *x is all zeroes before, but for `api` and `reply`.
// Then each of these is named once, by table_export_file or
// table_export_psserver. Fails with SL_ENOMEM only.
enum sl_err table_export_begin(struct table_export *x, const char *name,
                               uint32_t dim, uint32_t first, uint32_t shards,
                               struct sl_error *err);
void table_export_release(struct table_export *x); // all zeroes is allowed

// Names the snapshot file `path` (which has a '/') that has the rows of `shard`
// below x->shards, and checks it and the files below it, which lie beside it;
// sha256 as in assemble_snapshot. They stay open until the release. SL_ENOENT:
// one of them is missing; the shard may then be named with another source.
// SL_ECORRUPT: also a snapshot without this table.
enum sl_err table_export_file(struct table_export *x, uint32_t shard,
                              struct fs *fs, const char *path,
                              const uint8_t *sha256, struct sl_error *err);

// Names the psserver of `shard` as the one that has its rows, and asks it how
// many there are. x->api and x->reply must be set; `shard` is one of the
// reply's, below x->shards, and borrowed until the release.
enum sl_err table_export_psserver(struct table_export *x,
                                  const Sluice__V1__CheckpointShard *shard,
                                  struct sl_error *err);

// Brings the rows of psservers to this host, after each shard was named once:
// into files of `folder`, a folder of this host, that have no name any more
// when it returns and take up disk until the release. They may be left there
// (table_export_left) when the process is killed. Does nothing for rows that
// are here.
enum sl_err table_export_fetch(struct table_export *x, const char *folder,
                               struct sl_error *err);
// Returns true if `name` is the name of a file that a killed table_export_fetch
// may leave.
bool table_export_left(const char *name);

// Returns the rows of a shard from x->first on and below x->shards that was
// named with a file, or fetched. They are part of *x, and their files mapped,
// until the release.
const struct table_live *table_export_records(const struct table_export *x,
                                              uint32_t shard);

// Writes the rows of all shards, each of which was named once, to the file
// `path` of this host, with the texts meta[meta_count]; pulls rows that were
// not fetched, twice. Replaces a file of that name. Sets *bytes (NULL:
// unwanted) to the file's size.
enum sl_err table_export_write(const struct table_export *x, const char *path,
                               const struct tensor_meta *meta,
                               size_t meta_count, uint64_t *bytes,
                               struct sl_error *err);

#endif
