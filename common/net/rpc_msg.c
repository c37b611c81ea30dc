// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_msg.c -- messages on their way out, bodies on their way in.
#include "common/net/rpc_inner.h"

#include <assert.h>

#include "common/base/deadline.h"
#include "common/run/log.h"
#include "common/base/mem.h"

#define LENT_WAIT_MS 10000 // core itself gives its sockets as long
#define LENT_KEEP 256      // of those that wait to be used again

// What the slices of one message share: the last to go runs the release. The
// counter also orders what the sender wrote before what the release reads, in
// a way that the thread sanitizer can see, which it cannot inside of core.
struct loan {
    atomic_uint left;
    void (*release)(void *user);
    void *user;
    struct loan *next; // while it waits
};

// Payloads that core holds, over all messages of the process. A message in a
// steady state takes a loan that was used before.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t none;
    size_t count;
    struct loan *waiting;
    size_t waiting_count;
} lent = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, NULL, 0};

void rpc_msg_init(struct rpc_msg *msg)
{
    msg->head = msg->space;
    msg->head_bytes = 0;
    msg->parts = 0;
    msg->release = NULL;
    msg->user = NULL;
}

static void head_free(struct rpc_msg *msg)
{
    if (msg->head != msg->space)
        sl_free(msg->head);
    msg->head = msg->space;
    msg->head_bytes = 0;
}

uint8_t *rpc_msg_head(struct rpc_msg *msg, size_t bytes)
{
    uint8_t *head = msg->space;

    if (bytes > RPC_MSG_SPACE) {
        head = sl_malloc(bytes);
        if (head == NULL)
            return NULL;
    }
    head_free(msg);
    msg->head = head;
    msg->head_bytes = bytes;
    return head;
}

void rpc_msg_move(struct rpc_msg *to, struct rpc_msg *from)
{
    *to = *from;
    if (from->head == from->space)
        to->head = to->space;
    rpc_msg_init(from);
}

void rpc_msg_part(struct rpc_msg *msg, const void *data, size_t bytes)
{
    assert(msg->parts < RPC_MSG_PARTS);
    msg->part[msg->parts++] = (struct sl_slice){data, bytes};
}

void rpc_msg_on_release(struct rpc_msg *msg, void (*release)(void *user),
                        void *user)
{
    msg->release = release;
    msg->user = user;
}

size_t rpc_msg_bytes(const struct rpc_msg *msg)
{
    size_t bytes = msg->head_bytes;

    for (unsigned i = 0; i < msg->parts; i++)
        bytes += msg->part[i].len;
    return bytes;
}

void rpc_msg_drop(struct rpc_msg *msg)
{
    if (msg->release != NULL)
        msg->release(msg->user);
    head_free(msg);
    rpc_msg_init(msg);
}

// ---- payloads that are lent to core

static struct loan *loan_take(void)
{
    struct loan *loan;

    pthread_mutex_lock(&lent.lock);
    lent.count++;
    loan = lent.waiting;
    if (loan != NULL) {
        lent.waiting = loan->next;
        lent.waiting_count--;
    }
    pthread_mutex_unlock(&lent.lock);
    return loan != NULL ? loan : gpr_malloc(sizeof(*loan));
}

static void loan_end(struct loan *loan)
{
    bool keep;

    pthread_mutex_lock(&lent.lock);
    keep = lent.waiting_count < LENT_KEEP;
    if (keep) {
        loan->next = lent.waiting;
        lent.waiting = loan;
        lent.waiting_count++;
    }
    if (--lent.count == 0)
        pthread_cond_broadcast(&lent.none);
    pthread_mutex_unlock(&lent.lock);
    if (!keep)
        gpr_free(loan);
}

static void part_gone(void *arg)
{
    struct loan *loan = arg;

    if (atomic_fetch_sub_explicit(&loan->left, 1, memory_order_acq_rel) > 1)
        return;
    loan->release(loan->user);
    loan_end(loan);
}

static void loans_free_locked(void)
{
    while (lent.waiting != NULL) {
        struct loan *loan = lent.waiting;

        lent.waiting = loan->next;
        gpr_free(loan);
    }
    lent.waiting_count = 0;
}

void rpc_msg_await_releases(void)
{
    struct deadline until = deadline_in_ms(LENT_WAIT_MS);

    pthread_mutex_lock(&lent.lock);
    while (lent.count > 0 && deadline_wait(&until, &lent.none, &lent.lock))
        ;
    if (lent.count > 0)
        LOG(WARN, "payloads were never given back", "count=%zu", lent.count);
    loans_free_locked();
    pthread_mutex_unlock(&lent.lock);
}

static void rpc_msg_release_nothing(void *arg)
{
    (void)arg;
}

static grpc_slice head_slice(struct rpc_msg *msg)
{
    grpc_slice slice;

    if (msg->head == msg->space)
        return grpc_slice_from_copied_buffer((const char *)msg->head,
                                             msg->head_bytes);
    slice = grpc_slice_new(msg->head, msg->head_bytes, sl_free);
    msg->head = msg->space; // the slice owns it now
    return slice;
}

static struct loan *loan_of(const struct rpc_msg *msg, size_t parts)
{
    struct loan *loan = loan_take();

    loan->release = msg->release;
    loan->user = msg->user;
    atomic_store_explicit(&loan->left, (unsigned)parts, memory_order_release);
    return loan;
}

static size_t part_slices(grpc_slice *out, const struct rpc_msg *msg)
{
    void (*gone)(void *) = rpc_msg_release_nothing;
    struct loan *loan = NULL;
    size_t count = 0, used = 0;

    for (unsigned i = 0; i < msg->parts; i++)
        used += msg->part[i].len > 0;
    if (msg->release != NULL && used == 0)
        msg->release(msg->user);
    if (msg->release != NULL && used > 0) {
        loan = loan_of(msg, used);
        gone = part_gone;
    }
    for (unsigned i = 0; i < msg->parts; i++) {
        if (msg->part[i].len > 0)
            out[count++] = grpc_slice_new_with_user_data(
                (void *)msg->part[i].data, msg->part[i].len, gone, loan);
    }
    return count;
}

grpc_byte_buffer *rpc_msg_seal(struct rpc_msg *msg)
{
    grpc_slice slices[1 + RPC_MSG_PARTS];
    grpc_byte_buffer *buffer;
    size_t count = 0;

    if (msg == NULL)
        return grpc_raw_byte_buffer_create(NULL, 0);
    if (msg->head_bytes > 0)
        slices[count++] = head_slice(msg);
    count += part_slices(slices + count, msg);
    buffer = grpc_raw_byte_buffer_create(slices, count);
    for (size_t i = 0; i < count; i++)
        grpc_slice_unref(slices[i]);
    head_free(msg);
    rpc_msg_init(msg);
    return buffer;
}

// The slices of a buffer stay where they are until it is destroyed, so a body
// is the buffer plus pointers into it.
void rpc_body_set(struct rpc_body *body, grpc_byte_buffer *buffer)
{
    const grpc_slice_buffer *in = &buffer->data.raw.slice_buffer;
    struct sl_slice *at = body->few;

    assert(body->buffer == NULL);
    if (in->count > RPC_BODY_FEW) {
        if (in->count > body->more_cap) {
            body->more_cap = in->count + in->count / 2;
            body->more =
                gpr_realloc(body->more, body->more_cap * sizeof(*body->more));
        }
        at = body->more;
    }
    for (size_t i = 0; i < in->count; i++) {
        at[i].data = GRPC_SLICE_START_PTR(in->slices[i]);
        at[i].len = GRPC_SLICE_LENGTH(in->slices[i]);
    }
    body->buffer = buffer;
    body->slices = slices_all(at, in->count);
}

void rpc_body_clear(struct rpc_body *body)
{
    if (body->buffer != NULL)
        grpc_byte_buffer_destroy(body->buffer);
    body->buffer = NULL;
    body->slices = SL_SLICES_NONE;
}

void rpc_body_release(struct rpc_body *body)
{
    rpc_body_clear(body);
    gpr_free(body->more);
    body->more = NULL;
    body->more_cap = 0;
}

struct rpc_body *rpc_body_move(struct rpc_body *from)
{
    struct rpc_body *to = gpr_zalloc(sizeof(*to));
    grpc_byte_buffer *buffer = from->buffer;

    from->buffer = NULL;
    from->slices = SL_SLICES_NONE;
    if (buffer != NULL)
        rpc_body_set(to, buffer);
    return to;
}

const struct sl_slices *rpc_body_slices(const struct rpc_body *body)
{
    return &body->slices;
}

void rpc_body_free(struct rpc_body *body)
{
    if (body == NULL)
        return;
    rpc_body_release(body);
    gpr_free(body);
}
