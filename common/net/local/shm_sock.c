// SPDX-License-Identifier: Apache-2.0
// common/net/local/shm_sock.c -- the socket; see shm.h.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/net/local/shm.h"

#define BACKLOG 64

static enum sl_err shm_sock_fail(struct sl_error *err, const char *path)
{
    int e = errno;

    return sl_fail(err, sl_err_from_errno(e), "%s: %s", path, strerror(e));
}

// A path that does not fit goes by way of its folder's descriptor, which the
// caller closes when it is done (-1: not needed).
static enum sl_err address_of(struct sockaddr_un *out, int *folder,
                              const char *path, struct sl_error *err)
{
    const char *name = strrchr(path, '/');
    char parent[PATH_MAX];
    int n;

    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    *folder = -1;
    if (strlen(path) < sizeof(out->sun_path)) {
        memcpy(out->sun_path, path, strlen(path) + 1);
        return SL_OK;
    }
    if (name == NULL || name - path >= (ptrdiff_t)sizeof(parent))
        return sl_fail(err, SL_ERANGE, "%.60s...: too long", path);
    memcpy(parent, path, (size_t)(name - path));
    parent[name - path] = '\0';
    *folder = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*folder < 0)
        return shm_sock_fail(err, parent);
    n = snprintf(out->sun_path, sizeof(out->sun_path), "/proc/self/fd/%d%s",
                 *folder, name);
    if (n > 0 && (size_t)n < sizeof(out->sun_path))
        return SL_OK;
    close(*folder);
    *folder = -1;
    return sl_fail(err, SL_ERANGE, "%s: too long for a socket", name);
}

static void close_maybe(int fd)
{
    if (fd >= 0)
        close(fd);
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

// Sets the socket's mode before any process can connect.
static bool bind_private(int fd, const struct sockaddr_un *at)
{
    return bind(fd, (const struct sockaddr *)at, sizeof(*at)) == 0 &&
           chmod(at->sun_path, 0600) == 0 && listen(fd, BACKLOG) == 0;
}

enum sl_err shm_listen(int *out, const char *path, struct sl_error *err)
{
    struct sockaddr_un at;
    int folder, fd;
    enum sl_err rc = address_of(&at, &folder, path, err);

    if (rc != SL_OK)
        return rc;
    fd = new_socket();
    (void)unlink(at.sun_path);
    if (fd < 0 || !bind_private(fd, &at)) {
        rc = shm_sock_fail(err, path);
        close_maybe(fd);
    }
    close_maybe(folder);
    if (rc == SL_OK)
        *out = fd;
    return rc;
}

// Returns true if the process at the other end belongs to this user, whatever
// the folder's mode permits.
static bool shm_sock_is_ours(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
           peer.uid == geteuid();
}

enum sl_err shm_accept(int *out, int listening)
{
    int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return SL_EBUSY;
        return errno == ECONNABORTED || errno == EINTR ? SL_EDENIED : SL_EIO;
    }
    if (!shm_sock_is_ours(fd)) {
        close(fd);
        return SL_EDENIED;
    }
    *out = fd;
    return SL_OK;
}

enum sl_err shm_connect(int *out, const char *path, struct sl_error *err)
{
    struct sockaddr_un at;
    int folder, fd;
    enum sl_err rc = address_of(&at, &folder, path, err);

    if (rc != SL_OK)
        return rc;
    fd = new_socket();
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0)
        rc = shm_sock_fail(err, path);
    else if (!shm_sock_is_ours(fd))
        rc = sl_fail(err, SL_EDENIED, "%s: another user's", path);
    close_maybe(folder);
    if (rc == SL_OK)
        *out = fd;
    else
        close_maybe(fd);
    return rc;
}

// Room for one descriptor: what else is sent, the kernel closes.
union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int))];
};

enum sl_err shm_send(int fd, const void *bytes, size_t n, int pass)
{
    struct iovec part = {(void *)(uintptr_t)bytes, n};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    union control c;
    ssize_t sent;

    if (pass >= 0) {
        memset(&c, 0, sizeof(c));
        m.msg_control = &c;
        m.msg_controllen = CMSG_LEN(sizeof(int));
        c.align.cmsg_level = SOL_SOCKET;
        c.align.cmsg_type = SCM_RIGHTS;
        c.align.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&c.align), &pass, sizeof(pass));
    }
    sent = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent == (ssize_t)n)
        return SL_OK;
    return sent < 0 && (errno == EAGAIN || errno == EINTR) ? SL_EBUSY
                                                           : SL_EUNAVAIL;
}

enum sl_err shm_receive(int fd, void *bytes, size_t n, int *passed)
{
    struct iovec part = {bytes, n};
    union control c;
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &c,
                       .msg_controllen = CMSG_LEN(sizeof(int))};
    struct cmsghdr *head;
    int got = -1;
    ssize_t len;

    memset(&c, 0, sizeof(c));
    len = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (len < 0)
        return errno == EAGAIN || errno == EINTR ? SL_EBUSY : SL_EUNAVAIL;
    head = CMSG_FIRSTHDR(&m);
    if (head != NULL && head->cmsg_level == SOL_SOCKET &&
        head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&got, CMSG_DATA(head), sizeof(got));
    if (len == 0 || (size_t)len != n ||
        m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
        close_maybe(got);
        return len == 0 ? SL_EUNAVAIL : SL_ECORRUPT;
    }
    *passed = got;
    return SL_OK;
}
