// SPDX-License-Identifier: Apache-2.0
// client/cli/command.c -- the run of another program, with its output collected
// within bounds.
#include "client/cli/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"

#define LOOK_NS 1000000 // between two looks at a program that cannot be watched

static int spawn(pid_t *pid, const char *const *args, int output)
{
    posix_spawn_file_actions_t files;
    int rc = posix_spawn_file_actions_init(&files);

    if (rc != 0)
        return rc;
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null",
                                     O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
    rc = posix_spawnp(pid, args[0], &files, NULL, (char *const *)args, environ);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

// Reads until the program has closed its output; false when the time is up.
static bool command_read_output(int fd, struct buf *out, uint64_t until_ms)
{
    for (;;) {
        uint64_t now = sl_real_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        char text[4096];
        ssize_t n;

        if (now >= until_ms)
            return false;
        if (poll(&p, 1, (int)(until_ms - now)) <= 0)
            continue;
        n = read(fd, text, sizeof(text));
        if (n == 0 || (n < 0 && errno != EINTR))
            return true;
        if (n > 0 && out->len < COMMAND_OUTPUT_MAX)
            buf_append(out, text, (size_t)n);
    }
}

static enum sl_err command_check_status(const char *name, int status,
                                        const struct buf *text,
                                        struct sl_error *err)
{
    const char *all = buf_text(text), *line;
    size_t n = text->len;

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return SL_OK;
    while (n > 0 && all[n - 1] == '\n')
        n--;
    for (line = all + n; line > all && line[-1] != '\n'; line--)
        ;
    return sl_fail(err, SL_EIO, "%s failed: %.*s", name, (int)(all + n - line),
                   line);
}

bool command_await_end(pid_t pid, int wait_ms)
{
    // glibc 2.36 has a function for it; a portable wheel runs with older ones.
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool ended;

    if (fd < 0)
        return errno == ESRCH;
    ended = poll(&p, 1, wait_ms) > 0;
    close(fd);
    return ended;
}

// Until the program has ended: it may have closed its output before. False when
// the time is up.
static bool command_reap(pid_t pid, int *status, uint64_t until_ms)
{
    const struct timespec pause = {0, LOOK_NS};
    pid_t got;

    while ((got = waitpid(pid, status, WNOHANG)) == 0 ||
           (got < 0 && errno == EINTR)) {
        uint64_t now = sl_real_ms();

        if (now >= until_ms)
            return false;
        if (!command_await_end(pid, (int)(until_ms - now)))
            nanosleep(&pause, NULL);
    }
    return true;
}

enum sl_err command_run(const char *const *args, int timeout_ms,
                        struct buf *out, struct sl_error *err)
{
    uint64_t until = sl_real_ms() + (uint64_t)timeout_ms;
    struct buf text = BUF_INIT;
    int ends[2], status = 0, rc;
    pid_t pid;
    enum sl_err result;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return sl_fail(err, SL_EIO, "pipe: %s", strerror(errno));
    rc = spawn(&pid, args, ends[1]);
    close(ends[1]);
    if (rc != 0) {
        close(ends[0]);
        return sl_fail(err, sl_err_from_errno(rc), "%s: %s", args[0],
                       strerror(rc));
    }
    if (command_read_output(ends[0], &text, until) &&
        command_reap(pid, &status, until)) {
        result = command_check_status(args[0], status, &text, err);
    } else {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        result = sl_fail(err, SL_ETIMEDOUT, "%s did not end within %d s",
                         args[0], timeout_ms / 1000);
    }
    close(ends[0]);
    if (out != NULL && text.len > 0)
        buf_append(out, text.data, text.len);
    buf_release(&text);
    return result;
}
