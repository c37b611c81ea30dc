// SPDX-License-Identifier: Apache-2.0
// tests/system/alloc_count.c -- who allocates in a daemon, and how often.
//
// Loaded in front of a daemon (LD_PRELOAD), it sees each malloc, calloc,
// realloc, aligned allocation and mapping. Whose it is says the call stack: the
// first frame that is not of the C or C++ library, nor of gpr, which is gRPC's
// name for malloc. In the program itself it is *ours*, whether through
// common/base/mem.h or past it; in any other library (gRPC, oneDNN, libuv) it
// is counted beside.
//
// The time is cut into windows of WINDOW batches that the program gives to
// gRPC, or packets that it sends for a call beside it
// (common/net/local/rpc_sock.h): a step of a worker is one for each shard, a
// push at a psserver is one. A window is clean if nothing of ours was allocated
// between its ends, so something that is allocated in every step, or in every
// tenth, leaves none.
//
// All is in a file that the environment names (ALLOC_COUNT), mapped, so that
// it may be read while the daemon runs: see struct counts.
//
// Threads  any.
// Memory   none of its own but the file.
// Units    allocations; batches.
// Errors   without the file nothing is counted.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <grpc/grpc.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/net/local/rpc_sock.h"

#define WINDOW 256
#define SITES 256
#define FRAMES 6 // of the program, kept of each place
#define DEPTH 24 // looked at
#define RANGES 128

#define EXPORT __attribute__((visibility("default")))

// A place of ours that allocates: addresses in the program's file.
struct site {
    _Atomic uint64_t count;
    uint64_t frame[FRAMES];
};

struct counts { // alloc_test.py reads it
    _Atomic uint64_t batches, ours, others, windows, clean;
    _Atomic uint64_t sites;
    struct site site[SITES];
};

enum owner { OWNER_OURS, OWNER_PASSES, OWNER_OTHER };

struct range {
    uintptr_t from, to;
    enum owner owner;
};

static struct counts *counts; // NULL: not yet
static struct range ranges[RANGES];
static size_t ranges_count;
static uintptr_t base; // of the program
static atomic_flag sites_busy = ATOMIC_FLAG_INIT;
static __thread bool inside __attribute__((tls_model("initial-exec")));

// ---- what lies where

static enum owner owner_of_object(const char *path)
{
    static const char *const pass[] = {"/libc.so",   "/libgpr.so",
                                       "/libstdc++", "/ld-linux",
                                       "/libgcc_s",  "alloc_count"};

    if (*path == '\0')
        return OWNER_OURS; // the program comes first, without a name
    for (size_t i = 0; i < sizeof(pass) / sizeof(pass[0]); i++) {
        if (strstr(path, pass[i]) != NULL)
            return OWNER_PASSES;
    }
    return OWNER_OTHER;
}

static int add_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    enum owner owner = owner_of_object(info->dlpi_name);

    (void)size;
    (void)arg;
    if (owner == OWNER_OURS)
        base = info->dlpi_addr;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr;

        if (p->p_type == PT_LOAD && (p->p_flags & PF_X) &&
            ranges_count < RANGES)
            ranges[ranges_count++] =
                (struct range){from, from + p->p_memsz, owner};
    }
    return 0;
}

static enum owner owner_of(uintptr_t at)
{
    for (size_t i = 0; i < ranges_count; i++) {
        if (at >= ranges[i].from && at < ranges[i].to)
            return ranges[i].owner;
    }
    return OWNER_OTHER;
}

// ---- counting

static void note_site(const uint64_t frame[FRAMES])
{
    uint64_t n;

    while (atomic_flag_test_and_set(&sites_busy))
        ; // for a few instructions
    n = atomic_load(&counts->sites);
    for (uint64_t i = 0; i < n; i++) {
        struct site *s = &counts->site[i];

        if (memcmp(s->frame, frame, sizeof(s->frame)) == 0) {
            atomic_fetch_add(&s->count, 1);
            goto done;
        }
    }
    if (n < SITES) {
        memcpy(counts->site[n].frame, frame, sizeof(counts->site[n].frame));
        atomic_store(&counts->site[n].count, 1);
        atomic_store(&counts->sites, n + 1);
    }
done:
    atomic_flag_clear(&sites_busy);
}

static void note(void)
{
    uint64_t frame[FRAMES] = {0};
    void *stack[DEPTH];
    int depth, at = 0, kept = 0;

    if (counts == NULL || inside)
        return;
    inside = true;
    depth = backtrace(stack, DEPTH);
    while (at < depth && owner_of((uintptr_t)stack[at]) == OWNER_PASSES)
        at++;
    if (at < depth && owner_of((uintptr_t)stack[at]) == OWNER_OURS) {
        for (; at < depth && kept < FRAMES; at++) {
            if (owner_of((uintptr_t)stack[at]) == OWNER_OURS)
                frame[kept++] = (uintptr_t)stack[at] - base - 1;
        }
        atomic_fetch_add(&counts->ours, 1);
        note_site(frame);
    } else {
        atomic_fetch_add(&counts->others, 1);
    }
    inside = false;
}

static void end_window(void)
{
    static _Atomic uint64_t before;
    uint64_t now = atomic_load(&counts->ours);

    if (atomic_exchange(&before, now) == now)
        atomic_fetch_add(&counts->clean, 1);
    atomic_fetch_add(&counts->windows, 1);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("ALLOC_COUNT");
    struct counts *made;
    void *stack[2];
    int fd;

    if (path == NULL)
        return;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(*made)) != 0)
        return;
    made = mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (made == MAP_FAILED)
        return;
    (void)backtrace(stack, 2); // loads what it needs
    dl_iterate_phdr(add_object, NULL);
    counts = made;
}

// ---- in front of the C library

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

EXPORT void *malloc(size_t bytes)
{
    note();
    return __libc_malloc(bytes);
}

EXPORT void *calloc(size_t count, size_t size)
{
    note();
    return __libc_calloc(count, size);
}

EXPORT void *realloc(void *old, size_t bytes)
{
    note();
    return __libc_realloc(old, bytes);
}

EXPORT void *aligned_alloc(size_t align, size_t bytes)
{
    note();
    return __libc_memalign(align, bytes);
}

EXPORT int posix_memalign(void **out, size_t align, size_t bytes)
{
    void *p;

    note();
    p = __libc_memalign(align, bytes);
    if (p == NULL)
        return 12; // ENOMEM
    *out = p;
    return 0;
}

EXPORT void *mmap(void *at, size_t bytes, int protect, int flags, int fd,
                  off_t offset)
{
    note();
    return (void *)syscall(SYS_mmap, at, bytes, protect, flags, fd, offset);
}

// ---- in front of gRPC, and of calls beside it

static void count_call(void)
{
    if (counts != NULL &&
        atomic_fetch_add(&counts->batches, 1) % WINDOW == WINDOW - 1)
        end_window();
}

// A packet of ours says so first.
EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    uint32_t magic = 0;

    if (m->msg_iovlen > 0 && m->msg_iov[0].iov_len >= sizeof(magic))
        memcpy(&magic, m->msg_iov[0].iov_base, sizeof(magic));
    if (magic == RPC_SOCK_ASKS || magic == RPC_SOCK_ANSWERS)
        count_call();
    return (ssize_t)syscall(SYS_sendmsg, fd, m, flags);
}

EXPORT grpc_call_error grpc_call_start_batch(grpc_call *call,
                                             const grpc_op *ops, size_t count,
                                             void *tag, void *reserved)
{
    static grpc_call_error (*real)(grpc_call *, const grpc_op *, size_t, void *,
                                   void *);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "grpc_call_start_batch");
    count_call();
    return real(call, ops, count, tag, reserved);
}
