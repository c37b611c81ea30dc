// SPDX-License-Identifier: Apache-2.0
// A process that starts itself anew: a child of this test runs this program
// again, and that life's test says what it found.
#include "host/daemon/anew.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/t.h"

// What the next life must find: "FD PID".
#define LEFT_OPEN 77

TEST(anew, in_the_life_after_nothing_is_left_over)
{
    int fd = 0, pid = 0;
    sigset_t blocked;

    if (sscanf(anew_note(), "%d %d", &fd, &pid) != 2)
        t_skip("this is the first life");
    T_EQ(pid, getpid());
    T_EQ(fcntl(fd, F_GETFD), -1);
    T_EQ(errno, EBADF);
    T_EQ(sigprocmask(SIG_SETMASK, NULL, &blocked), 0);
    T_FALSE(sigismember(&blocked, SIGTERM));
    T_STR(getenv("ANEW_TEST"), "kept");
}

static void live_again(void)
{
    char *argv[] = {(char *)"whatever it was called",
                    (char *)"in_the_life_after", NULL};
    char note[64];
    sigset_t some;

    setenv("ANEW_TEST", "kept", 1);
    sigemptyset(&some);
    sigaddset(&some, SIGTERM);
    sigprocmask(SIG_SETMASK, &some, NULL);
    if (dup2(STDERR_FILENO, LEFT_OPEN) != LEFT_OPEN)
        _exit(99);
    snprintf(note, sizeof(note), "%d %d", LEFT_OPEN, (int)getpid());
    anew_exec(argv, note, NULL);
    _exit(98);
}

TEST(anew, the_same_program_runs_under_the_same_pid)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        live_again();
    T_EQ(waitpid(pid, &status, 0), pid);
    T_TRUE(WIFEXITED(status));
    T_EQ(WEXITSTATUS(status), 0);
}

TEST(anew, the_newest_note_is_the_one_that_counts)
{
    int status = 0;
    pid_t pid;

    setenv("SLUICE_ANEW", "an old one", 1);
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        live_again();
    unsetenv("SLUICE_ANEW");
    T_STR(anew_note(), "");
    T_EQ(waitpid(pid, &status, 0), pid);
    T_TRUE(WIFEXITED(status));
    T_EQ(WEXITSTATUS(status), 0);
}
