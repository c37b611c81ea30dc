// SPDX-License-Identifier: Apache-2.0
// trainer/sum/sum_host.c -- the shared places, the counters that guard them,
// and the loop over chunks.
#include "trainer/sum/sum_host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/net/local/shm.h"
#include "trainer/sum/add.h"

#define CHUNK_ELEMENTS ((size_t)64 << 10) // elements of one place
#define PLACES 2
#define BOTH_ELEMENTS ((size_t)32 << 10) // most that two ranks add both
#define PAGE ((size_t)4096)
#define SPIN_US 20
#define SLEEP_MS 10

// One rank's progress in chunks, counted from the beginning of the generation.
// Cache lines of its own, so that ranks do not take each other's.
struct host_progress {
    _Alignas(64) _Atomic uint64_t in; // chunks copied in
    _Atomic uint64_t added, out;
    _Alignas(64) _Atomic uint32_t bell; // rises when a counter changes
    _Atomic uint32_t sleepers;
};

struct host_header {
    uint64_t token;
    _Alignas(64) struct host_progress line[HOST_RANKS_MOST];
};

struct host {
    struct shm shm;
    struct host_header *head;
    float *places; // [PLACES][count][CHUNK_ELEMENTS]
    uint32_t self, count;
    uint64_t done; // chunks that are summed
    _Atomic bool stopped;
    _Atomic uint64_t wait_us; // spent waiting; read by any thread
};

static size_t head_bytes(void)
{
    return (sizeof(struct host_header) + PAGE - 1) & ~(PAGE - 1);
}

static size_t bytes_for(uint32_t count)
{
    return head_bytes() +
           PLACES * (size_t)count * CHUNK_ELEMENTS * sizeof(float);
}

static struct host *host_wrap_shm(const struct shm *shm, uint32_t self,
                                  uint32_t count)
{
    struct host *l = sl_calloc(1, sizeof(*l));

    if (l == NULL)
        return NULL;
    l->shm = *shm;
    l->head = (struct host_header *)shm->at;
    l->places = (float *)(shm->at + head_bytes());
    l->self = self;
    l->count = count;
    return l;
}

enum sl_err host_new(struct host **out, uint32_t count, int *fd,
                     uint64_t *bytes, uint64_t *token, struct sl_error *err)
{
    struct shm shm;
    enum sl_err rc;

    if (count > HOST_RANKS_MOST)
        return sl_fail(err, SL_ERANGE, "%u ranks on one host; at most %d",
                       count, HOST_RANKS_MOST);
    rc = shm_secret(token);
    if (rc == SL_OK)
        rc = shm_new(&shm, fd, bytes_for(count), err);
    if (rc != SL_OK)
        return rc;
    *out = host_wrap_shm(&shm, 0, count);
    if (*out == NULL) {
        shm_release(&shm);
        close(*fd);
        return sl_no_memory(err);
    }
    (*out)->head->token = *token;
    *bytes = shm.bytes;
    return SL_OK;
}

enum sl_err host_join(struct host **out, uint32_t self, uint32_t count,
                      uint64_t pid, uint32_t fd, uint64_t bytes, uint64_t token,
                      struct sl_error *err)
{
    struct shm shm;
    enum sl_err rc;
    char path[64];
    int at;

    if (bytes != bytes_for(count) || count > HOST_RANKS_MOST || self >= count)
        return sl_fail(err, SL_EDENIED,
                       "shared memory of %" PRIu64 " bytes for %u ranks", bytes,
                       count);
    snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fd/%u", pid, fd);
    at = open(path, O_RDWR | O_CLOEXEC);
    if (at < 0)
        return sl_fail(err, SL_ENOENT, "%s: %s", path, strerror(errno));
    rc = shm_map(&shm, at, (size_t)bytes, err);
    close(at);
    if (rc != SL_OK)
        return rc;
    *out = host_wrap_shm(&shm, self, count);
    if (*out == NULL)
        rc = SL_ENOMEM;
    else if ((*out)->head->token != token)
        rc = sl_fail(err, SL_EDENIED, "%s is another memory", path);
    if (rc != SL_OK) {
        sl_free(*out);
        *out = NULL;
        shm_release(&shm);
    }
    return rc;
}

void host_free(struct host *l)
{
    if (l == NULL)
        return;
    shm_release(&l->shm);
    sl_free(l);
}

void host_stop(struct host *l)
{
    atomic_store(&l->stopped, true);
    // Wakes our own thread if it sleeps there.
    for (uint32_t i = 0; i < l->count; i++)
        syscall(SYS_futex, &l->head->line[i].bell, FUTEX_WAKE, INT32_MAX, NULL,
                NULL, 0);
}

double host_wait_ms(const struct host *l)
{
    return (double)atomic_load_explicit(&l->wait_us, memory_order_relaxed) /
           1000;
}

// ---- waiting

static void host_publish_counter(struct host *l, _Atomic uint64_t *counter,
                                 uint64_t value)
{
    struct host_progress *mine = &l->head->line[l->self];

    // A rank that reads the new bell reads the new counter, too.
    atomic_store_explicit(counter, value, memory_order_release);
    atomic_fetch_add(&mine->bell, 1);
    if (atomic_load(&mine->sleepers) > 0)
        syscall(SYS_futex, &mine->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void pause_cpu(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static bool spin(const _Atomic uint64_t *counter, uint64_t value)
{
    const struct sl_clock *clock = sl_clock_real();
    uint64_t until = sl_now_us(clock) + SPIN_US;

    do {
        for (int i = 0; i < 100; i++) {
            if (atomic_load(counter) >= value)
                return true;
            pause_cpu();
        }
    } while (sl_now_us(clock) < until);
    return false;
}

// Waits until another rank's counter has reached `value`; returns false if
// stopped.
static bool host_wait_counter(struct host *l, struct host_progress *line,
                              const _Atomic uint64_t *counter, uint64_t value)
{
    const struct timespec most = {.tv_nsec = SLEEP_MS * 1000000};
    uint64_t before;
    uint32_t bell;

    if (atomic_load(counter) >= value || spin(counter, value))
        return true;
    before = sl_real_us();
    while (atomic_load(counter) < value && !atomic_load(&l->stopped)) {
        atomic_fetch_add(&line->sleepers, 1);
        bell = atomic_load(&line->bell);
        if (atomic_load(counter) < value)
            syscall(SYS_futex, &line->bell, FUTEX_WAIT, bell, &most, NULL, 0);
        atomic_fetch_sub(&line->sleepers, 1);
    }
    atomic_fetch_add_explicit(&l->wait_us, sl_real_us() - before,
                              memory_order_relaxed);
    return !atomic_load(&l->stopped);
}

enum which { IN, ADDED, OUT };

static _Atomic uint64_t *counter_of(struct host_progress *line,
                                    enum which which)
{
    return which == IN ? &line->in : which == ADDED ? &line->added : &line->out;
}

static bool host_wait_all(struct host *l, enum which which, uint64_t value)
{
    for (uint32_t i = 0; i < l->count; i++) {
        struct host_progress *line = &l->head->line[i];

        if (i != l->self &&
            !host_wait_counter(l, line, counter_of(line, which), value))
            return false;
    }
    return true;
}

static void host_advance(struct host *l, enum which which, uint64_t value)
{
    host_publish_counter(l, counter_of(&l->head->line[l->self], which), value);
}

// ---- chunks

static float *host_place_at(const struct host *l, uint64_t chunk, uint32_t rank)
{
    return l->places + ((chunk % PLACES) * l->count + rank) * CHUNK_ELEMENTS;
}

static size_t part_first(const struct host *l, size_t count, uint32_t part)
{
    return count * part / l->count;
}

// Copies the other ranks' parts of our vector into our place.
static void host_copy_in(struct host *l, uint64_t chunk, const float *data,
                         size_t count)
{
    float *to = host_place_at(l, chunk, l->self);
    size_t a = part_first(l, count, l->self);
    size_t b = part_first(l, count, l->self + 1);

    memcpy(to, data, a * sizeof(*to));
    memcpy(to + b, data + b, (count - b) * sizeof(*to));
}

static void add_part(struct host *l, uint64_t chunk, float *data, size_t count)
{
    size_t a = part_first(l, count, l->self);
    size_t b = part_first(l, count, l->self + 1);
    float *mine = host_place_at(l, chunk, l->self);
    const float *in[HOST_RANKS_MOST];

    for (uint32_t i = 0; i < l->count; i++)
        in[i] = (i == l->self ? data : host_place_at(l, chunk, i)) + a;
    if (l->count == 2)
        add_two(b - a, in[0], in[1], data + a, mine + a);
    else
        add_many(b - a, in, l->count, data + a, mine + a);
}

static void host_copy_out(struct host *l, uint64_t chunk, float *data,
                          size_t count)
{
    for (uint32_t i = 0; i < l->count; i++) {
        size_t a = part_first(l, count, i), b = part_first(l, count, i + 1);

        if (i != l->self)
            memcpy(data + a, host_place_at(l, chunk, i) + a,
                   (b - a) * sizeof(*data));
    }
}

static size_t host_chunk_count(size_t count, size_t at)
{
    return count - at < CHUNK_ELEMENTS ? count - at : CHUNK_ELEMENTS;
}

// Copies a chunk in, when all ranks have copied out the chunk that was in its
// place before.
static bool host_write_chunk(struct host *l, uint64_t chunk, const float *data,
                             size_t count)
{
    if (chunk >= PLACES && !host_wait_all(l, OUT, chunk - PLACES + 1))
        return false;
    host_copy_in(l, chunk, data, count);
    host_advance(l, IN, chunk + 1);
    return true;
}

// ---- two ranks, and a small vector

// Sums with both ranks adding the whole vector: that costs more additions, but
// saves one wait for the other rank, and as much travels between cores. A
// vector of 64 KiB takes 11.7 us, and 19.7 in two halves; from 1 MiB on halves
// are faster.
static enum sl_err sum_both(struct host *l, float *data, size_t count)
{
    uint64_t chunk = l->done;
    const float *other = host_place_at(l, chunk, 1 - l->self);

    if (chunk >= PLACES && !host_wait_all(l, OUT, chunk - PLACES + 1))
        return SL_ESTALE;
    memcpy(host_place_at(l, chunk, l->self), data, count * sizeof(*data));
    host_advance(l, IN, chunk + 1);
    if (!host_wait_all(l, IN, chunk + 1))
        return SL_ESTALE;
    add_two(count, l->self == 0 ? data : other, l->self == 0 ? other : data,
            data, NULL);
    host_advance(l, OUT, chunk + 1);
    l->done = chunk + 1;
    return SL_OK;
}

enum sl_err host_sum(struct host *l, float *data, size_t count)
{
    uint64_t first = l->done;
    size_t at, next;

    if (count == 0)
        return SL_OK;
    if (l->count == 2 && count <= BOTH_ELEMENTS)
        return sum_both(l, data, count);
    if (!host_write_chunk(l, first, data, host_chunk_count(count, 0)))
        return SL_ESTALE;
    for (at = 0; at < count; at = next) {
        size_t some = host_chunk_count(count, at);
        uint64_t chunk = first + at / CHUNK_ELEMENTS;

        next = at + some;
        if (next < count && !host_write_chunk(l, chunk + 1, data + next,
                                              host_chunk_count(count, next)))
            return SL_ESTALE;
        if (!host_wait_all(l, IN, chunk + 1))
            return SL_ESTALE;
        add_part(l, chunk, data + at, some);
        host_advance(l, ADDED, chunk + 1);
        if (!host_wait_all(l, ADDED, chunk + 1))
            return SL_ESTALE;
        host_copy_out(l, chunk, data + at, some);
        host_advance(l, OUT, chunk + 1);
        l->done = chunk + 1;
    }
    return SL_OK;
}

enum sl_err host_spread(struct host *l, float *data, size_t count)
{
    for (size_t at = 0; at < count; at += CHUNK_ELEMENTS) {
        size_t bytes = host_chunk_count(count, at) * sizeof(*data);
        uint64_t chunk = l->done;

        if (chunk >= PLACES && !host_wait_all(l, OUT, chunk - PLACES + 1))
            return SL_ESTALE;
        if (l->self == 0)
            memcpy(host_place_at(l, chunk, 0), data + at, bytes);
        host_advance(l, IN, chunk + 1);
        host_advance(l, ADDED, chunk + 1);
        if (l->self != 0) {
            struct host_progress *first = &l->head->line[0];

            if (!host_wait_counter(l, first, &first->in, chunk + 1))
                return SL_ESTALE;
            memcpy(data + at, host_place_at(l, chunk, 0), bytes);
        }
        host_advance(l, OUT, chunk + 1);
        l->done = chunk + 1;
    }
    return SL_OK;
}
