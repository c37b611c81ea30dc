// SPDX-License-Identifier: Apache-2.0
// proto/wire.h -- the only decode, encode and validation of messages.
//
// Bounds first, then structs. What is decoded is valid: lengths are
// within the limits below, names and texts are UTF-8, enums are known, ids and
// ranges fit each other, doubles are finite. No reader checks again.
//
// The data plane (Ask, Push, Pull) is walked by hand, without an allocation:
// small structs by value, the payload as slices of the message. Unknown fields
// and any order of fields are accepted. The control plane is unpacked into an
// arena of the caller's and then checked against the tables of wire_rules.c.
//
// Threads  any; no state. An arena: one thread at a time.
// Memory   What wire_read_* returns borrows from the slices it was given. What
//          wire_unpack_* returns lives in the arena, until its reset or
//          release, and needs the slices no more. wire_dup and pbjson_read
//          give messages of the heap: wire_free.
// Units    bytes; payloads are little-endian numbers of a wire_type.
// Errors   SL_ECORRUPT: not a message of this type. SL_EINVAL: one that says
//          something impossible; the text names message and field. SL_ERANGE:
//          over a limit. SL_ENOTSUP: a kind of message that this version does
//          not know. SL_ENOMEM. *out is untouched by a failure; what a failed
//          wire_unpack_* has taken of its arena stays taken. `err` may be NULL,
//          and no other pointer may but where it is said.
#ifndef PROTO_WIRE_H
#define PROTO_WIRE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "plan/counted.h"
#include "common/net/rpc.h"
#include "plan/schedule.h"
#include "common/base/slices.h"
#include "common/base/status.h"
#include "common/net/wirescan.h"

#include "proto/common.pb-c.h"
#include "proto/coord.pb-c.h"
#include "proto/events.pb-c.h"
#include "proto/job.pb-c.h"
#include "proto/jobs.pb-c.h"
#include "proto/methods.h"
#include "proto/ps.pb-c.h"
#include "proto/ranks.pb-c.h"
#include "proto/tasks.pb-c.h"

// Bytes behind the fields of a push or of its answer, which are one message.
#define WIRE_PAYLOAD_BYTES (RPC_DATA_BYTES - 65536)

#define WIRE_PROTOCOL 2           // Hello.protocol
#define WIRE_NAME_BYTES 200       // names and ids: printable, no blanks at ends
#define WIRE_TEXT_BYTES 4096      // reasons, paths
#define WIRE_SHARDS_MAX 65536     // shards of one job
#define WIRE_LEASES_MAX 64        // leases of one message
#define WIRE_REPEATS_MAX 3        // results of an audited round, of one worker
#define WIRE_SKETCH_MAX 64        // numbers of a result's sketch
#define WIRE_CHANGE_SUMS 256      // sums of a folded contribution
#define WIRE_BAD_MAX 64           // samples, of one message
#define WIRE_LEFT_OUT_NONE 1      // LeaseProgress.left_out_set: no kernel
#define WIRE_SCORE_BUCKETS 200    // buckets of ScoreSums: Keras' thresholds
#define WIRE_PIECES_MAX 262144    // pieces of one job
#define WIRE_VARIABLES_MAX 100000 // variables of one job
#define WIRE_RANK_MAX 8           // axes of a variable
#define WIRE_SPARSE_MAX 65536     // closures in a counted set
#define WIRE_CLOSURE_STEPS_MAX 4096
#define WIRE_EPOCHS_MAX 65536 // epochs of one job
#define WIRE_COUNTED_BYTES (WIRE_CLOSURE_STEPS_MAX / 8)
#define WIRE_ABSENT_MAX 4096 // pieces of a shard that may have no gradient
#define WIRE_ABSENT_BYTES (WIRE_ABSENT_MAX / 8)

// Closures that one push counts at most, and the bytes of one in a message.
#define WIRE_KEYS_MAX 8
#define WIRE_KEY_BYTES 40
#define WIRE_MORE_BYTES ((WIRE_KEYS_MAX - 1) * WIRE_KEY_BYTES)
#define WIRE_ROUND_MAX 1024 // results of an audited round, of one rank
#define WIRE_RANKS_MAX 4096 // ranks of one ring
#define WIRE_WINDOW_MAX                                                        \
    65535 // sides of a kernel, and its dilation: their
          // product and half of it are numbers of 32 bits
#define WIRE_STRIDE_MAX (1 << 24)    // stride of a window; padding of an image
#define WIRE_GROUP_MAX 64            // members of one group
#define WIRE_LANES 2                 // lanes of one generation's sums
#define WIRE_CONTRIBUTIONS_MAX 65536 // contributions of one round
#define WIRE_TASK_BYTES (1 << 20)    // a task's payload or result
#define WIRE_TASKS_MAX 1024          // tasks of one message
#define WIRE_TASK_NUMBERS_MAX 16384  // tasks that one message names
#define WIRE_TASK_LEFT_MAX 200000    // tasks that a resuming client gets
#define WIRE_EVENTS_MAX 1000         // events of one page
#define WIRE_SPANS_MAX 12000         // spans of one timeline
#define WIRE_POINTS_MAX 3600         // points of one curve
#define WIRE_TRACE_MS_MAX 60000      // longest trace
#define WIRE_TRACE_SPANS_MAX 1024    // spans of one piece of it
#define WIRE_TRACE_NAMES_MAX 64      // names of one piece; bytes of each
#define WIRE_LOG_BYTES 65536         // bytes of log lines in one message
#define WIRE_STALENESS_BUCKETS 11    // 0 1 2 4 8 16 32 64 128 256 and above

// A number that may not be known, alone in the oneof `known_...` of a message:
// NAN where it is unset. And the other way: a value that is not finite leaves
// it unset. `which` is the oneof's case.
#define WIRE_KNOWN(m, field)                                                   \
    ((m)->known_##field##_case != 0 ? (m)->field : (double)NAN)
#define WIRE_SET_KNOWN(m, field, which, value)                                 \
    do {                                                                       \
        double known_value_ = (value);                                         \
                                                                               \
        if (isfinite(known_value_)) {                                          \
            (m)->known_##field##_case = (which);                               \
            (m)->field = known_value_;                                         \
        }                                                                      \
    } while (0)

// ---- ordered pairs

struct wire_attempt {
    uint64_t term, n;
};

struct wire_tag {
    uint64_t incarnation, sequence;
};

// Returns a number below 0 if attempt a is older than b, 0 if they are the
// same, above 0 if a is newer. The term counts first.
int wire_attempt_cmp(struct wire_attempt a, struct wire_attempt b);
// Returns a number below 0 if tag a is older than b, 0 if they are the same,
// above 0 if a is newer. The incarnation counts first.
int wire_tag_cmp(struct wire_tag a, struct wire_tag b);

// Returns the attempt that a message holds; (0, 0) for NULL.
struct wire_attempt wire_attempt_of(const Sluice__V1__Attempt *m);
// Returns the tag that a message holds; (0, 0) for NULL.
struct wire_tag wire_tag_of(const Sluice__V1__Tag *m);
// Returns the message of an attempt, by value.
Sluice__V1__Attempt wire_attempt_msg(struct wire_attempt a);

// Writes into a heartbeat what this process has used, resident bytes and
// microseconds of processor time, and the bytes that its host has sent and
// received; other fields stay. Reads files of /proc; what cannot be read is 0.
void wire_usage(Sluice__V1__Heartbeat *beat);
// Returns the message of a tag, by value.
Sluice__V1__Tag wire_tag_msg(struct wire_tag t);

// ---- data plane: one struct per message

enum wire_refused_why {
    WIRE_REFUSED_NOT,
    // `newest` was seen, or the closure is beyond the window: drop it. `newest`
    // may be older then.
    WIRE_REFUSED_ATTEMPT,
    WIRE_REFUSED_INCARNATION,     // take a newer map, ask again
    WIRE_REFUSED_JOB_INCARNATION, // `job_incarnation` holds: drop
    WIRE_REFUSED_STALE,           // pull, recompute
    WIRE_REFUSED_REGION,          // `shm` is not known there: send the bytes
    WIRE_REFUSED_ROUND,           // sync: an earlier round is open: drop
    WIRE_REFUSED_SET,             // a part of the closures is there: drop
};

struct wire_refused {
    enum wire_refused_why why;  // WIRE_REFUSED_NOT: it was not refused
    struct wire_attempt newest; // of WIRE_REFUSED_ATTEMPT
    uint64_t job_incarnation;   // of WIRE_REFUSED_JOB_INCARNATION
};

struct wire_token { // zeros: none
    uint64_t low, high;
};

// Returns the token that a message holds; zeros for NULL.
struct wire_token wire_token_of(const Sluice__V1__JobToken *m);
// Fills *out with the token *t and returns `out`, which must live as long as
// the message that it is set in. Returns NULL, with *out filled all the same,
// if the token is zeros: then that message has none.
Sluice__V1__JobToken *wire_token_msg(Sluice__V1__JobToken *out,
                                     const struct wire_token *t);

// Here and below `incarnation` and `version` are those of the shard.
struct wire_ask {
    uint64_t job, job_incarnation, incarnation, closure;
    struct wire_attempt attempt;
    uint32_t shard;
    // token: of the job; proof: that the attempt was leased (token.h)
    struct wire_token token, proof;
    bool unproven; // not of the wire: older attempts go on (I4)
};

struct wire_ask_reply {
    uint64_t incarnation, version;
    struct wire_refused refused; // then only incarnation holds
    // Bit i of byte i / 8, least significant first: step i is counted. May be
    // shorter than the closure; what is missing is 0.
    size_t counted_bytes;
    uint8_t counted[WIRE_COUNTED_BYTES];
};

// Type of the elements of a payload. From WIRE_INT8 on it is a code, of several
// elements together: of differences (state/shard/coded.h), and WIRE_INT8 of
// rows of tables (table_rows.h).
enum wire_type {
    WIRE_F32,
    WIRE_BF16,
    WIRE_F16,
    WIRE_INT8,
    WIRE_E3M0,
    WIRE_TOPK2
};
#define WIRE_TYPES 3     // with an element at each place of a payload
#define WIRE_ROW_TYPES 4 // of rows
#define WIRE_CODES 6     // all

// Returns the bytes of one element of a payload that is not coded.
static inline size_t wire_type_bytes(enum wire_type t)
{
    return t == WIRE_F32 ? 4 : 2;
}

// Returns the size in bytes that a wire_shm of that many elements has: a
// multiple of 4.
static inline size_t wire_shm_bytes(enum wire_type t, size_t elements)
{
    return (elements * wire_type_bytes(t) + 3) & ~(size_t)3;
}

extern const char *const wire_type_names[WIRE_CODES]; // "f32", as in a job

// Bytes in memory that was handed to the psserver; offset + bytes is a number,
// and both are multiples of 4.
struct wire_shm {
    uint64_t region, offset, bytes;
};

struct wire_push {
    uint64_t job, job_incarnation, incarnation, closure;
    struct wire_attempt attempt;
    // based_on: version of the parameters that the gradient was computed at;
    // map_version: of the JobMap that the worker has; samples and digest are
    // those of the step (EpochCount).
    uint64_t based_on, map_version, samples, digest;
    uint32_t shard, step;
    bool skip;
    bool late; // refused for its delay before: apply it, at a smaller rate
    bool has_shm, has_answer;
    enum wire_type wire;    // type of payload, shm and answer
    struct wire_shm shm;    // instead of a payload
    struct wire_shm answer; // where the reply's payload may be put
    struct wire_token token;
    bool unproven; // not of the wire: older attempts go on (I4)
    // Used bytes of `absent`, the last of which is not 0; 0: no piece is
    // absent.
    size_t absent_bytes;
    uint8_t absent[WIRE_ABSENT_BYTES]; // bit per piece: it has none
    size_t more_bytes;             // used bytes of `more`: WIRE_KEY_BYTES each
    uint8_t more[WIRE_MORE_BYTES]; // wire_push_key reads them
    // Whole elements; empty if skip or has_shm, if no piece has a
    // gradient, or the shard has no elements.
    struct sl_slices payload;
    // Blocks of table_rows.h, behind the payload; or, if moments_t is not 0,
    // the moments of the worker's optimizer after so many updates (L9).
    struct sl_slices rows;
    uint64_t rows_bytes; // of them
    uint64_t moments_t;
};

// One closure that a push counts.
struct wire_push_key {
    uint64_t closure;
    struct wire_attempt attempt;
    uint64_t samples, digest;
};

// Returns the number of closures that a push counts, 1 to WIRE_KEYS_MAX.
static inline size_t wire_push_keys(const struct wire_push *m)
{
    return 1 + m->more_bytes / WIRE_KEY_BYTES;
}

// Returns closure number `i`, below wire_push_keys, of a push; 0 is that of its
// own fields.
struct wire_push_key wire_push_key(const struct wire_push *m, size_t i);
// Adds a closure behind those that a push counts, of which it has fewer than
// WIRE_KEYS_MAX: that is not checked.
void wire_push_add(struct wire_push *m, const struct wire_push_key *key);

// Returns true if bit `i`, that of piece i, is set in absent[bytes]; false
// behind the end.
static inline bool wire_absent(const uint8_t *absent, size_t bytes, size_t i)
{
    return i / 8 < bytes && absent[i / 8] >> (i % 8) & 1;
}

enum wire_push_result {
    WIRE_PUSH_UNKNOWN,   // never sent
    WIRE_PUSH_COUNTED,   // applied or skipped, and counted
    WIRE_PUSH_DUPLICATE, // was counted before; nothing changed
    WIRE_PUSH_REFUSED,   // not counted; nothing changed
    WIRE_PUSH_HELD,      // kept until its round is whole (Y3)
};

struct wire_push_reply {
    // staleness: updates between based_on and this one
    uint64_t incarnation, version, staleness;
    // The open round, while none of its closures is counted: the first one plus
    // 1, and their number. open_first 0: not said.
    uint64_t open_first;
    uint32_t open_count;
    enum wire_push_result result;
    struct wire_refused refused; // set exactly if result is REFUSED
    bool in_shm;                 // the payload is where `answer` said
    enum wire_type wire;         // type of the payload: as asked, or WIRE_F32
    struct sl_slices payload;    // whole elements; PushPull only
};

struct wire_pull {
    uint64_t job, job_incarnation, incarnation; // incarnation 0: any
    uint32_t shard;
    bool has_tag; // the values of that snapshot, not the present ones
    struct wire_tag tag;
    bool has_answer;
    struct wire_shm answer; // where the reply's payload may be put
    enum wire_type wire;    // type wanted of the reply's payload
    uint64_t have;          // version plus 1 that the caller has; 0: none
    // A closure plus 1; 0: none. If its round was applied last, the values of
    // before that, else those of now.
    uint64_t before_round_of;
    // A closure plus 1; 0: none. The answer waits until its round is applied,
    // for a second or so.
    uint64_t after_round_of;
    struct wire_token token;
    uint64_t first_record; // of a table in a snapshot
    bool ids_of_tag;       // the payload is ids: their rows there
    bool moments;          // those that the shard keeps (L9), no parameters
    // Ids (table_rows.h), with a tag alone a table's name; empty: of the
    // parameters.
    struct sl_slices payload;
};

struct wire_pull_reply {
    uint64_t incarnation, version;
    uint64_t open_first; // as in wire_push_reply
    uint32_t open_count;
    bool in_shm; // the payload is where `answer` said
    // Type of the payload: as asked, or WIRE_F32. A code: the payload is the
    // change of what the caller has; empty: the caller has this version.
    enum wire_type wire;
    uint64_t records;         // of a table in a snapshot
    uint32_t record_bytes;    // of each of them
    uint64_t moments_t;       // updates that the moments have seen; 0: none
    struct sl_slices payload; // whole elements
};

struct wire_piece { // piece of a sum, from rank to rank
    // bucket counts from 0 in a generation; first: element of the bucket
    uint64_t job, generation, bucket, first;
    uint32_t from, hop; // rank that sends it; hop as in trainer/sum/net.h
    uint32_t lane;      // below WIRE_LANES
    enum wire_type wire;
    struct wire_token token;
    struct sl_slices payload; // whole elements, at least one
};

struct wire_state_reply {
    struct sl_slices payload;
};

struct wire_follow { // operations, from a shard's source to its follower
    // incarnation: of the shard at its source; order: of the coordinator;
    // number: of the first operation, from 1
    uint64_t job, job_incarnation, incarnation, order, number;
    uint32_t shard;
    struct sl_slices payload; // state/shard/oplog.h
};

struct wire_follow_reply {
    uint64_t applied; // number of the last operation that is applied
    bool whole;       // the last one was the end
};

// ---- data plane: reading
//
// Each wire_read_* decodes `bytes` as one message and checks it, with the
// errors above; the payload in *out is slices of `bytes`. SL_ERANGE: there is
// too much beside the payload, or in a field of bytes. SL_EINVAL, besides what
// is said below: a number exceeds its 32 bits, or the enum that is known.

// Reads an Ask. SL_EINVAL: the job is 0, or the shard out of bounds.
enum sl_err wire_read_ask(struct wire_ask *out, const struct sl_slices *bytes,
                          struct sl_error *err);
// Reads the answer to an Ask. SL_EINVAL: it is refused without a reason.
enum sl_err wire_read_ask_reply(struct wire_ask_reply *out,
                                const struct sl_slices *bytes,
                                struct sl_error *err);
// Reads a push. SL_EINVAL: job, shard or step are out of bounds, the payload
// has no whole elements, a shm is out of bounds, absent ends with a byte of 0,
// more names a closure twice, or payload, shm, answer, skip, absent, rows,
// moments_t and more do not fit each other. The shard's size, the blocks of
// rows and the numbers in the payload are not checked.
enum sl_err wire_read_push(struct wire_push *out, const struct sl_slices *bytes,
                           struct sl_error *err);
// Reads the answer to a push. SL_EINVAL: it has no result, `refused` has no
// reason or does not fit the result, it has a payload and in_shm, or a payload
// without whole elements, or its type is a code.
enum sl_err wire_read_push_reply(struct wire_push_reply *out,
                                 const struct sl_slices *bytes,
                                 struct sl_error *err);
// Reads a pull. SL_EINVAL: job, shard or answer are out of bounds, the type is
// WIRE_TOPK2, the tag is that of the seed, the name of a table is longer than
// WIRE_NAME_BYTES, or code, answer, ids, tag and moments do not go together.
// The ids are not looked at.
enum sl_err wire_read_pull(struct wire_pull *out, const struct sl_slices *bytes,
                           struct sl_error *err);
// Reads the answer to a pull. SL_EINVAL: it has a payload and in_shm, a payload
// without whole elements, in_shm and a code, or the type WIRE_TOPK2.
enum sl_err wire_read_pull_reply(struct wire_pull_reply *out,
                                 const struct sl_slices *bytes,
                                 struct sl_error *err);

// Reads a piece of a sum. SL_EINVAL: the job is 0, the lane is out of bounds,
// the type is a code, or the payload is empty or has no whole elements.
enum sl_err wire_read_piece(struct wire_piece *out,
                            const struct sl_slices *bytes,
                            struct sl_error *err);
// Reads operations of a shard. SL_EINVAL: job or shard are out of bounds, or
// the order or the first number is 0. The payload is not looked at.
enum sl_err wire_read_follow(struct wire_follow *out,
                             const struct sl_slices *bytes,
                             struct sl_error *err);
// Reads the answer of a follower, of which all values are allowed.
enum sl_err wire_read_follow_reply(struct wire_follow_reply *out,
                                   const struct sl_slices *bytes,
                                   struct sl_error *err);
// Reads a part of a rank's state, which is bytes of any number.
enum sl_err wire_read_state_reply(struct wire_state_reply *out,
                                  const struct sl_slices *bytes,
                                  struct sl_error *err);

// ---- data plane: writing
//
// Each wire_encode_* writes to `out` the bytes that come before a payload of
// payload_bytes (all of the message if that is 0), and returns their number.
// The structs' own `payload` is not read, and nothing is checked. A token of
// zeros is left out, but the `proof` of an Ask is then an empty message. They
// cannot fail, as WIRE_HEAD_MAX bytes hold any of them, and allocate nothing.
// The *_bytes of absent, more and counted are no larger than their arrays.

#define WIRE_HEAD_MAX 1856
// Writes an Ask.
size_t wire_encode_ask(uint8_t out[WIRE_HEAD_MAX], const struct wire_ask *m);
// Writes the answer to an Ask, with `refused` if that has a reason.
size_t wire_encode_ask_reply(uint8_t out[WIRE_HEAD_MAX],
                             const struct wire_ask_reply *m);
// Writes a push; shm and answer if has_shm and has_answer say so. payload_bytes
// are as of wire_head_push.
size_t wire_encode_push(uint8_t out[WIRE_HEAD_MAX], const struct wire_push *m,
                        size_t payload_bytes);
// Writes a piece of a sum.
size_t wire_encode_piece(uint8_t out[WIRE_HEAD_MAX], const struct wire_piece *m,
                         size_t payload_bytes);
// Writes the answer to a push, with `refused` if that has a reason.
size_t wire_encode_push_reply(uint8_t out[WIRE_HEAD_MAX],
                              const struct wire_push_reply *m,
                              size_t payload_bytes);
// Writes a pull; tag and answer if has_tag and has_answer say so.
size_t wire_encode_pull(uint8_t out[WIRE_HEAD_MAX], const struct wire_pull *m,
                        size_t payload_bytes);
// Writes the answer to a pull.
size_t wire_encode_pull_reply(uint8_t out[WIRE_HEAD_MAX],
                              const struct wire_pull_reply *m,
                              size_t payload_bytes);

// Each wire_head_* sets the same bytes as the header of an initialised rpc_msg;
// the caller then adds the payload with rpc_msg_part. An earlier header is
// lost. SL_ENOMEM only: then msg is as it was. It borrows nothing of *m.

// Sets the header to an Ask, which has no payload.
enum sl_err wire_head_ask(struct rpc_msg *msg, const struct wire_ask *m);
// Sets the header to the answer to an Ask, which has no payload.
enum sl_err wire_head_ask_reply(struct rpc_msg *msg,
                                const struct wire_ask_reply *m);
// Sets the header to a push; payload_bytes includes m->rows_bytes, and is no
// more with shm, and 0 with skip.
enum sl_err wire_head_push(struct rpc_msg *msg, const struct wire_push *m,
                           size_t payload_bytes);
// Sets the header to the answer to a push.
enum sl_err wire_head_push_reply(struct rpc_msg *msg,
                                 const struct wire_push_reply *m,
                                 size_t payload_bytes);
// Sets the header to a pull; payload_bytes is 0 unless it is of rows.
enum sl_err wire_head_pull(struct rpc_msg *msg, const struct wire_pull *m,
                           size_t payload_bytes);
// Sets the header to a piece of a sum.
enum sl_err wire_head_piece(struct rpc_msg *msg, const struct wire_piece *m,
                            size_t payload_bytes);
// Sets the header to operations of a shard.
enum sl_err wire_head_follow(struct rpc_msg *msg, const struct wire_follow *m,
                             size_t payload_bytes);
// Sets the header to the answer of a follower, which has no payload.
enum sl_err wire_head_follow_reply(struct rpc_msg *msg,
                                   const struct wire_follow_reply *m);
// Sets the header to a part of a rank's state.
enum sl_err wire_head_state_reply(struct rpc_msg *msg, size_t payload_bytes);
// Sets the header to the answer to a pull.
enum sl_err wire_head_pull_reply(struct rpc_msg *msg,
                                 const struct wire_pull_reply *m,
                                 size_t payload_bytes);

// ---- control plane: scan, unpack into the arena, validate
//
//   enum sl_err wire_unpack_attend_up(Sluice__V1__AttendUp **out,
//                                     struct wire_arena *arena,
//                                     const struct sl_slices *bytes,
//                                     struct sl_error *err);
//
// Several messages may live in one arena (wire_arena_reset between unrelated
// ones). Submessages that a rule needs are never NULL after it: an
// absent Attempt, Tag, StepMetrics, ShardCounts or CountedSet is there and
// empty, except where its absence says something: Refuse.load, base_tag of
// ShardHello and Admit, ShardReport.counted, RingStep.metrics, Event.attempt.
// Others are NULL if they are absent, as Complete.facts, facts, geometry and
// map of JobOpen (before the probe and the placement; do not send empty ones),
// spec and geometry of JobStatus. An Attend message of no known kind is
// SL_ENOTSUP: ignore it. Replies that hold all shards and epochs of jobs
// (job_status, list_reply, checkpoints_reply, timeline_reply) may have 64 MiB.
#define WIRE_UNPACK_MAP(X)                                                     \
    WIRE_METHOD_MESSAGES(X)                                                    \
    X(job_spec, JobSpec)                                                       \
    X(resume_source, ResumeSource)                                             \
    X(shard_counts, ShardCounts)                                               \
    X(counted_set, CountedSet)                                                 \
    X(local_reply, LocalReply)                                                 \
    X(share_request, ShareRequest)                                             \
    X(share_reply, ShareReply)                                                 \
    X(state_request, StateRequest)
#define WIRE_UNPACK_PROTOTYPE(name, Type)                                      \
    enum sl_err wire_unpack_##name(                                            \
        Sluice__V1__##Type **out, struct wire_arena *arena,                    \
        const struct sl_slices *bytes, struct sl_error *err);
WIRE_UNPACK_MAP(WIRE_UNPACK_PROTOTYPE)
#undef WIRE_UNPACK_PROTOTYPE

// Defines a static function that unpacks a message for callers that know only
// its base: a table of methods, a line of calls. *out is set on SL_OK; the rest
// is as of wire_unpack_*.
#define WIRE_DECODER(function, name, Type)                                     \
    static enum sl_err function(                                               \
        ProtobufCMessage **out, struct wire_arena *arena,                      \
        const struct sl_slices *bytes, struct sl_error *err)                   \
    {                                                                          \
        Sluice__V1__##Type *m = NULL;                                          \
        enum sl_err rc = wire_unpack_##name(&m, arena, bytes, err);            \
                                                                               \
        if (rc == SL_OK)                                                       \
            *out = &m->base;                                                   \
        return rc;                                                             \
    }

// Escapes every string of the unpacked message, so that it may be shown on one
// line (common/base/utf8.h); a field called `explanation` keeps its line ends.
// `arena` is the one that the message lives in: strings are replaced by copies
// there, or changed in place. Where the arena has no room for a copy, '?'
// stands for each character that may not be shown.
void wire_plain(ProtobufCMessage *msg, struct wire_arena *arena);

// Validates a message that came otherwise (pbjson_read of a manifest), without
// changing it; in proto3 no string of it is NULL. Returns SL_OK if it is valid;
// SL_EINVAL names message and field: also a text that is missing ("" where its
// rule wants one), and an absent submessage that wire_unpack would add.
// SL_ERANGE and SL_ENOTSUP as above.
enum sl_err wire_check(const ProtobufCMessage *msg, struct sl_error *err);

// Appends the packed message to `out`. SL_ENOMEM leaves `out` as it was.
enum sl_err wire_pack(const ProtobufCMessage *msg, struct buf *out);
// Packs the message as the header of an initialised rpc_msg, in place of the
// header that it had. SL_ENOMEM leaves it as it was.
enum sl_err wire_msg(struct rpc_msg *out, const ProtobufCMessage *msg);

// Returns an empty message of type `of` on the heap, for wire_free; NULL: no
// memory.
void *wire_new(const ProtobufCMessageDescriptor *of);
// Makes a deep copy of `msg`, on the heap or not, for wire_free. SL_ENOMEM.
enum sl_err wire_dup(ProtobufCMessage **out, const ProtobufCMessage *msg);
// Frees a message of the heap (wire_new, wire_dup, wire_load, pbjson_read) and
// all in it. NULL is allowed.
void wire_free(ProtobufCMessage *msg);

#define WIRE_LOAD_BYTES ((size_t)512 << 20)
#define WIRE_LOAD_FIELDS ((size_t)1 << 25)
// Unpacks data[size], which this program keeps for itself, to a message of type
// `of` on the heap (wire_free), checked as those from outside are. It may be
// larger than what the wire carries, up to WIRE_LOAD_BYTES and WIRE_LOAD_FIELDS
// fields: the counts of a cut are of all its shards and epochs. Absent messages
// are added as wire_unpack_* does. `data` is borrowed for the call.
enum sl_err wire_load(ProtobufCMessage **out,
                      const ProtobufCMessageDescriptor *of, const void *data,
                      size_t size, struct sl_error *err);
extern ProtobufCAllocator wire_heap; // allocator of messages of the heap

// ---- counted sets and geometry

// Returns the schedule with the numbers of a message, which must have been
// checked, as each one is that was unpacked.
struct schedule wire_schedule(const Sluice__V1__Geometry *g);
// Returns the message with the numbers of a schedule, by value; they fit its
// fields of 32 bits.
Sluice__V1__Geometry wire_geometry(const struct schedule *s);

// A CountedSet message over a copy of the set. `msg` may be used until
// release.
struct wire_counted {
    Sluice__V1__CountedSet msg;
    struct counted_plain plain;        // ours
    Sluice__V1__CountedClosure *items; // ours
    Sluice__V1__CountedClosure **list; // ours
};
// Fills *w with a message of set `c`, which may change afterwards. *w may be
// moved, also before its first use. SL_ENOMEM leaves it alone.
enum sl_err wire_counted_init(struct wire_counted *w, const struct counted *c);
// Frees what wire_counted_init made; w->msg is not used any more. All zeroes is
// allowed.
void wire_counted_release(struct wire_counted *w);

// Returns how many closures behind the watermark a counted set may reach so
// that it fits into a message beside a line for each of `epochs` epochs, if
// closures have steps_per_closure steps; at most WIRE_SPARSE_MAX. No lease is
// for a closure further away (C5).
uint64_t wire_window_most(uint64_t steps_per_closure, uint64_t epochs);

// Checks that a shard's set and counts fit into one message: SL_ERANGE says
// what is too much; no other error. Readers have the same limits.
enum sl_err wire_counted_fits(const Sluice__V1__CountedSet *set,
                              const Sluice__V1__ShardCounts *counts,
                              struct sl_error *err);

// Makes *out, for counted_release, a copy of the set of a message (`set` NULL:
// the empty set) over the schedule `s`, which must hold (schedule_check).
// SL_ECORRUPT unless the set fits the schedule; SL_ENOMEM. *out is untouched
// then.
enum sl_err wire_counted_read(struct counted *out, const struct schedule *s,
                              const Sluice__V1__CountedSet *set,
                              struct sl_error *err);

#endif
