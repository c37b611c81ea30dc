// SPDX-License-Identifier: Apache-2.0
// worker/lease/compute.h -- the thread that computes, one lease at a time.
//
// Leases come through a queue and go back through the loop, each exactly once,
// in order. The device belongs to this thread, and so do the jobs that it
// keeps between leases (kept.h).
//
// A device that is lost (device_lost.h): what it had is handed back, and so is
// what comes until there is a device again. A lease that finds no memory is
// tried once more when nothing is kept of any job.
//
// Threads  All functions: the loop. `done`, `want_map`, `found` and `changed`
//          run on the loop.
// Memory   A submitted lease belongs to the compute thread until `done`.
// Errors   compute_new: those of opening the device.
#ifndef WORKER_LEASE_COMPUTE_H
#define WORKER_LEASE_COMPUTE_H

#include "common/run/loop.h"
#include "kernels/kern.h"
#include "worker/lease/lease.h"
#include "worker/lease/device_lost.h"
#include "worker/sync/peers.h"

struct compute;

enum compute_state {
    COMPUTE_READY, // there is a device: the same again, or another
    COMPUTE_AWAY,  // there is none for now; leases are handed back
    COMPUTE_GONE,  // there will be none: this worker is of no more use
    COMPUTE_ANEW,  // there may be one again, in a process that starts anew
};

struct compute_setup {
    struct loop *loop;
    struct peers *peers;
    const struct sl_clock *clock;
    // As kern_open has it: "auto", "cuda:1", "cpu", "ref"; or several that
    // compute each step together (team.h): "cuda:0,cuda:1".
    const char *device;
    const char *options;    // of kern_open; both are copied
    uint64_t keep_bytes;    // what is kept of jobs may take, as kept.h has it
    unsigned input_threads; // as input_new has it
    const struct roots *roots; // of job_env; outlives the compute
    void (*done)(void *arg, struct lease *l);
    void (*want_map)(void *arg, uint64_t job, uint64_t have);
    // Samples of a job cannot be read and were passed over; it is said before
    // a step in which they stood is done. May be NULL.
    void (*found)(void *arg);
    // The device was lost or is back; before what it had is `done`. May be
    // NULL.
    void (*changed)(void *arg, enum compute_state state, const char *why);
    void *arg;
    struct lost_rule loss;
    // Where opening again stands, as the life before this one noted it: then a
    // device that does not open is no error but away, for now.
    struct lost_row row;
};

// Opens the device on the new thread and waits for that.
enum sl_err compute_new(struct compute **out, const struct compute_setup *setup,
                        struct sl_error *err);

// "cpu: oneDNN 2.6.3, avx512, 2 threads", of several that compute together
// "2 devices, cpu: ..."; while there is none, the last.
const char *compute_device(const struct compute *c);

// After COMPUTE_ANEW: the `row` of the next life.
const struct lost_row *compute_row(const struct compute *c);

// Why there is no device for now, as the loop was told; "": there is one.
const char *compute_away(const struct compute *c);

void compute_submit(struct compute *c, struct lease *l);

// Forgets what is kept of a job, once the leases before are done.
void compute_forget(struct compute *c, uint64_t job);

// Tells the thread to end, and waits for that for so long: false if it hangs.
// Gates of all submitted leases are closed by the caller before.
bool compute_quit(struct compute *c, uint64_t limit_ms);

// Ends the thread: gates of all submitted leases are closed by the caller
// before. Waits; outcomes that were posted are handed over. NULL is allowed.
void compute_free(struct compute *c);

#endif
