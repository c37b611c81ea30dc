// SPDX-License-Identifier: Apache-2.0
// psserver/local/local_region.c -- regions by number, and their uses.
#include "psserver/local/local_region.h"

#include <inttypes.h>

#include "common/base/mem.h"

void local_table_init(struct local_table *t)
{
    pthread_mutex_init(&t->lock, NULL);
    map_init(&t->regions);
    atomic_init(&t->bytes, 0);
}

void local_table_release(struct local_table *t)
{
    map_release(&t->regions);
    pthread_mutex_destroy(&t->lock);
}

static void local_region_unref(struct local_region *r)
{
    if (atomic_fetch_sub(&r->refs, 1) > 1)
        return;
    atomic_fetch_sub(&r->table->bytes, r->memory.bytes);
    shm_release(&r->memory);
    sl_free(r);
}

// Gives the region a number that no other region has had.
static enum sl_err local_region_publish(struct local_table *t,
                                        struct local_region *r)
{
    enum sl_err rc = shm_secret(&r->number);

    if (rc != SL_OK)
        return rc;
    pthread_mutex_lock(&t->lock);
    rc = map_get(&t->regions, r->number) != NULL
             ? SL_EBUSY
             : map_put(&t->regions, r->number, r);
    pthread_mutex_unlock(&t->lock);
    return rc;
}

// Only the loop adds regions, so the space that was found free stays free.
enum sl_err local_table_add(struct local_table *t, int fd, size_t bytes,
                            struct local_region **out, struct sl_error *err)
{
    size_t have = atomic_load(&t->bytes);
    struct local_region *r;
    enum sl_err rc;

    if (have > LOCAL_BYTES || bytes > LOCAL_BYTES - have)
        return sl_fail(err, SL_EBUSY, "%zu bytes are mapped already", have);
    r = sl_calloc(1, sizeof(*r));
    if (r == NULL)
        return sl_no_memory(err);
    rc = shm_map(&r->memory, fd, bytes, err);
    if (rc != SL_OK) {
        sl_free(r);
        return rc;
    }
    r->table = t;
    atomic_init(&r->refs, 1);
    atomic_fetch_add(&t->bytes, bytes);
    rc = local_region_publish(t, r);
    if (rc != SL_OK) {
        local_region_unref(r);
        return sl_fail(err, rc, "no number for a region");
    }
    *out = r;
    return SL_OK;
}

void local_table_drop(struct local_region *r)
{
    pthread_mutex_lock(&r->table->lock);
    (void)map_remove(&r->table->regions, r->number);
    pthread_mutex_unlock(&r->table->lock);
    local_region_unref(r);
}

enum sl_err local_table_take(struct local_table *t, const struct wire_shm *ref,
                             struct local_use *out, struct sl_error *err)
{
    struct local_region *r;

    pthread_mutex_lock(&t->lock);
    r = map_get(&t->regions, ref->region);
    if (r != NULL)
        atomic_fetch_add(&r->refs, 1);
    pthread_mutex_unlock(&t->lock);
    if (r == NULL)
        return sl_fail(err, SL_ENOENT, "region %016" PRIx64 " is not known",
                       ref->region);
    if (ref->offset > r->memory.bytes ||
        ref->bytes > r->memory.bytes - ref->offset) {
        sl_fail(err, SL_ERANGE,
                "the reference to %" PRIu64 " bytes at %" PRIu64
                " leaves the shared region of %zu bytes",
                ref->bytes, ref->offset, r->memory.bytes);
        local_region_unref(r);
        return SL_ERANGE;
    }
    *out = (struct local_use){r, r->memory.at + ref->offset};
    return SL_OK;
}

void local_give(struct local_use *use)
{
    if (use->region != NULL)
        local_region_unref(use->region);
    *use = (struct local_use){NULL, NULL};
}
