// SPDX-License-Identifier: Apache-2.0
// client/backup_db.h -- the databases of a coordinator, from outside.
//
// Threads  main.
// Memory   the caller's.
// Errors   SL_EIO, SL_ECORRUPT: the file, and what SQLite says.
#ifndef CLIENT_BACKUP_DB_H
#define CLIENT_BACKUP_DB_H

#include <stdint.h>

#include "common/base/status.h"

// Copies a database as it is at one moment, while a coordinator may write to
// it, and has SQLite check the copy.
enum sl_err backup_db_copy(const char *from, const char *to,
                           struct sl_error *err);

// Calls fn for each job of a journal: its number, and its newest checkpoint's
// number and manifest (0 and ""). What fn returns but SL_OK ends it.
typedef enum sl_err (*backup_job_fn)(void *arg, uint64_t job, uint64_t cut,
                                     const char *manifest,
                                     struct sl_error *err);
enum sl_err backup_db_jobs(const char *path, backup_job_fn fn, void *arg,
                           struct sl_error *err);

#endif
