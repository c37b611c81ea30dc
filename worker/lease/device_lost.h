// SPDX-License-Identifier: Apache-2.0
// worker/lease/device_lost.h -- what a worker does when its device is lost.
//
// A GPU falls off its bus, its driver ends, another program's kernel kills the
// context: from then on every call of the device says SL_ELOST. That is not
// the job's fault nor the samples': what is leased is handed back, without
// blame, and then the worker ends, opens the device again, or goes on with the
// cpu backend, as it was told. What was pushed before stays counted; nothing
// else of a worker has to survive.
//
// A process that has lost a CUDA context never gets another: so to open the
// device again the worker starts itself anew (host/daemon/anew.h), under the
// same name. That is tried so many times in a row, each time after the same
// wait; a lease that ends well ends the row. A device that comes back only to
// be lost again is therefore given up too. Where the row stands goes from life
// to life in a note.
//
// Threads  the compute thread; rule and row are values.
// Memory   no pointer may be NULL; texts are copied. A text that is returned is
//          static, the device's until its next call, or the argument `asked`.
// Units    milliseconds.
// Errors   none.
#ifndef WORKER_LEASE_DEVICE_LOST_H
#define WORKER_LEASE_DEVICE_LOST_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kern.h"
#include "trainer/lease/lease.h"

enum lost_policy { LOST_EXIT, LOST_REOPEN, LOST_CPU };

// In the order of the policies, for CONF_CHOICE.
#define LOST_POLICIES "exit|reopen|cpu"

struct lost_rule {
    enum lost_policy policy;
    uint32_t tries;   // LOST_REOPEN: most attempts in a row to open it
    uint64_t wait_ms; // LOST_REOPEN: pause before each attempt
};

// The attempts so far to open a lost device.
struct lost_row {
    uint32_t tried; // attempts; 0: the device was never lost
    char name[160]; // the lost device, or the list of a team's (team.h)
};

#define LOST_NOTE 200 // bytes of a note
// Writes `row` to `out` as a text for the next process, which lost_row_of
// reads.
void lost_note(char out[LOST_NOTE], const struct lost_row *row);
// Returns the row in a text of lost_note; its name ends at the first blank. An
// empty row for any other text.
struct lost_row lost_row_of(const char *note);

// Returns the policy that `text`, one of LOST_POLICIES, names; LOST_EXIT for
// any other text.
enum lost_policy lost_policy_of(const char *text);

// What is done next with a lost device.
enum lost_turn { LOST_END, LOST_WAIT_AND_START_ANEW, LOST_TAKE_CPU };
// Returns what `rule` says to do with a lost device after `tried` attempts in a
// row to open it: LOST_TAKE_CPU with LOST_CPU; with LOST_REOPEN, while they are
// fewer than its tries, LOST_WAIT_AND_START_ANEW; else LOST_END.
enum lost_turn lost_next(const struct lost_rule *rule, uint32_t tried);

// Returns the name of the device to open again: `asked`, as the operator named
// it; for "auto" the name of dev's backend ("cuda", "cpu"), so that no device
// of another kind is taken in its place.
const char *lost_name(const char *asked, const struct kern_dev *dev);

// Logs one line about a loss of `device` and its reason `why`: what happened,
// what is done now (`turn`), and what the operator can do.
void lost_log(const struct lost_rule *rule, enum lost_turn turn, uint32_t tried,
              const char *device, const char *why);

// Logs that a process that was started anew does not find the device of `row`,
// and why, and what is done now.
void lost_log_still(const struct lost_rule *rule, enum lost_turn turn,
                    const struct lost_row *row, const char *why);

// Returns the device's words on its loss if the lease failed of that
// (SL_ELOST); else "". Other errors are no loss, though the device may have
// words for them.
const char *lost_of(const struct kern_dev *dev, const struct lease *l);

// Changes the outcome of a lease that failed as the device was lost to one that
// is handed back: neither the job nor its data is to blame. `why`: the device's
// words.
void lost_excuse(struct lease *l, const char *why);

// Returns true if the lease failed because the device or the host has no more
// memory.
bool lost_out_of_memory(const struct lease *l);

// Adds "use a smaller batch or another device" to the text of a lease that is
// out of memory (lost_out_of_memory), unless it is there already.
void lost_advise(struct lease *l);

#endif
