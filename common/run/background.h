// SPDX-License-Identifier: Apache-2.0
// common/run/background.h -- long work that must not slow other threads down.
//
// A snapshot copies, sums and hashes a whole shard. If all cores are busy, that
// would slow down the threads that answer workers, so it runs on a thread of
// its own with a low priority (nice BACKGROUND_NICE: about a quarter of a core
// when other threads want all of them; the disk's queue follows the same
// number). A pool thread cannot do it, since a lowered priority can only be
// raised again with privileges.
//
// Threads  any that may wait: background_run returns when fn has.
// Errors   none: without a thread, or without the priority, fn runs all the
//          same.
#ifndef COMMON_RUN_BACKGROUND_H
#define COMMON_RUN_BACKGROUND_H

#define BACKGROUND_NICE 5

// Runs fn(arg) on a thread of low priority and waits for its end; on the
// caller's thread where there can be no other. `fn` is not NULL.
void background_run(void (*fn)(void *arg), void *arg);

#endif
