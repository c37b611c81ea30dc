// SPDX-License-Identifier: Apache-2.0
// client/show/follow.h -- a job's status, again and again, until it has ended.
//
//     follow_dial -> follow_open -> follow_next ... -> follow_close
//
// The stream is the coordinator's Watch. When it breaks, follow dials again
// with a growing, jittered pause for as long as it takes: an accepted job
// survives its coordinator. SIGINT and SIGTERM arrive as events.
//
// Threads  main; messages are handed over by an I/O thread.
// Memory   an event's status holds until the next follow_next. The api is
//          borrowed until follow_close, and the caller's to close (api_close)
//          after that; ids are copied. No pointer but `err` may be NULL where
//          it is not said.
// Errors   *out is untouched after a failure; `err` may be NULL.
#ifndef CLIENT_SHOW_FOLLOW_H
#define CLIENT_SHOW_FOLLOW_H

#include "client/call/api.h"

enum follow_kind {
    FOLLOW_STATUS,    // event.status is new
    FOLLOW_NOTHING,   // the time is up
    FOLLOW_AWAY,      // the stream broke or ended: event.err, without a text if
                      // the coordinator ended it; said once, until a status
                      // comes again
    FOLLOW_INTERRUPT, // Ctrl-C, or SIGTERM
    FOLLOW_FAILED,    // event.err: the job is not there any more, a status that
                      // cannot be read, or the like
};

struct follow_event {
    enum follow_kind kind;
    int signum; // FOLLOW_INTERRUPT
    bool back;  // FOLLOW_STATUS: the first one after FOLLOW_AWAY
    Sluice__V1__JobStatus *status; // FOLLOW_STATUS
    struct sl_error err;           // FOLLOW_AWAY, FOLLOW_FAILED
};

struct follow_stream;

// Opens *api as api_open does, so that no thread of it takes SIGINT and
// SIGTERM. Unblocks both: until follow_open they end the process, as they do
// while a verb waits for an answer; after a failure, too. Connects with the
// first call only. `conf` must outlive the api. SL_EINVAL: a wrong address or
// --tls-*; SL_EDENIED: the address is not local, and no --tls-* is given; those
// of the certificate files and of rpc_io_new; SL_EIO; SL_ENOMEM.
enum sl_err follow_dial(struct api_client **api, const struct conf *conf,
                        struct sl_error *err);

// Unblocks SIGINT and SIGTERM, so that they end the process: while a verb waits
// for an answer, or when a watch is over.
void follow_unblock(void);
// Blocks SIGINT and SIGTERM, so that they are events of follow_next. Returns
// SL_OK or SL_EIO.
enum sl_err follow_block(struct sl_error *err);

// Watches job `id`; its statuses have its spec, and with `shards` its shards.
// The first connection is tried at once; follow_next tells whether it came
// about. Blocks SIGINT and SIGTERM as follow_block does; after a failure they
// are as they were. SL_EIO, SL_ENOMEM.
enum sl_err follow_open(struct follow_stream **out, struct api_client *api,
                        const char *id, bool shards, struct sl_error *err);

// Waits for the next event, for wait_ms at most (0 or more), and sets *event;
// FOLLOW_NOTHING if there was none. Statuses that came since but the newest are
// left out; its strings are as those of a reply (api.h). Dials again if the
// stream broke, at once and without FOLLOW_AWAY while another address of a list
// was not tried. After FOLLOW_FAILED, and after the status of a job that has
// ended, the caller calls follow_close: the stream's end behind that status
// would be told as FOLLOW_AWAY.
void follow_next(struct follow_stream *f, int wait_ms,
                 struct follow_event *event);
// Ends the watch, and waits for its last callback; signals stay blocked
// (follow_unblock). NULL is allowed.
void follow_close(struct follow_stream *f);

// ---- the whole of it, as submit, watch and wait do

struct follow_options {
    bool quiet;        // no progress, no evaluations, no reduced rates
    bool cancel;       // Ctrl-C and SIGTERM stop the job instead of detaching,
                       // and the watch goes on; a second one ends it
    bool summary_text; // print the closing table (or its JSON)
    bool lines;        // only with -o json: each status goes to stdout, too, on
                       // one line
    const char *summary; // where summary.json goes; "-": stdout, and
                         // evaluations to stderr; NULL: nowhere
    int64_t period_ms;   // between statuses of `lines`, or lines of progress
                         // where stderr is no terminal
    uint64_t until_step; // end with 0 when so many steps are counted; 0: no
    const char *tensorboard; // a folder for curves; NULL: none are written
    bool histograms;         // and of the delays of updates too
};

struct cli;

#define FOLLOW_EXIT_TERMINATED 143 // SIGTERM came, as a shell has it

// Checks that options->summary can be written, and makes the folder
// options->tensorboard; to be called before there is a job to wait for. Returns
// SL_OK, or an error of target.h or fs_mkdirs.
enum sl_err follow_can_write(const struct follow_options *options,
                             struct sl_error *err);

// Follows job `id` to its end, and waits so long, also while the coordinator is
// away; writes what `options` asks for. Returns the exit code: 0 if it
// finished, or reached options->until_step; CLI_EXIT_FAILED if it failed or was
// stopped, or ended before until_step; 130 (CLI_EXIT_INTERRUPTED) or
// FOLLOW_EXIT_TERMINATED if SIGINT or SIGTERM ended the watch; else what stands
// for the error. If it is not 0, stderr has the reason. Both signals are
// unblocked when it returns. `options` and `api` are borrowed for the call; the
// api stays open.
int follow_job(struct cli *cli, struct api_client *api, const char *id,
               const struct follow_options *options);

#endif
