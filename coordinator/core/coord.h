// SPDX-License-Identifier: Apache-2.0
// coordinator/core/coord.h -- the coordinator's parts together, without a
// network.
//
// A coord is notified of events (a member attached, sent a message, left; time
// passed; a client called) and acts through a few functions of its io. So the
// daemon is a thin shell (attend.c, api.c), and a test can be the outside:
// scripted members, a clock driven by hand.
//
// Threads  one: the loop's.
// Memory   messages and texts are borrowed, both ways, until the call returns.
//          Functions of the io are never NULL but where it is said. No argument
//          is NULL but where it is said. Requests and messages were checked
//          when they were read (wire.h).
// Units    *_ms on options.clock, monotonic; wall clock only for people.
// Errors   A journal that cannot be written is fatal, and so is one that cannot
//          be read, but for the tenant of a job (which is hidden then) and what
//          a status shows beside: io.fatal is called once, and from then on the
//          coord does and says nothing more. A sign that the journal is an
//          older one pauses the job that shows it (I7). An `err` is never NULL:
//          some functions read it. A client's call that fails for want of
//          memory, SL_ENOMEM, may have no text, and have done what it was to
//          do.
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

    // End a member's stream; no coord_detach follows.
    void (*hang_up)(void *arg, uint64_t member); // after what was sent
    void (*cut_off)(void *arg, uint64_t member); // at once

    // Returns the name on a member's certificate, which holds until
    // coord_attach returns; "": it shows none. Called from within that. NULL:
    // no member shows one.
    const char *(*certificate)(void *arg, uint64_t member);

    // Runs work(task) on any thread, then done(task) on the loop, once; perhaps
    // after coord_free. On failure neither is called.
    enum sl_err (*work)(void *arg, void (*work)(void *task),
                        void (*done)(void *task), void *task);

    // Tells that this job has ended, is being deleted, or has new counts of a
    // shard after its end; any other change shows in coord_changes alone.
    // Called from within calls of the coord: watchers look at the job later.
    void (*changed)(void *arg, uint64_t job);

    // Writes the sentence number `i`, from 0, about what an operator has to
    // look at outside of the cluster to `out`, cut to `size` bytes, and returns
    // true; false: there is none. NULL: there is never one.
    bool (*trouble)(void *arg, size_t i, char *out, size_t size);

    // Ends the daemon for `err`; called once at most.
    void (*fatal)(void *arg, const struct sl_error *err);
};

// Whether shards that demand certificates demand the tokens of jobs as well.
enum coord_tokens {
    COORD_TOKENS_AUTO, // demand them if this cluster was made with tokens
    COORD_TOKENS_REQUIRE,
    COORD_TOKENS_ACCEPT, // refuse a wrong token, accept a missing one
};

struct coord_options {
    const struct sl_clock *clock;
    struct fs *fs;           // file system of the store
    struct journal *journal; // borrowed
    const char *store;       // folder of manifests, or s3://bucket/prefix
    const char *state_dir;   // folder of the daemon's files, for the status
    // sent to members in Welcome; silence for lease_ms is a loss
    uint32_t heartbeat_ms, lease_ms;
    uint32_t settle_ms; // wait after the first psserver before jobs are placed
    uint64_t seed;      // source of a new cluster's id, and of uids of jobs
    // Random key for the tokens of jobs, for a cluster that has no key yet.
    // Zeros: it stays without.
    uint64_t secret[4];
    enum coord_tokens tokens;
    bool proofs;   // proofs of leases are made: members show certificates
    bool observes; // jobs may have their curves written (JobSpec.observe)
    const struct quota *quotas; // copied
    size_t quotas_count;
    struct feed *feed; // borrowed; NULL: events are dropped
    bool stands_by;    // others take over elsewhere, each with its own feed
    // The store's answers (stored.h), borrowed for coord_new. NULL: coord_new
    // asks the store itself, where no loop has to be kept running.
    struct stored *stored;
};

// Makes a coord: takes the next term first, settles open intents (K6), loads
// the jobs, adds an event; only then may members and clients be let in. Waits
// for the disk. *options and *io are copied, what they point at is borrowed
// until coord_free. SL_ESTATE: the store is not the one that it was
// (cluster.h); else the errors of journal.h, of the store (stored.h), and
// SL_ENOMEM. A failure leaves *out untouched and does not call io.fatal, but
// the term may be taken.
enum sl_err coord_new(struct coord **out, const struct coord_options *options,
                      const struct coord_io *io, struct sl_error *err);
// Frees c; ends no stream and no job, and waits for nothing: what io.work runs
// ends by itself. Not from within a function of the io. NULL is allowed.
void coord_free(struct coord *c);

// Returns true while a pool thread writes the manifest of a cut for c, or looks
// whether a failed write left one. Until that is over, no other coord may
// settle the cut (K6). Removals of old manifests do not count.
bool coord_writes(const struct coord *c);

// Returns the term that c took when it was made.
uint64_t coord_term(const struct coord *c);

// ---- members

// Takes the Hello of a new stream; `member` is the caller's number for it, new
// for each stream and not 0. After SL_OK the member was sent Welcome, and what
// waits for it: shards to take, leases. A member of the same role and name is
// sent away, as the newest process wins, if it yields: always to MEMBER_OWN and
// MEMBER_LOCAL; to MEMBER_ANY if its own claim is not MEMBER_OWN, and it is
// silent or the same process. The stream of another process gets a Goodbye, an
// older one of the same process ends without. Else the new one is SL_EEXIST, as
// is, while its name is taken, a process that was replaced before and is
// remembered. Adds an event of a member that came, was replaced or was refused
// (not for this last reason, want of memory, or because c is stopping).
// SL_ENOTSUP: it speaks another protocol; SL_EINVAL: a psserver without an
// address; SL_ESTATE: it is of another cluster, or has seen a newer term;
// SL_EIO: that term could not be journalled; SL_ENOMEM, after which the old
// member may be gone; SL_EUNAVAIL: c is stopping, or has to stop before it can
// send Welcome (SL_OK if only after that). On failure *err is the text for
// Goodbye.
enum sl_err coord_attach(struct coord *c, uint64_t member,
                         const Sluice__V1__Hello *hello,
                         enum member_claim claim, struct sl_error *err);

// Takes any message of a member but Hello, as a sign of life as well; a silent
// member is back by that, with an event. Acknowledges a heartbeat; gives leases
// to workers that may have some by now. Ignores a message of a member that is
// not attached (any more), and any once c is stopping.
void coord_receive(struct coord *c, uint64_t member,
                   const Sluice__V1__AttendUp *message);

// Removes a member after its stream has ended, and takes its leases and shards
// from it, which others may get at once: it counts as lost, unless it was
// draining, and an event says which. Does nothing for one that is not attached,
// or once c is stopping.
void coord_detach(struct coord *c, uint64_t member);

// Does what is due by now: finds silent members, and cuts off and removes those
// that are silent for options.lease_ms (io.cut_off), writes queued rows and
// waits for the disk, begins cuts, gives leases, frees jobs that ended a while
// ago. To be called at least every heartbeat_ms / 2. If the last call is more
// than heartbeat_ms ago, the time since counts as the coordinator's own
// absence, and no member is blamed for it.
void coord_tick(struct coord *c);

// ---- clients. Replies are messages of the heap: wire_free. After a failure a
// *reply is as it was, or NULL. Where a job is named, by "j-7" or its name,
// SL_ENOENT: there is no such job that the caller may see (coord_ask_as);
// SL_ESTATE: several have the name. A job that ended a while ago is read from
// the journal; if that fails, which is fatal, its error is returned. Calls that
// change something fail with SL_EUNAVAIL if c is stopping, with SL_EIO if the
// journal could not be written (coord_submit, coord_delete: with the journal's
// error); coord_get, coord_find and coord_changes still answer while c is
// stopping.

// Begins to read, on a pool thread, the manifest that `request` resumes from,
// since the store may be slow. Returns true if that has begun: then ready(arg)
// is called on the loop, once, perhaps after coord_free, and one coord_submit
// from there, of the same request, after a coord_ask_as, takes what was read.
// Returns false if there is nothing to wait for, the caller (coord_ask_as,
// which comes before this as well) cannot have it, memory is short or c is
// stopping: call coord_submit now, which waits itself for what it has to read.
// `request` is borrowed for the call.
bool coord_submit_reads(struct coord *c,
                        const Sluice__V1__SubmitRequest *request,
                        void (*ready)(void *arg), void *arg);

// Accepts a job, journals it, adds an event and begins it, which does not fail
// the call: if the journal fails then, SL_OK is returned all the same. Or with
// dry_run explains how it would be placed, in a *reply with job 0, whatever its
// request_id. A repeated request_id with the same spec has the same answer,
// with reply->existed. SL_EINVAL: the spec, with the key; SL_EEXIST: the
// request_id came with another spec or from another tenant; SL_EBUSY: the
// tenant's quota; SL_ESTATE: the job could not be resumed, or never end, or the
// request_id is of a job that cannot be read; SL_ENOENT, SL_EDENIED, SL_EIO,
// SL_ECORRUPT, SL_ENOTSUP: what it resumes from is not there, not in the store,
// cannot be read, or is of a newer version; SL_EUNAVAIL: c is stopping, or that
// has changed: submit again.
enum sl_err coord_submit(struct coord *c,
                         const Sluice__V1__SubmitRequest *request,
                         Sluice__V1__SubmitReply **reply, struct sl_error *err);

// Makes the status of a job, live or ended, with its shards and its spec as
// far as `request` asks for them. SL_ENOENT: there is no such job.
enum sl_err coord_get(struct coord *c, const Sluice__V1__JobRequest *request,
                      Sluice__V1__JobStatus **reply, struct sl_error *err);

// Ends a job as STOPPED: at once, or with request->checkpoint after a cut of
// all that is counted now, if one can be made (cuts_worth) and would save
// anything, or a shard moves; the call does not wait for it, and the job ends
// without the cut if that cannot be made. A further call without
// request->checkpoint ends such a job at once. *reply is the job's status by
// then. A job that has ended stays as it is. SL_ENOENT: there is no such job.
enum sl_err coord_stop(struct coord *c, const Sluice__V1__StopRequest *request,
                       Sluice__V1__JobStatus **reply, struct sl_error *err);

// Asks for a cut that holds what is counted now; the job goes on. *reply has a
// published cut that suffices, without its shards, or says what the cut waits
// for ("": only for its shards' files), and with `begun` that this call wished
// for more than was wished before: the caller asks again later with what the
// reply says (request->asked). It also lists what suspect workers contributed.
// SL_ESTATE: the job cannot make a cut, and why; not if a published one grants
// request->asked.
enum sl_err coord_checkpoint(struct coord *c,
                             const Sluice__V1__CheckpointRequest *request,
                             Sluice__V1__CheckpointReply **reply,
                             struct sl_error *err);

// Pauses a job: with request->checkpoint after a cut, if that would save
// anything, which the call does not wait for; else at once, also if a pause
// waits for its cut. coord_resume ends the pause. *reply is the job's status by
// then. A repeated call has the same answer. SL_ESTATE: the job has ended, is
// paused by I7, or would lose all its steps.
enum sl_err coord_pause(struct coord *c,
                        const Sluice__V1__PauseRequest *request,
                        Sluice__V1__JobStatus **reply, struct sl_error *err);

// Ends the pause of a job, or the wish for one, also one that the coordinator
// set for want of memory: then its shards are asked for again. Forgets the
// losses of its psservers in any case (memory.h); else a job without a pause
// stays as it is. *reply is its status. SL_ESTATE: the job has ended, or is
// paused by I7.
enum sl_err coord_resume(struct coord *c, const Sluice__V1__JobRequest *request,
                         Sluice__V1__JobStatus **reply, struct sl_error *err);

// Deletes an ended job with its rows, its checkpoints and its curves, and tells
// psservers to delete its files, those that are away when they attach, and in
// allreduce the workers that are attached; manifests are removed later. Adds an
// event and calls io.changed; older events stay. Or gives up a job that the
// journal does not know (behind_delete), for a caller that sees all tenants.
// SL_ESTATE: the job has not ended, or another job still needs its files;
// SL_EBUSY: a checkpoint of it is being written.
enum sl_err coord_delete(struct coord *c, const Sluice__V1__JobRequest *request,
                         Sluice__V1__DeleteReply **reply, struct sl_error *err);

// Drains the member that `request` names, so that it is given nothing more,
// leases that it does not compute yet are taken back, as is a place in a ring
// or group, and shards move away (move.h); or ends that with request->undrain;
// a repeated call has the same answer. A drain replaces that of an audit as
// well; undrain ends either, so that a suspect worker is none any more, and
// forgets what it contributed (tainted.h). Role "": the worker of that name,
// else the psserver. Sets *changed to true if the call made a difference
// (another `who` or `why` is one), perhaps also with SL_EIO; else leaves it. An
// empty `who` is kept as "somebody". Returns SL_OK; SL_ENOENT if no member of
// this name is attached (with undrain: attached or drained); SL_EINVAL if
// request->role is no role; SL_EBUSY if too many are drained; SL_ENOMEM. A
// change adds an event.
enum sl_err coord_drain(struct coord *c,
                        const Sluice__V1__DrainRequest *request, bool *changed,
                        struct sl_error *err);

// Sets the caller of the calls to come, until the next coord_ask_as: a
// submitted job belongs to `tenant` ("": none; copied, and cut to
// JOURNAL_TENANT with the 0), and with `only` the caller sees the jobs of that
// tenant alone (with "": no job). At first: no tenant, which sees all.
void coord_ask_as(struct coord *c, const char *tenant, bool only);

// Sets *job to the number of the job that `id` ("j-7" or a name) means, for
// watchers. Returns SL_OK; SL_ENOENT if there is no such job that the caller
// may see; SL_ESTATE if several jobs have the name.
enum sl_err coord_find(struct coord *c, const char *id, uint64_t *job,
                       struct sl_error *err);

// Adds an event: `call` about `job` ("": no job) was refused to the caller
// `who` ("": a client of this host), and `why`. The same one again within a
// minute is left out.
void coord_refused(struct coord *c, const char *who, const char *call,
                   const char *job, const char *why);

// Returns a number that rises whenever the job's status changes, so that a
// watcher can compare it with the last one; 0: there is no such job. Sets
// *ended to true if the job has ended or there is none, else to false. After
// the end the number may still rise by last reports, while the job is whole in
// memory; then it is 1, for good. The caller's tenant does not count.
uint64_t coord_changes(const struct coord *c, uint64_t job, bool *ended);

#endif
