// SPDX-License-Identifier: Apache-2.0
// state/rows/row_disk.h -- files for the rows that have no place in memory, and
// the limit of them all.
//
// A table has one file on each of its shards: slots of the size of a record, by
// number. It has no name from the moment it is open, and it holds nothing that
// a crash needs, since snapshots have all rows (T6). So it is never synced, and
// the system may keep it in memory as long as there is some. Where its file
// system can take space ahead, it is mapped, and the process has a handler of
// SIGBUS, by which a disk that fails ends a copy and not the process.
//
// Threads  row_disk_set: before the first file; row_file_read: any, also while
//          a thread writes; the rest of a file: one at a time.
// Memory   a file's pieces are owned by it; records are borrowed.
// Units    slots count from 0; bytes, of a slot a multiple of 8. Records lie at
//          multiples of 8.
// Errors   `err` may be NULL. SL_ERANGE: a limit is reached, or a write
//          failed; SL_ECORRUPT: a read failed or (row_file_read) was short. The
//          text names the file, but that of the limit.
#ifndef STATE_ROWS_ROW_DISK_H
#define STATE_ROWS_ROW_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/status.h"
#include "state/rows/row_memory.h"

// Sets the folder of the files (NULL: there are none), and the most bytes of
// all of them together (0: no limit). The folder must exist. `fs` and `folder`
// are borrowed as long as there are files. The first call with a folder sets
// the handler of SIGBUS, which stays.
void row_disk_set(struct fs *fs, const char *folder, uint64_t most);

// Removes files from the folder, which must be set, that a process was ended
// before it could take the name from. Those of processes that run have none.
// One that is gone meanwhile is no error. Returns SL_OK, SL_ENOMEM, or the
// first error of the file system, at which it stops.
enum sl_err row_disk_tidy(struct sl_error *err);

// Returns true if there is a folder.
bool row_disk_is_on(void);

// Returns the bytes that all files have taken from the limit.
uint64_t row_disk_used(void);
// Returns the limit for the bytes of all files; 0: none.
uint64_t row_disk_limit(void);

struct row_file;

// Makes an empty file of slots of `stride` bytes, in the folder, which must be
// set. It has taken nothing from a limit; row_file_grow counts its bytes, also
// for the tenant of `account` (not NULL), which is open and borrowed as long as
// the file is there.
// Returns SL_OK; SL_ERANGE: it cannot be made; SL_ENOMEM. *out is untouched
// after a failure.
enum sl_err row_file_new(struct row_file **out, size_t stride,
                         struct row_account *account, struct sl_error *err);
// Closes and frees the file and its space on the disk; its bytes count no more.
// NULL is allowed.
void row_file_free(struct row_file *f);

// Returns the bytes that the file has taken from the limit.
uint64_t row_file_bytes(const struct row_file *f);

// Sets *err to a text that says that the record of `id`, in slot `slot`, is not
// as it was written. Returns SL_ECORRUPT.
enum sl_err row_file_changed(const struct row_file *f, uint32_t slot,
                             uint64_t id, struct sl_error *err);

// Takes the bytes of all slots below `slots` from the limit and from that of
// the account's tenant, and space for them from the disk, before they are
// written. Does nothing for those that it has: a file never becomes smaller.
// Returns SL_OK, or SL_ERANGE with nothing taken from a limit.
enum sl_err row_file_grow(struct row_file *f, uint64_t slots,
                          struct sl_error *err);

// A slot, and its record in memory.
struct row_io {
    uint32_t slot;
    void *at;
};

// Reads n slots, which were written: slot io[i].slot to io[i].at. What is read
// of a slot that another thread writes meanwhile may be some of both. n may be
// 0. Returns SL_OK or SL_ECORRUPT, after which some may have been read.
enum sl_err row_file_read(struct row_file *f, size_t n, const struct row_io *io,
                          struct sl_error *err);

// Reads the n slots from `slot` on to `to`. What slots hold that were never
// written is undefined; those behind the file's end read as zeroes, and are no
// error. Returns SL_OK or SL_ECORRUPT.
enum sl_err row_file_read_run(struct row_file *f, uint32_t slot, size_t n,
                              void *to, struct sl_error *err);

// Writes n slots, perhaps 0: io[i].at to slot io[i].slot. row_file_grow has
// taken them. Returns SL_OK; SL_ERANGE: some of them may have been written.
enum sl_err row_file_write(struct row_file *f, size_t n,
                           const struct row_io *io, struct sl_error *err);

#endif
