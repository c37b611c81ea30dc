// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_faulty.c -- the doubling, replay and loss of unary calls for
// tests; empty in a release.
#include "common/net/rpc_faulty.h"

#ifdef SLUICE_FAULTS

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"

enum { DOUBLE, REPLAY, LOSE, LOSE_REPLY, SEED, KINDS };

static const char *const words[KINDS] = {"double", "replay", "lose",
                                         "lose_reply", "seed"};

struct rpc_faulty_copy {
    struct rpc_channel *channel; // NULL: free
    char method[64];
    uint8_t *bytes;
    size_t n;
    struct rpc_call_options options;
};

static struct {
    pthread_once_t once;
    bool on;
    uint64_t of[KINDS]; // per thousand
    pthread_mutex_t lock;
    uint64_t drawn;
    unsigned next;
    struct rpc_faulty_copy kept[FAULTY_KEPT];
} faulty = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static void rpc_faulty_exit(const char *what)
{
    fprintf(stderr, "SLUICE_RPC_FAULT: '%s' is not name=number\n", what);
    _exit(2);
}

static void read_pair(char *pair)
{
    char *value = strchr(pair, '='), *end;
    int kind = 0;

    if (value == NULL)
        rpc_faulty_exit(pair);
    *value++ = '\0';
    while (kind < KINDS && strcmp(words[kind], pair) != 0)
        kind++;
    errno = 0;
    if (kind == KINDS || *value == '\0')
        rpc_faulty_exit(pair);
    faulty.of[kind] = strtoull(value, &end, 10);
    if (*end != '\0' || errno != 0)
        rpc_faulty_exit(value);
}

static void rpc_faulty_arm(void)
{
    const char *text = getenv("SLUICE_RPC_FAULT");
    char space[256], *at = space, *pair;

    if (text == NULL || *text == '\0')
        return;
    if ((size_t)snprintf(space, sizeof(space), "%s", text) >= sizeof(space))
        rpc_faulty_exit(text);
    while ((pair = strsep(&at, ",")) != NULL)
        read_pair(pair);
    faulty.on = true;
}

static uint64_t draw_locked(void)
{
    return sl_mix64(faulty.of[SEED] ^ sl_mix64(++faulty.drawn));
}

static bool strikes_locked(int kind)
{
    return faulty.of[kind] > 0 && draw_locked() % 1000 < faulty.of[kind];
}

static bool strikes(int kind)
{
    bool yes;

    pthread_once(&faulty.once, rpc_faulty_arm);
    if (!faulty.on)
        return false;
    pthread_mutex_lock(&faulty.lock);
    yes = strikes_locked(kind);
    pthread_mutex_unlock(&faulty.lock);
    return yes;
}

bool rpc_faulty_loses(void)
{
    return strikes(LOSE);
}

bool rpc_faulty_loses_reply(void)
{
    return strikes(LOSE_REPLY);
}

static void rpc_faulty_drop_locked(struct rpc_faulty_copy *k)
{
    sl_free(k->bytes);
    *k = (struct rpc_faulty_copy){.channel = NULL};
}

void rpc_faulty_forget(struct rpc_channel *ch)
{
    pthread_mutex_lock(&faulty.lock);
    for (unsigned i = 0; i < FAULTY_KEPT; i++) {
        if (faulty.kept[i].channel == ch)
            rpc_faulty_drop_locked(&faulty.kept[i]);
    }
    pthread_mutex_unlock(&faulty.lock);
}

// Where the copy of a message is kept, in the place of the oldest; NULL: it is
// too large, or memory is out.
static struct rpc_faulty_copy *
rpc_faulty_keep_locked(struct rpc_channel *ch, const char *method,
                       const struct rpc_msg *msg,
                       const struct rpc_call_options *options)
{
    struct rpc_faulty_copy *k = &faulty.kept[faulty.next % FAULTY_KEPT];
    size_t n = rpc_msg_bytes(msg), at = msg->head_bytes;
    uint8_t *bytes;

    if (n > FAULTY_BYTES || strlen(method) >= sizeof(k->method))
        return NULL;
    bytes = sl_malloc(n + 1);
    if (bytes == NULL)
        return NULL;
    memcpy(bytes, msg->head, msg->head_bytes);
    for (unsigned i = 0; i < msg->parts; i++) {
        memcpy(bytes + at, msg->part[i].data, msg->part[i].len);
        at += msg->part[i].len;
    }
    rpc_faulty_drop_locked(k);
    faulty.next++;
    *k = (struct rpc_faulty_copy){.channel = ch, .bytes = bytes, .n = n};
    k->options = *options;
    snprintf(k->method, sizeof(k->method), "%s", method);
    return k;
}

static void send_locked(const struct rpc_faulty_copy *k,
                        rpc_faulty_send forward)
{
    struct rpc_msg copy;
    uint8_t *head;

    rpc_msg_init(&copy);
    head = rpc_msg_head(&copy, k->n);
    if (head == NULL)
        return;
    memcpy(head, k->bytes, k->n);
    forward(k->channel, k->method, &copy, &k->options);
}

// Returns a random one of the kept calls of this channel; NULL: there is none.
static struct rpc_faulty_copy *pick_locked(const struct rpc_channel *ch)
{
    unsigned from = (unsigned)(draw_locked() % FAULTY_KEPT);

    for (unsigned i = 0; i < FAULTY_KEPT; i++) {
        struct rpc_faulty_copy *k = &faulty.kept[(from + i) % FAULTY_KEPT];

        if (k->channel == ch)
            return k;
    }
    return NULL;
}

void rpc_faulty_copies(struct rpc_channel *ch, const char *method,
                       const struct rpc_msg *msg,
                       const struct rpc_call_options *options,
                       rpc_faulty_send forward)
{
    struct rpc_faulty_copy *k;

    pthread_once(&faulty.once, rpc_faulty_arm);
    if (!faulty.on || msg == NULL)
        return;
    pthread_mutex_lock(&faulty.lock);
    k = strikes_locked(REPLAY) ? pick_locked(ch) : NULL;
    if (k != NULL)
        send_locked(k, forward);
    k = rpc_faulty_keep_locked(ch, method, msg, options);
    if (k != NULL && strikes_locked(DOUBLE))
        send_locked(k, forward);
    pthread_mutex_unlock(&faulty.lock);
}

#endif
