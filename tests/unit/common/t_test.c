// SPDX-License-Identifier: Apache-2.0
#include "common/base/mem.h"
#include "common/run/log.h"
#include "tests/harness/t.h"

#include <sys/wait.h>
#include <unistd.h>

// Runs this program with -l under another name; returns what it prints, until
// the next call, and sets *code to its exit code.
static const char *listed_as(const char *name, int *code)
{
    static char text[4096];
    char command[600], self[512];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    FILE *out;

    T_TRUE(n > 0);
    self[n] = '\0';
    T_EQ(symlink(self, t_path(name)), 0);
    snprintf(command, sizeof(command), "%s -l", t_path(name));
    out = popen(command, "r");
    T_TRUE(out != NULL);
    text[fread(text, 1, sizeof(text) - 1, out)] = '\0';
    *code = WEXITSTATUS(pclose(out));
    return text;
}

// Each file is a test of ctest. Under a wrong name it must not pass.
TEST(t, the_third_word_of_the_name_is_the_file)
{
    int code;

    T_STR(listed_as("unit.common.t", &code),
          "t.the_third_word_of_the_name_is_the_file\n"
          "t.threads_that_are_not_said_fail_the_program\n"
          "t.a_test_may_leave_the_log_and_memory_changed\n"
          "t.the_next_one_finds_them_as_they_are_at_first\n");
    T_EQ(code, 0);
    T_HAS(listed_as("unit.common.crc", &code), "crc.");
    T_PTR(strstr(listed_as("unit.common.crc32", &code), "."), NULL);
    T_EQ(code, 1);
    T_HAS(listed_as("unit.common", &code), "\n");
    T_HAS(listed_as("all", &code), "\n");
}

// unit.common.queue makes threads; no build file could say that it does not.
TEST(t, threads_that_are_not_said_fail_the_program)
{
#ifdef __SANITIZE_ADDRESS__
    T_SKIP("a sanitizer has a pthread_create of its own");
#else
    char *was = getenv("T_THREADS");
    int code;

    was = was == NULL ? NULL : sl_strdup(was);
    listed_as("unit.common.queue", &code);
    setenv("T_THREADS", "0", 1);
    T_EQ(WEXITSTATUS(system(t_path("unit.common.queue"))), 1);
    setenv("T_THREADS", "1", 1);
    T_EQ(WEXITSTATUS(system(t_path("unit.common.queue"))), 0);
    if (was == NULL)
        unsetenv("T_THREADS");
    else
        setenv("T_THREADS", was, 1);
    sl_free(was);
#endif
}

static void swallow(void *lines, enum log_level level, const char *line,
                    size_t len)
{
    ++*(unsigned *)lines;
}

static unsigned swallowed; // lines that the next two tests log

TEST(t, a_test_may_leave_the_log_and_memory_changed)
{
    log_set_level(LOG_LEVEL_ERROR);
    log_set_sink(swallow, &swallowed);
    sl_mem_fail_at(1);
    LOG(ERROR, "a line");
    T_EQ(swallowed, 1);
    T_PTR(sl_malloc(1), NULL);
}

TEST(t, the_next_one_finds_them_as_they_are_at_first)
{
    void *p = sl_malloc(1);

    T_TRUE(p != NULL);
    T_EQ(log_get_level(), LOG_LEVEL_INFO);
    swallowed = 0;
    LOG(ERROR, "a line");
    T_EQ(swallowed, 0);
    sl_free(p);
}
