// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/mem.h"

void fuzz_broken(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}

// ---- memory: the linker sends sl_* of all rooms here (--wrap)

static size_t budget = SIZE_MAX, given;

void fuzz_budget(size_t bytes)
{
    budget = bytes;
    given = 0;
}

static void give(size_t bytes)
{
    if (bytes > budget - given) {
        fprintf(stderr, "%zu bytes after %zu are over the budget of %zu\n",
                bytes, given, budget);
        abort();
    }
    if (budget != SIZE_MAX)
        given += bytes;
}

// A product that overflows is refused by the real one.
static size_t product(size_t count, size_t size)
{
    size_t bytes;

    return __builtin_mul_overflow(count, size, &bytes) ? 0 : bytes;
}

#define WRAP(type, name, formal, actual, bytes)                                \
    type __real_##name formal;                                                 \
    type __wrap_##name formal;                                                 \
    type __wrap_##name formal                                                  \
    {                                                                          \
        give(bytes);                                                           \
        return __real_##name actual;                                           \
    }

WRAP(void *, sl_malloc, (size_t n), (n), n)
WRAP(void *, sl_calloc, (size_t count, size_t size), (count, size),
     product(count, size))
WRAP(void *, sl_realloc, (void *old, size_t n), (old, n), n)
WRAP(void *, sl_malloc_array, (size_t count, size_t size), (count, size),
     product(count, size))
WRAP(void *, sl_realloc_array, (void *old, size_t count, size_t size),
     (old, count, size), product(count, size))
WRAP(void *, sl_aligned, (size_t align, size_t n), (align, n), n)

// ---- files

static char folder[64];
static char path[192];

static void remove_folder(void)
{
    char line[96];

    // The targets make files only, all in this folder.
    snprintf(line, sizeof(line), "rm -rf '%s'", folder);
    if (system(line) != 0)
        fprintf(stderr, "%s is left behind\n", folder);
}

const char *fuzz_folder(void)
{
    static const char *const roots[] = {"/dev/shm", "/tmp"};

    for (size_t i = 0; folder[0] == '\0' && i < SL_COUNT(roots); i++) {
        snprintf(folder, sizeof(folder), "%s/sluice-fuzz-XXXXXX", roots[i]);
        if (mkdtemp(folder) == NULL)
            folder[0] = '\0';
        else
            atexit(remove_folder);
    }
    FUZZ_TRUE(folder[0] != '\0');
    return folder;
}

const char *fuzz_file(const char *name, const uint8_t *data, size_t size)
{
    int fd;

    snprintf(path, sizeof(path), "%s/%s", fuzz_folder(), name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_TRUE(fd >= 0);
    FUZZ_TRUE(write(fd, data, size) == (ssize_t)size);
    close(fd);
    return path;
}

// ---- bytes

void fuzz_cut_init(struct fuzz_cut *c, const uint8_t *data, size_t size)
{
    size_t from = 0;

    for (size_t i = 0; i < FUZZ_CUTS; i++) {
        size_t left = size - from, n = left;

        if (i + 1 < FUZZ_CUTS && left > 0)
            n = data[(i * 7 + size) % size] % (left + 1);
        if (i + 1 < FUZZ_CUTS && size > 16 && n > size / 3)
            n = i; // several pieces of large messages too
        c->at[i] = (struct sl_slice){data + from, n};
        from += n;
    }
    c->slices = slices_all(c->at, FUZZ_CUTS);
    FUZZ_TRUE(c->slices.bytes == size);
}

bool fuzz_all(const void *p, uint8_t byte, size_t n)
{
    const uint8_t *at = p;

    while (n > 0 && *at == byte)
        at++, n--;
    return n == 0;
}

void fuzz_refused(enum sl_err rc, const struct sl_error *err)
{
    FUZZ_TRUE(rc != SL_OK);
    FUZZ_TRUE(err->code == rc);
    FUZZ_TRUE(rc == SL_ENOMEM || err->text[0] != '\0');
}

uint64_t fuzz_take(struct fuzz_bytes *b, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes && b->left > 0; i++, b->left--)
        value |= (uint64_t)*b->at++ << 8 * i;
    return value;
}
