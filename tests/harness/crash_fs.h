// SPDX-License-Identifier: Apache-2.0
// tests/harness/crash_fs.h -- a disk in memory that dies where one asks it to.
//
// Implements common/base/fs.h. Each operation that changes something (create,
// write, sync, rename, sync_dir, unlink, mkdir) is a step, counted from 1.
// When the machine dies at a step, that operation fails with SL_EIO, perhaps
// half done, and all later ones fail too, until crash_fs_reboot.
//
// What a reboot leaves is what POSIX allows, chosen by the seed: of each file,
// the bytes of its last sync, with each later write kept, dropped or torn
// (whole 512-byte sectors of it, in any combination; the file's length may
// have grown over a hole of zeroes); of each folder, the names of its last
// sync_dir, with each later create, rename and unlink kept or dropped, in
// order per name. Syncing a file does not make its name durable.
//
//     for (unsigned step = 1; died; step++) {
//         struct crash_fs *fs = crash_fs_new(t_seed() + step);
//         ... set up, then
//         crash_fs_die_at(fs, step);
//         rc = thing_write(crash_fs_ops(fs), ...);
//         died = crash_fs_died(fs);
//         crash_fs_reboot(fs);
//         ... old or new, and new if rc == SL_OK
//         crash_fs_free(fs);
//     }
//
// Threads  one at a time.
// Memory   files that were open at a crash are still to be closed by their
//          owner, before or after the reboot.
#ifndef TESTS_HARNESS_CRASH_FS_H
#define TESTS_HARNESS_CRASH_FS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fs.h"

struct crash_fs;

struct crash_fs *crash_fs_new(uint64_t seed);
void crash_fs_free(struct crash_fs *fs); // NULL is allowed

// To hand to the code under test.
struct fs *crash_fs_ops(struct crash_fs *fs);

// Dies at the n-th step from now; 0: lives.
void crash_fs_die_at(struct crash_fs *fs, uint64_t step);
bool crash_fs_died(const struct crash_fs *fs);

// Fails the n-th step from now once with SL_EIO, without dying: a bad sector,
// a full disk. A failed sync also drops what it should have made durable.
void crash_fs_fail_at(struct crash_fs *fs, uint64_t step);

// Steps since crash_fs_new.
uint64_t crash_fs_steps(const struct crash_fs *fs);

// Power comes back. Also without a death before: then it was the mains.
void crash_fs_reboot(struct crash_fs *fs);

// What it takes of the heap, which grows with all that was ever written.
size_t crash_fs_bytes(const struct crash_fs *fs);

// Would a file be here, as it is now, whatever happens to the power?
bool crash_fs_durable(struct crash_fs *fs, const char *path);

// Flips one bit of a file, durably. SL_ENOENT, SL_ERANGE.
enum sl_err crash_fs_flip(struct crash_fs *fs, const char *path, uint64_t byte,
                          unsigned bit);

#endif
