// SPDX-License-Identifier: Apache-2.0
// client/files/table_cut.h -- the rows of a sparse table of a cut, wherever
// they are.
//
// Threads  main only; table_cut_open waits for files and psservers.
// Memory   table_export_release frees what table_cut_open filled, also after a
//          failure.
// Errors   SL_ENOENT: the job has no such table, or neither this host nor a
//          psserver has a shard's rows; those of cut_pull.h and table_export.h.
#ifndef CLIENT_FILES_TABLE_CUT_H
#define CLIENT_FILES_TABLE_CUT_H

#include "client/files/cut_find.h"
#include "client/files/table_export.h"

// Finds the table `name` among a job's tables[count]. `job` is for the error.
enum sl_err table_cut_find(const Sluice__V1__TableSpec **out,
                           Sluice__V1__TableSpec *const *tables, size_t count,
                           const char *name, uint64_t job,
                           struct sl_error *err);

// Names for *x, all zeroes, where each shard's rows of a cut are: in a snapshot
// that this host has, else with the psserver. `api`, `reply`, which has the
// cut, and `name` are borrowed until x is released.
enum sl_err table_cut_open(struct table_export *x, struct api_client *api,
                           const Sluice__V1__CheckpointsReply *reply,
                           const Sluice__V1__Checkpoint *cut, const char *name,
                           const struct store_setup *setup,
                           struct sl_error *err);

#endif
