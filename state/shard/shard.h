// SPDX-License-Identifier: Apache-2.0
// state/shard/shard.h -- one range of the parameters, and what was counted
// on it.
//
// Values, optimizer slots, version, counted set and one lock. A push is
// checked as a whole (S4), and then applied and counted under that lock (S1),
// so nobody ever sees one without the other: not a pull, not a snapshot.
//
// A life: shard_new (seed values, nothing counted) or snap_load fills it;
// shard_admit gives it the incarnation under which it answers; shard_close
// ends that for good. Before and after, it answers SL_EUNAVAIL (S5).
//
// Threads  shard_new and filling: one. The rest: any; each call holds the
//          lock of this shard and no other, and does nothing slow under it.
// Memory   counted references: a call that found the shard keeps it until it
//          is done, also past its close. Payloads are borrowed until return.
// Units    as in plan.h; a version counts the updates applied.
// Errors   a call that fails has changed nothing but the number of refusals.
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
#include "state/shard/freeze.h"
#include "state/shard/once.h"
#include "state/shard/plan.h"
#include "state/shard/pool.h"
#include "state/shard/tagged.h"

// Of all shards of this process: how long a push waited for its shard's lock,
// and had it.
extern struct histogram shard_waits, shard_applies;

struct shard {
    struct plan plan;     // read-only
    uint64_t window;      // closures behind the watermark that are taken (C5)
    struct pool *pool;    // buffers of the size of a payload
    struct tagged tagged; // its snapshots that are mapped, with a lock of
                          // their own
    _Atomic unsigned refs;

    pthread_mutex_t lock; // all below
    bool closed;
    uint64_t incarnation; // 0: not admitted (S5)
    struct wire_tag from; // what it was loaded from; (0, 0): the seed
    uint64_t sequence;    // of its newest snapshot
    struct once once;
    struct rates rates;           // that callbacks have reduced (D1)
    struct region region;         // values, then each slot, staggered
    struct region_shared *shared; // or NULL; then the values lie here, and
                                  // only the slots in region
    struct apply_memory memory;   // into them
    bool behind;                  // it lacks updates that are counted: update.h
    struct contributions contributions; // of the open round (sync)
    struct stale_versions versions;     // that were read, for staleness dc
};

// A shard of seed values with nothing counted. Takes the plan, also when it
// fails. One reference is the caller's.
enum sl_err shard_new(struct shard **out, struct plan *plan);

// The same with its values in memory that it shares with others: there, they
// begin at element `first`. What several shards have so is one vector.
enum sl_err shard_new_in(struct shard **out, struct plan *plan,
                         struct region_shared *values, uint64_t first);
struct shard *shard_ref(struct shard *s);
void shard_unref(struct shard *s); // NULL is allowed

// Bytes of values and slots: what a snapshot holds.
static inline size_t shard_bytes(const struct shard *s)
{
    return (1 + optim_slots(&s->plan.optim)) * plan_values_bytes(&s->plan);
}

// The memory at an offset into values and slots, as if each began where the one
// before ends, and how many bytes lie there together: not 0 before the end.
void *shard_memory_at(const struct shard *s, size_t offset, size_t *bytes);

// From here on it answers, as this incarnation (I1). A lower one than it has
// is ignored: incarnations never fall. A higher one is taken: its evidence is
// the set of an earlier hello, and the set has only grown since.
void shard_admit(struct shard *s, uint64_t incarnation);

// All learning rates that callbacks have made by now: updates of their closures
// are applied at them (D1). What it had before is the beginning of them.
void shard_rates(struct shard *s, const struct rates *rates);

// It never answers again.
void shard_close(struct shard *s);

// ---- what workers say; *reply is whole on SL_OK

// Which steps of a closure are counted, and from now on an older attempt is
// refused (I4).
enum sl_err shard_ask(struct shard *s, const struct wire_ask *ask,
                      struct wire_ask_reply *reply, struct sl_error *err);

// Counts one step once (S2). The order of the checks, which callers may rely
// on: admitted (S5), job incarnation (I6), shard incarnation (I3), the key,
// counted before (a duplicate is acknowledged, also to an old attempt: it
// changes nothing), attempt (I4) and window (C5), size, finite, delay
// (stale.h), round (contributions.h). With `values` (space for the plan's
// elements, as push->wire) the parameters are copied there, unless the push is
// refused; they are those of reply->version.
enum sl_err shard_push(struct shard *s, const struct wire_push *push,
                       struct wire_push_reply *reply, void *values,
                       struct sl_error *err);

// The same for a payload that is known to fit the shard and to be finite.
enum sl_err shard_push_finite(struct shard *s, const struct wire_push *push,
                              struct wire_push_reply *reply, void *values,
                              struct sl_error *err);

// Sync: the round of the closure is the one that contributions are held of. Any
// other mode, or a shard that is not admitted or closed: false.
bool shard_round_open(struct shard *s, uint64_t closure);

// The parameters as pull->wire and their version, of one instant: as they are,
// or as they were before the round that pull->before_round_of names. SL_ESTALE:
// another incarnation of shard or job was asked for.
enum sl_err shard_pull(struct shard *s, const struct wire_pull *pull,
                       struct wire_pull_reply *reply, void *values,
                       struct sl_error *err);

// The same for who has no memory for them: a copy that is on its way to
// somebody else, or NULL. pool_give it.
enum sl_err shard_pull_shown(struct shard *s, const struct wire_pull *pull,
                             struct wire_pull_reply *reply,
                             struct pool_buf **copy, struct sl_error *err);

// And into a buffer of its pool, which is then shown to others.
enum sl_err shard_pull_show(struct shard *s, const struct wire_pull *pull,
                            struct wire_pull_reply *reply,
                            struct pool_buf *copy, struct sl_error *err);

// The checks of a pull alone: may this caller have an answer?
enum sl_err shard_pull_check(struct shard *s, const struct wire_pull *pull,
                             struct sl_error *err);

// ---- what the loop wants to know

struct shard_brief {
    uint64_t incarnation;
    bool closed;
    struct wire_tag from;
    uint64_t low, steps, sparse;
    struct once_counts counts;
};

// With `wait` false: false, and *out untouched, if an apply is running.
bool shard_brief(struct shard *s, bool wait, struct shard_brief *out);

// Copies set and numbers (once_release).
enum sl_err shard_once(struct shard *s, struct once *out);

// ---- one instant of it, for a snapshot

struct shard_image {
    struct shard *shard; // a reference
    struct wire_tag tag; // (incarnation, sequence), a new one
    struct once once;
    struct freeze freeze;
};

// Takes values, slots, version and counted set at one instant (S1); pushes go
// on. *out must not move until shard_image_release. SL_ESTATE if the shard is
// not this incarnation, or closed; SL_EBUSY if an image exists; SL_ESTALE if
// its memory is behind.
enum sl_err shard_freeze(struct shard *s, uint64_t incarnation,
                         struct shard_image *out, struct sl_error *err);

// The same under a sequence of the caller's, which is above every earlier one
// of this incarnation: parts of one state that lie with several holders are
// named alike.
enum sl_err shard_freeze_as(struct shard *s, struct wire_tag tag,
                            struct shard_image *out, struct sl_error *err);

// The same without a name: a copy for other memory than a file's. The sequence
// stays what it was.
enum sl_err shard_freeze_copy(struct shard *s, struct shard_image *out,
                              struct sl_error *err);

// Bytes [offset, offset + n) of the image, again and again and in any order;
// takes the lock. Not together with shard_image_take. SL_ERANGE beyond the end.
enum sl_err shard_image_read(struct shard_image *image, uint64_t offset,
                             size_t n, void *into);

// True if there is an image of it.
bool shard_is_frozen(struct shard *s);

// Block after block of the image (freeze_copy, freeze_take); takes the lock.
void shard_image_take(struct shard_image *image, size_t block, void *space,
                      const void **at, size_t *n);
void shard_image_release(struct shard_image *image);

#endif
