// SPDX-License-Identifier: Apache-2.0
// tests/unit/psserver/stage.h -- a psserver without its main, a coordinator
// that does what the test says, and a worker's calls; over real sockets.
//
// Threads  the psserver's loop runs on a thread of its own; everything here is
//          for the test's thread.
// Memory   messages that stage_expect gives live until stage_close.
// Errors   what fails that should not ends the test, and so does a wait of a
//          minute.
#ifndef TESTS_UNIT_PSSERVER_STAGE_H
#define TESTS_UNIT_PSSERVER_STAGE_H

#include <pthread.h>
#include <semaphore.h>

#include "common/run/loop.h"
#include "common/net/rpc.h"
#include "psserver/service/api.h"
#include "psserver/service/attend.h"
#include "psserver/roster/roster.h"
#include "state/shard/shard_store.h"
#include "tests/unit/psserver/kit.h"

struct stage {
    struct rpc_io *io;
    char coordinator[256], psserver[256]; // addresses
    char socket[256];                     // of psserver/local/local_shared.h
    const char *folder;

    // the coordinator
    uint32_t heartbeat_ms; // that the next Welcome asks for
    struct rpc_server *rpc;
    pthread_mutex_t lock; // stream, inbox
    pthread_cond_t news;
    struct rpc_stream *stream;    // the newest; a reference
    unsigned streams;             // that were opened
    Sluice__V1__AttendUp **inbox; // owned; all that ever came
    size_t inbox_space, got, read;

    // the psserver
    pthread_t thread;
    sem_t ready;
    struct loop *loop;
    struct shard_table *store;
    struct roster *roster;
    struct attendance *attend;
    struct local *local;

    // the worker
    struct rpc_channel *worker;
    struct rpc_body *reply; // of the last call
};

// Sets *s up, in the test's folder: a coordinator that listens, a psserver that
// dials it and serves, and a worker's channel to that. For stage_close.
void stage_open(struct stage *s);

// Stops the psserver and waits for its thread, then frees the rest.
void stage_close(struct stage *s);

// ---- the coordinator's part

// Waits for the next message of a kind and returns it; others before it are
// dropped.
const Sluice__V1__AttendUp *stage_expect(struct stage *s,
                                         Sluice__V1__AttendUp__KindCase kind);

// Sends a message, which is copied, on the newest stream; there is one once a
// message has come.
void stage_send(struct stage *s, Sluice__V1__AttendDown__KindCase kind,
                ProtobufCMessage *msg);

// Cancels the newest stream.
void stage_hang_up(struct stage *s);

// Waits for a Hello, and answers it by a Welcome of this term, which asks for a
// heartbeat every s->heartbeat_ms.
void stage_welcome(struct stage *s, uint64_t term);

// Sends Place of the kit's shard, whose snapshots below at_least do not do.
void stage_place(struct stage *s, struct kit *k, uint64_t term,
                 struct wire_tag at_least);

// Sends Admit of the kit's shard as this incarnation.
void stage_admit(struct stage *s, uint64_t term, uint64_t incarnation);

// Says Welcome, Place from the seed, and Admit as incarnation 1; all of term 1.
// Returns when a heartbeat shows that the shard serves.
void stage_serve(struct stage *s, struct kit *k);

// Asks for a snapshot of the kit's shard, and waits for the next report of one.
const Sluice__V1__SnapshotReport *
stage_snapshot(struct stage *s, uint64_t incarnation, uint64_t request);

// Heartbeats pass until the condition holds: a wait without a sleep.
#define STAGE_UNTIL(s, condition)                                              \
    do {                                                                       \
        stage_expect((s), SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT);              \
    } while (!(condition))

// ---- the worker's part: each makes a call, waits for its answer, and returns
// SL_OK with *out, which points into s->reply and holds until the next call, or
// the error of the call

// Pushes; the payload is one slice or none.

enum sl_err stage_push(struct stage *s, const char *method,
                       const struct wire_push *push,
                       struct wire_push_reply *out);
enum sl_err stage_ask(struct stage *s, const struct wire_ask *ask,
                      struct wire_ask_reply *out);
enum sl_err stage_pull(struct stage *s, const struct wire_pull *pull,
                       struct wire_pull_reply *out);

// Copies the n floats of a payload, of the last reply, to out[]; fails unless
// it has as many.
void stage_floats(const struct sl_slices *payload, float *out, size_t n);

#endif
