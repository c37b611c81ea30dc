// SPDX-License-Identifier: Apache-2.0
// host/store/credentials_role.c -- keys of a role, from the container's agent
// or the machine's metadata service (IMDSv2).
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "common/base/buf.h"
#include "common/base/fs.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "host/store/credentials_inner.h"
#include "host/web/web.h"

#define MACHINE "http://169.254.169.254"
#define CONTAINER "http://169.254.170.2"
#define ROLES "/latest/meta-data/iam/security-credentials/"
#define CONNECT_MS 1000
#define ASK_MS 5000
#define URL 1024
#define TOKEN 4096 // bytes of a header

static enum sl_err incomplete(const char *where, struct sl_error *err)
{
    return sl_fail(err, SL_EAUTH, "%s: the answer is no set of keys", where);
}

uint64_t credential_time(const char *text)
{
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    time_t s = end == NULL ? -1 : timegm(&tm);

    return s < 0 ? 0 : (uint64_t)s;
}

enum sl_err credential_from_json(struct credential *out, const char *text,
                                 size_t n, const char *where,
                                 struct sl_error *err)
{
    const char *id, *secret, *token = NULL, *until = NULL, *code = NULL;
    json_t *all = NULL;
    enum sl_err rc;

    if (sl_json_parse(&all, where, text, n, NULL, NULL) != SL_OK)
        return incomplete(where, err);
    (void)sl_json_str(&token, all, "Token", NULL);
    (void)sl_json_str(&until, all, "Expiration", NULL);
    (void)sl_json_str(&code, all, "Code", NULL);
    if (code != NULL && strcmp(code, "Success") != 0)
        rc = sl_fail(err, SL_EAUTH, "%s says %.100s instead of keys", where,
                     code);
    else if (sl_json_str(&id, all, "AccessKeyId", NULL) != SL_OK ||
             sl_json_str(&secret, all, "SecretAccessKey", NULL) != SL_OK ||
             (until != NULL && credential_time(until) == 0))
        rc = incomplete(where, err);
    else
        rc = credential_set(out, id, secret, token, err);
    if (rc == SL_OK && until != NULL)
        out->expires_s = credential_time(until);
    json_decref(all);
    return rc;
}

// Only text that can be a part of a header or URL: no blanks, no line ends.
static bool credential_role_read_line(const struct web_answer *a, char *out,
                                      size_t size)
{
    const char *text = buf_text(&a->body);
    size_t n = strcspn(text, "\r\n");

    if (n == 0 || n >= size ||
        n != strspn(text, "!\"#$%&'()*+,-./0123456789:;"
                          "<=>?@ABCDEFGHIJKLMNOPQRSTUVWX"
                          "YZ[\\]^_`abcdefghijklmnopqrst"
                          "uvwxyz{|}~"))
        return false;
    memcpy(out, text, n);
    out[n] = '\0';
    return true;
}

static enum sl_err credential_role_fail(const char *url,
                                        const struct web_answer *a,
                                        struct sl_error *err)
{
    if (a->status == 0)
        return sl_fail(err, SL_EUNAVAIL, "%s, which gives keys: %s", url,
                       a->why);
    return sl_fail(err, a->status >= 500 ? SL_EUNAVAIL : SL_EAUTH,
                   "%s, which gives keys, answers with status %ld", url,
                   a->status);
}

static struct web_ask credential_role_make_get(const char *url,
                                               const char *header)
{
    return (struct web_ask){.method = "GET",
                            .url = url,
                            .header = {header},
                            .connect_ms = CONNECT_MS,
                            .timeout_ms = ASK_MS,
                            .most = (size_t)64 << 10};
}

// ---- of a container

// Returns true for an address on the host itself. Plain HTTP is used to no
// other, because the token could be read on the way.
static bool credential_role_is_near(const char *host, size_t bytes)
{
    static const char *const near[] = {"127.0.0.1",      "localhost",
                                       "[::1]",          "169.254.170.2",
                                       "169.254.170.23", "[fd00:ec2::23]"};

    for (size_t i = 0; i < SL_COUNT(near); i++) {
        size_t n = strlen(near[i]);

        if (bytes < n || strncasecmp(host, near[i], n) != 0)
            continue;
        if (bytes == n || (host[n] == ':' &&
                           strspn(host + n + 1, "0123456789") == bytes - n - 1))
            return true;
    }
    return false;
}

// A host, and a port: nothing that another reader of it takes for an end of
// the host, or for a user before it.
static bool is_host(const char *host, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (host[i] <= ' ' || host[i] > '~' ||
            strchr("@\\%\"<>^`{|}", host[i]) != NULL)
            return false;
    return bytes > 0;
}

bool credential_may_ask(const char *url)
{
    bool tls = strncasecmp(url, "https://", 8) == 0;
    const char *host = url + (tls ? 8 : 7);
    size_t n;

    if (!tls && strncasecmp(url, "http://", 7) != 0)
        return false;
    n = strcspn(host, "/?#");
    return is_host(host, n) && (tls || credential_role_is_near(host, n));
}

// The header that the agent wants; "" if it wants none.
static enum sl_err container_header(char *out, size_t size,
                                    struct sl_error *err)
{
    const char *token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    const char *path = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    struct buf text = BUF_INIT;
    enum sl_err rc = SL_OK;
    size_t n = 0;

    out[0] = '\0';
    if (path != NULL)
        rc = fs_read_all(fs_posix(), path, TOKEN, &text, err);
    // SL_ENOENT would say that no container was named, and have the machine's
    // role asked in its place.
    if (rc == SL_ENOENT)
        rc = sl_fail(err, SL_EAUTH,
                     "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: there is no file "
                     "%.200s",
                     path);
    if (rc == SL_OK && path != NULL)
        token = buf_text(&text);
    if (rc == SL_OK && token != NULL) {
        n = strcspn(token, "\r\n");
        if (n + 16 > size)
            rc = sl_fail(err, SL_EAUTH, "the container's token is too long");
        else
            snprintf(out, size, "Authorization: %.*s", (int)n, token);
    }
    credential_wipe(&text);
    return rc;
}

enum sl_err credential_from_container(struct credential *out,
                                      struct sl_error *err)
{
    const char *part = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    char url[URL], header[TOKEN + 32];
    struct web_answer a;
    struct web_ask ask;
    struct web *w;
    enum sl_err rc;

    if (part == NULL && full == NULL)
        return SL_ENOENT;
    if ((size_t)snprintf(url, sizeof(url), "%s%s",
                         part != NULL ? CONTAINER : "",
                         part != NULL ? part : full) >= sizeof(url))
        return sl_fail(err, SL_EAUTH,
                       "AWS_CONTAINER_CREDENTIALS_%s_URI has more than %d "
                       "bytes",
                       part != NULL ? "RELATIVE" : "FULL", URL - 1);
    if (!credential_may_ask(url))
        return sl_fail(err, SL_EAUTH,
                       "AWS_CONTAINER_CREDENTIALS_%s_URI: %.200s is neither "
                       "https nor on this host, or has more than a host and "
                       "a port before its path",
                       part != NULL ? "RELATIVE" : "FULL",
                       strchr(url, '@') != NULL ? "it" : url);
    rc = container_header(header, sizeof(header), err);
    if (rc != SL_OK)
        return rc;
    w = web_new();
    if (w == NULL)
        return sl_fail(err, SL_ENOMEM, "out of memory for keys");
    ask = credential_role_make_get(url, header[0] != '\0' ? header : NULL);
    ask.anywhere = strncasecmp(url, "https://", 8) == 0;
    web_call(w, &ask, &a);
    rc = a.status == 200 ? credential_from_json(out, buf_text(&a.body),
                                                a.body.len, url, err)
                         : credential_role_fail(url, &a, err);
    explicit_bzero(header, sizeof(header));
    credential_wipe(&a.body);
    web_answer_release(&a);
    web_free(w);
    return rc;
}

// ---- of a machine

static const char *machine(void)
{
    const char *at = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT");

    return at == NULL ? MACHINE : at;
}

// Fetches the token that IMDSv2 demands before it answers. If no service
// answers, this machine has no role.
static enum sl_err machine_token(struct web *w, char *header, size_t size,
                                 struct sl_error *err)
{
    char url[URL], token[512];
    struct web_ask ask = credential_role_make_get(
        url, "X-aws-ec2-metadata-token-ttl-seconds: 300");
    struct web_answer a;
    enum sl_err rc = SL_OK;

    snprintf(url, sizeof(url), "%s/latest/api/token", machine());
    ask.method = "PUT";
    ask.body = "";
    web_call(w, &ask, &a);
    if (a.status == 0)
        rc = SL_ENOENT;
    else if (a.status != 200 ||
             !credential_role_read_line(&a, token, sizeof(token)))
        rc = credential_role_fail(url, &a, err);
    else
        snprintf(header, size, "X-aws-ec2-metadata-token: %s", token);
    web_answer_release(&a);
    return rc;
}

static enum sl_err ask_machine(struct web *w, struct credential *out,
                               struct sl_error *err)
{
    char header[600], url[URL], role[256];
    struct web_ask ask = credential_role_make_get(url, header);
    struct web_answer a;
    enum sl_err rc = machine_token(w, header, sizeof(header), err);

    if (rc != SL_OK)
        return rc;
    snprintf(url, sizeof(url), "%s" ROLES, machine());
    web_call(w, &ask, &a);
    if (a.status == 404)
        rc = SL_ENOENT; // a machine without a role
    else if (a.status != 200 ||
             !credential_role_read_line(&a, role, sizeof(role)))
        rc = credential_role_fail(url, &a, err);
    web_answer_release(&a);
    if (rc != SL_OK)
        return rc;
    snprintf(url, sizeof(url), "%s" ROLES "%s", machine(), role);
    web_call(w, &ask, &a);
    rc = a.status == 200 ? credential_from_json(out, buf_text(&a.body),
                                                a.body.len, url, err)
                         : credential_role_fail(url, &a, err);
    credential_wipe(&a.body);
    web_answer_release(&a);
    return rc;
}

enum sl_err credential_from_machine(struct credential *out,
                                    struct sl_error *err)
{
    const char *off = environment("AWS_EC2_METADATA_DISABLED");
    struct web *w;
    enum sl_err rc;

    if (off != NULL && strcasecmp(off, "true") == 0)
        return SL_ENOENT;
    w = web_new();
    if (w == NULL)
        return sl_fail(err, SL_ENOMEM, "out of memory for keys");
    rc = ask_machine(w, out, err);
    web_free(w);
    return rc;
}
