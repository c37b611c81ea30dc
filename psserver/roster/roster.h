// SPDX-License-Identifier: Apache-2.0
// psserver/roster/roster.h -- which shards this server was told to hold, and
// how far each of them is.
//
//            roster_place                  loaded()
//   (none) ---------------> LOADING ----------------------> LOADED
//                            ^  ^ |                            |
//        roster_refuse(load) |  | | failed()                   | roster_admit
//        of any other state  |  | v                            v
//                            +--|- FAILED                   ADMITTED
//                               +---- roster_tick, roster_place
//
// LOADING   a pool thread looks for its newest snapshot; and once more, if
//           another one is asked for meanwhile.
// LOADED    the memory is there, and its hello said so or will be said at the
//           next attachment. It answers nobody (S5). roster_place of something
//           newer loads it anew.
// ADMITTED  it answers, as the incarnation that the coordinator committed (I1)
//           and with or without a coordinator.
// FAILED    nothing as new as the coordinator wants was found (K7); its hello
//           says why. Tried again now and then, since somebody may put the
//           file back.
// Leaving is possible from each: roster_refuse without a tag, roster_close_job.
//
// What is old is ignored: messages of a term below the newest seen (I5), of an
// older incarnation of the job (I6).
//
// Threads  the loop. Files are written and read on pool threads; what they
//          find out comes back to the loop.
// Memory   messages are borrowed until return.
// Errors   logged here: this is where stories of shards end.
#ifndef PSSERVER_ROSTER_ROSTER_H
#define PSSERVER_ROSTER_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/membership.h"
#include "common/base/roots.h"
#include "common/run/expo.h"
#include "common/run/loop.h"
#include "common/base/status.h"
#include "proto/wire.h"
#include "state/shard/store.h"

// Shards that one heartbeat reports; those of more are several. A message holds
// 262,144 fields, and a report has 28.
#define ROSTER_REPORTS_MOST 1024

struct roster;

struct roster_setup {
    struct loop *loop;
    struct fs *fs;
    struct store *store;
    const char *folder; // of snapshots; copied
    // Whose store it is: looked at before files are written, or missed. NULL:
    // it is taken as it is.
    const struct membership *membership;
    // Sends a message to the coordinator; one that cannot be sent is dropped,
    // since roster_attached says everything again.
    void (*send)(void *arg, const Sluice__V1__AttendUp *up);
    void *arg;
    // Below these weights are read (snap.h); NULL: wherever `fs` finds them.
    const struct roots *weights;
    bool weights_secret; // why they could not be is for the log alone
};

enum sl_err roster_new(struct roster **out, const struct roster_setup *setup);

// Takes all shards out of the store, waits for the pool (runs the loop) and
// frees. NULL is allowed.
void roster_free(struct roster *r);

// False for a term below the newest seen; else it is the newest.
bool roster_term(struct roster *r, uint64_t term);

// A stream is there: says a hello for each shard that has something to say.
void roster_attached(struct roster *r);

// What comes down the stream.
void roster_place(struct roster *r, const Sluice__V1__Place *m);
void roster_admit(struct roster *r, const Sluice__V1__Admit *m);
void roster_rates(struct roster *r, const Sluice__V1__Rates *m);
void roster_refuse(struct roster *r, const Sluice__V1__Refuse *m);
void roster_hello(struct roster *r, const Sluice__V1__HelloWanted *m);
void roster_snapshot(struct roster *r, const Sluice__V1__SnapshotRequest *m);
void roster_keep(struct roster *r, const Sluice__V1__Keep *m);
void roster_close_job(struct roster *r, const Sluice__V1__CloseJob *m);

// Now and then: sends a heartbeat that reports all admitted shards, and tries
// failed ones again.
void roster_tick(struct roster *r, uint64_t seq, bool draining);

// Writes a snapshot of each admitted shard that has counted something since
// its last one, and then calls done(arg), once: a restart then loses nothing.
void roster_save(struct roster *r, void (*done)(void *arg), void *arg);

size_t roster_admitted(const struct roster *r);
size_t roster_failed(const struct roster *r);
// The last snapshot found no space on the disk.
bool roster_full(const struct roster *r);

// Writes the figures of its shards and their snapshots.
void roster_measure(struct roster *r, struct expo *e);

#endif
