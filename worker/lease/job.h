// SPDX-License-Identifier: Apache-2.0
// worker/lease/job.h -- what the compute thread keeps of a job between
// closures: model, data, programs, the connection to its shards.
//
// Threads  the compute thread; its data is also read by the input thread,
//          while a run of it is open.
// Memory   job_free, when no run of its data is open.
// Errors   a code says whose fault it is (task_fail): the job's own (a bad
//          file, a model that cannot be computed) or this host's.
#ifndef WORKER_LEASE_JOB_H
#define WORKER_LEASE_JOB_H

#include "common/base/clock.h"
#include "common/base/list.h"
#include "proto/spec.h"
#include "worker/compile/compile.h"
#include "worker/data/input.h"
#include "worker/device/device.h"
#include "worker/device/step.h"
#include "worker/device/team_work.h"
#include "worker/device/loss_scale.h"
#include "worker/sync/peers.h"
#include "worker/lease/record.h"

#define JOB_PROGRAMS 8

// What jobs are made of; one per compute thread.
struct job_env {
    struct kern_dev *dev;
    struct team *team; // that computes with it; NULL: nobody does
    struct peers *peers;
    const struct sl_clock *clock;
    const struct roots *roots; // where data may lie; NULL: nowhere
    void (*want_map)(void *arg, uint64_t job, uint64_t have);
    void (*found)(void *arg); // news of a record's `bad`; NULL: nobody asks
    void *arg;
};

// What a program is for: to evaluate; to train, and of that to write a gradient
// or to add to the one that is there.
enum job_use { JOB_EVALUATES, JOB_TRAINS, JOB_ADDS };

struct job_program {
    struct program *program;
    uint32_t batch;         // of a team, all of it; the program's is less
    struct overlap overlap; // of one that trains
    struct device_program *placed; // NULL: it runs in host memory
    struct team_program *mates;    // NULL: there is no team
    uint64_t used;
};

struct job {
    struct list_node node; // kept.h's
    uint64_t bytes;        // that it takes, as kept.h was told last
    struct record *record;
    const struct job_env *env;
    struct model *model;
    enum spec_loss loss;
    struct spec_optimizer optimizer; // clipping
    bool skip_nonfinite;
    uint32_t max_nonfinite; // consecutive; 0: no limit
    uint32_t nonfinite;     // so far
    uint32_t looked;        // so often for the sample that is why
    enum spec_precision precision;
    struct loss_scale scale; // f16
    bool told_precision;     // in the log
    struct data *train, *test;
    // A set cannot be opened here, or is not what the first worker found; what
    // was found instead.
    bool data_amiss, data_differs;
    Sluice__V1__DataFacts found;
    struct sync *sync;
    struct job_ring *ring; // of a job whose workers are ranks; else NULL
    struct hybrid *hybrid; // of one whose workers compute in groups; else NULL
    // Of the flat vector: what leaves, and becomes fresh, at one time.
    const struct overlap_range *ranges;
    uint32_t ranges_count;
    float *cut;            // parameters to evaluate; NULL until then
    uint64_t cut_number;   // whose they are; 0: nobody's
    struct device *device; // NULL: steps compute in host memory
    struct team_job *team; // what mates have of it; NULL: there are none
    struct program_memory memory;
    struct job_program programs[JOB_PROGRAMS];
    uint64_t uses;
    struct pulse *pulse; // of the lease that it works for now, or NULL
};

// Checks model and spec; opens nothing.
enum sl_err job_new(struct job **out, struct record *record,
                    const struct job_env *env, struct sl_error *err);
void job_free(struct job *j); // NULL is allowed

// Opens the training or the test set, once, and compares it with what the
// first worker found.
enum sl_err job_data(struct job *j, bool test, struct data **out,
                     struct sl_error *err);

// What is to be read of the training set: positions [first, first + count) of
// an epoch's order, in micro-batches. Opens the set; input_open is the
// caller's.
enum sl_err job_run(struct job *j, struct input_run *run, uint64_t epoch,
                    uint64_t first, uint64_t count, struct sl_error *err);

// What this worker finds; without a test set its part is 0.
enum sl_err job_facts(struct job *j, Sluice__V1__DataFacts *out,
                      struct sl_error *err);

// What the job has on a device that has memory of its own, made when first
// wanted; j->device stays NULL if it has none.
enum sl_err job_device(struct job *j, struct sl_error *err);

// The space for a cut's parameters, made when first wanted.
enum sl_err job_cut(struct job *j, struct sl_error *err);

// The sync, made when first wanted. SL_ESTATE if the job is not placed.
enum sl_err job_sync(struct job *j, struct sync **out, struct sl_error *err);

// A program for a batch of that size, or for the first device's part of it:
// with the job's loss and precision, and fed with what its data is. Opens that.
enum sl_err job_compile(struct job *j, enum job_use use, uint32_t batch,
                        struct program **out, struct sl_error *err);

// What a step runs of a program.
struct step_program job_step_program(const struct job_program *p);

// The program for a batch of that size, made when first wanted.
enum sl_err job_program(struct job *j, enum job_use use, uint32_t batch,
                        struct job_program **out, struct sl_error *err);

// About so many bytes of memory does it take, of a device and of the host: its
// vectors, programs and data.
uint64_t job_bytes(const struct job *j);

// What it will take at least, before it is made.
uint64_t job_bytes_least(const struct record *record);

#endif
