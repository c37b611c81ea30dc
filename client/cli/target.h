// SPDX-License-Identifier: Apache-2.0
// client/cli/target.h -- the file or device that a flag names for output: --to,
// --summary.
//
//     target_check (before the work) -> target_open -> write target->path ->
//     target_done, or target_abort
//
// A regular file, also one behind a link, is written beside its place and
// renamed over it: by target_write, or by what the caller has write t->path
// (fs_write_durable, a tensorfile). Anything else that stands there (a device,
// a FIFO, a socket of /dev/fd) is written to and stays what it is. "-" is
// standard output.
//
// Threads  main.
//          All but target_is_stdout do I/O; a FIFO may make target_done wait.
// Memory   a target owns its paths from target_open until target_done or
//          target_abort; names are copied.
// Errors   SL_EINVAL a folder, or no name at all; else what the system says,
//          with the path that was named. `err` may be NULL.
#ifndef CLIENT_CLI_TARGET_H
#define CLIENT_CLI_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/status.h"

struct target {
    char *named;  // owned: as the person said it
    char *path;   // owned: the file to write, which need not exist
    char *folder; // owned: it holds `path` alone, and goes; NULL: none
};

// Returns true if `named` is "-", standard output.
bool target_is_stdout(const char *named);

// Checks, before the work, that `named` can be written. Returns SL_OK or the
// error. Leaves nothing behind, though it makes and removes a file beside a
// regular one, and opens no device.
enum sl_err target_check(const char *named, struct sl_error *err);

// Sets t->path to the file to be written by the caller, for the output `named`:
// for a device, a FIFO or standard output a file in a folder made below $TMPDIR
// (/tmp), else the file itself. *t need not be zeroed. On failure there is
// nothing to abort.
enum sl_err target_open(struct target *t, const char *named,
                        struct sl_error *err);

// Brings the written t->path to its place, and releases the target, also on
// failure: copies it to a device, a FIFO or standard output; a regular file is
// in its place already. Called once; target_abort must not follow.
enum sl_err target_done(struct target *t, struct sl_error *err);
// Releases the target. A device or FIFO gets nothing; a regular file that was
// written to t->path stays.
void target_abort(struct target *t);

// Opens target `named`, writes bytes[n] and finishes it, without a folder. A
// file has the old or the new content, whole, and after SL_OK it is durable; a
// device may have got a part.
enum sl_err target_write(const char *named, const void *bytes, size_t n,
                         struct sl_error *err);

#endif
