// SPDX-License-Identifier: Apache-2.0
// host/store/s3.c -- one request: made, signed, sent, and sent again.
#include "host/store/s3.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/base/file_wait.h"
#include "common/run/log.h"
#include "host/store/credentials_inner.h"

#define CONNECT_MS 5000
#define STALL_MS 10000
#define WHOLE_MS 180000   // of one try, and what its bytes take
#define SLOWEST_PER_MS 32 // bytes
#define FIRST_PAUSE_MS 100
#define MOST_PAUSE_MS 5000
#define TELL_MS 10000
#define SLEEP_MS 200 // at most, between two looks at whether to leave
#define ANSWER_BYTES ((size_t)16 << 20) // a page of 1000 names has 3 MiB
#define HEADERS 13                      // of ours and of an ask

static struct web *take_web(struct s3 *s)
{
    struct web *w = NULL;

    pthread_mutex_lock(&s->lock);
    if (s->idle_count > 0)
        w = s->idle[--s->idle_count];
    pthread_mutex_unlock(&s->lock);
    return w == NULL ? web_new() : w;
}

static void give_web(struct s3 *s, struct web *w)
{
    pthread_mutex_lock(&s->lock);
    if (s->idle_count < S3_CONNECTIONS) {
        s->idle[s->idle_count++] = w;
        w = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    web_free(w);
}

// ---- a request in words

// Texts of one try; its pairs and lines point into each other.
struct request {
    struct buf host, path, url, authorization, lines;
    char date[SIGV4_DATE], payload[SHA256_HEX];
    struct sigv4_pair header[HEADERS + 1]; // signed
    size_t count;
    struct credential key;
};

static void request_release(struct request *r)
{
    credential_release(&r->key);
    buf_release(&r->host);
    buf_release(&r->path);
    buf_release(&r->url);
    buf_release(&r->authorization);
    credential_wipe(&r->lines); // which have the session token
}

// Where it goes: the bucket in the host's name, or in the path.
static enum sl_err make_where(struct request *r, const struct s3 *s,
                              const struct s3_ask *ask)
{
    const struct s3_name *name = ask->name;
    bool by_path = s->by_path || strchr(name->bucket, '.') != NULL;
    enum sl_err rc =
        name->web ? buf_append_str(&r->host, name->bucket)
        : by_path ? buf_append_str(&r->host, s->host)
                  : buf_appendf(&r->host, "%s.%s", name->bucket, s->host);

    if (rc == SL_OK && !name->web)
        rc = buf_append_str(&r->path, s->base);
    if (rc == SL_OK && by_path && !name->web)
        rc = buf_appendf(&r->path, "/%s", name->bucket);
    if (rc == SL_OK && (!ask->of_bucket || !by_path))
        rc = buf_append_char(&r->path, '/');
    if (rc == SL_OK && !ask->of_bucket)
        rc = sigv4_encode(&r->path, name->key, true);
    if (rc == SL_OK)
        rc = buf_appendf(&r->url, "http%s://%s%s",
                         s->tls || name->web ? "s" : "", buf_text(&r->host),
                         buf_text(&r->path));
    if (rc == SL_OK && ask->query[0].name != NULL)
        rc = buf_append_char(&r->url, '?');
    return rc == SL_OK ? sigv4_query(&r->url, ask->query) : rc;
}

static void add_header(struct request *r, const char *name, const char *value)
{
    r->header[r->count++] = (struct sigv4_pair){name, value};
}

static void list_headers(struct request *r, const struct s3_ask *ask)
{
    add_header(r, "host", buf_text(&r->host));
    if (!ask->name->web) {
        add_header(r, "x-amz-date", r->date);
        add_header(r, "x-amz-content-sha256", r->payload);
    }
    if (r->key.token != NULL)
        add_header(r, "x-amz-security-token", r->key.token);
    if (ask->body != NULL)
        add_header(r, "content-type", "application/octet-stream");
    for (size_t i = 0; i < S3_PAIRS && ask->header[i].name != NULL; i++)
        add_header(r, ask->header[i].name, ask->header[i].value);
}

// As lines, and where in them each begins: *web gets pointers at the end, when
// the text moves no more.
static enum sl_err make_lines(struct request *r, struct web_ask *web)
{
    size_t at[HEADERS + 2], count = 0;
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < r->count; i++) {
        at[count++] = r->lines.len;
        rc = buf_appendf(&r->lines, "%s: %s", r->header[i].name,
                         r->header[i].value);
        if (rc == SL_OK)
            rc = buf_append_char(&r->lines, '\0');
    }
    if (r->authorization.len > 0) {
        at[count++] = r->lines.len;
        rc = rc != SL_OK ? rc
                         : buf_appendf(&r->lines, "Authorization: %s",
                                       buf_text(&r->authorization));
    }
    for (size_t i = 0; rc == SL_OK && i < count; i++)
        web->header[i] = (const char *)r->lines.data + at[i];
    // Not to wait for a word before a large body is sent.
    web->header[count] = "Expect:";
    return rc;
}

static enum sl_err make_request(struct request *r, struct web_ask *web,
                                struct s3 *s, const struct s3_ask *ask)
{
    struct sigv4 sign = {.method = ask->method,
                         .query = ask->query,
                         .header = r->header,
                         .payload = r->payload,
                         .region = s->region,
                         .service = "s3",
                         .key_id = r->key.id,
                         .secret = r->key.secret};
    enum sl_err rc = make_where(r, s, ask);

    sigv4_date(r->date, sl_wall_us(sl_clock_real()));
    memcpy(sign.date, r->date, sizeof(sign.date));
    if (rc == SL_OK)
        rc = sigv4_hash(r->payload, ask->body == NULL ? "" : ask->body,
                        ask->body == NULL ? 0 : ask->body_bytes);
    if (rc != SL_OK)
        return rc;
    list_headers(r, ask);
    sign.path = buf_text(&r->path);
    if (!ask->name->web)
        rc = sigv4_sign(&r->authorization, &sign);
    if (rc == SL_OK)
        rc = make_lines(r, web);
    return rc;
}

// ---- sent

// Returns the time limit of a whole request, in ms: a peer that sends a byte
// now and then does not stall, and would never end.
static uint32_t whole_ms(const struct s3_ask *ask)
{
    uint64_t bytes = ask->body_bytes + ask->into_bytes;
    uint64_t ms = WHOLE_MS + bytes / SLOWEST_PER_MS;

    return ms < INT32_MAX ? (uint32_t)ms : INT32_MAX;
}

static bool s3_leaves(void *arg)
{
    return atomic_load(&((struct s3 *)arg)->leaving) || !file_wait_goes_on();
}

static enum sl_err send_once(struct s3 *s, const struct s3_ask *ask,
                             struct s3_answer *out, struct sl_error *err)
{
    struct request r = {.count = 0};
    struct web_ask web = {.method = ask->method,
                          .body = ask->body,
                          .body_bytes = ask->body_bytes,
                          .anywhere = true,
                          .trust = s->trust,
                          .connect_ms = CONNECT_MS,
                          .stall_ms =
                              ask->stall_ms != 0 ? ask->stall_ms : STALL_MS,
                          .timeout_ms = whole_ms(ask),
                          .most = ANSWER_BYTES,
                          .leave = s3_leaves,
                          .arg = s,
                          .into = ask->into,
                          .into_bytes = ask->into_bytes};
    struct web *w = NULL;
    enum sl_err rc =
        ask->name->web ? SL_OK : credentials_get(s->keys, &r.key, err);

    if (rc != SL_OK)
        return rc;
    rc = make_request(&r, &web, s, ask);
    web.url = buf_text(&r.url);
    if (rc == SL_OK)
        w = take_web(s);
    if (w == NULL) {
        rc = rc == SL_OK ? SL_ENOMEM : rc;
        sl_fail(err, rc, "%s%s/%s: %s", s3_scheme(ask->name), ask->name->bucket,
                ask->name->key, sl_err_text(rc));
    } else {
        web_call(w, &web, &out->web);
        give_web(s, w);
    }
    request_release(&r);
    return rc;
}

// Returns the pause before the next try, in ms: a random half to the whole of
// the step, so that clients that failed together do not retry together.
static uint64_t s3_pause_ms(unsigned tries)
{
    uint64_t pause = tries > 6 ? MOST_PAUSE_MS : FIRST_PAUSE_MS << (tries - 1);
    uint32_t chance = 0;

    if (pause > MOST_PAUSE_MS)
        pause = MOST_PAUSE_MS;
    if (getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
        chance = 0;
    return pause / 2 + chance % (pause / 2);
}

static void s3_sleep_ms(struct s3 *s, uint64_t ms)
{
    uint64_t until = sl_real_ms() + ms, now;

    while ((now = sl_real_ms()) < until && !s3_leaves(s)) {
        uint64_t part = sl_min(until - now, SLEEP_MS);
        struct timespec t = {0, (long)part * 1000000};

        (void)nanosleep(&t, NULL);
    }
}

// Sends a request once, and returns what to do next.
static enum s3_verdict try_once(struct s3 *s, const struct s3_ask *ask,
                                struct s3_answer *out, enum sl_err *rc,
                                struct sl_error *err)
{
    *rc = send_once(s, ask, out, err);
    out->tries++;
    if (*rc != SL_OK)
        return *rc == SL_EUNAVAIL ? S3_AGAIN : S3_FAILED;
    return s3_judge(out, ask->method);
}

// Counts a try that comes after a pause, and logs one in ten seconds: while a
// service is away, all requests to it are tried again.
static void s3_tell_again(struct s3 *s, const struct s3_ask *ask,
                          const struct s3_answer *a, const struct sl_error *why)
{
    uint64_t now = sl_real_ms(), told = atomic_load(&s->told_ms);
    uint64_t retries = atomic_fetch_add(&s->retries, 1) + 1;
    struct sl_error err = SL_ERROR_INIT;

    if ((told != 0 && now - told < TELL_MS) ||
        !atomic_compare_exchange_strong(&s->told_ms, &told, now))
        return;
    if (why->text[0] == '\0')
        (void)s3_failed(s, ask, a, &err);
    LOG(WARN, "a request is tried again", "retries=%" PRIu64 " why=%s", retries,
        why->text[0] != '\0' ? why->text : err.text);
}

static enum sl_err s3_left(struct s3 *s, const struct s3_ask *ask,
                           struct sl_error *err)
{
    return sl_fail(err, SL_ECANCELED, "%s%s/%s: %s", s3_scheme(ask->name),
                   ask->name->bucket, ask->name->key,
                   atomic_load(&s->leaving)
                       ? "this process ends"
                       : "the attempt that it was for is over");
}

enum sl_err s3_call(struct s3 *s, const struct s3_ask *ask,
                    struct s3_answer *out, struct sl_error *err)
{
    uint32_t patience =
        ask->patience_ms != 0 ? ask->patience_ms : s->patience_ms;
    uint64_t until = sl_real_ms() + patience, pause;
    bool renewed = false;
    struct sl_error why = SL_ERROR_INIT;
    enum s3_verdict verdict;
    enum sl_err rc;

    *out = (struct s3_answer){.tries = 0};
    if (s3_leaves(s))
        return s3_left(s, ask, err);
    for (;;) {
        verdict = try_once(s, ask, out, &rc, &why);
        if (verdict == S3_KEYS && !renewed) {
            credentials_refused(s->keys);
            renewed = true;
        } else if (verdict == S3_AGAIN) {
            pause = s3_pause_ms(out->tries);
            if (sl_real_ms() + pause >= until || s3_leaves(s))
                break;
            s3_tell_again(s, ask, out, &why);
            s3_sleep_ms(s, pause);
        } else {
            break;
        }
        web_answer_release(&out->web);
    }
    if (verdict != S3_DONE && s3_leaves(s))
        return s3_left(s, ask, err);
    if (rc != SL_OK)
        return sl_fail(err, rc, "%s", why.text);
    return verdict == S3_DONE ? SL_OK : s3_failed(s, ask, out, err);
}

void s3_answer_release(struct s3_answer *a)
{
    web_answer_release(&a->web);
}

// ---- the file system itself

// "https://host:port/base".
static enum sl_err set_endpoint(struct s3 *s, const char *text,
                                struct sl_error *err)
{
    const char *host, *slash;
    size_t n;

    s->tls = strncmp(text, "https://", 8) == 0;
    if (!s->tls && strncmp(text, "http://", 7) != 0)
        return sl_fail(err, SL_EINVAL,
                       "%.200s is no endpoint of S3: https://HOST[:PORT]",
                       text);
    host = text + (s->tls ? 8 : 7);
    slash = strchr(host, '/');
    n = slash == NULL ? strlen(host) : (size_t)(slash - host);
    for (const char *c = host; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~' || strchr("@?#%\"<>\\", *c) != NULL)
            n = 0;
    if (n == 0)
        return sl_fail(err, SL_EINVAL,
                       "%.200s is not an endpoint of S3, which is "
                       "https://HOST[:PORT] without keys",
                       text);
    s->host = sl_strndup(host, n);
    host += n;
    for (n = strlen(host); n > 0 && host[n - 1] == '/';)
        n--;
    s->base = sl_strndup(host, n);
    s->by_path = true;
    return SL_OK;
}

static enum sl_err set_amazon(struct s3 *s, struct sl_error *err)
{
    struct buf host = BUF_INIT;

    enum sl_err rc = amazon_host(&host, "s3", s->region, err);

    s->tls = true;
    if (rc == SL_OK)
        s->host = (char *)buf_detach(&host, NULL);
    buf_release(&host);
    s->base = sl_strdup("");
    return rc;
}

enum sl_err s3_new(struct s3 **out, const struct s3_setup *setup,
                   struct sl_error *err)
{
    struct s3 *s = sl_calloc(1, sizeof(*s));
    const char *file =
        setup->credentials[0] == '\0' ? NULL : setup->credentials;
    enum sl_err rc;

    if (s == NULL)
        return sl_fail(err, SL_ENOMEM, "out of memory for a store");
    pthread_mutex_init(&s->lock, NULL);
    s->by_path = setup->path_style;
    s->patience_ms = setup->patience_ms;
    s->part_bytes = setup->part_bytes;
    s->region =
        sl_strdup(setup->region[0] == '\0' ? "us-east-1" : setup->region);
    if (setup->trust[0] != '\0')
        s->trust = sl_strdup(setup->trust);
    rc = s->region == NULL ? SL_ENOMEM : credentials_new(&s->keys, file, err);
    if (rc == SL_OK)
        rc = setup->endpoint[0] != '\0' ? set_endpoint(s, setup->endpoint, err)
                                        : set_amazon(s, err);
    if (rc == SL_OK && (s->host == NULL || s->base == NULL ||
                        (s->trust == NULL && setup->trust[0] != '\0')))
        rc = SL_ENOMEM;
    if (rc == SL_ENOMEM)
        sl_fail(err, rc, "out of memory for a store");
    if (rc != SL_OK)
        s3_free(s);
    else
        *out = s;
    return rc;
}

void s3_free(struct s3 *s)
{
    while (s->idle_count > 0)
        web_free(s->idle[--s->idle_count]);
    credentials_free(s->keys);
    pthread_mutex_destroy(&s->lock);
    sl_free(s->host);
    sl_free(s->base);
    sl_free(s->region);
    sl_free(s->trust);
    sl_free(s);
}
