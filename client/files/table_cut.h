// SPDX-License-Identifier: Apache-2.0
// client/files/table_cut.h -- the rows of a sparse table of a cut, wherever
// they are.
//
// Threads  main only; table_cut_open waits for files and psservers.
// Memory   table_export_release frees what table_cut_open filled, also after a
//          failure.
// Errors   SL_ENOENT: the job has no such table, or neither this host nor a
//          psserver has a shard's rows; SL_ECORRUPT: the reply's layout, or the
//          cut does not name each shard once; those of cut_pull.h and
//          table_export.h. `err` may be NULL.
#ifndef CLIENT_FILES_TABLE_CUT_H
#define CLIENT_FILES_TABLE_CUT_H

#include "client/files/cut_find.h"
#include "client/files/table_export.h"

// Sets *out to the table `name` among the job's tables[count], of which it is a
// part. SL_ENOENT: there is none; the text names `job`, *out is as it was.
enum sl_err table_cut_find(const Sluice__V1__TableSpec **out,
                           Sluice__V1__TableSpec *const *tables, size_t count,
                           const char *name, uint64_t job,
                           struct sl_error *err);

// Fills *x, all zeroes before, with where the rows of table `name` of a cut
// are, shard by shard: in a snapshot that is on this host or in the store, else
// at the psserver, which is asked how many there are. A snapshot that is there
// but damaged is an error. `api`, `reply`, which has the cut, and `name` are
// borrowed until table_export_release; `setup` is as in cut_fs.
enum sl_err table_cut_open(struct table_export *x, struct api_client *api,
                           const Sluice__V1__CheckpointsReply *reply,
                           const Sluice__V1__Checkpoint *cut, const char *name,
                           const struct store_setup *setup,
                           struct sl_error *err);

#endif
