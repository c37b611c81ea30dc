// SPDX-License-Identifier: Apache-2.0
// coordinator/service/audit.h -- the audit log: a line per call that is meant
// to change something, in audit.log of the state folder.
//
// A file that has grown to its size is renamed audit.log.000001 and so on, and
// its chain (chain.h) goes on in a new audit.log. Denied calls (denials.h) are
// lines as well.
//
// A thread of its own writes them, so that no disk delays the loop; lines that
// come while it syncs are one sync together.
//
// Threads  audit_new, audit_free: the loop's. audit_write, audit_wait: any.
// Memory   audit_free writes what waits and frees. The folder of the options is
//          copied, fs, clock and arg are borrowed until then; lines are copied.
//          What waits is bounded by the calls that wait for it (denials.h).
// Errors   A line that cannot be written is in the daemon's log, and the call
//          goes on: what it did is in the journal. `err` may be NULL.
#ifndef COORDINATOR_SERVICE_AUDIT_H
#define COORDINATOR_SERVICE_AUDIT_H

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "proto/access.h"

struct audit;

// One line: a call, its caller and its result.
struct audit_line {
    const struct access_who *who;
    const char *call;
    const char *job; // an id, or what the caller said for one
    enum sl_err result;
    const struct sl_error *why; // error of a failure; else not read
    uint64_t times; // how often it was denied; 0: this call was decided
};

struct audit_options {
    struct fs *fs;
    const struct sl_clock *clock;
    const char *folder;
    uint64_t bytes; // size of a file, about; 0: it is never renamed
    uint32_t keep;  // renamed files; 0: all

    // Called with each line of a failed call, within audit_write and on its
    // thread; NULL: no receiver.
    void (*refused)(void *arg, const struct audit_line *line);
    void *arg;
};

// Opens audit.log in options->folder as *out, and starts the log's thread. A
// log with a broken chain (chain.h) is renamed to audit.log.damaged-SECONDS,
// and a new one begun. Waits for the disk. SL_ENOMEM, and what the file system
// says; *out is then untouched.
enum sl_err audit_new(struct audit **out, const struct audit_options *options,
                      struct sl_error *err);

// Waits until what waits is written, with every `written` called, and frees the
// log; not from `written`. NULL is allowed.
void audit_free(struct audit *a);

// Writes a line soon, in the order of the calls, with the present time and its
// texts cut (`job` to 200 bytes); does not wait. written(arg) is called once,
// on the log's thread, when the line is on disk or cannot be, or before
// audit_write returns if memory is short; NULL: no call.
void audit_write(struct audit *a, const struct audit_line *line,
                 void (*written)(void *arg), void *arg);

// Blocks until the lines written before are on disk, or cannot be, and their
// `written` was called; not from `written`. While others go on writing lines it
// waits for those, too.
void audit_wait(struct audit *a);

#endif
