// SPDX-License-Identifier: Apache-2.0
// host/store/credentials.c -- who is asked for keys, and when again.
#include "host/store/credentials_inner.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/run/log.h"

#define AHEAD_S 300   // before they expire
#define CHANGED_S 300 // those without an end may have been changed
#define AGAIN_S 10    // after a failure, while there are old ones

struct credentials {
    char *file; // owned; NULL: the usual order
    pthread_mutex_t lock;
    struct credential key;     // id NULL: none yet
    uint64_t renew_s;          // since 1970
    _Atomic unsigned failures; // questions that gave no key; wraps
    struct sl_error why;       // error of the last question that gave no key
};

enum sl_err credentials_new(struct credentials **out, const char *file,
                            struct sl_error *err)
{
    struct credentials *c = sl_calloc(1, sizeof(*c));

    if (c != NULL && file != NULL)
        c->file = sl_strdup(file);
    if (c == NULL || (file != NULL && c->file == NULL)) {
        sl_free(c);
        return sl_fail(err, SL_ENOMEM, "out of memory for keys");
    }
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    return SL_OK;
}

void credentials_free(struct credentials *c)
{
    if (c == NULL)
        return;
    credential_release(&c->key);
    pthread_mutex_destroy(&c->lock);
    sl_free(c->file);
    sl_free(c);
}

static enum sl_err from_environment(struct credential *out,
                                    struct sl_error *err)
{
    const char *id = environment("AWS_ACCESS_KEY_ID");
    const char *secret = environment("AWS_SECRET_ACCESS_KEY");
    enum sl_err rc;

    if (id == NULL && secret == NULL)
        return SL_ENOENT;
    if (id == NULL || secret == NULL)
        return sl_fail(
            err, SL_EAUTH,
            "the environment has %s, but not %s: set both, or none",
            id != NULL ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
            id != NULL ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
    rc = credential_set(out, id, secret, environment("AWS_SESSION_TOKEN"), err);
    return rc == SL_OK ? rc : sl_prefix(err, rc, "AWS_ACCESS_KEY_ID");
}

static const char *profile_name(void)
{
    const char *name = environment("AWS_PROFILE");

    return name == NULL ? "default" : name;
}

static enum sl_err from_shared_file(struct credential *out,
                                    struct sl_error *err)
{
    const char *path = environment("AWS_SHARED_CREDENTIALS_FILE");
    const char *home = environment("HOME");
    char own[4096];
    // A file or profile that the user has named must exist.
    bool must = path != NULL || environment("AWS_PROFILE") != NULL;

    if (path == NULL && home == NULL)
        return SL_ENOENT;
    if (path == NULL) {
        snprintf(own, sizeof(own), "%s/.aws/credentials", home);
        path = own;
    }
    return credential_from_file(out, path, profile_name(), must, err);
}

// In the order of Amazon's own libraries. Each gives keys, or SL_ENOENT where
// it does not exist: then the next is asked.
static enum sl_err (*const sources[])(struct credential *out,
                                      struct sl_error *err) = {
    from_environment,          credential_from_web_identity, from_shared_file,
    credential_from_container, credential_from_machine,
};

static enum sl_err credentials_find(const struct credentials *c,
                                    struct credential *out,
                                    struct sl_error *err)
{
    enum sl_err rc = SL_ENOENT;

    if (c->file != NULL)
        return credential_from_file(out, c->file, profile_name(), true, err);
    for (size_t i = 0; rc == SL_ENOENT && i < SL_COUNT(sources); i++)
        rc = sources[i](out, err);
    if (rc == SL_ENOENT && c->key.expires_s != 0)
        rc = sl_fail(err, SL_EUNAVAIL,
                     "the container or machine that gave the keys for S3 "
                     "gives no new keys");
    else if (rc == SL_ENOENT)
        rc = sl_fail(err, SL_EAUTH,
                     "no keys for S3: neither AWS_ACCESS_KEY_ID and "
                     "AWS_SECRET_ACCESS_KEY nor AWS_WEB_IDENTITY_TOKEN_FILE "
                     "are set, nor is there a file ~/.aws/credentials with "
                     "the profile '%s', nor has this container or machine a "
                     "role",
                     profile_name());
    return rc;
}

static uint64_t renew_at(const struct credential *key, uint64_t now)
{
    uint64_t half;

    if (key->expires_s == 0)
        return now + CHANGED_S;
    if (key->expires_s <= now)
        return now;
    half = now + (key->expires_s - now) / 2;
    return key->expires_s > AHEAD_S && key->expires_s - AHEAD_S > half
               ? key->expires_s - AHEAD_S
               : half;
}

static enum sl_err renew_locked(struct credentials *c, uint64_t now,
                                struct sl_error *err)
{
    struct credential fresh = {NULL, NULL, NULL, 0};
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc = credentials_find(c, &fresh, &why);

    if (rc == SL_OK) {
        credential_release(&c->key);
        c->key = fresh;
        c->renew_s = renew_at(&fresh, now);
        return SL_OK;
    }
    // Renewing failed: the old key is used until it expires.
    if (c->key.id != NULL && c->key.expires_s > now) {
        c->renew_s = now + AGAIN_S;
        LOG(WARN, "the keys for S3 are not renewed yet",
            "left_s=%" PRIu64 " why=%s", c->key.expires_s - now, why.text);
        return SL_OK;
    }
    c->why = why;
    atomic_fetch_add(&c->failures, 1);
    return sl_fail(err, rc, "%s", why.text);
}

enum sl_err credentials_get(struct credentials *c, struct credential *out,
                            struct sl_error *err)
{
    uint64_t now = sl_wall_us(sl_clock_real()) / 1000000, expires;
    unsigned failures = atomic_load(&c->failures);
    enum sl_err rc = SL_OK;

    pthread_mutex_lock(&c->lock);
    if (c->key.id != NULL && now < c->renew_s)
        ;
    else if (failures != atomic_load(&c->failures))
        // Another thread's question failed while this one waited: where a
        // service stands still, the threads do not ask it one after the other.
        rc = sl_fail(err, c->why.code, "%s", c->why.text);
    else
        rc = renew_locked(c, now, err);
    expires = c->key.expires_s;
    if (rc == SL_OK)
        rc = credential_set(out, c->key.id, c->key.secret, c->key.token, err);
    if (rc == SL_OK)
        out->expires_s = expires;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

void credentials_refused(struct credentials *c)
{
    pthread_mutex_lock(&c->lock);
    c->renew_s = 0;
    pthread_mutex_unlock(&c->lock);
}
