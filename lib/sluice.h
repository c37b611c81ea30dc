// SPDX-License-Identifier: Apache-2.0
// lib/sluice.h -- a training program of your own as a worker of a cluster.
//
// The program computes gradients; where, in which framework, is its business.
// This library makes each step count once, whichever process is killed, with
// the code of our own worker.
//
//     struct sluice_options o = {.size = sizeof(o),
//                                .coordinator = "10.0.0.1:7070"};
//     struct sluice_closure *c;
//     struct sluice_step step;
//
//     sluice_open(&s, &o, &err);
//     while ((rc = sluice_take(s, -1, &c, &err)) == SL_OK) {
//         while (sluice_begin(c, &step, &err) == SL_OK && !step.none) {
//             // read sluice_params(c), write sluice_grads(c)
//             sluice_end(c, &(struct sluice_result){.loss_sum = loss}, &err);
//         }
//         sluice_finish(c, NULL);
//     }
//     sluice_close(s);
//
// The job's model is `external`: a list of variables. They lie one after
// another, row major, f32, in one flat vector; their gradient in another. The
// gradient is that of the *mean* loss over the samples of the step.
//
// A job in allreduce mode has no psservers, but for rows of tables: each
// program is a rank, which keeps the whole state and sums its gradients with
// the others'. The loop above is the same. A closure is one step there, and
// what was computed counts when all ranks have applied its round; one that is
// lost before (a rank has died, or come) is given again, to this rank or
// another. While sluice_take waits the rank takes part in all else: it sums,
// writes parts of checkpoints, gives its state to newcomers; so a program that
// computes something else keeps the others waiting.
//
// In hybrid mode programs form groups, and a closure is one micro-batch of a
// step that a group computes together: `train.batch` samples of as many as the
// group has (train.group.size), however many programs are there. Their
// gradients are summed, and the group's first program, its leader, pushes the
// mean to the psservers on a thread of the library's: the programs do not see
// which of them it is. What was computed counts when that push does; a step
// that the group did not get to the end of is computed again, by the programs
// that are there.
//
// A closure that was lost (the job ended, a heartbeat did not get through,
// another worker has it) says so with SL_ECANCELED from sluice_begin and from
// each call of a step, as often as one is made. Nothing is wrong then: finish
// it and take the next one.
//
// Threads  A session and its closure belong to one thread at a time;
//          sluice_drain and sluice_attach: any. A session has one closure
//          under way: a program that computes in several threads opens several
//          sessions. Threads of its own send, receive and keep leases alive.
// Memory   Options, and strings that are passed, are copied. A session is freed
//          by sluice_close, a closure by sluice_finish or sluice_fail: neither
//          pointer may be used after that. The two vectors are the session's;
//          their addresses stay until sluice_take says that the job has ended
//          (or is at fault), or the session has had eight other jobs since. A
//          range of the gradient that was said to be ready, and all of it after
//          sluice_end, is not to be touched before the next sluice_begin.
// Units    elements (f32), samples, steps of the closure; milliseconds, -1: no
//          limit, 0: a look without waiting. All counts from 0. An empty range
//          (count 0) does nothing.
// Errors   enum sl_err; `err` may be NULL, any other pointer only where it says
//          so. Outputs of a call that fails are undefined. SL_ESTATE (a call
//          out of order) and SL_ERANGE change nothing; after any other error
//          of a call on a closure, finish it. Nothing here ends the process,
//          writes to stderr or touches its signals. The first session, or
//          client or worker of tasks, sets what malloc keeps for the process
//          (mallopt) and, unless it is set, GRPC_EXPERIMENTS in the
//          environment, and starts gRPC, which a forked child must not use.
#ifndef SLUICE_H
#define SLUICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_API __attribute__((visibility("default")))

struct sluice;
struct sluice_closure;

struct sluice_options {
    size_t size; // sizeof(struct sluice_options): a later one may be longer
    const char *coordinator; // "host:port", "unix:/path"; "a:7070,b:7070" of
                             // coordinators of which one leads; NULL: the
                             // variable SLUICE_COORDINATOR, else the socket of
                             // this user's `sluice up`, else 127.0.0.1:7070
    // This worker's, 1 to 200 bytes, unique in the cluster: a later session of
    // the same name takes the place of this one, which is then refused. NULL: a
    // name made of host and pid, and from the process's second session without
    // a name on of a number: "host-pid", "host-pid-2".
    const char *name;
    const char *device; // what computes, for people: "torch, 2 threads"; NULL:
                        // "a program"
    uint64_t job; // number of the only job to work for; 0: any external one
    const char *tls_ca, *tls_cert, *tls_key; // PEM files, all three or none
    unsigned io_threads;                     // 0: one per two cores
    bool no_shm; // share no memory with psservers and ranks of this host

    // For jobs in allreduce and hybrid mode: where other ranks reach this one,
    // "127.0.0.1:0" if it is NULL; the address that they dial, if that is
    // another one. In allreduce: a folder, made if it is missing, for this
    // rank's parts of checkpoints, which all ranks may share (NULL: none are
    // written, and the job does not end).
    const char *listen, *advertise, *store;

    // A model that is larger than memory, in mode async: no vectors are kept,
    // sluice_pull and sluice_push take their place.
    bool by_range;

    // Called about five times a second while sluice_begin, sluice_pull,
    // sluice_push, sluice_rows_pull or sluice_end waits for a psserver, on the
    // thread that waits. False ends the wait: the call says SL_ECANCELED, the
    // closure is given back. It may call sluice_drain and nothing else of the
    // session. NULL: a call waits as long as it takes.
    bool (*waiting)(void *arg);
    void *waiting_arg;

    // The program takes the steps of a contribution by itself, as sluice_batch
    // says. A session without it is given no job in mode local, which would
    // take a gradient for what the parameters changed by. Not with by_range.
    bool local;
};

// Returns the library's version, "0.1.0". This text, and those of the two
// functions below, are static.
SLUICE_API const char *sluice_version(void);

// Returns the name of error `code`, "SL_EINVAL"; "SL_UNKNOWN" for an unknown
// one.
SLUICE_API const char *sluice_err_name(int code);
// Returns a sentence that explains error `code`; one for an unknown code as
// well, never NULL.
SLUICE_API const char *sluice_err_text(int code);

// Sends the library's log lines of this process (of level info and above; JSON,
// end with '\n', no 0 behind) to line(arg, text, len) from now on, on any
// thread; `text` holds during the call, which must not call this library. NULL,
// the default, drops them. Call it before the first session, or client or
// worker of tasks, is opened.
SLUICE_API void sluice_set_log(void (*line)(void *arg, const char *text,
                                            size_t len),
                               void *arg);

// Opens a session with options `o` (NULL: all are 0). It dials the coordinator
// on a thread of its own until that answers; this call does not wait for it.
// *out is the caller's to close with sluice_close. SL_EINVAL, SL_EAUTH,
// SL_ENOENT: an address, certificate or option is wrong; SL_EDENIED: an address
// that is not local, without TLS; SL_ENOTSUP: `store` is no folder; SL_ESTATE:
// this host has no name; SL_ENOMEM; an error of the store's folder or of the
// system. On failure *out is untouched.
SLUICE_API enum sl_err sluice_open(struct sluice **out,
                                   const struct sluice_options *o,
                                   struct sl_error *err);

// Waits up to wait_ms until the coordinator has welcomed the session, and
// returns SL_OK then. SL_ETIMEDOUT, with the reason in `err`, if it has not.
// Need not be called: sluice_take waits as well.
SLUICE_API enum sl_err sluice_attach(struct sluice *s, int64_t wait_ms,
                                     struct sl_error *err);

// Begins the session's end: from now on sluice_take says SL_ECANCELED, and
// takes nothing new. The closure under way may end the step that it is at; a
// call of it that waits for a psserver gives it back after a second. A rank
// ends the round that it is in, for which sluice_take waits 10 seconds at most.
// Does not wait. A second call does nothing. From any thread, but from a
// handler of signals only through a thread of the program's.
SLUICE_API void sluice_drain(struct sluice *s);

// Drains the session, hands back what is leased, waits 1.5 seconds at most
// until the coordinator has heard of it, and frees the session with the closure
// under way. In a ring it first waits for the step that the ring is at. NULL is
// allowed.
SLUICE_API void sluice_close(struct sluice *s);

// ---- closures

// Waits up to wait_ms for the next closure and sets *out. SL_ESTATE: one is
// under way. SL_ETIMEDOUT: there was none; SL_ENOENT: a job that this session
// has trained has ended, which is returned once, and its vectors are freed
// (take again for other jobs); SL_ECANCELED: the session drains. Any other
// error is a fault of a job, which the coordinator is told too; the session
// goes on.
SLUICE_API enum sl_err sluice_take(struct sluice *s, int64_t wait_ms,
                                   struct sluice_closure **out,
                                   struct sl_error *err);

struct sluice_info {
    const char *job; // its name
    uint64_t number; // number of the job
    uint64_t closure, epoch;
    uint64_t first, count; // positions in the order of the epoch
    uint32_t steps;
    uint64_t samples;   // samples of an epoch
    uint64_t batch;     // samples of a step, but for the last of an epoch; in
                        // hybrid mode: of what one program computes of it; in
                        // local: of a batch
    uint64_t seed;      // train.seed
    uint64_t elements;  // elements of each flat vector
    uint32_t variables; // how many

    // In allreduce mode the closure is one step of that which these numbers
    // describe: this rank's slot of a round, as sluice_begin names it. In
    // hybrid mode it is one micro-batch of one step. Else 0:
    uint32_t ranks, rank; // size of the ring or group; this rank's number
    uint64_t generation;  // its number: another set of ranks has another
    uint64_t rounds;      // allreduce: rounds that the parameters have had
    uint64_t redone;      // steps (hybrid: micro-batches) that this rank had
                          // computed for nothing
    // What it will most probably compute next, of this epoch: to be read ahead.
    uint64_t next_first, next_count; // positions; 0: not known
    uint32_t tables;                 // how many sparse tables the job has
    // In mode local: batches of this closure, train.inner.closure but for the
    // last one of an epoch. Else 0.
    uint32_t batches;
    bool reset; // mode local: train.inner.moments is reset
};

struct sluice_variable {
    const char *name;
    uint32_t rank; // axes of its shape
    uint64_t shape[8];
    uint64_t first, elements; // its range of the flat vectors
};

// Returns the closure's description, which lives as long as the closure. It
// changes when sluice_more begins another one.
SLUICE_API const struct sluice_info *
sluice_closure_info(const struct sluice_closure *c);

// Describes variable `i`, from 0 to sluice_info.variables - 1, in *out and
// returns true; its name lives as long as the closure. Returns false, and
// leaves *out alone, if there is no such variable.
SLUICE_API bool sluice_closure_variable(const struct sluice_closure *c,
                                        uint32_t i,
                                        struct sluice_variable *out);

struct sluice_table {
    const char *name;
    uint32_t dim; // elements of a row
};

// Describes sparse table `i`, from 0 to sluice_info.tables - 1, in *out and
// returns true; its name lives as long as the closure. Returns false, and
// leaves *out alone, if there is no such table.
SLUICE_API bool sluice_closure_table(const struct sluice_closure *c, uint32_t i,
                                     struct sluice_table *out);

// Returns the number of the sample at `position` of the epoch: by the order
// that the job's seed draws (docs/wire.md), or the position itself without
// train.shuffle and beyond the epoch's samples.
SLUICE_API uint64_t sluice_sample(const struct sluice_closure *c,
                                  uint64_t position);
// Writes the numbers of the samples at `count` positions from `first` on, as
// sluice_sample gives them, to out[count].
SLUICE_API void sluice_samples(const struct sluice_closure *c, uint64_t first,
                               uint64_t count, uint64_t *out);

// Returns the vector of parameters, which are fresh between sluice_begin and
// sluice_end; aligned to 64 bytes. NULL in a session by range.
SLUICE_API const float *sluice_params(const struct sluice_closure *c);
// Returns the vector for the gradient, which the program writes before
// sluice_ready or sluice_end; aligned to 64 bytes. What sluice_begin leaves
// there is undefined, and an element that is not written is sent as it is: all
// are to be written but those of absent variables (sluice_absent). NULL in a
// session by range.
SLUICE_API float *sluice_grads(const struct sluice_closure *c);

struct sluice_step {
    bool none;             // all is counted: finish
    uint32_t number;       // number of the step in the closure
    uint64_t first, count; // positions
};

// Begins the next step that is not counted everywhere, with fresh parameters,
// and describes it in *out (`none`: all steps are counted). Waits until they
// are there. Steps may be left out: shards decide which are missing. SL_ESTATE:
// a step is under way. SL_ECANCELED: the closure was lost. Any other error is
// why the attempt fails. After `none` it says so again.
SLUICE_API enum sl_err sluice_begin(struct sluice_closure *c,
                                    struct sluice_step *out,
                                    struct sl_error *err);

// Marks elements [first, first + count) of the gradient as whole, and their
// parameters as not read any more in this step: whole shards leave at once.
// Each element at most once a step (not checked); sluice_end sends the rest. In
// jobs that clip by a norm or have tables nothing leaves before the end (but in
// allreduce). SL_ERANGE; SL_ESTATE: no step is under way, or the session is by
// range; SL_ECANCELED: lost.
SLUICE_API enum sl_err sluice_ready(struct sluice_closure *c, uint64_t first,
                                    uint64_t count, struct sl_error *err);

// Marks variables [first, first + count) as having no gradient in this step, as
// a framework's parameter with gradient None: the update leaves them alone,
// with their slots, momentum and weight decay, and with their own count of
// updates, which Adam corrects by. (A gradient of zeros moves what has momentum
// or decay.) Their elements are as if they were ready, what the gradient has
// there is not read, and shards of which nothing has a gradient send none. Said
// anew in each step, before any of their elements is ready.
//
// Where several gradients are averaged (allreduce, hybrid) a variable that is
// absent in some counts as zeros there; absent in all, it is left alone, if all
// programs that sum know of this. SL_ERANGE: no such variables; SL_ESTATE: no
// step is under way, some of it has left, or the job is in mode local, where
// what did not change is told by sluice_change; SL_ECANCELED: the closure was
// lost; SL_ENOTSUP: more than 4096 variables lie on one shard. Variables before
// the one that fails are marked.
SLUICE_API enum sl_err sluice_absent(struct sluice_closure *c, uint32_t first,
                                     uint32_t count, struct sl_error *err);

// ---- by range: of a session that was opened so
//
// What is pulled and pushed at one time is in memory, the program's and as much
// again: whole shards (some MiB each) are what travels, one of them is kept
// beyond the call where its end was not asked for, and of gradients that have
// not arrived at most 64 MiB, or two shards, are held back.
//
// Parameters are those of the moment of the pull. What is pulled twice in a
// step may differ, since other workers' updates come in between, and it may
// have our own of this step, if it was pushed already.
//
// Allreduce, hybrid, norms that clip, and tables want all of the gradient at
// once: a session by range is given no job of these modes, and one that clips
// by a norm or has tables is refused.

// Copies parameters [first, first + count) to `to`, between sluice_begin and
// sluice_end. Waits while a psserver is away. SL_ERANGE; SL_ESTATE: no step is
// under way, or the session keeps vectors; SL_ECANCELED: the closure was lost.
SLUICE_API enum sl_err sluice_pull(struct sluice_closure *c, uint64_t first,
                                   uint64_t count, float *to,
                                   struct sl_error *err);

// Copies elements [first, first + count) of the gradient from `gradient`, and
// sends shards that are then whole. Each element at most once a step; elements
// that were not pushed by sluice_end, and are not absent, are 0. Waits while
// too much is on its way. Errors as sluice_pull's.
SLUICE_API enum sl_err sluice_push(struct sluice_closure *c, uint64_t first,
                                   uint64_t count, const float *gradient,
                                   struct sl_error *err);

// ---- rows of sparse tables: of a job whose model has any
//
// A table has a row of `dim` elements for each id, any number of 64 bits. No
// process has all of them: a step pulls the rows of the ids that its samples
// have, and pushes their gradients. An id without a row reads as what the
// table's initializer says of it, the same in each process and at any time; its
// row is made when a step that pushes a gradient for it is counted, unless the
// table's rules of admission say otherwise.
//
// Rows travel with the step, and count as it does. So in a job with tables
// nothing leaves before sluice_end, and what a step has for one shard, rows and
// other gradients, is 64 MiB at most. A step that is to be computed again (the
// next sluice_begin names it) pushes its rows again.
//
// Programs have tables in modes async and allreduce. In allreduce a step counts
// for its parameters and for its rows, or for neither: psservers hold the rows
// of a round until all ranks have applied its sum, and then update each row
// once, by the mean over all samples of the round. Rows that are pulled are
// those of the round that the parameters are of. While a psserver is away,
// sluice_take waits. A program pulls and pushes as in async.

// Copies the rows of n ids to rows[n][dim], between sluice_begin and
// sluice_end. Ids come in any order and as often as wanted; each is asked for
// once. Rows are those of the moment, as sluice_pull's parameters are. If they
// are more than 64 MiB on one shard they are pulled in parts, one after the
// other. Waits while a psserver is away. SL_ERANGE: no such table, or 2^32 ids
// or more; it and SL_ENOMEM change nothing but, perhaps, `rows`. SL_ESTATE: no
// step is under way; SL_ECANCELED: the closure was lost.
SLUICE_API enum sl_err sluice_rows_pull(struct sluice_closure *c,
                                        uint32_t table, size_t n,
                                        const uint64_t *ids, float *rows,
                                        struct sl_error *err);

struct sluice_rows {
    uint32_t table;
    size_t n;
    const uint64_t *ids;
    float *rows; // [n][dim]
};

// Does what sluice_rows_pull does for each of `count` tables, with one call to
// each shard for all of them, if a call holds them: a step waits for one answer
// instead of `count`. SL_EINVAL: a table stands there twice; else the errors of
// sluice_rows_pull.
SLUICE_API enum sl_err sluice_rows_pull_all(struct sluice_closure *c,
                                            const struct sluice_rows *of,
                                            size_t count, struct sl_error *err);

// Says which rows the next step of the closure will pull, so that they come
// while this one computes and leaves. Between the pulls of a step and
// sluice_end; does not wait, and `rows` is not looked at. The next step's
// sluice_rows_pull or sluice_rows_pull_all of a table with the same ids in the
// same order takes them, once: rows as they are about now, so where two steps
// in a row have an id, the second reads its row without the update of the
// first. Any other call of these pulls anew. It is a hint: nothing comes ahead
// with a second call in a step, in a job that bounds or weighs the delay
// (train.max_delay, staleness), in a closure's last step, or if it does not fit
// into one call to each shard. SL_ERANGE, SL_EINVAL, SL_ESTATE, SL_ECANCELED as
// sluice_rows_pull_all.
SLUICE_API enum sl_err sluice_rows_ahead(struct sluice_closure *c,
                                         const struct sluice_rows *of,
                                         size_t count, struct sl_error *err);

// Adds gradients[n][dim] to those of n rows of this step, by their ids: an id
// may stand there several times, also in several calls, and its gradient is the
// sum, in the order given. Copies both, and sends nothing: sluice_end does. A
// gradient that is not finite is treated as one of a variable is. Does not
// wait, and says nothing of the limit of 64 MiB: sluice_end sums the step up.
// SL_ERANGE, SL_ENOMEM, SL_ESTATE, SL_ECANCELED as sluice_rows_pull.
SLUICE_API enum sl_err sluice_rows_push(struct sluice_closure *c,
                                        uint32_t table, size_t n,
                                        const uint64_t *ids,
                                        const float *gradients,
                                        struct sl_error *err);

// ---- local steps: of jobs in mode local, in a session that says `local`
//
// A closure is one step here, a contribution: info.batches batches of
// info.batch samples. The program takes each as a step of its own, with an
// optimizer of its own, on its own copy of the parameters, and pushes what they
// have changed in place of a gradient:
//
//     while (sluice_begin(c, &step, &err) == SL_OK && !step.none) {
//         // copy sluice_params(c) to `mine`
//         for (i = 0; (rc = sluice_batch(c, i, &b, &err)) == SL_OK &&
//                     !b.none; i++) {
//             // the gradient of positions [b.first, b.first + b.count), at
//             // `mine`; update `mine`, at the rate of step b.number
//         }
//         if (rc != SL_OK || sluice_change(c, 0, elements, mine, &err) !=
//         SL_OK)
//             break; // lost: finish it
//         sluice_end(c, &(struct sluice_result){.loss_sum = loss}, &err);
//     }
//
// The contribution is counted as a whole or not at all. What a lost one changed
// is dropped, and `mine` with it: the next contribution begins with fresh
// parameters. Its loss is the sum over all of its samples.
//
// With train.inner.closure a contribution has several closures, which are
// leased one by one, and a program that is told to leave pushes those that are
// whole (docs/local.md). Then sluice_more stands behind each of them:
//
//         // copy sluice_params(c) to `mine`
//         do {
//             // the batches of one closure, as above; its loss
//             if (rc != SL_OK || sluice_change(c, 0, elements, mine, &err) !=
//             SL_OK)
//                 break; // lost
//             r = (struct sluice_result){.loss_sum = loss};
//         } while (sluice_more(c, &r, &more, &err) == SL_OK && more);
//         sluice_end(c, NULL, &err);
//
// A program that does not call it pushes each closure by itself.

struct sluice_result; // below

struct sluice_batch {
    bool none;      // there is no such batch: the closure is whole, or left out
    uint32_t index; // as asked
    uint64_t first, count; // positions
    // What a schedule of the learning rate counts: the steps of one worker that
    // has a slot of each round. It depends on the closure alone, so it is the
    // same when another program computes the contribution.
    uint64_t number;
};

// Describes batch `i`, from 0, of the closure under way in *out (`none` behind
// the last one). Shows that the program makes progress. SL_ESTATE: no step is
// under way, or the job is in another mode; SL_ECANCELED: the closure was lost,
// or the session drains: then the rest is not to be computed. A closure that
// sluice_more began, and of which the lease ends, is left out instead: the
// batch is `none`, sluice_change does nothing, and the step is ended with what
// sluice_more was told before.
SLUICE_API enum sl_err sluice_batch(struct sluice_closure *c, uint32_t i,
                                    struct sluice_batch *out,
                                    struct sl_error *err);

// Writes to elements [first, first + count) of the gradient what is to be
// pushed, where now[count] are these parameters behind the contribution's
// batches: what they changed by, with the sign reversed, and moving statistics
// (`moving` of a variable) as they are. Reads sluice_params, so the program
// does not write there. May be called for parts, in any order; each element
// once before sluice_end. All of a contribution in which anything is not finite
// is counted and not applied; where the job hands back contributions that are
// far longer than others', it is handed back as these are, and sluice_end says
// SL_ECANCELED. With train.norm: median a long one is cut to the median
// instead. SL_ERANGE; SL_ESTATE, SL_ECANCELED as sluice_batch.
SLUICE_API enum sl_err sluice_change(struct sluice_closure *c, uint64_t first,
                                     uint64_t count, const float *now,
                                     struct sl_error *err);

// Ends the batches of the closure under way, of which *r has the sums, when
// sluice_change was told of all elements, and sets *more to whether those of
// another closure follow: at the parameters that the program has, and described
// by sluice_closure_info and sluice_batch from now on. Else the contribution is
// whole, and sluice_end follows, which reads no sums then: it has all closures
// that its job says, none waits, something is not finite, or the session
// drains. Does not wait. SL_ESTATE, SL_ECANCELED as sluice_batch.
SLUICE_API enum sl_err sluice_more(struct sluice_closure *c,
                                   const struct sluice_result *r, bool *more,
                                   struct sl_error *err);

// ---- the end of a step

struct sluice_result {
    double loss_sum; // sum of the samples' losses; NAN: not known, in no mean
    double right;    // samples that were predicted right; 0 if not counted
    bool skip;       // count the step, apply nothing (a loss scale that was too
                     // large); of a round or a group's step all of it
};

// Ends the step with result `r` (NULL: all of it is 0): its gradient is whole.
// A part of it that is not finite is counted and not applied, or fails the job,
// as train.nonfinite says. SL_OK does not say that the step is counted: the
// next sluice_begin names another step, or this one again. By range it waits
// while too much is on its way; else it does not wait. SL_ESTATE: no step is
// under way. SL_ECANCELED: the closure was lost. SL_ERANGE: more rows than a
// push may have; it and SL_ENOMEM leave the step under way, and nothing has
// left then.
SLUICE_API enum sl_err sluice_end(struct sluice_closure *c,
                                  const struct sluice_result *r,
                                  struct sl_error *err);

// Tells that the program makes progress, so that a long step is not taken for
// one that hangs (train.stall_seconds). sluice_begin, and each call between it
// and sluice_end that returns an error code, does so, too. On the session's
// thread, like all calls on a closure.
SLUICE_API void sluice_alive(struct sluice_closure *c);

// Ends the closure, reports it to the coordinator and frees it; `c` may not be
// used any more. It is reported as done if sluice_begin said `none`, as lost if
// a call said so (SL_ECANCELED), as failed if an error has ended the attempt:
// each later call gives that again. (SL_ESTATE, SL_ERANGE, SL_EINVAL and
// SL_ENOMEM, as the calls name them, and SL_ENOTSUP of sluice_absent do not end
// it.) Else, also with a step under way, it is handed back undone for the
// reason `why` (copied; NULL: none is given), and another worker gets it. If a
// rank's closure is handed back undone, the rank's lease ends and the ring goes
// on without it: waits then for the step that the ring is at. Any other closure
// of a rank is reported by its ring alone.
SLUICE_API void sluice_finish(struct sluice_closure *c, const char *why);

// Ends the closure, reports that the attempt failed for the reason `why`
// (copied; NULL: none is given), and frees the closure. A rank's lease ends, as
// sluice_finish says. With `job_error` (the job's fault, not this machine's)
// the job gives this worker nothing for a minute, and fails once all workers
// that are there have reported so; else it fails after several attempts.
SLUICE_API void sluice_fail(struct sluice_closure *c, const char *why,
                            bool job_error);

#ifdef __cplusplus
}
#endif

#endif
