// SPDX-License-Identifier: Apache-2.0
// coordinator/service/audit.c -- the lines of the audit log.
#include "coordinator/service/audit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/buf.h"
#include "common/base/chain.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/run/log.h"

#define JOB_BYTES 200

struct audit {
    struct fs *fs;
    const struct sl_clock *clock;
    char *path;
    struct chain *chain; // NULL: it failed, and is opened again
};

// RFC 3339, UTC.
static void time_text(char out[40], uint64_t us)
{
    time_t seconds = (time_t)(us / 1000000);
    char text[24] = "";
    struct tm tm;

    if (gmtime_r(&seconds, &tm) != NULL)
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, 40, "%s.%06uZ", text, (unsigned)(us % 1000000));
}

// Out of the way of the next one, under a name that nobody has.
static enum sl_err set_aside(struct audit *a, const struct sl_error *why,
                             struct sl_error *err)
{
    struct buf name = BUF_INIT;
    enum sl_err rc =
        buf_appendf(&name, "%s.damaged-%llu", a->path,
                    (unsigned long long)sl_wall_us(a->clock) / 1000000);

    if (rc == SL_OK)
        rc = fs_rename(a->fs, a->path, buf_text(&name), err);
    if (rc == SL_OK)
        LOG(WARN, "audit log damaged; a new one is begun", "why=%s kept=%s",
            why->text, buf_text(&name));
    buf_release(&name);
    return rc;
}

static enum sl_err reopen(struct audit *a, struct sl_error *err)
{
    enum sl_err rc = chain_open(&a->chain, a->fs, a->path, err);

    if (rc == SL_ECORRUPT) {
        struct sl_error why = *err;

        rc = set_aside(a, &why, err);
        if (rc == SL_OK)
            rc = chain_open(&a->chain, a->fs, a->path, err);
    }
    return rc;
}

enum sl_err audit_new(struct audit **out, struct fs *fs,
                      const struct sl_clock *clock, const char *folder,
                      struct sl_error *err)
{
    struct audit *a = sl_calloc(1, sizeof(*a));
    struct sl_error local = SL_ERROR_INIT;
    enum sl_err rc = SL_OK;

    if (a == NULL)
        return sl_fail(err, SL_ENOMEM, "the audit log");
    a->fs = fs;
    a->clock = clock;
    a->path = fs_join(folder, "audit.log");
    rc = a->path == NULL ? sl_fail(&local, SL_ENOMEM, "the audit log")
                         : reopen(a, &local);
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
                           const struct access_who *who, const char *call,
                           const char *job, enum sl_err rc,
                           const struct sl_error *why)
{
    char when[40];
    enum sl_err made;

    time_text(when, us);
    made = buf_appendf(out, "\"time\":\"%s\"", when);
    if (made == SL_OK)
        made = add_text(out, "role", access_role_name(who->role), ACCESS_NAME);
    if (made == SL_OK)
        made = add_text(out, "name", who->name, ACCESS_NAME);
    if (made == SL_OK)
        made = add_text(out, "tenant", who->tenant, ACCESS_TENANT);
    if (made == SL_OK)
        made = add_text(out, "call", call, ACCESS_NAME);
    if (made == SL_OK)
        made = add_text(out, "job", job, JOB_BYTES);
    if (made == SL_OK)
        made = add_text(out, "result", sl_err_name(rc), ACCESS_NAME);
    if (made == SL_OK && rc != SL_OK)
        made = add_text(out, "why", why->text, SL_ERROR_TEXT);
    return made;
}

void audit_write(struct audit *a, const struct access_who *who,
                 const char *call, const char *job, enum sl_err result,
                 const struct sl_error *why)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf body = BUF_INIT;
    enum sl_err rc =
        body_of(&body, sl_wall_us(a->clock), who, call, job, result, why);

    if (rc == SL_OK && a->chain == NULL)
        rc = reopen(a, &err);
    if (rc == SL_OK)
        rc = chain_add(a->chain, buf_text(&body), &err);
    buf_release(&body);
    if (rc == SL_OK)
        return;
    LOG(ERROR, "audit line not written", "call=%s job=%s who=%s why=%s", call,
        job, who->name, err.text);
    chain_free(a->chain); // half of the line may be there
    a->chain = NULL;
}
