// SPDX-License-Identifier: Apache-2.0
// worker/data/input.h -- batches, ready before they are asked for.
//
// A run is the batches of one closure: step k holds the samples at positions
// [first + k batch, ...) of an order. A thread of its own reads them into a
// ring of slots, the run in use first, so that the next lease's first batches
// are there when the present closure ends. A run may be read from any step, in
// any order: what was read in vain is thrown away. A consumer that wants only
// some of the steps says which (input_share), and no others are read ahead.
//
// Where reading a sample is work (data_shared: images are decoded, or they are
// changed), more threads help it, a few samples at a time. Which samples a
// batch holds, and at which place, is the same with any number of threads; so
// is the error, which is that of the first sample that has one.
//
// A device copies fastest out of memory of its own (pinned). Only the consumer
// may ask for that, so a slot has it from its first input_put on, and again
// when a batch was larger: then batches are read right into it.
//
//   input_open(run) ... input_get(run, 0) .. input_put, input_get(run, 1) ..
//   input_put, ... input_close(run)
//
// Threads  input_open, _get, _put, _ready, _ids, _share, _close, _memory and
//          _free: one consumer (the compute thread); input_open may also be
//          called by other threads, and input_look by any while the run is
//          open. The data of a run is read by the input threads, from open
//          until close has returned.
// Memory   A run is the caller's and lives from open to the end of close. A
//          batch is borrowed from get to put. Slots keep their buffers, so a
//          steady state allocates nothing.
// Errors   input_get: those of data_read (data.h); SL_ERANGE past the last
//          step; SL_ENOMEM; SL_ECANCELED: the run's pulse is over. `err` may be
//          NULL. input_new: SL_ENOMEM.
#ifndef WORKER_DATA_INPUT_H
#define WORKER_DATA_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"
#include "plan/order.h"
#include "common/base/status.h"
#include "worker/data/augment.h"
#include "worker/data/data.h"

#define INPUT_SLOTS 4
#define INPUT_THREADS 16 // most threads by default
#define INPUT_THREADS_MAX 256

struct input;

// Restricts a run to steps [from, end) of each `period` steps. Period 0: all
// steps.
struct input_share {
    uint32_t period, from, end;
};

struct input_run {
    struct data *data;
    bool shuffle; // false: position is the sample's number
    struct order order;
    uint64_t epoch;        // the digest depends on it
    uint64_t first, count; // positions in the order
    uint32_t batch;
    uint64_t job, closure;    // numbers that spans.h shows
    struct input_share share; // set before input_open, or by input_share
    struct pulse *pulse;      // pulse of the attempt that reads it, or NULL
    // Changes what was read; borrowed while the run is open. NULL: nothing
    // does.
    const struct augment *augment;

    // The input's own, under its lock.
    struct list_node node;
    uint32_t next; // next step to read
    bool asked;    // the consumer waits for `next`
};

struct batch {
    void *x; // f32 or u8: data_is_u8
    void *y;
    const struct id_bag *ids; // of each id column of the data; NULL: none
    bool pinned;              // x and y lie in memory from input_memory
    uint32_t n;               // samples
    uint32_t step;
    uint64_t digest; // sum of schedule_digest over its samples
};

// Returns the number of steps of a run.
uint32_t input_run_steps(const struct input_run *run);
// Returns the number of samples in a step: `batch`, fewer in the last step, 0
// past it.
uint32_t input_run_samples(const struct input_run *run, uint32_t step);

// Starts `threads` threads; 0: one per core this process may use, at most
// INPUT_THREADS. SL_ENOMEM leaves *out as it was.
enum sl_err input_new(struct input **out, unsigned threads,
                      struct sl_error *err);
// Ends the threads, waits for them, and frees the batches' memory. All runs
// were closed, and all batches put back. NULL is allowed.
void input_free(struct input *in);

// A source of memory for batches, called by the consumer's thread only.
struct input_memory {
    // Called by input_put, for x or y of a batch from the heap. NULL: memory is
    // out; batches stay on the heap then, and none is asked for any more.
    void *(*get)(void *arg, size_t bytes);
    void (*give)(void *arg, void *at, size_t bytes);
    void *arg;
};
// Frees the memory that slots have from the source before, and takes memory
// from `m`, which is copied, from now on; NULL: from the heap alone. No run may
// be open, and no batch taken. The source is used until another one is set, or
// until input_free has returned.
void input_memory(struct input *in, const struct input_memory *m);

// Starts reading a run, behind the runs that are open already; does not wait.
// The caller has filled in its first fields; it must not move until
// input_close.
void input_open(struct input *in, struct input_run *run);

// Waits until the batch of a step of an open run is read, and sets *out to it,
// on loan until input_put. Throws away batches of earlier steps of the run that
// were read and not got; all of them, if this step is not read or being read
// yet, and perhaps some of another run: then this run is read first from now
// on. The step may lie outside the share. On failure nothing is lent; the step
// may be asked for again. At most INPUT_SLOTS batches may be on loan: a call
// for one more waits for ever.
enum sl_err input_get(struct input *in, struct input_run *run, uint32_t step,
                      struct batch *out, struct sl_error *err);
// Gives a batch back: its slot is free for another one. Called once per
// input_get, also after input_close. May ask input_memory's source for memory.
void input_put(struct input *in, const struct batch *batch);

// Returns true if the batch of a step has been read, or reading it has failed,
// so that input_get does not wait.
bool input_ready(struct input *in, const struct input_run *run, uint32_t step);

// Returns the bags of ids of a step's batch, one for each id column, if that
// has been read; NULL if it has not, could not be, or has no ids. Borrowed
// until the consumer's next input_get, _put, _share or _close.
const struct id_bag *input_ids(struct input *in, const struct input_run *run,
                               uint32_t step);

// Reads a sample of an open run's data by its number once more, as the file has
// it (not changed by run->augment), on any thread, while batches are read
// ahead. x and y are as of data_read. Waits for the sample, and for the one
// that is being read if the data is not shared. Errors are data_read's.
enum sl_err input_look(struct input *in, const struct input_run *run,
                       uint64_t sample, void *x, void *y, struct sl_error *err);

// Sets which steps of an open run are read ahead from now on (input_get gets
// the others as well); batches that were read ahead are thrown away, if the
// share changes.
void input_share(struct input *in, struct input_run *run,
                 struct input_share share);

// Ends the reading of the run; waits for a read that is under way. Batches of
// it that are on loan are put back as before. Called once per input_open, while
// no input_get of the run is under way.
void input_close(struct input *in, struct input_run *run);

#endif
