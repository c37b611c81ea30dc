// SPDX-License-Identifier: Apache-2.0
// tests/harness/lease.h -- for scripted workers: what they say about a lease.
#ifndef TESTS_HARNESS_LEASE_H
#define TESTS_HARNESS_LEASE_H

#include "proto/wire.h"

// Sets the fields of *message, a HandBack, AttemptFailed or Complete, that say
// which attempt of *lease it is about. The message borrows the lease's attempt.
#define T_OF_LEASE(message, lease)                                             \
    do {                                                                       \
        (message)->job = (lease)->job;                                         \
        (message)->closure = (lease)->closure;                                 \
        (message)->attempt = (lease)->attempt;                                 \
        (message)->kind = (lease)->kind;                                       \
        (message)->cut = (lease)->cut;                                         \
    } while (0)

#endif
