// SPDX-License-Identifier: Apache-2.0
// worker/reduce/host.h -- the sum over ranks of one host, through memory that
// they share.
//
// The memory has two places of a chunk for each rank. A chunk is cut into as
// many parts as there are ranks. Each copies the others' parts of its own
// vector into its place, adds its own part over all places in the order of
// ranks, and copies the others' sums out:
//
//   copy in | wait for all | add my part | wait for all | copy out
//
// While one chunk is added the next is copied in. Of two ranks with a vector of
// at most 128 KiB each copies all of its own in and adds both, so that it waits
// once. A rank that waits spins a little and then sleeps on a word in the
// memory (futex).
//
// What another rank writes there may be anything: it changes sums, and nothing
// else.
//
// Threads  host_sum, host_spread: one at a time. host_stop: any.
// Memory   host_free unmaps; the maker's descriptor is ranks.h's to name.
// Units    elements.
// Errors   SL_ESTALE: stopped. Whoever does not come is waited for until then.
#ifndef WORKER_REDUCE_HOST_H
#define WORKER_REDUCE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define HOST_RANKS_MOST 64 // ranks of one host

struct host;

// Made by rank 0 of the host; *fd and *token are what others need.
enum sl_err host_new(struct host **out, uint32_t count, int *fd,
                     uint64_t *bytes, uint64_t *token, struct sl_error *err);

// What another process made, as rank `self` of `count`. SL_EDENIED: it is not
// what it should be; SL_ENOENT: it cannot be reached.
enum sl_err host_join(struct host **out, uint32_t self, uint32_t count,
                      uint64_t pid, uint32_t fd, uint64_t bytes, uint64_t token,
                      struct sl_error *err);
void host_free(struct host *l); // NULL is allowed

// data becomes the sum, the same bits everywhere; called by all in the same
// order with the same count.
enum sl_err host_sum(struct host *l, float *data, size_t count);

// data of rank 0 becomes everybody's.
enum sl_err host_spread(struct host *l, float *data, size_t count);

void host_stop(struct host *l);
double host_wait_ms(const struct host *l); // so far

#endif
