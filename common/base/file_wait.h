// SPDX-License-Identifier: Apache-2.0
// common/base/file_wait.h -- whether a thread may go on waiting for a file that
// comes slowly, as from another host.
//
// A function that opens or reads files knows nothing of the attempt that it
// works for. Whoever calls it for an attempt says so to the thread; whatever
// waits asks, at least once a second.
//
//     struct file_wait own = {.go_on = attempt_goes_on, .arg = attempt};
//     const struct file_wait *before = file_wait_set(&own);
//
//     rc = fs_pread(...);
//     file_wait_set(before);
//
// Threads  any; each has its own.
// Memory   what is set is borrowed until it is set anew.
// Errors   none.
#ifndef COMMON_BASE_FILE_WAIT_H
#define COMMON_BASE_FILE_WAIT_H

#include <stdbool.h>

struct file_wait {
    bool (*go_on)(void *arg); // false: the wait is to end with SL_ECANCELED
    void *arg;
};

// Sets what the calling thread asks while it waits; NULL: nothing. Returns what
// was set before.
const struct file_wait *file_wait_set(const struct file_wait *p);

// Returns true if the calling thread may wait on, as it may where nothing is
// set.
bool file_wait_goes_on(void);

#endif
