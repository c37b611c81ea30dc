// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_copy.h -- moving a journal, or rows of another
// kind, from a file to etcd and back, while no coordinator runs.
//
// Threads  one at a time; waits for the disk and for etcd.
// Memory   arguments are borrowed for the call.
// Errors   those of journal_etcd.h. SL_ESTATE: a coordinator leads; SL_EEXIST:
//          there is a journal at the target already; SL_ENOENT: there is none
//          to copy; SL_ECORRUPT: the copied rows are not the same. After a
//          failure the source has the rows that it had (journal_copy_in brings
//          its tables up to date), and what it has made at the target is to be
//          removed; SL_EEXIST and SL_ENOENT have made nothing there.
#ifndef COORDINATOR_JOURNAL_JOURNAL_COPY_H
#define COORDINATOR_JOURNAL_JOURNAL_COPY_H

#include "common/base/hash.h"
#include "coordinator/journal/journal_etcd.h"

// Sets out[] to a checksum of all rows of j, the same for the same rows
// wherever they are kept. A failure may leave out[] undefined.
enum sl_err journal_digest(struct journal *j, uint8_t out[SHA256_BYTES],
                           struct sl_error *err);

// Returns SL_OK if there are no rows of that kind yet, SL_EEXIST if there are:
// in the file `path`, which must not exist at all, or, if `path` is NULL, in
// `etcd`, which may be NULL otherwise. Errors of journal_follow.
enum sl_err journal_copy_free(struct etcd *etcd, const char *path,
                              const struct journal_kind *kind,
                              struct sl_error *err);

// Copies the rows of the file `path` of that kind, which no coordinator has
// open, to etcd, where there are none yet, and compares the rows that are there
// afterwards. Holds the leader's key meanwhile, by a lease of 60 s that each
// write renews and that is given back at the end: SL_ESTALE if it was lost all
// the same.
enum sl_err journal_copy_in(struct etcd *etcd, const char *path,
                            const struct journal_kind *kind,
                            struct sl_error *err);

// Copies the rows of a kind in etcd, where no coordinator leads, to a new file
// `path`, and compares the rows. What is in etcd stays. SL_ESTATE also if a
// coordinator has begun to lead meanwhile.
enum sl_err journal_copy_out(struct etcd *etcd, const char *path,
                             const struct journal_kind *kind,
                             struct sl_error *err);

#endif
