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
    struct job_ring *ring;           // its state here; owned
    struct hybrid *hybrid;           // beside sync: its group; owned; or NULL
    struct job_tables *tables;       // owned; NULL: the job has none
    float *params, *grads;           // owned
    void *narrow;       // by range: what of `grads` is sent in 16 bits; owned
    size_t space_bytes; // bytes of each vector from space_new; 0: plain memory
    struct nonfinite nonfinite; // judges steps that are not finite
};

struct sluice_closure {
    struct sluice *session;
    struct lease *lease;
    struct kept_job *job;
    struct sluice_info info;
    struct order order;
    bool shuffle;
    bool slot;            // a slot of a rank or group: the lease is the ring's
    struct round_key key; // slot: which one
    struct steps steps;   // of a lease; a slot is one step

    enum { CLOSURE_BEGIN, CLOSURE_STEPS, CLOSURE_DONE, CLOSURE_LOST } at;
    bool sync_open, whole; // whole: nothing leaves before the end of a step
    enum sync_result lost; // CLOSURE_LOST: why
    bool inside;           // a step is under way
    bool again;            // it counts for nothing: a shard was replaced
    uint64_t first, count, digest; // the step's positions; their digest
    const struct elements *ranges; // shards, or a ring's buckets
    uint32_t ranges_count;
    uint64_t *covered; // by range: elements that are ready
    bool *sent;        // by range
    bool *absent;      // by variable: it has no gradient in this step
    bool any_absent;

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

    // The user's thread's.
    struct list jobs; // struct kept_job, the one used last in front
    struct sluice_closure *open;
    struct lib_ring *ring; // the lease under way, if its holder is a rank

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
        char why[SL_ERROR_TEXT];       // not attached; "": not known
    } shared;
};

// ---- jobs.c: what is kept of a job

// Finds or makes the kept job of lease `l`, which stays the caller's. Errors
// are the job's. *out is the session's until jobs_forget, jobs_free, or until
// it is the one of too many that was used longest ago. On failure nothing is
// kept of the job: the vectors of its earlier closures are freed, too.
enum sl_err jobs_take(struct sluice *s, struct lease *l, struct kept_job **out,
                      struct sl_error *err);
// Frees the kept job with number `id`, if it is there: its vectors go. No
// closure of it is under way.
void jobs_forget(struct sluice *s, uint64_t id);
// Frees all kept jobs. No closure is under way.
void jobs_free(struct sluice *s);

// ---- listen.c: what other ranks reach

// Copies listen, advertise, store and the files of TLS from options `o`, and
// makes the folder for this rank's parts of checkpoints. SL_EINVAL: as lib_tls;
// SL_ENOTSUP: the store is no folder; SL_ESTATE: this host has no name;
// SL_ENOMEM; errors of the folder. After a failure, too, listen_stop and
// listen_release free what was made. Called once per session.
enum sl_err listen_init(struct sluice *s, const struct sluice_options *o,
                        struct sl_error *err);
// Returns the environment of ring leases; listen_start fills in its address. It
// lives as long as the session.
const struct ring_env *listen_env(struct sluice *s);
// Starts the server that other ranks dial; does nothing if it runs. Called
// after listen_init. SL_EINVAL: an address is wrong, or too long; errors of
// rpc_server_bind. After a failure it does not run, and may be started again.
enum sl_err listen_start(struct sluice *s, struct sl_error *err);
// Stops and frees that server, if it runs, and the Ranks service (s->ranks). No
// ring lease may be under way. May be called again. listen_start must not
// follow.
void listen_stop(struct sluice *s);
// Frees the strings that listen_init copied; after listen_stop, and once.
void listen_release(struct sluice *s);

// ---- closure.c

// Makes lease `l` the closure under way (s->open, which is NULL before), or
// gives it back with the error that is returned. `l` is not the caller's any
// more in either case.
enum sl_err closure_open(struct sluice *s, struct lease *l,
                         struct sluice_closure **out, struct sl_error *err);

// Checks that a step is under way (else SL_ESTATE), for which it beats the
// pulse of the lease, and that [first, first + count) lies in the gradient
// (else SL_ERANGE).
enum sl_err closure_inside(struct sluice_closure *c, uint64_t first,
                           uint64_t count, struct sl_error *err);
// Returns the number of the range that holds `element`, which closure_inside
// has checked.
uint32_t closure_range(const struct sluice_closure *c, uint64_t element);
// Marks the elements [first, first + count) as whole, each once per step, after
// closure_inside; ranges that are then whole leave. If one cannot, the closure
// is lost and its error is returned (closure_lose). Does nothing in a step that
// counts for nothing (c->again).
enum sl_err closure_cover(struct sluice_closure *c, uint64_t first,
                          uint64_t count, struct sl_error *err);
// Ends the closure and the step under way for `result`, which is no success,
// and returns the error that the program is told: that of c->steps for
// SYNC_FAILED, else SL_ECANCELED.
enum sl_err closure_lose(struct sluice_closure *c, enum sync_result result,
                         struct sl_error *err);

// Makes the slot that the ring offers the closure under way; *out is NULL if it
// offers none (SL_OK), and after a failure. After a failure the ring may have
// been stopped (ring_stop). s->ring is not NULL before, and s->open is.
enum sl_err closure_of_slot(struct sluice *s, struct sluice_closure **out,
                            struct sl_error *err);

// ---- setup.c, for sessions and task clients

// Returns the address as it was said (NULL: it was not), or as the environment
// says it, or the one that ownsock_find writes to `own`; borrowed from there.
const char *lib_coordinator(char own[OWNSOCK_BYTES], const char *said);
// Returns a copy of `said`, or of "host-pid" if it is NULL; the caller's. NULL:
// no memory.
char *lib_name(const char *said);
// Sets *tls to the paths of the three files, which are borrowed as long as it
// is used, and are not read here; to zeroes if all are NULL. SL_EINVAL: only
// one or two are given; *tls is then untouched.
enum sl_err lib_tls(struct rpc_tls *tls, const char *ca, const char *cert,
                    const char *key, struct sl_error *err);
// Prepares logging for the process in the first call: lines in JSON, to the
// function of sluice_set_log. Any thread.
void lib_log_once(void);

// ---- done.c, for closures

// Gives a lease back with its outcome, on the loop. The outcome is set; `l` is
// not used afterwards. Does not wait.
void session_done(struct sluice *s, struct lease *l);

// Returns whether a call of the user's may wait on: sync_ps_options.patient.
// `session` is a struct sluice. May call the program's `waiting`.
bool session_patient(void *session);

#endif
