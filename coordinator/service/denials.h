// SPDX-License-Identifier: Apache-2.0
// coordinator/service/denials.h -- calls that would change something and did
// not, on their way to the audit log: calls that their callers may not make,
// and calls that failed.
//
// A caller that is refused may try again as fast as it likes, and must not fill
// a disk by it. So the first denial of a caller and a call is a line at the
// next tick; those that follow within DENIALS_MS are counted, and are one line.
// Calls that are allowed and fail have DENIALS_WHOLE lines a minute of their
// own; the failures beyond are one line at the minute's end. Each caller and
// call has an entry; beyond DENIALS_CALLERS of them at a time all others are
// counted together, and none of these has a line of its own.
//
// Threads  denials_note, denials_whole: any; the rest: the loop's.
// Memory   DENIALS_CALLERS + 1 entries, for ever. What is passed is copied but
//          for the names of calls, which must live as long as the process.
// Errors   SL_ENOMEM of denials_new; nothing else fails. `err` may be NULL.
#ifndef COORDINATOR_SERVICE_DENIALS_H
#define COORDINATOR_SERVICE_DENIALS_H

#include "common/base/clock.h"
#include "coordinator/service/audit.h"

#define DENIALS_CALLERS 32
#define DENIALS_MS ((uint64_t)600000)
#define DENIALS_FAILED_MS ((uint64_t)60000)
#define DENIALS_WHOLE 10

struct denials;

// Makes the table; `audit` and `clock` are borrowed until denials_free. *out is
// untouched on failure.
enum sl_err denials_new(struct denials **out, struct audit *audit,
                        const struct sl_clock *clock, struct sl_error *err);

// Hands all that was counted to the audit log, due or not, which is freed
// later; then frees d. NULL is allowed.
void denials_free(struct denials *d);

// Counts a call, by its name `call`, that was refused for its caller's role;
// `why`, copied, is not NULL. A later tick writes the line.
void denials_note(struct denials *d, const struct rpc_peer *peer,
                  const char *call, const struct sl_error *why);

// Returns true if this call, which was allowed and failed (line->why is not
// NULL), is to be a line of its own in the audit log, which the caller writes;
// else counts it for a later line and returns false.
bool denials_whole(struct denials *d, const struct audit_line *line);

// Hands the lines that are due to the audit log; waits for no disk. To be
// called once per tick.
void denials_tick(struct denials *d);

#endif
