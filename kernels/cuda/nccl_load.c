// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/nccl_load.c -- NCCL is loaded when it is wanted: a host with one
// GPU does without.
#include <dlfcn.h>
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

const struct nccl_calls *nccl_calls(char *why, size_t n)
{
    static struct nccl_calls calls;
    static void *library;
    void *call;

    if (library)
        return &calls;
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
        memcpy((char *)&calls + wanted[i].at, &call, sizeof(call));
    }
    return &calls;
}
