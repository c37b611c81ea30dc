// SPDX-License-Identifier: Apache-2.0
// What S3 answers: elements are nested, their texts short enough to have been
// there, and a reader that sees the same twice says the same.
#include "common/base/buf.h"
#include "host/store/xml.h"
#include "tests/fuzz/fuzz.h"

struct seen {
    struct buf text;
    size_t elements, bytes;
};

static enum sl_err note(void *arg, const char *path, const char *value)
{
    struct seen *s = arg;
    unsigned depth = 1;

    for (const char *c = path; *c != '\0'; c++)
        depth += *c == '/';
    FUZZ_TRUE(*path != '\0' && depth <= XML_DEPTH);
    FUZZ_TRUE(strlen(path) <= XML_DEPTH * (XML_NAME + 1));
    s->elements++;
    s->bytes += strlen(value);
    return buf_appendf(&s->text, "%s\n%s\n", path, value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen first = {.text = BUF_INIT}, second = {.text = BUF_INIT};
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    rc = xml_walk((const char *)data, size, note, &first, &err);
    FUZZ_TRUE(rc == xml_walk((const char *)data, size, note, &second, NULL));
    if (rc != SL_OK)
        fuzz_refused(rc, &err);
    else
        FUZZ_TRUE(first.elements > 0);
    // "<a/>" is the shortest; no text is longer than what it was made of.
    FUZZ_TRUE(first.elements * 4 + first.bytes <= size);
    FUZZ_TRUE(first.text.len == second.text.len);
    buf_release(&first.text);
    buf_release(&second.text);
    return 0;
}
