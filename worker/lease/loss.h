// SPDX-License-Identifier: Apache-2.0
// worker/lease/loss.h -- what becomes of a worker whose device is lost.
//
// A GPU falls off its bus, its driver ends, a kernel of somebody's kills the
// context: from then on every call of the device says SL_ELOST. That is not
// the job's fault nor the samples': what is leased is handed back, without
// blame, and then the worker ends, opens the device again, or goes on with the
// cpu backend, as it was told. What was pushed before stays counted; nothing
// else of a worker has to survive.
//
// Opening again is tried so many times in a row, each time after the same
// wait; a lease that ends well ends the row. A device that comes back only to
// be lost again is therefore given up too.
//
// Threads  the compute thread; the rule is a value.
// Units    milliseconds.
// Errors   none.
#ifndef WORKER_LEASE_LOSS_H
#define WORKER_LEASE_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kern.h"
#include "worker/lease/lease.h"

enum loss_policy { LOSS_EXIT, LOSS_REOPEN, LOSS_CPU };

// In the order of the policies, for CONF_CHOICE.
#define LOSS_POLICIES "exit|reopen|cpu"

struct loss_rule {
    enum loss_policy policy;
    uint32_t tries;   // LOSS_REOPEN: in a row,
    uint64_t wait_ms; // and so long before each
};

enum loss_policy loss_policy_of(const char *text); // one of LOSS_POLICIES

// What to do next with a device that is lost, after so many tries in a row.
enum loss_turn { LOSS_END, LOSS_WAIT_AND_OPEN, LOSS_TAKE_CPU };
enum loss_turn loss_next(const struct loss_rule *rule, uint32_t tried);

// What to open again: "auto" was this one, so that is waited for, and no other
// taken in its place.
const char *loss_name(const char *asked, const struct kern_dev *dev);

// The one line about it: what happened, what is done now, and what to do.
void loss_log(const struct loss_rule *rule, enum loss_turn turn, uint32_t tried,
              const char *device, const char *why);

// What happened to the device, if that is what the lease failed of; else "".
// Other errors of the device are no loss, though it may have words for them.
const char *loss_of(const struct kern_dev *dev, const struct lease *l);

// A lease that failed since the device is lost is handed back instead: nobody
// is to be blamed for it.
void loss_excuse(struct lease *l, const char *why);

// It failed since the device (or the host) has no more memory.
bool loss_out_of_memory(const struct lease *l);

// Adds what to do about that, if the text does not say it.
void loss_advise(struct lease *l);

#endif
