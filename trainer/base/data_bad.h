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
// Takes one more reference and returns `b`.
struct data_bad *bad_ref(struct data_bad *b);
// Drops a reference; the last one frees the list. NULL is allowed.
void bad_unref(struct data_bad *b);

// Returns true once after one or more samples were found bad for the first
// time, so that the coordinator is told soon; then false until the next.
bool bad_news(struct data_bad *b);

// Returns true if the sample was found bad before and is to be passed over.
// False if more were found than are allowed: then it is read again, and its
// reader gets the error.
bool bad_has(struct data_bad *b, bool test, uint64_t number);

// Notes a bad sample, *s, which is copied, for the first time or again; if it
// is new, and the list takes it, writes a log line and makes bad_news true.
// Returns SL_OK if the sample may be passed over. SL_ERANGE if there are more
// than allowed, this one or earlier ones; the list has the first that was too
// many, and takes no more.
enum sl_err bad_note(struct data_bad *b, const struct bad_sample *s,
                     struct sl_error *err);

// Copies bad samples for a report to out[most], and returns how many: first
// those that were never reported, then the others in turn, so that a
// coordinator that has forgotten them hears of them again. 0 if none was found.
// None is copied twice in one call. Leaves bad_news as it is.
size_t bad_tell(struct data_bad *b, struct bad_sample *out, size_t most);

#endif
