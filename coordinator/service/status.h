// SPDX-License-Identifier: Apache-2.0
// coordinator/service/status.h -- lists that clients ask for: of jobs, of a
// job's checkpoints, of members.
//
// Threads  the loop.
// Memory   replies are messages of the heap: wire_free.
// Errors   those of coord_find; SL_ENOMEM.
#ifndef COORDINATOR_SERVICE_STATUS_H
#define COORDINATOR_SERVICE_STATUS_H

#include "coordinator/core/coord.h"

// Make a list of jobs: whole, or as many lines as one turn of the loop has time
// for. *reply is NULL before the first turn; a later turn goes on behind its
// last line, and needs room for as many jobs as there were at the first. On
// failure *reply is as it was. status_list_goes_on says whether another turn is
// needed.
#define STATUS_LIST_TURN 8
enum sl_err status_list(struct coord *c, const Sluice__V1__ListRequest *request,
                        Sluice__V1__ListReply **reply, struct sl_error *err);
enum sl_err status_list_turn(struct coord *c,
                             const Sluice__V1__ListRequest *request,
                             Sluice__V1__ListReply **reply,
                             struct sl_error *err);
bool status_list_goes_on(const Sluice__V1__ListRequest *request,
                         const Sluice__V1__ListReply *reply);

enum sl_err status_checkpoints(struct coord *c,
                               const Sluice__V1__JobRequest *request,
                               Sluice__V1__CheckpointsReply **reply,
                               struct sl_error *err);

// Make a list of members: whole, or as much as one turn of the loop has time
// for. *reply is NULL before the first turn, and as it was after a failure.
// Members that come or go between two turns may be missing, or told as they
// were. status_cluster_goes_on says whether another turn is needed.
#define STATUS_CLUSTER_TURN 256    // members
#define STATUS_CLUSTER_SHARDS 8192 // and a job more
enum sl_err status_cluster(struct coord *c,
                           const Sluice__V1__ClusterRequest *request,
                           Sluice__V1__ClusterReply **reply,
                           struct sl_error *err);
enum sl_err status_cluster_turn(struct coord *c,
                                const Sluice__V1__ClusterRequest *request,
                                Sluice__V1__ClusterReply **reply,
                                struct sl_error *err);
bool status_cluster_goes_on(const Sluice__V1__ClusterReply *reply);

enum sl_err status_drain(struct coord *c,
                         const Sluice__V1__DrainRequest *request,
                         Sluice__V1__DrainReply **reply, struct sl_error *err);
enum sl_err status_quota(struct coord *c,
                         const Sluice__V1__QuotaRequest *request,
                         Sluice__V1__QuotaReply **reply, struct sl_error *err);

// ---- status_events.c: answers from the feed

enum sl_err status_events(struct coord *c,
                          const Sluice__V1__EventsRequest *request,
                          Sluice__V1__EventsReply **reply,
                          struct sl_error *err);
// Answers with the events of no job, whatever the request names: of members and
// the coordinator.
enum sl_err status_cluster_events(struct coord *c,
                                  const Sluice__V1__EventsRequest *request,
                                  Sluice__V1__EventsReply **reply,
                                  struct sl_error *err);
enum sl_err status_timeline(struct coord *c,
                            const Sluice__V1__TimelineRequest *request,
                            Sluice__V1__TimelineReply **reply,
                            struct sl_error *err);
enum sl_err status_history(struct coord *c,
                           const Sluice__V1__HistoryRequest *request,
                           Sluice__V1__HistoryReply **reply,
                           struct sl_error *err);

#endif
