// SPDX-License-Identifier: Apache-2.0
// common/base/map.h -- from a 64-bit id, or from a string, to a pointer.
//
// Open addressing with linear probing; removal shifts back, so there are no
// tombstones and a map that shrinks stays quick.
//
// Threads  one at a time.
// Memory   values are borrowed (but by map_release_owned) and never NULL (it
//          asserts); strmap copies its keys, which are not NULL.
//          All zeroes is an empty map, and a released one is.
// Errors   SL_ENOMEM leaves the map as it was.
#ifndef COMMON_BASE_MAP_H
#define COMMON_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct map_slot {
    uint64_t key;
    void *value; // NULL: free
};

struct map {
    struct map_slot *slots; // owned; cap is 0 or a power of two
    size_t cap;
    size_t len;
};

// Makes `m` empty and frees nothing: for memory not yet in use.
void map_init(struct map *m);
// Frees the table, not the values, and leaves an empty map.
void map_release(struct map *m);
// Frees the values (sl_free) and the table, and leaves an empty map.
void map_release_owned(struct map *m);

// Returns the value of `key`; NULL if it is absent.
void *map_get(const struct map *m, uint64_t key);

// Sets the value of `key`, or replaces it; the old value is not freed.
// SL_ENOMEM, but not for a known key or after map_reserve.
enum sl_err map_put(struct map *m, uint64_t key, void *value);

// Reserves places: the next `more` puts of new keys cannot fail, whatever is
// removed meanwhile. SL_ENOMEM.
enum sl_err map_reserve(struct map *m, size_t more);

// Removes a key and returns its value; NULL if it was absent.
void *map_remove(struct map *m, uint64_t key);

// Steps to the next member, in no particular order, and sets *key and *value
// (each may be NULL). Begin with *at = 0, which each call moves. Returns false
// after the last member; *key and *value are then untouched. The map must not
// change meanwhile.
bool map_next(const struct map *m, size_t *at, uint64_t *key, void **value);

struct strmap_slot {
    char *key;     // owned; NULL: free
    uint64_t hash; // hash of `key`
    void *value;
};

struct strmap {
    struct strmap_slot *slots; // owned; cap is 0 or a power of two
    size_t cap;
    size_t len;
};

// Makes `m` empty and frees nothing: for memory not yet in use.
void strmap_init(struct strmap *m);

// Frees the table and its keys, not the values, and leaves `m` empty.
void strmap_release(struct strmap *m);

// Returns the value of `key`; NULL if it is absent.
void *strmap_get(const struct strmap *m, const char *key);

// Sets the value of `key`, which is copied, or replaces it; the old value is
// not freed. SL_ENOMEM. No key can be removed.
enum sl_err strmap_put(struct strmap *m, const char *key, void *value);

#endif
