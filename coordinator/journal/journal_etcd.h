// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_etcd.h -- the journal kept in etcd, for
// coordinators that stand by.
//
// The rows of journal.h are in memory, as SQLite's, and each transaction's
// changes are one record in etcd, which is there before the rows change (H1):
//
//   base          which image of all rows is in force, and its last record
//   bases/N/K     the parts of image N
//   log/SEQ       the changes of one transaction; SEQ rises by one
//   part/SEQ-N/K  parts of a record that is too large for one value
//   leader        the key of the coordinator that leads (not the journal's)
//
// Rows of another kind (queues of tasks, events) lie below the kind's folder,
// "tasks/base" and so on, written under the same key by a journal of their own.
//
// Each of these is written under the condition that the key `leader` still has
// the create revision that its coordinator knows: one that has lost it writes
// nothing. A write whose outcome is unknown is settled by reading it back (H2).
// When the records since the image are larger than it and than 4 MiB, the end
// of a transaction starts a thread that puts a new image in their place. If it
// fails, the log says so, and it is tried again after 1 MiB more of records.
//
//   journal_follow ---> reads, journal_follow_on ...
//         |  journal_lead
//         v
//   a journal like that of journal_open, until its leadership ends
//
// Threads  as journal.h; calls wait for etcd, and journal_close for an image
//          that is being written. One at a time for each journal, on any
//          thread.
// Memory   the client of etcd is borrowed until journal_close.
// Errors   those of journal.h. SL_ESTALE: another coordinator leads, or none;
//          nothing was written. SL_EUNAVAIL and SL_ETIMEDOUT: etcd does not
//          answer; of a write that is final, as any failure of it: it is not
//          known whether etcd has it. journal_full: etcd has no space left.
#ifndef COORDINATOR_JOURNAL_JOURNAL_ETCD_H
#define COORDINATOR_JOURNAL_JOURNAL_ETCD_H

#include "coordinator/etcd/etcd.h"
#include "coordinator/journal/journal.h"

#define JOURNAL_LEADER "leader" // key of the coordinator that leads

// Makes the leader's key with this value, a key that ends with `lease`, if it
// is not there; waits for at most limit_ms. Returns SL_OK with *term set to its
// create revision, or to 0 if another coordinator has the key. After a failure
// *term is 0, and the key may have been made if etcd_unknown says so.
enum sl_err journal_claim(struct etcd *etcd, int64_t lease, const char *value,
                          int64_t limit_ms, int64_t *term,
                          struct sl_error *err);

// Makes a journal, *out, that follows the rows of a kind that lie below the
// client's prefix, of which there may be nothing yet, and reads them: no other
// function of journal.h but journal_close, journal_failed and journal_full may
// be used before journal_lead. `kind` is borrowed until journal_close.
// SL_ENOTSUP: a newer coordinator wrote them.
enum sl_err journal_follow(struct journal **out, struct etcd *etcd,
                           const struct journal_kind *kind,
                           struct sl_error *err);

// Reads what is new; before journal_lead only. After a failure the journal has
// what was read until then and may be tried again, as when etcd is not reached;
// but if journal_failed is true, it can only be closed.
enum sl_err journal_follow_on(struct journal *j, struct sl_error *err);

// Returns true if a journal of journal_follow has found no rows below the
// prefix.
bool journal_is_blank(const struct journal *j);

// The leadership under which a journal is written.
struct journal_leader {
    int64_t term; // create revision of the key `leader`, above 0
    // Returns for how many ms this process may still believe that it leads; at
    // most so long, and at most 10 s, a write waits for etcd. On the journal's
    // thread. NULL: 10 s. It is not called for an image that is written on a
    // thread of its own.
    int64_t (*left_ms)(void *arg);
    void *arg; // borrowed until journal_close
};

// Reads what is new (H3), makes or upgrades the tables, and turns `j` into the
// journal of the leader; *leader is copied. Writes an image, and waits for
// that, if there is none or the tables were changed; no term is written.
// SL_ECORRUPT also if etcd does not have the last record that `j` has read, as
// one that was restored: a new journal_follow reads what there is. Its terms go
// on from those that it holds, by one: the key's revision is no term, since it
// falls when etcd is restored from a backup. After a failure journal_failed
// tells whether `j` only can be closed; else it follows as before.
enum sl_err journal_lead(struct journal *j, const struct journal_leader *leader,
                         struct sl_error *err);

#endif
