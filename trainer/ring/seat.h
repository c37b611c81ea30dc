// SPDX-License-Identifier: Apache-2.0
// trainer/ring/seat.h -- where the loop and the compute thread meet over a ring
// lease.
//
// The coordinator's messages on the ring come by the loop, at any moment; the
// compute thread looks between rounds, and waits here when it has none. Its
// messages go back through the loop. A generation that is opened ends the one
// under way at once, wherever the compute thread waits in it (R2).
//
//   loop     seat_open, _begin, _go, _copy, _snapshot   seat_wake: look again
//   compute  seat_look, seat_wait ... seat_say, seat_say_step, seat_write
//
// Threads  as drawn; seat_new, seat_retire: the loop.
// Memory   counted references: one of the lease, one of each posted task, one
//          of each file being written. Messages that are given belong to the
//          seat.
// Units    milliseconds.
// Errors   none: a message that finds no memory or no stream is as if it had
//          been lost; the coordinator opens the next generation then.
#ifndef TRAINER_RING_SEAT_H
#define TRAINER_RING_SEAT_H

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/membership.h"
#include "common/base/roots.h"
#include "common/run/loop.h"
#include "proto/wire.h"
#include "state/shard/shard.h"

#define SEAT_STEP_MS 20 // least time between two RingSteps
// A smaller state is copied within about one round, even if all ranks wait for
// it.
#define RING_AHEAD_BYTES ((uint64_t)4 << 20)

// The environment that all ring leases of this process share; outlives them.
struct ring_env {
    struct loop *loop;
    const struct sl_clock *clock;
    // Sends a message, which it borrows, to the coordinator; false: there is no
    // stream now. Called on the loop.
    bool (*send)(void *arg, const Sluice__V1__AttendUp *up);
    void *arg;
    const char *address; // our Ranks service, as others dial it
    const char *host;    // name of the host; equal where memory may be shared
    struct fs *fs;
    const char *store;                   // folder of our files; NULL: none
    const struct roots *weights;         // folders that weights are read from
    const struct membership *membership; // owner of `store`; NULL: not checked
    // A newcomer copies a state of so many bytes or more while the others'
    // rounds go on, a smaller one when it is a member. 0: RING_AHEAD_BYTES.
    uint64_t ahead_bytes;
    // For groups (trainer/sum/sum_group.h).
    struct ranks *ranks;
    struct rpc_io *io;
    const struct rpc_tls *tls;
};

struct seat;

// Makes the seat of a ring lease. `env` is copied, what it points at outlives
// the seat. SL_ENOMEM leaves *out as it was.
enum sl_err seat_new(struct seat **out, const struct ring_env *env,
                     uint64_t job, uint64_t job_incarnation);

// Lets go of the seat when the lease is over: it sends nothing any more, and no
// call of it may follow. Does not wait: posted messages and files being written
// hold references of their own.
void seat_retire(struct seat *s); // NULL is allowed

// Returns the environment, valid as long as the seat.
const struct ring_env *seat_env(const struct seat *s);
// Returns the job's uid; 0 before seat_open.
uint64_t seat_uid(struct seat *s);

// ---- calls of the loop; messages are borrowed

// Takes the opening of a generation for the compute thread to find; it ends the
// one under way, and what was begun or is to be copied. One that is not newer
// is ignored. This and the next five keep a copy of what they need; without
// memory it is lost.
void seat_open(struct seat *s, const Sluice__V1__RingOpen *m);
// Takes the beginning of the generation that was opened last, and of no other;
// a newer message replaces one that seat_look has not given yet.
void seat_begin(struct seat *s, const Sluice__V1__RingBegin *m);
// Takes the news that a generation may run rounds; an older one is ignored.
void seat_go(struct seat *s, const Sluice__V1__RingGo *m);
// Takes the ranks to copy a state from, if they are of the generation opened
// last or of a later one; the newest message replaces those before.
void seat_copy(struct seat *s, const Sluice__V1__RingCopy *m);
// Takes a request for a part's file, of any generation (seat_take_request).
void seat_snapshot(struct seat *s, const Sluice__V1__SnapshotRequest *m);
// Takes the learning rates that callbacks have reduced, and the closure at
// which rounds are to be held. Rates that do not fit are logged and not taken.
void seat_rates(struct seat *s, const Sluice__V1__Rates *m);

// Wakes the compute thread, if it waits here, as something else has changed:
// the gate, or leases that wait. `leave`: it also leaves the round under way
// (seat_has_ended).
void seat_wake(struct seat *s, bool leave);

// ---- the compute thread

struct seat_news {
    // Newest generation opened (0: none), and the job's uid.
    uint64_t opened, uid;
    uint64_t gone;      // newest generation that may run rounds
    struct rates rates; // as callbacks have reduced them
    uint64_t hold;      // no round begins at this closure or later; 0: any may
    // Messages, each given once; the caller's (seat_news_release).
    Sluice__V1__RingBegin *begin; // of `opened`
    Sluice__V1__RingCopy *copy;   // copy order, of `opened` or later
};
// Sets *out to what the loop has brought, for seat_news_release; does not wait.
// `begin` and `copy` are NULL if there is none. Clears seat_has_news and
// seat_has_ended. *out need not be zeroed.
void seat_look(struct seat *s, struct seat_news *out);
// Frees the messages of `news`, those too that the caller has no use for, and
// sets them to NULL.
void seat_news_release(struct seat_news *news);

// Returns true if seat_look would find something new, or seat_wake was called
// since.
bool seat_has_news(struct seat *s);

// Returns true if a generation was opened, or seat_wake was called with
// `leave`, since the last seat_look: the generation under way has ended. Other
// news do not end it.
bool seat_has_ended(struct seat *s);

// Waits until seat_has_news, at most `ms` milliseconds; leaves the news to
// seat_look. Returns at once as long as there are some.
void seat_wait(struct seat *s, uint64_t ms);

// Waits until seat_has_ended, at most `ms` milliseconds, whatever other news
// there are.
void seat_wait_end(struct seat *s, uint64_t ms);

// Sets a function: end(arg) is called, under a lock and on the loop, each time
// a generation is opened or seat_wake is called with `leave`; and at once, on
// the calling thread, if that has happened since the last seat_look. NULL:
// none. Each call replaces the function before, which does not run any more
// when the call returns. `end` must not call the seat.
void seat_on_end(struct seat *s, void (*end)(void *arg), void *arg);

// A request of the coordinator's for a part's file.
struct seat_request {
    uint32_t part;
    uint64_t generation, request, at_round;
};
// Takes out a request for a file that is due by the state's `tag` (generation,
// rounds that it has had): of an earlier generation than that, or of this one
// for a round up to the tag's. Returns true with the request in *out; false,
// with *out untouched, if none is due. `over`: no round will follow, so that
// all requests of this generation are due. A part that is being written is not
// due before its file is there.
bool seat_take_request(struct seat *s, struct wire_tag tag, bool over,
                       struct seat_request *out);

// Posts a message to the loop, which sends it, and takes ownership. NULL (no
// memory) is ignored.
void seat_say(struct seat *s, Sluice__V1__AttendUp *up);

// Takes a RingStep over. Only the newest one is sent, at most every
// SEAT_STEP_MS, or at once if `now`; one with results of an audited round is
// sent in any case. Messages of seat_say that are posted before it is sent go
// first. NULL (no memory) is ignored.
void seat_say_step(struct seat *s, Sluice__V1__AttendUp *up, bool now);

// Has the file of a part written in the background, from `image`, and reports
// it for request *r; a file of that tag that is there already is reported as it
// is. A failure is logged and reported with its text. After seat_retire nothing
// is reported. Takes over the image, which is from sl_malloc, in every case.
// Without memory the request is dropped, without a report. When the image is
// gone again the seat has news (seat_has_news). A store that is not there or
// not ours (env->membership) is a failure. The env has a store.
void seat_write(struct seat *s, const struct seat_request *r,
                struct shard_image *image);

#endif
