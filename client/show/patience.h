// SPDX-License-Identifier: Apache-2.0
// client/show/patience.h -- asking again until something has come about.
//
// Threads  main.
// Units    milliseconds.
#ifndef CLIENT_SHOW_PATIENCE_H
#define CLIENT_SHOW_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/run/conf.h"

struct patience {
    uint64_t until_ms; // 0: for ever
    uint64_t pause_ms; // before it is asked next
};

// Returns a patience that never ends or, if the user has set --timeout, one
// that ends after that time from now: the default of --timeout is meant for one
// answer.
struct patience patience_of(const struct conf *conf);

// Sleeps a little, 50 ms at first and twice as long each time, up to 1.6 s, but
// not beyond the end of the patience, or until a signal comes, and returns
// true: ask again. Returns false, at once, if the patience is over.
bool patience_wait(struct patience *p);

#endif
