// SPDX-License-Identifier: Apache-2.0
// Rooms shared with the real socket of a psserver, in one process.
#include "trainer/push/peer_shm.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "common/run/log.h"
#include "proto/wire.h"
#include "psserver/local/local_shared.h"
#include "tests/harness/t.h"

enum { BYTES = 1000, OTHER_BYTES = 5000 };
#define LONG_MS 60000 // past every pause
#define SOON_MS 1000  // past one for what was lost
#define PATIENCE_US 60000000

struct host {
    struct loop *loop;
    struct rpc_io *io;
    struct rpc_server *rpc;
    struct rpc_channel *channel;
    pthread_mutex_t lock; // questions may come while the test replaces:
    struct local *local;
    struct peer_shm *shm;
    struct clock_fake clock;
    char path[300]; // of the socket
    char address[300];
    atomic_uint asked;
    // The I/O thread may still answer the question before this one.
    const char *_Atomic boot_id; // NULL: the real one
    atomic_bool off;             // it shares nothing
};

static struct host host;

static void about(struct rpc_call *call, void *arg)
{
    struct host *h = arg;
    const char *boot_id = h->boot_id;
    Sluice__V1__LocalReply reply;
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    pthread_mutex_lock(&h->lock);
    local_about(h->off ? NULL : h->local, &reply);
    if (boot_id != NULL)
        reply.boot_id = (char *)(uintptr_t)boot_id;
    T_ASSERT(wire_msg(&msg, &reply.base) == SL_OK);
    pthread_mutex_unlock(&h->lock);
    atomic_fetch_add(&h->asked, 1);
    rpc_answer(call, SL_OK, NULL, &msg);
}

static const struct rpc_method methods[] = {
    {.path = WIRE_LOCAL, .unary = about}};

static struct local *swap_local(struct host *h, struct local *local)
{
    struct local *old;

    pthread_mutex_lock(&h->lock);
    old = h->local;
    h->local = local;
    pthread_mutex_unlock(&h->lock);
    return old;
}

static void local_open(struct host *h)
{
    struct local *local;

    snprintf(h->path, sizeof(h->path), "%s/l", t_tmpdir());
    T_OK(local_new(&local, h->loop, h->path, "ps-0", t_err()));
    T_PTR(swap_local(h, local), NULL);
}

static void local_close(struct host *h)
{
    local_free(swap_local(h, NULL));
}

static void server_open(struct host *h)
{
    struct rpc_table table = {methods, 1, h};

    T_OK(rpc_server_new(&h->rpc, h->io, &table, 1, NULL, t_err()));
    T_OK(rpc_server_bind(h->rpc, h->address, NULL, NULL, t_err()));
    rpc_server_start(h->rpc);
    local_serve(h->local, h->rpc);
}

static void host_open(struct host *h)
{
    memset(h, 0, sizeof(*h));
    pthread_mutex_init(&h->lock, NULL);
    clock_fake_init(&h->clock, LONG_MS * 1000, 0);
    snprintf(h->address, sizeof(h->address), "unix:%s/ps", t_tmpdir());
    T_OK(loop_new(&h->loop, t_err()));
    T_OK(rpc_io_new(&h->io, NULL, t_err()));
    local_open(h);
    server_open(h);
    T_OK(rpc_channel_new(&h->channel, h->io, h->address, NULL, NULL, t_err()));
    T_OK(peer_shm_new(&h->shm, h->loop, &h->clock.clock, h->channel));
}

static void host_close(struct host *h)
{
    peer_shm_free(h->shm);
    rpc_channel_free(h->channel);
    local_serve(h->local, NULL);
    rpc_server_free(h->rpc);
    loop_turn(h->loop); // hangs up
    local_close(h);
    pthread_mutex_destroy(&h->lock);
    rpc_io_free(h->io);
    loop_free(h->loop);
}

// Turns the loop until the condition holds: a wait without a sleep.
#define UNTIL(h, condition)                                                    \
    do {                                                                       \
        uint64_t until_ = sl_now_us(sl_clock_real()) + PATIENCE_US;            \
                                                                               \
        while (!(condition)) {                                                 \
            T_LT(sl_now_us(sl_clock_real()), until_);                          \
            loop_turn((h)->loop);                                              \
            sched_yield();                                                     \
        }                                                                      \
    } while (0)

static struct shm_buffer *take(struct host *h, size_t bytes)
{
    peer_shm_look(h->shm);
    return peer_shm_take(h->shm, bytes);
}

static struct shm_buffer *buffer(struct host *h, size_t bytes)
{
    struct shm_buffer *r = NULL;

    UNTIL(h, (clock_fake_advance_ms(&h->clock, 1), r = take(h, bytes)) != NULL);
    T_EQ(r->bytes, bytes);
    T_GE(r->half, bytes);
    T_EQ(r->half % 64, 0);
    T_GE(r->memory.bytes, r->half + bytes);
    return r;
}

// What the psserver sees there.
static uint8_t seen(struct host *h, uint64_t region, uint64_t offset)
{
    struct wire_shm ref = {region, offset, 4};
    struct local_use use;
    uint8_t value;

    T_OK(local_take(h->local, &ref, &use, t_err()));
    value = *(uint8_t *)use.at;
    local_give(&use);
    return value;
}

TEST(peer_shm, a_buffer_is_seen_by_the_psserver)
{
    struct shm_buffer *a, *b, *c;

    host_open(&host);
    T_PTR(take(&host, BYTES), NULL); // it only asks
    a = buffer(&host, BYTES);
    b = buffer(&host, BYTES);
    c = buffer(&host, OTHER_BYTES);
    T_NE(a->region, b->region);
    a->memory.at[0] = 1;
    b->memory.at[b->half] = 2;
    c->memory.at[4] = 3;
    T_EQ(seen(&host, a->region, 0), 1);
    T_EQ(seen(&host, b->region, b->half), 2);
    T_EQ(seen(&host, c->region, 4), 3);
    T_EQ(atomic_load(&host.asked), 1);
    peer_shm_give(host.shm, a, true);
    T_PTR(take(&host, BYTES), a); // at once
    peer_shm_give(host.shm, a, true);
    peer_shm_give(host.shm, b, true);
    peer_shm_give(host.shm, c, true);
    host_close(&host);
}

TEST(peer_shm, a_buffer_that_is_not_clean_never_comes_back)
{
    struct shm_buffer *r;
    uint64_t region;
    size_t one;

    host_open(&host);
    r = buffer(&host, BYTES);
    region = r->region;
    one = local_bytes(host.local);
    peer_shm_give(host.shm, r, false);
    UNTIL(&host, local_bytes(host.local) == 0); // the psserver is told
    r = buffer(&host, BYTES);
    T_NE(r->region, region);
    T_EQ(local_bytes(host.local), one);
    peer_shm_give(host.shm, r, true);
    host_close(&host);
}

// The answer before may arrive only now, and its pause begin: then it is over
// once more. True if so.
static bool late(struct host *h, unsigned turn)
{
    if (turn % 64 != 63)
        return false;
    clock_fake_advance_ms(&h->clock, LONG_MS);
    return true;
}

static void is_far(struct host *h)
{
    unsigned before = atomic_load(&h->asked), turns = 0;
    bool was_late = false;

    UNTIL(h, (was_late |= late(h, turns++),
              take(h, BYTES) == NULL && atomic_load(&h->asked) > before));
    for (int i = 0; i < 100; i++) { // and no second question
        loop_turn(h->loop);
        T_PTR(take(h, BYTES), NULL);
    }
    if (!was_late) // else the end of a pause may have fallen into it
        T_EQ(atomic_load(&h->asked), before + 1);
    T_EQ(local_bytes(h->local), 0);
    clock_fake_advance_ms(&h->clock, LONG_MS);
}

TEST(peer_shm, another_host_or_a_psserver_that_shares_nothing)
{
    host_open(&host);
    host.boot_id = "00000000-0000-0000-0000-000000000000";
    is_far(&host);
    host.boot_id = "";
    is_far(&host);
    host.boot_id = NULL;
    host.off = true;
    is_far(&host);
    host_close(&host);
}

TEST(peer_shm, a_socket_that_cannot_be_reached)
{
    host_open(&host);
    local_close(&host); // the file is gone, too
    local_open(&host);
    T_EQ(unlink(host.path), 0);
    is_far(&host);
    local_close(&host); // later it can
    local_open(&host);
    peer_shm_give(host.shm, buffer(&host, BYTES), true);
    host_close(&host);
}

TEST(peer_shm, a_psserver_that_goes_takes_the_buffers_along)
{
    struct shm_buffer *out, *r;

    host_open(&host);
    out = buffer(&host, BYTES);
    peer_shm_give(host.shm, buffer(&host, BYTES), true);
    local_close(&host); // with its connections
    UNTIL(&host,
          take(&host, OTHER_BYTES) == NULL && atomic_load(&host.asked) == 1);
    for (int i = 0; i < 100; i++)
        loop_turn(host.loop);
    T_PTR(take(&host, BYTES), NULL);
    memset(out->memory.at, 1, out->memory.bytes); // ours still
    local_open(&host);
    clock_fake_advance_ms(&host.clock, LONG_MS);
    r = buffer(&host, BYTES);
    T_GE(atomic_load(&host.asked), 2);
    peer_shm_give(host.shm, out, true); // of a connection that is over
    T_PTR(take(&host, BYTES), NULL);
    peer_shm_give(host.shm, r, true);
    host_close(&host);
}

static void on_line(void *arg, enum log_level level, const char *line,
                    size_t len)
{
    static const char not_reached[] = "no shared memory: bytes are sent";

    (void)level;
    if (memmem(line, len, not_reached, strlen(not_reached)) != NULL)
        ++*(unsigned *)arg;
}

// Another psserver takes its place.
static void is_shared_soon(struct host *h)
{
    struct shm_buffer *r;

    local_open(h);
    clock_fake_advance_ms(&h->clock, SOON_MS);
    UNTIL(h, (r = take(h, BYTES)) != NULL);
    T_EQ(atomic_load(&h->asked), 2);
    peer_shm_give(h->shm, r, true);
}

// It was asked, and died before the connection was made.
TEST(peer_shm, a_psserver_that_died_meanwhile_is_asked_soon)
{
    unsigned not_reached = 0;
    int fd;

    host_open(&host);
    log_set_sink(on_line, &not_reached);
    T_OK(shm_listen(&fd, host.path, t_err())); // takes the place of ours
    close(fd);                                 // and leaves the file
    UNTIL(&host, (peer_shm_look(host.shm), not_reached == 1));
    log_set_sink(NULL, NULL);
    local_close(&host);
    is_shared_soon(&host);
    host_close(&host);
}

struct outcome {
    enum sl_err code;
    atomic_bool over;
};

static void ended(void *arg, enum sl_err code, const struct sl_error *err,
                  const struct sl_slices *reply)
{
    struct outcome *o = arg;

    (void)err;
    (void)reply;
    o->code = code;
    atomic_store(&o->over, true);
}

static void a_small_call(struct host *h)
{
    struct rpc_call_options options = {
        .deadline_ms = LONG_MS, .small = true, .wait_for_ready = true};
    struct outcome o = {.code = SL_OK};
    unsigned before = atomic_load(&h->asked);

    atomic_init(&o.over, false);
    rpc_call_start(h->channel, WIRE_LOCAL, NULL, &options, ended, &o, NULL);
    UNTIL(h, atomic_load(&o.over));
    T_EQ(o.code, SL_OK);
    T_EQ(atomic_load(&h->asked), before + 1);
}

static void is_adopted(struct host *h)
{
    UNTIL(h, (clock_fake_advance_ms(&h->clock, 1), peer_shm_look(h->shm),
              rpc_channel_adopted(h->channel)));
}

TEST(peer_shm, small_calls_have_a_socket_of_their_own)
{
    host_open(&host);
    is_adopted(&host);
    T_EQ(atomic_load(&host.asked), 1);
    T_EQ(local_bytes(host.local), 0); // whether memory is shared or not
    a_small_call(&host);
    peer_shm_give(host.shm, buffer(&host, BYTES), true);
    host_close(&host);
}

TEST(peer_shm, a_psserver_that_comes_back_gets_another_socket)
{
    host_open(&host);
    is_adopted(&host);
    local_close(&host);
    rpc_server_free(host.rpc);
    UNTIL(&host, !rpc_channel_adopted(host.channel));
    peer_shm_look(host.shm);
    local_open(&host);
    server_open(&host);
    clock_fake_advance_ms(&host.clock, LONG_MS);
    is_adopted(&host);
    a_small_call(&host);
    host_close(&host);
}

static void dies(void *arg)
{
    local_close(arg);
}

// Its calls failed first, and by the time the loop tells it of their buffer, it
// is gone.
TEST(peer_shm, a_psserver_found_dead_by_telling_it_is_asked_soon)
{
    struct shm_buffer *r;

    host_open(&host);
    r = buffer(&host, BYTES);
    is_adopted(&host);
    loop_turn(host.loop); // nothing is on its way to us
    T_OK(loop_post(host.loop, dies, &host));
    peer_shm_give(host.shm, r, false); // posts, too
    for (int i = 0; i < 100; i++)
        loop_turn(host.loop);
    is_shared_soon(&host);
    host_close(&host);
}

TEST(peer_shm, a_psserver_that_takes_no_calls_so)
{
    struct shm_buffer *r;

    host_open(&host);
    local_serve(host.local, NULL);
    peer_shm_give(host.shm, buffer(&host, BYTES), true);
    for (int i = 0; i < 100; i++) {
        peer_shm_look(host.shm);
        loop_turn(host.loop);
    }
    T_FALSE(rpc_channel_adopted(host.channel));
    a_small_call(&host);
    // Answers keep their order: when the first of these is there, the refusal
    // has been heard. It was of calls: buffers are had while no time passes.
    for (unsigned i = 1; i <= 2; i++) {
        UNTIL(&host, (r = take(&host, i * OTHER_BYTES)) != NULL);
        peer_shm_give(host.shm, r, true);
    }
    host_close(&host);
}

TEST(peer_shm, may_end_at_any_moment)
{
    for (int turns = 0; turns < 40; turns++) {
        struct shm_buffer *r = NULL;

        host_open(&host);
        for (int i = 0; i < turns && r == NULL; i++) {
            r = take(&host, BYTES);
            loop_turn(host.loop);
            sched_yield();
        }
        if (r != NULL)
            peer_shm_give(host.shm, r, turns % 2);
        host_close(&host);
    }
}
