// SPDX-License-Identifier: Apache-2.0
// state/shard/shard_store.c -- the index of the shards that are served.
#include "state/shard/shard_store.h"

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/mem.h"
#include "state/shard/pairmap.h"

struct shard_table {
    pthread_rwlock_t lock;
    struct pairmap shards; // a reference to each
    struct {
        _Atomic uint64_t term;
    } _shared;
};

void store_note_term(struct shard_table *s, uint64_t term)
{
    atomic_store_explicit(&s->_shared.term, term, memory_order_relaxed);
}

bool store_knows_term(const struct shard_table *s, uint64_t term)
{
    return term <= atomic_load_explicit(&s->_shared.term, memory_order_relaxed);
}

enum sl_err store_new(struct shard_table **out)
{
    struct shard_table *s = sl_calloc(1, sizeof(*s));

    if (s == NULL)
        return SL_ENOMEM;
    pthread_rwlock_init(&s->lock, NULL);
    *out = s;
    return SL_OK;
}

static void store_drop_shard(struct shard *shard)
{
    if (shard == NULL)
        return;
    shard_close(shard);
    shard_unref(shard);
}

void store_free(struct shard_table *s)
{
    struct pairmap_at at = {0};
    struct shard *shard;

    if (s == NULL)
        return;
    while ((shard = pairmap_next(&s->shards, &at)) != NULL)
        store_drop_shard(shard);
    pairmap_release(&s->shards);
    pthread_rwlock_destroy(&s->lock);
    sl_free(s);
}

struct shard *store_find(struct shard_table *s, uint64_t job, uint32_t shard)
{
    struct shard *found;

    pthread_rwlock_rdlock(&s->lock);
    found = pairmap_get(&s->shards, job, shard);
    if (found != NULL)
        shard_ref(found);
    pthread_rwlock_unlock(&s->lock);
    return found;
}

enum sl_err store_put(struct shard_table *s, struct shard *shard)
{
    uint64_t job = shard->plan.job;
    uint32_t number = shard->plan.shard;
    struct shard *old;
    enum sl_err rc;

    pthread_rwlock_wrlock(&s->lock);
    old = pairmap_get(&s->shards, job, number);
    rc = pairmap_put(&s->shards, job, number, shard);
    if (rc == SL_OK)
        shard_ref(shard);
    pthread_rwlock_unlock(&s->lock);
    if (rc == SL_OK)
        store_drop_shard(old);
    return rc;
}

void store_remove(struct shard_table *s, uint64_t job, uint32_t shard)
{
    struct shard *old;

    pthread_rwlock_wrlock(&s->lock);
    old = pairmap_remove(&s->shards, job, shard);
    pthread_rwlock_unlock(&s->lock);
    store_drop_shard(old);
}
