// SPDX-License-Identifier: Apache-2.0
// client/up/gpus.h -- which GPUs of this host `sluice up --gpus` gives a
// worker.
//
// The client computes nothing, so it asks the worker program
// (worker --list-devices=json).
//
// Threads  main. Memory  values only. Units  ordinals count from 0.
// Errors   SL_EINVAL: not "all" or a number; SL_ENOTSUP: fewer GPUs than
//          wanted, with what the worker said of them; those of command_run
//          and sl_json_parse. *out is untouched; `err` may be NULL.
#ifndef CLIENT_UP_GPUS_H
#define CLIENT_UP_GPUS_H

#include "common/base/status.h"

#define GPUS_MOST 64

struct gpus {
    unsigned count;
    unsigned ordinal[GPUS_MOST]; // usable ones, in order
};

// Asks the worker program at path `worker` for its GPUs, waiting up to a
// minute, and sets *out to those that `wanted`, the value of --gpus ("all" or a
// number from 1 to GPUS_MOST), takes: the first ones that are usable.
enum sl_err gpus_find(struct gpus *out, const char *worker, const char *wanted,
                      struct sl_error *err);

// Sets *out as gpus_find does, from `listing`, the output of the worker
// program: a line of it is a JSON array.
enum sl_err gpus_choose(struct gpus *out, const char *listing,
                        const char *wanted, struct sl_error *err);

// Returns the number of workers for the GPUs, with `each` GPUs per worker (1 to
// GPUS_PER_WORKER); the last worker may have fewer.
unsigned gpus_workers(const struct gpus *g, unsigned each);

#define GPUS_PER_WORKER 16
#define GPUS_LIST 160

// Writes the GPUs of worker number `worker`, below gpus_workers, as its
// --device: "cuda:0,cuda:1".
void gpus_list(char out[GPUS_LIST], const struct gpus *g, unsigned each,
               unsigned worker);

#endif
