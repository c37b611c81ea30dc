// SPDX-License-Identifier: Apache-2.0
// coordinator/core/send.h -- messages downwards, one function each.
//
// Threads  the loop.
// Memory   everything is borrowed for the length of the call.
// Errors   none: without memory for its message a member counts as silent, is
//          sent away by the next tick, and comes back.
#ifndef COORDINATOR_CORE_SEND_H
#define COORDINATOR_CORE_SEND_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

void send_welcome(struct coord *c, const struct member *m);
void send_ack(struct coord *c, const struct member *m, uint64_t seq);
void send_goodbye(struct coord *c, const struct member *m, const char *why);

// ---- to psservers

// Returns the file of a job that starts with weights; it borrows from the job.
Sluice__V1__SourceFile send_weights(const struct job *job);

void send_place(struct coord *c, const struct member *m, struct job *job,
                uint32_t shard);
void send_admit(struct coord *c, const struct member *m, const struct job *job,
                uint32_t shard);
void send_refuse(struct coord *c, const struct member *m, uint64_t job,
                 uint32_t shard, const char *why, const struct wire_tag *load);
void send_hello_wanted(struct coord *c, const struct member *m,
                       const struct job *job, uint32_t shard);
void send_snapshot(struct coord *c, uint64_t member, const struct job *job,
                   uint32_t shard);
// Sends the learning rates; `hold` is for a rank, see Rates.
void send_rates(struct coord *c, uint64_t member, const struct job *job,
                uint32_t shard, uint64_t hold);
void send_keep(struct coord *c, uint64_t member, const struct job *job,
               uint32_t shard);
void send_close(struct coord *c, const struct member *m, uint64_t job,
                uint64_t uid, bool delete_snapshots);

// ---- to workers

void send_job_open(struct coord *c, const struct member *m,
                   const struct job *job);
// Sends the map: only the changes since version `have`, if that was sent to
// this worker last and it can take changes; else, and for 0, the whole map.
void send_map(struct coord *c, const struct member *m, const struct job *job,
              uint64_t have);
// Sends the map to each worker that was sent the job since it was placed.
void send_maps(struct coord *c, const struct job *job);
// Sends a worker its leases that were not sent yet.
void send_leases(struct coord *c, struct member *m);
void send_revoke(struct coord *c, const struct member *m, const struct work *w,
                 const char *why);
void send_revoke_job(struct coord *c, const struct member *m,
                     const struct job *job, const char *why);

// ---- used by send_ring.c

void send_down(struct coord *c, uint64_t member,
               const Sluice__V1__AttendDown *down);
// Has a member sent away, since memory for its message was short.
void send_give_up(struct coord *c, uint64_t member);

#endif
