// SPDX-License-Identifier: Apache-2.0
// worker/data/data_index.h -- indexes of records, kept in the store.
//
// To find the records of files that lie at a place (s3:// or https://,
// common/base/remote.h), a worker reads all of them over the network. The first
// one that does so keeps the extents that it found in a file of the store,
// "index/<64 hex>.records", and the other workers, and later jobs, read this
// file alone. Its name is a hash of the versions and sizes of all files and of
// what was looked for, so it never is out of date; it may be removed at any
// time. It begins with the SHA-256 of the rest, the extents as they are in
// memory.
//
// Threads  any, one per records.
// Memory   none is handed over; the place is borrowed.
// Errors   none: an index that cannot be read, or is damaged, counts as
//          missing, and is logged, as is one that cannot be written.
#ifndef WORKER_DATA_DATA_INDEX_H
#define WORKER_DATA_DATA_INDEX_H

#include <stdbool.h>

#include "common/base/fs.h"

struct records;

// Where indexes are kept; all zeroes, or NULL for a pointer to it: nowhere.
struct index_place {
    struct fs *fs;
    const char *store; // folder
};

// Adds the extents of all files to *r, which has none. `recipe` says what was
// looked for in them: other recipes give other extents. Waits for the store.
// Returns true, and logs that it did; false, with *r as it was, if no index is
// kept, as of files that have no version (fs_version).
bool index_read(const struct index_place *place, struct records *r,
                const char *recipe);

// Keeps the extents of *r, which are those of all its files, unless a file has
// no version, there are none, or they are longer than an eighth of the files.
// Waits for the store; makes the folder "index" there, and logs what it kept.
void index_write(const struct index_place *place, const struct records *r,
                 const char *recipe);

#endif
