// SPDX-License-Identifier: Apache-2.0
// psserver/local/local_shared.c -- the socket, on the loop.
#include "psserver/local/local_shared.h"

#include <string.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/run/log.h"
#include "common/base/mem.h"
#include "proto/local.h"
#include "psserver/local/local_region.h"

struct local {
    struct loop *loop;
    char *path, *name; // owned
    char boot_id[SHM_BOOT_ID];
    uint64_t token;
    int fd; // listening socket; -1: none
    struct loop_watch *watch;
    struct list peers; // of local_peer
    unsigned peer_count;
    struct local_table table;
    struct rpc_server *server; // answers calls over sockets; NULL: none
};

// A connection of a worker. It ends when the worker breaks the protocol.
struct local_peer {
    struct list_node node;
    struct local *local;
    int fd;
    struct loop_watch *watch;
    struct list regions; // of local_region
    unsigned region_count;
    size_t bytes;
    bool calls; // it has handed us a socket for calls
};

static void local_peer_drop_region(struct local_peer *p, struct local_region *r)
{
    list_remove(&r->node);
    p->region_count--;
    p->bytes -= r->memory.bytes;
    local_table_drop(r);
}

static void peer_end(struct local_peer *p)
{
    while (!list_empty(&p->regions))
        local_peer_drop_region(
            p, list_entry(list_first(&p->regions), struct local_region, node));
    list_remove(&p->node);
    p->local->peer_count--;
    loop_watch_free(p->watch);
    close(p->fd);
    sl_free(p);
}

// Maps one memory. A refusal is an answer: the worker then sends bytes.
static enum sl_err map_one(struct local_peer *p, const struct local_note *note,
                           int fd)
{
    struct local_note answer = {.kind = LOCAL_REFUSED, .tag = note->tag};
    struct sl_error err = SL_ERROR_INIT;
    struct local_region *r = NULL;
    enum sl_err rc = SL_EBUSY;

    if (note->token != p->local->token)
        return SL_EDENIED;
    if (p->region_count < LOCAL_PEER_REGIONS &&
        note->bytes <= LOCAL_PEER_BYTES - p->bytes)
        rc = local_table_add(&p->local->table, fd, note->bytes, &r, &err);
    if (rc == SL_EDENIED)
        LOG(WARN, "shared memory of a worker refused", "why=%s", err.text);
    if (rc == SL_OK) {
        list_push_back(&p->regions, &r->node);
        p->region_count++;
        p->bytes += note->bytes;
        answer.kind = LOCAL_MAPPED;
        answer.region = r->number;
        FAULT("shm.map");
    }
    return local_send(p->fd, answer, -1);
}

// Adopts a socket for calls, one per worker; owns the descriptor.
static enum sl_err adopt_one(struct local_peer *p,
                             const struct local_note *note, int fd)
{
    struct local_note answer = {.kind = LOCAL_REFUSED};
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_server *server = p->local->server;

    if (note->token != p->local->token || p->calls) {
        close(fd);
        return p->calls ? SL_EINVAL : SL_EDENIED;
    }
    if (server == NULL)
        close(fd);
    else if (rpc_server_adopt(server, fd, &err) == SL_OK)
        answer.kind = LOCAL_ADOPTED;
    else
        LOG(WARN, "socket for a local worker's calls not opened", "why=%s",
            err.text);
    p->calls = answer.kind == LOCAL_ADOPTED;
    return local_send(p->fd, answer, -1);
}

static enum sl_err drop_one(struct local_peer *p, uint64_t number)
{
    list_for(n, &p->regions)
    {
        struct local_region *r = list_entry(n, struct local_region, node);

        if (r->number == number) {
            local_peer_drop_region(p, r);
            return SL_OK;
        }
    }
    return SL_EINVAL;
}

static enum sl_err hear_one(struct local_peer *p)
{
    struct local_note note;
    int fd = -1;
    enum sl_err rc = local_receive(p->fd, &note, &fd);

    if (rc != SL_OK)
        return rc;
    if (note.kind == LOCAL_MAP) {
        rc = map_one(p, &note, fd);
        close(fd);
        return rc;
    }
    if (note.kind == LOCAL_CALLS)
        return adopt_one(p, &note, fd);
    return note.kind == LOCAL_DROP ? drop_one(p, note.region) : SL_EINVAL;
}

static void on_peer(void *arg)
{
    struct local_peer *p = arg;
    enum sl_err rc;

    do {
        rc = hear_one(p);
    } while (rc == SL_OK);
    if (rc == SL_EBUSY)
        return;
    if (rc != SL_EUNAVAIL)
        LOG(WARN, "shared memory: a worker is cut off", "why=%s",
            sl_err_name(rc));
    peer_end(p);
}

static enum sl_err peer_begin(struct local *l, int fd)
{
    struct local_peer *p = sl_calloc(1, sizeof(*p));

    if (p == NULL)
        return SL_ENOMEM;
    if (loop_watch_new(&p->watch, l->loop, fd, on_peer, p) != SL_OK) {
        sl_free(p);
        return SL_ENOMEM;
    }
    p->local = l;
    p->fd = fd;
    list_init(&p->regions);
    list_push_back(&l->peers, &p->node);
    l->peer_count++;
    return SL_OK;
}

// Accepts workers. Those beyond LOCAL_PEERS send bytes.
static void on_caller(void *arg)
{
    struct local *l = arg;
    int fd = -1;
    enum sl_err rc;

    while ((rc = shm_accept(&fd, l->fd)) != SL_EBUSY && rc != SL_EIO) {
        if (rc == SL_OK &&
            (l->peer_count >= LOCAL_PEERS || peer_begin(l, fd) != SL_OK))
            close(fd);
    }
}

enum sl_err local_new(struct local **out, struct loop *loop, const char *path,
                      const char *name, struct sl_error *err)
{
    struct local *l = sl_calloc(1, sizeof(*l));
    enum sl_err rc;

    if (l == NULL)
        return sl_no_memory(err);
    l->loop = loop;
    l->fd = -1;
    list_init(&l->peers);
    local_table_init(&l->table);
    l->path = sl_strdup(path);
    l->name = sl_strdup(name);
    rc = l->path == NULL || l->name == NULL ? SL_ENOMEM : SL_OK;
    if (rc == SL_OK && !shm_boot_id(l->boot_id))
        rc = sl_fail(err, SL_ENOTSUP, "this host does not tell its boot id");
    if (rc == SL_OK)
        rc = shm_secret(&l->token);
    if (rc == SL_OK)
        rc = shm_listen(&l->fd, path, err);
    if (rc == SL_OK)
        rc = loop_watch_new(&l->watch, loop, l->fd, on_caller, l);
    if (rc != SL_OK) {
        local_free(l);
        return rc;
    }
    *out = l;
    return SL_OK;
}

void local_free(struct local *l)
{
    if (l == NULL)
        return;
    while (!list_empty(&l->peers))
        peer_end(list_entry(list_first(&l->peers), struct local_peer, node));
    loop_watch_free(l->watch);
    if (l->fd >= 0) {
        (void)unlink(l->path);
        close(l->fd);
    }
    local_table_release(&l->table);
    sl_free(l->path);
    sl_free(l->name);
    sl_free(l);
}

void local_serve(struct local *l, struct rpc_server *server)
{
    if (l != NULL)
        l->server = server;
}

void local_about(const struct local *l, Sluice__V1__LocalReply *out)
{
    sluice__v1__local_reply__init(out);
    if (l == NULL)
        return;
    out->boot_id = (char *)(uintptr_t)l->boot_id;
    out->path = l->path;
    out->token = l->token;
    out->name = l->name;
}

enum sl_err local_take(struct local *l, const struct wire_shm *ref,
                       struct local_use *out, struct sl_error *err)
{
    if (l == NULL)
        return sl_fail(err, SL_ENOENT, "this psserver shares no memory");
    return local_table_take(&l->table, ref, out, err);
}

size_t local_bytes(const struct local *l)
{
    return atomic_load(&l->table.bytes);
}
