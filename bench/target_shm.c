// SPDX-License-Identifier: Apache-2.0
#include "bench/target_shm.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "bench/program.h"
#include "proto/local.h"

#define DEADLINE_MS 10000

static struct rpc_body *ask(struct rpc_channel *channel)
{
    struct rpc_call_options options = {.deadline_ms = DEADLINE_MS,
                                       .wait_for_ready = true};
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_body *body;
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    program_must(
        rpc_call_sync(channel, WIRE_LOCAL, &msg, &options, &body, &err), &err,
        "Local");
    return body;
}

static struct local_note hear(int fd, enum local_kind kind)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    struct local_note note;
    int passed;

    if (poll(&ready, 1, DEADLINE_MS) != 1)
        program_die("the psserver does not answer on its socket");
    program_must(local_receive(fd, &note, &passed), NULL, "the socket");
    if (note.kind != (uint32_t)kind)
        program_die("the psserver takes no memory or no calls from us");
    return note;
}

static void offer_calls(int fd, struct rpc_channel *channel, uint64_t token)
{
    struct local_note note = {.kind = LOCAL_CALLS, .token = token};
    struct sl_error err = SL_ERROR_INIT;
    int pair[2];

    program_must(rpc_socket_pair(pair, &err), &err, "a socket");
    program_must(local_send(fd, note, pair[1]), NULL, "offering a socket");
    close(pair[1]);
    (void)hear(fd, LOCAL_ADOPTED);
    program_must(rpc_channel_adopt(channel, pair[0], &err), &err, "adopting");
}

static void hand_over(struct target_shm *s, size_t bytes, uint64_t token)
{
    struct local_note note = {
        .kind = LOCAL_MAP, .bytes = bytes, .token = token};
    struct sl_error err = SL_ERROR_INIT;
    int fd;

    program_must(shm_new(&s->memory, &fd, bytes, &err), &err, "memory");
    program_must(local_send(s->fd, note, fd), NULL, "handing over memory");
    close(fd);
    s->region = hear(s->fd, LOCAL_MAPPED).region;
}

void target_shm_open(struct target_shm *s, struct rpc_channel *channel,
                     size_t bytes)
{
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_body *body = ask(channel);
    Sluice__V1__LocalReply *m;
    struct wire_arena arena;

    wire_arena_init(&arena);
    program_must(
        wire_unpack_local_reply(&m, &arena, rpc_body_slices(body), &err), &err,
        "the answer to Local");
    if (m->path[0] == '\0')
        program_die("the psserver shares no memory (--shm off?)");
    program_must(shm_connect(&s->fd, m->path, &err), &err, m->path);
    s->open = true;
    if (!rpc_channel_adopted(channel))
        offer_calls(s->fd, channel, m->token);
    if (bytes > 0)
        hand_over(s, bytes, m->token);
    wire_arena_release(&arena);
    rpc_body_free(body);
}

void target_shm_close(struct target_shm *s)
{
    if (!s->open)
        return;
    shm_release(&s->memory);
    close(s->fd);
    s->open = false;
}
