// SPDX-License-Identifier: Apache-2.0
// coordinator/service/audit.h -- who changed what: a line per call that is
// meant to change something, in audit.log of the state folder.
//
// Threads  the loop's.
// Memory   audit_free frees; everything else is borrowed.
// Errors   A line that cannot be written is in the daemon's log, and the call
//          goes on: what it did is in the journal.
#ifndef COORDINATOR_SERVICE_AUDIT_H
#define COORDINATOR_SERVICE_AUDIT_H

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "proto/access.h"

struct audit;

// A log that does not hold is renamed, and a new one begun.
enum sl_err audit_new(struct audit **out, struct fs *fs,
                      const struct sl_clock *clock, const char *folder,
                      struct sl_error *err);
void audit_free(struct audit *a); // NULL is allowed

// What came of a call: `job` is an id, or what the caller said for one.
void audit_write(struct audit *a, const struct access_who *who,
                 const char *call, const char *job, enum sl_err rc,
                 const struct sl_error *why);

#endif
