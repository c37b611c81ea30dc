// SPDX-License-Identifier: Apache-2.0
// kernels/prove/pages.c -- maps of anonymous memory, and of one small file in
// memory.
#include "kernels/prove/pages.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/mem.h"

#define PAGES_LEAST 65536 // bytes; maps of less take longer than they help

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t whole_pages(size_t bytes)
{
    size_t page = page_bytes();

    return bytes == 0 ? page : (bytes + page - 1) / page * page;
}

// All of it is going to be touched: one call is faster than a fault for each
// page.
static void *map_here(void *at, size_t bytes, int flags, int fd)
{
    void *p =
        mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, fd, 0);

    return p == MAP_FAILED ? NULL : p;
}

static void *map_own(size_t bytes)
{
    return map_here(NULL, whole_pages(bytes), MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

void *pages_new(size_t bytes)
{
    return bytes < PAGES_LEAST ? sl_aligned(64, bytes) : map_own(bytes);
}

// Returns addresses without memory, for maps to come.
static char *map_nowhere(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

void *pages_new_repeated(size_t bytes)
{
    size_t whole = whole_pages(bytes);
    int fd = memfd_create("sluice-proof", MFD_CLOEXEC);
    char *base = NULL;
    bool mapped = fd >= 0 && ftruncate(fd, PAGES_PERIOD) == 0;

    if (mapped)
        base = map_nowhere(whole);
    for (size_t at = 0; base && mapped && at < whole; at += PAGES_PERIOD)
        mapped = map_here(base + at,
                          whole - at < PAGES_PERIOD ? whole - at : PAGES_PERIOD,
                          MAP_SHARED | MAP_FIXED, fd) != NULL;
    if (fd >= 0)
        close(fd);
    if (mapped && base)
        return base;
    if (base)
        munmap(base, whole);
    return NULL;
}

bool pages_own(void *base, size_t bytes, size_t from, size_t to)
{
    size_t count, most = whole_pages(bytes), end = whole_pages(to);
    char *own;

    from -= from % page_bytes();
    if (end > most)
        end = most;
    if (from >= end)
        return true;
    count = end - from;
    own = map_own(count);
    if (!own)
        return false;
    memcpy(own, (char *)base + from, count);
    if (mremap(own, count, count, MREMAP_MAYMOVE | MREMAP_FIXED,
               (char *)base + from) != MAP_FAILED)
        return true;
    munmap(own, count);
    return false;
}

void pages_free(void *base, size_t bytes)
{
    if (base && bytes >= PAGES_LEAST)
        munmap(base, whole_pages(bytes));
    else
        sl_free(base);
}
