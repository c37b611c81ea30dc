// SPDX-License-Identifier: Apache-2.0
// trainer/push/sync.h -- the seam: how gradients become an update.
//
// The worker's task computes gradients of the closure's steps into a flat
// vector and wants fresh parameters in another. Between the two stands the
// mode: sync_ps pushes to shards. The vectors are cut into ranges, which are
// sent and become fresh one by one.
//
//   sync_open(closure)
//     sync_begin -> a step to compute, or all is counted
//       sync_wait(range) before its parameters are read or gradient written
//       sync_send(range) when its gradient is whole
//       sync_past when parameters of what was sent are not read any more
//     sync_next -> the step after it, while answers are still under way; ...
//     sync_settle: all answers are in
//   sync_close
//
// A sync that was made by_range (sync_ps_options) pulls nothing by itself, for
// vectors of which only a part is in memory at a time: sync_pull instead of
// sync_wait, sync_drop when a range was read, sync_rest before the memory of a
// gradient that was sent may go.
//
// Rows of sparse tables are in no vector: sync_rows pulls those of lists of
// ids, with calls of their own, and the gradients of a step's rows travel with
// its ranges (sync_step). Rows of the next step may be asked for ahead
// (ask_rows).
//
// No call waits, but for await and close: one that is not done yet returns
// SYNC_BUSY and is made again, with the same arguments, when await returns. The
// functions sync_wait, sync_settle, ... at the end make both, for a thread that
// may wait. From the first SYNC_BUSY of a call to its other result the gate's
// pulse says that the attempt waits (pulse_wait): a caller that computes
// meanwhile sets it back. Each answer beats the pulse.
//
// SYNC_AGAIN from any call: what was known of the shards does not hold (a shard
// has been replaced, or found an update too old); call sync_begin again and
// resume where it says (W1).
//
// Threads  The compute thread; sync_map and sync_wake: any.
// Memory   What a closure points at is borrowed from open to close. The two
//          vectors are the sync's; it reads the gradient of a range between
//          sync_send and the next sync_wait of it, and writes the parameters in
//          that time, but not before `reads_until`.
// Units    elements; steps of the closure.
// Errors   SYNC_FAILED sets *err (NULL is allowed); no other result does. After
//          any result but SYNC_OK, SYNC_BUSY and SYNC_AGAIN the closure is only
//          closed. A call may return any result that is not excluded. An error
//          of a call on its way (send, ask_rows) shows at a later call.
#ifndef TRAINER_PUSH_SYNC_H
#define TRAINER_PUSH_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/wire.h"
#include "trainer/push/gate.h"
#include "trainer/base/elements.h"

enum sync_result {
    SYNC_OK,
    SYNC_BUSY,    // not done yet: make the same call again after await
    SYNC_AGAIN,   // call begin again
    SYNC_STOPPED, // the gate is closed
    SYNC_FENCED,  // a newer attempt or incarnation of the job runs: hand back
    SYNC_EARLY,   // a shard is at an earlier round: hand back
    SYNC_PARTLY,  // a shard has a part of the push's closures: hand back
    SYNC_FAILED,  // *err says why
};

// What a push or a pull of rows may have for one range, in bytes.
#define SYNC_ROWS_BYTES WIRE_PAYLOAD_BYTES

struct sync_closure {
    uint64_t closure;
    struct wire_attempt attempt;
    // The incarnation of all shards, of which alone evidence is wanted: begin
    // waits for it. 0: that of the map.
    uint64_t incarnation;
    struct wire_token proof; // the lease's token
    uint32_t steps;          // at most EVIDENCE_STEPS
    struct gate *gate;       // no gate of this header is NULL
};

struct sync_step {
    uint32_t step;
    uint64_t samples, digest;
    uint32_t wanted;      // op of the next step that waits for this range
    uint32_t reads_until; // ops before this one read its parameters; 0: none
    bool none;            // no piece of the range has a gradient
    // Pieces of the range without a gradient, one bit each, as in a push.
    size_t absent_bytes;
    uint8_t absent[WIRE_ABSENT_BYTES];
    // Gradients of the range's rows (proto/table_rows.h), which are borrowed as
    // the gradient is; 0 bytes: none. Not read if the step is skipped.
    const uint8_t *rows;
    size_t rows_bytes;
    // Above 0: in place of rows those are the moments of the worker's own
    // optimizer, after so many updates (L9).
    uint64_t moments_t;
    // Closures that the push counts besides the open one (L5); borrowed until
    // the closure is closed. Their evidence is the caller's.
    const struct wire_push_key *more;
    uint32_t more_count;
    // The closure that comes before those, borrowed as long, with samples and
    // digest: the open one is in no part of the push (L8). NULL: the open one.
    const struct wire_push_key *first;
    // The range is ready again (wait) when parameters have come that are of
    // after the push; else, where the shard holds the push, the old ones will
    // do.
    bool newer;
};

// What is pulled of one range: blocks of ids without elements, one for each
// table that has rows there (proto/table_rows.h).
struct sync_rows_ids {
    const uint8_t *blocks;
    size_t bytes; // 0: nothing is pulled there
};

// Where the rows of one table go.
struct sync_rows_table {
    uint32_t dim;
    const uint32_t *first; // range i has rows first[i] to first[i + 1] - 1
    float *values;         // `dim` for each row
};

// Rows to be pulled.
struct sync_rows {
    const struct sync_rows_ids *ids;      // one per range
    const struct sync_rows_table *tables; // in the order of the blocks
    uint32_t count;                       // tables
    enum wire_type type;                  // of the blocks, so of the answers
    // For a cut, one per range, while no closure is open; NULL: the present
    // rows.
    const struct wire_tag *tags;
    struct gate *gate; // with tags
};

// Moments of a worker's own optimizer that shards keep (L9).
struct sync_moments {
    uint64_t closure; // that begins with them
    struct gate *gate;
    unsigned vectors;
    enum wire_type wire; // in which shards keep them
    // Space for the vectors, each of `elements`.
    float *to;
    uint64_t elements;
};

// Counts and times of this attempt, for reports.
struct sync_seen {
    // Pushes refused, but for those sent again as bytes (peer_send_bytes).
    uint64_t refused;
    uint64_t pushed_bytes; // gradients that shards took
    uint64_t pulled_bytes; // parameters that came
    double wait_ms;        // time spent waiting for answers
    double push_ms;        // time spent handing gradients over
};

struct sync_map_entry {
    const char *address;
    uint64_t incarnation; // 0: not admitted now
};

struct sync;

struct sync_ops {
    // Opens a closure; nothing of it is asked before begin. Called while none
    // is open.
    enum sync_result (*open)(struct sync *s, const struct sync_closure *c,
                             struct sl_error *err);
    // Makes all shards known, and sets *step to the first step that is not
    // counted everywhere; *done: every step is. If *done, *step is the number
    // of steps. Both are set on SYNC_OK only. Not SYNC_AGAIN: it asks shards
    // again by itself. Ends all reads of parameters (`past`), and gives up rows
    // that were asked for (ask_rows).
    enum sync_result (*begin)(struct sync *s, uint32_t *step, bool *done,
                              struct sl_error *err);
    // Returns the first step behind `after` that is not known to be counted
    // everywhere; the closure's number of steps if there is none. Called after
    // a begin.
    uint32_t (*next)(struct sync *s, uint32_t after);
    // Returns SYNC_OK when a range's parameters are fresh and its gradient may
    // be written. If the range was sent with `reads_until`, `past` has come to
    // that op before.
    enum sync_result (*wait)(struct sync *s, uint32_t range,
                             struct sl_error *err);
    // Sends the gradient of a range. `skip`: the step is counted and nothing
    // applied. Once per range and step, after `wait` (by_range: rest, or pull)
    // of the range returned SYNC_OK; *step is copied. On another result than
    // SYNC_OK nothing was sent; after SYNC_OK it leaves at once, or as soon as
    // the shard can be reached. A step that the shard has counted already, of
    // the open closure alone, is not sent either: its parameters are pulled;
    // by_range nothing is done, whatever closures it is of.
    enum sync_result (*send)(struct sync *s, uint32_t range,
                             const struct sync_step *step, bool skip,
                             struct sl_error *err);
    // Tells that the ops before `op` have run; begin, settle and close imply
    // that all have. What was sent with `reads_until` may leave only then.
    void (*past)(struct sync *s, uint32_t op);
    // Returns SYNC_OK when all answers to what was sent are in; rows that were
    // asked for ahead may be on their way.
    enum sync_result (*settle)(struct sync *s, struct sl_error *err);
    // Returns true if the step was counted newly, or is held, by what this
    // attempt sent (as range 0 said). Meaningful after a wait or settle of
    // range 0. Only the last such step is known.
    bool (*counted)(const struct sync *s, uint32_t step);
    // Fills in the incarnations that the evidence is from, one per range. 0:
    // none.
    void (*evidence)(const struct sync *s, uint64_t *incarnations);
    // Returns the version of the map, if it names just these incarnations; else
    // 0.
    uint64_t (*named)(const struct sync *s);
    // Returns true if the shard holds the contribution and has not counted it
    // yet (Y3), as its last answer said. This and `closed` are false from open
    // on, and valid also after close.
    bool (*held)(const struct sync *s, uint32_t range);
    // Returns true if our contribution made its round whole on that shard.
    bool (*closed)(const struct sync *s, uint32_t range);
    // Fills in the counts and times of this attempt. These are kept until the
    // next open.
    void (*seen)(const struct sync *s, struct sync_seen *out);
    // Ends the closure: waits until none of its calls refers to the vectors.
    // Where a shard holds its contribution, or has answered a coded one that
    // made its round whole, then begins to pull the parameters after the round:
    // they come into the vector at any time, until begin of the next closure
    // has returned SYNC_OK, or pull_cut, moments or free was called. Does
    // nothing if none is open.
    void (*close)(struct sync *s);
    // Pulls the parameters of a cut into `to`, a vector of the caller's. No
    // closure is open. Not SYNC_AGAIN. A snapshot that is gone is SYNC_FAILED,
    // with SL_ENOENT, SL_ESTALE or SL_ESTATE. `tags` has one per range; `tags`
    // and `to` are borrowed until the result is not SYNC_BUSY, and `to` is
    // undefined if that is not SYNC_OK.
    enum sync_result (*pull_cut)(struct sync *s, const struct wire_tag *tags,
                                 struct gate *gate, float *to,
                                 struct sl_error *err);
    // Pulls the moments that the shards keep into m->to, while no closure is
    // open. Sets *t, on SYNC_OK, to the updates that they have seen, on the
    // shard of the fewest; 0: a shard keeps none, and m->to is undefined. *m is
    // borrowed until the result is not SYNC_BUSY. Not SYNC_AGAIN.
    enum sync_result (*moments)(struct sync *s, const struct sync_moments *m,
                                uint64_t *t, struct sl_error *err);
    // Pulls ranges [from, end), by_range only: their parameters are in the
    // vector then, as they are now or were when they were pulled last and not
    // dropped since. May be called after SYNC_AGAIN; neither pull nor rest
    // returns SYNC_AGAIN.
    enum sync_result (*pull)(struct sync *s, uint32_t from, uint32_t end,
                             struct sl_error *err);
    // Pulls rows of any tables: one call for each range that has ids, all at
    // once. Ids and rows of a range have at most SYNC_ROWS_BYTES. Called after
    // a begin, also after SYNC_AGAIN, which it does not return; or, for those
    // of a cut, as pull_cut. *rows is copied; what it points at is borrowed
    // until SYNC_OK, or until close has returned; of a cut until the result is
    // not SYNC_BUSY. Only for a sync with tables. If some were asked for ahead,
    // it ends that pull, of what ask_rows was given.
    enum sync_result (*rows)(struct sync *s, const struct sync_rows *rows,
                             struct sl_error *err);
    // Begins what `rows` with the same arguments ends, and waits for nothing
    // (not twice before `rows` has ended it, or begin or close given it up):
    // the present rows of a later step, while the ranges of this one are
    // written and sent. The next begin gives them up, whether or not they have
    // come (W1): the memory is the caller's again when it has returned SYNC_OK,
    // and `rows` pulls anew. The delay of a step that is sent is counted from
    // its parameters or from what `rows` gave it, whichever are older.
    void (*ask_rows)(struct sync *s, const struct sync_rows *rows);
    // Returns SYNC_OK when no call of the range is under way.
    enum sync_result (*rest)(struct sync *s, uint32_t range,
                             struct sl_error *err);
    // Waits until a call that was busy may have got further: an answer or a map
    // has come, `wake` was called, or a while (0.2 s) has passed. A gate that
    // closes does not end the wait by itself.
    void (*await)(struct sync *s);
    // Forgets the parameters of a range, so that the next pull fetches them.
    void (*drop)(struct sync *s, uint32_t range);
    // Takes a newer map; any thread. The entries are copied, one per range; a
    // map of another number of them, or without memory, is ignored. The version
    // is not compared: the caller gives maps in their order. `wake` has a
    // waiting thread look at the gate.
    void (*map)(struct sync *s, uint64_t version,
                const struct sync_map_entry *entries, size_t count);
    void (*wake)(struct sync *s);
    // Cancels what is under way, waits for its end and frees the sync. No
    // closure is open, and no other thread calls map or wake any more.
    void (*free)(struct sync *s);
};

// The first member of an implementation.
struct sync {
    const struct sync_ops *ops;
    const struct elements *ranges;
    uint32_t ranges_count;
    float *params, *grads;
};

// The functions below never return SYNC_BUSY.

// Waits until a range's parameters are fresh and its gradient may be written.
// SYNC_OK; else a result of `wait`, though never SYNC_BUSY, here and below.
enum sync_result sync_wait(struct sync *s, uint32_t range,
                           struct sl_error *err);
// Waits until the answers to all that was sent are in (`settle`).
enum sync_result sync_settle(struct sync *s, struct sl_error *err);
// Pulls ranges as `pull` does, and waits for their parameters.
enum sync_result sync_pull(struct sync *s, uint32_t from, uint32_t end,
                           struct sl_error *err);
// Pulls rows as `rows` does, and waits for them.
enum sync_result sync_rows(struct sync *s, const struct sync_rows *rows,
                           struct sl_error *err);
// Waits until no call of the range is under way, so that the memory of its
// gradient may go; with any sync that has a closure open, by_range or not. Not
// SYNC_AGAIN. After any other result than SYNC_OK the gradient may still be
// read, until close has returned.
enum sync_result sync_rest(struct sync *s, uint32_t range,
                           struct sl_error *err);
// Pulls the parameters of a cut as `pull_cut` does, and waits for them.
enum sync_result sync_pull_cut(struct sync *s, const struct wire_tag *tags,
                               struct gate *gate, float *to,
                               struct sl_error *err);

// Pulls moments as `moments` does, and waits for them.
enum sync_result sync_moments(struct sync *s, const struct sync_moments *m,
                              uint64_t *t, struct sl_error *err);

#endif
