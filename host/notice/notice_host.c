// SPDX-License-Identifier: Apache-2.0
// host/notice/notice_host.c -- a file that appears, a command that knows.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "host/notice/notice_inner.h"
#include "common/run/log.h"

#define FILE_MS 250
#define COMMAND_MS 5000 // then it is killed
#define COMMAND_LOOK_MS 20
#define NOT_FOUND 126 // and above: the shell's own trouble

extern char **environ;

static uint64_t time_in(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char text[64] = "";

    if (fd < 0)
        return 0;
    (void)!read(fd, text, sizeof(text) - 1);
    close(fd);
    return watch_time(text, WATCH_RFC3339);
}

static void file_run(struct notice_watch *w)
{
    do {
        if (access(w->what, F_OK) == 0)
            watch_goes(w, time_in(w->what), "%.150s is there", w->what);
        else
            watch_stays(w);
    } while (watch_wait(w, FILE_MS));
}

const struct notice_source source_file = {.name = "file", .run = file_run};

// With the usual signals, and nothing of ours to read or to write to.
static pid_t exec_start_command(const char *command)
{
    char *argv[] = {"sh", "-c", (char *)command, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    pid_t pid = -1;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&how);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &all);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK |
                                       POSIX_SPAWN_SETSIGDEF |
                                       POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid, "/bin/sh", &files, &how, argv, environ) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    return pid;
}

// Its exit status; -1: it could not be started, was killed, or took too long.
static int exec_run_command(struct notice_watch *w)
{
    const struct sl_clock *clock = sl_clock_real();
    uint64_t until = sl_now_ms(clock) + COMMAND_MS;
    pid_t pid = exec_start_command(w->what), got;
    bool killed = false;
    int status = 0;

    if (pid < 0)
        return -1;
    while ((got = waitpid(pid, &status, WNOHANG)) == 0) {
        if (!killed && sl_now_ms(clock) >= until) {
            kill(-pid, SIGKILL);
            killed = true;
        }
        if (!watch_sleep(w, COMMAND_LOOK_MS) && !killed) {
            kill(-pid, SIGKILL);
            killed = true;
        }
        if (killed)
            usleep(1000);
    }
    return got == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void exec_run(struct notice_watch *w)
{
    bool said = false;

    do {
        int status = exec_run_command(w);

        if (status == 0) {
            watch_goes(w, 0, "%.150s says so", w->what);
        } else if (status > 0 && status < NOT_FOUND) {
            watch_stays(w);
        } else if (!said) {
            LOG(WARN, "notice command cannot be run", "command=%s status=%d",
                w->what, status);
            said = true;
        }
    } while (watch_wait(w, WATCH_MS));
}

const struct notice_source source_exec = {.name = "exec", .run = exec_run};
