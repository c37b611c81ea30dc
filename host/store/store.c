// SPDX-License-Identifier: Apache-2.0
// host/store/store.c -- which file system a store is of.
#include "host/store/store.h"

#include <string.h>

#include "common/base/mem.h"
#include "host/store/credentials_inner.h"
#include "host/store/s3.h"

// A file system for each setup ever used in this process: one or two.
struct store_entry {
    struct store_entry *next;
    struct s3 *s3;
    char *endpoint, *region, *credentials; // owned
    bool path_style;
    uint32_t patience_ms;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct store_entry *all; // under the lock

bool store_is_s3(const char *store)
{
    return strncmp(store, S3_SCHEME, strlen(S3_SCHEME)) == 0;
}

static const char *either(const char *given, const char *first,
                          const char *second)
{
    if (given != NULL && *given != '\0')
        return given;
    given = environment(first);
    if (given == NULL && second != NULL)
        given = environment(second);
    return given == NULL ? "" : given;
}

struct s3_setup s3_setup_of(const struct store_setup *given)
{
    return (struct s3_setup){
        .endpoint =
            either(given->endpoint, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        .region = either(given->region, "AWS_REGION", "AWS_DEFAULT_REGION"),
        .credentials = given->credentials == NULL ? "" : given->credentials,
        .trust = either(NULL, "AWS_CA_BUNDLE", NULL),
        .path_style = given->path_style,
        .patience_ms =
            given->patience_ms != 0 ? given->patience_ms : S3_PATIENCE_MS,
        .part_bytes = S3_PART_BYTES,
    };
}

static struct store_entry *store_entry_find_locked(const struct s3_setup *setup)
{
    struct store_entry *k = all;

    while (k != NULL && (strcmp(k->endpoint, setup->endpoint) != 0 ||
                         strcmp(k->region, setup->region) != 0 ||
                         strcmp(k->credentials, setup->credentials) != 0 ||
                         k->path_style != setup->path_style ||
                         k->patience_ms != setup->patience_ms))
        k = k->next;
    return k;
}

static void store_entry_free(struct store_entry *k)
{
    sl_free(k->endpoint);
    sl_free(k->region);
    sl_free(k->credentials);
    sl_free(k);
}

static enum sl_err store_entry_add_locked(struct store_entry **out,
                                          const struct s3_setup *setup,
                                          struct sl_error *err)
{
    struct store_entry *k = sl_calloc(1, sizeof(*k));
    enum sl_err rc = SL_ENOMEM;

    if (k == NULL)
        return sl_fail(err, SL_ENOMEM, "out of memory for a store");
    k->endpoint = sl_strdup(setup->endpoint);
    k->region = sl_strdup(setup->region);
    k->credentials = sl_strdup(setup->credentials);
    k->path_style = setup->path_style;
    k->patience_ms = setup->patience_ms;
    if (k->endpoint == NULL || k->region == NULL || k->credentials == NULL)
        sl_fail(err, SL_ENOMEM, "out of memory for a store");
    else
        rc = s3_fs_new(&k->s3, setup, err);
    if (rc != SL_OK) {
        store_entry_free(k);
        return rc;
    }
    k->next = all;
    all = k;
    *out = k;
    return SL_OK;
}

static enum sl_err take_s3(struct fs **out, const struct s3_setup *setup,
                           struct sl_error *err)
{
    struct store_entry *k;
    enum sl_err rc = SL_OK;

    pthread_mutex_lock(&lock);
    k = store_entry_find_locked(setup);
    if (k == NULL)
        rc = store_entry_add_locked(&k, setup, err);
    if (rc == SL_OK)
        *out = &k->s3->fs;
    pthread_mutex_unlock(&lock);
    return rc;
}

enum sl_err store_fs(struct fs **out, const char *store,
                     const struct store_setup *setup, struct sl_error *err)
{
    static const struct store_setup usual = {.path_style = false};
    struct s3_setup whole;
    struct s3_name name;
    enum sl_err rc;

    if (!store_is_s3(store)) {
        if (*store == '\0' || strstr(store, "://") != NULL)
            return sl_fail(err, SL_EINVAL,
                           "'%.200s' is no store: a folder, or "
                           "s3://BUCKET/PREFIX",
                           store);
        *out = fs_posix();
        return SL_OK;
    }
    rc = s3_name_of(&name, store, err);
    if (rc != SL_OK)
        return rc;
    if (!web_known())
        return sl_fail(err, SL_ENOTSUP,
                       "%.200s: this program was built without libcurl, which "
                       "stores in S3 need",
                       store);
    whole = s3_setup_of(setup != NULL ? setup : &usual);
    return take_s3(out, &whole, err);
}
