// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/tenure.h -- for how long a coordinator may believe that it
// leads (H4): the part of its lease that it can be sure of.
//
// etcd counts a lease from some moment between the sending of a renewal and its
// answer, by a clock of its own. So the leader counts from the sending, and
// gives up a tenth of the lease before its end, for what the clocks differ.
//
// Threads  one at a time.
// Memory   a tenure is a value; all zeroes is one that is over. Nothing fails.
//          No pointer is NULL.
// Units    *_us of a monotonic clock that goes on while the host is suspended.
#ifndef COORDINATOR_RULES_TENURE_H
#define COORDINATOR_RULES_TENURE_H

#include <stdint.h>

struct tenure {
    uint64_t until_us;  // the lease lasts no longer
    uint64_t next_us;   // when the next renewal is due
    uint64_t length_us; // as granted last
};

#define TENURE_AGAIN_MS 100 // between renewals of which etcd answers none

// Notes that the renewal (or grant) of `granted_s` seconds which was sent at
// sent_us was answered: t lasts for nine tenths of that from sent_us on, and
// the next renewal is due after a third of it. An answer that comes late never
// makes t end sooner.
void tenure_renewed(struct tenure *t, uint64_t sent_us, int64_t granted_s);

// Notes that a renewal failed: the next one is due TENURE_AGAIN_MS after
// now_us. The end stays.
void tenure_failed(struct tenure *t, uint64_t now_us);

// Returns how many ms of the tenure are left at now_us, rounded down; 0: it is
// over.
int64_t tenure_left_ms(const struct tenure *t, uint64_t now_us);

// Returns for how many ms to wait before the next renewal, at most until the
// tenure's end; 0: it is due, or the tenure is over.
int64_t tenure_wait_ms(const struct tenure *t, uint64_t now_us);

// Returns how long one renewal may take, in ms: a third of the lease, but no
// longer than is left, and at least 1.
int64_t tenure_limit_ms(const struct tenure *t, uint64_t now_us);

#endif
