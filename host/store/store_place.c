// SPDX-License-Identifier: Apache-2.0
// host/store/store_place.c -- from settings to a store.
#include "host/store/store_place.h"

#include <string.h>

#include "common/base/storemark.h"
#include "common/run/log.h"

const struct conf_key store_keys[] = {STORE_KEYS, {.name = NULL}};

struct store_setup store_setup_of(const struct conf *conf)
{
    return (struct store_setup){
        .endpoint = conf_str(conf, "s3-endpoint"),
        .region = conf_str(conf, "s3-region"),
        .credentials = conf_str(conf, "s3-credentials"),
        .patience_ms = (unsigned)conf_int(conf, "s3-patience"),
    };
}

// Waits until the store answers: a daemon that restarts while S3 is away must
// not fail as if its settings were wrong.
static enum sl_err store_await_answer(struct fs *fs, const char *name,
                                      struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    uint64_t cluster;
    enum sl_err rc;

    // Read, not looked at: an answer without a body has no words.
    while ((rc = storemark_read(&cluster, fs, name, &why)) == SL_EUNAVAIL)
        LOG(WARN, "the store does not answer", "why=%s", why.text);
    return rc == SL_OK ? rc : sl_fail(err, rc, "%s", why.text);
}

enum sl_err store_place(struct fs **out, char **name, const struct conf *conf,
                        struct sl_error *err)
{
    struct store_setup setup = store_setup_of(conf);
    struct fs *fs = NULL;
    enum sl_err rc = store_fs(&fs, *name, &setup, err);

    if (rc != SL_OK)
        return rc;
    if (store_is_s3(*name)) {
        for (size_t n = strlen(*name); n > 0 && (*name)[n - 1] == '/'; n--)
            (*name)[n - 1] = '\0';
        rc = store_await_answer(fs, *name, err);
    } else {
        rc = fs_mkdirs(fs, *name, err);
        if (rc == SL_OK)
            rc = fs_absolute(name, err);
    }
    if (rc == SL_OK)
        *out = fs;
    return rc;
}
