// SPDX-License-Identifier: Apache-2.0
// state/rows/row_memory.h -- the memory that the rows of all sparse tables take
// in this process, and its limit.
//
// A table without max_rows grows as far as programs name new ids. The kernel
// would end the process for that, and with it the shards of all other jobs. So
// each shard has an account, memory is taken from the limit before it is used,
// and what asks for more is refused before it has changed a row.
//
// The last eighth of the limit is for accounts that hold less than an equal
// part of it: of two jobs, the one that fills the memory is refused first.
//
// A tenant's accounts together may have a limit of their own, which the
// coordinator says (--quota rows=): what would exceed it is refused in the same
// way, whatever is left of the other.
//
// Rows that may lie on disk (row_tier.h) give memory back where it is short,
// before anything of their shard is refused. Their files take from a second
// limit of the tenant (--quota rows_disk=), beside that of all (row_disk.h).
//
// Copies that a snapshot under way keeps are taken as `passing`. As they go
// when the snapshot is written, a refusal that they cause is one to wait for.
//
// Threads  any; an account: one at a time, under the lock of its shard. Opening
//          and closing wait for a lock that guards the list of tenants.
// Memory   an account is the caller's.
// Units    bytes.
// Errors   each function says its own; one that fails has taken nothing.
#ifndef STATE_ROWS_ROW_MEMORY_H
#define STATE_ROWS_ROW_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

// Sets the limit: to `rows`, or if that is 0 to four fifths of `process`, the
// memory that the process may use, less what row_memory_add_dense was told.
// Both 0, and before the call: no limit. Before the first account.
void row_memory_set(uint64_t rows, uint64_t process);

// Returns the limit; UINT64_MAX: none.
uint64_t row_memory_limit(void);

// Adds to the memory that is used for other things than rows.
void row_memory_add_dense(uint64_t bytes);
// Subtracts memory that row_memory_add_dense has added.
void row_memory_drop_dense(uint64_t bytes);

#define ROW_TENANT_FREE UINT64_MAX

// What a tenant's rows take here, or may take.
struct row_tenant_bytes {
    uint64_t memory, disk; // a limit: ROW_TENANT_FREE is none
};

// Sets the limits for all accounts of a tenant ("": that of jobs without one),
// those that are open and those to come; what they have by now is left to them.
// The name is copied. Returns SL_OK; SL_ENOMEM: there is no memory for the
// name, and the limits are not kept. ROW_TENANT_FREE in both takes them away.
enum sl_err row_tenant_set(const char *tenant, struct row_tenant_bytes most);

// Calls each(arg, tenant, used, most) for each tenant that has accounts or a
// limit: with the bytes that it has taken and its limits. Jobs without a tenant
// are those of "-". Under the lock of the list: `each` opens, closes and limits
// no account.
void row_tenants_each(void (*each)(void *arg, const char *tenant,
                                   struct row_tenant_bytes used,
                                   struct row_tenant_bytes most),
                      void *arg);

struct row_tenant;

struct row_account {
    uint64_t bytes;            // taken
    uint64_t passing;          // a part of them
    struct row_tenant *tenant; // NULL: not known
    bool of_tenant;            // the last refusal was for the tenant's limit
    // Gives back some memory where `bytes` are short; false: there is none to
    // give. NULL: nothing can.
    bool (*relief)(void *stores, uint64_t bytes);
    void *stores;        // its argument
    bool relieving;      // under way: it takes memory, too
    struct sl_error why; // of the last refusal, if it was a file's
};

// Opens an account, whatever *a was, for the rows of a job of this tenant
// (NULL: not known; "": the job has none); the name is copied. Each open one
// makes the equal part of the others smaller. Returns SL_OK; SL_ENOMEM: it is
// not open.
enum sl_err row_account_open(struct row_account *a, const char *tenant);
// Closes an account; all that it took must have been given back (asserted).
void row_account_close(struct row_account *a);

// Takes `bytes` bytes for rows, before they are used; `a` may be NULL: then
// nothing is counted. `passing`: they are copies of a snapshot under way. Sets
// a->of_tenant. Where too little is free it calls row_account_relieve, as long
// as that gives some: see there what it does to records. Returns SL_OK;
// SL_ERANGE: too little is left; SL_EBUSY: likewise, but more will be left when
// a snapshot is written; for `passing` it is always this one.
enum sl_err row_account_take(struct row_account *a, uint64_t bytes,
                             bool passing);

// Takes memory as row_account_take does, but only what is free now:
// row_account_relieve is not called. Results as there.
enum sl_err row_account_try(struct row_account *a, uint64_t bytes,
                            bool passing);

// Asks the stores of *a (not NULL) to give back memory, as `bytes` are short.
// They write records to files: numbers and pointers of records change. Returns
// true if they gave some: try again. False: none to give, or a call is under
// way. Clears a->why first; then it has the error of a file that failed.
bool row_account_relieve(struct row_account *a, uint64_t bytes);

// Gives back bytes that were taken with the same `passing`, also in other
// portions. `a` may be NULL.
void row_account_give(struct row_account *a, uint64_t bytes, bool passing);

// Takes `bytes` bytes of the disk from the limit of the account's tenant.
// Nothing is counted for an account without a tenant; `a` is not NULL. Any
// thread, as only the tenant's sum changes, and not *a. Returns
// SL_OK; SL_ERANGE: too little is left; the text names the tenant.
enum sl_err row_account_take_disk(const struct row_account *a, uint64_t bytes,
                                  struct sl_error *err);

// Gives back bytes that row_account_take_disk has taken for `a` (not NULL). Any
// thread.
void row_account_give_disk(const struct row_account *a, uint64_t bytes);

// Sets *err (NULL is allowed) to a text for `rc`, an error that
// row_account_take has just returned for the account `a`, or the error of a
// file that a->why has, and returns `rc`, which may also be SL_ENOMEM: then the
// text says that there is no memory. `a` may be NULL: then `rc` is taken for
// that of the limit of all.
enum sl_err row_memory_refuse(const struct row_account *a, enum sl_err rc,
                              struct sl_error *err);

#endif
