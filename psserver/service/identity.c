// SPDX-License-Identifier: Apache-2.0
// psserver/service/identity.c -- the file that keeps a psserver's name over
// restarts.
#include "psserver/service/identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/buf.h"
#include "common/base/mem.h"

#define NAME_MAX_BYTES 200
#define FILE_NAME "name"

static enum sl_err identity_check_name(const char *name, const char *where,
                                       struct sl_error *err)
{
    size_t n = strlen(name);
    bool plain = n > 0 && n <= NAME_MAX_BYTES;

    for (size_t i = 0; plain && i < n; i++)
        plain = name[i] > ' ' && name[i] <= '~';
    if (!plain)
        return sl_fail(err, SL_EINVAL,
                       "%s: a name has 1 to %d printable characters and no "
                       "blanks",
                       where, NAME_MAX_BYTES);
    return SL_OK;
}

// Reads the name that is kept; SL_ENOENT if there is none.
static enum sl_err identity_read_name(char **out, struct fs *fs,
                                      const char *path, struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc;
    size_t n;

    // Only a file that is missing is no name: after a disk's error a new name
    // would leave behind all shards of the old one.
    rc = fs_read_all(fs, path, NAME_MAX_BYTES + 1, &text, err);
    if (rc == SL_OK && text.len > 0 && text.data[text.len - 1] == '\n')
        text.data[--text.len] = '\0';
    if (rc == SL_OK)
        rc = identity_check_name(buf_text(&text), path, err);
    if (rc == SL_OK)
        *out = (char *)buf_detach(&text, &n);
    buf_release(&text);
    return rc;
}

static enum sl_err new_name(char **out, struct sl_error *err)
{
    char text[16];
    uint32_t number;

    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return sl_fail(err, SL_EIO, "getrandom failed");
    snprintf(text, sizeof(text), "ps-%08" PRIx32, number);
    *out = sl_strdup(text);
    return *out == NULL ? SL_ENOMEM : SL_OK;
}

static enum sl_err identity_write_name(struct fs *fs, const char *path,
                                       const char *name, struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = buf_appendf(&text, "%s\n", name);

    if (rc == SL_OK)
        rc = fs_write_durable(fs, path, text.data, text.len, err);
    buf_release(&text);
    return rc;
}

enum sl_err identity_name(char **out, struct fs *fs, const char *folder,
                          const char *wanted, struct sl_error *err)
{
    char *path = fs_join(folder, FILE_NAME), *kept = NULL, *name = NULL;
    enum sl_err rc = path == NULL ? SL_ENOMEM : SL_OK;

    if (rc == SL_OK && wanted != NULL)
        rc = identity_check_name(wanted, "--name", err);
    if (rc == SL_OK) {
        rc = identity_read_name(&kept, fs, path, err);
        if (rc == SL_ENOENT)
            rc = SL_OK;
    }
    if (rc == SL_OK && wanted != NULL) {
        name = sl_strdup(wanted);
        rc = name == NULL ? SL_ENOMEM : SL_OK;
    } else if (rc == SL_OK && kept == NULL) {
        rc = new_name(&name, err);
    }
    if (rc == SL_OK && name != NULL &&
        (kept == NULL || strcmp(kept, name) != 0))
        rc = identity_write_name(fs, path, name, err);
    if (rc == SL_OK) {
        *out = name != NULL ? name : kept;
        if (name != NULL)
            sl_free(kept);
    } else {
        sl_free(name);
        sl_free(kept);
    }
    sl_free(path);
    return rc;
}
