// SPDX-License-Identifier: Apache-2.0
// proto/wire_check.h -- the rules that messages must keep. For this room only.
//
// What holds everywhere needs no rule: strings are UTF-8 of at most
// WIRE_TEXT_BYTES, bytes have at most WIRE_TEXT_BYTES, enums are known, doubles
// are finite. Rules say more, or other, per field; `check` says what holds
// between fields.
//
// Threads  any.
// Memory   as wire.h says; tables are static.
// Errors   as wire.h says; `err` may be NULL. What a failed unpack has taken of
//          the arena stays taken until its reset.
#ifndef PROTO_WIRE_CHECK_H
#define PROTO_WIRE_CHECK_H

#include "proto/wire.h"

// Each number from outside has a rule, and each list a RULE_COUNT (a test reads
// the table): a number is a request for work, and nothing loops to it,
// allocates by it or fills a gap up to it unless its rule bounds it. Where the
// bound is constant it is here. Where it follows from what the reader knows,
// its job's geometry say, RULE_KNOWN names the function that checks it before
// anything is done. RULE_OPAQUE is for numbers that bound no work: they
// are compared, kept and told.
enum wire_rule_kind {
    RULE_RANGE = 1, // an integer in [min, max]; signed: amount of at most max
    RULE_COUNT,     // a repeated field of min to max values
    RULE_BYTES,     // bytes of min to max
    RULE_NAME,      // min to max bytes, printable; no control characters
    RULE_FILE,      // a file's name: no '/', no leading '.'; or empty
    RULE_ADDRESS,   // as rpc.h has them; or empty
    RULE_TEXT,      // at most max bytes
    RULE_FILL,      // absent: becomes an empty message
    RULE_REQUIRED,  // absent: refused
    RULE_ANY_FLOAT, // need not be finite
    RULE_KNOWN,     // an integer; the function `by` bounds it
    RULE_OPAQUE,    // an integer that is compared, kept and told alone
};

struct wire_rule {
    uint32_t number; // of the field
    enum wire_rule_kind kind;
    uint64_t min, max;
    const char *by; // RULE_KNOWN: "file.c:function"; else may be NULL
};

// `rules` is in the order of numbers. A list of numbers may have two: a
// RULE_COUNT and, behind it, one of each number.
struct wire_rules {
    const ProtobufCMessageDescriptor *of;
    const struct wire_rule *rules;
    size_t count;
    enum sl_err (*check)(const ProtobufCMessage *m, struct sl_error *err);
    bool shown; // clients alone read it, and show its numbers
};

// Returns the rules of messages of type `of`, a static table; NULL: there are
// none beyond what holds everywhere.
const struct wire_rules *wire_rules_of(const ProtobufCMessageDescriptor *of);

// Checks `m` and all messages in it by their rules. Absent messages that a rule
// adds (RULE_FILL) are added from `arena`, some of them also if it fails;
// without an arena (NULL) they are refused and `m` is not written to. SL_EINVAL
// names message and field; SL_ERANGE: a geometry's numbers together are too
// large; SL_ENOTSUP; SL_ENOMEM.
enum sl_err wire_fix(ProtobufCMessage *m, struct wire_arena *arena,
                     struct sl_error *err);

// Scans and unpacks `bytes` as a message of type `of` into `arena`, with the
// limits of that type, and checks it with wire_fix. *out lives in the arena.
enum sl_err wire_unpack(ProtobufCMessage **out, struct wire_arena *arena,
                        const ProtobufCMessageDescriptor *of,
                        const struct sl_slices *bytes, struct sl_error *err);
// Unpacks and checks as wire_unpack does, with `limits`, or the defaults of
// struct wire_limits for NULL, instead of those of the message's type.
enum sl_err wire_unpack_within(ProtobufCMessage **out, struct wire_arena *arena,
                               const ProtobufCMessageDescriptor *of,
                               const struct sl_slices *bytes,
                               const struct wire_limits *limits,
                               struct sl_error *err);

// ---- what holds between the fields of a message (wire_coord.c, wire_jobs.c)
//
// Each is the `check` of the rules of one type, and `m` is of that type, with
// fields that have passed their own rules. SL_EINVAL names the field.

// Checks that shape and product are in bounds, the momentum is in [0, 1], the
// matrix of an orthogonal first value can be made, and keras_order is an order
// of the axes, or empty.
enum sl_err check_variable(const ProtobufCMessage *m, struct sl_error *err);
// Checks that the closures rise, from the watermark on.
enum sl_err check_counted_set(const ProtobufCMessage *m, struct sl_error *err);
// Checks that the process has a number, and a psserver an address.
enum sl_err check_hello(const ProtobufCMessage *m, struct sl_error *err);
// Checks that a report has a failure, or a file with its hash.
enum sl_err check_snapshot(const ProtobufCMessage *m, struct sl_error *err);
// Checks that each variable has its number, and that the pieces are of this
// shard, in model order, at most one of a variable, and rows of the variables
// here.
enum sl_err check_shard_spec(const ProtobufCMessage *m, struct sl_error *err);
// Checks that the spec has a model and `train`, which all that reads it takes
// for granted.
enum sl_err check_job_open(const ProtobufCMessage *m, struct sl_error *err);
// Checks that the shards are in order, all of them in a whole map, and that
// those that are admitted have addresses.
enum sl_err check_job_map(const ProtobufCMessage *m, struct sl_error *err);
// Checks that a lease has samples, and steps if it is for training; one for
// probes or rings needs neither.
enum sl_err check_lease(const ProtobufCMessage *m, struct sl_error *err);
// Checks that this rank and the holders are among the ranks.
enum sl_err check_ring_begin(const ProtobufCMessage *m, struct sl_error *err);
// Checks that the suspect may be a rank, or is UINT32_MAX: the sender itself.
enum sl_err check_ring_broken(const ProtobufCMessage *m, struct sl_error *err);
// Checks that the source is a cut with its geometry, or files of weights or
// tables without a cut.
enum sl_err check_resume_source(const ProtobufCMessage *m,
                                struct sl_error *err);
// Checks that the numbers make a schedule (schedule_check, with its errors:
// SL_EINVAL, SL_ERANGE).
enum sl_err check_geometry(const ProtobufCMessage *m, struct sl_error *err);
// Checks that names have 1 to WIRE_TRACE_NAMES_MAX bytes, and the spans names
// of the list and times in bounds.
enum sl_err check_trace_piece(const ProtobufCMessage *m, struct sl_error *err);
// Checks the same of the names and spans of a TraceReply.
enum sl_err check_trace_reply(const ProtobufCMessage *m, struct sl_error *err);
// Checks that the message is of a known kind. SL_ENOTSUP: it is of a newer one.
enum sl_err check_attend_up(const ProtobufCMessage *m, struct sl_error *err);
// Checks that the message is of a known kind. SL_ENOTSUP: it is of a newer one.
enum sl_err check_attend_down(const ProtobufCMessage *m, struct sl_error *err);

#endif
