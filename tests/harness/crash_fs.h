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

// Returns an empty disk; `seed` chooses what its reboots leave. Without memory
// it aborts.
struct crash_fs *crash_fs_new(uint64_t seed);
void crash_fs_free(struct crash_fs *fs); // NULL is allowed

// Returns the disk as a file system, for the code under test; valid until
// crash_fs_free.
struct fs *crash_fs_ops(struct crash_fs *fs);

// Makes the machine die at the n-th step from now (1: the next); 0: it does not
// die.
void crash_fs_die_at(struct crash_fs *fs, uint64_t step);
// Returns true if the machine has died and was not rebooted since.
bool crash_fs_died(const struct crash_fs *fs);

// Makes the n-th step from now (1: the next) fail once with SL_EIO, without
// dying, as for a bad sector or a full disk; 0: none. A sync that fails also
// drops what it should have made durable.
void crash_fs_fail_at(struct crash_fs *fs, uint64_t step);

// Returns the number of steps since crash_fs_new.
uint64_t crash_fs_steps(const struct crash_fs *fs);

// Starts the machine again, after a death or a power cut now: of what was not
// durable, the seed chooses what is left.
void crash_fs_reboot(struct crash_fs *fs);

// Returns how many bytes of the heap the disk takes, which grow with all that
// was ever written.
size_t crash_fs_bytes(const struct crash_fs *fs);

// Returns true if the file would be there as it is now after any power cut.
bool crash_fs_durable(struct crash_fs *fs, const char *path);

// Flips bit number `bit` (0 to 7) of byte number `byte` of a file, durably;
// makes all writes to the file durable for that. SL_OK; SL_ENOENT: there is no
// such file; SL_ERANGE: it has no such bit.
enum sl_err crash_fs_flip(struct crash_fs *fs, const char *path, uint64_t byte,
                          unsigned bit);

#endif
