// SPDX-License-Identifier: Apache-2.0
// bench/raw_memory.c -- the floor of a push through shared memory: what two
// cores do when one copies each gradient to the other, which applies it.
//
// The near end copies a message from its own memory into one of `outstanding`
// places that both ends share, as a worker copies a gradient. The far end adds
// it to an array of as many bytes, as a shard applies SGD, and counts. Both are
// one process with one thread on one core each, and ask the other's counter
// until it moves: no socket, no call, no check.
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/program.h"

#define LOOKS 10000 // at a counter, before another process may have the core
#define RATE 1e-6f

// What both ends see: a line of the caches each.
struct lane {
    _Alignas(64) atomic_ullong sent;    // messages, by the near end
    _Alignas(64) atomic_ullong applied; // by the far end
    _Alignas(64) atomic_bool over;
    float *place[OUTSTANDING_MAX];
    unsigned outstanding;
    size_t elements; // of a message
};

static void *shared_memory(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (at == MAP_FAILED)
        program_die("%zu bytes of shared memory: %s", bytes, strerror(errno));
    return at;
}

static void lane_init(struct lane *l, const struct conf *c)
{
    size_t bytes = (size_t)conf_int(c, "bytes");

    l->outstanding = (unsigned)conf_int(c, "outstanding");
    l->elements = bytes / sizeof(float);
    for (unsigned i = 0; i < l->outstanding; i++)
        l->place[i] = shared_memory(bytes);
}

// One look in vain. The other end may wait for this core, or share its units.
static void look_again(unsigned *looks)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (++*looks % LOOKS == 0)
        sched_yield();
}

static void apply_gradient(float *restrict value, const float *restrict grad,
                           size_t n)
{
    for (size_t i = 0; i < n; i++)
        value[i] -= RATE * grad[i];
}

static void far_end(struct lane *l, const struct conf *c)
{
    unsigned long long applied = 0;
    unsigned looks = 0;
    float *value;

    pair_far(c);
    value = program_memory(l->elements * sizeof(*value));
    while (!atomic_load_explicit(&l->over, memory_order_relaxed)) {
        if (atomic_load_explicit(&l->sent, memory_order_acquire) == applied) {
            look_again(&looks);
            continue;
        }
        apply_gradient(value, l->place[applied % l->outstanding], l->elements);
        atomic_store_explicit(&l->applied, ++applied, memory_order_release);
    }
    _exit(value[0] > 1); // no value is above 0, and all of them are wanted
}

static void near_end(struct lane *l, struct meter *meter)
{
    size_t bytes = l->elements * sizeof(float);
    float *gradient = program_memory(bytes);
    unsigned long long sent = 0, applied = 0;
    double began_s[OUTSTANDING_MAX];
    unsigned looks = 0;
    bool open = true;

    for (size_t i = 0; i < l->elements; i++)
        gradient[i] = 1;
    while (open) {
        if (sent - applied < l->outstanding) {
            began_s[sent % l->outstanding] = program_now_s();
            memcpy(l->place[sent % l->outstanding], gradient, bytes);
            atomic_store_explicit(&l->sent, ++sent, memory_order_release);
        }
        if (atomic_load_explicit(&l->applied, memory_order_acquire) ==
            applied) {
            look_again(&looks);
            continue;
        }
        open = meter_add(meter, bytes, began_s[applied % l->outstanding],
                         program_now_s());
        applied++;
    }
    atomic_store(&l->over, true);
}

static const struct conf_about about = {
    .program = "raw_memory",
    .usage = "raw_memory [OPTION]...",
    .text = "Copies messages into memory that two pinned processes share, has "
            "the other one apply them, and says how fast.",
    .example = "raw_memory --bytes 1MiB --outstanding 4",
};

static const struct conf_key *const tables[] = {message_keys, pair_keys,
                                                meter_keys, NULL};

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    struct lane *lane = shared_memory(sizeof(*lane));
    struct meter meter;
    int status;
    pid_t child;

    lane_init(lane, c);
    child = fork();
    if (child < 0)
        program_die("fork: %s", strerror(errno));
    if (child == 0)
        far_end(lane, c);
    pair_near(c);
    meter_start(&meter, c);
    near_end(lane, &meter);
    if (waitpid(child, &status, 0) != child || status != 0)
        program_die("the far end failed");
    meter_print(&meter, "push");
    meter_release(&meter);
    conf_free(c);
    return 0;
}
