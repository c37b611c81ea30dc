// SPDX-License-Identifier: Apache-2.0
// host/store/s3_answer.c -- what an answer means, and how to say it.
#include <stdio.h>
#include <string.h>

#include "host/store/s3.h"
#include "host/store/xml.h"

static bool s3_code_is_one_of(const char *code, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(code, *list) == 0)
            return true;
    return false;
}

// Copies text for a line of the log, without control characters: the peer may
// send any bytes.
static void s3_answer_copy_words(char *to, size_t size, const char *from)
{
    size_t n = 0;

    for (; *from != '\0' && n + 1 < size; from++)
        to[n++] = *from >= ' ' && *from <= '~' ? *from : '?';
    to[n] = '\0';
}

static enum sl_err s3_answer_read_field(void *arg, const char *path,
                                        const char *value)
{
    struct s3_answer *a = arg;

    if (strcmp(path, "Error/Code") == 0)
        s3_answer_copy_words(a->code, sizeof(a->code), value);
    else if (strcmp(path, "Error/Message") == 0)
        s3_answer_copy_words(a->message, sizeof(a->message), value);
    else if (strcmp(path, "Error/Region") == 0)
        s3_answer_copy_words(a->region, sizeof(a->region), value);
    return SL_OK;
}

// Some requests are answered with 200 while they are still being carried out,
// so that an error comes in the body.
static void read_error(struct s3_answer *a)
{
    char region[sizeof(a->region)];

    a->code[0] = a->message[0] = a->region[0] = '\0';
    if (a->web.body.len > 0)
        (void)xml_walk(buf_text(&a->web.body), a->web.body.len,
                       s3_answer_read_field, a, NULL);
    if (web_header(&a->web, "x-amz-bucket-region", region, sizeof(region)))
        s3_answer_copy_words(a->region, sizeof(a->region), region);
}

enum s3_verdict s3_judge(struct s3_answer *a, const char *method)
{
    static const char *const again[] = {"SlowDown",
                                        "RequestTimeout",
                                        "InternalError",
                                        "ServiceUnavailable",
                                        "OperationAborted",
                                        "ConditionalRequestConflict",
                                        "RequestLimitExceeded",
                                        "Throttling",
                                        "ThrottlingException",
                                        NULL};
    static const char *const keys[] = {"ExpiredToken", "ExpiredTokenException",
                                       "TokenRefreshRequired", NULL};
    long status = a->web.status;

    if (status == 0)
        return a->web.final ? S3_FAILED : S3_AGAIN;
    if (status / 100 == 2 && strcmp(method, "POST") != 0)
        return S3_DONE;
    read_error(a);
    if (s3_code_is_one_of(a->code, keys))
        return S3_KEYS;
    // The answer to a HEAD has no body, so its error has no code.
    if (strcmp(method, "HEAD") == 0 && status == 400)
        return S3_KEYS;
    if (s3_code_is_one_of(a->code, again) || status == 429 || status == 500 ||
        (status >= 502 && status <= 504))
        return S3_AGAIN;
    return status / 100 == 2 && a->code[0] == '\0' ? S3_DONE : S3_FAILED;
}

// ---- words

struct meaning {
    const char *code;
    enum sl_err rc;
    const char *next;
};

static const struct meaning *meaning_of(const struct s3_answer *a)
{
    static const struct meaning by_code[] = {
        {"SignatureDoesNotMatch", SL_EAUTH,
         "the secret key does not belong to the access key: correct the keys"},
        {"InvalidAccessKeyId", SL_EAUTH,
         "S3 knows no such access key: correct the keys"},
        {"InvalidToken", SL_EAUTH, "the session token is none: renew the keys"},
        {"ExpiredToken", SL_EAUTH,
         "the keys have expired and there are no newer ones: renew them"},
        {"RequestTimeTooSkewed", SL_EAUTH, "set the clock of this host"},
        {"AccessDenied", SL_EDENIED,
         "these keys may not do that: see docs/store.md for what is needed"},
        {"NoSuchBucket", SL_EINVAL, "make the bucket, or correct its name"},
        {"NotImplemented", SL_ENOTSUP,
         "what answers there lacks a part of S3 that is needed"},
    };
    static const struct meaning by_status[] = {
        {"401", SL_EAUTH, "correct the keys"},
        {"403", SL_EDENIED,
         "these keys may not do that: see docs/store.md for what is needed"},
        {"404", SL_ENOENT, NULL},
        {"412", SL_EEXIST, NULL},
        {"501", SL_ENOTSUP,
         "what answers there lacks a part of S3 that is needed"},
        {"500", SL_EUNAVAIL, "the service failed: check its state"},
        {"502", SL_EUNAVAIL, "the service failed: check its state"},
        {"503", SL_EUNAVAIL, "the service failed: check its state"},
        {"504", SL_EUNAVAIL, "the service failed: check its state"},
        {"429", SL_EUNAVAIL, "the service asks for fewer requests"},
        {"409", SL_EUNAVAIL,
         "another process writes this object at the same time"},
    };
    static const struct meaning other = {NULL, SL_EIO, NULL};
    char status[24];

    snprintf(status, sizeof(status), "%ld", a->web.status);
    for (size_t i = 0; i < SL_COUNT(by_code); i++)
        if (strcmp(a->code, by_code[i].code) == 0)
            return &by_code[i];
    for (size_t i = 0; i < SL_COUNT(by_status); i++)
        if (strcmp(status, by_status[i].code) == 0)
            return &by_status[i];
    return &other;
}

// What a status of a web server means that S3 does not give, or not for that.
static const struct meaning *meaning_of_web(const struct s3_answer *a)
{
    static const struct meaning moved = {
        NULL, SL_EDENIED,
        "redirects are not followed: name the address that it leads to"};
    static const struct meaning closed = {
        NULL, SL_EDENIED,
        "the server gives this to no stranger, and no keys are sent to it"};
    static const struct meaning changed = {NULL, SL_EEXIST, NULL};
    long status = a->web.status;

    return status / 100 == 3                ? &moved
           : status == 401 || status == 403 ? &closed
           : status == 412                  ? &changed
                                            : meaning_of(a);
}

// Returns the host that was asked.
static const char *s3_asked(const struct s3 *s, const struct s3_name *name)
{
    return name->web ? name->bucket : s->host;
}

static enum sl_err unanswered(const struct s3 *s, const struct s3_ask *ask,
                              const struct s3_answer *a, struct sl_error *err)
{
    return sl_fail(err, a->web.final ? SL_EIO : SL_EUNAVAIL,
                   "%s%s/%s: %s at %s: %s (tried %u times); is the %s "
                   "right, and can it be reached from here?",
                   s3_scheme(ask->name), ask->name->bucket, ask->name->key,
                   ask->method, s3_asked(s, ask->name), a->web.why, a->tries,
                   ask->name->web ? "name" : "endpoint");
}

enum sl_err s3_failed(const struct s3 *s, const struct s3_ask *ask,
                      const struct s3_answer *a, struct sl_error *err)
{
    const struct meaning *m =
        ask->name->web ? meaning_of_web(a) : meaning_of(a);
    // The answer names another region only if the request went to a wrong one.
    bool moved =
        !ask->name->web && a->region[0] != '\0' &&
        strcmp(a->region, s->region) != 0 &&
        (a->web.status == 301 || a->web.status == 307 || a->web.status == 400);
    enum sl_err rc = moved ? SL_EINVAL : m->rc;
    char next[128] = "", tries[48] = "";

    if (a->web.status == 0)
        return unanswered(s, ask, a, err);
    if (moved)
        snprintf(next, sizeof(next),
                 "; the bucket lies in another region: --s3-region %s",
                 a->region);
    else if (m->next != NULL)
        snprintf(next, sizeof(next), "; %s", m->next);
    if (a->tries > 1)
        snprintf(tries, sizeof(tries), " (tried %u times)", a->tries);
    return sl_fail(err, rc, "%s%s/%s: %s at %s: status %ld%s%s%s%s%s%s",
                   s3_scheme(ask->name), ask->name->bucket, ask->name->key,
                   ask->method, s3_asked(s, ask->name), a->web.status,
                   a->code[0] != '\0' ? " " : "", a->code,
                   a->message[0] != '\0' ? ": " : "", a->message, tries, next);
}
