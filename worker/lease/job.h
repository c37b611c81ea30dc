// SPDX-License-Identifier: Apache-2.0
// worker/lease/job.h -- what the compute thread keeps of a job between
// closures: model, data, programs, the connection to its shards.
//
// Threads  the compute thread; its data is also read by the input thread,
//          while a run of it is open.
// Memory   worker_job_free, when no run of its data is open. What a function
//          returns in *out is the job's, made when first wanted, and lives as
//          long as the job, unless it says otherwise.
// Errors   a code says whose fault it is (lease_fail): the job's own (a bad
//          file, a model that cannot be computed) or this host's. On failure
//          *out is untouched, and what was made before stays. `err` may be
//          NULL.
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
#include "trainer/base/nonfinite.h"
#include "trainer/push/peers.h"
#include "trainer/lease/record.h"
#include "worker/lease/inner.h"
#include "worker/lease/job_rows.h"

#define JOB_PROGRAMS 8

// What jobs are made of; one per compute thread.
struct job_env {
    struct kern_dev *dev;
    struct team *team; // other devices that compute with `dev`; NULL: none
    struct peers *peers;
    const struct sl_clock *clock;
    const struct roots *roots;       // folders where data may lie; NULL: none
    const struct index_place *index; // of data's records; NULL: none is kept
    void (*want_map)(void *arg, uint64_t job, uint64_t have);
    void (*found)(void *arg); // a record's `bad` has news; NULL: not wanted
    void *arg;
};

// The purpose of a program: to evaluate; to train and write the gradient; to
// train and add to the gradient that is there.
enum job_use { JOB_EVALUATES, JOB_TRAINS, JOB_ADDS };

struct job_program {
    struct program *program;
    uint32_t batch;                // samples, all members of a team together
    struct overlap overlap;        // ops by range, if the program trains
    struct device_program *placed; // NULL: it runs in host memory
    struct team_program *mates;    // the other members' programs; NULL: no team
    uint64_t used;                 // job.uses when it was last wanted
};

struct worker_job {
    struct list_node node; // kept.h's
    uint64_t bytes;        // memory that it takes, as kept_weigh was told last
    struct record *record;
    const struct job_env *env;
    struct model *model;
    enum spec_loss loss;
    struct spec_head heads[MODEL_OUTPUTS_MAX];
    size_t heads_count; // losses of several outputs; 0: there is one
    struct spec_optimizer optimizer; // the clipping is read from it
    struct nonfinite nonfinite;      // judges steps that are not finite
    uint32_t looked; // searches so far for a sample that is not finite
    enum spec_precision precision;
    struct loss_scale scale; // f16
    bool told_precision;     // `precision` was logged
    struct data *train, *test;
    struct data *whole; // both are of it (data.validation); NULL: they are not
    struct augment augment; // count 0: samples are trained on as they are
    // A data set cannot be opened here, or differs from what the first worker
    // found; `found` is what this worker found instead.
    bool data_amiss, data_differs;
    Sluice__V1__DataFacts found;
    struct sync *sync;
    struct job_rows *rows; // NULL: no layer has rows of a table; or no sync yet
    struct inner *inner;   // NULL unless in mode local; or no sync yet
    uint32_t alone;        // contributions that are to be of one closure (L6)
    struct job_ring *ring; // NULL unless the job's workers are ranks
    struct hybrid *hybrid; // NULL unless its workers compute in groups
    // Ranges of the flat vector: shards, or a ring's buckets. Each leaves, and
    // becomes fresh, at one time.
    const struct elements *ranges;
    uint32_t ranges_count;
    float *cut;            // parameters to evaluate; NULL until then
    uint64_t cut_number;   // number of the cut in `cut`; 0: none
    struct device *device; // NULL: steps compute in host memory
    struct team_job *team; // the job on the other devices; NULL: no team
    struct program_memory memory;
    struct job_program programs[JOB_PROGRAMS];
    uint64_t uses;       // uses of all programs so far
    struct pulse *pulse; // pulse of the lease under way; NULL between leases
};

// Makes a job from its record: checks model and spec, opens nothing. SL_ENOTSUP
// if the model is external. Takes a reference to the record; `env` is borrowed
// as long as the job.
enum sl_err worker_job_new(struct worker_job **out, struct record *record,
                           const struct job_env *env, struct sl_error *err);
// Waits for the job's device and its shards' calls, detaches its sync from the
// record, and frees. NULL is allowed.
void worker_job_free(struct worker_job *j);

// Sets *out to the training set, or with `test` to the test set. The first call
// opens it, which may read long files, and compares it with what the first
// worker found. A set that did not open is tried again by the next call.
// SL_EINVAL also if the job has no such set, or the comparison fails. With the
// training set, sets j->augment and the weights of its classes. A set that does
// not open sets j->data_amiss, one that differs j->data_differs and j->found as
// well. A test set of folders without names of classes opens the training set,
// too.
enum sl_err job_data(struct worker_job *j, bool test, struct data **out,
                     struct sl_error *err);

// Fills `run` with what is to be read of the training set: positions [first,
// first + count) of an epoch's order, in micro-batches, with j->pulse. Opens
// the set; the caller sets `job` and `closure`, and calls input_open. On
// failure *run is not to be used.
enum sl_err job_run(struct worker_job *j, struct input_run *run, uint64_t epoch,
                    uint64_t first, uint64_t count, struct sl_error *err);

// Sets *out to the sizes, hashes and classes of the job's data that this worker
// finds; fields of a test set that the job does not have are 0. Opens both
// sets. The classes, of which none are told beyond SPEC_CLASSES_BYTES, are
// allocated for the caller. On failure *out is untouched, or, if memory for
// classes was short, has some of them: *out was zeroes before. Fails, and
// notes, as job_data.
enum sl_err job_facts(struct worker_job *j, Sluice__V1__DataFacts *out,
                      struct sl_error *err);

// Makes the job's vectors on a device that has memory of its own (j->device),
// and those of the team, unless they are there. j->device stays NULL for a
// device without memory of its own.
enum sl_err job_device(struct worker_job *j, struct sl_error *err);

// Makes the space for a cut's parameters, j->cut, unless it is there; its
// contents are undefined until they are read. SL_ENOMEM.
enum sl_err job_cut(struct worker_job *j, struct sl_error *err);

// Returns in *out the job's sync, made when first wanted, and attached to the
// record (record_attach): over the vectors of the job's device if it has one,
// but not of a stream (mode local, inner.h), nor of a ring, where it is the way
// to rows of tables alone. Makes j->rows and j->inner, too, where the job wants
// them. SL_ESTATE if the job has no shards yet; SL_ENOMEM; the errors of
// job_device, job_rows_new and inner_new. The job has psservers.
enum sl_err job_sync(struct worker_job *j, struct sync **out,
                     struct sl_error *err);

// Compiles a program for a batch of `batch` samples, or for the first device's
// part of it (the team is known after job_device), with the job's loss and
// precision and the type of its data. Opens the training set, or to evaluate
// the test set. May take seconds, in which j->pulse beats. No step of the job
// is under way on the device. The program is the caller's, to be freed
// (program_free) before the job.
enum sl_err job_compile(struct worker_job *j, enum job_use use, uint32_t batch,
                        struct program **out, struct sl_error *err);

// Returns the parts of *p as a struct step_program, for step_begin.
struct step_program job_step_program(const struct job_program *p);

// Returns in *out the program for a batch of `batch` samples, made when first
// wanted, and the job's until JOB_PROGRAMS others were wanted. Not while the
// loss or gradients of a step are still to be taken: making one waits for the
// device, gives such a step up, and then drops the least recently used one,
// also if it fails. It logs the job's precision, once, and notes in the record
// which kernels are left out (record_leave_out). Makes what job_device makes,
// and opens the data, too; job_sync need not come before.
enum sl_err job_program(struct worker_job *j, enum job_use use, uint32_t batch,
                        struct job_program **out, struct sl_error *err);

// Returns about how many bytes of memory the job takes, of a device and of the
// host: its vectors, programs and data.
uint64_t job_bytes(const struct worker_job *j);

// Returns how many bytes a job of `record` will take at least, before it is
// made: its vectors.
uint64_t job_bytes_least(const struct record *record);

#endif
