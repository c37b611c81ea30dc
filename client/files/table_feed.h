// SPDX-License-Identifier: Apache-2.0
// client/files/table_feed.h -- a folder that follows a sparse table of a job
// from cut to cut.
//
//     table_feed_open -> table_feed_add ... -> table_feed_release
//
// The folder has bases (the whole table), deltas (table_delta.h) from cut to
// cut, and index.json, which lists them in the order in which they were
// written. A base and the deltas behind it, one after another, are the table of
// the last cut. What a new cut is compared with is just that: no file of an
// older cut is needed, however many cuts were passed over, and a damaged feed
// is found. A new base is written, beside the delta, when deltas behind the
// last one are too many or larger than it is; then what stands before and at
// the last base is no longer listed, and goes.
//
// Threads  one at a time. All of it waits for the disk.
// Memory   as of table_delta.h; the files of the feed are mapped while a cut is
//          added. table_feed_release frees.
// Errors   SL_EEXIST: the folder has other files, or the feed of another job or
//          table; SL_EBUSY: another process writes it; SL_ECORRUPT: its files
//          are not what index.json says; SL_ENOTSUP: another format; those of
//          the file system, of tensorfile.h and, when a cut is added, of
//          table_export.h and cut_rows.h; SL_ENOMEM. They name the folder or
//          the file. The feed on disk is whole after any failure, and after a
//          kill.
#ifndef CLIENT_FILES_TABLE_FEED_H
#define CLIENT_FILES_TABLE_FEED_H

#include "client/files/table_delta.h"
#include "host/daemon/statelock.h"

#define FEED_INDEX "index.json"
#define FEED_NAME 64          // bytes of a file's name, with the 0
#define FEED_DELTAS_MOST 1000 // behind a base
#define FEED_FILES_MOST (3 * FEED_DELTAS_MOST)

struct feed_file {
    char name[FEED_NAME];
    bool base;
    uint64_t from, cut;     // a base's `from` is 0
    uint64_t changed, gone; // rows and ids in it
    uint64_t bytes;
    struct table_sum sum; // of the table at `cut`
};

struct table_feed {
    char *folder;            // owned
    const char *id, *table;  // borrowed: "j-1", name of the table
    char *job;               // owned: folder of the job in the store, also of
                             // an add that failed; NULL: none was tried yet
    uint32_t dim, most;      // deltas behind a base before a new one
    struct feed_file *files; // owned; those of index.json, in its order
    size_t count;
    struct statelock lock;
};

// Opens the feed of a table of job `id` in `folder`, which is made with those
// above it if it is missing, and locks it; removes what a killed process left
// there: files of rows that index.json does not list. A folder without
// index.json must have no others (SL_EEXIST). *f need not be zeroed, and is
// released by the caller in any case; `id` and `table` are borrowed until then.
// `dim` is the numbers in a row; `most`, from 1 to FEED_DELTAS_MOST, the deltas
// behind a base before a new one.
enum sl_err table_feed_open(struct table_feed *f, const char *folder,
                            const char *id, const char *table, uint32_t dim,
                            uint32_t most, struct sl_error *err);
// Drops the folder's lock and frees what *f owns. A feed that was never opened
// may be released if it is all zeroes but `lock`, which is STATELOCK_INIT.
void table_feed_release(struct table_feed *f);

// Returns the last file in the list, which has the cut that was added last; it
// lives until the next table_feed_add. NULL: there is none yet.
const struct feed_file *table_feed_last(const struct table_feed *f);

// Adds the table `x`, with all shards named and rows of f->dim numbers, of cut
// `cut` from 1 on, which must not be the last one that was added: writes a base
// if there is none, else a delta, and beside it a base if one is due; then
// index.json; and then removes the files that it lists no more. Fetches rows
// that psservers have, by way of the folder (table_export_fetch). `job` is the
// name of the job's folder in the store: SL_EEXIST if the feed has another one.
// The feed is compared with index.json first: SL_ECORRUPT. After a failure *f
// lists what it listed before, and this can be called again, which removes what
// the failed call has left there; unless only files that are listed no more
// could not be removed: then the cut is added.
enum sl_err table_feed_add(struct table_feed *f, struct table_export *x,
                           const char *job, uint64_t cut, struct sl_error *err);

// ---- index.json: feed_index.c

// Reads the index into *f, which has a folder, id, table and dim, and no job
// and no files: it sets these two, which table_feed_release frees, also after a
// failure. SL_ENOENT: there is none; SL_EEXIST: it is of another job or table,
// or of another dim; SL_ECORRUPT: also one that lists no base.
enum sl_err feed_index_read(struct table_feed *f, struct sl_error *err);
// Replaces the index by what *f says, durably (fs_write_durable: after an error
// it is the old one, or the new); *f has a job and files. `err` may be NULL.
enum sl_err feed_index_write(const struct table_feed *f, struct sl_error *err);

// Returns true if `name` begins as the files of rows of a feed do, and is not
// too long for one: without a '/', below FEED_NAME bytes.
bool feed_owns(const char *name);

#endif
