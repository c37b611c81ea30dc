// SPDX-License-Identifier: Apache-2.0
// state/shard/shard.h -- one range of the parameters, and the steps counted on
// it.
//
// Values, optimizer slots, version, counted set and one lock. A push is
// checked as a whole (S4), and then applied and counted under that lock (S1),
// so no pull and no snapshot ever sees one without the other.
//
// A life: shard_new (seed values, no steps counted) or snap_load fills it;
// shard_admit gives it the incarnation under which it answers; shard_close
// ends that for good. Before and after, it answers SL_EUNAVAIL (S5).
//
// Threads  shard_new and filling: one. The rest: any; each call holds the
//          lock of this shard and no other, and does nothing slow under it.
// Memory   counted references: a call that found the shard keeps it until it
//          is done, also past its close. Payloads are borrowed until return.
// Units    elements are f32, counted in the shard; a version counts the updates
//          applied.
// Errors   SL_OK is success. A call that fails has changed nothing but the
//          number of refusals, and a push without memory may have noted its
//          attempt (I4). Outputs are untouched then, unless it says otherwise.
//          SL_ENOMEM may come without a text. `err` may be NULL.
#ifndef STATE_SHARD_SHARD_H
#define STATE_SHARD_SHARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/histogram.h"
#include "common/base/status.h"
#include "proto/wire.h"
#include "state/shard/apply.h"
#include "state/shard/contributions.h"
#include "state/shard/oplog.h"
#include "state/shard/shard_chain.h"
#include "state/shard/freeze.h"
#include "state/shard/mirror.h"
#include "state/shard/moments.h"
#include "state/shard/once.h"
#include "state/shard/open_round.h"
#include "state/shard/plan.h"
#include "state/shard/push_set.h"
#include "state/shard/buffer_pool.h"
#include "state/shard/round_rows.h"
#include "state/shard/shard_tables.h"
#include "state/shard/tagged.h"

// Microseconds for which pushes to all shards of this process, those of feeds
// too, waited for the shard's lock, and for which those that were counted held
// it.
extern struct histogram shard_waits, shard_applies;

struct shard_image;
struct shard_arming;

// What a shard beside a ring has of the state of the job (R8).
struct shard_ring {
    uint64_t rounds;      // that it has applied; 0 before its first admission
    struct wire_tag base; // of the ring, that it was admitted with last
    bool whole;           // it holds every contribution of the next round
};

struct shard {
    struct plan plan;     // read-only
    uint64_t window;      // closures accepted from the watermark on (C5)
    struct pool *pool;    // buffers of the size of a payload
    struct tagged tagged; // mapped snapshots of it, under their own lock
    _Atomic unsigned refs;
    _Atomic unsigned rows_answers; // with rows, that are on their way
    _Atomic bool fed;              // pushes are copied for its feed
    _Atomic bool binds; // `bound` has an order, and answers wait for it
    _Atomic bool wakes; // `wake` has a function

    pthread_mutex_t lock; // guards all fields below
    bool closed;
    bool handed;          // stopped for its last snapshot here (M1)
    uint64_t incarnation; // 0: not admitted (S5)
    struct wire_tag from; // snapshot it was loaded from; (0, 0): the seed
    uint64_t sequence;    // number of its newest snapshot
    struct once once;
    struct rates rates;           // rates that callbacks have reduced (D1)
    struct region region;         // values, then each slot, staggered
    struct region_shared *shared; // NULL, or the memory of the values; then
                                  // only the slots lie in region
    struct apply_memory memory;   // pointers into region and shared
    bool behind;                  // memory lacks counted updates: update.h
    struct contributions contributions; // contributions of the open round
    struct mirror mirror;               // values as workers have them
    struct open_round open;             // those of a round without slots
    struct moments moments;             // of a worker's own optimizer
    struct stale_versions versions;     // kept values of earlier versions
    struct tables tables;               // rows of sparse tables
    struct round_rows rows_before;      // some, from before the last round
    struct shard_ring ring;             // beside a ring; `whole` is not kept
    struct shard_chain chain;           // durable snapshots of this memory
    struct oplog feed;                  // what a follower needs
    struct shard_arming *arming;        // a feed that is to begin; borrowed
    pthread_cond_t armed;               // it has begun
    struct oplog_follow follow;         // the source that this memory follows
    // What answers wait for (replica.h): the feed that they are bound to, 0:
    // none, and the number of its newest operation when that began.
    struct {
        uint64_t order, mark;
    } bound;

    // Called when the log has more, by the thread that put it there, under a
    // lock of its own; `fn` is NULL: nothing is.
    struct shard_wake {
        pthread_mutex_t lock;
        void (*fn)(void *arg, bool here);
        void *arg;
    } wake;
};

// Makes a shard of seed values with no steps counted. Takes what *plan owns,
// also when it fails, and leaves it zeroed. One reference is the caller's. The
// bytes of values and slots count as no memory for rows (row_memory_add_dense)
// until the shard is freed. Returns SL_OK; SL_ENOMEM, also without memory for
// rows, leaves *out as it was.
enum sl_err shard_new(struct shard **out, struct plan *plan);

// Makes a shard with its values in shared memory, from element `first` on, so
// that the values of several shards are one vector; takes its own reference to
// `values`. There they have space for the plan's elements, and the seed values
// are written there; they are not counted as shard_new counts its own. The rest
// as shard_new.
enum sl_err shard_new_in(struct shard **out, struct plan *plan,
                         struct region_shared *values, uint64_t first);
// Takes one more reference and returns `s`. `s` is not NULL.
struct shard *shard_ref(struct shard *s);
// Drops a reference; the last one frees the shard, which need not be closed,
// and drops its mapped snapshots. NULL is allowed.
void shard_unref(struct shard *s);

// Returns the bytes of values and slots, which a snapshot holds; rows of tables
// are not among them.
static inline size_t shard_bytes(const struct shard *s)
{
    return (1 + optim_slots(&s->plan.optim)) * plan_values_bytes(&s->plan);
}

// Returns the memory at byte `offset`, below shard_bytes, of values and slots,
// as if the arrays lay one behind the other. *bytes: contiguous bytes there.
// Takes no lock.
void *shard_memory_at(const struct shard *s, size_t offset, size_t *bytes);

// Admits the shard: it answers from now on, as this incarnation (I1). A lower
// incarnation than its own is ignored: incarnations never fall. A higher one is
// accepted, and numbers its snapshots from 1: its evidence is the set of an
// earlier hello, and the set has only grown since. One that is closed stays
// closed; one that shard_hand_over has stopped goes on. Unless the incarnation
// is ignored, it ends what the shard follows, and its own feed, without a call
// of its function; but the same incarnation leaves the feed of a replica (P3).
// 0 admits no shard.
void shard_admit(struct shard *s, uint64_t incarnation);

// Replaces the learning rates that callbacks have reduced by all of them so far
// (`rates` begins with those that the shard had, and is copied): updates of
// their closures are applied at them (D1). A feed of the shard gets them as an
// operation, and its function is called (shard_feed_wake).
void shard_rates(struct shard *s, const struct rates *rates);

// Stops the shard until the next shard_admit: it answers no worker, but
// snapshots of it may be taken, which hold all that it has counted (M1).
// Another incarnation than its own changes nothing. A feed goes on.
void shard_hand_over(struct shard *s, uint64_t incarnation);

// ---- a shard that another psserver follows (oplog.h)

// Puts a record into the shard's feed, as oplog_put, and notes whether the feed
// goes on, at which pushes look. The caller holds s->lock.
void shard_feed_put_locked(struct shard *s, enum oplog_kind kind,
                           struct oplog_record *record);
// Makes the shard's feed over, as oplog_stop: pushes are copied for it no more.
// The caller holds s->lock.
void shard_feed_stop_locked(struct shard *s, const char *why);

// Takes an image as shard_freeze does, and begins the feed `order` (not 0) at
// its instant, with a log of at most `most` bytes. The instant is the first at
// which the shard holds no contribution, after up to wait_ms; if there is none,
// or if the shard is beside a ring, compensates delays (an update would need
// versions that no image has), has a replica, or another call of this function
// waits, the image is taken as it is and *fed is false. A feed that the shard
// had is dropped if this one begins. Waits. Errors as shard_freeze; *fed is
// untouched then. On SL_OK *out is for shard_image_release.
enum sl_err shard_feed_begin(struct shard *s, uint64_t incarnation,
                             uint64_t order, size_t most, uint64_t wait_ms,
                             struct shard_image *out, bool *fed,
                             struct sl_error *err);
// Ends feed `order`, if it is that of the shard, and drops its log. `why` lives
// for ever. Calls no function.
void shard_feed_stop(struct shard *s, uint64_t order, const char *why);
// Sets *out to a reference (oplog_unref) to the first record of feed `order`
// above number `after`; NULL: there is none yet. SL_ESTATE: that feed is over,
// or another one has begun, and *err says why.
enum sl_err shard_feed_next(struct shard *s, uint64_t order, uint64_t after,
                            struct oplog_record **out, struct sl_error *err);
// Has fn(arg, here) called whenever the log may have more, by any thread,
// outside the shard's lock, in place of an earlier function. NULL: nothing is
// called any more. Waits for a call under way, so nothing of the earlier
// function runs when it returns; does not call `fn` for what the log has by
// now. `here` false: the thread may be of low priority, and pushes wait for
// `fn`, so another one is to do the work. Those that call `fn`, also with
// nothing new in the log, are shard_push, shard_push_finite, shard_follow,
// shard_rates, shard_freeze, shard_freeze_as, shard_freeze_copy,
// shard_feed_begin and shard_close_round; `fn` must call none of these for this
// shard, nor this: it would wait for itself.
void shard_feed_wake(struct shard *s, void (*fn)(void *arg, bool here),
                     void *arg);
// Notes that the follower has applied all operations up to number `applied`,
// and drops their records; a number that is no news, or beyond the last record,
// or another order, changes nothing. Returns true if all of feed `order`, its
// end among them, is acknowledged, and the shard has not gone on since.
bool shard_feed_acked(struct shard *s, uint64_t order, uint64_t applied);
// Stops the shard, as shard_hand_over does, if its log has at most `most`
// bytes, and puts the end behind them in one: no operation comes between. Calls
// no function: the caller sends the end. Returns true if the end is in the log.
// False, with nothing changed, if the log is longer or over or of another
// order, or the shard answers no worker; and false, with the feed over, if the
// end finds no place in the log.
bool shard_feed_hand_over(struct shard *s, uint64_t order, size_t most);

// Makes a loaded shard, which is not admitted, the follower of feed `order`
// (not 0) of incarnation `incarnation`: its memory is the image. What it
// followed before is forgotten.
void shard_follow_begin(struct shard *s, uint64_t order, uint64_t incarnation);
// Does the operations in a message that are the next ones, as their source did,
// without a word to workers; those that were done before change nothing, while
// the end is not done. Operations before one that fails stay done. *reply is
// set in every case, also by a message without operations: to how many of the
// feed are done, and whether the end is. SL_ESTATE: the shard is closed, does
// not follow that order of that incarnation, or is of another incarnation of
// the job, or follows no more, or operations are missing before these, or come
// when the end is done, be it a second time; SL_ECORRUPT: one of them had
// another outcome here; errors of shard_push; SL_EINVAL: the payload does not
// hold. After each but SL_ESTATE the caller is to give the feed up: the shard
// may follow no more.
enum sl_err shard_follow(struct shard *s, const struct wire_follow *m,
                         struct wire_follow_reply *reply, struct sl_error *err);
// Ends the following of feed `order`, wherever that is, so that the memory
// stays as it is, and returns true. False: the shard does not follow it, or
// came to something else than its source (P4).
bool shard_follow_stop(struct shard *s, uint64_t order);
// Returns true if the shard has followed `order` to its end, holds what its
// source held, and was neither admitted nor told to stop following since.
bool shard_followed(struct shard *s, uint64_t order);

// Closes the shard, which never answers again, and ends its feed, without a
// call of its function. May be called again. Calls that hold the lock end as
// usual, and an image that exists can be read on.
void shard_close(struct shard *s);

// ---- calls of workers; *reply is complete on SL_OK, also for a refusal
// (refused.why, and of a push result WIRE_PUSH_REFUSED). SL_EUNAVAIL: the shard
// is closed, not admitted, or stopped (shard_hand_over, shard_feed_hand_over),
// or the call names a later incarnation of the job than the shard's.

// Tells which steps of a closure are counted, and refuses attempts older than
// ask's from now on (I4), unless ask->unproven. It refuses a call of another
// incarnation (I6, I3), of an older attempt (I4) or beyond the window (C5; both
// are WIRE_REFUSED_ATTEMPT), and of a round that is not open yet (Y4). A
// refusal (reply->refused) is SL_OK, and is not counted. SL_ERANGE: the job has
// no such closure; SL_EBUSY: over ONCE_ATTEMPTS_MAX; SL_ENOMEM.
enum sl_err shard_ask(struct shard *s, const struct wire_ask *ask,
                      struct wire_ask_reply *reply, struct sl_error *err);

// Applies and counts one step once (S2), with its rows of tables (T1). The
// order of the checks, on which callers may rely: admitted (S5), job
// incarnation (I6), shard incarnation (I3), the key, counted before (a
// duplicate is acknowledged, also to an old attempt; its attempt is noted),
// held before (WIRE_PUSH_HELD again, if the attempt is not old), attempt (I4)
// and window (C5), size, finite, delay (stale.h), round (contributions.h).
// Several closures are counted or held as one: those of which some are counted
// or held already, and others not, are refused (WIRE_REFUSED_SET). The shard
// counts duplicates, and refusals together with failures, of which those for
// their delay once more (struct once_counts). A push that is counted or held
// goes into the shard's feed, if it has one (shard_feed_wake). With `values`
// (space for the plan's elements, as push->wire, which is no code) the
// parameters are copied there, unless the push is refused or held
// (WIRE_PUSH_HELD); they are those of reply->version. SL_ERANGE: the job has no
// such step; SL_EINVAL, SL_ENUMERIC: of the payload (apply_check; none is
// allowed if push->skip, and a code only in a job with rounds), `absent` or the
// rows (tables_check); SL_EINVAL: several closures, for a job with slots or
// tables, or of several steps each; SL_EBUSY: over ONCE_ATTEMPTS_MAX;
// SL_EINVAL, SL_ENUMERIC: of the moments (moments_take); SL_ERANGE and
// SL_EBUSY: there is no memory for rows, with SL_EBUSY until a snapshot is
// written; SL_ERANGE and SL_ECORRUPT: a file of rows cannot be written, or
// read; SL_ENOMEM. `values` may be NULL.
enum sl_err shard_push(struct shard *s, const struct wire_push *push,
                       struct wire_push_reply *reply, void *values,
                       struct sl_error *err);

// Applies a push with a payload, of a type that is no code, that is known to
// fit the shard and to be finite: that is not checked. All else is as
// shard_push.
enum sl_err shard_push_finite(struct shard *s, const struct wire_push *push,
                              struct wire_push_reply *reply, void *values,
                              struct sl_error *err);

// Ends the open round that holds the contribution of `closure`: applies the
// mean and counts all that is held, as one update (L1, L2); if their mean is
// not finite, counts it as skipped. The shard's feed gets the end. Returns true
// if it did; false, and nothing has changed, if the shard holds no such
// contribution, is closed, stopped or not admitted, or its job is of another
// incarnation.
bool shard_close_round(struct shard *s, uint64_t job_incarnation,
                       uint64_t closure);

// ---- a shard beside a ring (plan.decided): the ring's rounds are its own, and
// each is held until the coordinator says what became of it (R8)

// Sets *out to what the shard has of the state of the job.
void shard_ring(struct shard *s, struct shard_ring *out);

// Admits the shard to a generation of the ring, as the incarnation of this
// number, with its base: applies and counts the round that it lacks of the
// base, and drops the rest of what it holds. A shard that was loaded has the
// base, as its caller knows. `skip`: the round that it may lack is counted and
// not applied. A generation below its incarnation, or equal to it, changes
// nothing and is SL_OK. What it follows and its feed end, and a stopped shard
// goes on, as in shard_admit. SL_EUNAVAIL: it is closed; SL_ESTALE: it has
// another past than the base, lacks more than one round, or lacks one that it
// does not hold whole; SL_ERANGE, SL_EBUSY, SL_ECORRUPT and SL_ENOMEM of the
// rows, as shard_push. Then nothing has changed.
enum sl_err shard_settle(struct shard *s, uint64_t generation,
                         struct wire_tag base, bool skip, struct sl_error *err);

// Applies and counts the round that is held, which makes `rounds` of them, in
// generation `generation` (`skip`: counts it alone). Does nothing, and returns
// SL_OK, if the round is applied already, for another generation, and if the
// shard is closed. SL_ESTALE: the round is beyond the next one, or is not held
// whole; else errors of the rows as of shard_settle. Then nothing has changed.
enum sl_err shard_decide(struct shard *s, uint64_t generation, uint64_t rounds,
                         bool skip, struct sl_error *err);

// Returns true if the closure belongs to the open round of mode sync. False in
// any other mode, if every step of the job is counted, or if the shard is
// closed, stopped or not admitted.
bool shard_round_open(struct shard *s, uint64_t closure);

// Copies the parameters, as pull->wire, which is no code, and their version, of
// one instant: before the round that pull->before_round_of names, if it was the
// last and those are kept, else the present one. pull->incarnation is not
// compared if it is 0 or the pull has a tag; tag and after_round_of are the
// caller's. *reply tells the open round, too, with the present parameters and
// while none of its slots is counted. `values`: space for the plan's elements;
// NULL copies none. SL_ESTALE: the pull names another incarnation of the shard,
// or an earlier one of the job.
enum sl_err shard_pull(struct shard *s, const struct wire_pull *pull,
                       struct wire_pull_reply *reply, void *values,
                       struct sl_error *err);

// Copies the rows of the ids in a pull's payload, as each block's type, one
// block behind the other (table_rows.h). *out, of *bytes bytes, is the caller's
// to free (sl_free). Makes no row (T2). Rows of one answer may be of several
// versions; that of the reply is the lowest. Those of the ids of the round that
// pull->before_round_of names are from before it, if it was the last one (T8).
// Rows in a file are read without the lock, but not for a round that was the
// last one. Errors as shard_pull; SL_EINVAL: ids that are not this shard's in
// their order; SL_ERANGE: the answer would exceed PLAN_MAX_BYTES; SL_ECORRUPT:
// a row's file cannot be read; SL_ENOMEM. *reply may be set then.
enum sl_err shard_pull_rows(struct shard *s, const struct wire_pull *pull,
                            struct wire_pull_reply *reply, uint8_t **out,
                            size_t *bytes, struct sl_error *err);

// Copies the rows of the ids in a pull's payload as they are in `file`, a
// snapshot of this shard that tagged_file_tables has passed (tagged_rows.h).
// *out, of *bytes bytes, is the caller's to free (sl_free). Does not look
// whether the shard is admitted. SL_EINVAL and SL_ERANGE as above; SL_ECORRUPT:
// the snapshot has no such table; SL_ENOMEM. Slow: it reads all rows of the
// tables.
enum sl_err shard_pull_tagged_rows(struct shard *s,
                                   const struct tagged_file *file,
                                   const struct wire_pull *pull, uint8_t **out,
                                   size_t *bytes, struct sl_error *err);

// Answers a pull, whose wire is no code, with a copy of the parameters that an
// earlier answer has shown (buffer_pool.h): sets *reply, and *copy, which is
// for pool_give. *copy is NULL if there is no such copy, also with SL_OK, and
// on failure. Errors as shard_pull.
enum sl_err shard_pull_shown(struct shard *s, const struct wire_pull *pull,
                             struct wire_pull_reply *reply,
                             struct pool_buf **copy, struct sl_error *err);

// Answers a pull as shard_pull does, into `copy`, a buffer of the shard's pool
// with space for the payload, that stays the caller's (pool_give), and shows it
// to later pulls (pool_show). On failure it shows nothing.
enum sl_err shard_pull_show(struct shard *s, const struct wire_pull *pull,
                            struct wire_pull_reply *reply,
                            struct pool_buf *copy, struct sl_error *err);

// Answers a pull of what changed since pull->have, in the code that pull->wire
// says: sets *reply, and copies *bytes bytes, perhaps 0, to `out` (space:
// coded_bytes of the shard in that code). reply->wire is WIRE_F32, and not
// pull->wire, if the caller needs the whole parameters: the code is not
// plan.down, pull->have (a version plus 1; 0: none) is of neither the present
// version nor the one before, the change between them is not finite, or
// pull->incarnation is not the shard's. Then it
// has copied nothing, and *bytes means nothing. Errors as shard_pull.
enum sl_err shard_pull_change(struct shard *s, const struct wire_pull *pull,
                              struct wire_pull_reply *reply, void *out,
                              size_t *bytes, struct sl_error *err);

// Checks whether a pull would be answered, and copies nothing: returns SL_OK,
// or the error of shard_pull.
enum sl_err shard_pull_check(struct shard *s, const struct wire_pull *pull,
                             struct sl_error *err);

// Answers a pull of the moments that the shard keeps (L9), or kept before the
// round that pull->before_round_of names: sets *out to a reference of the
// caller's (moments_unref), NULL if there are none; with some, reply->wire and
// reply->moments_t (the updates that they have seen) are theirs. Errors as
// shard_pull.
enum sl_err shard_pull_moments(struct shard *s, const struct wire_pull *pull,
                               struct wire_pull_reply *reply,
                               struct moments_set **out, struct sl_error *err);

// ---- figures for the loop

struct shard_brief {
    uint64_t incarnation;
    bool closed;
    struct wire_tag from;
    // Watermark of the counted set, its steps, and its closures above the
    // watermark that have some.
    uint64_t low, steps, sparse;
    struct once_counts counts;
    struct rowset_counts tables; // of all tables together (tables_counts)
    uint64_t moments_of;         // closure of the moments plus 1; 0: none
};

// Sets *out to the shard's figures, of one instant, and returns true. With
// `wait` false it does not wait for an update that is being applied: then it
// returns false, and leaves *out.
bool shard_brief(struct shard *s, bool wait, struct shard_brief *out);
// Does the same as shard_brief, and also sets each[i], unless `each` is NULL,
// to the figures of table i at the same instant.
bool shard_brief_each(struct shard *s, bool wait, struct shard_brief *out,
                      struct rowset_counts *each);

// Copies the counted set and the numbers, without attempts, for once_release.
// Returns SL_OK or SL_ENOMEM. *out, which is overwritten, owns nothing before.
enum sl_err shard_once(struct shard *s, struct once *out);

// ---- an image of one instant, for a snapshot

struct shard_image {
    struct shard *shard; // a reference
    struct wire_tag tag; // new (incarnation, sequence)
    struct once once;
    struct freeze freeze;
    struct moments_set *moments; // a reference; NULL: none
    uint64_t version;            // updates applied; 0: of shard_freeze_copy
    bool numbered; // has a sequence: later ones may be deltas to it
    // Of its tables only what changed since shard->chain; false again after
    // shard_image_kept.
    bool delta;
};

// Takes values, slots, version and counted set at one instant (S1); pushes go
// on. Allocates as much as the shard has, outside the lock. *out must not move
// until shard_image_release, which does nothing after a failure: *out is zeroes
// then. It takes the next sequence number, which is used up whether a file is
// written or not. The tables' part is a delta if the chain allows it
// (out->delta); else the chain begins anew. The feed of a replica gets the
// number, and its function is called (shard_feed_wake). SL_ESTATE if the shard
// is not this incarnation, not admitted, or closed; SL_EBUSY if an image
// exists; SL_ESTALE if its memory is behind; SL_ENOMEM.
enum sl_err shard_freeze(struct shard *s, uint64_t incarnation,
                         struct shard_image *out, struct sl_error *err);

// Freezes under the caller's tag, with a sequence above every earlier one of
// this incarnation (not checked): so parts of one state on several hosts have
// one name. Sequence 0: the next one. Errors as shard_freeze, here and below.
enum sl_err shard_freeze_as(struct shard *s, struct wire_tag tag,
                            struct shard_image *out, struct sl_error *err);

// Takes an image of the present incarnation as shard_freeze does, to copy the
// state to other memory than a file: its tag names no snapshot, its `version`
// is 0, and the sequence of snapshots and the chain stay as they are.
enum sl_err shard_freeze_copy(struct shard *s, struct shard_image *out,
                              struct sl_error *err);

// Copies bytes [offset, offset + n) of the image, values and then slots,
// repeatedly and in any order; takes the lock. Not together with
// shard_image_take. Returns SL_OK; SL_ERANGE, with nothing copied, beyond the
// end. `into` has space for `n`.
enum sl_err shard_image_read(struct shard_image *image, uint64_t offset,
                             size_t n, void *into);

// Returns true if an image of the shard exists.
bool shard_is_frozen(struct shard *s);

// Reads one block of the image, below image->freeze.blocks: each once, in any
// order, by one thread. Copies it without the lock (freeze_copy), then takes
// the lock (freeze_take). The block is *n bytes at *at, until the image is
// released or `space` is used again. `space` has FREEZE_BLOCK_BYTES, aligned to
// a float. Does not fail.
void shard_image_take(struct shard_image *image, size_t block, void *space,
                      const void **at, size_t *n);
// Goes on with the walk over one part of a table's records in the image, under
// the lock: copies at most `most` of them (not 0), of rowset_part_stride bytes
// each, to `out`, and sets *n to how many, perhaps 0. Returns true while there
// may be more, as rowset_walk. rowset_frozen has the number of all.
bool shard_image_rows(struct shard_image *image, size_t table,
                      enum rowset_part part, size_t most, void *out, size_t *n);
// Returns SL_OK, or why shard_image_rows has ended before the last record of a
// table: a file of rows could not be read.
enum sl_err shard_image_walked(struct shard_image *image, size_t table,
                               struct sl_error *err);
// Adds the image's file, which is durable, to the shard's chain: its hash, the
// bytes of tables in it (snap_written.table_bytes), and those of all of it. The
// ids that went, which a delta has, are forgotten. Before
// shard_image_release, at most once. An image without it leaves the chain as it
// was if it is a delta, and without a file, so that a base is next, if it is a
// base (T10). Does nothing for an image without a sequence, or if the chain
// takes no deltas (most is 0).
void shard_image_kept(struct shard_image *image,
                      const uint8_t sha256[SHA256_BYTES], uint64_t bytes,
                      uint64_t file_bytes);

// Ends the image: pushes copy no more blocks, and another image may be taken.
// Frees what it holds and drops its reference to the shard. Takes the lock; all
// zeroes is allowed.
void shard_image_release(struct shard_image *image);

#endif
