// SPDX-License-Identifier: Apache-2.0
// tests/emul/check.c -- judges every access of device code.
//
// -fsanitize=thread calls __tsan_read4(p) and its kin before each access; they
// are ours here (libtsan is not linked). A cell for each 4 bytes of device and
// shared memory keeps the last write, the last read and which bytes were ever
// written. Reported: out of bounds, read before written, and two threads at
// the same byte, one of them writing, with no barrier between. Shuffles order
// nothing, __syncwarp does; blocks of one launch are never ordered.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/emul/emul_inner.h"

#ifndef EMUL_CHECK

void emul_check_alloc(struct emul_mem *m)
{
}
void emul_check_free(struct emul_mem *m)
{
}
void emul_check_written(struct emul_mem *m, size_t from, size_t bytes)
{
}
void emul_check_block(void)
{
}

#else

enum { ONE, MANY_OF_WARP, MANY, MANY_BLOCKS };

// Who was here, and when. `many`: so were others, since the last barrier.
struct visit {
    uint32_t launch, block;
    uint16_t thread, barriers, syncs;
    uint8_t bytes, many;
};

struct cell {
    struct visit write, read;
    uint8_t written;
};

extern char __start_emul_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_emul_shared[] __attribute__((weak, visibility("hidden")));
extern char __executable_start[], end[];

static struct cell *shared;

static size_t cells(size_t bytes)
{
    return (bytes + 3) / 4;
}

void emul_check_alloc(struct emul_mem *m)
{
    m->shadow = calloc(cells(m->bytes) + 1, sizeof(struct cell));
}

void emul_check_free(struct emul_mem *m)
{
    free(m->shadow);
}

static void mark_written(struct cell *c, size_t from, size_t bytes)
{
    for (size_t i = from; i < from + bytes; i++)
        c[i / 4].written |= (uint8_t)(1 << i % 4);
}

void emul_check_written(struct emul_mem *m, size_t from, size_t bytes)
{
    mark_written(m->shadow, from, bytes);
}

void emul_check_block(void)
{
    size_t bytes = (size_t)(__stop_emul_shared - __start_emul_shared);

    if (!shared)
        shared = malloc((cells(bytes) + 1) * sizeof(*shared));
    memset(shared, 0, (cells(bytes) + 1) * sizeof(*shared));
}

// ---- Texts ----------------------------------------------------------------

// "pool.cu:43", by addr2line: only when something is wrong.
static const char *line_of(void *pc)
{
    static char line[200];
    char command[300], *slash;
    Dl_info info;
    FILE *f;

    if (!dladdr(pc, &info))
        return "?";
    snprintf(command, sizeof(command), "addr2line -e /proc/%d/exe %#lx",
             (int)getpid(),
             (unsigned long)((char *)pc - (char *)info.dli_fbase - 1));
    f = popen(command, "r");
    if (!f || !fgets(line, sizeof(line), f))
        snprintf(line, sizeof(line), "?");
    if (f)
        pclose(f);
    line[strcspn(line, "\n")] = '\0';
    slash = strrchr(line, '/');
    return slash ? slash + 1 : line;
}

static const char *place_text(const void *p, size_t *offset)
{
    const struct emul_mem *m;
    static char text[80];

    if ((const char *)p >= __start_emul_shared &&
        (const char *)p < __stop_emul_shared) {
        *offset = (size_t)((const char *)p - __start_emul_shared);
        return "shared";
    }
    m = emul_find(p);
    *offset = m ? (size_t)((const char *)p - m->at) : 0;
    snprintf(text, sizeof(text), "global (of %zu)", m ? m->bytes : 0);
    return text;
}

static void report_race(const void *p, const struct visit *v, bool writes,
                        bool wrote, void *pc)
{
    bool same = v->block == emul_now.block;
    size_t offset;
    const char *kind = place_text(p, &offset);

    emul_report("race on %s byte %zu: thread %s %s it, %s %s of %s block %s "
                "it, no barrier between: %s",
                kind, offset, emul_thread_text(emul_now.thread),
                writes ? "writes" : "reads",
                v->many ? "several threads, last" : "thread",
                emul_thread_text(v->thread), same ? "this" : "another",
                wrote ? "wrote" : "read", line_of(pc));
}

static void report_bounds(const char *p, size_t bytes, bool writes, void *pc)
{
    const struct emul_mem *m = emul_nearest(p);

    if (!m)
        emul_report("thread %s %s %zu bytes at %p, where nothing is: %s",
                    emul_thread_text(emul_now.thread),
                    writes ? "writes" : "reads", bytes, p, line_of(pc));
    else
        emul_report("out of bounds: thread %s %s %zu bytes at %td of an "
                    "allocation of %zu: %s",
                    emul_thread_text(emul_now.thread),
                    writes ? "writes" : "reads", bytes, p - m->at, m->bytes,
                    line_of(pc));
}

// ---- Judging --------------------------------------------------------------

static uint32_t warp(uint32_t thread)
{
    return thread / EMUL_WARP;
}

// Was the visit by somebody else, with nothing in between that orders?
static bool unordered(const struct visit *v, uint8_t mask)
{
    uint32_t me = emul_now.thread;

    if (v->launch != emul_now.launch || !(v->bytes & mask))
        return false;
    if (v->many == MANY_BLOCKS || v->block != emul_now.block)
        return true;
    if (v->barriers != (uint16_t)emul_now.barriers)
        return false;
    if (v->many == MANY)
        return true;
    if (v->many == ONE && v->thread == me)
        return false;
    return warp(v->thread) != warp(me) ||
           v->syncs == (uint16_t)emul_now.warp_syncs[warp(me)];
}

// Notes a visit. That several have read since the last barrier is remembered,
// unless they read different bytes of the cell (16-bit neighbours): then the
// last is, so that nobody is accused of what another byte's reader did.
static void note(struct visit *v, uint8_t mask, bool reads)
{
    uint32_t me = emul_now.thread;
    struct visit now = {
        .launch = emul_now.launch,
        .block = emul_now.block,
        .thread = (uint16_t)me,
        .barriers = (uint16_t)emul_now.barriers,
        .syncs = (uint16_t)emul_now.warp_syncs[warp(me)],
        .bytes = mask,
    };

    if (reads && v->launch == now.launch && v->bytes & mask) {
        if (v->block != now.block || v->many == MANY_BLOCKS)
            now.many = MANY_BLOCKS;
        else if (v->barriers == now.barriers) {
            now.many = v->many;
            if (v->thread != me && now.many < MANY)
                now.many = warp(v->thread) == warp(me) ? MANY_OF_WARP : MANY;
        }
        if (v->block != now.block || v->barriers == now.barriers)
            now.bytes |= v->bytes;
    }
    *v = now;
}

static void judge(struct cell *c, const char *p, uint8_t mask, bool writes,
                  void *pc)
{
    size_t offset;
    const char *kind;

    if (unordered(&c->write, mask))
        report_race(p, &c->write, writes, true, pc);
    if (writes) {
        if (unordered(&c->read, mask))
            report_race(p, &c->read, true, false, pc);
        c->written |= mask;
        note(&c->write, mask, false);
        return;
    }
    if ((c->written & mask) != mask) {
        kind = place_text(p, &offset);
        emul_report("thread %s reads %s byte %zu, which nobody has written: %s",
                    emul_thread_text(emul_now.thread), kind, offset,
                    line_of(pc));
    }
    note(&c->read, mask, true);
}

static void visit(const void *at, size_t bytes, bool writes, void *pc)
{
    const char *p = at;
    struct emul_mem *m;
    struct cell *c;
    size_t from;

    if (!emul_now.inside || (p >= emul_stacks && p < emul_stacks_end))
        return;
    if (p >= __start_emul_shared && p + bytes <= __stop_emul_shared) {
        c = shared;
        from = (size_t)(p - __start_emul_shared);
    } else if (p >= __executable_start && p < end) {
        return; // built-ins and constants
    } else {
        m = emul_find(p);
        if (!m || p + bytes > m->at + m->bytes) {
            report_bounds(p, bytes, writes, pc);
            return;
        }
        c = m->shadow;
        from = (size_t)(p - m->at);
    }
    for (size_t i = from; i < from + bytes;) {
        size_t n = 4 - i % 4;
        uint8_t mask;

        if (n > from + bytes - i)
            n = from + bytes - i;
        mask = (uint8_t)(((1u << n) - 1) << i % 4);
        judge(&c[i / 4], p + (i - from), mask, writes, pc);
        i += n;
    }
}

// ---- What the compiler calls ----------------------------------------------

#define ACCESS(name, bytes, writes)                                            \
    void __tsan_##name(void *p);                                               \
    void __tsan_##name(void *p)                                                \
    {                                                                          \
        visit(p, bytes, writes, __builtin_return_address(0));                  \
    }
ACCESS(read1, 1, false)
ACCESS(read2, 2, false)
ACCESS(read4, 4, false)
ACCESS(read8, 8, false)
ACCESS(read16, 16, false)
ACCESS(unaligned_read2, 2, false)
ACCESS(unaligned_read4, 4, false)
ACCESS(unaligned_read8, 8, false)
ACCESS(unaligned_read16, 16, false)
ACCESS(write1, 1, true)
ACCESS(write2, 2, true)
ACCESS(write4, 4, true)
ACCESS(write8, 8, true)
ACCESS(write16, 16, true)
ACCESS(unaligned_write2, 2, true)
ACCESS(unaligned_write4, 4, true)
ACCESS(unaligned_write8, 8, true)
ACCESS(unaligned_write16, 16, true)

void __tsan_read_range(void *p, long bytes);
void __tsan_read_range(void *p, long bytes)
{
    visit(p, (size_t)bytes, false, __builtin_return_address(0));
}

void __tsan_write_range(void *p, long bytes);
void __tsan_write_range(void *p, long bytes)
{
    visit(p, (size_t)bytes, true, __builtin_return_address(0));
}

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *pc);
void __tsan_func_entry(void *pc)
{
}

void __tsan_func_exit(void *pc);
void __tsan_func_exit(void *pc)
{
}

#endif
