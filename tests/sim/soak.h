// SPDX-License-Identifier: Apache-2.0
// tests/sim/soak.h -- a month of one job, on workers that do not live long.
//
// 70 workers compute steps of a minute; each lives half an hour on average, or
// less, and another one takes its name soon after. Psservers live for a day,
// and the coordinator is killed near the end. The network and the disks are
// well. What truth.c keeps of every step would not fit such a job: the shards'
// own counts and digests, and the values of the last cut, say at its end that
// each step was done once.
//
// Memory   the caller's; `at` holds what was seen at each thirtieth of it.
// Errors   a job that fails, or is found wrong at its end, ends the test.
#ifndef TESTS_SIM_SOAK_H
#define TESTS_SIM_SOAK_H

#include "tests/sim/sim.h"

#define SOAK_PARTS 30

struct soak {
    uint64_t losses;  // of workers, that the job is made for
    uint64_t minutes; // that each of them lives on average
    uint64_t lost, servers_lost, pushed, again;
    // What the product keeps: allocations, and bytes of the heap but for the
    // simulation's lists of processes and sessions, and its disks.
    struct soak_books {
        uint64_t at_us, lost, allocations, bytes;
    } at[SOAK_PARTS + 1];
    unsigned count;
};

// Sets *k to what the job and the cluster of a soak are like, which `soak`,
// borrowed, says.
void soak_knobs(struct knobs *k, struct soak *soak);

// Draws when a process that has started is going to die; never for the
// coordinator, nor without a soak.
void soak_started(struct sim *s, struct proc *p);

// Counts a push that was answered; nothing without a soak.
void soak_pushed(struct sim *s, enum sl_err rc,
                 const struct wire_push_reply *reply);

// Checks that the files of the last cut hold each step once.
void soak_check_files(struct sim *s, const Sluice__V1__Checkpoint *last);

#endif
