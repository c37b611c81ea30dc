// SPDX-License-Identifier: Apache-2.0
// trainer/base/data_bad.h -- samples of a job that cannot be read, and are
// passed over (data.skip_bad).
//
// The next sample that can be read stands in for a sample that cannot: so the
// contents of a batch are a function of the files alone, the same on every
// worker, at every attempt and in every mode, and so are its size, its digest
// and the numbers of its samples, which count places. A sample that was found
// bad is not tried again.
//
// Both sets of a job share one list, which may outlive the job's record.
//
// Threads  any.
// Memory   counted references; unref(NULL) is allowed. Samples are copied.
// Units    samples by number.
// Errors   bad_note: one more than are allowed is SL_ERANGE, and names them.
//          `err` may be NULL.
#ifndef TRAINER_BASE_DATA_BAD_H
#define TRAINER_BASE_DATA_BAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define BAD_WHAT 112

struct bad_sample {
    bool test; // the sample is data.test's, else data.train's
    uint64_t number;
    char what[BAD_WHAT]; // name below the set's path, and what is wrong
};

struct data_bad;

// Makes a list of at most `most` bad samples, with one reference; NULL without
// memory. 0: none may be found.
struct data_bad *bad_new(uint32_t most);
// Take (and return `b`) and drop a reference; the last one dropped frees.
struct data_bad *bad_ref(struct data_bad *b);
void bad_unref(struct data_bad *b); // NULL is allowed

// Returns true once after one or more samples were found bad for the first
// time: the coordinator should be told soon.
bool bad_news(struct data_bad *b);

// Returns true if the sample was found bad before and may be passed over. False
// if there are too many: then it is read again, and its reader gets the error.
bool bad_has(struct data_bad *b, bool test, uint64_t number);

// Notes a bad sample, for the first time or again, with one log line if it is
// new. SL_ERANGE if there are more than allowed, this one or earlier ones.
enum sl_err bad_note(struct data_bad *b, const struct bad_sample *s,
                     struct sl_error *err);

// Copies up to `most` bad samples to report to `out` and returns how many:
// first those that were never reported, then the others, round and round, so
// that a coordinator that has forgotten them is told again. `out` has space for
// `most`; none is told twice in one call.
size_t bad_tell(struct data_bad *b, struct bad_sample *out, size_t most);

#endif
