// SPDX-License-Identifier: Apache-2.0
// psserver/roster/hold.h -- the roster's own structs; for roster*.c only.
#ifndef PSSERVER_ROSTER_HOLD_H
#define PSSERVER_ROSTER_HOLD_H

#include "psserver/shard/pairmap.h"
#include "psserver/roster/roster.h"
#include "psserver/snap/snap.h"

enum hold_state { HOLD_LOADING, HOLD_LOADED, HOLD_ADMITTED, HOLD_FAILED };

struct roster {
    struct roster_setup setup; // its folder is owned
    struct pairmap holds;      // owned
    uint64_t term;             // the newest seen
    bool draining;             // as last said
    size_t working;            // jobs on the pool
    bool ending;               // roster_free waits for them
    size_t saving;             // snapshots that roster_save waits for
    void (*saved)(void *arg);
    void *saved_arg;
};

// A shard that we were told to hold.
struct hold {
    struct roster *roster;
    enum hold_state state;
    Sluice__V1__ShardSpec *spec; // owned
    struct wire_tag at_least;    // K7
    char *folder;                // of its snapshots; owned
    struct shard *shard;         // LOADED, ADMITTED: a reference
    struct sl_error failure;     // FAILED, or LOADING once more: why
    uint64_t failed_ms;
    unsigned pins; // jobs on the pool that know it
    bool gone;     // not in the roster any more; the last pin frees it
    bool again;    // what is being loaded is not wanted any more

    struct shard_brief brief; // as last reported
    unsigned missed;          // reports in a row that found the lock taken

    bool snapping; // a snapshot is being written
    bool wanted;   // another one is asked for
    uint64_t wanted_incarnation, wanted_request;
    uint64_t saved_steps; // counted in its newest durable snapshot
};

// Counts a job on the pool in and out; the last one out after hold_gone, or
// with roster_free waiting, ends things.
enum sl_err roster_work(struct roster *r, loop_fn work, loop_fn done,
                        void *arg);
void roster_worked(struct roster *r);
void hold_pin(struct hold *h);
void hold_unpin(struct hold *h);

// Takes it out of the roster; what the pool still has of it ends by itself.
void hold_drop(struct hold *h);

// roster_say.c: messages.
void hold_say_hello(struct hold *h);
// The last word about a shard, which is closed before.
void hold_say_last(struct hold *h);
void hold_say_snapshot(struct hold *h, uint64_t request,
                       const struct snap_written *w);
void roster_say_heartbeat(struct roster *r, uint64_t seq, bool draining);
void roster_say_no_snapshot(struct roster *r, uint64_t job,
                            uint64_t job_incarnation, uint32_t shard,
                            uint64_t request, const char *why);

#endif
