// SPDX-License-Identifier: Apache-2.0
// trainer/push/peer_shm.c -- the memory that is handed to a psserver of this
// host, and the connection over which it is handed.
//
// One task does all that is due on the loop: hang up, connect, hand over the
// buffers that are wished for, report those that were dropped. It is posted at
// most once at a time.
#include "trainer/push/peer_shm.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/list.h"
#include "common/run/log.h"
#include "common/base/mem.h"
#include "common/base/moves.h"
#include "proto/local.h"
#include "proto/wire.h"

#define ASK_DEADLINE_MS 5000
#define AGAIN_MS 1000      // pause after a connection was lost
#define ELSEWHERE_MS 30000 // pause after memory could not be shared
#define ALIGN 64

enum shm_state {
    SHM_IDLE,
    SHM_ASKED,
    SHM_FOUND,
    SHM_LINKED,
    SHM_ELSEWHERE, // like IDLE, but not asked until `again_ms`
    SHM_STATES,
};

struct buffer {
    struct shm_buffer buffer;
    struct list_node node; // in `wished`, `free` or `dropped`
    uint64_t tag;          // names the buffer before it has a region number
    unsigned link;         // number of the connection that it was handed over
};

struct peer_shm {
    struct loop *loop;
    const struct sl_clock *clock;
    struct rpc_channel *channel; // for peer_shm_look only

    // The loop's.
    int fd; // -1: none
    struct loop_watch *watch;
    struct loop_task task;
    int calls; // our end of a socket for calls, not taken yet; -1: none
    bool calls_offered; // a socket was offered over this connection

    struct {
        pthread_mutex_t lock;
        unsigned refs;      // references: the owner, a call, a posted task
        bool posted;        // the task is posted
        bool freed;         // the owner has let go
        bool hung_up;       // the loop is to close the connection
        const char *logged; // text that was logged last
        enum shm_state state;
        uint64_t again_ms;
        unsigned link;       // counts connections
        uint64_t tags;       // counts buffers
        struct list wished;  // buffers to be made, then mapped by the psserver
        struct list free;    // mapped by the psserver, and not taken
        struct list dropped; // buffers that the psserver is to unmap
        char *path, *name;   // the psserver's socket and name; owned
        uint64_t token;
        bool calls_wished; // a socket for calls is wanted on this connection
        int calls;         // a socket that the psserver took; -1: none
    } shared;
};

// Changes the state; no other function does.
static void move_locked(struct peer_shm *n, enum shm_state to)
{
    static const unsigned legal[SHM_STATES] = {
        [SHM_IDLE] = MOVES_TO(SHM_ASKED),
        [SHM_ELSEWHERE] = MOVES_TO(SHM_ASKED),
        [SHM_ASKED] =
            MOVES_TO(SHM_FOUND) | MOVES_TO(SHM_IDLE) | MOVES_TO(SHM_ELSEWHERE),
        [SHM_FOUND] =
            MOVES_TO(SHM_LINKED) | MOVES_TO(SHM_IDLE) | MOVES_TO(SHM_ELSEWHERE),
        [SHM_LINKED] = MOVES_TO(SHM_IDLE) | MOVES_TO(SHM_ELSEWHERE),
    };

    assert(moves_have(legal, n->shared.state, to));
    n->shared.state = to;
}

static struct buffer *buffer_of(struct shm_buffer *buffer)
{
    return sl_container_of(buffer, struct buffer, buffer);
}

static void buffer_free(struct buffer *r)
{
    shm_release(&r->buffer.memory);
    sl_free(r);
}

static void buffers_free(struct list *buffers)
{
    struct list_node *n;

    while ((n = list_pop_front(buffers)) != NULL)
        buffer_free(list_entry(n, struct buffer, node));
}

static void close_calls_locked(struct peer_shm *n)
{
    if (n->shared.calls >= 0)
        close(n->shared.calls);
    n->shared.calls = -1;
}

static void peer_shm_unref(struct peer_shm *n)
{
    bool last;

    pthread_mutex_lock(&n->shared.lock);
    last = --n->shared.refs == 0;
    pthread_mutex_unlock(&n->shared.lock);
    if (!last)
        return;
    buffers_free(&n->shared.wished);
    buffers_free(&n->shared.free);
    buffers_free(&n->shared.dropped);
    close_calls_locked(n); // the last reference: no lock is needed
    sl_free(n->shared.path);
    sl_free(n->shared.name);
    pthread_mutex_destroy(&n->shared.lock);
    sl_free(n);
}

static void peer_shm_run_task(void *arg);

static void peer_shm_post_locked(struct peer_shm *n)
{
    if (n->shared.posted)
        return;
    n->shared.posted = true;
    n->shared.refs++;
    loop_post_task(n->loop, &n->task, peer_shm_run_task, n);
}

// Forgets all buffers and the connection. Buffers that are out are dropped when
// they come back.
static void reset_locked(struct peer_shm *n, bool lost)
{
    bool linked = n->shared.state == SHM_LINKED;

    move_locked(n, lost ? SHM_IDLE : SHM_ELSEWHERE);
    n->shared.again_ms = sl_now_ms(n->clock) + (lost ? AGAIN_MS : ELSEWHERE_MS);
    n->shared.link++;
    n->shared.hung_up = n->shared.hung_up || linked;
    n->shared.calls_wished = false;
    close_calls_locked(n);
    buffers_free(&n->shared.wished);
    buffers_free(&n->shared.free);
    buffers_free(&n->shared.dropped);
    if (linked)
        peer_shm_post_locked(n);
}

// Resets after an error. A psserver that is gone (SL_EUNAVAIL) may be back
// soon, with its memory.
static void reset(struct peer_shm *n, enum sl_err why)
{
    enum shm_state state;

    pthread_mutex_lock(&n->shared.lock);
    state = n->shared.state;
    // The reader and the writer may both see the end of one connection.
    if (state == SHM_FOUND || state == SHM_LINKED)
        reset_locked(n, why == SL_EUNAVAIL);
    pthread_mutex_unlock(&n->shared.lock);
}

// ---- on the loop

// Logs `text` unless it was logged last. Runs on the loop, in FOUND or LINKED:
// then no other thread changes the name.
static void log_once(struct peer_shm *n, const char *text, const char *why)
{
    bool news;

    pthread_mutex_lock(&n->shared.lock);
    news = n->shared.logged != text;
    n->shared.logged = text;
    pthread_mutex_unlock(&n->shared.lock);
    if (news && why == NULL)
        LOG(INFO, text, "with=%s", n->shared.name);
    else if (news)
        LOG(INFO, text, "with=%s why=%s", n->shared.name, why);
}

static const char shares[] = "shared memory";
static const char shares_not[] = "no shared memory: bytes are sent";

// Takes the buffer that was wished for under `tag` out of the list; NULL if
// there is none.
static struct buffer *take_wished_locked(struct peer_shm *n, uint64_t tag)
{
    list_for(at, &n->shared.wished)
    {
        struct buffer *r = list_entry(at, struct buffer, node);

        if (r->tag == tag) {
            list_remove(&r->node);
            return r;
        }
    }
    return NULL;
}

static void mapped(struct peer_shm *n, const struct local_note *note)
{
    struct buffer *r;

    pthread_mutex_lock(&n->shared.lock);
    r = take_wished_locked(n, note->tag);
    if (r != NULL) {
        r->buffer.region = note->region;
        list_push_front(&n->shared.free, &r->node);
    }
    pthread_mutex_unlock(&n->shared.lock);
    log_once(n, shares, NULL);
}

static void drop_calls(struct peer_shm *n)
{
    if (n->calls >= 0)
        close(n->calls);
    n->calls = -1;
}

// Handles a refusal: the psserver takes no more buffers, or none of that size,
// so we do not ask for a while. Tag 0 refuses the socket: calls go as before.
static void peer_shm_on_refused(struct peer_shm *n,
                                const struct local_note *note)
{
    struct buffer *r;

    if (note->tag == 0) {
        drop_calls(n);
        return;
    }
    pthread_mutex_lock(&n->shared.lock);
    r = take_wished_locked(n, note->tag);
    if (r != NULL)
        buffer_free(r);
    n->shared.again_ms = sl_now_ms(n->clock) + ELSEWHERE_MS;
    pthread_mutex_unlock(&n->shared.lock);
}

static void adopted(struct peer_shm *n)
{
    pthread_mutex_lock(&n->shared.lock);
    close_calls_locked(n);
    n->shared.calls = n->calls;
    pthread_mutex_unlock(&n->shared.lock);
    n->calls = -1;
}

static void on_link(void *arg)
{
    struct peer_shm *n = arg;
    struct local_note note;
    enum sl_err rc;
    int passed;

    while ((rc = local_receive(n->fd, &note, &passed)) == SL_OK) {
        if (note.kind == LOCAL_MAPPED)
            mapped(n, &note);
        else if (note.kind == LOCAL_REFUSED)
            peer_shm_on_refused(n, &note);
        else if (note.kind == LOCAL_ADOPTED)
            adopted(n);
    }
    if (rc != SL_EBUSY)
        reset(n, rc);
}

static void peer_shm_hang_up(struct peer_shm *n)
{
    loop_watch_free(n->watch);
    n->watch = NULL;
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
    drop_calls(n);
}

static void link_up(struct peer_shm *n)
{
    struct sl_error err = SL_ERROR_INIT;
    int fd = -1;
    enum sl_err rc = shm_connect(&fd, n->shared.path, &err);

    if (rc == SL_OK)
        rc = loop_watch_new(&n->watch, n->loop, fd, on_link, n);
    if (rc != SL_OK) {
        if (fd >= 0)
            close(fd);
        log_once(n, shares_not, err.text);
        reset(n, rc);
        return;
    }
    pthread_mutex_lock(&n->shared.lock);
    n->fd = fd;
    n->calls_offered = false;
    move_locked(n, SHM_LINKED);
    pthread_mutex_unlock(&n->shared.lock);
}

// Makes the memory of one buffer and hands it over. Without the lock, since
// this takes its time.
static enum sl_err peer_shm_hand_over(struct peer_shm *n, struct buffer *r)
{
    struct local_note note = {.kind = LOCAL_MAP,
                              .token = n->shared.token,
                              .tag = r->tag,
                              .bytes = 2 * r->buffer.half};
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;
    int fd = -1;

    rc = shm_new(&r->buffer.memory, &fd, note.bytes, &err);
    if (rc != SL_OK) {
        log_once(n, shares_not, err.text);
        return rc;
    }
    rc = local_send(n->fd, note, fd);
    close(fd);
    FAULT("shm.passed");
    return rc;
}

// Returns the next buffer that has no memory yet, or NULL. It cannot go away
// meanwhile: only this thread takes buffers out of `wished`, or resets.
static struct buffer *next_wish(struct peer_shm *n)
{
    struct buffer *found = NULL;

    pthread_mutex_lock(&n->shared.lock);
    list_for(at, &n->shared.wished)
    {
        struct buffer *r = list_entry(at, struct buffer, node);

        if (found == NULL && r->buffer.memory.at == NULL)
            found = r;
    }
    pthread_mutex_unlock(&n->shared.lock);
    return found;
}

static enum sl_err send_dropped(struct peer_shm *n)
{
    struct local_note note = {.kind = LOCAL_DROP};
    struct list_node *at;
    enum sl_err rc = SL_OK;
    struct buffer *r;

    while (rc == SL_OK) {
        pthread_mutex_lock(&n->shared.lock);
        at = list_pop_front(&n->shared.dropped);
        pthread_mutex_unlock(&n->shared.lock);
        if (at == NULL)
            break;
        r = list_entry(at, struct buffer, node);
        note.region = r->buffer.region;
        rc = local_send(n->fd, note, -1);
        buffer_free(r);
    }
    return rc;
}

// Offers a socket for calls, once per connection: a socket that was not taken
// is not offered again.
static enum sl_err offer_calls(struct peer_shm *n)
{
    struct local_note note = {.kind = LOCAL_CALLS, .token = n->shared.token};
    enum sl_err rc;
    int pair[2];
    bool wished;

    pthread_mutex_lock(&n->shared.lock);
    wished = n->shared.calls_wished;
    pthread_mutex_unlock(&n->shared.lock);
    if (!wished || n->calls_offered || rpc_socket_pair(pair, NULL) != SL_OK)
        return SL_OK;
    n->calls_offered = true;
    n->calls = pair[0];
    rc = local_send(n->fd, note, pair[1]);
    close(pair[1]);
    return rc;
}

// Sends all that is due. SL_EBUSY: the other end of the socket does not read.
static void serve_link(struct peer_shm *n)
{
    struct buffer *r;
    enum sl_err rc = send_dropped(n);

    if (rc == SL_OK)
        rc = offer_calls(n);
    while (rc == SL_OK && (r = next_wish(n)) != NULL)
        rc = peer_shm_hand_over(n, r);
    if (rc != SL_OK) // the end may be seen here before on_link runs
        reset(n, rc);
}

static void peer_shm_run_task(void *arg)
{
    struct peer_shm *n = arg;
    bool freed, hung_up;
    enum shm_state state;

    pthread_mutex_lock(&n->shared.lock);
    n->shared.posted = false;
    freed = n->shared.freed;
    hung_up = n->shared.hung_up;
    n->shared.hung_up = false;
    state = n->shared.state;
    pthread_mutex_unlock(&n->shared.lock);
    if (freed || hung_up)
        peer_shm_hang_up(n);
    if (!freed && state == SHM_FOUND) {
        link_up(n);
        state = SHM_LINKED;
    }
    if (!freed && state == SHM_LINKED && n->fd >= 0)
        serve_link(n);
    peer_shm_unref(n);
}

// ---- asking where the psserver takes memory, on an I/O thread

static bool peer_shm_is_same_host(const Sluice__V1__LocalReply *m)
{
    char ours[SHM_BOOT_ID];

    return m->path[0] != '\0' && shm_boot_id(ours) &&
           strcmp(ours, m->boot_id) == 0;
}

static enum sl_err found_locked(struct peer_shm *n,
                                const Sluice__V1__LocalReply *m)
{
    char *path = sl_strdup(m->path), *name = sl_strdup(m->name);

    if (path == NULL || name == NULL) {
        sl_free(path);
        sl_free(name);
        return SL_ENOMEM;
    }
    sl_free(n->shared.path);
    sl_free(n->shared.name);
    n->shared.path = path;
    n->shared.name = name;
    n->shared.token = m->token;
    move_locked(n, SHM_FOUND);
    peer_shm_post_locked(n);
    return SL_OK;
}

static void peer_shm_on_answer(void *arg, enum sl_err code,
                               const struct sl_error *err,
                               const struct sl_slices *reply)
{
    struct peer_shm *n = arg;
    Sluice__V1__LocalReply *m = NULL;
    struct wire_arena arena;
    bool lost = code != SL_OK && sl_err_transient(code);

    wire_arena_init(&arena);
    if (code == SL_OK)
        code = wire_unpack_local_reply(&m, &arena, reply, NULL);
    pthread_mutex_lock(&n->shared.lock);
    if (code != SL_OK || !peer_shm_is_same_host(m) ||
        found_locked(n, m) != SL_OK)
        reset_locked(n, lost);
    pthread_mutex_unlock(&n->shared.lock);
    wire_arena_release(&arena);
    peer_shm_unref(n);
}

static void peer_shm_ask(struct peer_shm *n)
{
    struct rpc_call_options options = {.deadline_ms = ASK_DEADLINE_MS};

    rpc_call_start(n->channel, WIRE_LOCAL, NULL, &options, peer_shm_on_answer,
                   n, NULL);
}

// ---- buffers, on the owner's thread

enum sl_err peer_shm_new(struct peer_shm **out, struct loop *loop,
                         const struct sl_clock *clock,
                         struct rpc_channel *channel)
{
    struct peer_shm *n = sl_calloc(1, sizeof(*n));

    if (n == NULL)
        return SL_ENOMEM;
    pthread_mutex_init(&n->shared.lock, NULL);
    list_init(&n->shared.wished);
    list_init(&n->shared.free);
    list_init(&n->shared.dropped);
    n->shared.refs = 1;
    n->loop = loop;
    n->clock = clock;
    n->channel = channel;
    n->fd = n->calls = n->shared.calls = -1;
    *out = n;
    return SL_OK;
}

void peer_shm_free(struct peer_shm *n)
{
    if (n == NULL)
        return;
    pthread_mutex_lock(&n->shared.lock);
    n->shared.freed = true;
    peer_shm_post_locked(n); // hangs up
    pthread_mutex_unlock(&n->shared.lock);
    peer_shm_unref(n);
}

static struct buffer *free_locked(struct peer_shm *n, size_t bytes)
{
    list_for(at, &n->shared.free)
    {
        struct buffer *r = list_entry(at, struct buffer, node);

        if (r->buffer.bytes == bytes) {
            list_remove(&r->node);
            return r;
        }
    }
    return NULL;
}

// Wishes for a buffer, one of each size at a time: a later take will find it.
static void wish_locked(struct peer_shm *n, size_t bytes)
{
    struct buffer *r;

    list_for(at, &n->shared.wished)
    {
        if (list_entry(at, struct buffer, node)->buffer.bytes == bytes)
            return;
    }
    r = sl_calloc(1, sizeof(*r));
    if (r == NULL)
        return;
    r->buffer.bytes = bytes;
    r->buffer.half = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    r->tag = ++n->shared.tags;
    r->link = n->shared.link;
    list_push_back(&n->shared.wished, &r->node);
    peer_shm_post_locked(n);
}

static bool may_ask_locked(struct peer_shm *n)
{
    if (sl_now_ms(n->clock) < n->shared.again_ms ||
        (n->shared.state != SHM_IDLE && n->shared.state != SHM_ELSEWHERE))
        return false;
    move_locked(n, SHM_ASKED);
    n->shared.refs++;
    return true;
}

// Returns a socket for the channel to own, or -1 after wishing for one.
static int take_calls_locked(struct peer_shm *n)
{
    int fd = n->shared.calls;

    n->shared.calls = -1;
    if (fd < 0 && !n->shared.calls_wished && !rpc_channel_adopted(n->channel)) {
        n->shared.calls_wished = true;
        peer_shm_post_locked(n);
    }
    return fd;
}

void peer_shm_look(struct peer_shm *n)
{
    bool asks = false;
    int fd = -1;

    pthread_mutex_lock(&n->shared.lock);
    if (n->shared.state == SHM_LINKED)
        fd = take_calls_locked(n);
    else
        asks = may_ask_locked(n);
    pthread_mutex_unlock(&n->shared.lock);
    if (fd >= 0)
        (void)rpc_channel_adopt(n->channel, fd, NULL);
    if (asks)
        peer_shm_ask(n);
}

struct shm_buffer *peer_shm_take(struct peer_shm *n, size_t bytes)
{
    struct buffer *r = NULL;

    pthread_mutex_lock(&n->shared.lock);
    if (n->shared.state == SHM_LINKED) {
        r = free_locked(n, bytes);
        if (r == NULL && sl_now_ms(n->clock) >= n->shared.again_ms)
            wish_locked(n, bytes);
    }
    pthread_mutex_unlock(&n->shared.lock);
    return r != NULL ? &r->buffer : NULL;
}

void peer_shm_give(struct peer_shm *n, struct shm_buffer *buffer, bool clean)
{
    struct buffer *r = buffer_of(buffer);

    pthread_mutex_lock(&n->shared.lock);
    if (r->link != n->shared.link) {
        buffer_free(r); // the region ended with its connection
    } else if (clean) {
        list_push_front(&n->shared.free, &r->node);
    } else {
        shm_release(&r->buffer.memory);
        list_push_back(&n->shared.dropped, &r->node);
        peer_shm_post_locked(n);
    }
    pthread_mutex_unlock(&n->shared.lock);
}
