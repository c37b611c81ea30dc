// SPDX-License-Identifier: Apache-2.0
// common/run/background.h -- long work that must not be felt.
//
// A snapshot copies, sums and hashes a whole shard. On a machine whose cores
// are all busy that would take its share from those who answer workers, so it
// runs on a thread of its own with a low priority (nice BACKGROUND_NICE: about
// a quarter of a core when others want all of them; the disk's queue follows
// the same number). A thread of its own, since a priority once lowered can only
// be raised again with privileges, and the pool's threads have other work.
//
// Threads  any that may wait: background_run returns when fn has.
// Errors   none: without a thread, or without the priority, fn runs all the
//          same.
#ifndef COMMON_RUN_BACKGROUND_H
#define COMMON_RUN_BACKGROUND_H

#define BACKGROUND_NICE 5

void background_run(void (*fn)(void *arg), void *arg);

#endif
