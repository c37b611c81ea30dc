// SPDX-License-Identifier: Apache-2.0
// coordinator/service/lead.h -- which of several coordinators leads: the key
// `leader` in etcd, made by one of them, gone with its lease.
//
//   gives up the lease of an earlier process of this folder (lead_resign)
//        v
//   looks at the key, watches it from there (H6)
//        |  it is another's: follows the journal, until the key changes
//        v  it is not there
//   takes a lease, makes the key in one transaction
//        v  chosen: a second thread renews the lease from now on (H4)
//   reads the journal to its end (H3)
//        v
//   lead_take: the journal is the caller's, which begins a term
//
// A process leads once. When its lease is over, or etcd says that the key is
// another's or gone, the process ends (exit 1), from whichever thread learns of
// it first: its service manager starts it again, to stand by.
//
// The value of the key is for people and for standbys: ADDRESS NAME LEASE.
//
// Threads  lead_check, lead_stands_by, lead_journal_of: any. The others: the
//          loop's. Two threads of its own wait for etcd.
// Memory   strings of the options are copied; etcd, clock and loop are borrowed
//          until lead_free, `beside` until the journal that was taken is
//          closed. No pointer is NULL but where it is said.
// Errors   SL_ENOMEM. While etcd does not answer it is asked again; what cannot
//          pass (a newer journal, a user that etcd asks for) ends the process.
#ifndef COORDINATOR_SERVICE_LEAD_H
#define COORDINATOR_SERVICE_LEAD_H

#include "common/base/clock.h"
#include "common/run/loop.h"
#include "coordinator/etcd/etcd.h"
#include "coordinator/journal/journal.h"

struct lead;

struct lead_options {
    struct etcd *etcd;
    const char *name;             // name of this coordinator, for people
    const char *address;          // its address in the lists of its clients
    const char *file;             // file for the lease's number (lead_resign)
    unsigned ttl_s;               // length of the lease
    const struct sl_clock *clock; // sl_clock_boot
    struct loop *loop;
    const struct journal_kind *beside; // rows read with the journal, or NULL
    // Called on the loop when lead_waits says another thing, or lead_take gives
    // the journal.
    void (*changed)(void *arg);
    void *arg;
};

// Makes a lead, *out, which does nothing before lead_start, and stands by.
enum sl_err lead_new(struct lead **out, const struct lead_options *options,
                     struct sl_error *err);

// Begins to stand by, once. The caller has the lock of the state folder that
// lead_options.file is in. SL_ENOMEM: there is no thread.
enum sl_err lead_start(struct lead *l, struct sl_error *err);

// Returns the journal of a coordinator that was chosen, once: it is the
// caller's. NULL: not chosen yet, or taken already. Sets *beside to the rows of
// lead_options.beside, likewise the caller's; NULL: none was asked for, they
// could not be read, and the log says why, or the result is NULL.
struct journal *lead_take(struct lead *l, struct journal **beside);

// Reads the journal of a kind, as the coordinator that leads, which it must be:
// one that it has not followed, or anew after one that was taken has failed for
// want of space and was closed. *out is the caller's. Waits for etcd, so on any
// thread. Errors of journal_follow and journal_lead; *out is set on SL_OK
// alone.
enum sl_err lead_journal_of(struct lead *l, const struct journal_kind *kind,
                            struct journal **out, struct sl_error *err);

// Writes what a standby answers to every call (RPC_STANDBY, and which
// coordinator leads, as far as known) to `out`, cut to `size` bytes.
void lead_waits(struct lead *l, char *out, size_t size);

// Returns true if the process is not chosen, and sets *err to what a standby
// answers (SL_EUNAVAIL); else false, with *err as it was. `l` is a struct lead.
bool lead_stands_by(void *l, struct sl_error *err);

// Ends the process (exit 1), which leads, because of `why`, and answers no
// call: gives up its lease first, so that another coordinator is chosen at
// once. Waits for etcd, about a second. Does not return.
void lead_fail(struct lead *l, const char *why);

// Ends the process (exit 1) if it was chosen and its lease is over by its own
// clock; does not ask etcd. To be called before whatever a leader says to
// others. Does nothing after lead_stop, nor if `l` is NULL: there is one
// coordinator.
void lead_check(struct lead *l);

// Gives up the lead, or the wish for it, for good: another coordinator is
// chosen at once. The journal cannot be written any more. Waits for etcd, about
// a second, and for the threads; `changed` is not called from now on. Removes
// the lease's file if etcd has ended the lease. A second call does nothing.
void lead_stop(struct lead *l);

// Frees l, with a journal and rows that were not taken, after lead_stop and a
// turn of the loop, or if it was never started. Those of lead_take and
// lead_journal_of are closed before, as they ask l how long it leads. NULL is
// allowed.
void lead_free(struct lead *l);

// Ends the lease of a process that has died (its number is in `file`), and
// removes the file: another coordinator is chosen at once. Waits for etcd, 2 s
// at most. SL_OK, too, if there is no such file or lease; else errors of the
// file system, and those of etcd_lease_revoke, after both of which the file
// stays. The caller knows that
// the process is dead (daemon.h: it has the lock of the state folder).
enum sl_err lead_resign(struct etcd *etcd, const char *file,
                        struct sl_error *err);

#endif
