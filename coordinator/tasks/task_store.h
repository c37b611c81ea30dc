// SPDX-License-Identifier: Apache-2.0
// coordinator/tasks/task_store.h -- the rows of the tasks: every answered call
// is in them after a crash.
//
// SQLite as the journal uses it (WAL, synchronous=FULL), in a file of its own,
// or in memory and in etcd below "tasks/", for coordinators that stand by for
// each other (journal_etcd.h). So tasks neither wait for the journal nor end
// the coordinator. Many calls are one transaction: store_begin, the writes,
// store_commit, and only then the answers. Leases are not in it: a worker says
// what it holds.
//
// Threads  one at a time. store_open, store_load and store_commit wait for the
//          disk.
// Memory   what store_read gives is the caller's (sl_free). What is passed is
//          borrowed for the call. No pointer is NULL but where it is said;
//          `err` may be.
// Errors   SL_EUNAVAIL: no space; SL_EIO, SL_ECORRUPT: with SQLite's words.
//          After one, only store_close is allowed: the book is ahead of the
//          file, and has to be loaded again.
#ifndef COORDINATOR_TASKS_TASK_STORE_H
#define COORDINATOR_TASKS_TASK_STORE_H

#include "common/base/status.h"
#include "coordinator/tasks/book.h"

struct journal;
struct journal_kind;
struct task_store;

extern const struct journal_kind task_store_kind;

// Opens the file at `path`, made if it is missing; *out is for store_close.
// SL_ENOTSUP: written by a newer version; SL_ENOMEM.
enum sl_err store_open(struct task_store **out, const char *path,
                       struct sl_error *err);

// Makes the store of the rows that `db` holds, of task_store_kind, and takes
// `db` over, also when it fails: SL_ENOMEM.
enum sl_err store_of_rows(struct task_store **out, struct journal *db,
                          struct sl_error *err);

// Drops what was not committed, closes the file or the journal, and frees s.
// NULL is allowed.
void store_close(struct task_store *s);

// Loads all rows into an empty book; leased tasks become pending. A failure
// (also SL_ENOMEM) leaves a part of them there, for book_release.
enum sl_err store_load(struct task_store *s, struct book *b,
                       struct sl_error *err);

// Begins a transaction, unless one has begun already.
enum sl_err store_begin(struct task_store *s, struct sl_error *err);

// Writes how far ids were drawn in b, and commits: what was written since the
// last commit is durable then. Does nothing if no transaction has begun. A
// failure rolls the transaction back.
enum sl_err store_commit(struct task_store *s, const struct book *b,
                         struct sl_error *err);

// ---- decisions: each function writes one into the transaction, which it
// begins if needed. A change of a row that is not there is SL_OK and does
// nothing

// Adds a queue; *id is its new number. The tenant has none of that name yet: a
// second one fails the store. `limit` 0: BOOK_LIMIT, when it is loaded.
enum sl_err store_queue_add(struct task_store *s, uint64_t *id,
                            const char *tenant, const char *name,
                            uint32_t limit, struct sl_error *err);

// Changes how many tasks a queue may keep; 0: BOOK_LIMIT, after the next load.
// Tasks that are more than that stay.
enum sl_err store_queue_limit(struct task_store *s, uint64_t id, uint32_t limit,
                              struct sl_error *err);

// Removes a queue with its clients and its tasks.
enum sl_err store_queue_remove(struct task_store *s, uint64_t id,
                               struct sl_error *err);

// Writes a client, new or known: its `last` and its session.
enum sl_err store_client(struct task_store *s, const struct book_client *c,
                         struct sl_error *err);

// Removes a client, which must have no task any more.
enum sl_err store_client_remove(struct task_store *s, uint64_t queue,
                                uint64_t client, struct sl_error *err);

// Adds a pending task with its payload.
enum sl_err store_add(struct task_store *s, const struct book_task *t,
                      const ProtobufCBinaryData *payload, struct sl_error *err);

// Writes the task's count of losses.
enum sl_err store_lost(struct task_store *s, const struct book_task *t,
                       struct sl_error *err);

// Writes the end of a task as `state`, with t's `ended` and losses; its result
// replaces the payload, and `error`, not NULL, says why it failed: "" if it did
// not.
enum sl_err store_end(struct task_store *s, const struct book_task *t,
                      enum book_state state, const ProtobufCBinaryData *result,
                      const char *error, struct sl_error *err);

// Removes a task.
enum sl_err store_forget(struct task_store *s, uint64_t id,
                         struct sl_error *err);

// Reads the payload of a task that has not ended, or the result of one that
// has, into *bytes (data NULL if it is empty), and why it failed into *error
// unless `error` is NULL; "" if it did not. What was written into the open
// transaction is read. On failure neither is set. SL_ECORRUPT: it has no row.
// SL_ENOMEM, after which s goes on.
enum sl_err store_read(struct task_store *s, uint64_t id,
                       ProtobufCBinaryData *bytes, char **error,
                       struct sl_error *err);

#endif
