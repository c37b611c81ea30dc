// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/work.h -- a closure with what leasing it needs: whose it
// is, who has it.
//
// Threads  the loop.
// Memory   lies in a job's map of active closures, is a copy of one that does,
//          is a range that an evaluation has made, or is the job's probe.
//          While it is LEASED, its holder lists it and the job counts it.
#ifndef COORDINATOR_RULES_WORK_H
#define COORDINATOR_RULES_WORK_H

#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/list.h"
#include "coordinator/rules/busy.h"
#include "coordinator/rules/closure.h"
#include "coordinator/rules/dispatch.h"
#include "coordinator/rules/meter.h"

struct job;
struct member;

// A hybrid job's places in groups are numbered above all closures.
#define WORK_PLACES (UINT64_C(1) << 61)

// As the metrics of the attempt say; per sum, over the last report that brought
// some.
struct work_sums {
    uint64_t count, sent_bytes;
    double wait_ms;
    double each_wait_ms, each_bytes;
};

// Why an attempt ended that was not completed.
enum work_why {
    WORK_TRANSIENT, // it failed, or was handed back
    WORK_LOST,      // nothing is heard of its worker
    WORK_TIMEOUT,   // it stood still
    WORK_PREEMPTED, // its worker leaves
    WORK_WHYS
};

struct work {
    struct closure closure;
    enum work_kind kind;
    struct job *job;
    struct member *holder; // LEASED: who has it; else NULL
    struct list_node on_holder;
    struct work *copy;      // sync: the same slot at another worker; owned
    struct work *copy_of;   // what it is a copy of; NULL: it is none
    struct meter_sums seen; // metrics of this attempt that were added already
    struct work_sums sums;  // WORK_RING: what its holder sums with others
    struct busy_times did;  // what this attempt did, as was added already
    uint64_t leased_us;     // wall clock
    const char *ended;      // how the last attempt did, for people; NULL: none
    uint64_t moved_ms;      // when the holder last got on with it, or began
    uint64_t proven_ms;     // when shards last had more of it, or as moved_ms
    uint64_t proven_steps;  // what they had then
    bool proving;           // they are asked
    uint64_t progress;      // its own number for that
    bool reported;          // it has said that number
    bool waits;             // it waits for shards, as it says,
    bool unreached;         // and cannot reach one
    uint64_t cut;           // WORK_EVALUATE
    uint64_t first, count;  // WORK_EVALUATE: samples of the test set
    struct buf story;       // whom it took down and how, for people
    bool vanished;          // each of those was lost without a word
    uint64_t least_memory;  // that one which was lost with it may use; 0: none
                            // has said it
    bool judging, judged;   // it is being found out, and was, how many steps
    uint64_t judged_steps;  // were counted when it had half of its blame
    enum work_why why;      // its last attempt ended badly,
    uint64_t ended_ms;      // and when; 0: none has
    char dropped[128];      // by whom it was handed back again, and why
};

#endif
