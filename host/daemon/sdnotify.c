// SPDX-License-Identifier: Apache-2.0
// host/daemon/sdnotify.c -- the datagrams of systemd's notify protocol.
#include "host/daemon/sdnotify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum sl_err sdnotify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = path != NULL ? strlen(path) : 0;
    ssize_t sent;
    int fd;

    if (n < 2 || n >= sizeof(to.sun_path) || (*path != '/' && *path != '@'))
        return SL_ENOENT;
    memcpy(to.sun_path, path, n);
    if (*path == '@')
        to.sun_path[0] = '\0'; // the abstract name space
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return SL_EIO;
    sent =
        sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    close(fd);
    return sent == (ssize_t)strlen(state) ? SL_OK : SL_EIO;
}

uint64_t sdnotify_watchdog_ms(void)
{
    const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t half_ms;

    if (us == NULL || (pid != NULL && strtol(pid, NULL, 10) != getpid()))
        return 0;
    half_ms = strtoull(us, NULL, 10) / 2000;
    return half_ms;
}
