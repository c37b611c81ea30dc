// SPDX-License-Identifier: Apache-2.0
#include "client/cli/command.h"

#include <sys/resource.h>

#include "tests/harness/t.h"

#define MS 30000

TEST(command, output_and_failure)
{
    const char *const good[] = {"sh", "-c", "echo a; echo b >&2", NULL};
    const char *const bad[] = {"sh", "-c", "echo x; echo why; exit 3", NULL};
    const char *const none[] = {"/nowhere/program", NULL};
    struct buf out = BUF_INIT;
    struct sl_error err = SL_ERROR_INIT;

    T_OK(command_run(good, MS, &out, t_err()));
    T_STR(buf_text(&out), "a\nb\n");
    T_OK(command_run(good, MS, NULL, t_err()));
    T_FAILS(SL_EIO, command_run(bad, MS, NULL, &err));
    T_STR(err.text, "sh failed: why");
    T_FAILS(SL_ENOENT, command_run(none, MS, NULL, &err));
    buf_release(&out);
}

TEST(command, has_a_limit_of_time)
{
    const char *const slow[] = {"sleep", "600", NULL};

    const char *const mute[] = {"sh", "-c", "exec sleep 60 >&- 2>&-", NULL};

    T_FAILS(SL_ETIMEDOUT, command_run(slow, 50, NULL, t_err()));
    // The limit is not that of the output alone.
    T_FAILS(SL_ETIMEDOUT, command_run(mute, 50, NULL, t_err()));
}

static long times_slept(void)
{
    struct rusage used;

    T_EQ(getrusage(RUSAGE_THREAD, &used), 0);
    return used.ru_nvcsw;
}

TEST(command, a_program_without_output_is_waited_for_and_not_asked_for)
{
    const char *const mute[] = {"sh", "-c", "exec sleep 0.3 >&- 2>&-", NULL};
    long before = times_slept();

    T_OK(command_run(mute, MS, NULL, t_err()));
    T_LT(times_slept() - before, 20); // one look each ms: 200 and more
}
