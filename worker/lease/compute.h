// SPDX-License-Identifier: Apache-2.0
// worker/lease/compute.h -- the thread that computes, one lease at a time.
//
// Leases come through a queue and go back through the loop, each exactly once;
// in order, but for those that run within a ring lease or a contribution, which
// may go back before it. The device belongs to this thread, and so do the jobs
// that it keeps between leases (kept.h).
//
// If a device is lost (device_lost.h), the leases that it had are handed back,
// and so are those that come until there is a device again. A lease that finds
// no memory is tried once more when nothing is kept of any job.
//
// Threads  All functions: the loop. `done`, `want_map`, `found` and `changed`
//          run on the loop.
// Memory   A submitted lease belongs to the compute thread until `done`. What
//          the setup points at is borrowed until compute_free.
// Errors   compute_new: those of opening the device; *out is untouched then.
//          `err` may be NULL.
#ifndef WORKER_LEASE_COMPUTE_H
#define WORKER_LEASE_COMPUTE_H

#include "common/run/loop.h"
#include "kernels/kern.h"
#include "trainer/lease/lease.h"
#include "worker/data/data_index.h"
#include "worker/device/test_vector.h"
#include "worker/lease/device_lost.h"
#include "trainer/push/peers.h"

struct compute;

enum compute_state {
    COMPUTE_READY, // a device is open: cpu, in place of the lost one
    COMPUTE_AWAY,  // the device is lost for now; leases are handed back
    COMPUTE_GONE,  // the device stays lost: this worker is of no more use
    COMPUTE_ANEW,  // the device may come back in a process that starts anew
};

struct compute_setup {
    struct loop *loop;
    struct peers *peers;
    const struct sl_clock *clock;
    // Device name for kern_open: "auto", "cuda:1", "cpu", "ref"; or several
    // devices that compute each step together (team.h): "cuda:0,cuda:1".
    const char *device;
    // For kern_open; NULL: none; `device` and `options` are copied.
    const char *options;
    uint64_t keep_bytes;    // bytes that kept jobs may take (kept.h)
    unsigned input_threads; // reader threads (input_new)
    // Where data may lie (job_env); outlives the compute.
    const struct roots *roots;
    struct index_place index; // of data's records; what it names is borrowed
    // Takes back a submitted lease with its outcome.
    void (*done)(void *arg, struct lease *l);
    // Asks for a map of `job` that is newer than version `have`.
    void (*want_map)(void *arg, uint64_t job, uint64_t have);
    // Tells that samples of a job cannot be read and were passed over, before a
    // step that would have held them is done. May be NULL.
    void (*found)(void *arg);
    // Tells that the device was lost, or what became of that, before the leases
    // that it had are `done`; of changes in quick succession only the last.
    // `why` is what compute_away returns, and borrowed. May be NULL.
    void (*changed)(void *arg, enum compute_state state, const char *why);
    void *arg;
    struct lost_rule loss;
    // The attempts so far to open a lost device, as the process before this one
    // noted them. If there were any, a device that does not open is no error
    // but COMPUTE_AWAY.
    struct lost_row row;
};

// Starts the compute thread and waits until it has opened the device, and tried
// to compute the test vector on it. Fails if the device does not open, unless
// setup->row says that it was lost before; SL_ENOMEM. *setup is copied.
enum sl_err compute_new(struct compute **out, const struct compute_setup *setup,
                        struct sl_error *err);

// Returns the device's name: "cpu: oneDNN 2.6.3, avx512, 2 threads"; for a team
// "2 devices, cpu: ...". While no device is open, the name of the last one. The
// text is c's, and changes when `changed` is called.
const char *compute_device(const struct compute *c);

// Returns the result of the test vector on the device that compute_new has
// opened; its `kind` is 0 if none was computed.
struct test_vector compute_vector(const struct compute *c);

// Returns the attempts so far to open the lost device, for compute_setup.row of
// the next process, as they were when `changed` was called last; the row is
// c's. To be called after COMPUTE_ANEW.
const struct lost_row *compute_row(const struct compute *c);

// Returns why there is no device (COMPUTE_AWAY, GONE or ANEW), as `changed` was
// told; "" if there is one. The text belongs to c, and is valid until the next
// `changed`.
const char *compute_away(const struct compute *c);

// Queues a lease, without waiting; `done` gives it back. Not after
// compute_quit.
void compute_submit(struct compute *c, struct lease *l);

// Has the thread free what it keeps of a job, behind the lease that runs (and
// the next one, if that is taken first); does not wait. Leases of the job that
// still wait in the queue would make it anew: the caller has closed their
// gates. Does nothing for a job that is not kept. Without memory the job stays
// until another needs its place.
void compute_forget(struct compute *c, uint64_t job);

// Tells the thread to end and waits for at most limit_ms; returns true if it
// has ended, false if it still runs. The caller has closed the gates of all
// submitted leases; `done` gives them back when the loop turns. May be called
// again; compute_free follows in any case.
bool compute_quit(struct compute *c, uint64_t limit_ms);

// Ends the thread, waits for it, and hands over the outcomes that were posted.
// The caller has closed the gates of all submitted leases. Turns the loop, so
// `done` and the other callbacks run within it; not called from one. NULL is
// allowed.
void compute_free(struct compute *c);

#endif
