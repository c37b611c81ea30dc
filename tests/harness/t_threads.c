// SPDX-License-Identifier: Apache-2.0
// tests/harness/t_threads.c -- notices whether a test makes threads, and may
// refuse one.
//
// The thread sanitizer's build has only the tests that do (with_threads in the
// build files). Such a list gets old unless something notices: every call of
// pthread_create, also those of libraries, comes here first. Libraries make
// threads when they like to (gRPC's executor: under load), which a test can
// neither count nor do without: only our own calls are counted and refused.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/harness/t.h"
#include "tests/harness/t_run.h"

static atomic_bool made;
static _Thread_local unsigned asked, refused; // the one to refuse; 0: none

bool t_threads_made(void)
{
    return atomic_load(&made);
}

void t_threads_refuse(unsigned n)
{
    asked = 0;
    refused = n;
}

unsigned t_threads_asked(void)
{
    return asked;
}

// A sanitizer has a pthread_create of its own there.
#ifdef T_NOTICES_THREADS

typedef int (*create_fn)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                         void *);

// Returns true if `caller` is in this program or in libsluice.
static bool our_own(const void *caller)
{
    Dl_info here, there;

    return dladdr(&made, &here) != 0 && dladdr(caller, &there) != 0 &&
           (here.dli_fbase == there.dli_fbase ||
            strstr(there.dli_fname, "/libsluice.") != NULL);
}

__attribute__((visibility("default"))) int
pthread_create(pthread_t *thread, const pthread_attr_t *attr,
               void *(*start)(void *), void *arg)
{
    create_fn real = (create_fn)dlsym(RTLD_NEXT, "pthread_create");

    atomic_store(&made, true);
    if (our_own(__builtin_return_address(0)) && ++asked == refused)
        return EAGAIN;
    return real(thread, attr, start, arg);
}

#endif
