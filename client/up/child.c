// SPDX-License-Identifier: Apache-2.0
// client/up/child.c -- the life of one child process: start, wait, restart with
// a growing pause, end.
#include "client/up/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/base/moves.h"

#define LIVED_LONG_MS 10000 // such a death starts a new count
#define PAUSE_FIRST_MS 200
#define PAUSE_MAX_MS 5000
#define BAD_EXITS_MAX 3
#define LOG_TAIL_BYTES 16384

const unsigned child_moves[CHILD_STATES] = {
    [CHILD_WAITING] = MOVES_TO(CHILD_STARTING),
    [CHILD_STARTING] = MOVES_TO(CHILD_READY) | MOVES_TO(CHILD_WAITING) |
                       MOVES_TO(CHILD_GIVEN_UP),
    [CHILD_READY] = MOVES_TO(CHILD_WAITING) | MOVES_TO(CHILD_GIVEN_UP),
};

// The only function of the program that changes a child's state.
static void child_enter_state(struct child *c, enum child_state next)
{
    assert(moves_have(child_moves, c->state, next));
    c->state = next;
}

enum sl_err child_arg(struct child *c, const char *fmt, ...)
{
    struct buf text = BUF_INIT;
    va_list ap;
    enum sl_err rc;

    if (c->args_count == CHILD_ARGS)
        return SL_EINTERNAL;
    va_start(ap, fmt);
    rc = buf_vappendf(&text, fmt, ap);
    va_end(ap);
    if (rc == SL_OK)
        rc = buf_append_char(&text, '\0');
    if (rc == SL_OK)
        c->args[c->args_count++] = (char *)buf_detach(&text, NULL);
    buf_release(&text);
    return rc;
}

enum sl_err child_program(char out[PATH_MAX], const char *name,
                          struct sl_error *err)
{
    char self[PATH_MAX - 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n <= 0)
        return sl_fail(err, SL_EIO, "/proc/self/exe: %s", strerror(errno));
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(out, PATH_MAX, "%s/sluice-%s", self, name);
    if (access(out, X_OK) != 0)
        snprintf(out, PATH_MAX, "%s/%s", self, name);
    return SL_OK;
}

void child_release(struct child *c)
{
    for (unsigned i = 0; i < c->args_count; i++)
        sl_free(c->args[i]);
    sl_free(c->log);
    sl_free(c->pid_file);
    sl_free(c->socket);
    sl_free(c->lock);
    *c = (struct child){.pid = 0};
}

// ---- starting

// In the child, between fork and exec: only what is safe there. Does not
// return.
static void child_exec(const struct child *c, char *const *env, int log,
                       int none, pid_t parent) __attribute__((noreturn));

static void child_exec(const struct child *c, char *const *env, int log,
                       int none, pid_t parent)
{
    static const char text[] = "cannot start the program: exec failed\n";
    sigset_t empty;
    ssize_t n;

    setpgid(0, 0);
    // SIGTERM and not SIGKILL: it drains, within its grace, and keeps what it
    // has computed. If the parent is gone already, no signal would come.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1);
    sigemptyset(&empty);
    sigprocmask(SIG_SETMASK, &empty, NULL);
    signal(SIGPIPE, SIG_DFL);
    dup2(none, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execve(c->args[0], c->args, env);
    n = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)n;
    _exit(127);
}

static enum sl_err write_pid(const struct child *c, pid_t pid,
                             struct sl_error *err)
{
    char text[24];
    struct fs_file *file = NULL;
    int n = snprintf(text, sizeof(text), "%d\n", (int)pid);
    enum sl_err rc = fs_open(fs_private(), &file, c->pid_file, FS_WRITE, err);

    if (rc == SL_OK)
        rc = fs_write(file, text, (size_t)n, err);
    fs_close(file);
    return rc;
}

enum sl_err child_start(struct child *c, char *const *env, uint64_t now_ms,
                        struct sl_error *err)
{
    pid_t parent = getpid(), pid;
    enum sl_err rc;
    int log, none;

    if (access(c->args[0], X_OK) != 0)
        return sl_fail(err, SL_ENOENT, "%s: %s; it is built beside sluice",
                       c->args[0], strerror(errno));
    log = open(c->log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log < 0)
        return sl_fail(err, sl_err_from_errno(errno), "%s: %s", c->log,
                       strerror(errno));
    none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid = fork();
    if (pid == 0)
        child_exec(c, env, log, none, parent);
    close(log);
    if (none >= 0)
        close(none);
    if (pid < 0)
        return sl_fail(err, SL_EIO, "%s: fork: %s", c->name, strerror(errno));

    rc = write_pid(c, pid, err);
    if (rc != SL_OK) {
        // The caller starts it again: two would share a state folder.
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        unlink(c->pid_file); // it may hold a part of the number
        return rc;
    }
    c->pid = pid;
    c->started_ms = now_ms;
    child_enter_state(c, CHILD_STARTING);
    return SL_OK;
}

bool child_ready(struct child *c)
{
    if (c->state != CHILD_STARTING)
        return false;
    child_enter_state(c, CHILD_READY);
    return true;
}

// ---- ending

uint64_t child_pause_ms(unsigned quick, uint64_t random)
{
    uint64_t pause = PAUSE_FIRST_MS;

    if (quick < 2)
        return 0;
    for (unsigned i = 2; i < quick && pause < PAUSE_MAX_MS; i++)
        pause *= 2;
    if (pause > PAUSE_MAX_MS)
        pause = PAUSE_MAX_MS;
    return pause / 2 + random % (pause / 2 + 1);
}

// Exit codes with which a daemon, or the shell that could not start it, says
// that trying again is no use: those that Kubernetes' operators hold permanent.
static bool permanent(int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;

    return code == 1 || code == 2 || code == 126 || code == 127;
}

void child_ended(struct child *c, int status, uint64_t now_ms, uint64_t random)
{
    bool quick = now_ms - c->started_ms < LIVED_LONG_MS;

    c->pid = 0;
    unlink(c->pid_file);
    c->quick_deaths = quick ? c->quick_deaths + 1 : 1;
    c->bad_exits = permanent(status) ? (quick ? c->bad_exits : 0) + 1 : 0;
    child_enter_state(c, c->bad_exits >= BAD_EXITS_MAX ? CHILD_GIVEN_UP
                                                       : CHILD_WAITING);
    c->start_at_ms = now_ms + child_pause_ms(c->quick_deaths, random);
}

const char *child_why(char out[CHILD_WHY], int status)
{
    if (WIFSIGNALED(status)) {
        const char *name = sigabbrev_np(WTERMSIG(status));

        if (name != NULL)
            snprintf(out, CHILD_WHY, "was killed by SIG%s", name);
        else
            snprintf(out, CHILD_WHY, "was killed by signal %d",
                     WTERMSIG(status));
    } else {
        snprintf(out, CHILD_WHY, "exited with code %d", WEXITSTATUS(status));
    }
    return out;
}

enum sl_err child_log_tail(struct buf *out, const struct child *c,
                           unsigned lines)
{
    struct fs_file *file = NULL;
    char text[LOG_TAIL_BYTES + 1];
    uint64_t size = 0, from;
    size_t got = 0;
    char *at;
    enum sl_err rc = fs_open(fs_posix(), &file, c->log, FS_READ, NULL);

    if (rc == SL_OK)
        rc = fs_size(file, &size, NULL);
    from = size > LOG_TAIL_BYTES ? size - LOG_TAIL_BYTES : 0;
    if (rc == SL_OK)
        rc = fs_pread(file, from, text, LOG_TAIL_BYTES, &got, NULL);
    fs_close(file);
    while (got > 0 && text[got - 1] == '\n')
        got--;
    text[got] = '\0';
    for (at = text + got; at > text; at--)
        if (at[-1] == '\n' && --lines == 0)
            break;
    while (rc == SL_OK && *at != '\0') {
        size_t n = strcspn(at, "\n");

        rc = buf_appendf(out, "    %.*s\n", (int)n, at);
        at += n + (at[n] == '\n');
    }
    return rc;
}
