// SPDX-License-Identifier: Apache-2.0
// state/rows/row_disk.h -- files for the rows that have no place in memory, and
// the limit of them all.
//
// A table has one file on each of its shards: slots of the size of a record, by
// number. It has no name from the moment it is open, and it holds nothing that
// a crash needs, since snapshots have all rows (T6). So it is never synced, and
// the system may keep it in memory as long as there is some.
//
// Threads  row_disk_set: before the first file; row_file_read: any, also while
//          a thread writes; the rest of a file: one at a time.
// Memory   a file's pieces are owned by it; records are borrowed.
// Units    slots count from 0; bytes.
// Errors   `err` may be NULL. SL_ERANGE: the limit is reached, or a write
//          failed; SL_ECORRUPT: a read failed or was short. The text names the
//          file.
#ifndef STATE_ROWS_ROW_DISK_H
#define STATE_ROWS_ROW_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/status.h"

// Sets the folder of the files (NULL: there are none), and the most bytes of
// all of them together (0: no limit). The folder must be there. Both are
// borrowed as long as there are files.
void row_disk_set(struct fs *fs, const char *folder, uint64_t most);

// Removes files from the folder that a process was ended before it could take
// the name from. Those of processes that run have none.
enum sl_err row_disk_tidy(struct sl_error *err);

// Returns true if there is a folder.
bool row_disk_is_on(void);

// Returns the bytes that all files have taken, and their limit (0: none).
uint64_t row_disk_used(void);
uint64_t row_disk_limit(void);

struct row_file;

// Makes a file of slots of `stride` bytes. *out is untouched after a failure.
enum sl_err row_file_new(struct row_file **out, size_t stride,
                         struct sl_error *err);
// Closes the file; its bytes are free again. NULL is allowed.
void row_file_free(struct row_file *f);

// Returns the bytes that the file has taken.
uint64_t row_file_bytes(const struct row_file *f);

// Writes a text for the record of an id that is not as it was written, and
// returns SL_ECORRUPT.
enum sl_err row_file_changed(const struct row_file *f, uint32_t slot,
                             uint64_t id, struct sl_error *err);

// Takes the bytes of slots below `slots` from the limit.
enum sl_err row_file_grow(struct row_file *f, uint64_t slots,
                          struct sl_error *err);

// A slot, and its record in memory.
struct row_io {
    uint32_t slot;
    void *at;
};

// Reads slots, which were written, into memory.
enum sl_err row_file_read(struct row_file *f, size_t n, const struct row_io *io,
                          struct sl_error *err);

// Reads n slots that lie one behind the other; those that were never written
// are zeroes, or what they may be.
enum sl_err row_file_read_run(struct row_file *f, uint32_t slot, size_t n,
                              void *to, struct sl_error *err);

// Writes slots; SL_ERANGE: any of them may have been written.
enum sl_err row_file_write(struct row_file *f, size_t n,
                           const struct row_io *io, struct sl_error *err);

#endif
