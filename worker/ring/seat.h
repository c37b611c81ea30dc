// SPDX-License-Identifier: Apache-2.0
// worker/ring/seat.h -- where the loop and the compute thread meet over a ring
// lease.
//
// What the coordinator says of the ring comes by the loop, at any moment; the
// compute thread looks between rounds, and waits here when it has none. What it
// has to say goes back through the loop. A generation that is opened ends the
// one under way at once, wherever the compute thread waits in it (R2).
//
//   loop     seat_open, _begin, _go, _copy, _snapshot   seat_wake: look again
//   compute  seat_look, seat_wait ... seat_say, seat_say_step, seat_write
//
// Threads  as drawn; seat_new, seat_retire: the loop.
// Memory   counted by whoever it is with: the lease, what is posted, a file
//          that is being written. Messages that are given belong to the seat.
// Units    milliseconds.
// Errors   none: a message that finds no memory or no stream is as if it had
//          been lost; the coordinator opens the next generation then.
#ifndef WORKER_RING_SEAT_H
#define WORKER_RING_SEAT_H

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/membership.h"
#include "common/base/roots.h"
#include "common/run/loop.h"
#include "proto/wire.h"
#include "state/shard/shard.h"

#define SEAT_STEP_MS 20 // between two RingSteps

// What all ring leases of this process share; outlives them.
struct ring_env {
    struct loop *loop;
    const struct sl_clock *clock;
    // To the coordinator. False: there is no stream now.
    bool (*send)(void *arg, const Sluice__V1__AttendUp *up);
    void *arg;
    const char *address; // of our Ranks service, as others dial it
    const char *host;    // equal for processes that may share memory
    struct fs *fs;
    const char *store;                   // where our files lie; NULL: nowhere
    const struct roots *weights;         // below which weights are read
    const struct membership *membership; // whose store it is; NULL: taken as is
    // Ours to hand on (worker/reduce/group.h).
    struct ranks *ranks;
    struct rpc_io *io;
    const struct rpc_tls *tls;
};

struct seat;

enum sl_err seat_new(struct seat **out, const struct ring_env *env,
                     uint64_t job, uint64_t job_incarnation);

// The lease is over: nothing more is said for it.
void seat_retire(struct seat *s); // NULL is allowed

const struct ring_env *seat_env(const struct seat *s);
uint64_t seat_uid(struct seat *s); // of the job; 0 before seat_open

// ---- the loop; messages are borrowed

void seat_open(struct seat *s, const Sluice__V1__RingOpen *m);
void seat_begin(struct seat *s, const Sluice__V1__RingBegin *m);
void seat_go(struct seat *s, const Sluice__V1__RingGo *m);
void seat_copy(struct seat *s, const Sluice__V1__RingCopy *m);
void seat_snapshot(struct seat *s, const Sluice__V1__SnapshotRequest *m);
void seat_rates(struct seat *s, const Sluice__V1__Rates *m);

// Something else has changed: the gate, or leases that wait. `leave`: also out
// of the round under way.
void seat_wake(struct seat *s, bool leave);

// ---- the compute thread

struct seat_news {
    uint64_t opened, uid; // the newest generation that was opened; 0: none
    uint64_t gone;        // the newest that may go
    struct rates rates;   // that callbacks have reduced
    uint64_t hold; // no round begins with this closure, or a later; 0: any may
    Sluice__V1__RingBegin *begin; // of `opened`, once; the caller's, wire_free
    Sluice__V1__RingCopy *copy;   // not before `opened`; likewise
};
void seat_look(struct seat *s, struct seat_news *out);

// True if seat_look would say something new, or seat_wake was called since.
bool seat_has_news(struct seat *s);

// True if a generation was opened since seat_look, or seat_wake said leave: the
// one under way has ended. Other news do not end it.
bool seat_has_ended(struct seat *s);

// Until there are news, or for so long.
void seat_wait(struct seat *s, uint64_t ms);

// From now on, when a generation is opened or seat_wake says leave, end(arg) is
// called, under a lock, on the loop; at once, if that has happened since the
// last seat_look. NULL: no longer.
void seat_on_end(struct seat *s, void (*end)(void *arg), void *arg);

// A request for a part's file of this generation that is due at this round, or
// was before; false: none is. `over`: no round will follow. A part that is
// being written is not due before its file is there.
struct seat_request {
    uint32_t part;
    uint64_t generation, request, at_round;
};
bool seat_take_request(struct seat *s, struct wire_tag tag, bool over,
                       struct seat_request *out);

// Takes the message; NULL: there was no memory for it.
void seat_say(struct seat *s, Sluice__V1__AttendUp *up);

// Takes a RingStep: the newest is said, not too often; `now`: at once.
void seat_say_step(struct seat *s, Sluice__V1__AttendUp *up, bool now);

// Has the file written in the background, and reports it. Takes the image's
// memory (sl_malloc), also where it is released before.
void seat_write(struct seat *s, const struct seat_request *r,
                struct shard_image *image);

#endif
