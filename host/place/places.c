// SPDX-License-Identifier: Apache-2.0
// host/place/places.c -- see places.h.
#include "host/place/places.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "host/place/fetch.h"

#define THREADS 16
#define LISTED_MS 10000 // what a list says of an object is used so long, once
#define LISTED_MOST (UINT32_C(1) << 18) // names of a folder
#define SHOWN 161                       // bytes of a path, in an error

// What a list said of an object.
struct listed {
    struct s3_object found;
    uint64_t at_ms;
};

struct places {
    struct fs fs;
    struct s3 *s3, *web;     // owned
    struct s3_name *allowed; // owned
    size_t allowed_count;
    struct pieces *cache; // owned; NULL: none
    struct fetch *fetch;  // owned

    pthread_mutex_t lock; // guards `listed`
    struct strmap listed; // of struct listed, by path
    uint64_t listed_ms;   // time of the last list
};

struct place_file {
    struct fs_file base;
    struct object *object; // a reference
};

static struct places *places_of(struct fs *fs)
{
    return sl_container_of(fs, struct places, fs);
}

static struct place_file *place_file_of(struct fs_file *f)
{
    return sl_container_of(f, struct place_file, base);
}

// ---- files

static void place_close(struct fs_file *base)
{
    struct place_file *f = place_file_of(base);

    object_unref(f->object);
    sl_free(base->path);
    sl_free(f);
}

static enum sl_err place_pread(struct fs_file *base, uint64_t offset, void *to,
                               size_t n, size_t *got, struct sl_error *err)
{
    struct object *o = place_file_of(base)->object;
    uint64_t left = o->found.bytes > offset ? o->found.bytes - offset : 0;
    enum sl_err rc;

    if (n > left)
        n = (size_t)left;
    rc = fetch_read(places_of(base->fs)->fetch, o, offset, to, n, err);
    if (rc == SL_OK)
        *got = n;
    return rc;
}

static void place_expect(struct fs_file *base, uint64_t offset, size_t n)
{
    fetch_expect(places_of(base->fs)->fetch, place_file_of(base)->object,
                 offset, n);
}

static enum sl_err place_size(struct fs_file *base, uint64_t *out,
                              struct sl_error *err)
{
    *out = place_file_of(base)->object->found.bytes;
    return SL_OK;
}

static uint64_t place_version(const struct fs_file *base)
{
    const struct place_file *f =
        place_file_of((struct fs_file *)(uintptr_t)base);
    uint64_t version;

    memcpy(&version, f->object->id, sizeof(version));
    return version | 1;
}

// Reads the whole object: there is no file to map.
static enum sl_err place_map(struct fs_file *base, struct fs_map *out,
                             struct sl_error *err)
{
    size_t n = (size_t)place_file_of(base)->object->found.bytes, got = 0;
    uint8_t *all = sl_malloc(n > 0 ? n : 1);
    enum sl_err rc;

    if (all == NULL)
        return sl_fail(err, SL_ENOMEM, "%s: no memory for its %zu bytes",
                       base->path, n);
    rc = place_pread(base, 0, all, n, &got, err);
    if (rc == SL_OK)
        *out = (struct fs_map){all, n, all};
    else
        sl_free(all);
    return rc;
}

static void place_unmap(struct fs *fs, struct fs_map *m)
{
    sl_free(m->impl);
}

static const struct fs_ops place_ops = {
    .close = place_close,
    .pread = place_pread,
    .expect = place_expect,
    .size = place_size,
    .version = place_version,
    .map = place_map,
    .unmap = place_unmap,
};

// ---- what is allowed

// Returns true if `name` is the prefix, or lies below it.
static bool lies_below(const struct s3_name *name, const struct s3_name *prefix)
{
    size_t n = strlen(prefix->key);

    return name->web == prefix->web &&
           strcmp(name->bucket, prefix->bucket) == 0 &&
           strncmp(name->key, prefix->key, n) == 0 &&
           (n == 0 || name->key[n] == '\0' || name->key[n] == '/');
}

static enum sl_err refuse_place(const struct places *p, const char *path,
                                struct sl_error *err)
{
    char text[SHOWN], list[240] = "";
    size_t at = 0;

    for (size_t i = 0; i < p->allowed_count && at < sizeof(list); i++) {
        const struct s3_name *a = &p->allowed[i];

        at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s%s%s%s",
                               i > 0 ? ", " : "", s3_scheme(a), a->bucket,
                               a->key[0] != '\0' ? "/" : "", a->key);
    }
    utf8_line(text, sizeof(text), path);
    return sl_fail(err, SL_EDENIED,
                   "%s: not a place that this worker may read; it reads below "
                   "--data-allow %s: ask its operator to allow the prefix",
                   text, list);
}

// Reads and checks the name of a file, or of a folder before names.
static enum sl_err place_name(const struct places *p, struct s3_name *out,
                              const char *path, struct sl_error *err)
{
    enum sl_err rc = s3_place_name_of(out, path, err);

    for (size_t i = 0; rc == SL_OK && i < p->allowed_count; i++)
        if (lies_below(out, &p->allowed[i]))
            return SL_OK;
    return rc == SL_OK ? refuse_place(p, path, err) : rc;
}

enum sl_err places_allow(struct places *p, const char *prefix,
                         struct sl_error *err)
{
    struct s3_name name;
    struct s3_name *more;
    enum sl_err rc = s3_place_name_of(&name, prefix, err);

    if (rc != SL_OK)
        return sl_prefix(err, rc, "--data-allow");
    if (strpbrk(name.key, "*{") != NULL)
        return sl_fail(err, SL_EINVAL,
                       "--data-allow %.200s: a prefix has no pattern", prefix);
    more = sl_realloc_array(p->allowed, p->allowed_count + 1, sizeof(*more));
    if (more == NULL)
        return sl_no_memory(err);
    p->allowed = more;
    p->allowed[p->allowed_count++] = name;
    return SL_OK;
}

// ---- lists

static void forget_listed_locked(struct places *p)
{
    size_t i;

    for (i = 0; i < p->listed.cap; i++)
        if (p->listed.slots[i].key != NULL)
            sl_free(p->listed.slots[i].value);
    strmap_release(&p->listed);
}

// Notes what a list says of an object, so that it is opened without a request.
// Without memory it is not noted.
static void note_listed(struct places *p, const char *path,
                        const struct s3_object *found)
{
    struct listed *l;

    pthread_mutex_lock(&p->lock);
    l = strmap_get(&p->listed, path);
    if (l == NULL) {
        l = sl_calloc(1, sizeof(*l));
        if (l != NULL && strmap_put(&p->listed, path, l) != SL_OK) {
            sl_free(l);
            l = NULL;
        }
    }
    if (l != NULL)
        *l = (struct listed){*found, sl_real_ms()};
    pthread_mutex_unlock(&p->lock);
}

// A note is used once: the next open of that name is another job's, perhaps,
// and the object another.
static bool find_listed(struct places *p, const char *path,
                        struct s3_object *found)
{
    struct listed *l;
    bool known;

    pthread_mutex_lock(&p->lock);
    l = strmap_get(&p->listed, path);
    known = l != NULL && sl_real_ms() - l->at_ms < LISTED_MS;
    if (known)
        *found = l->found;
    if (l != NULL)
        l->at_ms = 0;
    pthread_mutex_unlock(&p->lock);
    return known;
}

struct place_names {
    struct places *p;
    const char *dir; // with its '/'
    struct s3_names names;
};

static enum sl_err take_listed(void *arg, const char *name,
                               const struct s3_object *object)
{
    struct place_names *l = arg;
    char path[S3_BUCKET + S3_KEY + 16];

    enum sl_err rc = l->names.count >= LISTED_MOST
                         ? SL_ERANGE
                         : s3_names_add(&l->names, name, strlen(name));

    if (rc != SL_OK)
        return rc;
    if (object->bytes != UINT64_MAX &&
        snprintf(path, sizeof(path), "%s%s", l->dir, name) < (int)sizeof(path))
        note_listed(l->p, path, object);
    return SL_OK;
}

static enum sl_err places_list(void *arg, const char *dir, fs_name_fn fn,
                               void *of, struct sl_error *err)
{
    struct place_names l = {.p = arg, .dir = dir};
    struct s3_name name;
    enum sl_err rc = place_name(l.p, &name, dir, err);

    if (rc == SL_OK && name.web)
        rc = sl_fail(err, SL_EINVAL, "a web server lists no names");
    if (rc != SL_OK)
        return rc;
    pthread_mutex_lock(&l.p->lock);
    if (sl_real_ms() - l.p->listed_ms > LISTED_MS)
        forget_listed_locked(l.p);
    l.p->listed_ms = sl_real_ms();
    pthread_mutex_unlock(&l.p->lock);
    rc = s3_list_objects(l.p->s3, &name, take_listed, &l, err);
    if (rc == SL_ERANGE)
        rc = sl_fail(err, rc,
                     "%s: over %" PRIu32 " objects; put them into several "
                     "folders, or pack them",
                     dir, LISTED_MOST);
    if (rc == SL_EAUTH)
        rc = SL_EDENIED;
    s3_names_sort(&l.names);
    for (size_t i = 0; rc == SL_OK && i < l.names.count; i++)
        rc = fn(of, l.names.name[i]);
    s3_names_release(&l.names);
    return rc;
}

// ---- opening

static enum sl_err place_ask(struct places *p, const struct s3_name *name,
                             const char *path, struct s3_object *found,
                             struct sl_error *err)
{
    enum sl_err rc;

    if (find_listed(p, path, found))
        return SL_OK;
    rc = s3_head(name->web ? p->web : p->s3, name, found, err);
    return rc == SL_EAUTH ? SL_EDENIED : rc;
}

static enum sl_err places_open(void *arg, struct fs_file **out,
                               const char *path, struct sl_error *err)
{
    struct places *p = arg;
    struct object *object = NULL;
    struct place_file *f;
    struct s3_object found;
    struct s3_name name;
    enum sl_err rc = place_name(p, &name, path, err);

    if (rc == SL_OK && name.key[0] == '\0')
        rc = sl_fail(err, SL_EINVAL, "%.200s names no file", path);
    if (rc == SL_OK)
        rc = place_ask(p, &name, path, &found, err);
    if (rc == SL_OK)
        rc = object_new(&object, name.web ? p->web : p->s3, &name, &found, err);
    if (rc != SL_OK)
        return rc;
    f = sl_calloc(1, sizeof(*f));
    if (f != NULL)
        f->base.path = sl_strdup(path);
    if (f == NULL || f->base.path == NULL) {
        object_unref(object);
        sl_free(f);
        return sl_no_memory(err);
    }
    f->base.fs = &p->fs;
    f->object = object;
    *out = &f->base;
    return SL_OK;
}

struct roots_places places_reader(struct places *p)
{
    return (struct roots_places){places_open, places_list, p};
}

// ---- life

static enum sl_err make_clients(struct places *p, const struct store_setup *s,
                                struct sl_error *err)
{
    const char *trust = getenv("SSL_CERT_FILE");
    struct s3_setup s3 = s3_setup_of(s);
    struct s3_setup web = {.endpoint = "",
                           .region = "",
                           .credentials = "",
                           .trust = trust != NULL ? trust : "",
                           .patience_ms = s3.patience_ms,
                           .part_bytes = s3.part_bytes};
    enum sl_err rc = s3_new(&p->s3, &s3, err);

    return rc == SL_OK ? s3_new(&p->web, &web, err) : rc;
}

enum sl_err places_new(struct places **out, const struct places_setup *setup,
                       struct sl_error *err)
{
    struct places *p;
    enum sl_err rc;

    if (!web_known())
        return sl_fail(err, SL_ENOTSUP,
                       "--data-allow: this program was built without libcurl, "
                       "which reading at places needs");
    p = sl_calloc(1, sizeof(*p));
    if (p == NULL)
        return sl_no_memory(err);
    p->fs.ops = &place_ops;
    pthread_mutex_init(&p->lock, NULL);
    rc = make_clients(p, &setup->store, err);
    if (rc == SL_OK && setup->cache != NULL)
        rc = pieces_new(&p->cache, setup->cache, setup->cache_bytes, err);
    if (rc == SL_OK)
        rc = fetch_new(&p->fetch, p->cache, THREADS, err);
    if (rc != SL_OK) {
        places_free(p);
        return rc;
    }
    *out = p;
    return SL_OK;
}

void places_leave(struct places *p)
{
    if (p == NULL)
        return;
    if (p->s3 != NULL)
        atomic_store(&p->s3->leaving, true);
    if (p->web != NULL)
        atomic_store(&p->web->leaving, true);
    if (p->fetch != NULL)
        fetch_leave(p->fetch);
}

void places_free(struct places *p)
{
    if (p == NULL)
        return;
    places_leave(p);
    fetch_free(p->fetch);
    pieces_free(p->cache);
    if (p->s3 != NULL)
        s3_free(p->s3);
    if (p->web != NULL)
        s3_free(p->web);
    forget_listed_locked(p);
    pthread_mutex_destroy(&p->lock);
    sl_free(p->allowed);
    sl_free(p);
}

void places_measure(struct places *p, struct expo *e)
{
    struct fetch_figures f = {0};
    uint64_t retries = 0;

    if (p != NULL) {
        fetch_figures(p->fetch, &f);
        retries = atomic_load(&p->s3->retries) + atomic_load(&p->web->retries);
    }
    expo_single(e, "sluice_place_fetched_bytes_total", EXPO_COUNTER,
                "Bytes of data that came from places (--data-allow).",
                (double)f.fetched_bytes);
    expo_single(e, "sluice_place_requests_total", EXPO_COUNTER,
                "Pieces of data that were asked for at places.",
                (double)f.requests);
    expo_single(e, "sluice_place_retries_total", EXPO_COUNTER,
                "Requests to places that were made again after a pause.",
                (double)retries);
    expo_single(e, "sluice_place_failures_total", EXPO_COUNTER,
                "Pieces of data that a place did not give.",
                (double)f.failures);
    expo_single(e, "sluice_cache_hits_total", EXPO_COUNTER,
                "Reads of data at places that the cache on the disk answered.",
                (double)f.hits);
    expo_single(e, "sluice_cache_bytes", EXPO_GAUGE,
                "Bytes in the cache, of all workers that share it.",
                (double)f.cache_bytes);
    expo_single(e, "sluice_cache_damaged_total", EXPO_COUNTER,
                "Pieces in the cache that did not fit their checksums.",
                (double)f.damaged);
}
