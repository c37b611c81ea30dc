// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/nccl_load.c -- NCCL is loaded when it is wanted: a host with one
// GPU does without.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/nccl_calls.h"

#define LIBRARY "libnccl.so.2"

static const struct {
    const char *name;
    size_t at;
} wanted[] = {
#define NCCL_CALL(name) {"nccl" #name, offsetof(struct nccl_calls, name)},
    NCCL_CALLS(NCCL_CALL)
#undef NCCL_CALL
};

// The next two change under the lock of nccl_calls.
static struct nccl_calls loaded;
static void *library;

static const struct nccl_calls *nccl_load(char *why, size_t n)
{
    void *call;

    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, n, "no %s", LIBRARY);
        return NULL;
    }
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        call = dlsym(library, wanted[i].name);
        if (!call) {
            snprintf(why, n, "%s has no %s", LIBRARY, wanted[i].name);
            dlclose(library);
            library = NULL;
            return NULL;
        }
        memcpy((char *)&loaded + wanted[i].at, &call, sizeof(call));
    }
    return &loaded;
}

const struct nccl_calls *nccl_calls(char *why, size_t n)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct nccl_calls *calls;

    pthread_mutex_lock(&lock);
    calls = library ? &loaded : nccl_load(why, n);
    pthread_mutex_unlock(&lock);
    return calls;
}
