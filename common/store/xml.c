// SPDX-License-Identifier: Apache-2.0
// common/store/xml.c -- see xml.h.
#include "common/store/xml.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/base/buf.h"

struct xml {
    const char *begin, *at, *end;
    char path[XML_DEPTH * (XML_NAME + 1)];
    size_t bytes[XML_DEPTH + 1]; // of path, up to each depth
    unsigned depth;
    bool over;       // the root has ended
    struct buf text; // in the innermost element
    xml_fn fn;
    void *arg;
    struct sl_error *err;
};

static enum sl_err xml_malformed(const struct xml *x, const char *what)
{
    return sl_fail(x->err, SL_ECORRUPT, "XML, byte %zu: %s",
                   (size_t)(x->at - x->begin), what);
}

static bool sees(const struct xml *x, const char *what)
{
    size_t n = strlen(what);

    return (size_t)(x->end - x->at) >= n && memcmp(x->at, what, n) == 0;
}

// Moves behind the next `what`; false if there is none.
static bool skip_past(struct xml *x, const char *what)
{
    const char *found =
        memmem(x->at, (size_t)(x->end - x->at), what, strlen(what));

    if (found == NULL)
        return false;
    x->at = found + strlen(what);
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_blanks(struct xml *x)
{
    while (x->at < x->end && is_blank(*x->at))
        x->at++;
}

static bool xml_is_name_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' ||
           c == ':';
}

// A name without its prefix; 0 bytes: there is none that could be used.
static size_t xml_read_name(struct xml *x, const char **name)
{
    const char *first = x->at;

    while (x->at < x->end && xml_is_name_char(*x->at))
        x->at++;
    for (const char *c = first; c < x->at; c++)
        if (*c == ':')
            first = c + 1;
    *name = first;
    return x->at - first > XML_NAME ? 0 : (size_t)(x->at - first);
}

// ---- text

static uint32_t xml_code_number(const char *at, const char *stop)
{
    unsigned base = *at == 'x' ? 16 : 10;
    uint32_t value = 0;

    at += base == 16;
    if (at == stop)
        return 0;
    for (; at < stop; at++) {
        unsigned digit = *at >= '0' && *at <= '9'   ? (unsigned)(*at - '0')
                         : *at >= 'a' && *at <= 'f' ? (unsigned)(*at - 'a') + 10
                         : *at >= 'A' && *at <= 'F' ? (unsigned)(*at - 'A') + 10
                                                    : 99;

        if (digit >= base || value > 0x10ffff)
            return 0;
        value = value * base + digit;
    }
    return value;
}

static enum sl_err add_code(struct xml *x, uint32_t code)
{
    char out[4];
    size_t n = 0;

    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return xml_malformed(x, "a character that there is not");
    if (code < 0x80) {
        out[n++] = (char)code;
    } else if (code < 0x800) {
        out[n++] = (char)(0xc0 | code >> 6);
    } else if (code < 0x10000) {
        out[n++] = (char)(0xe0 | code >> 12);
        out[n++] = (char)(0x80 | (code >> 6 & 0x3f));
    } else {
        out[n++] = (char)(0xf0 | code >> 18);
        out[n++] = (char)(0x80 | (code >> 12 & 0x3f));
        out[n++] = (char)(0x80 | (code >> 6 & 0x3f));
    }
    if (code >= 0x80)
        out[n++] = (char)(0x80 | (code & 0x3f));
    return buf_append(&x->text, out, n);
}

static enum sl_err xml_read_entity(struct xml *x)
{
    static const struct {
        const char *name;
        char is;
    } known[] = {{"&lt;", '<'},
                 {"&gt;", '>'},
                 {"&amp;", '&'},
                 {"&quot;", '"'},
                 {"&apos;", '\''}};
    const char *stop;

    for (size_t i = 0; i < SL_COUNT(known); i++)
        if (sees(x, known[i].name)) {
            x->at += strlen(known[i].name);
            return buf_append_char(&x->text, known[i].is);
        }
    stop = memchr(x->at, ';', (size_t)(x->end - x->at));
    if (!sees(x, "&#") || stop == NULL || stop - x->at < 3 || stop - x->at > 10)
        return xml_malformed(x, "an entity that nobody knows");
    if (add_code(x, xml_code_number(x->at + 2, stop)) != SL_OK)
        return xml_malformed(x, "a character that there is not");
    x->at = stop + 1;
    return SL_OK;
}

static enum sl_err xml_read_text(struct xml *x)
{
    const char *first = x->at;

    if (*x->at == '&')
        return xml_read_entity(x);
    while (x->at < x->end && *x->at != '<' && *x->at != '&') {
        if (*x->at == '\0')
            return xml_malformed(x, "a byte 0");
        x->at++;
    }
    return buf_append(&x->text, first, (size_t)(x->at - first));
}

static enum sl_err xml_read_cdata(struct xml *x)
{
    const char *first = x->at += strlen("<![CDATA[");

    if (!skip_past(x, "]]>"))
        return xml_malformed(x, "CDATA does not end");
    if (memchr(first, 0, (size_t)(x->at - first)) != NULL)
        return xml_malformed(x, "a byte 0");
    return buf_append(&x->text, first, (size_t)(x->at - first) - 3);
}

// ---- elements

static enum sl_err end_element(struct xml *x)
{
    enum sl_err rc = x->fn(x->arg, x->path, buf_text(&x->text));

    buf_reset(&x->text);
    x->depth--;
    x->path[x->bytes[x->depth]] = '\0';
    x->over = x->depth == 0;
    return rc;
}

static enum sl_err xml_read_attributes(struct xml *x)
{
    const char *name;

    for (skip_blanks(x); x->at < x->end && xml_is_name_char(*x->at);
         skip_blanks(x)) {
        char quote;

        (void)xml_read_name(x, &name);
        skip_blanks(x);
        if (!sees(x, "="))
            return xml_malformed(x, "an attribute without a value");
        x->at++;
        skip_blanks(x);
        if (!sees(x, "\"") && !sees(x, "'"))
            return xml_malformed(x, "a value without quotes");
        quote = *x->at++;
        if (!skip_past(x, (char[]){quote, '\0'}))
            return xml_malformed(x, "a value does not end");
    }
    return SL_OK;
}

static enum sl_err begin_element(struct xml *x)
{
    const char *name;
    size_t n, was = x->bytes[x->depth];
    enum sl_err rc;

    if (x->over)
        return xml_malformed(x, "more than one document");
    if (x->depth == XML_DEPTH)
        return xml_malformed(x, "nested too deeply");
    x->at++;
    n = xml_read_name(x, &name);
    if (n == 0)
        return xml_malformed(x, "no name, or a long one");
    if (was != 0)
        x->path[was++] = '/';
    memcpy(x->path + was, name, n);
    x->path[was + n] = '\0';
    x->bytes[++x->depth] = was + n;
    buf_reset(&x->text);
    rc = xml_read_attributes(x);
    if (rc != SL_OK)
        return rc;
    if (sees(x, "/>")) {
        x->at += 2;
        return end_element(x);
    }
    if (!sees(x, ">"))
        return xml_malformed(x, "a tag does not end");
    x->at++;
    return SL_OK;
}

static enum sl_err xml_read_end_tag(struct xml *x)
{
    const char *name, *last = strrchr(x->path, '/');
    size_t n;

    if (x->depth == 0)
        return xml_malformed(x, "an end without a beginning");
    last = last == NULL ? x->path : last + 1;
    x->at += 2;
    n = xml_read_name(x, &name);
    if (n != strlen(last) || memcmp(name, last, n) != 0)
        return xml_malformed(x, "another element ends than began last");
    skip_blanks(x);
    if (!sees(x, ">"))
        return xml_malformed(x, "a tag does not end");
    x->at++;
    return end_element(x);
}

static enum sl_err xml_read_next(struct xml *x)
{
    if (*x->at != '<') {
        if (x->depth > 0)
            return xml_read_text(x);
        if (!is_blank(*x->at))
            return xml_malformed(x, "text outside of all elements");
        skip_blanks(x);
        return SL_OK;
    }
    if (sees(x, "<?"))
        return skip_past(x, "?>") ? SL_OK : xml_malformed(x, "it does not end");
    if (sees(x, "<!--"))
        return skip_past(x, "-->") ? SL_OK
                                   : xml_malformed(x, "it does not end");
    if (sees(x, "<![CDATA[") && x->depth > 0)
        return xml_read_cdata(x);
    if (sees(x, "<!"))
        return xml_malformed(x, "a document type, which is not read");
    return sees(x, "</") ? xml_read_end_tag(x) : begin_element(x);
}

enum sl_err xml_walk(const char *text, size_t n, xml_fn fn, void *arg,
                     struct sl_error *err)
{
    struct xml x = {.begin = text,
                    .at = text,
                    .end = text + n,
                    .text = BUF_INIT,
                    .fn = fn,
                    .arg = arg,
                    .err = err};
    enum sl_err rc = SL_OK;

    if (sees(&x, "\xef\xbb\xbf"))
        x.at += 3;
    while (rc == SL_OK && x.at < x.end)
        rc = xml_read_next(&x);
    if (rc == SL_OK && !x.over)
        rc = xml_malformed(&x, "it ends too early");
    if (rc == SL_ENOMEM)
        sl_fail(err, rc, "XML: out of memory");
    buf_release(&x.text);
    return rc;
}
