// SPDX-License-Identifier: Apache-2.0
// trainer/sum/sum_host.h -- the sum over ranks of one host, through memory that
// they share.
//
// The memory has two places of a chunk for each rank. A chunk is cut into as
// many parts as there are ranks. Each copies the others' parts of its own
// vector into its place, adds its own part over all places in the order of
// ranks, and copies the others' sums out:
//
//   copy in | wait for all | add my part | wait for all | copy out
//
// While one chunk is added the next is copied in. Where two ranks have a vector
// of at most 128 KiB, each copies all of its own in and adds both, so that it
// waits once. A rank that waits spins a little and then sleeps on a word in the
// memory (futex).
//
// Another rank may write anything to that memory: it changes sums, and nothing
// else.
//
// Threads  host_sum, host_spread: one at a time. host_stop, host_wait_ms: any.
// Memory   host_free unmaps; the maker's descriptor is ranks.h's to name.
// Units    elements.
// Errors   SL_ESTALE: stopped; the data is undefined then. A rank that does not
//          come is waited for until host_stop. `err` may be NULL.
#ifndef TRAINER_SUM_SUM_HOST_H
#define TRAINER_SUM_SUM_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define HOST_RANKS_MOST 64 // ranks of one host

struct host;

// Makes the memory; called by rank 0 of the host's `count` ranks. The others
// need *fd, which the caller closes after the last host_join, *bytes and *token
// for host_join. SL_ERANGE: more than HOST_RANKS_MOST; SL_ENOMEM; SL_EIO.
// Outputs are undefined on failure, and nothing is to be freed.
enum sl_err host_new(struct host **out, uint32_t count, int *fd,
                     uint64_t *bytes, uint64_t *token, struct sl_error *err);

// Maps the memory that process `pid` made, as rank `self` of `count`.
// SL_EDENIED: it is not the memory that `token` names, or not of that size;
// SL_ENOENT: it cannot be reached; other errors of shm_map; SL_ENOMEM. *out is
// undefined on failure.
enum sl_err host_join(struct host **out, uint32_t self, uint32_t count,
                      uint64_t pid, uint32_t fd, uint64_t bytes, uint64_t token,
                      struct sl_error *err);
// Unmaps the memory; no sum is under way. NULL is allowed.
void host_free(struct host *l);

// Makes `data` the sum over all ranks, the same bits on each; all call it in
// the same order with the same count; with 0 it does nothing. Waits for them.
// After SL_ESTALE no other sum may be made.
enum sl_err host_sum(struct host *l, float *data, size_t count);

// Copies `data` of rank 0 to all ranks. Waits for them, and is called in the
// same order on all, as host_sum. SL_OK or SL_ESTALE.
enum sl_err host_spread(struct host *l, float *data, size_t count);

// Ends all waits of this process with SL_ESTALE, those under way and later
// ones.
void host_stop(struct host *l);
// Returns for how many milliseconds this rank has waited for others so far,
// without the time that it has spun before it slept.
double host_wait_ms(const struct host *l);

#endif
