// SPDX-License-Identifier: Apache-2.0
// proto/curves.h -- a job's statuses as the curves of two TensorBoard runs:
// JOB of its training, JOB/validation of its evaluations.
//
//     curves_take(status), curves_write, ... -> curves_free
//
// A point is at the number of steps that are counted. Points come at most once
// a second, and on a long job more and more rarely, so that its files stay
// small; the last one always comes. For a job that has counted steps, a
// resumed one or one that was watched before, files begin with a START, so
// that readers forget what an older file says of later steps; so does a job
// that falls back (steps that a lost psserver had).
//
// A file that cannot be written costs points and nothing else: what is not
// written yet waits for the next curves_write, up to a limit.
//
// Threads  one at a time: curves_take where statuses are, curves_write where a
//          disk may be waited for.
// Memory   the options are copied, their strings too, and the clock borrowed; a
//          status is borrowed until the call returns.
// Errors   curves_write says which file and why, and may be called again. `err`
//          may be NULL, and no option may.
#ifndef PROTO_CURVES_H
#define PROTO_CURVES_H

#include <stdbool.h>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "proto/jobs.pb-c.h"

struct curves;

struct curves_options {
    const char *root;  // a folder that is there; no link is followed below it
    const char *below; // where in it the runs lie; "": there
    const char *job;   // a name of a folder: "j-7"
    bool histograms;   // histograms of staleness too, if a status has shards
    const struct sl_clock *clock;
};

// Makes the curves of the job that `options` names; touches no file yet.
// SL_EINVAL: `below` leads out of the root. SL_ENOMEM. *out is then untouched.
enum sl_err curves_new(struct curves **out,
                       const struct curves_options *options,
                       struct sl_error *err);
// Closes the files and frees; points that wait are lost. NULL is allowed.
void curves_free(struct curves *c);

// Returns true if enough time has passed since the last point for curves_take
// to take another; before the first one, too.
bool curves_due(const struct curves *c);

// Takes a point of the training curve from status `s`, if there is none yet or
// its steps differ from those of the last point, and a point is due
// (curves_due) or `last` is true: s is the job's last status. None is taken
// while the job is placed, nor when all its steps are counted before the last
// status. Takes in any case the evaluations that s has beyond those taken
// before, but for one without values that are known, or at the step of the one
// before. `s` is a status with its spec or without. Only memory is written.
// SL_ENOMEM: a point of the training is left out, and the evaluations that were
// not taken wait for the next call.
enum sl_err curves_take(struct curves *c, const Sluice__V1__JobStatus *s,
                        bool last);

// Returns true if points wait to be written by curves_write.
bool curves_wait(const struct curves *c);
// Writes the points that wait to their files, which it makes when they are
// first needed, those of the training first: if they fail, the others are not
// tried. Waits for the disk. After an error they wait for the next call, unless
// they are more than a MiB or a part of them could not be removed from the
// file: then they are dropped, and a new file begins.
enum sl_err curves_write(struct curves *c, struct sl_error *err);

#endif
