// SPDX-License-Identifier: Apache-2.0
// common/run/expo.h -- writes figures as Prometheus reads them (text format
// 0.0.4, or OpenMetrics 1.0.0).
//
//     expo_family(e, "sluice_jobs", EXPO_GAUGE, "Jobs, by state.");
//     expo_value(e, 3, "state", "running", NULL);
//
// A family's name ends in _total if and only if it is a counter; its unit is in
// the name. A label has few values, all known: no id, no name of a user's, no
// path.
//
// Threads  one at a time.
// Memory   the text is the buf's. Label names, values and help are copied; a
//          family's name is borrowed until the next one.
// Errors   SL_ENOMEM, which expo_end returns for all calls before it (they
//          return nothing): the text is incomplete, and stays in the buf. A
//          family's name with the wrong end asserts.
#ifndef COMMON_RUN_EXPO_H
#define COMMON_RUN_EXPO_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/histogram.h"

enum expo_kind { EXPO_COUNTER, EXPO_GAUGE, EXPO_HISTOGRAM };

struct expo {
    struct buf *out;
    bool open;        // OpenMetrics
    const char *name; // family that was begun last; borrowed
    enum sl_err rc;   // the first error
};

// Begins a text at the end of `out`, which is borrowed until expo_end; `open`:
// in OpenMetrics' format.
void expo_begin(struct expo *e, struct buf *out, bool open);

// Ends the text, once. Returns the first error of all calls since expo_begin
// (SL_ENOMEM), else SL_OK; nothing is to be freed.
enum sl_err expo_end(struct expo *e);

// Begins a family, to which the next samples belong; `help` is one sentence.
// Each family once in a text.
void expo_family(struct expo *e, const char *name, enum expo_kind kind,
                 const char *help);

// Writes one sample of the family, after expo_family, with pairs of label and
// value, both strings, that NULL ends.
void expo_value(struct expo *e, double value, ...) __attribute__((sentinel));

// Writes a family of one sample without labels.
void expo_single(struct expo *e, const char *name, enum expo_kind kind,
                 const char *help, double value);

// Writes one histogram of the family, in the unit that is shown, with pairs of
// label and value that NULL ends.
void expo_histogram(struct expo *e, const struct histogram *h, ...)
    __attribute__((sentinel));

#endif
