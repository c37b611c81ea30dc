// SPDX-License-Identifier: Apache-2.0
// state/shard/pairmap.c -- an index by job and shard over the id map.
#include "state/shard/pairmap.h"

#include "common/base/mem.h"

void *pairmap_get(const struct pairmap *m, uint64_t job, uint32_t shard)
{
    struct map *shards = map_get(&m->jobs, job);

    return shards == NULL ? NULL : map_get(shards, shard);
}

static void drop_if_empty(struct pairmap *m, uint64_t job, struct map *shards)
{
    if (shards->len > 0)
        return;
    map_remove(&m->jobs, job);
    map_release(shards);
    sl_free(shards);
}

enum sl_err pairmap_put(struct pairmap *m, uint64_t job, uint32_t shard,
                        void *value)
{
    struct map *shards = map_get(&m->jobs, job);
    enum sl_err rc;

    if (shards == NULL) {
        shards = sl_calloc(1, sizeof(*shards));
        if (shards == NULL)
            return SL_ENOMEM;
        if (map_put(&m->jobs, job, shards) != SL_OK) {
            sl_free(shards);
            return SL_ENOMEM;
        }
    }
    rc = map_put(shards, shard, value);
    if (rc != SL_OK)
        drop_if_empty(m, job, shards);
    return rc;
}

void *pairmap_remove(struct pairmap *m, uint64_t job, uint32_t shard)
{
    struct map *shards = map_get(&m->jobs, job);
    void *value;

    if (shards == NULL)
        return NULL;
    value = map_remove(shards, shard);
    drop_if_empty(m, job, shards);
    return value;
}

void *pairmap_next(const struct pairmap *m, struct pairmap_at *at)
{
    void *value, *shards;

    for (;;) {
        if (at->shards != NULL &&
            map_next(at->shards, &at->shard, NULL, &value))
            return value;
        if (!map_next(&m->jobs, &at->job, NULL, &shards))
            return NULL;
        at->shards = shards;
        at->shard = 0;
    }
}

void pairmap_release(struct pairmap *m)
{
    size_t at = 0;
    void *shards;

    while (map_next(&m->jobs, &at, NULL, &shards)) {
        map_release(shards);
        sl_free(shards);
    }
    map_release(&m->jobs);
}
