// SPDX-License-Identifier: Apache-2.0
// host/store/sigv4.c -- the canonical request, its hash, the derived key.
#include "host/store/sigv4.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define ALGORITHM "AWS4-HMAC-SHA256"
#define DAY 8 // digits of the date

void sigv4_date(char out[SIGV4_DATE], uint64_t wall_us)
{
    time_t s = (time_t)(wall_us / 1000000);
    struct tm tm;

    if (gmtime_r(&s, &tm) == NULL ||
        strftime(out, SIGV4_DATE, "%Y%m%dT%H%M%SZ", &tm) == 0)
        snprintf(out, SIGV4_DATE, "19700101T000000Z");
}

static bool sigv4_is_unreserved(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c >= '0' && c <= '9') || strchr("-._~", c) != NULL;
}

enum sl_err sigv4_encode(struct buf *out, const char *text, bool slashes)
{
    enum sl_err rc = SL_OK;

    for (; rc == SL_OK && *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        rc = sigv4_is_unreserved(c) || (slashes && c == '/')
                 ? buf_append_char(out, *text)
                 : buf_appendf(out, "%%%02X", c);
    }
    return rc;
}

// Encoded "name=value" each, in one buffer with a 0 behind each. By bytes: a
// name that begins another is shorter, and '=' sorts before what may follow.
struct sigv4_words {
    struct buf text;
    size_t at[SIGV4_PAIRS];
    size_t count;
};

static enum sl_err sigv4_words_add(struct sigv4_words *w,
                                   const struct sigv4_pair *p)
{
    enum sl_err rc;

    w->at[w->count++] = w->text.len;
    rc = sigv4_encode(&w->text, p->name, false);
    // The separator sorts below any byte of a name, so "a" is before "a-b".
    if (rc == SL_OK)
        rc = buf_append_char(&w->text, '\1');
    if (rc == SL_OK)
        rc = sigv4_encode(&w->text, p->value, false);
    return rc == SL_OK ? buf_append_char(&w->text, '\0') : rc;
}

static void sort_words(struct sigv4_words *w)
{
    const char *text = (const char *)w->text.data;

    for (size_t i = 1; i < w->count; i++)
        for (size_t j = i;
             j > 0 && strcmp(text + w->at[j - 1], text + w->at[j]) > 0; j--) {
            size_t other = w->at[j];

            w->at[j] = w->at[j - 1];
            w->at[j - 1] = other;
        }
}

enum sl_err sigv4_query(struct buf *out, const struct sigv4_pair *query)
{
    struct sigv4_words w = {.text = BUF_INIT};
    enum sl_err rc = SL_OK;

    for (; rc == SL_OK && query != NULL && query->name != NULL; query++)
        rc = w.count == SIGV4_PAIRS ? SL_EINTERNAL : sigv4_words_add(&w, query);
    if (rc == SL_OK)
        sort_words(&w);
    for (size_t i = 0; rc == SL_OK && i < w.count; i++) {
        char *word = (char *)w.text.data + w.at[i];

        *strchr(word, '\1') = '=';
        rc = buf_appendf(out, "%s%s", i == 0 ? "" : "&", word);
    }
    buf_release(&w.text);
    return rc;
}

// Trimmed, and runs of blanks as one.
static enum sl_err sigv4_add_value(struct buf *out, const char *value)
{
    enum sl_err rc = SL_OK;
    bool begun = false, blank = false;

    for (; rc == SL_OK && *value != '\0'; value++) {
        if (*value == ' ' || *value == '\t') {
            blank = begun;
            continue;
        }
        if (blank)
            rc = buf_append_char(out, ' ');
        begun = true;
        blank = false;
        if (rc == SL_OK)
            rc = buf_append_char(out, *value);
    }
    return rc;
}

// The index of the next name after `last`, or of none.
static size_t next_header(const struct sigv4_pair *header, const char *last)
{
    size_t found = SIGV4_PAIRS;

    for (size_t i = 0; header[i].name != NULL; i++)
        if ((last == NULL || strcmp(header[i].name, last) > 0) &&
            (found == SIGV4_PAIRS ||
             strcmp(header[i].name, header[found].name) < 0))
            found = i;
    return found;
}

// The headers as lines, and their names as a list.
static enum sl_err add_headers(struct buf *lines, struct buf *names,
                               const struct sigv4_pair *header)
{
    enum sl_err rc = SL_OK;
    const char *last = NULL;
    size_t at;

    while (rc == SL_OK && (at = next_header(header, last)) != SIGV4_PAIRS) {
        rc = buf_appendf(lines, "%s:", header[at].name);
        if (rc == SL_OK)
            rc = sigv4_add_value(lines, header[at].value);
        if (rc == SL_OK)
            rc = buf_append_char(lines, '\n');
        if (rc == SL_OK)
            rc = buf_appendf(names, "%s%s", last == NULL ? "" : ";",
                             header[at].name);
        last = header[at].name;
    }
    return rc;
}

enum sl_err sigv4_hash(char out[SHA256_HEX], const void *bytes, size_t n)
{
    uint8_t digest[SHA256_BYTES];
    enum sl_err rc = sha256_bytes(digest, bytes, n);

    hex_encode(out, digest, rc == SL_OK ? SHA256_BYTES : 0);
    return rc;
}

// What the canonical request is: its hash, and the names of its headers.
static enum sl_err hash_request(char out[SHA256_HEX], struct buf *names,
                                const struct sigv4 *s)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = buf_appendf(&text, "%s\n%s\n", s->method, s->path);

    if (rc == SL_OK)
        rc = sigv4_query(&text, s->query);
    if (rc == SL_OK)
        rc = buf_append_char(&text, '\n');
    if (rc == SL_OK)
        rc = add_headers(&text, names, s->header);
    if (rc == SL_OK)
        rc = buf_appendf(&text, "\n%s\n%s", buf_text(names), s->payload);
    if (rc == SL_OK)
        rc = sigv4_hash(out, text.data, text.len);
    buf_release(&text);
    return rc;
}

static enum sl_err derive_key(uint8_t key[SHA256_BYTES], const struct sigv4 *s)
{
    const char *const steps[] = {s->region, s->service, "aws4_request"};
    struct buf first = BUF_INIT;
    enum sl_err rc = buf_appendf(&first, "AWS4%s", s->secret);

    if (rc == SL_OK)
        rc = hmac_sha256(key, first.data, first.len, s->date, DAY);
    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(steps); i++) {
        uint8_t next[SHA256_BYTES];

        rc = hmac_sha256(next, key, SHA256_BYTES, steps[i], strlen(steps[i]));
        memcpy(key, next, SHA256_BYTES);
    }
    if (first.data != NULL)
        explicit_bzero(first.data, first.len);
    buf_release(&first);
    return rc;
}

enum sl_err sigv4_sign(struct buf *out, const struct sigv4 *s)
{
    struct buf names = BUF_INIT, text = BUF_INIT, scope = BUF_INIT;
    uint8_t key[SHA256_BYTES], digest[SHA256_BYTES];
    char hash[SHA256_HEX], signature[SHA256_HEX];
    enum sl_err rc = hash_request(hash, &names, s);

    if (rc == SL_OK)
        rc = buf_appendf(&scope, "%.*s/%s/%s/aws4_request", DAY, s->date,
                         s->region, s->service);
    if (rc == SL_OK)
        rc = buf_appendf(&text, ALGORITHM "\n%s\n%s\n%s", s->date,
                         buf_text(&scope), hash);
    if (rc == SL_OK)
        rc = derive_key(key, s);
    if (rc == SL_OK)
        rc = hmac_sha256(digest, key, sizeof(key), text.data, text.len);
    if (rc == SL_OK) {
        hex_encode(signature, digest, sizeof(digest));
        rc = buf_appendf(out,
                         ALGORITHM " Credential=%s/%s, SignedHeaders=%s, "
                                   "Signature=%s",
                         s->key_id, buf_text(&scope), buf_text(&names),
                         signature);
    }
    explicit_bzero(key, sizeof(key));
    buf_release(&names);
    buf_release(&text);
    buf_release(&scope);
    return rc;
}
