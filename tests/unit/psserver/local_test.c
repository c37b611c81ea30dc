// SPDX-License-Identifier: Apache-2.0
// The socket and the regions alone, on one thread.
#include "psserver/local/local_shared.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/local.h"
#include "tests/harness/t.h"

enum { BYTES = 8192 };

struct desk {
    struct loop *loop;
    struct local *local;
    Sluice__V1__LocalReply about;
    int fd; // a worker's
};

static void desk_open(struct desk *d)
{
    T_OK(loop_new(&d->loop, t_err()));
    T_OK(local_new(&d->local, d->loop, t_path("s"), "ps-7", t_err()));
    local_about(d->local, &d->about);
    T_OK(shm_connect(&d->fd, d->about.path, t_err()));
}

static void desk_close(struct desk *d)
{
    struct stat st;

    local_free(d->local);
    T_EQ(stat(t_path("s"), &st), -1);
    loop_free(d->loop);
    close(d->fd);
}

// A message of the psserver, or how the connection ended.
static enum sl_err hear(struct desk *d, struct local_note *out)
{
    enum sl_err rc;
    int passed;

    for (int i = 0; i < 100; i++) {
        loop_turn(d->loop);
        rc = local_receive(d->fd, out, &passed);
        if (rc != SL_EBUSY)
            return rc;
    }
    return SL_EBUSY;
}

static struct local_note map_note(const struct desk *d, uint64_t bytes)
{
    return (struct local_note){
        .kind = LOCAL_MAP, .token = d->about.token, .tag = 11, .bytes = bytes};
}

// Hands over memory; its number.
static uint64_t map(struct desk *d, struct shm *m)
{
    struct local_note note;
    int fd;

    T_OK(shm_new(m, &fd, BYTES, t_err()));
    T_OK(local_send(d->fd, map_note(d, BYTES), fd));
    close(fd);
    T_OK(hear(d, &note));
    T_EQ(note.kind, LOCAL_MAPPED);
    T_EQ(note.tag, 11);
    T_NE(note.region, 0);
    return note.region;
}

TEST(local, ranges_of_what_a_worker_maps)
{
    struct local_use use = {NULL, NULL}, none = {NULL, NULL};
    struct wire_shm ref;
    struct desk d;
    struct shm m;

    desk_open(&d);
    T_STR(d.about.name, "ps-7");
    T_NE(d.about.token, 0);
    ref = (struct wire_shm){map(&d, &m), 4096, 4096};
    T_EQ(local_bytes(d.local), BYTES);
    m.at[4096] = 3;
    T_OK(local_take(d.local, &ref, &use, t_err()));
    T_EQ(*(uint8_t *)use.at, 3);
    local_give(&use);
    local_give(&use); // all zeroes

    ref.bytes = 4100;
    T_FAILS(SL_ERANGE, local_take(d.local, &ref, &none, t_err()));
    ref = (struct wire_shm){ref.region, BYTES, 4};
    T_FAILS(SL_ERANGE, local_take(d.local, &ref, &none, t_err()));
    ref.offset = UINT64_MAX - 3; // wire_ps refuses it before
    T_FAILS(SL_ERANGE, local_take(d.local, &ref, &none, t_err()));
    ref = (struct wire_shm){ref.region, 4, UINT64_MAX - 3};
    T_FAILS(SL_ERANGE, local_take(d.local, &ref, &none, t_err()));
    ref = (struct wire_shm){ref.region + 1, 0, 4};
    T_FAILS(SL_ENOENT, local_take(d.local, &ref, &none, t_err()));
    T_FAILS(SL_ENOENT, local_take(NULL, &ref, &none, t_err()));
    shm_release(&m);
    desk_close(&d);
}

TEST(local, what_is_dropped_is_not_found_but_honoured)
{
    struct local_note drop = {.kind = LOCAL_DROP}, note;
    struct local_use use, none;
    struct wire_shm ref;
    struct desk d;
    struct shm m;

    desk_open(&d);
    ref = (struct wire_shm){map(&d, &m), 0, BYTES};
    T_OK(local_take(d.local, &ref, &use, t_err()));
    drop.region = ref.region;
    T_OK(local_send(d.fd, drop, -1));
    T_FAILS(SL_EBUSY, hear(&d, &note)); // no answer, and not cut off
    T_FAILS(SL_ENOENT, local_take(d.local, &ref, &none, t_err()));
    shm_release(&m);
    memset(use.at, 1, BYTES); // still there
    T_EQ(local_bytes(d.local), BYTES);
    local_give(&use);
    T_EQ(local_bytes(d.local), 0);
    desk_close(&d);
}

TEST(local, a_worker_that_dies_takes_its_regions_along)
{
    struct local_use use, none;
    struct wire_shm a, b;
    struct shm m, m2;
    struct desk d;

    desk_open(&d);
    a = (struct wire_shm){map(&d, &m), 0, BYTES};
    b = (struct wire_shm){map(&d, &m2), 0, BYTES};
    T_NE(a.region, b.region);
    T_EQ(local_bytes(d.local), 2 * BYTES);
    T_OK(local_take(d.local, &a, &use, t_err()));
    shm_release(&m);
    shm_release(&m2);
    close(d.fd);
    for (int i = 0; i < 100 && local_bytes(d.local) == 2 * BYTES; i++)
        loop_turn(d.loop);
    T_FAILS(SL_ENOENT, local_take(d.local, &a, &none, t_err()));
    T_FAILS(SL_ENOENT, local_take(d.local, &b, &none, t_err()));
    T_EQ(local_bytes(d.local), BYTES); // a call still uses one
    memset(use.at, 2, BYTES);
    local_give(&use);
    T_EQ(local_bytes(d.local), 0);
    T_OK(shm_connect(&d.fd, d.about.path, t_err())); // another is welcome
    map(&d, &m);
    shm_release(&m);
    desk_close(&d);
}

// ---- what it does not take

static void is_refused(struct desk *d, struct local_note note, int fd)
{
    struct local_note answer;

    T_OK(local_send(d->fd, note, fd));
    T_OK(hear(d, &answer));
    T_EQ(answer.kind, LOCAL_REFUSED);
    T_EQ(answer.tag, note.tag);
    T_EQ(local_bytes(d->local), 0);
}

TEST(local, memory_that_could_be_taken_away_or_is_too_much)
{
    struct desk d;
    struct shm m;
    int fd, file;

    desk_open(&d);
    T_OK(shm_new(&m, &fd, BYTES, t_err()));
    is_refused(&d, map_note(&d, BYTES + 4096), fd);
    is_refused(&d, map_note(&d, 0), fd);
    is_refused(&d, map_note(&d, UINT64_MAX), fd);
    is_refused(&d, map_note(&d, LOCAL_PEER_BYTES + 1), fd);
    file = open(t_path("file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    T_EQ(ftruncate(file, BYTES), 0);
    is_refused(&d, map_note(&d, BYTES), file);
    close(file);
    close(fd);
    shm_release(&m);
    map(&d, &m); // and goes on
    shm_release(&m);
    desk_close(&d);
}

static void is_cut_off(struct local_note note, bool token, bool passes)
{
    struct desk d;
    struct shm m;
    int fd;

    desk_open(&d);
    T_OK(shm_new(&m, &fd, BYTES, t_err()));
    note.token = token ? d.about.token : d.about.token ^ 1;
    T_OK(local_send(d.fd, note, passes ? fd : -1));
    T_FAILS(SL_EUNAVAIL, hear(&d, &note));
    T_EQ(local_bytes(d.local), 0);
    close(fd);
    shm_release(&m);
    desk_close(&d);
}

TEST(local, who_says_what_it_must_not_is_cut_off)
{
    struct local_note map = {.kind = LOCAL_MAP, .bytes = BYTES};
    struct desk d;

    is_cut_off(map, false, true); // it has not asked over gRPC
    is_cut_off(map, true, false); // nothing to map
    is_cut_off((struct local_note){.kind = LOCAL_DROP, .region = 5}, true,
               false);
    is_cut_off((struct local_note){.kind = LOCAL_MAPPED}, true, false);
    is_cut_off((struct local_note){.kind = LOCAL_CALLS}, true, false);
    is_cut_off((struct local_note){.kind = LOCAL_ADOPTED}, true, false);
    is_cut_off((struct local_note){.kind = 99}, true, false);
    is_cut_off((struct local_note){.kind = LOCAL_DROP}, true, true);

    desk_open(&d);
    T_OK(shm_send(d.fd, "GET / HTTP/1.1", 14, -1));
    T_FAILS(SL_EUNAVAIL, hear(&d, &map));
    desk_close(&d);
}

// ---- a socket for calls

struct service {
    struct rpc_io *io;
    struct rpc_server *server;
    struct rpc_channel *channel; // to where nobody listens
    atomic_int heard;
    sem_t over;
};

static void count(struct rpc_call *call, void *arg)
{
    struct service *s = arg;

    atomic_fetch_add(&s->heard, 1);
    rpc_answer(call, SL_OK, NULL, NULL);
}

static void service_open(struct service *s)
{
    static const struct rpc_method methods[] = {
        {.path = "/t/C", .unary = count}};
    struct rpc_table table = {methods, 1, s};

    *s = (struct service){.io = NULL};
    sem_init(&s->over, 0, 0);
    T_OK(rpc_io_new(&s->io, NULL, t_err()));
    T_OK(rpc_server_new(&s->server, s->io, &table, 1, NULL, t_err()));
    rpc_server_start(s->server);
    T_OK(rpc_channel_new(&s->channel, s->io, "unix:/nowhere/at/all", NULL, NULL,
                         t_err()));
}

static void service_close(struct service *s)
{
    rpc_channel_free(s->channel);
    rpc_server_free(s->server);
    rpc_io_free(s->io);
    sem_destroy(&s->over);
}

static void ended(void *arg, enum sl_err code, const struct sl_error *err,
                  const struct sl_slices *reply)
{
    struct service *s = arg;

    (void)err;
    (void)reply;
    T_ASSERT(code == SL_OK);
    sem_post(&s->over);
}

// Offers one end; the other is the caller's.
static int offer(struct desk *d, uint64_t token)
{
    struct local_note note = {.kind = LOCAL_CALLS, .token = token};
    int pair[2];

    T_OK(rpc_socket_pair(pair, t_err()));
    T_OK(local_send(d->fd, note, pair[1]));
    close(pair[1]);
    return pair[0];
}

TEST(local, calls_over_a_socket_that_is_handed_over)
{
    struct rpc_call_options options = {.deadline_ms = 60000, .small = true};
    struct local_note note;
    struct service s;
    struct desk d;
    int fd;

    desk_open(&d);
    service_open(&s);
    local_serve(d.local, s.server);
    fd = offer(&d, d.about.token);
    T_OK(hear(&d, &note));
    T_EQ(note.kind, LOCAL_ADOPTED);
    T_OK(rpc_channel_adopt(s.channel, fd, t_err()));
    rpc_call_start(s.channel, "/t/C", NULL, &options, ended, &s, NULL);
    while (sem_wait(&s.over) != 0)
        ;
    T_EQ(atomic_load(&s.heard), 1);
    close(offer(&d, d.about.token)); // one is enough
    T_FAILS(SL_EUNAVAIL, hear(&d, &note));
    service_close(&s);
    desk_close(&d);
}

TEST(local, no_calls_without_a_server_or_over_something_else)
{
    struct local_note calls = {.kind = LOCAL_CALLS}, note;
    struct service s;
    struct desk d;
    struct shm m;
    int fd;

    desk_open(&d);
    close(offer(&d, d.about.token));
    T_OK(hear(&d, &note));
    T_EQ(note.kind, LOCAL_REFUSED);
    service_open(&s);
    local_serve(d.local, s.server);
    calls.token = d.about.token;
    T_OK(shm_new(&m, &fd, BYTES, t_err()));
    is_refused(&d, calls, fd); // memory is no socket
    close(fd);
    shm_release(&m);
    close(offer(&d, d.about.token ^ 1));
    T_FAILS(SL_EUNAVAIL, hear(&d, &note));
    service_close(&s);
    desk_close(&d);
}

TEST(local, a_region_of_another_worker_cannot_be_dropped)
{
    struct local_note note = {.kind = LOCAL_DROP};
    struct local_use use;
    struct wire_shm ref;
    struct desk d;
    struct shm m;
    int other;

    desk_open(&d);
    ref = (struct wire_shm){map(&d, &m), 0, 4};
    other = d.fd;
    T_OK(shm_connect(&d.fd, d.about.path, t_err()));
    note.region = ref.region;
    T_OK(local_send(d.fd, note, -1));
    T_FAILS(SL_EUNAVAIL, hear(&d, &note));
    T_OK(local_take(d.local, &ref, &use, t_err()));
    local_give(&use);
    shm_release(&m);
    close(other);
    desk_close(&d);
}
