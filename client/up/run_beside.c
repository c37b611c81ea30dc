// SPDX-License-Identifier: Apache-2.0
// client/up/run_beside.c -- a watcher between two daemons that end with each
// other.
#include "client/up/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/cli.h"

// The coordinator: ends if the watcher is killed.
static void run_exec_coordinator(char *const *args, const sigset_t *before,
                                 pid_t parent) __attribute__((noreturn));

static void run_exec_coordinator(char *const *args, const sigset_t *before,
                                 pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, before, NULL);
    if (getppid() == parent)
        execv(args[0], args);
    fprintf(stderr, "sluice run: %s: %s\n", args[0], strerror(errno));
    _exit(CLI_EXIT_FAILED);
}

// SIGTERM comes from the kernel when `worker` is gone; one from elsewhere has
// reached the others, too.
static void run_watch_coordinator(char *const *args, pid_t worker)
    __attribute__((noreturn));

static void run_watch_coordinator(char *const *args, pid_t worker)
{
    sigset_t mine, before;
    pid_t self = getpid(), coordinator;

    sigemptyset(&mine);
    sigaddset(&mine, SIGTERM);
    sigaddset(&mine, SIGINT);
    sigaddset(&mine, SIGHUP);
    sigaddset(&mine, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mine, &before);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    coordinator = fork();
    if (coordinator == 0)
        run_exec_coordinator(args, &before, self);
    while (coordinator > 0 && getppid() == worker) {
        if (waitpid(coordinator, NULL, WNOHANG) == coordinator)
            coordinator = 0;
        else
            sigwaitinfo(&mine, NULL);
    }
    if (getppid() == worker)
        kill(worker, SIGTERM);
    else if (coordinator > 0)
        kill(coordinator, SIGTERM);
    while (coordinator > 0 && waitpid(coordinator, NULL, 0) < 0 &&
           errno == EINTR)
        ;
    _exit(CLI_EXIT_OK);
}

enum sl_err run_beside(char *const *args, struct sl_error *err)
{
    pid_t self = getpid(), pid;

    if (access(args[0], X_OK) != 0)
        return sl_fail(err, SL_EIO, "%s: %s", args[0], strerror(errno));
    pid = fork();
    if (pid == 0)
        run_watch_coordinator(args, self);
    if (pid < 0)
        return sl_fail(err, SL_EIO, "no process for %s: %s", args[0],
                       strerror(errno));
    return SL_OK;
}
