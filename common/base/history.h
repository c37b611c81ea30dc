// SPDX-License-Identifier: Apache-2.0
// common/base/history.h -- a record of events, for the checker of
// tests/history.
//
// HISTORY("counted", "job=%llu shard=%u", ...) appends one JSON line to
// $SLUICE_HISTORY/<role>-<pid>.jsonl, in a build with SLUICE_HISTORY (cmake
// -DSLUICE_TESTING=ON) and when that folder is named; else it is nothing. A
// line is one write(), so that what a process did before it was killed is in
// the file. Lines begin with `us` (monotonic, one clock for all processes of a
// host), `wall`, `seq` (per process), `role`, `node`, `pid`, `event`.
//
// Write the line under the lock that makes the event true, where there is one:
// then the order of `seq` is the order of the events.
//
// With SLUICE_HISTORY_PAYLOADS=1 too, history_bytes keeps what was pushed, in
// $SLUICE_HISTORY/<role>-<pid>.payloads, for a replay (tests/history/replay.c).
//
// Threads  any; a line waits for the lock and the write.
// Errors   a file that cannot be opened, or a line that cannot be written, ends
//          the process with status 2: a history with holes proves nothing.
#ifndef COMMON_BASE_HISTORY_H
#define COMMON_BASE_HISTORY_H

#ifdef SLUICE_HISTORY

#include <stdbool.h>

#include "common/base/slices.h"

#define HISTORY_BYTES_MAX ((size_t)4 << 20) // limit of one payload

// Copies the role and the node of this process (63 bytes of each), which every
// later line has, and opens the file. Does nothing if SLUICE_HISTORY names no
// folder. Once, before other threads write.
void history_open(const char *role, const char *node);

// Returns true once history_open has opened the file.
bool history_on(void);

// Appends the bytes to the side file and returns the offset at which they
// begin; -1 if payloads are off, or `bytes` is NULL. Call it in the arguments
// of the event that names the offset. Over HISTORY_BYTES_MAX the process ends,
// as for a line that cannot be written.
long long history_bytes(const struct sl_slices *bytes);

// Writes an event `resources`: open files (and 3: ".", ".." and the folder that
// is read to count them), threads, resident KiB. A loop's timer may call it:
// `unused` is not read. Does nothing unless history_on. Only in a build with
// SLUICE_HISTORY.
void history_resources(void *unused);

// Writes a line of `event` with the pairs "key=format ..." of common/base/
// pairs.h; only while history_on. Call HISTORY instead: its arguments are not
// evaluated while nothing is written. HISTORY's format is a literal.
void history_event(const char *event, const char *pairs, ...)
    __attribute__((format(printf, 2, 3)));

#define HISTORY(event, ...)                                                    \
    do {                                                                       \
        if (history_on())                                                      \
            history_event(event, " " __VA_ARGS__);                             \
    } while (0)

#else

#define history_open(role, node) ((void)0)
#define history_on() false
#define history_bytes(bytes) ((void)(bytes), -1LL)
#define HISTORY(event, ...) ((void)0)

#endif

#endif
