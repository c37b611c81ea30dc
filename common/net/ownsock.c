// SPDX-License-Identifier: Apache-2.0
// common/net/ownsock.c -- where a user's own coordinator listens.
#include "common/net/ownsock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/mem.h"

#define FILE_NAME "/up.sock"
#define PORT 7070 // of OWNSOCK_PORT
#define PLACES 3

// A folder in which no other user may rename ours: the user's or root's, and
// closed to others or sticky.
static bool base_holds(const char *base)
{
    struct stat st;

    return stat(base, &st) == 0 && S_ISDIR(st.st_mode) &&
           (st.st_uid == geteuid() || st.st_uid == 0) &&
           ((st.st_mode & 022) == 0 || (st.st_mode & S_ISVTX) != 0);
}

static bool is_ours_alone(const char *folder)
{
    struct stat st;

    return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

// True if the place `number` is one that can be asked for; `base` has to be
// there already, `folder` not.
static bool ownsock_get_place(int number, char base[OWNSOCK_BYTES],
                              char folder[OWNSOCK_BYTES])
{
    // A path that fits neither a sockaddr nor `out` is none.
    const size_t most =
        sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof(FILE_NAME);
    const char *run = getenv("XDG_RUNTIME_DIR");
    unsigned uid = (unsigned)geteuid();
    int n = 0;

    if (number == 0 && run != NULL && run[0] == '/') {
        snprintf(base, OWNSOCK_BYTES, "%s", run);
        n = snprintf(folder, OWNSOCK_BYTES, "%s/sluice", run);
    } else if (number == 1) {
        snprintf(base, OWNSOCK_BYTES, "/run/user/%u", uid);
        n = snprintf(folder, OWNSOCK_BYTES, "%s/sluice", base);
    } else if (number == 2) {
        snprintf(base, OWNSOCK_BYTES, "/tmp");
        n = snprintf(folder, OWNSOCK_BYTES, "/tmp/sluice-%u", uid);
    }
    return n > 0 && (size_t)n < most && base_holds(base);
}

enum sl_err ownsock_folder(char out[OWNSOCK_BYTES], struct sl_error *err)
{
    char base[OWNSOCK_BYTES], folder[OWNSOCK_BYTES], last[OWNSOCK_BYTES] = "";
    int why = ENOENT;

    for (int i = 0; i < PLACES; i++) {
        if (!ownsock_get_place(i, base, folder))
            continue;
        if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
            why = errno;
            snprintf(last, sizeof(last), "%s", folder);
            continue;
        }
        if (is_ours_alone(folder)) {
            snprintf(out, OWNSOCK_BYTES, "%s", folder);
            return SL_OK;
        }
        why = EPERM;
        snprintf(last, sizeof(last), "%s", folder);
    }
    if (last[0] == '\0')
        return sl_fail(
            err, SL_ENOENT,
            "no folder is known for a socket of your own: set XDG_RUNTIME_DIR");
    if (why == EPERM)
        return sl_fail(err, SL_EDENIED,
                       "%s is not a folder of yours with mode 0700: remove it, "
                       "or name another with XDG_RUNTIME_DIR",
                       last);
    return sl_fail(err, SL_EDENIED,
                   "%s: %s: the coordinator's socket lies there; name another "
                   "folder with XDG_RUNTIME_DIR",
                   last, strerror(why));
}

enum sl_err ownsock_make(char out[OWNSOCK_BYTES], struct sl_error *err)
{
    char folder[OWNSOCK_BYTES];
    enum sl_err rc = ownsock_folder(folder, err);

    if (rc == SL_OK)
        snprintf(out, OWNSOCK_BYTES, "unix:%.99s" FILE_NAME, folder);
    return rc;
}

// ---- finding

static bool answers(int family, const struct sockaddr *at, socklen_t size)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there = fd >= 0 && connect(fd, at, size) == 0;

    if (fd >= 0)
        close(fd);
    return there;
}

static bool socket_answers(const char *folder)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    snprintf(at.sun_path, sizeof(at.sun_path), "%.99s" FILE_NAME, folder);
    return answers(AF_UNIX, (struct sockaddr *)&at, sizeof(at));
}

static bool port_answers(void)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET,
        .sin_port = htons(PORT),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };

    return answers(AF_INET, (struct sockaddr *)&at, sizeof(at));
}

// The first socket that answers: `up` may have been started with another
// environment than ours.
static bool find_socket(char out[OWNSOCK_BYTES])
{
    char base[OWNSOCK_BYTES], folder[OWNSOCK_BYTES];

    for (int i = 0; i < PLACES; i++) {
        if (!ownsock_get_place(i, base, folder) || !is_ours_alone(folder) ||
            !socket_answers(folder))
            continue;
        snprintf(out, OWNSOCK_BYTES, "unix:%.99s" FILE_NAME, folder);
        return true;
    }
    return false;
}

const char *ownsock_find(char out[OWNSOCK_BYTES])
{
    if (!find_socket(out) &&
        (port_answers() || ownsock_make(out, NULL) != SL_OK))
        snprintf(out, OWNSOCK_BYTES, OWNSOCK_PORT);
    return out;
}
