// SPDX-License-Identifier: Apache-2.0
// tests/harness/t_main.c -- the list of tests, the seed, main.
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/run/log.h"
#include "tests/harness/t_run.h"

#define SEED_DEFAULT 20260701u

static struct t_test *tests;
static struct t_test **tests_end = &tests;

void t_register(struct t_test *test)
{
    *tests_end = test;
    tests_end = &test->next;
}

static uint64_t draw_seed(void)
{
    const char *text = getenv("T_SEED");
    struct timespec ts;

    if (text == NULL || *text == '\0')
        return SEED_DEFAULT;
    if (strcmp(text, "random") != 0)
        return strtoull(text, NULL, 0);
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_nsec ^ (uint64_t)ts.tv_sec << 20 ^
           (uint64_t)getpid() << 40;
}

uint64_t t_seed(void)
{
    static uint64_t seed;
    static bool drawn;

    if (!drawn) {
        seed = draw_seed();
        drawn = true;
    }
    return seed;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t t_rand(void)
{
    uint64_t name = 0;

    for (const char *c = t_now.test->name; *c != '\0'; c++)
        name = name * 131 + (unsigned char)*c;
    return mix(mix(t_seed() ^ name) + ++t_now.drawn * 0x9e3779b97f4a7c15u);
}

uint64_t t_below(uint64_t n)
{
    return t_rand() % n;
}

// Takes back what a test before may have set for the whole process, also one
// that failed in between.
static void forget(void)
{
    log_set_sink(NULL, NULL);
    log_init(LOG_FORMAT_TEXT, LOG_LEVEL_INFO, "", "");
    sl_mem_fail_at(0);
}

static enum t_result run(const struct t_test *test)
{
    int how;

    forget();
    t_now.test = test;
    t_now.drawn = 0;
    t_now.again[0] = '\0';
    t_now.err = (struct sl_error)SL_ERROR_INIT;
    how = setjmp(t_now.out);
    if (how == T_PASSED)
        test->fn();
    t_dir_remove();
    return (enum t_result)how;
}

// Returns true if all tests stand in one file.
static bool one_file(void)
{
    for (const struct t_test *t = tests; t != NULL; t = t->next) {
        if (strcmp(t->file, tests->file) != 0)
            return false;
    }
    return true;
}

// Returns the third word of the program's name, which says whose tests run:
// "fs" of unit.common.fs. NULL: those of all files.
static const char *third_word(void)
{
    const char *dot = strchr(program_invocation_short_name, '.');

    dot = dot != NULL ? strchr(dot + 1, '.') : NULL;
    return dot != NULL && !one_file() ? dot + 1 : NULL;
}

// Returns true if `word` is the name of the file of `test`, less its ending;
// NULL is any file.
static bool in_file(const struct t_test *test, const char *word)
{
    const char *slash = strrchr(test->file, '/');
    const char *base = slash != NULL ? slash + 1 : test->file;

    return word == NULL || (strncmp(base, word, strlen(word)) == 0 &&
                            strncmp(base + strlen(word), "_test.", 6) == 0);
}

// Leaves the tests of one file in the list, if the name of the program says so.
static void keep_file(void)
{
    const char *word = third_word();

    for (struct t_test **at = &tests; *at != NULL;) {
        if (in_file(*at, word))
            at = &(*at)->next;
        else
            *at = (*at)->next;
    }
}

// Returns true if the at-th test is of `part`, such as 1/2: every second one
// from the first on. What runs side by side is the whole whatever is added to
// it.
static bool in_part(const char *part, unsigned at)
{
    unsigned k, n;

    return sscanf(part, "%u/%u", &k, &n) == 2 && 1 <= k && k <= n &&
           at % n == k - 1;
}

static bool chosen(const struct t_test *test, unsigned at, int argc,
                   char **argv)
{
    char name[256];

    if (argc < 2)
        return true;
    if (argc == 3 && strcmp(argv[1], "--part") == 0)
        return in_part(argv[2], at);
    snprintf(name, sizeof(name), "%s.%s", test->suite, test->name);
    for (int i = 1; i < argc; i++) {
        if (strstr(name, argv[i]) != NULL)
            return true;
    }
    return false;
}

static int list_tests(void)
{
    for (const struct t_test *t = tests; t != NULL; t = t->next)
        printf("%s.%s\n", t->suite, t->name);
    return tests != NULL ? 0 : 1;
}

// Returns true if ctest takes this program for one without threads
// (T_THREADS=0), and it has made some: then it is missing in the thread
// sanitizer's build.
static bool threads_unsaid(void)
{
    const char *text = getenv("T_THREADS");

    if (text == NULL || strcmp(text, "0") != 0 || !t_threads_made())
        return false;
    fprintf(stderr,
            "%s makes threads: its file belongs in with_threads of its "
            "CMakeLists.txt\n",
            program_invocation_short_name);
    return true;
}

int main(int argc, char **argv)
{
    unsigned count[3] = {0, 0, 0}, at = 0;

    keep_file();
    if (argc == 2 && strcmp(argv[1], "-l") == 0)
        return list_tests();
    (void)t_seed(); // before any thread asks
    for (const struct t_test *t = tests; t != NULL; t = t->next) {
        if (chosen(t, at++, argc, argv))
            count[run(t)]++;
    }
    printf("%u passed, %u failed, %u skipped; seed %llu\n", count[T_PASSED],
           count[T_FAILED], count[T_SKIPPED], (unsigned long long)t_seed());
    if (count[T_FAILED] > 0 || threads_unsaid())
        return 1;
    if (count[T_PASSED] > 0)
        return 0;
    return count[T_SKIPPED] > 0 ? 77 : 1; // no test at all is a mistake
}
