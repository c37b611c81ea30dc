// SPDX-License-Identifier: Apache-2.0
// host/store/xml.c -- see xml.h; expat reads, this file keeps the path.
#include "host/store/xml.h"

#include <expat.h>
#include <limits.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"

struct xml {
    XML_Parser parser;
    char path[XML_DEPTH * (XML_NAME + 1)];
    size_t bytes[XML_DEPTH + 1]; // of path, up to each depth
    unsigned depth;
    struct buf text; // in the innermost element
    xml_fn fn;
    void *arg;
    enum sl_err rc; // why a handler stopped the parser
    struct sl_error *err;
};

static void xml_stop(struct xml *x, enum sl_err rc)
{
    x->rc = rc;
    XML_StopParser(x->parser, XML_FALSE);
}

static void xml_refuse(struct xml *x, const char *what)
{
    XML_Index at = XML_GetCurrentByteIndex(x->parser); // -1: nothing was read

    xml_stop(x, sl_fail(x->err, SL_ECORRUPT, "XML, byte %lld: %s",
                        (long long)(at < 0 ? 0 : at), what));
}

static void xml_on_start(void *arg, const XML_Char *name,
                         const XML_Char **attributes)
{
    struct xml *x = arg;
    const char *prefix = strrchr(name, ':');
    size_t n, was = x->bytes[x->depth];

    (void)attributes;
    if (prefix != NULL)
        name = prefix + 1;
    n = strlen(name);
    if (x->depth == XML_DEPTH) {
        xml_refuse(x, "nested too deeply");
        return;
    }
    if (n == 0 || n > XML_NAME) {
        xml_refuse(x, "no name, or a long one");
        return;
    }
    if (was != 0)
        x->path[was++] = '/';
    memcpy(x->path + was, name, n + 1);
    x->bytes[++x->depth] = was + n;
    buf_reset(&x->text);
}

static void xml_on_end(void *arg, const XML_Char *name)
{
    struct xml *x = arg;
    enum sl_err rc;

    (void)name;
    if (x->rc != SL_OK)
        return; // the end of an empty element that was refused
    rc = x->fn(x->arg, x->path, buf_text(&x->text));
    buf_reset(&x->text);
    x->path[x->bytes[--x->depth]] = '\0';
    if (rc != SL_OK)
        xml_stop(x, rc);
}

static void xml_on_text(void *arg, const XML_Char *text, int n)
{
    struct xml *x = arg;

    if (buf_append(&x->text, text, (size_t)n) != SL_OK)
        xml_stop(x, SL_ENOMEM);
}

// Refuses a document type, with which entities of the peer's would come.
static void xml_on_doctype(void *arg, const XML_Char *name,
                           const XML_Char *system_id, const XML_Char *public_id,
                           int has_internal_subset)
{
    (void)name, (void)system_id, (void)public_id, (void)has_internal_subset;
    xml_refuse(arg, "a document type, which is not read");
}

static enum sl_err xml_parse(struct xml *x, const char *text, size_t n)
{
    enum XML_Error code;

    XML_SetUserData(x->parser, x);
    XML_SetElementHandler(x->parser, xml_on_start, xml_on_end);
    XML_SetCharacterDataHandler(x->parser, xml_on_text);
    XML_SetStartDoctypeDeclHandler(x->parser, xml_on_doctype);
    if (n > INT_MAX)
        return sl_fail(x->err, SL_ECORRUPT, "XML: %zu bytes are too many", n);
    if (XML_Parse(x->parser, text, (int)n, XML_TRUE) == XML_STATUS_OK)
        return SL_OK;
    code = XML_GetErrorCode(x->parser);
    if (x->rc == SL_OK && code == XML_ERROR_NO_MEMORY)
        return SL_ENOMEM;
    if (x->rc == SL_OK)
        xml_refuse(x, XML_ErrorString(code));
    return x->rc;
}

enum sl_err xml_walk(const char *text, size_t n, xml_fn fn, void *arg,
                     struct sl_error *err)
{
    static const XML_Memory_Handling_Suite memory = {sl_malloc, sl_realloc,
                                                     sl_free};
    struct xml x = {.text = BUF_INIT, .fn = fn, .arg = arg, .err = err};
    enum sl_err rc = SL_ENOMEM;

    // No other encoding, whatever the document says of itself.
    x.parser = XML_ParserCreate_MM("UTF-8", &memory, NULL);
    if (x.parser != NULL)
        rc = xml_parse(&x, text, n);
    if (rc == SL_ENOMEM)
        sl_fail(err, rc, "XML: out of memory");
    XML_ParserFree(x.parser);
    buf_release(&x.text);
    return rc;
}
