// SPDX-License-Identifier: Apache-2.0
// coordinator/service/quorum.h -- what an operator has to know of etcd, in
// which the journal lies: each member is asked every 10 s.
//
// Threads  one of its own, which waits for etcd. quorum_trouble, _crowded and
//          _measure: any.
// Memory   quorum_free waits for the thread, about a second at most. Strings
//          are copied; `io` is borrowed until then.
// Errors   those of etcd_new; later ones are troubles. `err` may be NULL.
#ifndef COORDINATOR_SERVICE_QUORUM_H
#define COORDINATOR_SERVICE_QUORUM_H

#include "common/run/expo.h"
#include "coordinator/etcd/etcd.h"

struct quorum;

// Makes a client for each member that `url`, which etcd_new takes, names, with
// `tls` (NULL: plain), and begins to ask, a second later. SL_EINVAL: more than
// RPC_ADDRESSES_MAX members, or a long name; errors of etcd_new and of
// tls_files_open; SL_ENOMEM. *out is untouched then.
enum sl_err quorum_new(struct quorum **out, struct rpc_io *io, const char *url,
                       const struct rpc_tls *tls, struct sl_error *err);

// Writes the sentence number `i` (from 0) about what is amiss, of members or of
// the certificate for etcd, to `out` and returns true. Returns false, with
// `out` untouched, if there are no more than `i`. `q` NULL: none are.
bool quorum_trouble(struct quorum *q, size_t i, char *out, size_t size);

// Returns true if, by its last answer, a member's database is so full that what
// can wait, such as new tasks, has to, so that jobs go on; *err says why
// (SL_EBUSY). Else false, with *err as it was. A member that does not answer is
// not counted as full. `q` is not NULL.
bool quorum_crowded(struct quorum *q, struct sl_error *err);

// Writes how many members are how, and how large the largest database is, as
// figures, by the last answers: a member that was not asked yet is in none. All
// are 0 with `q` NULL.
void quorum_measure(struct quorum *q, struct expo *e);

// Stops asking and frees `q`. NULL is allowed.
void quorum_free(struct quorum *q);

// ---- the sentences, for tests

// Writes what an operator has to do about a member at `address` that said
// *said, or did not answer (`said` NULL, for the reason `why`, else not read),
// to `out`, cut to `size` bytes, which is not 0; of several things the first
// alone; an empty text: nothing.
void quorum_judge(char *out, size_t size, const char *address,
                  const struct etcd_status *said, const char *why);

// Writes what an operator has to do about the certificate of the file `file`,
// which ends in left_s seconds (below 0: it has ended), to `out`, cut to `size`
// bytes, which is not 0; an empty text: nothing, it lasts for TLS_SOON_DAYS or
// longer.
void quorum_judge_cert(char *out, size_t size, const char *file,
                       int64_t left_s);

#endif
