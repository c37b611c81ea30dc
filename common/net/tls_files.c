// SPDX-License-Identifier: Apache-2.0
// common/net/tls_files.c -- certificate files that are replaced while in use.
//
// One list for the process, since what is wrong with a file should be said
// once and not once per connection. A look compares what stat says of the
// three files with what it said when they were read; a rename or a chmod
// changes that, so it is enough.
#include "common/net/tls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/list.h"
#include "common/run/log.h"
#include "common/base/mem.h"
#include "common/net/tls_peer.h"

struct stamp { // all zeroes: no such file
    dev_t dev;
    ino_t ino;
    off_t bytes;
    struct timespec changed;
};

#define FILES 4

struct stamps {
    struct stamp of[FILES];
};

struct tls_files {
    struct list_node node;
    unsigned refs;
    char *ca_file, *cert_file, *key_file;
    char *crl_file; // NULL: none
    atomic_uint serial;
    struct tls_pem pem;
    struct stamps used;  // as they were when `pem` was read
    struct stamps tried; // as they were when reading failed
    bool logged;         // that it failed
    time_t warned_day;   // on which the end was last warned of
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of all below
static struct list all = {{&all.head, &all.head}};

static struct rpc_tls tls_files_paths(const struct tls_files *f)
{
    return (struct rpc_tls){.ca_file = f->ca_file,
                            .cert_file = f->cert_file,
                            .key_file = f->key_file,
                            .crl_file = f->crl_file};
}

static struct stamps stamps_of(const struct tls_files *f)
{
    const char *path[FILES] = {f->ca_file, f->cert_file, f->key_file,
                               f->crl_file};
    struct stamps out;
    struct stat st;

    memset(&out, 0, sizeof(out));
    for (int i = 0; i < FILES; i++) {
        if (path[i] == NULL || stat(path[i], &st) != 0)
            continue;
        out.of[i].dev = st.st_dev;
        out.of[i].ino = st.st_ino;
        out.of[i].bytes = st.st_size;
        out.of[i].changed = st.st_ctim;
    }
    return out;
}

static bool tls_stamps_are_same(const struct stamps *a, const struct stamps *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

// ---- reading

// Stamps from before the reading: what is replaced meanwhile is seen at the
// next look.
static enum sl_err tls_files_read_locked(struct tls_files *f,
                                         const struct stamps *now,
                                         struct sl_error *err)
{
    struct rpc_tls tls = tls_files_paths(f);
    struct tls_pem pem;
    enum sl_err rc = tls_load(&pem, &tls, err);

    if (rc != SL_OK)
        return rc;
    tls_pem_release(&f->pem);
    f->pem = pem;
    f->used = *now;
    f->logged = false;
    f->warned_day = 0;
    atomic_fetch_add(&f->serial, 1);
    return SL_OK;
}

static void read_again_locked(struct tls_files *f, const struct stamps *now,
                              bool insist)
{
    struct sl_error err = SL_ERROR_INIT;

    if (tls_files_read_locked(f, now, &err) == SL_OK) {
        LOG(INFO, "certificates replaced",
            "cert=%s ends_in_days=%lld serial=%u", f->cert_file,
            (long long)((f->pem.ends - time(NULL)) / TLS_DAY_S),
            tls_files_serial(f));
        return;
    }
    if (!tls_stamps_are_same(now, &f->tried)) {
        f->tried = *now;
        f->logged = false;
        if (!insist) // perhaps the other files are still to come
            return;
    }
    if (f->logged && !insist)
        return;
    f->logged = true;
    LOG(WARN, "new certificates are not valid; the old ones stay in use",
        "error=%s", err.text);
}

// Logs that the revocation list is out of date. It stays in use, because the
// certificates it names are still revoked.
static void warn_of_crl_locked(const struct tls_files *f, time_t now)
{
    if (f->pem.crl_ends != 0 && f->pem.crl_ends < now)
        LOG(WARN, "revocation list is out of date", "crl=%s days_ago=%lld",
            f->crl_file, (long long)((now - f->pem.crl_ends) / TLS_DAY_S));
}

// Once a day.
static void warn_of_end_locked(struct tls_files *f, bool insist)
{
    time_t now = time(NULL), left = f->pem.ends - now;

    if (f->warned_day == now / TLS_DAY_S && !insist)
        return;
    f->warned_day = now / TLS_DAY_S;
    warn_of_crl_locked(f, now);
    if (left >= TLS_SOON_DAYS * TLS_DAY_S)
        return;
    if (left < 0)
        LOG(WARN, "certificate has expired",
            "cert=%s days_ago=%lld do=replace the file", f->cert_file,
            (long long)(-left / TLS_DAY_S));
    else
        LOG(WARN, "certificate expires", "cert=%s days=%lld", f->cert_file,
            (long long)(left / TLS_DAY_S));
}

void tls_look(bool insist)
{
    pthread_mutex_lock(&lock);
    list_for(n, &all)
    {
        struct tls_files *f = list_entry(n, struct tls_files, node);
        struct stamps now = stamps_of(f);

        if (!tls_stamps_are_same(&now, &f->used))
            read_again_locked(f, &now, insist);
        warn_of_end_locked(f, insist);
    }
    pthread_mutex_unlock(&lock);
}

bool tls_is_open(void)
{
    bool open;

    pthread_mutex_lock(&lock);
    open = !list_empty(&all);
    pthread_mutex_unlock(&lock);
    return open;
}

// ---- users

static void free_files(struct tls_files *f)
{
    tls_pem_release(&f->pem);
    sl_free(f->ca_file);
    sl_free(f->cert_file);
    sl_free(f->key_file);
    sl_free(f->crl_file);
    sl_free(f);
}

static bool same_crl(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static struct tls_files *tls_files_find_locked(const struct rpc_tls *tls)
{
    list_for(n, &all)
    {
        struct tls_files *f = list_entry(n, struct tls_files, node);

        if (strcmp(f->ca_file, tls->ca_file) == 0 &&
            strcmp(f->cert_file, tls->cert_file) == 0 &&
            strcmp(f->key_file, tls->key_file) == 0 &&
            same_crl(f->crl_file, tls->crl_file))
            return f;
    }
    return NULL;
}

static enum sl_err tls_files_add_locked(struct tls_files **out,
                                        const struct rpc_tls *tls,
                                        struct sl_error *err)
{
    struct tls_files *f = sl_calloc(1, sizeof(*f));
    struct stamps now;
    enum sl_err rc;

    if (f == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory");
    f->ca_file = sl_strdup(tls->ca_file);
    f->cert_file = sl_strdup(tls->cert_file);
    f->key_file = sl_strdup(tls->key_file);
    if (tls->crl_file != NULL)
        f->crl_file = sl_strdup(tls->crl_file);
    if (f->ca_file == NULL || f->cert_file == NULL || f->key_file == NULL ||
        (f->crl_file == NULL) != (tls->crl_file == NULL)) {
        rc = sl_fail(err, SL_ENOMEM, "no memory");
    } else {
        now = stamps_of(f);
        rc = tls_files_read_locked(f, &now, err);
    }
    if (rc != SL_OK) {
        free_files(f);
        return rc;
    }
    list_push_back(&all, &f->node);
    *out = f;
    return SL_OK;
}

enum sl_err tls_files_open(struct tls_files **out, const struct rpc_tls *tls,
                           struct sl_error *err)
{
    struct tls_files *f = NULL;
    struct stamps now;
    enum sl_err rc = SL_OK;

    if (tls->ca_file == NULL || tls->cert_file == NULL ||
        tls->key_file == NULL) {
        struct tls_pem none;

        return tls_load(&none, tls, err); // says which is missing
    }
    pthread_mutex_lock(&lock);
    f = tls_files_find_locked(tls);
    if (f == NULL) {
        rc = tls_files_add_locked(&f, tls, err);
    } else {
        now = stamps_of(f);
        if (!tls_stamps_are_same(&now, &f->used))
            read_again_locked(f, &now, false);
    }
    if (rc == SL_OK) {
        f->refs++;
        *out = f;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

struct tls_files *tls_files_ref(struct tls_files *f)
{
    pthread_mutex_lock(&lock);
    f->refs++;
    pthread_mutex_unlock(&lock);
    return f;
}

void tls_files_close(struct tls_files *f)
{
    if (f == NULL)
        return;
    pthread_mutex_lock(&lock);
    if (--f->refs == 0) {
        list_remove(&f->node);
        free_files(f);
    }
    pthread_mutex_unlock(&lock);
}

unsigned tls_files_serial(const struct tls_files *f)
{
    return atomic_load_explicit(&f->serial, memory_order_acquire);
}

enum sl_err tls_files_copy(struct tls_files *f, struct tls_pem *out,
                           unsigned *serial, struct sl_error *err)
{
    struct tls_pem pem;
    unsigned copied;

    pthread_mutex_lock(&lock);
    pem = (struct tls_pem){.ca = sl_strdup(f->pem.ca),
                           .cert = sl_strdup(f->pem.cert),
                           .key = sl_strdup(f->pem.key),
                           .ends = f->pem.ends};
    copied = tls_files_serial(f);
    pthread_mutex_unlock(&lock);
    if (pem.ca == NULL || pem.cert == NULL || pem.key == NULL) {
        tls_pem_release(&pem);
        return sl_fail(err, SL_ENOMEM, "no memory");
    }
    *serial = copied;
    *out = pem;
    return SL_OK;
}

void tls_files_ends(struct tls_files *f, time_t *cert, time_t *crl)
{
    pthread_mutex_lock(&lock);
    *cert = f->pem.ends;
    *crl = f->pem.crl_ends;
    pthread_mutex_unlock(&lock);
}

bool tls_files_revoke(struct tls_files *f, const char *pem, size_t n)
{
    bool revoked;

    pthread_mutex_lock(&lock);
    revoked = tls_peer_revoked(f->pem.crl, pem, n);
    pthread_mutex_unlock(&lock);
    return revoked;
}
