// SPDX-License-Identifier: Apache-2.0
// host/store/credentials_file.c -- keys of a profile in a file.
#include <string.h>

#include "common/base/buf.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "host/store/credentials_inner.h"

#define FILE_MAX ((size_t)1 << 20)
#define VALUE ((size_t)8 << 10)

struct credentials_reader {
    const char *profile;
    bool inside, seen; // the profile
    char id[256], secret[256], token[VALUE];
};

static const char *credentials_trim(const char *at, size_t *n)
{
    while (*n > 0 && strchr(" \t\r", *at) != NULL) {
        at++;
        --*n;
    }
    while (*n > 0 && strchr(" \t\r", at[*n - 1]) != NULL)
        --*n;
    return at;
}

static bool credentials_text_is(const char *at, size_t n, const char *text)
{
    return n == strlen(text) && memcmp(at, text, n) == 0;
}

static void credentials_read_section(struct credentials_reader *r,
                                     const char *at, size_t n)
{
    const char *stop = memchr(at, ']', n);
    size_t words;

    if (stop == NULL)
        return;
    words = (size_t)(stop - at) - 1;
    at = credentials_trim(at + 1, &words);
    if (words > 8 && memcmp(at, "profile ", 8) == 0) {
        words -= 8;
        at = credentials_trim(at + 8, &words);
    }
    r->inside = credentials_text_is(at, words, r->profile);
    r->seen |= r->inside;
}

static bool credentials_read_value(struct credentials_reader *r, const char *at,
                                   size_t n)
{
    const char *equal = memchr(at, '=', n), *value;
    size_t key = equal == NULL ? 0 : (size_t)(equal - at), bytes, space;
    char *to;

    if (equal == NULL || !r->inside)
        return true;
    bytes = n - key - 1;
    at = credentials_trim(at, &key);
    value = credentials_trim(equal + 1, &bytes);
    if (credentials_text_is(at, key, "aws_access_key_id")) {
        to = r->id;
        space = sizeof(r->id);
    } else if (credentials_text_is(at, key, "aws_secret_access_key")) {
        to = r->secret;
        space = sizeof(r->secret);
    } else if (credentials_text_is(at, key, "aws_session_token")) {
        to = r->token;
        space = sizeof(r->token);
    } else {
        return true;
    }
    if (bytes >= space)
        return false;
    memcpy(to, value, bytes);
    to[bytes] = '\0';
    return true;
}

static bool credentials_read_line(struct credentials_reader *r, const char *at,
                                  size_t n)
{
    at = credentials_trim(at, &n);
    if (n == 0 || *at == '#' || *at == ';')
        return true;
    if (*at != '[')
        return credentials_read_value(r, at, n);
    credentials_read_section(r, at, n);
    return true;
}

enum sl_err credential_parse(struct credential *out, const char *path,
                             const char *text, const char *profile,
                             struct sl_error *err)
{
    struct credentials_reader r = {.profile = profile};
    unsigned line = 0;
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && *text != '\0') {
        size_t n = strcspn(text, "\n");

        line++;
        if (!credentials_read_line(&r, text, n))
            rc = sl_fail(err, SL_EAUTH,
                         "%s:%u: the value is too long for a key", path, line);
        text += n + (text[n] == '\n');
    }
    if (rc == SL_OK && !r.seen)
        rc = sl_fail(err, SL_ENOENT, "%s has no profile '%s'", path, profile);
    else if (rc == SL_OK && (r.id[0] == '\0' || r.secret[0] == '\0'))
        rc = sl_fail(err, SL_EAUTH,
                     "%s: the profile '%s' has no aws_access_key_id and "
                     "aws_secret_access_key",
                     path, profile);
    if (rc == SL_OK) {
        rc = credential_set(out, r.id, r.secret, r.token, err);
        if (rc != SL_OK)
            sl_prefix(err, rc, "%s, profile '%s'", path, profile);
    }
    explicit_bzero(&r, sizeof(r));
    return rc;
}

enum sl_err credential_from_file(struct credential *out, const char *path,
                                 const char *profile, bool must,
                                 struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    struct buf text = BUF_INIT;
    enum sl_err rc = fs_read_all(fs_posix(), path, FILE_MAX, &text, &why);

    if (rc == SL_OK)
        rc = credential_parse(out, path, buf_text(&text), profile, &why);
    credential_wipe(&text);
    if (rc == SL_OK || (rc == SL_ENOENT && !must))
        return rc;
    return sl_fail(err, SL_EAUTH, "keys for S3: %s", why.text);
}
