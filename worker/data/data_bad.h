// SPDX-License-Identifier: Apache-2.0
// worker/data/data_bad.h -- samples of a job that cannot be read, and are
// passed over (data.skip_bad).
//
// The next sample that can be read stands in for one that cannot: what a batch
// holds is then a function of the files alone, the same on every worker, at
// every attempt and in every mode, and so are its size, its digest and the
// numbers of its samples, which count places and not what lies there. What was
// found once is not tried again.
//
// One is shared by both sets of a job, whatever becomes of the job's record.
//
// Threads  any.
// Memory   counted references; unref(NULL) is allowed.
// Units    samples by number.
// Errors   bad_note: one more than are allowed is SL_ERANGE, and names them.
#ifndef WORKER_DATA_DATA_BAD_H
#define WORKER_DATA_DATA_BAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define BAD_WHAT 112

struct bad_sample {
    bool test; // of data.test
    uint64_t number;
    char what[BAD_WHAT]; // its name below the set's path, and what is wrong
};

struct data_bad;

// NULL: no memory.
struct data_bad *bad_new(uint32_t most);
struct data_bad *bad_ref(struct data_bad *b);
void bad_unref(struct data_bad *b);

// True once after something was found: somebody should be told soon.
bool bad_news(struct data_bad *b);

// True if it was found before, and may be passed over: not once there are too
// many, so that whoever reads it then hears of that.
bool bad_has(struct data_bad *b, bool test, uint64_t number);

// Notes what was found, for the first time or again.
enum sl_err bad_note(struct data_bad *b, const struct bad_sample *s,
                     struct sl_error *err);

// Up to `most` of what was found, for who is to be told: first what nobody was
// told of, then what was told, round and round, so that someone who has
// forgotten is told again. How many they are.
size_t bad_tell(struct data_bad *b, struct bad_sample *out, size_t most);

#endif
