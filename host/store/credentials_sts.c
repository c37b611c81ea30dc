// SPDX-License-Identifier: Apache-2.0
// host/store/credentials_sts.c -- keys of a role, from Amazon's STS in exchange
// for a token that Kubernetes keeps in a file (AssumeRoleWithWebIdentity).
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "host/store/credentials_inner.h"
#include "host/store/sigv4.h"
#include "host/store/xml.h"
#include "host/web/web.h"

#define CONNECT_MS 2000
#define ASK_MS 5000
#define TOKEN 20000  // bytes that STS takes
#define SESSION 65   // bytes of a session's name, with the 0
#define HOST_NAME 65 // Linux' limit, with the 0
#define ANSWER                                                                 \
    "AssumeRoleWithWebIdentityResponse/AssumeRoleWithWebIdentityResult/"       \
    "Credentials/"

enum sl_err amazon_host(struct buf *out, const char *service,
                        const char *region, struct sl_error *err)
{
    if (strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") !=
            strlen(region) ||
        strlen(region) > 40)
        return sl_fail(err, SL_EINVAL, "%.100s is not a region of Amazon",
                       region);
    if (buf_appendf(out, "%s.%s.amazonaws.com%s", service, region,
                    strncmp(region, "cn-", 3) == 0 ? ".cn" : "") != SL_OK)
        return sl_no_memory(err);
    return SL_OK;
}

// ---- the answer

struct sts_answer {
    struct credential key;
    const char *sent; // token that was sent, which no error repeats; or NULL
    char code[64], message[256];
};

static enum sl_err sts_keep(char **to, const char *value)
{
    sl_free(*to);
    *to = sl_strdup(value);
    return *to == NULL ? SL_ENOMEM : SL_OK;
}

static enum sl_err sts_read_field(void *arg, const char *path,
                                  const char *value)
{
    struct sts_answer *a = arg;

    if (strcmp(path, ANSWER "AccessKeyId") == 0)
        return sts_keep(&a->key.id, value);
    if (strcmp(path, ANSWER "SecretAccessKey") == 0)
        return sts_keep(&a->key.secret, value);
    if (strcmp(path, ANSWER "SessionToken") == 0)
        return sts_keep(&a->key.token, value);
    if (strcmp(path, ANSWER "Expiration") == 0)
        a->key.expires_s = credential_time(value);
    else if (a->sent != NULL && strstr(value, a->sent) != NULL)
        return SL_OK;
    else if (strcmp(path, "ErrorResponse/Error/Code") == 0)
        utf8_line(a->code, sizeof(a->code), value);
    else if (strcmp(path, "ErrorResponse/Error/Message") == 0)
        utf8_line(a->message, sizeof(a->message), value);
    return SL_OK;
}

enum sl_err credential_from_sts(struct credential *out, const char *text,
                                size_t n, const char *where,
                                struct sl_error *err)
{
    struct sts_answer a = {.sent = NULL};
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc = xml_walk(text, n, sts_read_field, &a, &why);

    if (rc == SL_ENOMEM)
        sl_no_memory(err);
    else if (rc != SL_OK)
        rc = sl_fail(err, SL_EAUTH, "%s: the answer is no set of keys: %s",
                     where, why.text);
    else if (a.key.id == NULL || a.key.secret == NULL || a.key.token == NULL ||
             a.key.expires_s == 0)
        rc = sl_fail(err, SL_EAUTH, "%s: the answer is no set of keys", where);
    else
        rc = credential_set(out, a.key.id, a.key.secret, a.key.token, err);
    if (rc == SL_OK)
        out->expires_s = a.key.expires_s;
    credential_release(&a.key);
    return rc;
}

// Returns what an operator does about an error of STS; NULL if its own words
// have to do.
static const char *sts_advice(const char *code)
{
    static const struct {
        const char *code, *advice;
    } rows[] = {
        {"AccessDenied", "let the trust policy of the role name the provider "
                         "and the service account of this pod"},
        {"ExpiredTokenException",
         "is the token in the file renewed, and the clock of this host right?"},
        {"InvalidIdentityToken", "register the provider of this cluster with "
                                 "IAM, for the audience sts.amazonaws.com"},
    };

    for (size_t i = 0; i < SL_COUNT(rows); i++)
        if (strcmp(code, rows[i].code) == 0)
            return rows[i].advice;
    return NULL;
}

// Returns true if the same request may succeed later.
static bool sts_may_recover(const struct web_answer *a, const char *code)
{
    static const char *const later[] = {"IDPCommunicationError", "Throttling",
                                        "ThrottlingException",
                                        "RequestLimitExceeded"};

    if (a->status == 0)
        return !a->final;
    for (size_t i = 0; i < SL_COUNT(later); i++)
        if (strcmp(code, later[i]) == 0)
            return true;
    return a->status >= 500 || a->status == 429;
}

// Says why the answer has no keys. `token` is what was sent.
static enum sl_err sts_refused(const char *where, const struct web_answer *web,
                               const char *token, struct sl_error *err)
{
    struct sts_answer a = {.sent = token};
    const char *advice;
    enum sl_err rc;

    if (web->body.len > 0)
        (void)xml_walk(buf_text(&web->body), web->body.len, sts_read_field, &a,
                       NULL);
    credential_release(&a.key);
    rc = sts_may_recover(web, a.code) ? SL_EUNAVAIL : SL_EAUTH;
    if (web->status == 0)
        return sl_fail(err, rc, "%s: %s", where, web->why);
    advice = sts_advice(a.code);
    return sl_fail(err, rc, "%s: status %ld%s%s%s%s%s%s", where, web->status,
                   a.code[0] != '\0' ? " " : "", a.code,
                   a.message[0] != '\0' ? ": " : "", a.message,
                   advice != NULL ? "; " : "", advice != NULL ? advice : "");
}

// ---- the request

// Returns true if STS of this region is Amazon's global one for programs that
// are told "legacy", as it was before regions had their own.
static bool sts_is_global(const char *region)
{
    static const char *const rows[] = {
        "ap-northeast-1", "ap-south-1",   "ap-southeast-1", "ap-southeast-2",
        "ca-central-1",   "eu-central-1", "eu-north-1",     "eu-west-1",
        "eu-west-2",      "eu-west-3",    "sa-east-1",      "us-east-1",
        "us-east-2",      "us-west-1",    "us-west-2"};
    const char *how = environment("AWS_STS_REGIONAL_ENDPOINTS");

    if (region == NULL)
        return true;
    for (size_t i = 0; how != NULL && i < SL_COUNT(rows); i++)
        if (strcasecmp(how, "legacy") == 0 && strcmp(region, rows[i]) == 0)
            return true;
    return false;
}

enum sl_err credential_sts_url(struct buf *out, struct sl_error *err)
{
    const char *url = environment("AWS_ENDPOINT_URL_STS");
    const char *region = environment("AWS_REGION");
    enum sl_err rc;

    if (url == NULL)
        url = environment("AWS_ENDPOINT_URL");
    if (region == NULL)
        region = environment("AWS_DEFAULT_REGION");
    if (url != NULL && !credential_may_ask(url))
        return sl_fail(err, SL_EAUTH,
                       "AWS_ENDPOINT_URL_STS, or AWS_ENDPOINT_URL: %.200s is "
                       "neither https nor on this host, or has more than a "
                       "host and a port before its path",
                       strchr(url, '@') != NULL ? "it" : url);
    if (url != NULL)
        rc = buf_append_str(out, url);
    else if (sts_is_global(region))
        rc = buf_append_str(out, "https://sts.amazonaws.com");
    else
        rc = buf_append_str(out, "https://");
    if (rc != SL_OK)
        return sl_no_memory(err);
    if (url == NULL && !sts_is_global(region))
        rc = amazon_host(out, "sts", region, err);
    return rc == SL_EINVAL ? sl_prefix(err, SL_EAUTH, "AWS_REGION") : rc;
}

// Writes the name under which Amazon's records show the session: the given one,
// or that of this host.
static void sts_session(char out[SESSION])
{
    const char *given = environment("AWS_ROLE_SESSION_NAME");
    char host[HOST_NAME] = "";

    if (given == NULL)
        (void)gethostname(host, sizeof(host) - 1);
    snprintf(out, SESSION, "%s%.57s", given != NULL ? given : "sluice-", host);
}

static enum sl_err sts_add(struct buf *body, const char *name,
                           const char *value)
{
    enum sl_err rc = buf_appendf(body, "&%s=", name);

    return rc == SL_OK ? sigv4_encode(body, value, false) : rc;
}

static enum sl_err sts_make_body(struct buf *body, const char *role,
                                 const char *token)
{
    char session[SESSION];
    // At once, so that no part of the token stays behind when it grows.
    enum sl_err rc =
        buf_reserve(body, 3 * (strlen(role) + strlen(token) + SESSION) + 256);

    sts_session(session);
    if (rc == SL_OK)
        rc = buf_append_str(
            body, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
    if (rc == SL_OK)
        rc = sts_add(body, "RoleArn", role);
    if (rc == SL_OK)
        rc = sts_add(body, "RoleSessionName", session);
    return rc == SL_OK ? sts_add(body, "WebIdentityToken", token) : rc;
}

static enum sl_err sts_read_token(struct buf *out, const char *path,
                                  struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc = fs_read_all(fs_posix(), path, TOKEN, out, &why);

    // No SL_ENOENT, which would have the next source asked.
    if (rc != SL_OK)
        return sl_fail(err, rc == SL_ENOMEM ? rc : SL_EAUTH,
                       "AWS_WEB_IDENTITY_TOKEN_FILE: %s", why.text);
    while (out->len > 0 && strchr(" \t\r\n", out->data[out->len - 1]) != NULL)
        out->data[--out->len] = '\0';
    if (out->len == 0)
        return sl_fail(err, SL_EAUTH,
                       "AWS_WEB_IDENTITY_TOKEN_FILE: %.200s is empty", path);
    return SL_OK;
}

static enum sl_err sts_ask(struct credential *out, const char *url,
                           const char *role, const char *token,
                           const struct buf *body, struct sl_error *err)
{
    const struct web_ask ask = {
        .method = "POST",
        .url = url,
        .header = {"Content-Type: application/x-www-form-urlencoded",
                   "Expect:"},
        .body = buf_text(body),
        .body_bytes = body->len,
        .anywhere = strncasecmp(url, "https://", 8) == 0,
        .trust = environment("AWS_CA_BUNDLE"),
        .connect_ms = CONNECT_MS,
        .timeout_ms = ASK_MS,
        .most = (size_t)64 << 10};
    uint64_t now = sl_wall_us(sl_clock_real()) / 1000000;
    char where[512];
    struct web_answer a;
    struct web *w = web_new();
    enum sl_err rc;

    if (w == NULL)
        return sl_no_memory(err);
    snprintf(where, sizeof(where),
             "STS at %.200s, which gives keys of the role %.200s for "
             "AWS_WEB_IDENTITY_TOKEN_FILE",
             url, role);
    web_call(w, &ask, &a);
    rc = a.status == 200 ? credential_from_sts(out, buf_text(&a.body),
                                               a.body.len, where, err)
                         : sts_refused(where, &a, token, err);
    if (rc == SL_OK && out->expires_s <= now) {
        credential_release(out);
        rc = sl_fail(err, SL_EAUTH,
                     "%s: the keys had expired when they came: set the clock "
                     "of this host",
                     where);
    }
    credential_wipe(&a.body);
    web_answer_release(&a);
    web_free(w);
    return rc;
}

enum sl_err credential_from_web_identity(struct credential *out,
                                         struct sl_error *err)
{
    const char *path = environment("AWS_WEB_IDENTITY_TOKEN_FILE");
    const char *role = environment("AWS_ROLE_ARN");
    struct buf url = BUF_INIT, token = BUF_INIT, body = BUF_INIT;
    enum sl_err rc;

    if (path == NULL)
        return SL_ENOENT;
    if (role == NULL)
        return sl_fail(err, SL_EAUTH,
                       "the environment has AWS_WEB_IDENTITY_TOKEN_FILE, but "
                       "not AWS_ROLE_ARN: set both, or none");
    rc = credential_sts_url(&url, err);
    if (rc == SL_OK)
        rc = sts_read_token(&token, path, err);
    if (rc == SL_OK && sts_make_body(&body, role, buf_text(&token)) != SL_OK)
        rc = sl_no_memory(err);
    if (rc == SL_OK)
        rc = sts_ask(out, buf_text(&url), role, buf_text(&token), &body, err);
    credential_wipe(&token);
    credential_wipe(&body);
    buf_release(&url);
    return rc;
}
