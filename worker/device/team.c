// SPDX-License-Identifier: Apache-2.0
// worker/device/team.c -- the threads of a team, and their commands; see
// team.h.
#include "worker/device/team.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

#define QUEUE 16 // most commands that a mate is behind

struct command {
    team_fn fn;
    _Alignas(16) unsigned char args[TEAM_ARGS];
};

struct mate {
    pthread_t thread;
    bool started;
    struct team *team;
    struct kern_dev *dev; // its thread's; NULL: not open
    uint64_t bytes;       // of its memory; known once the mate was waited for

    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct command queue[QUEUE];
        uint64_t posted, done; // commands
        bool quit;
        enum sl_err rc; // first failure since the last team_wait
        struct sl_error err;
    } shared;
};

struct team {
    _Atomic bool joined;
    struct kern_dev *devs[TEAM_MOST]; // by member
    char by[100];
    unsigned count;
    struct mate mate[TEAM_MOST - 1];
};

// ---- names

static bool same_backend(const char *a, const char *b)
{
    size_t n = strcspn(a, ":");

    return n == strcspn(b, ":") && strncmp(a, b, n) == 0;
}

// Returns the number of a GPU; "cuda" is number 0.
static unsigned ordinal(const char *name)
{
    const char *colon = strchr(name, ':');

    return colon == NULL ? 0 : (unsigned)strtoul(colon + 1, NULL, 10);
}

static enum sl_err team_check_name(const struct team_names *n, const char *name,
                                   struct sl_error *err)
{
    bool host = strcmp(name, "cpu") == 0 || strcmp(name, "ref") == 0;

    if (n->count > 0 &&
        (strcmp(name, "auto") == 0 || strcmp(n->name[0], "auto") == 0))
        return sl_fail(err, SL_EINVAL,
                       "auto is one device; name several, as in "
                       "cuda:0,cuda:1");
    for (unsigned i = 0; i < n->count; i++) {
        if (!same_backend(n->name[i], name))
            return sl_fail(err, SL_EINVAL,
                           "%s and %s do not compute together; give each kind "
                           "a worker of its own",
                           n->name[i], name);
        if (!host && ordinal(n->name[i]) == ordinal(name))
            return sl_fail(err, SL_EINVAL, "%s is named twice", name);
    }
    return SL_OK;
}

enum sl_err team_names_read(struct team_names *out, const char *list,
                            struct sl_error *err)
{
    struct team_names n = {.count = 0};
    const char *at = list;

    for (;;) {
        size_t len = strcspn(at, ",");
        char name[TEAM_NAME];
        enum sl_err rc;

        if (len == 0 || len >= TEAM_NAME)
            return sl_fail(err, SL_EINVAL,
                           "device \"%.100s\": names of devices with commas "
                           "between them, as in cuda:0,cuda:1",
                           list);
        if (n.count == TEAM_MOST)
            return sl_fail(err, SL_EINVAL,
                           "at most %d devices compute together", TEAM_MOST);
        snprintf(name, sizeof(name), "%.*s", (int)len, at);
        rc = team_check_name(&n, name, err);
        if (rc != SL_OK)
            return rc;
        memcpy(n.name[n.count++], name, sizeof(name));
        if (at[len] == '\0')
            break;
        at += len + 1;
    }
    *out = n;
    return SL_OK;
}

// ---- a mate's thread

// Takes the next command; false when the thread is to end. Commands behind a
// failure are passed over.
static bool next(struct mate *m, struct command *out)
{
    bool any;

    pthread_mutex_lock(&m->shared.lock);
    for (;;) {
        while (m->shared.done == m->shared.posted && !m->shared.quit)
            pthread_cond_wait(&m->shared.changed, &m->shared.lock);
        any = m->shared.done < m->shared.posted;
        if (!any || m->shared.rc == SL_OK)
            break;
        m->shared.done = m->shared.posted;
        pthread_cond_broadcast(&m->shared.changed);
    }
    if (any)
        *out = m->shared.queue[m->shared.done % QUEUE];
    pthread_mutex_unlock(&m->shared.lock);
    return any;
}

static void finished(struct mate *m, enum sl_err rc, const struct sl_error *err)
{
    pthread_mutex_lock(&m->shared.lock);
    if (rc != SL_OK) {
        m->shared.rc = rc;
        m->shared.err = *err;
    }
    m->shared.done++;
    pthread_cond_broadcast(&m->shared.changed);
    pthread_mutex_unlock(&m->shared.lock);
}

void team_sever(struct team *t)
{
    if (atomic_exchange(&t->joined, false))
        t->devs[0]->backend->part(t->devs, t->count + 1);
}

static void *mate_run(void *arg)
{
    struct mate *m = arg;
    struct command c;

    while (next(m, &c)) {
        struct sl_error err = SL_ERROR_INIT;
        enum sl_err rc = c.fn(m->dev, c.args, &err);

        // A device that is lost in the midst of an exchange leaves the others
        // waiting for it on their streams: only an end of what joins them ends
        // that wait.
        if (rc == SL_ELOST)
            team_sever(m->team);
        finished(m, rc, &err);
    }
    kern_close(m->dev);
    return NULL;
}

// ---- posting and waiting

void team_post(struct team *t, unsigned mate, team_fn fn, const void *args,
               size_t bytes)
{
    struct mate *m = &t->mate[mate];
    struct command *c;

    assert(bytes <= TEAM_ARGS);
    pthread_mutex_lock(&m->shared.lock);
    while (m->shared.posted - m->shared.done == QUEUE)
        pthread_cond_wait(&m->shared.changed, &m->shared.lock);
    c = &m->shared.queue[m->shared.posted++ % QUEUE];
    c->fn = fn;
    if (bytes > 0)
        memcpy(c->args, args, bytes);
    pthread_cond_broadcast(&m->shared.changed);
    pthread_mutex_unlock(&m->shared.lock);
}

enum sl_err team_wait(struct team *t, unsigned mate, struct sl_error *err)
{
    struct mate *m = &t->mate[mate];
    enum sl_err rc;

    pthread_mutex_lock(&m->shared.lock);
    while (m->shared.done < m->shared.posted)
        pthread_cond_wait(&m->shared.changed, &m->shared.lock);
    rc = m->shared.rc;
    if (rc != SL_OK && err != NULL)
        *err = m->shared.err;
    m->shared.rc = SL_OK;
    pthread_mutex_unlock(&m->shared.lock);
    return rc;
}

enum sl_err team_wait_all(struct team *t, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < t->count; i++) {
        enum sl_err one = team_wait(t, i, rc == SL_OK ? err : NULL);

        rc = rc == SL_OK ? one : rc;
    }
    return rc;
}

// ---- opening and closing

struct open_args {
    struct mate *m;
    const char *name, *options;
};

static enum sl_err mate_open_device(struct kern_dev *dev, const void *args,
                                    struct sl_error *err)
{
    const struct open_args *a = args;
    struct kern_info info;
    enum sl_err rc = kern_open(&a->m->dev, a->name, a->options, err);

    if (rc == SL_OK) {
        a->m->dev->backend->info(&info, a->m->dev);
        a->m->bytes = info.bytes;
    }
    return rc;
}

static enum sl_err team_start_mate(struct team *t, const char *name,
                                   const char *options, struct sl_error *err)
{
    struct mate *m = &t->mate[t->count];
    const struct open_args a = {m, name, options};

    pthread_mutex_init(&m->shared.lock, NULL);
    pthread_cond_init(&m->shared.changed, NULL);
    m->team = t;
    t->count++;
    if (pthread_create(&m->thread, NULL, mate_run, m) != 0)
        return sl_fail(err, SL_ENOMEM, "cannot start a thread for %s", name);
    m->started = true;
    pthread_setname_np(m->thread, "mate");
    team_post(t, t->count - 1, mate_open_device, &a, sizeof(a));
    return team_wait(t, t->count - 1, err);
}

// Joins devices that reach each other; others meet in host memory.
static void team_join_devices(struct team *t, struct kern_dev *first)
{
    struct sl_error why = SL_ERROR_INIT;
    const struct kern_backend *b = first->backend;
    enum sl_err rc;

    snprintf(t->by, sizeof(t->by), "host memory");
    t->devs[0] = first;
    for (unsigned i = 0; i < t->count; i++)
        t->devs[i + 1] = t->mate[i].dev;
    if (b->host || !kern_has_peers(b))
        return;
    rc = b->join(t->devs, t->count + 1, t->by, sizeof(t->by), &why);
    t->joined = rc == SL_OK;
    if (rc != SL_OK)
        snprintf(t->by, sizeof(t->by), "host memory, since %.80s", why.text);
}

enum sl_err team_new(struct team **out, struct kern_dev *first,
                     const struct team_names *names, const char *options,
                     struct sl_error *err)
{
    struct team *t = NULL;
    enum sl_err rc = SL_OK;

    if (names->count > 1) {
        t = sl_calloc(1, sizeof(*t));
        if (t == NULL)
            return sl_no_memory(err);
    }
    for (unsigned i = 1; i < names->count && rc == SL_OK; i++)
        rc = team_start_mate(t, names->name[i], options, err);
    if (rc != SL_OK) {
        team_free(t);
        return rc;
    }
    if (t != NULL)
        team_join_devices(t, first);
    *out = t;
    return SL_OK;
}

void team_free(struct team *t)
{
    for (unsigned i = 0; t != NULL && i < t->count; i++) {
        struct mate *m = &t->mate[i];

        pthread_mutex_lock(&m->shared.lock);
        m->shared.quit = true;
        pthread_cond_broadcast(&m->shared.changed);
        pthread_mutex_unlock(&m->shared.lock);
        if (m->started)
            pthread_join(m->thread, NULL);
        pthread_mutex_destroy(&m->shared.lock);
        pthread_cond_destroy(&m->shared.changed);
    }
    sl_free(t);
}

uint64_t team_bytes(const struct team *t)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; t != NULL && i < t->count; i++)
        bytes += t->mate[i].bytes;
    return bytes;
}

unsigned team_mates(const struct team *t)
{
    return t == NULL ? 0 : t->count;
}

const char *team_by(const struct team *t)
{
    return t->by;
}

bool team_joined(const struct team *t)
{
    return t->joined;
}

// A module may be older than fault(), and host backends do not have it.
const char *team_lost(struct team *t)
{
    for (unsigned i = 0; i < team_mates(t); i++) {
        struct kern_dev *dev = t->mate[i].dev;
        const struct kern_backend *b = dev->backend;

        if (b->size >=
                offsetof(struct kern_backend, fault) + sizeof(b->fault) &&
            b->fault != NULL && b->fault(dev)[0] != '\0')
            return b->fault(dev);
    }
    return "";
}

uint32_t team_part(const struct team *t, unsigned member, uint32_t n,
                   uint32_t *first)
{
    uint32_t members = team_mates(t) + 1;
    uint32_t each = n / members, more = n % members;

    *first = member * each + (member < more ? member : more);
    return each + (member < more);
}
