// SPDX-License-Identifier: Apache-2.0
// lib/space.c -- over mmap.
#include "lib/space.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

void *space_new(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED)
        return NULL;
    (void)madvise(at, bytes, MADV_NOHUGEPAGE); // small pieces come and go
    return at;
}

void space_free(void *space, size_t bytes)
{
    if (space != NULL)
        (void)munmap(space, bytes);
}

void space_drop(void *at, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)at + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)at + bytes) / page * page;

    if (from < end)
        (void)madvise((void *)from, end - from, MADV_DONTNEED);
}
