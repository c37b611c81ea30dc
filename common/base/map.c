// SPDX-License-Identifier: Apache-2.0
// common/base/map.c -- linear probing, at most three quarters full.
//
// The two maps differ in what a key is; the shape of the code is the same on
// purpose. A removal moves later members of the probe sequence back over the
// hole (Knuth 6.4, algorithm R), so a search can stop at the first free slot.
#include "common/base/map.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"

#define MAP_MIN 16

// The capacity for `len` members; 0 if there is none.
static size_t capacity_for(size_t len, size_t cap)
{
    if (cap < MAP_MIN)
        cap = MAP_MIN;
    while (len > cap / 4 * 3) {
        if (cap > SIZE_MAX / 2 / sizeof(struct strmap_slot))
            return 0;
        cap *= 2;
    }
    return cap;
}

// Returns true if the member in slot `at` of home slot `home` may move to slot
// `hole`: probing from `home` reaches `hole` before `at`.
static bool may_move(size_t home, size_t hole, size_t at)
{
    return hole <= at ? home <= hole || home > at : home <= hole && home > at;
}

void map_init(struct map *m)
{
    *m = (struct map){NULL, 0, 0};
}

void map_release(struct map *m)
{
    sl_free(m->slots);
    map_init(m);
}

void map_release_owned(struct map *m)
{
    for (size_t i = 0; i < m->cap; i++)
        sl_free(m->slots[i].value);
    map_release(m);
}

// The slot of a key, or the free one where it would go.
static size_t map_find(const struct map *m, uint64_t key)
{
    size_t i = sl_mix64(key) & (m->cap - 1);

    while (m->slots[i].value != NULL && m->slots[i].key != key)
        i = (i + 1) & (m->cap - 1);
    return i;
}

void *map_get(const struct map *m, uint64_t key)
{
    return m->cap == 0 ? NULL : m->slots[map_find(m, key)].value;
}

enum sl_err map_reserve(struct map *m, size_t more)
{
    size_t need = m->len + more;
    size_t cap = need < more ? 0 : capacity_for(need, m->cap);
    struct map old = *m;

    if (cap == 0)
        return SL_ENOMEM;
    if (cap == m->cap)
        return SL_OK;
    m->slots = sl_calloc(cap, sizeof(*m->slots));
    if (m->slots == NULL) {
        m->slots = old.slots;
        return SL_ENOMEM;
    }
    m->cap = cap;
    for (size_t i = 0; i < old.cap; i++) {
        if (old.slots[i].value != NULL)
            m->slots[map_find(m, old.slots[i].key)] = old.slots[i];
    }
    sl_free(old.slots);
    return SL_OK;
}

enum sl_err map_put(struct map *m, uint64_t key, void *value)
{
    size_t i;

    assert(value != NULL);
    if (m->cap != 0) {
        i = map_find(m, key);
        if (m->slots[i].value != NULL) {
            m->slots[i].value = value;
            return SL_OK;
        }
    }
    if (map_reserve(m, 1) != SL_OK)
        return SL_ENOMEM;
    i = map_find(m, key);
    m->slots[i] = (struct map_slot){key, value};
    m->len++;
    return SL_OK;
}

void *map_remove(struct map *m, uint64_t key)
{
    size_t hole, mask = m->cap - 1;
    void *value;

    if (m->cap == 0)
        return NULL;
    hole = map_find(m, key);
    value = m->slots[hole].value;
    if (value == NULL)
        return NULL;
    m->len--;
    // Members behind the hole move up, so that no marks of removed ones are
    // needed, which would make probes longer and longer.
    m->slots[hole].value = NULL;
    for (size_t i = (hole + 1) & mask; m->slots[i].value != NULL;
         i = (i + 1) & mask) {
        size_t home = sl_mix64(m->slots[i].key) & mask;

        if (!may_move(home, hole, i))
            continue;
        m->slots[hole] = m->slots[i];
        m->slots[i].value = NULL;
        hole = i;
    }
    return value;
}

bool map_next(const struct map *m, size_t *at, uint64_t *key, void **value)
{
    for (; *at < m->cap; ++*at) {
        const struct map_slot *slot = &m->slots[*at];

        if (slot->value == NULL)
            continue;
        ++*at;
        if (key != NULL)
            *key = slot->key;
        if (value != NULL)
            *value = slot->value;
        return true;
    }
    return false;
}

void strmap_init(struct strmap *m)
{
    *m = (struct strmap){NULL, 0, 0};
}

void strmap_release(struct strmap *m)
{
    for (size_t i = 0; i < m->cap; i++)
        sl_free(m->slots[i].key);
    sl_free(m->slots);
    strmap_init(m);
}

static uint64_t strmap_hash(const char *key)
{
    return sl_hash64(key, strlen(key));
}

static size_t strmap_find(const struct strmap *m, const char *key,
                          uint64_t hash)
{
    size_t i = hash & (m->cap - 1);

    while (m->slots[i].key != NULL &&
           (m->slots[i].hash != hash || strcmp(m->slots[i].key, key) != 0))
        i = (i + 1) & (m->cap - 1);
    return i;
}

void *strmap_get(const struct strmap *m, const char *key)
{
    size_t i;

    if (m->cap == 0)
        return NULL;
    i = strmap_find(m, key, strmap_hash(key));
    return m->slots[i].key != NULL ? m->slots[i].value : NULL;
}

static enum sl_err strmap_grow(struct strmap *m)
{
    size_t cap = capacity_for(m->len + 1, m->cap);
    struct strmap old = *m;

    if (cap == 0)
        return SL_ENOMEM;
    if (cap == m->cap)
        return SL_OK;
    m->slots = sl_calloc(cap, sizeof(*m->slots));
    if (m->slots == NULL) {
        m->slots = old.slots;
        return SL_ENOMEM;
    }
    m->cap = cap;
    for (size_t i = 0; i < old.cap; i++) {
        const struct strmap_slot *slot = &old.slots[i];

        if (slot->key != NULL)
            m->slots[strmap_find(m, slot->key, slot->hash)] = *slot;
    }
    sl_free(old.slots);
    return SL_OK;
}

enum sl_err strmap_put(struct strmap *m, const char *key, void *value)
{
    uint64_t hash = strmap_hash(key);
    char *copy;
    size_t i;

    assert(value != NULL);
    if (m->cap != 0) {
        i = strmap_find(m, key, hash);
        if (m->slots[i].key != NULL) {
            m->slots[i].value = value;
            return SL_OK;
        }
    }
    copy = sl_strdup(key);
    if (copy == NULL || strmap_grow(m) != SL_OK) {
        sl_free(copy);
        return SL_ENOMEM;
    }
    i = strmap_find(m, key, hash);
    m->slots[i] = (struct strmap_slot){copy, hash, value};
    m->len++;
    return SL_OK;
}
