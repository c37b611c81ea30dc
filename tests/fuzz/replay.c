// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/replay.c -- runs a fuzz target without libFuzzer.
//
//     fuzz.idx FILE|FOLDER...
//
// First every file as it is, then every prefix of the short ones, then
// FUZZ_MUTATIONS (20,000) mutations of them. Mutation n of a seed is a
// function of (FUZZ_SEED, n) and of the corpus alone; FUZZ_SEED=random draws a
// seed. What fails is written to the working folder as crash-<target>.
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/fuzz/fuzz.h"

#define SIZE_MOST ((size_t)1 << 17)
#define PREFIX_MOST 2048
#define CHANGES_MOST 6

struct file {
    char *path;
    uint8_t *data;
    size_t size;
};

static struct file *files;
static size_t count;

static uint8_t input[SIZE_MOST]; // what runs now
static size_t input_size;
static char crash_name[128];
static const char *what = ""; // file, prefix, mutation
static uint64_t number, seed;

// ---- when it fails

// Called from a signal handler and by the sanitizers.
static void keep(void)
{
    FILE *f = fopen(crash_name, "wb");

    if (f != NULL) {
        fwrite(input, 1, input_size, f);
        fclose(f);
    }
    fprintf(stderr, "%s %llu (FUZZ_SEED=%llu), %zu bytes, is kept as %s\n",
            what, (unsigned long long)number, (unsigned long long)seed,
            input_size, crash_name);
}

static void on_signal(int sig)
{
    signal(sig, SIG_DFL);
    keep();
    raise(sig);
}

void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

static void watch(void)
{
    static uint8_t stack[1 << 16]; // a stack that overflowed has no room
    stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};

    sigaltstack(&other, NULL);
    sigaction(SIGABRT, &act, NULL);
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(keep);
        return;
    }
    sigaction(SIGSEGV, &act, NULL);
    sigaction(SIGBUS, &act, NULL);
    sigaction(SIGFPE, &act, NULL);
}

// ---- one input

static void run(const char *kind, uint64_t n)
{
    // At exactly its size on the heap, so that a byte too far is noticed.
    uint8_t *copy = malloc(input_size > 0 ? input_size : 1);
    static bool warm; // what is made once, for good, is no leak
    uint64_t live;

    FUZZ_TRUE(copy != NULL);
    memcpy(copy, input, input_size);
    what = kind;
    number = n;
    live = sl_mem_live();
    fuzz_budget(SIZE_MAX);
    LLVMFuzzerTestOneInput(copy, input_size);
    FUZZ_TRUE(!warm || sl_mem_live() == live);
    warm = true;
    free(copy);
}

static void take(const struct file *f, size_t size)
{
    input_size = size < f->size ? size : f->size;
    memcpy(input, f->data, input_size);
}

// ---- mutations

static struct rng rng;

static uint64_t below(uint64_t n)
{
    return n == 0 ? 0 : rng_below(&rng, n);
}

// Makes room for n bytes at `at`, or takes them away; clips.
static void insert_gap(size_t at, size_t n)
{
    if (n > SIZE_MOST - input_size)
        n = SIZE_MOST - input_size;
    memmove(input + at + n, input + at, input_size - at);
    memset(input + at, 0, n);
    input_size += n;
}

static void cut_out(size_t at, size_t n)
{
    if (n > input_size - at)
        n = input_size - at;
    memmove(input + at, input + at + n, input_size - at - n);
    input_size -= n;
}

static void put_number(size_t at)
{
    static const uint64_t numbers[] = {
        0,          1,          0x7f,
        0x80,       0xff,       0x7fff,
        0xffff,     0x7fffffff, 0x80000000,
        0xffffffff, INT64_MAX,  (uint64_t)INT64_MAX + 1,
        UINT64_MAX, 1u << 20,   (uint64_t)1 << 40,
    };
    uint64_t value = numbers[below(SL_COUNT(numbers))] + below(3) - 1;
    size_t n = (size_t)1 << below(4);
    bool big = below(2) != 0;

    for (size_t i = 0; i < n && at + i < input_size; i++)
        input[at + i] = (uint8_t)(value >> 8 * (big ? n - 1 - i : i));
}

static void put_text(size_t at)
{
    static const char *const words[] = {
        "0",    "-1",   "1e400",      "18446744073709551616",
        "null", "true", "{",          "[",
        "\"",   "..",   "&a",         "*a",
        "\n",   ",",    ": ",         "nan",
        "-0",   "\xff", "0x7fffffff", "\\u0000",
    };
    const char *word = words[below(SL_COUNT(words))];
    size_t n = strlen(word);

    if (below(2) == 0)
        insert_gap(at, n);
    for (size_t i = 0; i < n && at + i < input_size; i++)
        input[at + i] = (uint8_t)word[i];
}

static void splice(size_t at)
{
    const struct file *other = &files[below(count)];
    size_t from = below(other->size), n = below(other->size - from + 1);

    if (n > 512)
        n = 512;
    if (below(2) == 0)
        insert_gap(at, n);
    for (size_t i = 0; i < n && at + i < input_size; i++)
        input[at + i] = other->data[from + i];
}

static void change(void)
{
    size_t at = below(input_size + 1), n = 1 + below(16);

    switch (input_size == 0 ? 3 : below(9)) {
    case 0:
        if (at < input_size)
            input[at] ^= (uint8_t)(1u << below(8));
        return;
    case 1:
        if (at < input_size)
            input[at] = (uint8_t)rng_u32(&rng);
        return;
    case 2:
        cut_out(at, n);
        return;
    case 3:
        insert_gap(at, n);
        for (size_t i = at; i < at + n && i < input_size; i++)
            input[i] = (uint8_t)rng_u32(&rng);
        return;
    case 4:
        put_number(at);
        return;
    case 5:
        put_text(at);
        return;
    case 6:
        splice(at);
        return;
    case 7:
        if (n <= input_size - at) { // say it twice
            insert_gap(at, n);
            memmove(input + at, input + at + n, n);
        }
        return;
    default:
        input_size = below(4) == 0 ? at : input_size;
    }
}

static void mutate(uint64_t n)
{
    rng_init(&rng, seed, n);
    take(&files[below(count)], SIZE_MAX);
    for (uint64_t i = 1 + below(CHANGES_MOST); i > 0; i--)
        change();
    run("mutation", n);
}

// ---- the corpus

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->path,
                  ((const struct file *)b)->path);
}

static void add_file(const char *path)
{
    struct file one = {.path = strdup(path)};
    FILE *f = fopen(path, "rb");

    FUZZ_TRUE(f != NULL && one.path != NULL);
    one.data = malloc(SIZE_MOST);
    files = realloc(files, (count + 1) * sizeof(*files));
    FUZZ_TRUE(one.data != NULL && files != NULL);
    one.size = fread(one.data, 1, SIZE_MOST, f);
    fclose(f);
    files[count++] = one;
}

static void add(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    char inside[4096];

    if (dir == NULL) {
        add_file(path);
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        snprintf(inside, sizeof(inside), "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.')
            add_file(inside);
    }
    closedir(dir);
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t value = otherwise;

    if (text == NULL)
        return otherwise;
    if (strcmp(text, "random") == 0) {
        FUZZ_TRUE(getrandom(&value, sizeof(value), 0) == sizeof(value));
        return value;
    }
    return strtoull(text, NULL, 0);
}

int main(int argc, char **argv)
{
    uint64_t mutations = from_environment("FUZZ_MUTATIONS", 20000);
    const char *name = strrchr(argv[0], '/');

    name = name != NULL ? name + 1 : argv[0];
    snprintf(crash_name, sizeof(crash_name), "crash-%s", name);
    seed = from_environment("FUZZ_SEED", 1);
    for (int i = 1; i < argc; i++)
        add(argv[i]);
    if (count == 0) {
        fprintf(stderr, "%s: no corpus; tests/fuzz/README.md\n", name);
        return 1;
    }
    qsort(files, count, sizeof(*files), by_path);
    printf("%s: %zu files, FUZZ_SEED=%llu, %llu mutations\n", name, count,
           (unsigned long long)seed, (unsigned long long)mutations);
    fflush(stdout);
    watch();
    for (size_t i = 0; i < count; i++) {
        take(&files[i], SIZE_MAX);
        run(files[i].path, i);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t n = 0; n < files[i].size && n < PREFIX_MOST; n++) {
            take(&files[i], n);
            run(files[i].path, n);
        }
    for (uint64_t n = 0; n < mutations; n++)
        mutate(n);
    for (size_t i = 0; i < count; i++) {
        free(files[i].path);
        free(files[i].data);
    }
    free(files);
    return 0;
}
