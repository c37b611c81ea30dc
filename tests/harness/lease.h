// SPDX-License-Identifier: Apache-2.0
// tests/harness/lease.h -- for scripted workers: what they say about a lease.
#ifndef TESTS_HARNESS_LEASE_H
#define TESTS_HARNESS_LEASE_H

#include "proto/wire.h"

// HandBack, AttemptFailed and Complete say with the same fields which attempt
// they are about. The attempt stays the lease's.
#define T_OF_LEASE(message, lease)                                             \
    do {                                                                       \
        (message)->job = (lease)->job;                                         \
        (message)->closure = (lease)->closure;                                 \
        (message)->attempt = (lease)->attempt;                                 \
        (message)->kind = (lease)->kind;                                       \
        (message)->cut = (lease)->cut;                                         \
    } while (0)

#endif
