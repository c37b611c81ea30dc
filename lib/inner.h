// SPDX-License-Identifier: Apache-2.0
// lib/inner.h -- a session from inside: its threads and what they share.
//
//   loop's thread   attendee, member: leases come, reports go
//   user's thread   closures, and what is kept of jobs
//
//   Leases -> member -> runner.submit -> queue -> sluice_take
//   sluice_finish -> outcome -> loop -> member_done -> report
//
// Threads  as said of each part; `shared` under its lock.
// Memory   a lease in the queue or in a closure belongs to the user's thread.
//          Options are borrowed for the call.
// Errors   `err` may be NULL. A call that fails leaves *out as it was, but
//          where it is said.
#ifndef LIB_INNER_H
#define LIB_INNER_H

#include <pthread.h>

#include "common/base/list.h"
#include "common/net/ownsock.h"
#include "plan/order.h"
#include "plan/round.h"
#include "common/run/loop.h"
#include "lib/sluice.h"
#include "stream/attendee.h"
#include "proto/model.h"
#include "proto/spec.h"
#include "trainer/lease/closures.h"
#include "trainer/lease/hybrid.h"
#include "trainer/lease/job_ring.h"
#include "trainer/lease/lease.h"
#include "trainer/lease/steps.h"
#include "trainer/sum/ranks.h"
#include "trainer/attend/member.h"
#include "trainer/base/nonfinite.h"
#include "trainer/push/job_tables.h"
#include "trainer/push/peers.h"

// What a session keeps of a job between closures: the user's thread's.
struct kept_job {
    struct list_node node;
    uint64_t id;
    struct record *record;           // a reference
    struct model *model;             // external: variables alone
    struct spec_optimizer optimizer; // clipping
    struct sync *sync;               // way to its shards; or NULL, and
    struct job_ring *ring;           // its state here; owned; or both
    struct hybrid *hybrid;           // beside sync: its group; owned; or NULL
    struct job_tables *tables;       // owned; NULL: the job has none
    float *params, *grads;           // owned
    void *narrow;       // by range: what of `grads` is sent in 16 bits; owned
    size_t space_bytes; // bytes of each vector from space_new; 0: plain memory
    struct nonfinite nonfinite; // judges steps that are not finite
    uint32_t alone; // contributions that are to be of one closure (L6)
};

struct sluice_closure {
    struct sluice *session;
    struct lease *lease;
    struct kept_job *job;
    struct sluice_info info; // of `now`
    struct order order;
    bool shuffle;
    bool slot;            // a slot of a rank or group: the lease is the ring's
    struct round_key key; // slot: which one
    struct steps steps;   // of a lease; a slot is one step

    // DONE: sluice_begin says `none` from now on; LOST: calls say that it is
    // lost. STEPS: the step of a slot has begun; a lease stays at BEGIN.
    enum { CLOSURE_BEGIN, CLOSURE_STEPS, CLOSURE_DONE, CLOSURE_LOST } at;
    bool sync_open, whole; // whole: nothing leaves before the end of a step
    enum sync_result lost; // CLOSURE_LOST: why
    bool inside;           // a step is under way
    bool again;            // it counts for nothing: a shard was replaced
    bool rows_ahead;       // a pull that sluice_rows_ahead began is under way
    bool rows_came;        // one has ended
    uint64_t first, count, digest; // the step's positions; their digest
    const struct elements *ranges; // shards, or a ring's buckets
    uint32_t ranges_count;
    uint64_t *covered; // by range: elements that are ready
    bool *sent;        // by range
    bool *absent;      // by variable: it has no gradient in this step
    bool any_absent;

    // Mode local: the closures of the contribution under way (set.c).
    struct closures set;
    struct lease *now; // of which the program computes batches; else `lease`
    struct list taken; // struct lease, by `queued`: further ones
    bool noted;        // `set` has the steps of `now`
    bool cut;          // the last closure is left out: its lease ends
    bool aside;        // it was too large, and is handed back

    struct {                 // range.h
        uint32_t *sent;      // shards, in the order that they left; owned
        uint32_t head, tail; // sent[head..tail): not answered yet
        uint64_t bytes;      // bytes of the shards on their way
        uint32_t kept;       // shard with parameters in memory, or none
    } by_range;
};

struct lib_ring; // ring.h

struct sluice {
    char *name, *coordinator, *device; // owned
    uint64_t job;                      // the only one; 0: any
    bool by_range;                     // range.h
    bool local;                        // sluice_options
    bool (*waiting)(void *arg);        // sluice_options; NULL: no callback
    void *waiting_arg;
    struct loop *loop;
    pthread_t thread;
    bool started;
    struct rpc_io *io;
    struct rpc_channel *channel;
    struct attendee *attend;
    struct peers *peers;
    struct worker_member *member;
    struct loop_timer *overdue; // runs once the session drains

    // The user's thread's.
    struct list jobs; // struct kept_job, the one used last in front
    struct sluice_closure *open;
    struct lib_ring *ring; // the lease under way, if its holder is a rank
    // Rows of a slot are waited for: on the user's thread, which has the way to
    // their shards then, and not on the ring's (slot.h).
    bool pulls;

    // What a rank needs beside these.
    struct rpc_tls tls;               // strings owned
    char *listen, *advertise, *store; // owned
    char address[300];                // address that others dial; listen.c
    char host[RANKS_HOST_BYTES];
    struct ranks *ranks;
    struct rpc_server *rpc; // NULL: no rank needed to reach us
    struct ring_env env;

    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct list queue; // struct lease, by its node `queued`
        uint64_t *ended;   // jobs that were opened here and have ended
        size_t ended_count, ended_capacity;
        bool attached, draining, gone; // gone: the stream has ended in order
        uint64_t drain_ends_ms;        // no call waits after it; if draining
        bool overdue; // it drains, and has waited for its round long enough
        char why[SL_ERROR_TEXT]; // not attached; "": not known
    } shared;
};

// ---- jobs.c: what is kept of a job

// Finds what the session keeps of the job of lease `l`, which stays the
// caller's, or makes it from l->record; a job that was opened anew keeps its
// vectors and gets the rest anew. *out belongs to the session until
// jobs_forget, jobs_free, or until more than eight jobs are kept and it is the
// one used longest ago. SL_ENOTSUP: its model is not external, or it has tables
// and the session is by range; SL_ENOMEM; or an error of its spec. After a
// failure nothing is kept of the job, and the vectors of its earlier closures
// are freed.
enum sl_err jobs_take(struct sluice *s, struct lease *l, struct kept_job **out,
                      struct sl_error *err);
// Frees what is kept of job `id`, its vectors too; does nothing if nothing is.
// No closure of it is under way.
void jobs_forget(struct sluice *s, uint64_t id);
// Frees all kept jobs. No closure is under way.
void jobs_free(struct sluice *s);

// ---- listen.c: what other ranks reach

// Copies listen, advertise, store and the files of TLS from *o, and makes the
// folder for this rank's parts of checkpoints and the Ranks service (s->ranks);
// listens nowhere yet. Once per session. SL_EINVAL: only some of the files of
// TLS are given; SL_ENOTSUP: the store is no folder; SL_ESTATE: this host has
// no name; SL_ENOMEM; or an error of the folder. Call listen_stop and
// listen_release in any case.
enum sl_err listen_init(struct sluice *s, const struct sluice_options *o,
                        struct sl_error *err);
// Returns what leases of rings need of this session (s->env, filled by each
// call); the session owns it. Its address is "" before listen_start.
const struct ring_env *listen_env(struct sluice *s);
// Starts the server that other ranks dial, after listen_init and with s->io
// there, and sets s->address; does nothing, SL_OK, if it runs. SL_EINVAL: an
// address is wrong or too long; or an error of rpc_server_bind. After a failure
// it does not run, and may be started again.
enum sl_err listen_start(struct sluice *s, struct sl_error *err);
// Stops and frees that server, if it runs, and the Ranks service (s->ranks),
// before s->io is freed. No ring lease may be under way. May be called again.
// listen_start must not follow.
void listen_stop(struct sluice *s);
// Frees the strings that listen_init copied; after listen_stop, and once.
void listen_release(struct sluice *s);

// ---- closure.c

// Makes lease `l` the closure under way (s->open, which is NULL before) and
// sets *out to it. SL_ENOTSUP: it is not for training; else the errors of
// jobs_take and range_init. On failure gives the lease back to the coordinator,
// as failed with the error that is returned, or undone if there is no memory
// for a closure, and s->open is NULL. `l` is not the caller's any more in
// either case.
enum sl_err closure_open(struct sluice *s, struct lease *l,
                         struct sluice_closure **out, struct sl_error *err);

// Checks that a step is under way, and beats the pulse of its lease, which
// shows that the program is alive; then that [first, first + count) lies in the
// gradient. SL_ESTATE: no step is under way; SL_ERANGE; if the closure is lost,
// its error (closure_lose).
enum sl_err closure_inside(struct sluice_closure *c, uint64_t first,
                           uint64_t count, struct sl_error *err);
// Returns the number of the range (shard, or bucket of a ring) that holds
// `element`, which closure_inside has checked; the last one for the element
// behind the end.
uint32_t closure_range(const struct sluice_closure *c, uint64_t element);
// Counts elements [first, first + count) as ready, each once per step, after
// closure_inside, and sends ranges that are then complete, unless nothing
// leaves before the end of the step (c->whole). If one cannot be sent the
// closure is lost, and its error is returned (closure_lose). Does nothing in a
// step that counts for nothing (c->again).
enum sl_err closure_cover(struct sluice_closure *c, uint64_t first,
                          uint64_t count, struct sl_error *err);
// Marks the closure as lost for `result`, which is not SYNC_OK, and its step as
// not under way. Fills *err and returns the error that the program is told:
// that of c->steps for SYNC_FAILED, else SL_ECANCELED.
enum sl_err closure_lose(struct sluice_closure *c, enum sync_result result,
                         struct sl_error *err);

// ---- closure.c

// Takes the gradient that s->ring (not NULL) offers and makes it the closure
// under way (s->open, which is NULL before). *out is the closure; NULL if none
// is on offer (SL_OK), and after a failure. SL_ENOMEM, or an error of the
// closure's preparation, after which the ring was stopped (ring_stop): look at
// s->ring.
enum sl_err closure_of_slot(struct sluice *s, struct sluice_closure **out,
                            struct sl_error *err);

// Makes `l` the closure that the program computes: c->now, c->info, its
// positions with their order and digest. `l` is the closure's own lease, or one
// of the same contribution.
void closure_turn(struct sluice_closure *c, struct lease *l);

// ---- set.c, the closures of a contribution in mode local

// Begins with the lease of `c`; does nothing in another mode, as the next three
// functions.
void set_init(struct sluice_closure *c);
// Begins a contribution with the closure of that lease: gives back the leases
// of one that counts for nothing.
void set_begin(struct sluice_closure *c);
// Notes what was computed of the closure under way, unless it was noted or left
// out: what the step then pushes are the closures that were noted.
void set_note(struct sluice_closure *c, const struct sluice_result *r);
// Ends the contribution with `result`: gives back all leases but that of `c`,
// which has its outcome.
void set_finish(struct sluice_closure *c, enum sync_result result);

// ---- setup.c, for sessions and task clients

// Returns `said` unless it is NULL, else the value of SLUICE_COORDINATOR if it
// is set (it may be empty), else the address that ownsock_find writes to `own`,
// which looks for a running cluster and may wait. Never NULL; borrowed from one
// of these.
const char *lib_coordinator(char own[OWNSOCK_BYTES], const char *said);
// Returns a copy of `said`. If it is NULL, makes a name: the process's first
// such call returns "host-pid", later ones "host-pid-2" and so on, since a
// session replaces another of its name. The caller frees it (sl_free). NULL: no
// memory. Any thread.
char *lib_name(const char *said);
// Sets *tls to the paths of the three files, which are borrowed and not read
// here, or to zeroes if all are NULL. SL_EINVAL: only one or two are given;
// *tls is then untouched.
enum sl_err lib_tls(struct rpc_tls *tls, const char *ca, const char *cert,
                    const char *key, struct sl_error *err);
// Prepares logging for the process in the first call: lines in JSON, to the
// function of sluice_set_log. Any thread.
void lib_log_once(void);

// ---- done.c, for closures

// Takes the next lease off the queue, if it trains the job of `record`, which
// must not have been opened anew; NULL if it does not, none waits, or the
// session drains. The lease is the caller's until session_done.
struct lease *session_next(struct sluice *s, const struct record *record);

// Gives lease `l`, with its outcome set, back to the member, which reports it,
// on the loop, later; `l` must not be used after the call. Does not wait. Any
// thread.
void session_done(struct sluice *s, struct lease *l);

// Returns true if a call of the program may wait longer for a psserver: the
// session does not drain, or has not for long, and the program's `waiting`,
// which is called here, says so. `session` is a struct sluice. For
// sync_ps_options.patient; on the thread that waits.
bool session_patient(void *session);
// Returns the same for the shards of rows beside a ring. While it is the ring's
// thread that waits, the program's `waiting` is not called.
bool session_ring_patient(void *session);

#endif
