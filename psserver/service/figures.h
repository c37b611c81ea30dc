// SPDX-License-Identifier: Apache-2.0
// psserver/service/figures.h -- the calls of workers, in numbers that only
// rise. Shards count for themselves, but their numbers fall when a shard is
// loaded anew, and end with it.
//
// Threads  any; figures_write_shards: the loop.
// Memory   values; part of the api.
// Units    calls.
// Errors   none: an expo without memory tells it at its end.
#ifndef PSSERVER_SERVICE_FIGURES_H
#define PSSERVER_SERVICE_FIGURES_H

#include <stdatomic.h>

#include "common/run/expo.h"
#include "proto/wire.h"

enum figures_push {
    FIGURES_APPLIED,
    FIGURES_SKIPPED, // counted, as the push said that it is to be skipped
    FIGURES_DUPLICATE,
    FIGURES_STALE,   // refused for its delay
    FIGURES_FENCED,  // refused for its attempt or an incarnation
    FIGURES_REFUSED, // for another reason
    FIGURES_HELD,    // for a round
    FIGURES_PUSHES
};

struct shard_figures {
    _Atomic uint64_t pushes[FIGURES_PUSHES];
    _Atomic uint64_t pulls;
};

// Counts a push by its result, *reply; a fenced one also as a refused call
// (rpc_refused). `skip`: the push said that its step is to be skipped.
void figures_pushed(struct shard_figures *f,
                    const struct wire_push_reply *reply, bool skip);
// Counts a pull.
void figures_pulled(struct shard_figures *f);
// Writes the figures for /metrics to *e, with the process's histograms
// shard_applies and shard_waits.
void figures_write_shards(const struct shard_figures *f, struct expo *e);

#endif
