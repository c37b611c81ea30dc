// SPDX-License-Identifier: Apache-2.0
// coordinator/service/status_lists.h -- lists that clients ask for: of jobs, of
// a job's checkpoints, of members.
//
// Threads  the loop.
// Memory   replies are messages of the heap: wire_free. Requests are borrowed
//          for the call; that their limits are within those of the wire (as
//          when they are read, wire.h) is the caller's to see to.
// Errors   those of coord_find; SL_ENOMEM; those of journal.h, which are fatal.
//          *reply is set on SL_OK alone. `err` is not NULL. The caller, by
//          whose tenant jobs are hidden, is that of coord_ask_as.
#ifndef COORDINATOR_SERVICE_STATUS_LISTS_H
#define COORDINATOR_SERVICE_STATUS_LISTS_H

#include "coordinator/core/coord.h"

// Lines of a list of jobs that are made in one turn of the loop.
#define STATUS_LIST_TURN 8

// Makes a list of the jobs that the caller may see, the newest first, in one
// call: those below number request->before (0: all), of the name request->name
// ("": any), at most request->limit (0: 100). reply->more: there are others.
enum sl_err status_list(struct coord *c, const Sluice__V1__ListRequest *request,
                        Sluice__V1__ListReply **reply, struct sl_error *err);

// Adds up to STATUS_LIST_TURN lines to a list of jobs, so that a long list
// holds the loop only for short. *reply is NULL before the first turn, which
// makes it; a later turn goes on behind its last line. Call it while
// status_list_goes_on. On failure *reply is as it was, perhaps with more lines,
// and the caller's to free.
enum sl_err status_list_turn(struct coord *c,
                             const Sluice__V1__ListRequest *request,
                             Sluice__V1__ListReply **reply,
                             struct sl_error *err);

// Returns true if the list needs another turn; `reply` is one that
// status_list_turn made for `request`.
bool status_list_goes_on(const Sluice__V1__ListRequest *request,
                         const Sluice__V1__ListReply *reply);

// Makes the list of a job's checkpoints, empty if it has none, with its layout,
// tables and classes, and with what suspect workers contributed; loads a job
// that has ended from the journal for that.
enum sl_err status_checkpoints(struct coord *c,
                               const Sluice__V1__JobRequest *request,
                               Sluice__V1__CheckpointsReply **reply,
                               struct sl_error *err);

// What one turn of the loop looks at.
#define STATUS_CLUSTER_TURN 256    // members
#define STATUS_CLUSTER_SHARDS 8192 // shards, and those of a job more

// Makes a list of all members in one call, however long that takes: those that
// are attached, those that were lost within MEMBERS_LOST_MS, and psservers that
// shards of active jobs lie on; with the shards of each psserver, and warnings
// for the operator. `request` has no fields.
enum sl_err status_cluster(struct coord *c,
                           const Sluice__V1__ClusterRequest *request,
                           Sluice__V1__ClusterReply **reply,
                           struct sl_error *err);

// Makes or continues a list of members, as much as one turn of the loop has
// time for. *reply is NULL before the first turn. Call it while
// status_cluster_goes_on. On failure *reply is as it was. Members that come or
// go between two turns may be missing, or listed as they were.
enum sl_err status_cluster_turn(struct coord *c,
                                const Sluice__V1__ClusterRequest *request,
                                Sluice__V1__ClusterReply **reply,
                                struct sl_error *err);

// Returns true if the list of members needs another turn; `reply` is one that
// status_cluster_turn made.
bool status_cluster_goes_on(const Sluice__V1__ClusterReply *reply);

// Drains a member or ends that, as coord_drain (its errors come, too), and
// answers with whether that changed anything, and with the member's status and
// shards if it is attached. After SL_ENOMEM the drain may have been begun or
// ended.
enum sl_err status_drain(struct coord *c,
                         const Sluice__V1__DrainRequest *request,
                         Sluice__V1__DrainReply **reply, struct sl_error *err);

// Lists tenants with their quotas and their use, as far as the caller may see
// them. `request` has nothing that is read.
enum sl_err status_quota(struct coord *c,
                         const Sluice__V1__QuotaRequest *request,
                         Sluice__V1__QuotaReply **reply, struct sl_error *err);

// ---- status_events.c: answers from the feed

// Answers with a page of events, in order: the first ones behind request->after
// or, with request->newest, the newest ones; of one job, which may have ended,
// or of all that the caller may see if request->id is "". At most
// request->limit of them; 0: WIRE_EVENTS_MAX; reply->more says that others
// follow, and reply->last is the id to go on behind. A limit above
// WIRE_EVENTS_MAX is not cut here, and the reply may then be one that no client
// reads: callers check it.
enum sl_err status_events(struct coord *c,
                          const Sluice__V1__EventsRequest *request,
                          Sluice__V1__EventsReply **reply,
                          struct sl_error *err);

// Answers with a page of the events of no job, as status_events does for a job,
// whatever job the request names: of members and the coordinator. A caller who
// sees one tenant's jobs alone sees none of them.
enum sl_err status_cluster_events(struct coord *c,
                                  const Sluice__V1__EventsRequest *request,
                                  Sluice__V1__EventsReply **reply,
                                  struct sl_error *err);

// Answers with the spans of a job's leases behind number request->after, the
// newest request->limit of them (0: 10,000), and with those that still run, of
// number 0; what would be beyond WIRE_SPANS_MAX in all is left out. reply->last
// is the number of the newest span that has ended; 0: none is kept.
enum sl_err status_timeline(struct coord *c,
                            const Sluice__V1__TimelineRequest *request,
                            Sluice__V1__TimelineReply **reply,
                            struct sl_error *err);

// Answers with a job's curve behind request->after_us, by seconds or, with
// request->minutes, by minutes; empty for a job of which nothing is kept.
enum sl_err status_history(struct coord *c,
                           const Sluice__V1__HistoryRequest *request,
                           Sluice__V1__HistoryReply **reply,
                           struct sl_error *err);

#endif
