// SPDX-License-Identifier: Apache-2.0
// client/up/up_detach.c -- a supervisor that outlives the command that started
// it.
#include "client/up/up.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "common/base/mem.h"

// Until it says so, or has ended and said why itself.
static int up_await_ready(pid_t child, int ready)
{
    char byte;
    ssize_t n;
    int status;

    while ((n = read(ready, &byte, 1)) < 0 && errno == EINTR)
        ;
    if (n == 1)
        return CLI_EXIT_OK;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return CLI_EXIT_FAILED;
    return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_EXIT_FAILED;
}

bool up_detach(int *ready, int *code)
{
    int ends[2];
    pid_t child;

    *code = CLI_EXIT_FAILED;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        cli_say("sluice: --detach: %s", strerror(errno));
        return false;
    }
    child = fork();
    if (child < 0) {
        cli_say("sluice: --detach: %s", strerror(errno));
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    if (child == 0) {
        close(ends[0]);
        setsid(); // no terminal's Ctrl-C
        *ready = ends[1];
        return true;
    }
    close(ends[1]);
    *code = up_await_ready(child, ends[0]);
    close(ends[0]);
    return false;
}

void up_detached(struct up *u)
{
    char *path = updir_path(&u->dir, "log/up.log");
    int log = path == NULL
                  ? -1
                  : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    int none = open("/dev/null", O_RDWR | O_CLOEXEC);
    ssize_t n;

    sl_free(path);
    if (none >= 0) {
        dup2(none, STDIN_FILENO);
        dup2(log >= 0 ? log : none, STDOUT_FILENO);
        dup2(log >= 0 ? log : none, STDERR_FILENO);
        close(none);
    }
    if (log >= 0)
        close(log);
    n = write(u->ready, "1", 1);
    (void)n; // the parent may be gone
}
