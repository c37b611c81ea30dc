// SPDX-License-Identifier: Apache-2.0
// common/base/remote.c -- see remote.h.
#include "common/base/remote.h"

#include <string.h>

#define S3 "s3://"
#define WEB "https://"
#define BARE "http://"

static bool remote_begins(const char *path, const char *scheme)
{
    return strncmp(path, scheme, strlen(scheme)) == 0;
}

bool remote_is(const char *path)
{
    return remote_begins(path, S3) || remote_begins(path, WEB) ||
           remote_begins(path, BARE);
}

enum sl_err remote_check(const char *path, struct sl_error *err)
{
    bool web = remote_begins(path, WEB);
    const char *host = path + strlen(web ? WEB : S3);
    size_t n;

    if (remote_begins(path, BARE))
        return sl_fail(err, SL_EINVAL,
                       "%.160s: what comes over http:// may have been changed "
                       "on its way: use https://",
                       path);
    n = strcspn(host, "/");
    if (n == 0 || host[n] == '\0' || host[n + 1] == '\0' ||
        strcspn(host, "*{@?#") < n)
        return sl_fail(err, SL_EINVAL, "%.160s: a place is %s", path,
                       web ? "https://HOST[:PORT]/PATH, without a user and "
                             "without a pattern in the host"
                           : "s3://BUCKET/KEY, without a pattern in the "
                             "bucket");
    if (web && strpbrk(host, "?#") != NULL)
        return sl_fail(err, SL_EINVAL,
                       "%.160s: a place has a path alone, without '?' and '#'; "
                       "keys do not belong in a spec",
                       path);
    if (web && strchr(host, '*') != NULL)
        return sl_fail(err, SL_EINVAL,
                       "%.160s: a web server lists no names, so '*' finds "
                       "none: name the files, as in {00000..00331}.tar",
                       path);
    return SL_OK;
}
