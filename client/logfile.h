// SPDX-License-Identifier: Apache-2.0
// client/logfile.h -- a log that somebody else appends to, bounded.
//
// Who writes has the file open for ever, so it is not renamed: what it holds is
// copied to PATH.1, in place of what was there, and it is cut to nothing. What
// is written between the last look and the cut is lost: a few lines at most.
//
// Threads  main.
// Units    bytes.
#ifndef CLIENT_LOGFILE_H
#define CLIENT_LOGFILE_H

#include <stdint.h>

#include "common/base/status.h"

// If it has so many bytes or more. One that is not there is not.
enum sl_err logfile_bound(const char *path, uint64_t most,
                          struct sl_error *err);

#endif
