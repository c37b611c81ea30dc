// SPDX-License-Identifier: Apache-2.0
// client/files/backup_db.h -- the databases of a coordinator, from outside.
//
// Threads  main.
//          They read files, and wait for a database that is locked, 10 s at
//          most.
// Memory   the caller's.
// Errors   SL_ECORRUPT: no database, or a damaged one; SL_EIO: anything else,
//          as a file that is missing or stays locked. They name a file and say
//          what SQLite says. `err` may be NULL.
#ifndef CLIENT_FILES_BACKUP_DB_H
#define CLIENT_FILES_BACKUP_DB_H

#include <stdint.h>

#include "common/base/status.h"

// Copies database `from` as it is at one moment, while a coordinator may write
// to it, and has SQLite check the copy `to`. A database that `to` names already
// is overwritten: the caller checks before. A failure removes `to`, unless it
// was `from` that could not be opened.
enum sl_err backup_db_copy(const char *from, const char *to,
                           struct sl_error *err);

// Receives a job's number, its newest cut (0: none), and the path of its newest
// published manifest ("": none; borrowed for the call), which may be of an
// older cut. Any result but SL_OK ends the walk.
typedef enum sl_err (*backup_job_fn)(void *arg, uint64_t job, uint64_t cut,
                                     const char *manifest,
                                     struct sl_error *err);

// Calls fn(arg, ...) for each job of the journal `path`, in rising order of
// their numbers; the journal is open and read meanwhile. Returns the first
// result of fn that is not SL_OK, or an error of the database.
enum sl_err backup_db_jobs(const char *path, backup_job_fn fn, void *arg,
                           struct sl_error *err);

#endif
