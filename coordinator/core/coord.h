// SPDX-License-Identifier: Apache-2.0
// coordinator/core/coord.h -- the parts wired together, without a network.
//
// A coord is notified of what happens (a member attached, sent something, left;
// time passed; a client asked) and says what is to be done through a few
// functions of its io. So the daemon is a thin shell (attend.c, api.c), and a
// test is the world: scripted members, a clock driven by hand.
//
// Threads  one: the loop's.
// Memory   messages are borrowed, both ways, until the call returns.
// Units    *_ms on options.clock, monotonic; wall clock only for people.
// Errors   A journal that cannot be written is fatal: io.fatal is called once,
//          and from then on the coord does and says nothing more. What shows
//          that the journal is an older one pauses its job (I7).
#ifndef COORDINATOR_CORE_COORD_H
#define COORDINATOR_CORE_COORD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/status.h"
#include "coordinator/journal/journal.h"
#include "coordinator/rules/member.h"
#include "coordinator/rules/quota.h"
#include "proto/wire.h"

struct coord;
struct feed;
struct stored;

struct coord_io {
    void *arg;

    // Queues a message to a member, in order. A member that is gone already
    // (its detach is on the way) swallows it.
    void (*send)(void *arg, uint64_t member,
                 const Sluice__V1__AttendDown *message);

    // Ends a member's stream, after what was sent or at once; no coord_detach
    // follows.
    void (*hang_up)(void *arg, uint64_t member);
    void (*cut_off)(void *arg, uint64_t member);

    // The certificate that a member shows, by name; "": none. Called from
    // within coord_attach. NULL: nobody shows one.
    const char *(*certificate)(void *arg, uint64_t member);

    // work(task) anywhere, then done(task) on our thread, once; perhaps after
    // coord_free.
    enum sl_err (*work)(void *arg, void (*work)(void *task),
                        void (*done)(void *task), void *task);

    // Something of this job that a watcher may see has changed; it has ended.
    void (*changed)(void *arg, uint64_t job);

    void (*fatal)(void *arg, const struct sl_error *err);
};

// Whether shards that ask for certificates ask for the tokens of jobs too.
enum coord_tokens {
    COORD_TOKENS_AUTO, // if this cluster had them from the beginning
    COORD_TOKENS_REQUIRE,
    COORD_TOKENS_ACCEPT, // one that is wrong is refused, none is not
};

struct coord_options {
    const struct sl_clock *clock;
    struct fs *fs;           // of the store
    struct journal *journal; // borrowed
    const char *store;       // folder of manifests, or s3://bucket/prefix
    const char *state_dir;   // for people
    uint32_t heartbeat_ms, lease_ms;
    uint32_t settle_ms; // after the first psserver, before a job is placed
    uint64_t seed;      // of the ids of new jobs
    // Random, for the tokens of jobs of a cluster that has no key yet. Zeros:
    // it stays without.
    uint64_t secret[4];
    enum coord_tokens tokens;
    bool proofs;   // of leases are made: members show certificates
    bool observes; // jobs may have their curves written (JobSpec.observe)
    const struct quota *quotas; // copied
    size_t quotas_count;
    struct feed *feed; // borrowed; NULL: nobody wants to know
    // What the store answered (stored.h), borrowed for coord_new. NULL: it is
    // asked there, by who has no loop to keep.
    struct stored *stored;
};

// Takes the next term first, settles open intents (K6), loads the jobs; only
// then may anybody be let in. SL_ESTATE: the store is not the one that it was
// (cluster.h).
enum sl_err coord_new(struct coord **out, const struct coord_options *options,
                      const struct coord_io *io, struct sl_error *err);
void coord_free(struct coord *c); // NULL is allowed

// A manifest is being written for it: until that is over another coord must not
// settle what this one began (K6).
bool coord_writes(const struct coord *c);

uint64_t coord_term(const struct coord *c);

// ---- members

// A new stream said Hello; `member` is the caller's number for it, new for
// each stream. A member of the same role and name is sent away, the newest
// process wins, if it yields (member.h); else this one is SL_EEXIST. On failure
// *err is what Goodbye should say.
enum sl_err coord_attach(struct coord *c, uint64_t member,
                         const Sluice__V1__Hello *hello,
                         enum member_claim claim, struct sl_error *err);

// It sent something else; members that are gone are ignored.
void coord_receive(struct coord *c, uint64_t member,
                   const Sluice__V1__AttendUp *message);

// Its stream has ended.
void coord_detach(struct coord *c, uint64_t member);

// Time has passed: at least every heartbeat_ms / 2.
void coord_tick(struct coord *c);

// ---- clients. Replies are messages of the heap: wire_free.

// A job that resumes is judged by a manifest, of a store that may be slow.
// True: it is being read, and ready(arg) is called on our thread, once, perhaps
// after coord_free; a coord_submit from there does not read it again. False:
// there is nothing to wait for. `request` is borrowed for the call.
bool coord_submit_reads(struct coord *c,
                        const Sluice__V1__SubmitRequest *request,
                        void (*ready)(void *arg), void *arg);
enum sl_err coord_submit(struct coord *c,
                         const Sluice__V1__SubmitRequest *request,
                         Sluice__V1__SubmitReply **reply, struct sl_error *err);
enum sl_err coord_get(struct coord *c, const Sluice__V1__JobRequest *request,
                      Sluice__V1__JobStatus **reply, struct sl_error *err);
enum sl_err coord_stop(struct coord *c, const Sluice__V1__StopRequest *request,
                       Sluice__V1__JobStatus **reply, struct sl_error *err);
// A cut of a job that goes on: one that there is, or that is made from now on.
// SL_ESTATE: none can be made, and why.
enum sl_err coord_checkpoint(struct coord *c,
                             const Sluice__V1__CheckpointRequest *request,
                             Sluice__V1__CheckpointReply **reply,
                             struct sl_error *err);
// Pauses a job, after a cut or at once; sets one going again. Who asks twice is
// told the same. SL_ESTATE: it has ended, lies still by I7, or would lose all.
enum sl_err coord_pause(struct coord *c,
                        const Sluice__V1__PauseRequest *request,
                        Sluice__V1__JobStatus **reply, struct sl_error *err);
enum sl_err coord_resume(struct coord *c, const Sluice__V1__JobRequest *request,
                         Sluice__V1__JobStatus **reply, struct sl_error *err);
enum sl_err coord_delete(struct coord *c, const Sluice__V1__JobRequest *request,
                         Sluice__V1__DeleteReply **reply, struct sl_error *err);

// Drains a member, or takes it back; who asks twice is told the same.
// SL_ENOENT: nobody of this name is here, or drained.
enum sl_err coord_drain(struct coord *c,
                        const Sluice__V1__DrainRequest *request, bool *changed,
                        struct sl_error *err);

// Who makes the calls below, until it is said again: what is submitted belongs
// to this tenant ("": nobody's), and with `only` there are no other jobs than
// its. At first: nobody, who sees all.
void coord_ask_as(struct coord *c, const char *tenant, bool only);

// For watchers: the number of the job that a request means.
enum sl_err coord_find(struct coord *c, const char *id, uint64_t *job,
                       struct sl_error *err);

// A call was refused, by whatever; `who` called.
void coord_refused(struct coord *c, const char *who, const char *call,
                   const char *job, const char *why);

// A number that rises with what a watcher may see; 0: there is no such job.
// *ended: it will not rise again.
uint64_t coord_changes(const struct coord *c, uint64_t job, bool *ended);

#endif
