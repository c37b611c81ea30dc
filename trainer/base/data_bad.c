// SPDX-License-Identifier: Apache-2.0
// trainer/base/data_bad.c -- the list of samples that cannot be read, in the
// order in which they were found.
#include "trainer/base/data_bad.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/run/log.h"

struct data_bad {
    _Atomic unsigned refs;
    uint32_t most;
    _Atomic size_t any; // number of samples, for readers without the lock
    _Atomic bool news;
    struct {
        pthread_mutex_t lock;
        struct bad_sample *list; // most + 1
        size_t count;
        size_t told; // samples reported at least once
        size_t next; // next of the `told` to be reported again
    } shared;
};

struct data_bad *bad_new(uint32_t most)
{
    struct data_bad *b = sl_calloc(1, sizeof(*b));

    if (b == NULL)
        return NULL;
    atomic_init(&b->refs, 1);
    b->most = most;
    pthread_mutex_init(&b->shared.lock, NULL);
    b->shared.list = sl_calloc((size_t)most + 1, sizeof(*b->shared.list));
    if (b->shared.list == NULL) {
        bad_unref(b);
        return NULL;
    }
    return b;
}

struct data_bad *bad_ref(struct data_bad *b)
{
    atomic_fetch_add(&b->refs, 1);
    return b;
}

void bad_unref(struct data_bad *b)
{
    if (b == NULL || atomic_fetch_sub(&b->refs, 1) > 1)
        return;
    pthread_mutex_destroy(&b->shared.lock);
    sl_free(b->shared.list);
    sl_free(b);
}

bool bad_news(struct data_bad *b)
{
    return atomic_load(&b->news) && atomic_exchange(&b->news, false);
}

static bool has_locked(const struct data_bad *b, bool test, uint64_t number)
{
    for (size_t i = 0; i < b->shared.count; i++) {
        const struct bad_sample *s = &b->shared.list[i];

        if (s->number == number && s->test == test)
            return true;
    }
    return false;
}

bool bad_has(struct data_bad *b, bool test, uint64_t number)
{
    bool has;

    if (atomic_load(&b->any) == 0)
        return false;
    pthread_mutex_lock(&b->shared.lock);
    has = b->shared.count <= b->most && has_locked(b, test, number);
    pthread_mutex_unlock(&b->shared.lock);
    return has;
}

// Names as many samples as the text has space for.
static enum sl_err too_many_locked(const struct data_bad *b,
                                   struct sl_error *err)
{
    char text[SL_ERROR_TEXT];
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < b->shared.count && at < sizeof(text); i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s",
                               i > 0 ? "; " : "", b->shared.list[i].what);
    return sl_fail(err, SL_ERANGE,
                   "data.skip_bad is %u, but %zu sample%s cannot be read: %s",
                   b->most, b->shared.count, b->shared.count == 1 ? "" : "s",
                   text);
}

enum sl_err bad_note(struct data_bad *b, const struct bad_sample *s,
                     struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    bool first;

    pthread_mutex_lock(&b->shared.lock);
    first = !has_locked(b, s->test, s->number) && b->shared.count <= b->most;
    if (first) {
        b->shared.list[b->shared.count++] = *s;
        atomic_store(&b->any, b->shared.count);
        atomic_store(&b->news, true);
    }
    if (b->shared.count > b->most)
        rc = too_many_locked(b, err);
    pthread_mutex_unlock(&b->shared.lock);
    if (first)
        LOG(WARN, "sample passed over", "set=%s sample=%llu what=%s",
            s->test ? "test" : "train", (unsigned long long)s->number, s->what);
    return rc;
}

size_t bad_tell(struct data_bad *b, struct bad_sample *out, size_t most)
{
    size_t n = 0, old;

    if (atomic_load(&b->any) == 0)
        return 0;
    pthread_mutex_lock(&b->shared.lock);
    old = b->shared.told;
    while (n < most && b->shared.told < b->shared.count)
        out[n++] = b->shared.list[b->shared.told++];
    for (size_t i = 0; n < most && i < old; i++) {
        b->shared.next = (b->shared.next + 1) % old;
        out[n++] = b->shared.list[b->shared.next];
    }
    pthread_mutex_unlock(&b->shared.lock);
    return n;
}
