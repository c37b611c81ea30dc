// SPDX-License-Identifier: Apache-2.0
// coordinator/service/attend.h -- the server side of Attend: streams <-> coord.
//
//   I/O thread: bytes -> checked message -> task (attend_session_on_message)
//   loop:       task -> coord_receive; coord's send -> bytes -> stream
//
// One session per stream. Its first message must be Hello; what the decoder
// refuses of it (another protocol, no name) is answered with Goodbye and why.
//
// Threads  attend_* : the loop. The handler of the table: I/O threads.
// Memory   attend_free after the server was freed, so that every stream has
//          ended and told the loop; the loop must have run those tasks. Loop
//          and coord are borrowed; messages are, until the call returns.
// Errors   SL_ENOMEM of attend_new, with *out untouched; `err` may be NULL.
#ifndef COORDINATOR_SERVICE_ATTEND_H
#define COORDINATOR_SERVICE_ATTEND_H

#include "common/run/loop.h"
#include "common/net/rpc.h"
#include "coordinator/core/coord.h"

struct attend;

// Makes the service without a coord: no member is let in yet. SL_ENOMEM.
enum sl_err attend_new(struct attend **out, struct loop *loop,
                       struct sl_error *err);

// Frees a, when all its streams have ended (above). NULL is allowed.
void attend_free(struct attend *a);

// Sets the coord that messages go to, borrowed until the next one is set. NULL:
// none, and no member is let in; open streams stay, and what they say is
// dropped. In both cases what attend_send_away said is over: NULL does not send
// members away.
void attend_set_coord(struct attend *a, struct coord *c);

// Receives a message of one kind, borrowed until the call returns.
typedef void attend_take(void *arg, uint64_t member,
                         const Sluice__V1__AttendUp *message);

// Sets the receiver of messages of one kind that no coord wants (pieces of
// traces and of logs), for good; two kinds at most, a third replaces the
// second. It gets those of attached members alone, and none while there is no
// coord. `arg` lives as long as streams do.
void attend_on(struct attend *a, Sluice__V1__AttendUp__KindCase kind,
               attend_take *take, void *arg);

// Ends the streams of all members, with no coord_detach, and those of members
// that come before the next coord, with their first message: they dial again.
// `why`, copied, says what the coordinator waits for. There is no coord from
// then on, until attend_set_coord.
void attend_send_away(struct attend *a, const char *why);

// Returns the methods of the service, for the server; they borrow a.
struct rpc_table attend_table(struct attend *a);

// ---- functions for coord_io: arg is the attend. A member that is not there is
// passed over.

// Queues a message, which is copied; a stream that cannot take it, for want of
// memory or because the peer reads nothing, is canceled. After attend_hang_up,
// attend_cut_off or attend_send_away it does nothing.
void attend_send(void *attend, uint64_t member,
                 const Sluice__V1__AttendDown *message);

// Ends the member's stream after all that was sent to it. What the member says
// from then on is dropped, and no coord_detach follows, here as with
// attend_cut_off.
void attend_hang_up(void *attend, uint64_t member);

// Cancels the member's stream at once; what was queued for it may be lost.
void attend_cut_off(void *attend, uint64_t member);

// Returns the name on the member's certificate, borrowed until its stream has
// ended; "" without one, and for a member that is not there.
const char *attend_certificate(void *attend, uint64_t member);

#endif
