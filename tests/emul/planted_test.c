// SPDX-License-Identifier: Apache-2.0
// tests/emul/planted_test.c -- does the emulator find mistakes? A checker that
// finds nothing would make every other test here pass.
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/emul/emul.h"
#include "tests/emul/planted.h"
#include "tests/harness/t.h"

#define COUNT 61 // of 64 threads: a tail

static struct emul_kernel *kernel(const char *name)
{
    for (struct emul_kernel *k = emul_table; k->name; k++)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

// Runs it on memory of its own; true if it came to its end.
static bool run(const char *name, unsigned blocks)
{
    size_t x_bytes = COUNT * sizeof(float);
    size_t y_bytes = PLANTED_THREADS * sizeof(float) * blocks;
    struct args_planted a = {.n = COUNT};
    float *x = emul_alloc(x_bytes);
    bool ended;

    // Kernels with a guard are held to n, the others have an element each.
    if (strstr(name, "guard") || strstr(name, "packs"))
        y_bytes = x_bytes;
    a.y = emul_alloc(y_bytes);
    for (int i = 0; i < COUNT; i++)
        x[i] = 1;
    emul_written(x, x_bytes, "test");
    if (strcmp(name, "lost_update") == 0)
        emul_written(a.y, y_bytes, "test");
    a.x = x;
    ended = emul_launch(kernel(name), (struct dim3){blocks, 1, 1},
                        (struct dim3){PLANTED_THREADS, 1, 1}, &a);
    emul_free(x);
    emul_free(a.y);
    return ended;
}

static void found(const char *name, const char *report)
{
    unsigned blocks = strcmp(name, "blocks_overlap") == 0 ? 2 : 1;
    int status = 0;
    pid_t pid;

    if (strcmp(report, "dies") == 0) {
        pid = fork();
        if (pid == 0)
            _exit(run(name, blocks) ? 0 : 3);
        T_EQ(waitpid(pid, &status, 0), pid);
        T_TRUE(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
        return;
    }
    if (run(name, blocks) != (*report == '\0'))
        T_HAS(name, "ended otherwise than it should");
    if (*report)
        T_HAS(emul_last_report(), report);
}

TEST(planted, every_mistake_is_found_and_nothing_else)
{
    for (unsigned s = 0; s < EMUL_SCHEDULES; s++) {
        emul_schedule(s);
#define PLANTED_REPORT(name, report) found(#name, report);
#include "tests/emul/planted.def"
    }
}

TEST(planted, a_report_names_kernel_thread_and_line)
{
    emul_schedule(0);
    T_FALSE(run("guard_is_one_off", 1));
    T_HAS(emul_last_report(), "guard_is_one_off: block (0,0,0): out of bounds: "
                              "thread (61,0,0) writes 4 bytes at 244 of an "
                              "allocation of 244: planted.cu:");
}
