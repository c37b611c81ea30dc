// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/work.h -- a closure with what leasing it needs: its job,
// its holder.
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

// What a holder's metrics say of its sums with other ranks; the each_* are per
// sum, over the last report that brought some.
struct work_sums {
    uint64_t count, sent_bytes;
    double wait_ms;
    double each_wait_ms, each_bytes;
};

// The reason why an attempt ended without completion.
enum work_why {
    WORK_TRANSIENT, // it failed, or was handed back
    WORK_LOST,      // its worker fell silent, or is gone
    WORK_TIMEOUT,   // it stood still
    WORK_PREEMPTED, // its worker leaves
    WORK_REVOKED,   // it was taken back
    WORK_WHYS
};

struct work {
    struct closure closure;
    enum work_kind kind;
    struct job *job;
    struct member *holder; // LEASED: the worker that has it; else NULL
    struct list_node on_holder;
    struct work *copy;      // sync: the same slot at another worker; owned
    struct work *copy_of;   // the work that this one copies; NULL: none
    struct meter_sums seen; // metrics of this attempt that were added already
    double norm_most;       // Lease.norm_most of this attempt
    uint32_t closures;      // Lease.closures of this attempt
    struct work_sums sums;  // WORK_RING: what its holder sums with others
    struct busy_times did;  // times of this attempt that were added already
    uint64_t leased_us;     // wall clock of the feed; 0: there is none
    const char *ended; // how the last attempt ended, for people; NULL: none did
    uint64_t moved_ms; // when the holder last made progress, or began
    // when shards last had counted more of it, or as moved_ms
    uint64_t proven_ms;
    uint64_t proven_steps; // steps that shards had counted then
    bool proving;          // the shards are being asked
    uint64_t progress;     // the holder's progress number at moved_ms
    bool reported;         // the holder has reported a progress number
    bool waits;            // the holder says that it waits for shards,
    bool unreached;        // and that it cannot reach one
    uint64_t cut;          // WORK_EVALUATE
    uint64_t first, count; // WORK_EVALUATE: samples of the test set
    struct buf story;      // workers that it took down and how, for people
    bool vanished;         // each of those workers was lost without a word
    // The least memory, in bytes, that a worker lost with it may use; 0:
    // unknown.
    uint64_t least_memory;
    // The steps that were counted when it had half of its blame are being asked
    // for; they are known, as judged_steps.
    bool judging, judged;
    uint64_t judged_steps;
    enum work_why why; // why its last attempt ended,
    uint64_t ended_ms; // end of that attempt; 0: no attempt has ended
    char dropped[128]; // the worker that handed it back again, and why
};

#endif
