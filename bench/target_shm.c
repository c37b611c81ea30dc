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

static struct local_note hear(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    struct local_note note;
    int passed;

    if (poll(&ready, 1, DEADLINE_MS) != 1)
        program_die("the psserver does not answer on its socket");
    program_must(local_hear(fd, &note, &passed), NULL, "the socket");
    if (note.kind != LOCAL_MAPPED)
        program_die("the psserver does not map our memory");
    return note;
}

void target_shm_open(struct target_shm *s, struct rpc_channel *channel,
                     size_t bytes)
{
    struct local_note note = {.kind = LOCAL_MAP, .bytes = bytes};
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_body *body = ask(channel);
    Sluice__V1__LocalReply *m;
    struct wire_arena arena;
    int fd;

    wire_arena_init(&arena);
    program_must(
        wire_unpack_local_reply(&m, &arena, rpc_body_slices(body), &err), &err,
        "the answer to Local");
    if (m->path[0] == '\0')
        program_die("the psserver shares no memory (--shm off?)");
    program_must(shm_connect(&s->fd, m->path, &err), &err, m->path);
    program_must(shm_new(&s->memory, &fd, bytes, &err), &err, "memory");
    note.token = m->token;
    program_must(local_say(s->fd, note, fd), NULL, "handing over memory");
    close(fd);
    s->region = hear(s->fd).region;
    wire_arena_release(&arena);
    rpc_body_free(body);
}

void target_shm_close(struct target_shm *s)
{
    if (s->memory.at == NULL)
        return;
    shm_release(&s->memory);
    close(s->fd);
}
