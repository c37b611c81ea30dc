// SPDX-License-Identifier: Apache-2.0
// host/store/s3_object.c -- objects in one request each, and their names.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

#include "host/store/s3.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define MARK_HEADER "x-amz-meta-sluice"

// ---- names

static bool is_bucket(const char *at, size_t n)
{
    return n >= 3 && n <= 63 && strspn(at, LOWER DIGITS ".-") >= n &&
           strchr(".-", at[0]) == NULL && strchr(".-", at[n - 1]) == NULL &&
           memmem(at, n, "..", 2) == NULL;
}

// "data.example", "data.example:8443"
static bool is_web_host(const char *at, size_t n)
{
    size_t name = strspn(at, LOWER DIGITS ".-");

    if (n == 0 || n >= S3_BUCKET || name == 0 || strchr(".-", at[0]) != NULL)
        return false;
    if (name >= n)
        return true;
    return at[name] == ':' && n - name > 1 && n - name <= 6 &&
           name + 1 + strspn(at + name + 1, DIGITS) >= n;
}

// A part of a key: some clients, proxies and stores resolve dots.
static bool s3_is_key_part(const char *at, size_t n)
{
    if ((n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.'))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)at[i] < ' ' || at[i] == 0x7f)
            return false;
    return true;
}

// Reads the key from `at` in `path` to *out, each slash once.
static enum sl_err s3_key_of(struct s3_name *out, const char *path,
                             const char *at, struct sl_error *err)
{
    size_t n, len = 0;

    for (; *at != '\0'; at += n) {
        at += strspn(at, "/");
        n = strcspn(at, "/");
        if (!s3_is_key_part(at, n) ||
            len + (len > 0) + n + 1 > sizeof(out->key))
            return sl_fail(err, SL_EINVAL,
                           "%.200s: '.', '..' and control characters are no "
                           "names in S3, and 1024 bytes are the most",
                           path);
        if (n > 0 && len > 0)
            out->key[len++] = '/';
        memcpy(out->key + len, at, n);
        len += n;
    }
    out->key[len] = '\0';
    return SL_OK;
}

enum sl_err s3_name_of(struct s3_name *out, const char *path,
                       struct sl_error *err)
{
    const char *at = path;
    size_t n;

    if (strncmp(path, S3_SCHEME, strlen(S3_SCHEME)) != 0)
        return sl_fail(err, SL_EINVAL, "%.200s: not s3://BUCKET/KEY", path);
    at += strlen(S3_SCHEME);
    n = strcspn(at, "/");
    if (!is_bucket(at, n))
        return sl_fail(err, SL_EINVAL,
                       "%.200s: not a bucket's name, which has 3 to 63 "
                       "lower-case letters, digits, '-' and '.'",
                       path);
    snprintf(out->bucket, sizeof(out->bucket), "%.*s", (int)n, at);
    out->web = false;
    return s3_key_of(out, path, at + n, err);
}

enum sl_err s3_place_name_of(struct s3_name *out, const char *path,
                             struct sl_error *err)
{
    const char *at = path + strlen(S3_WEB_SCHEME);
    size_t n;

    if (strncmp(path, S3_WEB_SCHEME, strlen(S3_WEB_SCHEME)) != 0)
        return s3_name_of(out, path, err);
    n = strcspn(at, "/");
    if (!is_web_host(at, n))
        return sl_fail(err, SL_EINVAL,
                       "%.200s: not https://HOST[:PORT]/PATH, with the host in "
                       "lower case and without a user",
                       path);
    if (strpbrk(at, "?#\\") != NULL)
        return sl_fail(err, SL_EINVAL,
                       "%.200s: a place has a path alone, without '?', '#' and "
                       "'\\'",
                       path);
    snprintf(out->bucket, sizeof(out->bucket), "%.*s", (int)n, at);
    out->web = true;
    return s3_key_of(out, path, at + n, err);
}

enum sl_err s3_file_name_of(struct s3_name *out, const char *path,
                            struct sl_error *err)
{
    enum sl_err rc = s3_name_of(out, path, err);

    if (rc == SL_OK && out->key[0] == '\0')
        return sl_fail(err, SL_EINVAL, "%s is a bucket, not a file", path);
    return rc;
}

// ---- marks

void s3_mark(char out[S3_MARK])
{
    uint64_t chance = 0;

    if (getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
        chance = (uint64_t)(uintptr_t)out; // a mark that is less random
    snprintf(out, S3_MARK, "%016" PRIx64, chance);
}

bool s3_is_ours(struct s3 *s, const struct s3_name *name, const char *mark)
{
    const struct s3_ask ask = {.method = "HEAD", .name = name};
    struct s3_answer a;
    char found[S3_MARK] = "";
    bool ours = s3_call(s, &ask, &a, NULL) == SL_OK &&
                web_header(&a.web, MARK_HEADER, found, sizeof(found)) &&
                strcmp(found, mark) == 0;

    s3_answer_release(&a);
    return ours;
}

// ---- requests

static uint64_t s3_parse_size(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);

    return end == text || *text == '-' ? UINT64_MAX : value;
}

// Reads the ETag, the time, and the size of the whole object from the header.
static bool read_object(const struct web_answer *a, struct s3_object *out)
{
    char text[128];
    struct tm tm = {0};
    const char *slash;

    *out = (struct s3_object){.bytes = UINT64_MAX};
    (void)web_header(a, "ETag", out->etag, sizeof(out->etag));
    if (web_header(a, "Last-Modified", text, sizeof(text)) &&
        strptime(text, "%a, %d %b %Y %H:%M:%S", &tm) != NULL)
        out->mtime_s = (uint64_t)timegm(&tm);
    if (web_header(a, "Content-Range", text, sizeof(text))) {
        slash = strchr(text, '/');
        if (slash != NULL)
            out->bytes = s3_parse_size(slash + 1);
    } else if (web_header(a, "Content-Length", text, sizeof(text))) {
        out->bytes = s3_parse_size(text);
    }
    return out->bytes < (uint64_t)1 << 60;
}

static enum sl_err other_bytes(const struct s3_name *name, struct sl_error *err)
{
    return sl_fail(err, SL_EIO,
                   "%s%s/%s: the answer has other bytes than were asked "
                   "for; does a proxy lie between?",
                   s3_scheme(name), name->bucket, name->key);
}

// Returns true if a 206 answer is of the bytes from `offset` on.
static bool begins_at(const struct s3_answer *a, uint64_t offset)
{
    char text[128];

    return a->web.status != 206 ||
           (web_header(&a->web, "Content-Range", text, sizeof(text)) &&
            strncasecmp(text, "bytes ", 6) == 0 &&
            s3_parse_size(text + 6) == offset);
}

// What a GET of a range says.
static enum sl_err s3_object_read_range(const struct s3_answer *a,
                                        const struct s3_name *name,
                                        uint64_t offset, size_t n, size_t *got,
                                        struct s3_object *found,
                                        struct sl_error *err)
{
    uint64_t left;

    // A 200 is the whole object: fine at offset 0, else the range was ignored.
    if (!read_object(&a->web, found) || !begins_at(a, offset) ||
        (a->web.status == 200 && offset > 0))
        return other_bytes(name, err);
    left = found->bytes > offset ? found->bytes - offset : 0;
    if (a->web.into_bytes != (left < n ? left : n))
        return other_bytes(name, err);
    *got = a->web.into_bytes;
    return SL_OK;
}

enum sl_err s3_get(struct s3 *s, const struct s3_name *name, const char *etag,
                   uint64_t offset, void *to, size_t n, size_t *got,
                   struct s3_object *found, struct sl_error *err)
{
    char range[64];
    struct s3_ask ask = {.method = "GET",
                         .name = name,
                         .header = {{"range", range}},
                         .into = to,
                         .into_bytes = n};
    struct sl_error why = SL_ERROR_INIT;
    struct s3_object own;
    struct s3_answer a;
    enum sl_err rc;

    if (n == 0)
        return sl_fail(err, SL_EINVAL, "%s%s/%s: no bytes were asked for",
                       s3_scheme(name), name->bucket, name->key);
    snprintf(range, sizeof(range), "bytes=%" PRIu64 "-%" PRIu64, offset,
             offset + n - 1);
    if (etag != NULL && *etag != '\0')
        ask.header[1] = (struct sigv4_pair){"if-match", etag};
    rc = s3_call(s, &ask, &a, &why);
    if (rc == SL_OK) {
        rc = s3_object_read_range(&a, name, offset, n, got,
                                  found != NULL ? found : &own, err);
    } else if (a.web.status == 416 && offset == 0) { // of nothing
        *got = 0;
        if (found != NULL)
            *found = (struct s3_object){.bytes = 0};
        rc = SL_OK;
    } else if (a.web.status == 412) {
        rc = s3_replaced(name, err);
    } else {
        sl_fail(err, rc, "%s", why.text);
    }
    s3_answer_release(&a);
    return rc;
}

enum sl_err s3_head(struct s3 *s, const struct s3_name *name,
                    struct s3_object *found, struct sl_error *err)
{
    const struct s3_ask ask = {.method = "HEAD", .name = name};
    struct s3_answer a;
    enum sl_err rc = s3_call(s, &ask, &a, err);

    if (rc == SL_OK && !read_object(&a.web, found))
        rc = other_bytes(name, err);
    s3_answer_release(&a);
    return rc;
}

enum sl_err s3_replaced(const struct s3_name *name, struct sl_error *err)
{
    return sl_fail(err, SL_EIO, "%s%s/%s was replaced while it was being read",
                   s3_scheme(name), name->bucket, name->key);
}

enum sl_err s3_taken(const struct s3_name *name, struct sl_error *err)
{
    return sl_fail(err, SL_EEXIST, "s3://%s/%s exists already", name->bucket,
                   name->key);
}

enum sl_err s3_put(struct s3 *s, const struct s3_name *name, const void *bytes,
                   size_t n, bool fresh, struct sl_error *err)
{
    char mark[S3_MARK];
    struct s3_ask ask = {.method = "PUT",
                         .name = name,
                         .header = {{MARK_HEADER, mark}},
                         .body = n == 0 ? "" : bytes,
                         .body_bytes = n};
    struct sl_error why = SL_ERROR_INIT;
    struct s3_answer a;
    enum sl_err rc;

    s3_mark(mark);
    if (fresh)
        ask.header[1] = (struct sigv4_pair){"if-none-match", "*"};
    rc = s3_call(s, &ask, &a, &why);
    // Perhaps an earlier try wrote the object and its answer was lost; some
    // tries are curl's own.
    if (rc == SL_EEXIST && s3_is_ours(s, name, mark))
        rc = SL_OK;
    else if (rc == SL_EEXIST)
        s3_taken(name, err);
    else if (rc != SL_OK)
        sl_fail(err, rc, "%s", why.text);
    s3_answer_release(&a);
    return rc;
}

enum sl_err s3_delete(struct s3 *s, const struct s3_name *name,
                      struct sl_error *err)
{
    const struct s3_ask ask = {.method = "DELETE", .name = name};
    struct s3_answer a;
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc = s3_call(s, &ask, &a, &why);

    s3_answer_release(&a);
    if (rc == SL_OK || rc == SL_ENOENT)
        return SL_OK;
    return sl_fail(err, rc, "%s", why.text);
}
