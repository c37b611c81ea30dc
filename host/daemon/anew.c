// SPDX-License-Identifier: Apache-2.0
// host/daemon/anew.c -- exec of ourselves, with nothing left open.
#include "host/daemon/anew.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"

#define NOTE "SLUICE_ANEW"

const char *anew_note(void)
{
    const char *note = getenv(NOTE);

    return note != NULL ? note : "";
}

// What we open ourselves is closed on exec; a driver or a library may not be so
// careful, and a new context beside old descriptors of the device is not new.
static void close_on_exec(void)
{
    DIR *d = opendir("/proc/self/fd");
    struct dirent *one;

    while (d != NULL && (one = readdir(d)) != NULL) {
        int fd = (int)strtol(one->d_name, NULL, 10);

        if (fd > STDERR_FILENO)
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    if (d != NULL)
        closedir(d);
}

// The environment with the note in it; `list` and `ours` are the caller's.
static char **with_note(char *ours)
{
    size_t n = 0, kept = 0;
    char **list;

    while (environ[n] != NULL)
        n++;
    list = sl_calloc(n + 2, sizeof(*list));
    for (size_t i = 0; list != NULL && i < n; i++) {
        if (strncmp(environ[i], NOTE "=", sizeof(NOTE)) != 0)
            list[kept++] = environ[i];
    }
    if (list != NULL)
        list[kept] = ours;
    return list;
}

enum sl_err anew_exec(char **argv, const char *note, struct sl_error *err)
{
    char program[4096], ours[256];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char **env = with_note(ours);
    sigset_t none;

    if (env == NULL)
        return sl_no_memory(err);
    snprintf(ours, sizeof(ours), NOTE "=%s", note);
    close_on_exec();
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (n > 0) {
        program[n] = '\0';
        execve(program, argv, env);
    }
    // Its file was removed or replaced: what we were started from is there yet.
    execve("/proc/self/exe", argv, env);
    sl_free(env);
    return sl_fail(err, sl_err_from_errno(errno), "/proc/self/exe: %s",
                   strerror(errno));
}
