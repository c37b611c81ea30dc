// SPDX-License-Identifier: Apache-2.0
// tests/sim/fiber.c -- coroutines; and the waits of the product, which switch
// between them. See fiber.h.
#include "tests/sim/fiber.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "common/base/deadline.h"

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif

#ifdef FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK_BYTES ((size_t)1 << 20) // of address space; what is touched costs
#define GUARD_BYTES ((size_t)1 << 16) // below it
#define STACKS_KEPT 64
#define WAKE_JITTER_US 20  // until a thread that was woken runs
#define UNWIND_MOST 100000 // waits of a process that has died
#define NEVER_US (UINT64_C(1) << 60)

struct fiber {
    struct list_node node;  // of its process
    struct list_node alive; // of all
    struct sim *sim;
    struct proc *proc;
    uint64_t number;
    void (*run)(void *);
    void *arg;
    void *(*thread)(void *); // made by pthread_create; else NULL
    void *result;
    uint8_t *stack;
    ucontext_t context;
    uint64_t waits; // how many there were: the number of the one under way
    const void *on; // what it waits for; NULL: the time alone
    bool waiting;   // and was not woken yet
    bool woken;     // by a signal; else the time was over
    bool ended;
    void *fake_stack; // ASan's
};

static struct fiber *current; // NULL: the world runs
static struct sim *here;      // the world
static ucontext_t world;
static uint64_t numbers;
static struct list everyone = {{&everyone.head, &everyone.head}};
static uint8_t *stacks[STACKS_KEPT];
static unsigned stacks_count;

#ifdef FIBER_ASAN
static void *world_fake_stack;
static const void *world_stack;
static size_t world_stack_bytes;
#endif

// ---- switching

static void enter(struct fiber *f)
{
    T_ASSERT(current == NULL && !f->ended);
    current = f;
#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(&world_fake_stack, f->stack, STACK_BYTES);
#endif
    T_ASSERT(swapcontext(&world, &f->context) == 0);
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(world_fake_stack, NULL, NULL);
#endif
    current = NULL;
}

static void leave(struct fiber *f)
{
#ifdef FIBER_ASAN
    // A fiber that has ended has no use for its fake stack any more.
    __sanitizer_start_switch_fiber(f->ended ? NULL : &f->fake_stack,
                                   world_stack, world_stack_bytes);
#endif
    T_ASSERT(swapcontext(&f->context, &world) == 0);
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(f->fake_stack, &world_stack,
                                    &world_stack_bytes);
#endif
}

static void fiber_main(void)
{
    struct fiber *f = current;

#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(NULL, &world_stack, &world_stack_bytes);
#endif
    if (f->thread != NULL)
        f->result = f->thread(f->arg);
    else
        f->run(f->arg);
    f->ended = true;
    leave(f);
    abort();
}

// ---- life

static uint8_t *stack_get(void)
{
    uint8_t *at;

    if (stacks_count > 0)
        return stacks[--stacks_count];
    at = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    T_ASSERT(at != MAP_FAILED);
    T_ASSERT(mprotect(at, GUARD_BYTES, PROT_NONE) == 0);
    return at + GUARD_BYTES;
}

static void stack_put(uint8_t *stack)
{
    if (stacks_count < STACKS_KEPT)
        stacks[stacks_count++] = stack;
    else
        munmap(stack - GUARD_BYTES, GUARD_BYTES + STACK_BYTES);
}

static struct fiber *find(struct proc *p, uint64_t number)
{
    list_for(n, &p->fibers)
    {
        struct fiber *f = list_entry(n, struct fiber, node);

        if (f->number == number)
            return f;
    }
    return NULL;
}

static void fiber_free(struct fiber *f)
{
    list_remove(&f->node);
    list_remove(&f->alive);
    stack_put(f->stack);
    free(f);
}

static void resume_run(struct sim *s, struct sim_event *e);

// For the wait under way, or the beginning.
static void resume_after(struct fiber *f, uint64_t us)
{
    sim_after(f->sim, us,
              &(struct sim_event){.kind = SIM_FIBER,
                                  .proc = f->proc->number,
                                  .a = f->number,
                                  .b = f->waits,
                                  .run = resume_run});
}

// Wakes one that waits on `on`, or all.
static void wake(const void *on, bool all)
{
    if (here == NULL || on == NULL)
        return;
    list_for(n, &everyone)
    {
        struct fiber *f = list_entry(n, struct fiber, alive);

        if (!f->waiting || f->woken || f->on != on || !f->proc->alive)
            continue;
        f->woken = true;
        resume_after(f, sim_below(f->sim, WAKE_JITTER_US));
        if (!all)
            return;
    }
}

static void resume(struct fiber *f)
{
    enter(f);
    if (f->ended && f->thread != NULL)
        wake(f, true); // who joins it
    else if (f->ended)
        fiber_free(f);
}

static void resume_run(struct sim *s, struct sim_event *e)
{
    struct fiber *f = find(proc_get(s, e->proc), e->a);

    if (f != NULL && f->waits == e->b && !f->ended)
        resume(f);
}

static struct fiber *make(struct sim *s, struct proc *p)
{
    struct fiber *f = calloc(1, sizeof(*f));

    T_ASSERT(f != NULL);
    f->sim = s;
    f->proc = p;
    f->number = ++numbers;
    f->stack = stack_get();
    T_ASSERT(getcontext(&f->context) == 0);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = NULL;
    makecontext(&f->context, fiber_main, 0);
    list_push_back(&p->fibers, &f->node);
    list_push_back(&everyone, &f->alive);
    resume_after(f, sim_below(s, WAKE_JITTER_US));
    return f;
}

void fiber_start(struct sim *s, struct proc *p, void (*run)(void *), void *arg)
{
    struct fiber *f = make(s, p);

    f->run = run;
    f->arg = arg;
}

struct proc *fiber_proc(void)
{
    return current == NULL ? NULL : current->proc;
}

bool fiber_dying(void)
{
    return current != NULL && !current->proc->alive;
}

void fiber_end_all(struct proc *p)
{
    struct list_node *n;

    T_ASSERT(!p->alive && current == NULL);
    for (unsigned turns = 0; (n = list_first(&p->fibers)) != NULL; turns++) {
        struct fiber *f = list_entry(n, struct fiber, node);

        T_ASSERT(turns < UNWIND_MOST);
        list_remove(n); // one after another: they may wait for each other
        list_push_back(&p->fibers, n);
        if (!f->ended)
            resume(f);
        else
            T_ASSERT(f->thread != NULL); // and somebody joins it
    }
}

void fiber_world(struct sim *s)
{
    here = s;
    current = NULL;
    numbers = 0;
    list_init(&everyone);
}

// ---- waiting

// True: something ended it before the time was over.
static bool wait_on(const void *on, uint64_t us)
{
    struct fiber *f = current;

    T_ASSERT(f != NULL); // who waits in the world's own code?
    f->waits++;
    f->on = on;
    f->waiting = true;
    f->woken = false;
    if (f->proc->alive && us < NEVER_US)
        resume_after(f, us);
    leave(f);
    f->waiting = false;
    return f->woken && f->proc->alive;
}

void fiber_sleep(uint64_t us)
{
    (void)wait_on(NULL, us);
}

bool fiber_await(const void *sign, uint64_t us)
{
    return wait_on(sign, us);
}

void fiber_notify(struct sim *s, const void *sign)
{
    T_ASSERT(s == here);
    wake(sign, true);
}

static bool wait_unlocked(const void *on, uint64_t us, pthread_mutex_t *lock)
{
    bool woken;

    pthread_mutex_unlock(lock);
    woken = wait_on(on, us);
    T_ASSERT(pthread_mutex_trylock(lock) == 0); // somebody waits and holds it
    return woken;
}

// ---- common/base/deadline.h

struct deadline deadline_in_ms(uint64_t ms)
{
    uint64_t at_us, most = NEVER_US / 1000;

    T_ASSERT(here != NULL);
    at_us = sim_now(here) + (ms < most ? ms : most) * 1000;
    return (struct deadline){
        .at = {.tv_sec = (time_t)(at_us / SIM_SECOND),
               .tv_nsec = (long)(at_us % SIM_SECOND) * 1000}};
}

bool deadline_wait(const struct deadline *d, pthread_cond_t *changed,
                   pthread_mutex_t *lock)
{
    uint64_t at, now = sim_now(here);

    if (d == NULL)
        return wait_unlocked(changed, NEVER_US, lock);
    at = (uint64_t)d->at.tv_sec * SIM_SECOND + (uint64_t)d->at.tv_nsec / 1000;
    return at > now && wait_unlocked(changed, at - now, lock);
}

// ---- pthreads; the linker gives these names (--wrap)

int __real_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock);
int __real_pthread_cond_signal(pthread_cond_t *c);
int __real_pthread_cond_broadcast(pthread_cond_t *c);
int __real_pthread_create(pthread_t *out, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg);
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock);
int __wrap_pthread_cond_signal(pthread_cond_t *c);
int __wrap_pthread_cond_broadcast(pthread_cond_t *c);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **result);

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock)
{
    if (current == NULL)
        return __real_pthread_cond_wait(c, lock);
    (void)wait_unlocked(c, NEVER_US, lock);
    return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *c)
{
    wake(c, false);
    return __real_pthread_cond_signal(c);
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *c)
{
    wake(c, true);
    return __real_pthread_cond_broadcast(c);
}

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg)
{
    struct fiber *f;

    if (current == NULL)
        return __real_pthread_create(out, attr, run, arg);
    if (!current->proc->alive)
        return EAGAIN;
    f = make(current->sim, current->proc);
    f->thread = run;
    f->arg = arg;
    *out = (pthread_t)(uintptr_t)f;
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    struct fiber *f = (struct fiber *)(uintptr_t)thread;

    if (current == NULL)
        return __real_pthread_join(thread, result);
    while (!f->ended)
        (void)wait_on(f, NEVER_US);
    if (result != NULL)
        *result = f->result;
    fiber_free(f);
    return 0;
}
