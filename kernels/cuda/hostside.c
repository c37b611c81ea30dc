// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/hostside.c -- common/base/mem.h, common/run/log.h and
// kernels/beat.h inside the module.
//
// The module links neither: what it allocates and logs goes to the program
// that loaded it, so there is one allocator (and one point of failure, in
// tests) and one log.
#include "kernels/cuda/hostside.h"

#include <string.h>

#include "common/base/mem.h"
#include "kernels/beat.h"

static const struct kern_host *host;

bool hostside_set(const struct kern_host *h)
{
    if (h->abi != KERN_ABI || h->size < sizeof(*h))
        return false;
    host = h;
    return true;
}

void *sl_malloc(size_t bytes)
{
    return host->malloc(bytes);
}

void *sl_calloc(size_t count, size_t size)
{
    return host->calloc(count, size);
}

void *sl_realloc(void *old, size_t bytes)
{
    return host->realloc(old, bytes);
}

void sl_free(void *p)
{
    host->free(p);
}

void *sl_aligned(size_t align, size_t bytes)
{
    return host->aligned(align, bytes);
}

char *sl_strdup(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = host->malloc(n);

    return copy ? memcpy(copy, text, n) : NULL;
}

void kern_beat(void)
{
    host->beat();
}

bool log_on(enum log_level level)
{
    return host->log_on(level);
}

void log_event(enum log_level level, const char *msg, const char *pairs, ...)
{
    va_list ap;

    va_start(ap, pairs);
    host->log(level, msg, pairs, ap);
    va_end(ap);
}
