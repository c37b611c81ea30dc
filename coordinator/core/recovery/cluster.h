// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recovery/cluster.h -- the identity of the cluster, and the
// strangers to it.
//
// The id is random, made with the journal. Members learn it in Welcome and say
// it in every Hello: numbers of jobs, and terms, mean something only among
// members of the same id. The store bears it too (common/base/storemark.h), and
// the journal remembers which store that was: a folder without the mark is not
// the store, and its manifests are not missing but out of reach (K6).
//
// Threads  the loop.
// Memory   cluster_release frees the list of strangers. No pointer is NULL but
//          `err`, which may be.
// Errors   SL_ESTATE: not our store; a stranger. SL_EIO: the journal could not
//          be written, which is fatal in cluster_judge.
#ifndef COORDINATOR_CORE_RECOVERY_CLUSTER_H
#define COORDINATOR_CORE_RECOVERY_CLUSTER_H

#include "coordinator/core/coord_inner.h"

// A member that was refused. It dials again every few seconds.
struct cluster_stranger {
    bool psserver; // its role; false: a worker
    char name[WIRE_NAME_BYTES + 1];
    // the cluster that it belongs to; ours: it has seen a newer term
    uint64_t cluster;
    uint64_t term;    // highest term that it has seen
    uint64_t seen_ms; // time of its last Hello
};

// A stranger that is silent for longer is not shown; it stays listed until
// another one needs its place (64 strangers).
#define CLUSTER_STRANGER_MS 60000

// Sets c->cluster: its id is that of the journal or of the store (c->stored,
// which must be there), or a new one; its key of tokens is the journal's, or
// options.secret if there is none, and then tokens are required
// (COORD_TOKENS_AUTO) if the cluster is new. Journals what is new. To be called
// once, as the coord is made, after its term was taken. Returns SL_OK, an error
// of stored_cluster (SL_ESTATE: another store), or the journal's.
enum sl_err cluster_open(struct coord *c, struct sl_error *err);

// Returns SL_OK for a member of this cluster, and for one that has no cluster
// yet. Returns SL_ESTATE for one of another cluster, and for one that has seen
// a newer term of this cluster: that term, unless it is more than 65536 above
// ours, is journalled, so that the next start takes a higher one (I5); a
// coordinator that was replaced cannot write it, and ends (H5): SL_EIO. Refused
// members are listed in c->strangers, with the time of the last Hello of each;
// without memory one is not listed.
enum sl_err cluster_judge(struct coord *c, const Sluice__V1__Hello *hello,
                          struct sl_error *err);

// Frees the list of strangers, once, as the coord is freed; cluster_open need
// not have been called, and cluster_judge is not called after it.
void cluster_release(struct coord *c);

#endif
