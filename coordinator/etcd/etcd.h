// SPDX-License-Identifier: Apache-2.0
// coordinator/etcd/etcd.h -- a client of etcd 3.4 and later: what a coordinator
// needs to be chosen, and to keep its journal there.
//
// One client speaks to all members of one etcd cluster. A call goes to one
// member; when that fails to answer, the next call goes to the next member.
// Nothing is ever sent twice: what failed may have been done all the same
// (etcd_unknown), and only the caller knows how to find out.
//
// All keys lie below the prefix of the client's URL, and are written here
// without it: "leader" of etcd://10.0.0.5:2379/sluice is the key
// "sluice/leader" of etcd.
//
// Threads  any. Calls wait, at most `limit_ms`, so not from a callback of
//          rpc.h. Callbacks of a watch: one I/O thread, never two at once.
// Memory   a reply owns what its rows point at (etcd_reply_release). Strings
//          and values that are passed are borrowed for the call. No pointer is
//          NULL but where it is said.
// Units    revisions of etcd's store, which rise with each write to it; *_ms.
// Errors   those of the call (rpc.h). SL_ENOENT: there is no such lease;
//          SL_ERANGE: etcd_compacted; SL_EDENIED, SL_EAUTH: etcd asks for a
//          user, which this client is not; SL_ECORRUPT: it was no answer of
//          etcd's; SL_EINVAL: a key is too long, or a transaction has more than
//          ETCD_OPS conditions, or operations in a branch, and nothing was
//          sent; SL_ENOMEM.
//          Outputs are set on SL_OK alone; `err` may be NULL.
#ifndef COORDINATOR_ETCD_ETCD_H
#define COORDINATOR_ETCD_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/slices.h"
#include "common/base/status.h"
#include "common/net/rpc.h"

#define ETCD_SCHEME "etcd://"
#define ETCD_KEY_BYTES 512 // of a key with the prefix, with the 0
#define ETCD_VALUE_BYTES                                                       \
    (1u << 20)                       // what fits into a call of etcd's default
                                     // (1.5 MiB), beside other operations
#define ETCD_REPLY_BYTES (64u << 20) // of one reply: keep `most` of a get low

struct etcd;

// Makes a client of etcd://HOST:PORT[,HOST:PORT...]/PREFIX, where PREFIX has 1
// to ETCD_KEY_BYTES / 2 bytes and begins with no "/", on the threads of `io`,
// which is borrowed until etcd_free, and does not wait: whether etcd is there
// is not known before the first call. With `tls` (NULL: plain, for local
// addresses alone) both sides show certificates. SL_EINVAL: it is no such URL;
// those of rpc_channel_new; SL_ENOMEM.
enum sl_err etcd_new(struct etcd **out, struct rpc_io *io, const char *url,
                     const struct rpc_tls *tls, struct sl_error *err);

// Frees a client; its watches have been closed, and no call is under way. NULL
// is allowed.
void etcd_free(struct etcd *e);

// Returns the URL that the client was made of, with a "/" at its end, for
// people.
const char *etcd_url(const struct etcd *e);

// Returns true if a write that failed with `code` and `err` may have been done,
// or be done later. False: it was not and will not be done. `err` is not NULL,
// here and in the next two functions.
bool etcd_unknown(enum sl_err code, const struct sl_error *err);

// Returns true if `err` says that etcd has no space left. A write that fails so
// may have been done (etcd_unknown), but will not be done later.
bool etcd_full(const struct sl_error *err);

// Returns true if `err` says that etcd has forgotten the revision that a call
// or a watch asked for.
bool etcd_compacted(const struct sl_error *err);

// ---- keys

struct etcd_row {
    const char *key; // without the prefix
    struct sl_slice value;
    int64_t created;  // revision at which the key was made
    int64_t modified; // revision of its last write
    int64_t version;  // writes since it was made, from 1
};

struct etcd_reply {
    int64_t revision;      // of the store, when it answered
    bool held;             // a transaction's conditions held
    bool more;             // a get left rows out (`most`)
    struct etcd_row *rows; // rows of all gets, in order
    size_t count;
    struct etcd_held *held_by; // owned: what the rows point at
};

// Frees what the reply owns, rows included, and leaves it all zeroes, which is
// allowed, too.
void etcd_reply_release(struct etcd_reply *r);

// One condition: a number of `key`, `version` or `created` of its row, is `is`.
// A key that is not there has 0 for both.
struct etcd_if {
    enum { ETCD_VERSION, ETCD_CREATED } what;
    const char *key;
    int64_t is;
};

// One operation on the keys from `key` up to and without `end`; `end` NULL: on
// `key` alone, as a put is always. (All keys below "log/" end at "log0".)
struct etcd_op {
    enum { ETCD_GET, ETCD_PUT, ETCD_DELETE } what;
    const char *key, *end;
    struct sl_slice value; // of a put
    int64_t lease;         // of a put: the key ends with it; 0: none
    int64_t most;          // of a get: rows; 0: no limit
    int64_t revision;      // of a get: the store as of that revision; 0: now
};

#define ETCD_OPS 16 // operations of one branch, and conditions

// A transaction; an array whose count is 0 may be NULL.
struct etcd_txn {
    const struct etcd_if *ifs; // all must hold
    size_t if_count;
    const struct etcd_op *then; // done at once if all conditions hold
    size_t then_count;
    const struct etcd_op *otherwise; // done if a condition fails
    size_t otherwise_count;
};

// Reads the rows of a get (get->what is not looked at), by key, as the cluster
// has agreed on them. *out is for etcd_reply_release; no row is SL_OK with
// out->count 0. SL_ERANGE: get->revision was forgotten.
enum sl_err etcd_get(struct etcd *e, const struct etcd_op *get,
                     int64_t limit_ms, struct etcd_reply *out,
                     struct sl_error *err);

// Makes one transaction, once. out->held says which branch was done; out->rows
// are those of its gets, in one list; *out is for etcd_reply_release. A
// condition that does not hold is SL_OK. On a failure ask etcd_unknown.
enum sl_err etcd_txn(struct etcd *e, const struct etcd_txn *txn,
                     int64_t limit_ms, struct etcd_reply *out,
                     struct sl_error *err);

// ---- leases

// Takes a new lease of `ttl_s` seconds. Sets *id to its number and *granted_s
// to its length, which may be longer (etcd's floor is 1.5 of its elections).
// After a failure a lease may have been made; it ends by itself.
enum sl_err etcd_lease_grant(struct etcd *e, int64_t ttl_s, int64_t limit_ms,
                             int64_t *id, int64_t *granted_s,
                             struct sl_error *err);

// Renews a lease: it lasts *granted_s from some moment after the call was sent,
// so the caller counts from a clock that it read before the call. SL_ENOENT:
// the lease has ended, with its keys. Another failure says nothing.
enum sl_err etcd_lease_renew(struct etcd *e, int64_t id, int64_t limit_ms,
                             int64_t *granted_s, struct sl_error *err);

// Ends a lease and deletes its keys. SL_ENOENT: it has ended already. After
// another failure it may have ended, or ends by itself.
enum sl_err etcd_lease_revoke(struct etcd *e, int64_t id, int64_t limit_ms,
                              struct sl_error *err);

// ---- watches

struct etcd_change {
    // row.value is then empty, row.created is 0, and row.modified is the
    // revision of the deletion
    bool deleted;
    struct etcd_row row; // borrowed until the callback returns
};

// Callbacks of a watch.
struct etcd_watch_events {
    // A key was written or deleted, in the order of revisions.
    void (*changed)(void *arg, const struct etcd_change *change);
    // The watch has ended, once and last, but not for etcd_watch_close, which
    // is to be called all the same, on another thread. Open another watch,
    // after a get: changes between them are not reported. `err`, never NULL,
    // holds until it returns; etcd_compacted(err): `from` lies too far back.
    void (*ended)(void *arg, enum sl_err code, const struct sl_error *err);
};

struct etcd_watch;

// Watches the keys from `key` up to and without `end` (NULL: `key` alone), from
// the revision `from` on (0: from now). The member that serves it ends it when
// it loses the rest of the cluster. `events` is copied; `arg` goes to its
// callbacks. Does not wait: a member that cannot be reached is told by `ended`.
// Callbacks may run before it returns, when *out is not set yet. *out is for
// etcd_watch_close. Errors as of a call; no callback runs after one.
enum sl_err etcd_watch_open(struct etcd_watch **out, struct etcd *e,
                            const char *key, const char *end, int64_t from,
                            const struct etcd_watch_events *events, void *arg,
                            struct sl_error *err);

// Ends the watch and frees it; no callback runs after it. Waits for one that
// runs, so not from a callback. NULL is allowed.
void etcd_watch_close(struct etcd_watch *w);

// ---- state

struct etcd_status {
    char version[32]; // of the member that answered: "3.5.9"; cut
    bool led;         // the cluster has a leader
    bool full;        // an alarm says that there is no space left
    uint64_t bytes;   // size of its database
    uint64_t used;    // what a defragmentation would leave of it
};

// Asks one member for its state, the one that calls go to now, and waits for at
// most limit_ms.
enum sl_err etcd_status(struct etcd *e, int64_t limit_ms,
                        struct etcd_status *out, struct sl_error *err);

#endif
