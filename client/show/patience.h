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

// Returns endless patience, or --timeout where the user has set it: its default
// is for a single answer.
struct patience patience_of(const struct conf *conf);

// Waits a little, each time longer, up to about a second. Returns false, at
// once, if it has been long enough.
bool patience_wait(struct patience *p);

#endif
