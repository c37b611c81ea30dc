// SPDX-License-Identifier: Apache-2.0
// coordinator/service/audit.c -- the lines of the audit log, and its files.
#include "coordinator/service/audit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/chain.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/run/log.h"

#define JOB_BYTES 200
#define NAME "audit.log"

struct audit {
    struct audit_options o; // its folder is owned
    char *path;
    uint64_t segments;   // the highest number of a renamed file
    struct chain *chain; // NULL: it failed, and is opened again
};

// ---- files

// 0: it is none.
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

// What lies below those that are kept. It is said: what goes is evidence.
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

// Out of the way of the next one, under a name that nobody has.
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

// Where the chain goes on in a file without lines, as after a crash between two
// files, or a rename by hand: where the newest segment ends.
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
        if (rc == SL_OK) // a new chain: what it would follow does not hold
            rc = chain_open(&a->chain, a->o.fs, a->path, NULL, err);
    }
    return rc;
}

// The file is full: it is put beside the others. What fails is tried again
// with the next line.
static enum sl_err rotate(struct audit *a, struct sl_error *err)
{
    struct buf path = BUF_INIT;
    enum sl_err rc = segment_path(&path, a, a->segments + 1);

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

static enum sl_err ready(struct audit *a, struct sl_error *err)
{
    if (a->chain != NULL && a->o.bytes > 0 &&
        chain_bytes(a->chain) >= a->o.bytes && rotate(a, err) != SL_OK)
        LOG(WARN, "audit log not renamed", "why=%s", err->text);
    return a->chain != NULL ? SL_OK : reopen(a, err);
}

enum sl_err audit_new(struct audit **out, const struct audit_options *options,
                      struct sl_error *err)
{
    struct audit *a = sl_calloc(1, sizeof(*a));
    struct sl_error local = SL_ERROR_INIT;
    enum sl_err rc = SL_OK;

    if (a == NULL)
        return sl_fail(err, SL_ENOMEM, "the audit log");
    a->o = *options;
    a->o.folder = sl_strdup(options->folder);
    a->path = fs_join(options->folder, NAME);
    if (a->path == NULL || a->o.folder == NULL)
        rc = sl_fail(&local, SL_ENOMEM, "the audit log");
    if (rc == SL_OK)
        rc = fs_list(a->o.fs, a->o.folder, note_segment, a, &local);
    if (rc == SL_OK)
        rc = reopen(a, &local);
    if (rc != SL_OK) {
        audit_free(a);
        if (err != NULL)
            *err = local;
        return rc;
    }
    *out = a;
    return SL_OK;
}

void audit_free(struct audit *a)
{
    if (a == NULL)
        return;
    chain_free(a->chain);
    sl_free((char *)a->o.folder);
    sl_free(a->path);
    sl_free(a);
}

static enum sl_err add_text(struct buf *out, const char *key, const char *text,
                            size_t most)
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
        made = add_text(out, "role", access_role_name(who->role), ACCESS_NAME);
    if (made == SL_OK)
        made = add_text(out, "name", who->name, ACCESS_NAME);
    if (made == SL_OK)
        made = add_text(out, "tenant", who->tenant, ACCESS_TENANT);
    if (made == SL_OK)
        made = add_text(out, "call", line->call, ACCESS_NAME);
    if (made == SL_OK)
        made = add_text(out, "job", line->job, JOB_BYTES);
    if (made == SL_OK)
        made = add_text(out, "result", sl_err_name(line->result), ACCESS_NAME);
    if (made == SL_OK && line->result != SL_OK)
        made = add_text(out, "why", line->why->text, SL_ERROR_TEXT);
    if (made == SL_OK && line->times > 0)
        made = buf_appendf(out, ",\"times\":%" PRIu64, line->times);
    return made;
}

void audit_write(struct audit *a, const struct audit_line *line)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf body = BUF_INIT;
    enum sl_err rc = body_of(&body, sl_wall_us(a->o.clock), line);

    if (line->result != SL_OK && a->o.refused != NULL)
        a->o.refused(a->o.arg, line);
    if (rc == SL_OK)
        rc = ready(a, &err);
    if (rc == SL_OK)
        rc = chain_add(a->chain, buf_text(&body), &err);
    buf_release(&body);
    if (rc == SL_OK)
        return;
    LOG(ERROR, "audit line not written", "call=%s job=%s who=%s why=%s",
        line->call, line->job, line->who->name, err.text);
    chain_free(a->chain); // half of the line may be there
    a->chain = NULL;
}
