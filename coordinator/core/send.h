// SPDX-License-Identifier: Apache-2.0
// coordinator/core/send.h -- messages downwards, one function each.
//
// Threads  the loop.
// Memory   everything is borrowed for the length of the call, and nothing but
//          `load` of send_refuse may be NULL. `member` is the number of a
//          stream (struct member.id). Where a job is passed, and not its
//          number, it is placed, and `shard` is below job->shards.count; the
//          functions to workers take a job that is not placed as well.
// Errors   none is returned: without memory for its message a member counts as
//          silent, is sent away by the next tick, and comes back. A message to
//          a member that has gone is dropped, and so is any after coord_fatal.
//          For a job with tables send_place, send_prepare and send_admit read
//          the journal, and a failure of that is fatal (c->dead).
#ifndef COORDINATOR_CORE_SEND_H
#define COORDINATOR_CORE_SEND_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Welcomes a member that was attached, with its number, the term, the cluster,
// and the times of heartbeats; a psserver alone also with the key of the jobs'
// tokens and whether they are required, if the cluster has a key.
void send_welcome(struct coord *c, const struct member *m);

// Acknowledges the heartbeat number `seq`.
void send_ack(struct coord *c, const struct member *m, uint64_t seq);

// Tells a member `why` it is sent away; the caller then ends the stream, with
// io.hang_up.
void send_goodbye(struct coord *c, const struct member *m, const char *why);

// ---- to psservers

// Returns the file that a placed job's variables start with, for a message; it
// borrows from the job. job->weights and job->weights->weights are not NULL.
// Its most_bytes: the size that the submission said, if it said one, but no
// more than 64 MiB and 64 bytes per parameter.
Sluice__V1__SourceFile send_weights(const struct job *job);

// Asks psserver m to take a shard of a placed job, from a snapshot no older
// than the last cut (K7) or, if it was the replica, as it has followed (P4).
// Notes in the shard that m was asked, and when, also if memory was short.
void send_place(struct coord *c, const struct member *m, struct job *job,
                uint32_t shard);

// Asks psserver m, which is to have the shard next, to load a snapshot no older
// than *at_least, and not to be admitted with it (M4). `follow`: that snapshot
// alone, to follow the shard by the feed of this order; 0: not. Notes nothing
// in the shard.
void send_prepare(struct coord *c, const struct member *m, struct job *job,
                  uint32_t shard, const struct wire_tag *at_least,
                  uint64_t follow);
// Asks psserver `source` to feed the shard to `target`, by the feed of `order`
// that it has begun. `replica`: for as long as it lasts (P1).
void send_feed(struct coord *c, uint64_t source, const struct member *target,
               const struct job *job, uint32_t shard, uint64_t order,
               bool replica);

// Admits the shard at its newest incarnation, which the journal has (I1);
// beside a ring, with the base of the ring's generation.
void send_admit(struct coord *c, const struct member *m, const struct job *job,
                uint32_t shard);

// Refuses the hello of a shard, and logs `why`. `load`: the tag that m has to
// load at least, before it says hello again; NULL: m drops the shard.
void send_refuse(struct coord *c, const struct member *m, uint64_t job,
                 uint32_t shard, const char *why, const struct wire_tag *load);

// Tells psserver m that the shard's replica of this feed is not in the set
// (P3).
void send_replica_out(struct coord *c, const struct member *m, uint64_t job,
                      uint32_t shard, uint64_t feed);

// Has psserver m load the last cut of a shard beside a ring, and no newer file
// (R9); of a job without a cut, what the shard began with.
void send_reload(struct coord *c, const struct member *m, const struct job *job,
                 uint32_t shard);

// Tells psserver m to end the round of the shard that holds this closure's
// contribution (L2); beside a ring, that the round which was counted last is
// decided (R8).
void send_close_round(struct coord *c, const struct member *m,
                      const struct job *job, uint32_t shard, uint64_t closure);
// Asks psserver m to say hello for the shard once more, with its counted set
// (C2).
void send_hello_wanted(struct coord *c, const struct member *m,
                       const struct job *job, uint32_t shard);

// Asks the member for the shard's part of job->cuts.now, which must be there; a
// rank for its state of round job->cuts.round.
void send_snapshot(struct coord *c, uint64_t member, const struct job *job,
                   uint32_t shard);

// Asks a psserver for a snapshot of the shard that is of no cut. `last`: the
// shard stops for it (M1). `feed`: order of a feed that is to begin at its
// instant; 0: none.
void send_move_snapshot(struct coord *c, uint64_t member, const struct job *job,
                        uint32_t shard, uint64_t request, bool last,
                        uint64_t feed);

// Sends a psserver with the shard, or a rank (shard 0), all learning rates that
// callbacks have reduced (D1). `hold`: the closure from which a rank begins no
// round; 0 for none, and for a psserver.
void send_rates(struct coord *c, uint64_t member, const struct job *job,
                uint32_t shard, uint64_t hold);

// Tells a member which snapshots of the shard published cuts need: older ones
// may be deleted (K3). Sends nothing if there is no cut, or without memory:
// files then stay until the next cut.
void send_keep(struct coord *c, uint64_t member, const struct job *job,
               uint32_t shard);

// Tells a member that the job has ended, and is to be forgotten after a last
// ShardReport; with delete_snapshots its files go, too, as a user deleted it.
void send_close(struct coord *c, const struct member *m, uint64_t job,
                uint64_t uid, bool delete_snapshots);

// ---- to workers

// Sends a worker all that it needs of the job, before its first lease of it on
// this stream: spec and map; token, layout and facts as far as there are any.
// Notes the map's version in m->opened, if the caller has put the job there and
// memory was not short.
void send_job_open(struct coord *c, const struct member *m,
                   const struct job *job);

// Sends the map: only the changes since version `have`, if that was sent to
// this worker last and it can take changes; else, and for 0, the whole map.
// Notes the map's version in m->opened, if the job is there and memory was not
// short.
void send_map(struct coord *c, const struct member *m, const struct job *job,
              uint64_t have);

// Sends the map to each worker that was sent the job since it was placed, with
// the changes since the version that it was sent last, as send_map does.
void send_maps(struct coord *c, const struct job *job);

// Sends a worker its leases that were not sent yet (member_sends), in one
// message, and counts them as sent (m->leases_unsent); the caller has taken m
// out of members.unsent. The cut that a range is of must be there still.
void send_leases(struct coord *c, struct member *m);

// Tells a worker to let go of w's newest attempt, and to answer when it has.
void send_revoke(struct coord *c, const struct member *m, const struct work *w,
                 const char *why);

// Tells a worker to drop all that it holds of the job, without an answer.
void send_revoke_job(struct coord *c, const struct member *m,
                     const struct job *job, const char *why);

// ---- used by send_ring.c

// Hands a message to io.send; after coord_fatal it is dropped.
void send_down(struct coord *c, uint64_t member,
               const Sluice__V1__AttendDown *down);

// Logs that memory for a message to the member was short, and has it sent away
// by the next tick as if it had been silent. One that has gone is only logged.
void send_give_up(struct coord *c, uint64_t member);

#endif
