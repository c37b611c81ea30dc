// SPDX-License-Identifier: Apache-2.0
// coordinator/service/audit.c -- the lines of the audit log, and its files.
#include "coordinator/service/audit.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/chain.h"
#include "common/base/json.h"
#include "common/base/list.h"
#include "common/base/mem.h"
#include "common/run/log.h"

#define JOB_BYTES 200
#define NAME "audit.log"

// A line on its way to the file.
struct audit_entry {
    struct list_node node;
    void (*written)(void *arg);
    void *arg;
    struct buf body;
};

struct audit {
    struct audit_options o; // its folder is owned
    // Used by the thread alone, once it runs:
    char *path;
    uint64_t segments;   // the highest number of a renamed file
    struct chain *chain; // NULL: it failed, and is opened again
    pthread_t thread;
    bool started;
    struct {
        pthread_mutex_t lock;
        pthread_cond_t came, wrote;
        struct list lines; // of struct audit_entry
        bool writing, stop;
    } _shared;
};

// ---- files

// Returns the number in the name of a renamed file; 0: the name is not one.
static uint64_t segment_of(const char *name)
{
    const char *digits = name + strlen(NAME ".");
    size_t n;

    if (strncmp(name, NAME ".", strlen(NAME ".")) != 0)
        return 0;
    n = strspn(digits, "0123456789");
    return n >= 6 && n < 19 && digits[n] == '\0' ? strtoull(digits, NULL, 10)
                                                 : 0;
}

static enum sl_err segment_path(struct buf *out, const struct audit *a,
                                uint64_t number)
{
    return buf_appendf(out, "%s.%06" PRIu64, a->path, number);
}

static enum sl_err note_segment(void *arg, const char *name)
{
    struct audit *a = arg;
    uint64_t number = segment_of(name);

    if (number > a->segments)
        a->segments = number;
    return SL_OK;
}

// Removes a renamed file older than those that are kept, and logs it: the file
// was evidence.
static enum sl_err drop_segment(void *arg, const char *name)
{
    struct audit *a = arg;
    uint64_t number = segment_of(name);
    struct sl_error err = SL_ERROR_INIT;
    char *path;

    if (number == 0 || number + a->o.keep > a->segments)
        return SL_OK;
    path = fs_join(a->o.folder, name);
    if (path == NULL || fs_unlink(a->o.fs, path, &err) != SL_OK)
        LOG(WARN, "old audit log not removed", "file=%s why=%s", name,
            err.text);
    else
        LOG(INFO, "old audit log removed", "file=%s keep=%u", path, a->o.keep);
    sl_free(path);
    return SL_OK;
}

// Renames a damaged log to an unused name, out of the way of the next one.
static enum sl_err set_aside(struct audit *a, const struct sl_error *why,
                             struct sl_error *err)
{
    struct buf name = BUF_INIT;
    enum sl_err rc =
        buf_appendf(&name, "%s.damaged-%llu", a->path,
                    (unsigned long long)sl_wall_us(a->o.clock) / 1000000);

    if (rc == SL_OK)
        rc = fs_rename(a->o.fs, a->path, buf_text(&name), err);
    if (rc == SL_OK)
        LOG(WARN, "audit log damaged; a new one is begun", "why=%s kept=%s",
            why->text, buf_text(&name));
    buf_release(&name);
    return rc;
}

// Finds where the chain goes on in a file without lines, as after a crash
// between two files, or a rename by hand: where the newest segment ends.
static enum sl_err goes_on_at(struct chain_end *end, const struct audit *a,
                              struct sl_error *err)
{
    struct buf path = BUF_INIT;
    struct chain_end found;
    enum sl_err rc = SL_OK;

    chain_begin(end);
    if (a->segments == 0)
        return SL_OK;
    chain_begin(&found);
    rc = segment_path(&path, a, a->segments);
    if (rc == SL_OK)
        rc = chain_find_end(&found, a->o.fs, buf_text(&path), err);
    buf_release(&path);
    if (rc == SL_OK)
        *end = found;
    if (rc == SL_ECORRUPT)
        LOG(WARN, "full audit log damaged", "why=%s", err->text);
    return rc == SL_ECORRUPT ? SL_OK : rc;
}

static enum sl_err reopen(struct audit *a, struct sl_error *err)
{
    struct chain_end before;
    enum sl_err rc = goes_on_at(&before, a, err);

    if (rc == SL_OK)
        rc = chain_open(&a->chain, a->o.fs, a->path, &before, err);
    if (rc == SL_ECORRUPT) {
        struct sl_error why = *err;

        rc = set_aside(a, &why, err);
        if (rc == SL_OK) // a new chain: the old one does not hold
            rc = chain_open(&a->chain, a->o.fs, a->path, NULL, err);
    }
    return rc;
}

// Renames a full file to the next segment. A failure is tried again with the
// next line.
static enum sl_err audit_rotate_file(struct audit *a, struct sl_error *err)
{
    struct buf path = BUF_INIT;
    enum sl_err rc = segment_path(&path, a, a->segments + 1);

    if (rc == SL_OK)
        rc = chain_sync(a->chain, err);
    if (rc == SL_OK)
        rc = fs_rename(a->o.fs, a->path, buf_text(&path), err);
    if (rc == SL_OK)
        rc = fs_sync_dir(a->o.fs, a->o.folder, err);
    if (rc == SL_OK) {
        LOG(INFO, "audit log goes on in a new file", "full=%s",
            buf_text(&path));
        a->segments++;
        chain_free(a->chain);
        a->chain = NULL;
        if (a->o.keep > 0)
            rc = fs_list(a->o.fs, a->o.folder, drop_segment, a, err);
    }
    buf_release(&path);
    return rc;
}

static enum sl_err audit_prepare_file(struct audit *a, struct sl_error *err)
{
    if (a->chain != NULL && a->o.bytes > 0 &&
        chain_bytes(a->chain) >= a->o.bytes &&
        audit_rotate_file(a, err) != SL_OK)
        LOG(WARN, "audit log not renamed", "why=%s", err->text);
    return a->chain != NULL ? SL_OK : reopen(a, err);
}

// ---- the thread

// Closes the chain after a failed write: half of a line may be in the file, so
// it is opened again for the next line.
static void drop_chain(struct audit *a)
{
    struct sl_error err = SL_ERROR_INIT;

    if (a->chain != NULL)
        (void)chain_sync(a->chain, &err);
    chain_free(a->chain);
    a->chain = NULL;
}

static void audit_log_missing(const char *body, const struct sl_error *why)
{
    LOG(ERROR, "audit line not written", "line=%s why=%s", body, why->text);
}

static void audit_append_entry(struct audit *a, const struct audit_entry *e)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = audit_prepare_file(a, &err);

    if (rc == SL_OK)
        rc = chain_add(a->chain, buf_text(&e->body), &err);
    if (rc == SL_OK)
        return;
    audit_log_missing(buf_text(&e->body), &err);
    drop_chain(a);
}

static void entry_end(struct audit_entry *e)
{
    if (e->written != NULL)
        e->written(e->arg);
    buf_release(&e->body);
    sl_free(e);
}

static void audit_write_entries(struct audit *a, struct list *lines)
{
    struct sl_error err = SL_ERROR_INIT;
    struct list_node *n;

    list_for(at, lines)
    {
        audit_append_entry(a, list_entry(at, struct audit_entry, node));
    }
    if (a->chain != NULL && chain_sync(a->chain, &err) != SL_OK) {
        list_for(at, lines)
        {
            audit_log_missing(
                buf_text(&list_entry(at, struct audit_entry, node)->body),
                &err);
        }
        drop_chain(a);
    }
    while ((n = list_pop_front(lines)) != NULL)
        entry_end(list_entry(n, struct audit_entry, node));
}

static void *audit_thread(void *arg)
{
    struct audit *a = arg;
    struct list lines;
    bool more = true;

    list_init(&lines);
    while (more) {
        pthread_mutex_lock(&a->_shared.lock);
        a->_shared.writing = false;
        pthread_cond_broadcast(&a->_shared.wrote);
        while (list_empty(&a->_shared.lines) && !a->_shared.stop)
            pthread_cond_wait(&a->_shared.came, &a->_shared.lock);
        more = !list_empty(&a->_shared.lines);
        a->_shared.writing = more;
        list_take_all(&lines, &a->_shared.lines);
        pthread_mutex_unlock(&a->_shared.lock);
        if (more)
            audit_write_entries(a, &lines);
    }
    return NULL;
}

// ---- its life

static struct audit *audit_alloc(const struct audit_options *options)
{
    struct audit *a = sl_calloc(1, sizeof(*a));

    if (a == NULL)
        return NULL;
    a->o = *options;
    a->o.folder = sl_strdup(options->folder);
    a->path = fs_join(options->folder, NAME);
    list_init(&a->_shared.lines);
    pthread_mutex_init(&a->_shared.lock, NULL);
    pthread_cond_init(&a->_shared.came, NULL);
    pthread_cond_init(&a->_shared.wrote, NULL);
    return a;
}

enum sl_err audit_new(struct audit **out, const struct audit_options *options,
                      struct sl_error *err)
{
    struct audit *a = audit_alloc(options);
    struct sl_error local = SL_ERROR_INIT;
    enum sl_err rc = SL_OK;

    if (a == NULL || a->path == NULL || a->o.folder == NULL)
        rc = sl_fail(&local, SL_ENOMEM, "the audit log");
    if (rc == SL_OK)
        rc = fs_list(a->o.fs, a->o.folder, note_segment, a, &local);
    if (rc == SL_OK)
        rc = reopen(a, &local);
    if (rc == SL_OK && pthread_create(&a->thread, NULL, audit_thread, a) != 0)
        rc = sl_fail(&local, SL_ENOMEM, "a thread for the audit log");
    if (rc != SL_OK) {
        audit_free(a);
        if (err != NULL)
            *err = local;
        return rc;
    }
    a->started = true;
    pthread_setname_np(a->thread, "audit");
    *out = a;
    return SL_OK;
}

void audit_free(struct audit *a)
{
    if (a == NULL)
        return;
    if (a->started) {
        pthread_mutex_lock(&a->_shared.lock);
        a->_shared.stop = true;
        pthread_cond_signal(&a->_shared.came);
        pthread_mutex_unlock(&a->_shared.lock);
        pthread_join(a->thread, NULL);
    }
    chain_free(a->chain);
    pthread_cond_destroy(&a->_shared.came);
    pthread_cond_destroy(&a->_shared.wrote);
    pthread_mutex_destroy(&a->_shared.lock);
    sl_free((char *)a->o.folder);
    sl_free(a->path);
    sl_free(a);
}

// ---- lines

static enum sl_err audit_append_text(struct buf *out, const char *key,
                                     const char *text, size_t most)
{
    enum sl_err rc = buf_appendf(out, ",\"%s\":", key);

    return rc == SL_OK ? sl_json_quote(out, text, strnlen(text, most)) : rc;
}

static enum sl_err body_of(struct buf *out, uint64_t us,
                           const struct audit_line *line)
{
    const struct access_who *who = line->who;
    char when[CLOCK_RFC3339];
    enum sl_err made;

    sl_rfc3339(when, us);
    made = buf_appendf(out, "\"time\":\"%s\"", when);
    if (made == SL_OK)
        made = audit_append_text(out, "role", access_role_name(who->role),
                                 ACCESS_NAME);
    if (made == SL_OK)
        made = audit_append_text(out, "name", who->name, ACCESS_NAME);
    if (made == SL_OK)
        made = audit_append_text(out, "tenant", who->tenant, ACCESS_TENANT);
    if (made == SL_OK)
        made = audit_append_text(out, "call", line->call, ACCESS_NAME);
    if (made == SL_OK)
        made = audit_append_text(out, "job", line->job, JOB_BYTES);
    if (made == SL_OK)
        made = audit_append_text(out, "result", sl_err_name(line->result),
                                 ACCESS_NAME);
    if (made == SL_OK && line->result != SL_OK)
        made = audit_append_text(out, "why", line->why->text, SL_ERROR_TEXT);
    if (made == SL_OK && line->times > 0)
        made = buf_appendf(out, ",\"times\":%" PRIu64, line->times);
    return made;
}

void audit_write(struct audit *a, const struct audit_line *line,
                 void (*written)(void *arg), void *arg)
{
    struct audit_entry *e = sl_malloc(sizeof(*e));
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = e == NULL ? SL_ENOMEM : SL_OK;

    if (line->result != SL_OK && a->o.refused != NULL)
        a->o.refused(a->o.arg, line);
    if (rc == SL_OK) {
        *e = (struct audit_entry){
            .written = written, .arg = arg, .body = BUF_INIT};
        rc = body_of(&e->body, sl_wall_us(a->o.clock), line);
    }
    if (rc != SL_OK) {
        sl_fail(&err, rc, "one more line");
        audit_log_missing(line->call, &err);
        if (e != NULL)
            buf_release(&e->body);
        sl_free(e);
        if (written != NULL)
            written(arg);
        return;
    }
    pthread_mutex_lock(&a->_shared.lock);
    list_push_back(&a->_shared.lines, &e->node);
    pthread_cond_signal(&a->_shared.came);
    pthread_mutex_unlock(&a->_shared.lock);
}

void audit_wait(struct audit *a)
{
    pthread_mutex_lock(&a->_shared.lock);
    while (a->_shared.writing || !list_empty(&a->_shared.lines))
        pthread_cond_wait(&a->_shared.wrote, &a->_shared.lock);
    pthread_mutex_unlock(&a->_shared.lock);
}
