// SPDX-License-Identifier: Apache-2.0
// host/store/s3_list.c -- names below a prefix (ListObjectsV2), page by page.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "host/store/s3.h"
#include "host/store/xml.h"

#define TOKEN 2048
#define CONTENTS "ListBucketResult/Contents"
#define PAGES 100000 // of 1000 names

struct page {
    struct s3_names *names;
    const char *prefix;
    char token[TOKEN];
    bool more;
    // Of s3_list_objects: what is called, and the object that is being read.
    s3_object_fn fn;
    void *arg;
    char key[S3_KEY];
    struct s3_object object;
};

static int hex(char c)
{
    const char *digits = "0123456789abcdef0123456789ABCDEF", *at;

    at = c == '\0' ? NULL : strchr(digits, c);
    return at == NULL ? -1 : (int)((at - digits) % 16);
}

// In place: "a%2Fb+c" becomes "a/b c"; false if it is no such text.
static bool s3_list_decode_key(char *text)
{
    char *to = text;

    for (; *text != '\0'; text++) {
        if (*text != '%') {
            *to++ = *text == '+' ? ' ' : *text;
            continue;
        }
        if (hex(text[1]) < 0 || hex(text[2]) < 0)
            return false;
        *to = (char)(hex(text[1]) << 4 | hex(text[2]));
        if (*to++ == '\0')
            return false;
        text += 2;
    }
    *to = '\0';
    return true;
}

enum sl_err s3_names_add(struct s3_names *n, const char *name, size_t bytes)
{
    if (n->count == n->space) {
        size_t space = n->space == 0 ? 64 : 2 * n->space;
        char **more = sl_realloc_array(n->name, space, sizeof(*more));

        if (more == NULL)
            return SL_ENOMEM;
        n->name = more;
        n->space = space;
    }
    n->name[n->count] = sl_strndup(name, bytes);
    if (n->name[n->count] == NULL)
        return SL_ENOMEM;
    n->count++;
    return SL_OK;
}

// A key below the prefix, or a common prefix, which ends with a slash.
static enum sl_err s3_page_add_key(struct page *p, const char *value)
{
    char *key = sl_strdup(value);
    size_t begins = strlen(p->prefix), n;
    enum sl_err rc = SL_OK;
    const char *name;

    if (key == NULL)
        return SL_ENOMEM;
    if (s3_list_decode_key(key) && strncmp(key, p->prefix, begins) == 0) {
        p->names->any = true;
        name = key + begins;
        n = strlen(name);
        if (n > 0 && name[n - 1] == '/')
            n--;
        if (n > 0 && memchr(name, '/', n) == NULL &&
            !(n <= 2 && memcmp(name, "..", n) == 0))
            rc = s3_names_add(p->names, name, n);
    }
    sl_free(key);
    return rc;
}

// Reads the key of an object that lies right in the folder; "" for another.
static void s3_page_read_key(struct page *p, const char *value)
{
    size_t n = strlen(p->prefix);
    char *key = sl_strdup(value);

    p->key[0] = '\0';
    if (key != NULL && s3_list_decode_key(key) &&
        strncmp(key, p->prefix, n) == 0 && strchr(key + n, '/') == NULL)
        snprintf(p->key, sizeof(p->key), "%s", key + n);
    sl_free(key);
}

// Reads an ETag as headers have it: some stores list it without its quotes.
static void s3_page_read_etag(char out[S3_ETAG], const char *value)
{
    const char *quote = value[0] == '"' || value[0] == '\0' ? "" : "\"";

    snprintf(out, S3_ETAG, "%s%s%s", quote, value, quote);
}

static uint64_t s3_page_read_size(const char *value)
{
    return value[0] != '\0' && value[strspn(value, "0123456789")] == '\0'
               ? strtoull(value, NULL, 10)
               : UINT64_MAX;
}

// Hands an object on, once all its fields are read, in whatever order.
static enum sl_err s3_page_end_object(struct page *p)
{
    enum sl_err rc =
        p->key[0] != '\0' ? p->fn(p->arg, p->key, &p->object) : SL_OK;

    p->key[0] = '\0';
    p->object = (struct s3_object){.bytes = UINT64_MAX};
    return rc;
}

static enum sl_err s3_page_read_object(struct page *p, const char *path,
                                       const char *value)
{
    path += strlen(CONTENTS);
    if (strcmp(path, "/Key") == 0)
        s3_page_read_key(p, value);
    else if (strcmp(path, "/Size") == 0)
        p->object.bytes = s3_page_read_size(value);
    else if (strcmp(path, "/ETag") == 0)
        s3_page_read_etag(p->object.etag, value);
    else if (*path == '\0')
        return s3_page_end_object(p);
    return SL_OK;
}

static enum sl_err s3_page_read_field(void *arg, const char *path,
                                      const char *value)
{
    struct page *p = arg;

    if (p->fn != NULL && strncmp(path, CONTENTS, strlen(CONTENTS)) == 0)
        return s3_page_read_object(p, path, value);
    if (strcmp(path, "ListBucketResult/Contents/Key") == 0 ||
        strcmp(path, "ListBucketResult/CommonPrefixes/Prefix") == 0)
        return s3_page_add_key(p, value);
    if (strcmp(path, "ListBucketResult/IsTruncated") == 0)
        p->more = strcmp(value, "true") == 0;
    else if (strcmp(path, "ListBucketResult/NextContinuationToken") == 0)
        snprintf(p->token, sizeof(p->token), "%s", value);
    return SL_OK;
}

static enum sl_err read_page(struct page *p, const struct s3_answer *a,
                             const struct s3_name *dir, struct sl_error *err)
{
    char before[TOKEN];
    enum sl_err rc;

    memcpy(before, p->token, sizeof(before));
    p->token[0] = '\0';
    p->more = false;
    rc = xml_walk(buf_text(&a->web.body), a->web.body.len, s3_page_read_field,
                  p, err);
    // A server that gives the same page again would give it for ever.
    if (rc == SL_OK && p->more &&
        (p->token[0] == '\0' || strcmp(p->token, before) == 0))
        rc = sl_fail(err, SL_ECORRUPT, "the list of names does not go on");
    if (rc == SL_ENOMEM)
        sl_fail(err, rc, "out of memory");
    if (rc != SL_OK)
        sl_prefix(err, rc, "s3://%s/%s", dir->bucket, dir->key);
    return rc;
}

static enum sl_err ask_page(struct s3 *s, struct page *p,
                            const struct s3_name *dir, unsigned most,
                            struct sl_error *err)
{
    char count[16];
    struct s3_ask ask = {.method = "GET",
                         .name = dir,
                         .of_bucket = true,
                         .query = {{"list-type", "2"},
                                   {"delimiter", "/"},
                                   {"encoding-type", "url"},
                                   {"prefix", p->prefix}}};
    size_t i = 4;
    struct s3_answer a;
    enum sl_err rc;

    snprintf(count, sizeof(count), "%u", most);
    if (most != 0)
        ask.query[i++] = (struct sigv4_pair){"max-keys", count};
    if (p->token[0] != '\0')
        ask.query[i] = (struct sigv4_pair){"continuation-token", p->token};
    rc = s3_call(s, &ask, &a, err);
    if (rc == SL_OK)
        rc = read_page(p, &a, dir, err);
    s3_answer_release(&a);
    return rc;
}

static int s3_name_by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Sorts the names and drops doubles: "a" may be an object and a folder.
void s3_names_sort(struct s3_names *n)
{
    size_t kept = 0;

    if (n->count > 1)
        qsort(n->name, n->count, sizeof(*n->name), s3_name_by_bytes);
    for (size_t i = 0; i < n->count; i++) {
        if (kept > 0 && strcmp(n->name[kept - 1], n->name[i]) == 0)
            sl_free(n->name[i]);
        else
            n->name[kept++] = n->name[i];
    }
    n->count = kept;
}

// Requests the pages of the folder's list, all of them; or, for `most` above 0,
// one page of up to `most` keys.
static enum sl_err ask_pages(struct s3 *s, struct page *p,
                             const struct s3_name *dir, unsigned most,
                             struct sl_error *err)
{
    char prefix[S3_KEY + 1];
    unsigned pages = 0;
    enum sl_err rc;

    snprintf(prefix, sizeof(prefix), "%s%s", dir->key,
             dir->key[0] == '\0' ? "" : "/");
    p->prefix = prefix;
    do {
        rc = ask_page(s, p, dir, most, err);
    } while (rc == SL_OK && p->more && most == 0 && ++pages < PAGES);
    return rc;
}

enum sl_err s3_list_objects(struct s3 *s, const struct s3_name *dir,
                            s3_object_fn fn, void *arg, struct sl_error *err)
{
    struct s3_names names = {NULL, 0, 0, false};
    struct page p = {
        .names = &names, .fn = fn, .arg = arg, .object = {.bytes = UINT64_MAX}};
    enum sl_err rc = ask_pages(s, &p, dir, 0, err);

    s3_names_release(&names);
    return rc;
}

enum sl_err s3_list(struct s3 *s, const struct s3_name *dir, unsigned most,
                    struct s3_names *out, struct sl_error *err)
{
    struct s3_names names = {NULL, 0, 0, false};
    struct page p = {.names = &names};
    enum sl_err rc = ask_pages(s, &p, dir, most, err);

    if (rc != SL_OK) {
        s3_names_release(&names);
        return rc;
    }
    s3_names_sort(&names);
    *out = names;
    return SL_OK;
}

void s3_names_release(struct s3_names *n)
{
    for (size_t i = 0; i < n->count; i++)
        sl_free(n->name[i]);
    sl_free(n->name);
    *n = (struct s3_names){NULL, 0, 0, false};
}
