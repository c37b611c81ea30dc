// SPDX-License-Identifier: Apache-2.0
// client/cli/listing.h -- what verbs list, and how each thing is written in
// every form of --output.
//
// One table (lists, in show/listing_kinds.c) has the columns, those that only
// -o wide shows, and what other verbs call a thing; the verbs' help and
// sluice(1) say of it what each form shows.
//
// Threads  main.
// Memory   items are borrowed for the call.
// Errors   those of out.h; `err` may be NULL. What appends may leave a part in
//          `out` if it fails (SL_ENOMEM).
#ifndef CLIENT_CLI_LISTING_H
#define CLIENT_CLI_LISTING_H

#include "client/cli/out.h"
#include "proto/jobs.pb-c.h"

#define LIST_NAME 24 // bytes for a number, with the 0

enum list_kind {
    LIST_NONE,
    LIST_JOBS,
    LIST_WORKERS,
    LIST_SERVERS,
    LIST_MEMBERS,
    LIST_EVENTS,
    LIST_CHECKPOINTS,
    LIST_SHARDS,
    LIST_TABLES,
    LIST_TENANTS,
    LIST_QUEUES,
    LIST_TASKS,
    LIST_KINDS
};

struct list_format {
    const char *called;      // word for people: "jobs"
    const char *const *head; // all columns, ended by NULL
    size_t narrow;           // so many are shown without -o wide
    unsigned right;          // as in struct table
    const char *name_is;     // what -o name prints: "the id"; NULL: nothing
    // All cells of a row. NULL: the verb writes lines of its own.
    void (*row)(struct table *t, const ProtobufCMessage *item);
    // What -o name prints of an item: a text of it, or `out`. NULL: nothing.
    const char *(*name)(char out[LIST_NAME], const ProtobufCMessage *item);
};

extern const struct list_format lists[LIST_KINDS];

// Appends a table of the `count` items with the columns of this kind, which has
// a `row`: all of them, as wide as they are, if `wide`, else the narrow ones in
// the width of stdout (out_room). Appends nothing, not even the head, if there
// are no items. Returns SL_OK or SL_ENOMEM.
enum sl_err list_table(struct buf *out, enum list_kind kind, bool wide,
                       ProtobufCMessage *const *items, size_t count,
                       struct sl_error *err);

// Returns true if the member is not attached any more, and is listed only
// because it was lost.
bool list_is_lost(const Sluice__V1__MemberStatus *member);

// Appends a line for each of the `count` members that is given nothing or was
// lost: its name, since when it is lost, and the reason. An empty line comes
// before the first one if `out` is empty.
enum sl_err list_reasons(struct buf *out, Sluice__V1__MemberStatus *const *list,
                         size_t count);

// Appends a line for each of the `count` entries, a suspect worker and a job
// that it contributed to: how many of its steps and closures are in doubt,
// which closures, and the last checkpoint from before.
enum sl_err list_tainted(struct buf *out, Sluice__V1__TaintedWork *const *list,
                         size_t count);

// Writes the names of items[count] to stdout, a line each. The kind must have
// names (name_is).
enum sl_err list_names(enum list_kind kind, ProtobufCMessage *const *items,
                       size_t count, struct sl_error *err);

// Writes the `count` items to stdout in the form o->form; the kind must have
// what that form needs (`row`, `name`). `reply` is the whole document, which
// JSON and YAML show. Without items, OUT_TEXT and OUT_WIDE write the line
// `none` to stderr instead, and OUT_NAME and OUT_JSONL nothing: each is SL_OK.
enum sl_err list_print(const struct out *o, enum list_kind kind,
                       const ProtobufCMessage *reply,
                       ProtobufCMessage *const *items, size_t count,
                       const char *none, struct sl_error *err);

// Appends "Of workers -o wide also shows pid and version, -o name prints the
// name alone, -o jsonl a line each."; nothing for LIST_NONE.
enum sl_err list_forms(struct buf *out, enum list_kind kind);

#endif
