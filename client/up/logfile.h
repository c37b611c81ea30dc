// SPDX-License-Identifier: Apache-2.0
// client/up/logfile.h -- bounds a log that another process appends to.
//
// The writer has the file open for ever, so it is not renamed: its contents are
// copied over PATH.1, and the file is cut to nothing. Lines written between the
// last read and the cut are lost: a few at most.
//
// Threads  main.
// Units    bytes.
#ifndef CLIENT_UP_LOGFILE_H
#define CLIENT_UP_LOGFILE_H

#include <stdint.h>

#include "common/base/status.h"

// Moves the contents of `path` to PATH.1 if it has `most` bytes or more. A
// missing file is not an error. After an error of PATH.1 `path` is cut all the
// same: better no old lines than no new ones. SL_ERANGE: the path is too long;
// else what the system says. `err` may be NULL.
enum sl_err logfile_bound(const char *path, uint64_t most,
                          struct sl_error *err);

#endif
