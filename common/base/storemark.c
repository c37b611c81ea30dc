// SPDX-License-Identifier: Apache-2.0
// common/base/storemark.c -- the mark of a store: read, written, compared.
#include "common/base/storemark.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"

#define DIGITS 16
#define READ_MAX 64

enum sl_err storemark_parse(uint64_t *id, const char *text, const char *where,
                            struct sl_error *err)
{
    size_t digits = strspn(text, "0123456789abcdef");
    uint64_t value = strtoull(text, NULL, 16);

    if (digits != DIGITS || value == 0 ||
        (text[DIGITS] != '\n' && text[DIGITS] != '\0'))
        return sl_fail(err, SL_ECORRUPT,
                       "%s does not begin with the id of a cluster: %d hex "
                       "digits",
                       where, DIGITS);
    *id = value;
    return SL_OK;
}

enum sl_err storemark_read(uint64_t *id, struct fs *fs, const char *store,
                           struct sl_error *err)
{
    char *path = fs_join(store, STOREMARK_FILE);
    struct sl_error why = SL_ERROR_INIT;
    struct buf text = BUF_INIT;
    enum sl_err rc;

    if (path == NULL)
        return sl_no_memory(err);
    // Only SL_ENOENT means no mark: a disk that fails is an error.
    rc = fs_read_all(fs, path, READ_MAX, &text, &why);
    if (rc == SL_ENOENT) {
        *id = 0;
        rc = SL_OK;
    } else if (rc == SL_OK) {
        rc = storemark_parse(id, buf_text(&text), path, err);
    } else if (err != NULL) {
        *err = why;
    }
    buf_release(&text);
    sl_free(path);
    return rc;
}

enum sl_err storemark_write(struct fs *fs, const char *store, uint64_t id,
                            struct sl_error *err)
{
    char *path = fs_join(store, STOREMARK_FILE);
    char text[DIGITS + 2];
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc = path == NULL ? SL_ENOMEM : fs_mkdirs(fs, store, &why);

    snprintf(text, sizeof(text), "%016" PRIx64 "\n", id);
    if (rc == SL_OK)
        rc = fs_write_new(fs, path, text, strlen(text), &why);
    // Write our own mark again: its writer may have died before it was durable.
    if (rc == SL_EEXIST) {
        rc = storemark_check(fs, store, id, err);
        if (rc == SL_OK)
            rc = fs_write_durable(fs, path, text, strlen(text), err);
    } else if (rc != SL_OK) {
        sl_fail(err, rc, "%s", why.text);
    }
    sl_free(path);
    return rc;
}

enum sl_err storemark_check(struct fs *fs, const char *store, uint64_t id,
                            struct sl_error *err)
{
    uint64_t found = 0;
    enum sl_err rc = storemark_read(&found, fs, store, err);

    if (rc != SL_OK || found == id)
        return rc;
    if (found != 0)
        return sl_fail(err, SL_ESTATE,
                       "the store %s is of cluster %016" PRIx64
                       ", this one is %016" PRIx64
                       ": give each cluster a store of its own",
                       store, found, id);
    return sl_fail(
        err, SL_ESTATE,
        "the store %s was used before and is not there: it has no file %s. "
        "Mount it; to start with an empty store: echo %016" PRIx64 " > %s/%s",
        store, STOREMARK_FILE, id, store, STOREMARK_FILE);
}
