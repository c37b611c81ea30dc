// SPDX-License-Identifier: Apache-2.0
// psserver/roster/roster_inner.h -- the roster's own structs; for roster*.c
// only.
#ifndef PSSERVER_ROSTER_ROSTER_INNER_H
#define PSSERVER_ROSTER_ROSTER_INNER_H

#include <stdatomic.h>

#include "state/shard/pairmap.h"
#include "psserver/roster/roster.h"
#include "state/snap/snap.h"

enum hosted_state {
    HOSTED_LOADING,
    HOSTED_LOADED,
    HOSTED_ADMITTED,
    HOSTED_FAILED
};

struct roster {
    struct roster_setup setup; // its folder is owned
    struct pairmap hosted;     // owned
    uint64_t term;             // the newest seen
    bool draining;             // as last said
    size_t working;            // jobs on the pool
    bool ending;               // roster_free waits for them
    size_t saving;             // snapshots that roster_save waits for
    void (*saved)(void *arg);
    void *saved_arg;

    // Snapshots since the start, by their ends; and of the last one.
    uint64_t written, no_space, unwritten, written_bytes;
    struct histogram took;
    bool full; // and the last one found no space
};

// A shard that we were told to hold.
struct hosted {
    struct roster *roster;
    enum hosted_state state;
    Sluice__V1__ShardSpec *spec; // owned
    struct wire_tag at_least;    // K7
    char *folder;                // of its snapshots; owned
    struct shard *shard;         // LOADED, ADMITTED: a reference
    struct sl_error failure;     // FAILED, or LOADING once more: why
    uint64_t failed_ms;
    unsigned pins; // jobs on the pool that know it
    bool gone;     // not in the roster any more; the last pin frees it
    bool again;    // what is being loaded is not wanted any more
    _Atomic bool *stop_load; // ends the reading of what is being loaded; or
                             // NULL

    struct shard_brief brief; // as last reported
    unsigned missed;          // reports in a row that found the lock taken

    const struct snapping *snapping; // that is being written, or NULL
    bool wanted;                     // another one is asked for
    uint64_t wanted_incarnation, wanted_request;
    uint64_t saved_steps; // counted in its newest durable snapshot,
    uint64_t saved_ms;    // which is of then, or was loaded then
};

// Counts a job on the pool in and out; the last one out after hosted_gone, or
// with roster_free waiting, ends things.
enum sl_err roster_work(struct roster *r, loop_fn work, loop_fn done,
                        void *arg);
void roster_worked(struct roster *r);

// Any thread: the store is there.
enum sl_err roster_store(const struct roster *r, struct sl_error *err);

void hosted_pin(struct hosted *h);
void hosted_unpin(struct hosted *h);

// Takes it out of the roster; what the pool still has of it ends by itself.
void hosted_drop(struct hosted *h);

// roster_send.c: messages.
void hosted_send_hello(struct hosted *h);

// The shard knows the rates, up to the one that begins with this closure.
void hosted_send_rates(struct hosted *h, uint64_t closure);
// The last word about a shard, which is closed before.
void hosted_send_last(struct hosted *h);
void hosted_send_snapshot(struct hosted *h, uint64_t request,
                          const struct snap_written *w);
// `admitted` shards of it.
void roster_send_heartbeat(struct roster *r, size_t admitted, uint64_t seq,
                           bool draining);
void roster_send_deleted(struct roster *r, uint64_t job, uint64_t uid);
void roster_send_no_snapshot(struct roster *r, uint64_t job,
                             uint64_t job_incarnation, uint32_t shard,
                             uint64_t request, const char *why);

#endif
