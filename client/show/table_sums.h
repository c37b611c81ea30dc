// SPDX-License-Identifier: Apache-2.0
// client/show/table_sums.h -- the sparse tables of a job, as `sluice tables`
// lists them.
//
// Threads  pure.
// Memory   a report borrows the names of the status; tables_report_release
//          frees the rest.
// Errors   SL_ENOMEM: nothing is made.
#ifndef CLIENT_SHOW_TABLE_SUMS_H
#define CLIENT_SHOW_TABLE_SUMS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/status.h"
#include "proto/jobs.pb-c.h"

struct tables_report {
    Sluice__V1__TablesReport msg;
    Sluice__V1__TableStatus *rows;     // owned: msg.tables are these
    Sluice__V1__TableFigures *figures; // owned
    uint64_t *hot; // owned: the lists of hottest ids and updates in them
    size_t unsaid; // of (shard, table): nothing was reported
};

// Makes *out from a status with its spec (with a model) and shards: the sums of
// what the shards have of each table, in a row for each table or, with
// `by_psserver` and if there are shards, for each table and psserver that has a
// part of it. Shards that reported nothing add to the row's `shards` and to
// out->unsaid alone. *out need not be zeroed. Returns SL_OK; SL_ENOMEM, with
// *out zeroes.
enum sl_err tables_report_init(struct tables_report *out,
                               const Sluice__V1__JobStatus *s,
                               bool by_psserver);
// Frees it. All zeroes is allowed.
void tables_report_release(struct tables_report *r);

#endif
