// SPDX-License-Identifier: Apache-2.0
// common/base/mem.c -- the allocator: overflow checks, alignment, an n-th call
// that fails for tests, and the settings of malloc.
#include "common/base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// All counters are statistics or a test's switch; nothing is ordered by them.
static _Atomic uint64_t live, calls;
static _Atomic int64_t fuse; // allocations left until failure; 0: no fuse
static _Atomic bool refused; // the fuse has blown

static bool mem_should_fail(void)
{
    if (atomic_load_explicit(&refused, memory_order_relaxed))
        return true;
    if (atomic_load_explicit(&fuse, memory_order_relaxed) == 0)
        return false;
    if (atomic_fetch_sub(&fuse, 1) != 1)
        return false;
    atomic_store(&refused, true);
    return true;
}

static void *counted_in(void *p)
{
    if (p != NULL) {
        atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    }
    return p;
}

void *sl_malloc(size_t bytes)
{
    if (mem_should_fail())
        return NULL;
    return counted_in(malloc(bytes != 0 ? bytes : 1));
}

void *sl_calloc(size_t count, size_t size)
{
    size_t bytes;

    // calloc checks too, but a sanitizer's calloc aborts instead of refusing.
    if (__builtin_mul_overflow(count, size, &bytes) || mem_should_fail())
        return NULL;
    if (bytes == 0)
        count = size = 1;
    return counted_in(calloc(count, size));
}

void *sl_realloc(void *old, size_t bytes)
{
    void *p;

    if (old == NULL)
        return sl_malloc(bytes);
    if (mem_should_fail())
        return NULL;
    p = realloc(old, bytes != 0 ? bytes : 1);
    if (p != NULL)
        atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return p;
}

void *sl_malloc_array(size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return sl_malloc(bytes);
}

void *sl_realloc_array(void *old, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return sl_realloc(old, bytes);
}

void sl_free(void *p)
{
    if (p == NULL)
        return;
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    free(p);
}

void sl_mem_trim(void)
{
    (void)malloc_trim(0);
}

static char *mem_copy_text(const char *text, size_t n)
{
    char *copy = sl_malloc(n + 1);

    if (copy == NULL)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

char *sl_strndup(const char *text, size_t len)
{
    return mem_copy_text(text, strnlen(text, len));
}

char *sl_strdup(const char *text)
{
    return mem_copy_text(text, strlen(text));
}

void *sl_aligned(size_t align, size_t bytes)
{
    void *p = NULL;

    if (bytes > SIZE_MAX - 64 || mem_should_fail())
        return NULL;
    bytes = (bytes + 63) / 64 * 64;
    if (posix_memalign(&p, align, bytes != 0 ? bytes : 64) != 0)
        return NULL;
    return counted_in(p);
}

void sl_mem_fail_at(uint64_t n)
{
    atomic_store(&refused, false);
    atomic_store(&fuse, (int64_t)n);
}

bool sl_mem_failed(void)
{
    bool blown = atomic_load(&refused);

    sl_mem_fail_at(0);
    return blown;
}

uint64_t sl_mem_live(void)
{
    return atomic_load(&live);
}

uint64_t sl_mem_calls(void)
{
    return atomic_load(&calls);
}

void sl_mem_keep_freed(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 64 << 20);
}
