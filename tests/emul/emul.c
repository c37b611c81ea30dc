// SPDX-License-Identifier: Apache-2.0
// tests/emul/emul.c -- fibers, warps and blocks.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/emul/emul_inner.h"

#ifndef __x86_64__
#error "the emulator switches stacks on x86-64 only"
#endif

#define STACK_BYTES (64 * 1024)
#define SLOT_BYTES (STACK_BYTES + 4096) // with a guard page below

struct emul_now emul_now;
char *emul_stacks, *emul_stacks_end;

// Device code reads these as constants; a fiber always finds its own.
struct uint3 threadIdx, blockIdx;
struct dim3 blockDim, gridDim;

extern char __start_emul_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_emul_shared[] __attribute__((weak, visibility("hidden")));

static struct emul_thread threads[EMUL_THREADS];
static struct uint3 places[EMUL_THREADS]; // threadIdx of each, in this launch
static int free_stacks[EMUL_THREADS], free_count;

// The lanes of a warp that wait at an operation, those that have exited, and
// for what the first of those that wait does.
static struct meeting {
    uint32_t here, gone, mask;
    enum emul_op op;
    int line;
} meetings[EMUL_THREADS / EMUL_WARP];

static void *main_sp;
static const void *kernel_args;
static bool failed;

// ---- Switching stacks -----------------------------------------------------

// Leaves by jmp: a ret would be mispredicted every time.
void emul_switch(void **save, void *to);
__asm__(".text\n"
        ".globl emul_switch\n"
        ".type emul_switch, @function\n"
        "emul_switch:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    pop %rcx\n"
        "    jmp *%rcx\n"
        ".size emul_switch, .-emul_switch\n");

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

static void *fake[EMUL_THREADS + 1]; // of each fiber; the last: main's
static const void *main_bottom;
static size_t main_bytes;

static void enter_fiber(unsigned i, const char *stack)
{
    __sanitizer_start_switch_fiber(&fake[EMUL_THREADS], stack, STACK_BYTES);
}

static void entered_main(void)
{
    __sanitizer_finish_switch_fiber(fake[EMUL_THREADS], NULL, NULL);
}

static void leave_fiber(unsigned i, bool forever)
{
    __sanitizer_start_switch_fiber(forever ? NULL : &fake[i], main_bottom,
                                   main_bytes);
}

static void entered_fiber(unsigned i, bool first)
{
    __sanitizer_finish_switch_fiber(first ? NULL : fake[i], &main_bottom,
                                    &main_bytes);
}

// Frames of fibers that will never return have left red zones there.
static void stacks_are_clean(void)
{
    __asan_unpoison_memory_region(emul_stacks,
                                  (size_t)(emul_stacks_end - emul_stacks));
}
#else
static void enter_fiber(unsigned i, const char *stack)
{
}
static void entered_main(void)
{
}
static void leave_fiber(unsigned i, bool forever)
{
}
static void entered_fiber(unsigned i, bool first)
{
}
static void stacks_are_clean(void)
{
}
#endif

static char *stack_at(int i)
{
    return emul_stacks + (size_t)i * SLOT_BYTES + 4096;
}

static void make_stacks(void)
{
    size_t bytes = (size_t)EMUL_THREADS * SLOT_BYTES;

    emul_stacks = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (emul_stacks == MAP_FAILED) {
        perror("emul: stacks");
        abort();
    }
    emul_stacks_end = emul_stacks + bytes;
    for (int i = 0; i < EMUL_THREADS; i++)
        mprotect(stack_at(i) - 4096, 4096, PROT_NONE);
}

static void to_main(bool forever)
{
    unsigned me = emul_now.thread;

    leave_fiber(me, forever);
    emul_switch(&threads[me].sp, main_sp);
    entered_fiber(me, false);
}

// Where a fiber begins; it never returns.
static void fiber_main(void)
{
    struct emul_kernel *k = emul_now.kernel;

    entered_fiber(emul_now.thread, true);
    k->enter(k->kernel, kernel_args);
    threads[emul_now.thread].state = EMUL_DONE;
    to_main(true);
    abort();
}

static void start(struct emul_thread *t)
{
    void **top;

    t->stack = free_stacks[--free_count];
    top = (void **)(stack_at(t->stack) + STACK_BYTES);
    *--top = NULL; // at entry the stack is as after a call
    *--top = (void *)(uintptr_t)fiber_main;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    t->sp = top;
}

static void resume(unsigned i)
{
    struct emul_thread *t = &threads[i];

    if (!t->sp)
        start(t);
    emul_now.thread = i;
    emul_now.inside = true;
    threadIdx = places[i];
    enter_fiber(i, stack_at(t->stack));
    emul_switch(&main_sp, t->sp);
    entered_main();
    emul_now.inside = false;
    if (t->state == EMUL_DONE) {
        free_stacks[free_count++] = t->stack;
        meetings[i / EMUL_WARP].gone |= 1u << i % EMUL_WARP;
    }
}

// ---- Reports --------------------------------------------------------------

const char *emul_thread_text(uint32_t i)
{
    static char text[4][40];
    static unsigned turn;
    struct dim3 b = emul_now.blocks;
    char *at = text[turn++ % 4];

    snprintf(at, sizeof(text[0]), "(%u,%u,%u)", i % b.x, i / b.x % b.y,
             i / b.x / b.y);
    return at;
}

static char report[500];

const char *emul_last_report(void)
{
    return report;
}

void emul_report(const char *fmt, ...)
{
    struct dim3 g = emul_now.grid;
    uint32_t b = emul_now.block;
    va_list args;
    int n = 0;

    if (emul_now.kernel)
        n = snprintf(report, sizeof(report),
                     "%s: block (%u,%u,%u): ", emul_now.kernel->name, b % g.x,
                     b / g.x % g.y, b / g.x / g.y);
    va_start(args, fmt);
    vsnprintf(report + n, sizeof(report) - (size_t)n, fmt, args);
    va_end(args);
    fflush(stdout);
    fprintf(stderr, "%s\n", report);
    failed = true;
    if (emul_now.inside)
        to_main(true);
}

// ---- Schedules ------------------------------------------------------------

enum order { FORWARD, BACKWARD, RANDOM };

static const struct {
    enum order lanes, warps, blocks;
} schedules[EMUL_SCHEDULES] = {
    {FORWARD, FORWARD, FORWARD}, {BACKWARD, BACKWARD, BACKWARD},
    {RANDOM, FORWARD, BACKWARD}, {FORWARD, RANDOM, FORWARD},
    {BACKWARD, FORWARD, RANDOM}, {RANDOM, RANDOM, RANDOM},
};

static unsigned schedule;
static uint64_t seed = 1;

void emul_schedule(unsigned s)
{
    schedule = s % EMUL_SCHEDULES;
    seed = 0x9e3779b97f4a7c15u * (s + 1);
}

static uint32_t draw(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 32) * below >> 32);
}

static void fill_order(uint32_t *to, uint32_t n, enum order o)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = o == BACKWARD ? n - 1 - i : i;
    for (uint32_t i = n; o == RANDOM && i > 1; i--) {
        uint32_t k = draw(i), x = to[k];

        to[k] = to[i - 1];
        to[i - 1] = x;
    }
}

// ---- Warps ----------------------------------------------------------------

// The value that `lane` gets from an operation that all of `mask` have reached.
static uint64_t result_of(const struct emul_thread *warp, unsigned lane)
{
    const struct emul_thread *t = &warp[lane];
    unsigned from = lane;
    uint64_t votes = 0;

    switch (t->op) {
    case EMUL_SHFL:
        from = (unsigned)t->arg % EMUL_WARP;
        break;
    case EMUL_SHFL_XOR:
        from = lane ^ (unsigned)t->arg;
        break;
    case EMUL_SHFL_DOWN:
        from = lane + (unsigned)t->arg;
        break;
    case EMUL_BALLOT:
        for (unsigned i = 0; i < EMUL_WARP; i++)
            if (t->mask >> i & 1 && warp[i].value)
                votes |= 1u << i;
        return votes;
    default:
        return 0;
    }
    if (from >= EMUL_WARP)
        return t->value; // beyond the warp a lane keeps its own
    if (!(t->mask >> from & 1))
        emul_report("thread %s reads lane %u in a shuffle that does not name "
                    "it: %s:%d",
                    emul_thread_text(emul_now.thread), from, t->file, t->line);
    return warp[from].value;
}

static uint32_t lanes_there(unsigned first)
{
    unsigned n = emul_now.threads - first;

    return n >= EMUL_WARP ? UINT32_MAX : (1u << n) - 1;
}

// Lanes that come one by one to where they belong are most of what happens: is
// this one of them, and another still to come?
static bool too_early(struct meeting *m, const struct emul_thread *t,
                      unsigned lane)
{
    if (m->here == 0)
        *m = (struct meeting){0, m->gone, t->mask, t->op, t->line};
    m->here |= 1u << lane;
    return t->mask == m->mask && t->op == m->op && t->line == m->line &&
           (t->mask & m->gone) == 0 && (t->mask & ~m->here) != 0;
}

// Is every lane that the mask names waiting at the same place? Says so if one
// can never come.
static bool all_here(const struct emul_thread *warp,
                     const struct emul_thread *t)
{
    for (unsigned i = 0; i < EMUL_WARP; i++) {
        if (!(t->mask >> i & 1))
            continue;
        if (warp[i].state == EMUL_DONE)
            emul_report("%s:%d names lane %u, which has exited", t->file,
                        t->line, i);
        if (warp[i].state != EMUL_AT_WARP)
            return false;
        if (warp[i].line != t->line || warp[i].op != t->op ||
            warp[i].mask != t->mask)
            emul_report("a split warp: lane %u waits at %s:%d, lane %u at "
                        "%s:%d",
                        (unsigned)(t - warp), t->file, t->line, i, warp[i].file,
                        warp[i].line);
    }
    return true;
}

uint64_t emul_warp_op(enum emul_op op, uint32_t mask, uint64_t value, int arg,
                      const char *file, int line)
{
    unsigned me = emul_now.thread, first = me & ~(EMUL_WARP - 1u);
    struct emul_thread *warp = &threads[first], *t = &threads[me];
    struct meeting *meeting = &meetings[first / EMUL_WARP];
    uint64_t result[EMUL_WARP];

    t->op = op;
    t->mask = mask;
    t->value = value;
    t->arg = arg;
    t->file = file;
    t->line = line;
    t->state = EMUL_AT_WARP;
    if (!(mask >> (me - first) & 1) || mask & ~lanes_there(first))
        emul_report("%s:%d: mask %08x does not name its own lane %u, or names "
                    "lanes that do not exist",
                    file, line, mask, me - first);
    if (!too_early(meeting, t, me - first) && all_here(warp, t)) {
        for (unsigned i = 0; i < EMUL_WARP; i++)
            result[i] = mask >> i & 1 ? result_of(warp, i) : 0;
        for (unsigned i = 0; i < EMUL_WARP; i++)
            if (mask >> i & 1) {
                warp[i].value = result[i];
                warp[i].state = EMUL_READY;
            }
        meeting->here &= ~mask;
        if (op == EMUL_SYNCWARP)
            emul_now.warp_syncs[first / EMUL_WARP]++;
    } else {
        to_main(false);
    }
    return t->value;
}

// Runs a warp as far as it comes; true if anything ran.
static bool run_warp(unsigned warp)
{
    uint32_t order[EMUL_WARP], first = warp * EMUL_WARP;
    uint32_t n = emul_now.threads - first;
    bool ran = false, more = true;

    if (n > EMUL_WARP)
        n = EMUL_WARP;
    fill_order(order, n, schedules[schedule].lanes);
    while (more && !failed) {
        more = false;
        for (uint32_t i = 0; i < n && !failed; i++) {
            if (threads[first + order[i]].state != EMUL_READY)
                continue;
            resume(first + order[i]);
            ran = more = true;
        }
    }
    return ran;
}

// ---- Blocks ---------------------------------------------------------------

void emul_sync_block(const char *file, int line)
{
    struct emul_thread *t = &threads[emul_now.thread];

    t->file = file;
    t->line = line;
    t->state = EMUL_AT_BLOCK;
    to_main(false);
}

// A warp operation that will never be complete: who is missing?
static void report_missing(uint32_t waits)
{
    const struct emul_thread *t = &threads[waits];
    const struct emul_thread *warp = &threads[waits & ~(EMUL_WARP - 1u)];

    for (unsigned i = 0; i < EMUL_WARP; i++)
        if (t->mask >> i & 1 && warp[i].state == EMUL_DONE) {
            emul_report("%s:%d names lane %u, which has exited", t->file,
                        t->line, i);
            return;
        }
    emul_report("thread %s waits at %s:%d for lanes that do not come",
                emul_thread_text(waits), t->file, t->line);
}

// Everything waits: opens the barrier if all are there, at the same place.
// False: the block has ended, or never will.
static bool open_barrier(void)
{
    uint32_t done = 0, waits = UINT32_MAX, other = UINT32_MAX;

    for (uint32_t i = 0; i < emul_now.threads; i++) {
        if (threads[i].state == EMUL_DONE) {
            done++;
            other = i;
        } else if (waits == UINT32_MAX || threads[i].state == EMUL_AT_WARP) {
            waits = i;
        }
    }
    if (waits == UINT32_MAX)
        return false;
    if (threads[waits].state == EMUL_AT_WARP)
        report_missing(waits);
    else if (done > 0)
        emul_report("divergent barrier: thread %s waits in __syncthreads at "
                    "%s:%d, but thread %s has exited (%u of %u have)",
                    emul_thread_text(waits), threads[waits].file,
                    threads[waits].line, emul_thread_text(other), done,
                    emul_now.threads);
    for (uint32_t i = 0; i < emul_now.threads && !failed; i++)
        if (threads[i].line != threads[waits].line)
            emul_report("divergent barrier: thread %s waits at %s:%d, thread "
                        "%s at line %d",
                        emul_thread_text(waits), threads[waits].file,
                        threads[waits].line, emul_thread_text(i),
                        threads[i].line);
    if (failed)
        return false;
    for (uint32_t i = 0; i < emul_now.threads; i++)
        threads[i].state = EMUL_READY;
    emul_now.barriers++;
    return true;
}

// By hand: the sanitizers' memset would look at red zones.
static void fill_shared(void)
{
    char *at = __start_emul_shared;
    size_t n = (size_t)(__stop_emul_shared - __start_emul_shared);

    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(0xff) : "memory");
}

static void run_block(uint32_t number)
{
    uint32_t warps = (emul_now.threads + EMUL_WARP - 1) / EMUL_WARP;
    uint32_t order[EMUL_THREADS / EMUL_WARP];
    struct dim3 g = emul_now.grid;

    emul_now.block = number;
    emul_now.barriers = 0;
    memset(emul_now.warp_syncs, 0, sizeof(emul_now.warp_syncs));
    memset(meetings, 0, sizeof(meetings));
    blockIdx =
        (struct uint3){number % g.x, number / g.x % g.y, number / g.x / g.y};
    for (uint32_t i = 0; i < emul_now.threads; i++)
        threads[i] = (struct emul_thread){.state = EMUL_READY};
    fill_shared();
    emul_check_block();
    do {
        fill_order(order, warps, schedules[schedule].warps);
        for (uint32_t i = 0; i < warps && !failed; i++)
            run_warp(order[i]);
    } while (!failed && open_barrier());
}

// Block i of the schedule: at random by a step that has no divisor in common.
static uint32_t block_number(uint32_t i, uint32_t n, uint32_t step)
{
    if (schedules[schedule].blocks == FORWARD)
        return i;
    if (schedules[schedule].blocks == BACKWARD)
        return n - 1 - i;
    return (uint32_t)((uint64_t)i * step % n);
}

static uint32_t coprime(uint32_t n)
{
    for (uint32_t step = n / 2 + 1 + draw(n / 2 + 1);; step++) {
        uint32_t a = step, b = n;

        while (b) {
            uint32_t rest = a % b;

            a = b;
            b = rest;
        }
        if (a == 1)
            return step;
    }
}

bool emul_launch(struct emul_kernel *k, struct dim3 grid, struct dim3 block,
                 const void *args)
{
    uint32_t blocks = grid.x * grid.y * grid.z, launch = emul_now.launch + 1;
    uint32_t step = coprime(blocks);

    if (!emul_stacks)
        make_stacks();
    free_count = EMUL_THREADS;
    for (int i = 0; i < EMUL_THREADS; i++)
        free_stacks[i] = EMUL_THREADS - 1 - i;
    failed = false;
    emul_now = (struct emul_now){
        .kernel = k,
        .launch = launch,
        .grid = grid,
        .blocks = block,
        .threads = block.x * block.y * block.z,
    };
    for (uint32_t i = 0; i < emul_now.threads; i++)
        places[i] = (struct uint3){i % block.x, i / block.x % block.y,
                                   i / block.x / block.y};
    blockDim = block;
    gridDim = grid;
    kernel_args = args;
    k->launches++;
    k->blocks = (uint64_t)grid.x * grid.y;
    for (uint32_t i = 0; i < blocks && !failed; i++)
        run_block(block_number(i, blocks, step));
    if (failed)
        stacks_are_clean();
    emul_now.kernel = NULL;
    return !failed;
}
