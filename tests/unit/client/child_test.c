// SPDX-License-Identifier: Apache-2.0
#include "client/up/child.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/command.h"
#include "client/up/updir.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/base/moves.h"
#include "tests/harness/t.h"

// Statuses as waitpid gives them.
enum { KILLED = SIGKILL, EXIT_1 = 1 << 8, EXIT_138 = 138 << 8 };

TEST(child, pauses_grow_and_stay_within_bounds)
{
    T_EQ(child_pause_ms(0, 0), 0);
    T_EQ(child_pause_ms(1, 12345), 0);
    T_EQ(child_pause_ms(2, 0), 100);
    T_EQ(child_pause_ms(2, 100), 200);
    T_EQ(child_pause_ms(3, 0), 200);
    for (unsigned n = 2; n < 100; n++) {
        uint64_t pause = child_pause_ms(n, t_rand());

        T_GE(pause, 100);
        T_LE(pause, 5000);
    }
}

static void dies(struct child *c, uint64_t born_ms, uint64_t died_ms,
                 int status)
{
    c->state = CHILD_READY;
    c->pid = 1;
    c->started_ms = born_ms;
    child_ended(c, status, died_ms, 0);
    T_EQ(c->pid, 0);
}

TEST(child, the_first_death_costs_no_pause)
{
    struct child c = {.pid_file = (char *)"/nowhere/x.pid"};

    dies(&c, 0, 100, KILLED);
    T_EQ(c.state, CHILD_WAITING);
    T_EQ(c.start_at_ms, 100);
    dies(&c, 100, 200, KILLED); // again, at once
    T_EQ(c.start_at_ms, 300);
    dies(&c, 300, 60300, KILLED); // after a long life
    T_EQ(c.start_at_ms, 60300);
}

TEST(child, permanent_exits_in_a_row_are_the_end)
{
    struct child c = {.pid_file = (char *)"/nowhere/x.pid"};

    dies(&c, 0, 100, EXIT_1);
    dies(&c, 100, 200, EXIT_1);
    T_EQ(c.state, CHILD_WAITING);
    dies(&c, 200, 300, EXIT_138); // transient: the row is broken
    dies(&c, 300, 400, EXIT_1);
    dies(&c, 400, 500, EXIT_1);
    T_EQ(c.state, CHILD_WAITING);
    dies(&c, 500, 600, EXIT_1);
    T_EQ(c.state, CHILD_GIVEN_UP);
}

TEST(child, deaths_have_words)
{
    char why[CHILD_WHY];

    T_STR(child_why(why, SIGKILL), "was killed by SIGKILL");
    T_STR(child_why(why, EXIT_1), "exited with code 1");
}

// What a child in this state does when something happens to it; what asserts
// its state is called only where it may be.
static enum child_state after(unsigned from, unsigned what)
{
    struct child c = {.pid_file = (char *)"/nowhere/x.pid"};

    c.state = (enum child_state)from;
    c.bad_exits = what == 1 ? 2 : 0;
    if (what == 0)
        T_EQ(child_ready(&c), from == CHILD_STARTING);
    else if (from == CHILD_STARTING || from == CHILD_READY)
        child_ended(&c, EXIT_1, 1, 0);
    return c.state;
}

TEST(child, every_move_from_every_state_is_one_of_the_picture)
{
    // A start is a fork: the tests below have it.
    unsigned seen[CHILD_STATES] = {[CHILD_WAITING] = MOVES_TO(CHILD_STARTING)};

    for (unsigned from = 0; from < CHILD_STATES; from++) {
        for (unsigned what = 0; what < 3; what++)
            if (after(from, what) != from)
                seen[from] |= MOVES_TO(after(from, what));
        T_EQ(seen[from], child_moves[from]);
    }
}

static struct child shell(const char *script)
{
    struct child c = {.role = CHILD_WORKER, .name = "worker-0"};

    c.log = sl_strdup(t_path("log"));
    c.pid_file = sl_strdup(t_path("worker-0.pid"));
    T_OK(child_arg(&c, "%s", "/bin/sh"));
    T_OK(child_arg(&c, "%s", "-c"));
    T_OK(child_arg(&c, "%s", script));
    return c;
}

TEST(child, runs_with_its_log_its_pid_file_and_its_environment)
{
    char *env[] = {(char *)"MARK=here", NULL};
    struct child c = shell("echo one; echo \"two $MARK\" >&2; exit 3");
    struct buf tail = BUF_INIT;
    int status;

    T_OK(child_start(&c, env, 0, t_err()));
    T_EQ(c.state, CHILD_STARTING);
    T_EQ(updir_read_pid(c.pid_file), c.pid);
    T_EQ(waitpid(c.pid, &status, 0), c.pid);
    T_EQ(WEXITSTATUS(status), 3);
    T_OK(child_log_tail(&tail, &c, 5));
    T_STR(buf_text(&tail), "    one\n    two here\n");
    buf_reset(&tail);
    T_OK(child_log_tail(&tail, &c, 1));
    T_STR(buf_text(&tail), "    two here\n");
    child_ended(&c, status, 1, 0);
    T_EQ(updir_read_pid(t_path("worker-0.pid")), 0);
    buf_release(&tail);
    child_release(&c);
}

TEST(child, a_missing_program_is_said)
{
    char *env[] = {NULL};
    struct child c = {.name = "worker-0"};

    T_OK(child_arg(&c, "/nowhere/worker"));
    T_FAILS(SL_ENOENT, child_start(&c, env, 0, t_err()));
    T_EQ(c.pid, 0);
    child_release(&c);
}

TEST(child, one_without_a_pid_file_does_not_run)
{
    char *env[] = {NULL};
    struct child c = shell("sleep 60");

    sl_free(c.pid_file);
    c.pid_file = sl_strdup(t_path("nowhere/worker-0.pid"));
    T_FAILS(SL_ENOENT, child_start(&c, env, 0, t_err()));
    T_EQ(c.pid, 0);
    T_EQ(c.state, CHILD_WAITING);
    T_EQ(waitpid(-1, NULL, 0), -1); // there is no child
    T_EQ(errno, ECHILD);
    child_release(&c);
}

// On a full disk, for one: a part of a number is the number of another process.
TEST(child, half_a_pid_file_is_removed)
{
    char *env[] = {NULL};
    struct child c = shell("sleep 60");
    struct rlimit was, small;
    enum sl_err rc;

    T_EQ(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = (struct rlimit){.rlim_cur = 1, .rlim_max = was.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    T_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    rc = child_start(&c, env, 0, NULL);
    T_EQ(setrlimit(RLIMIT_FSIZE, &was), 0);
    T_TRUE(rc != SL_OK);
    T_EQ(c.pid, 0);
    T_FALSE(fs_exists(fs_posix(), c.pid_file));
    child_release(&c);
}

TEST(child, a_process_is_known_by_its_environment)
{
    char *env[] = {(char *)UPDIR_VARIABLE "=/a/b", NULL};
    // Stops, since while a process execs it has no environment at all.
    struct child c = shell("echo started; kill -STOP $$");
    int status;
    size_t seen = 0;

    T_OK(child_start(&c, env, 0, t_err()));
    while (seen == 0) { // before, it may still be us who are to exec
        struct buf tail = BUF_INIT;

        T_OK(child_log_tail(&tail, &c, 5));
        seen = tail.len;
        buf_release(&tail);
    }
    T_TRUE(updir_process_has(c.pid, UPDIR_VARIABLE, "/a/b"));
    T_FALSE(updir_process_has(c.pid, UPDIR_VARIABLE, "/a"));
    T_FALSE(updir_process_has(getpid(), UPDIR_VARIABLE, "/a/b"));
    T_FALSE(command_await_end(c.pid, 0));
    kill(c.pid, SIGKILL);
    T_TRUE(command_await_end(c.pid, 30000));
    T_EQ(waitpid(c.pid, &status, 0), c.pid);
    child_release(&c);
}
