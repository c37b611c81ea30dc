// SPDX-License-Identifier: Apache-2.0
// client/up/logfile.c -- copy, look again, cut.
#include "client/up/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

// Copies `from` to its end, including bytes that are appended meanwhile.
// Returns 0 or errno.
static int copy_all(int from, int to)
{
    ssize_t n;

    while ((n = sendfile(to, from, NULL, (size_t)1 << 20)) != 0)
        if (n < 0 && errno != EINTR)
            return errno;
    return 0;
}

static int logfile_rotate(const char *path, const char *old, uint64_t most)
{
    int from = open(path, O_RDWR | O_CLOEXEC), to, failed;
    struct stat s;

    if (from < 0)
        return errno == ENOENT ? 0 : errno;
    if (fstat(from, &s) != 0 || (uint64_t)s.st_size < most) {
        close(from);
        return 0;
    }
    to = open(old, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    failed = to < 0 ? errno : copy_all(from, to);
    // A disk that is full: better no old lines than no new ones.
    if (ftruncate(from, 0) != 0 && failed == 0)
        failed = errno;
    if (to >= 0)
        close(to);
    close(from);
    return failed;
}

enum sl_err logfile_bound(const char *path, uint64_t most, struct sl_error *err)
{
    char old[4096];
    int failed;

    if (snprintf(old, sizeof(old), "%s.1", path) >= (int)sizeof(old))
        return sl_fail(err, SL_ERANGE, "%.200s: the path is too long", path);
    failed = logfile_rotate(path, old, most);
    return failed == 0 ? SL_OK
                       : sl_fail(err, sl_err_from_errno(failed), "%s: %s", old,
                                 strerror(failed));
}
