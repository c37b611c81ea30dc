// SPDX-License-Identifier: Apache-2.0
// common/base/membership.c -- which cluster a daemon belongs to: read, learned,
// compared.
#include "common/base/membership.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/storemark.h"

#define FILE_NAME "cluster"
#define FILE_MAX 8192

static enum sl_err membership_parse(struct membership *m, const char *text,
                                    struct sl_error *err)
{
    const char *line = strchr(text, '\n');
    uint64_t cluster = 0;
    enum sl_err rc = storemark_parse(&cluster, text, m->file, err);

    m->cluster = cluster;
    if (rc != SL_OK || line == NULL || line[1] == '\0')
        return rc;
    m->was = sl_strndup(line + 1, strcspn(line + 1, "\n"));
    return m->was == NULL ? SL_ENOMEM : SL_OK;
}

static enum sl_err membership_read_file(struct membership *m,
                                        struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    struct buf text = BUF_INIT;
    enum sl_err rc;

    if (m->file == NULL)
        return SL_OK;
    // Only SL_ENOENT means no cluster: a disk that fails is an error.
    rc = fs_read_all(m->fs, m->file, FILE_MAX, &text, &why);
    if (rc == SL_ENOENT)
        rc = SL_OK;
    else if (rc == SL_OK)
        rc = membership_parse(m, buf_text(&text), err);
    else
        sl_fail(err, rc, "%s", why.text);
    buf_release(&text);
    return rc;
}

static bool used_before(const struct membership *m)
{
    return m->was != NULL && strcmp(m->was, m->store) == 0;
}

static enum sl_err look_at_store(struct membership *m, struct sl_error *err)
{
    uint64_t mark = 0;
    enum sl_err rc;

    if (m->store == NULL)
        return SL_OK;
    rc = storemark_read(&mark, m->store_fs, m->store, err);
    if (rc != SL_OK)
        return rc;
    if (m->cluster == 0)
        m->cluster = mark; // its state was lost, or it never had one
    if (mark != 0 || used_before(m))
        return m->cluster == 0
                   ? SL_OK
                   : storemark_check(m->store_fs, m->store, m->cluster, err);
    return SL_OK;
}

enum sl_err membership_open(struct membership *m, struct fs *fs,
                            const char *state, struct fs *store_fs,
                            const char *store, struct sl_error *err)
{
    struct membership opened = {.fs = fs, .store_fs = store_fs};
    enum sl_err rc;

    opened.file = state == NULL ? NULL : fs_join(state, FILE_NAME);
    opened.store = store == NULL ? NULL : sl_strdup(store);
    rc = (state != NULL && opened.file == NULL) ||
                 (store != NULL && opened.store == NULL)
             ? SL_ENOMEM
             : membership_read_file(&opened, err);
    if (rc == SL_OK)
        rc = look_at_store(&opened, err);
    if (rc == SL_OK)
        *m = opened;
    else
        membership_release(&opened);
    return rc;
}

void membership_release(struct membership *m)
{
    sl_free(m->file);
    sl_free(m->store);
    sl_free(m->was);
    *m = (struct membership){0};
}

static enum sl_err membership_write_file(const struct membership *m,
                                         uint64_t cluster, struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = buf_appendf(&text, "%016" PRIx64 "\n%s\n", cluster,
                                 m->store == NULL ? "" : m->store);

    if (rc == SL_OK)
        rc = fs_write_durable(m->fs, m->file, text.data, text.len, err);
    buf_release(&text);
    return rc;
}

bool membership_joined(const struct membership *m, uint64_t cluster)
{
    return cluster == m->cluster && (m->store == NULL || used_before(m));
}

enum sl_err membership_join(struct membership *m, uint64_t cluster,
                            struct sl_error *err)
{
    char *was;
    enum sl_err rc = SL_OK;

    if (membership_joined(m, cluster))
        return SL_OK;
    was = m->store == NULL ? NULL : sl_strdup(m->store);
    if (m->store != NULL && was == NULL)
        return sl_no_memory(err);
    if (m->store != NULL)
        rc = storemark_write(m->store_fs, m->store, cluster, err);
    if (rc == SL_OK && m->file != NULL)
        rc = membership_write_file(m, cluster, err);
    if (rc != SL_OK) {
        sl_free(was);
        return rc;
    }
    sl_free(m->was);
    m->was = was;
    m->cluster = cluster;
    return SL_OK;
}

static bool membership_copy_text(char **out, const char *of)
{
    *out = of == NULL ? NULL : sl_strdup(of);
    return of == NULL || *out != NULL;
}

enum sl_err membership_copy(struct membership *out, const struct membership *of)
{
    struct membership copy = {
        .fs = of->fs, .store_fs = of->store_fs, .cluster = of->cluster};

    if (!membership_copy_text(&copy.file, of->file) ||
        !membership_copy_text(&copy.store, of->store) ||
        !membership_copy_text(&copy.was, of->was)) {
        membership_release(&copy);
        return SL_ENOMEM;
    }
    *out = copy;
    return SL_OK;
}

void membership_take(struct membership *m, struct membership *copy)
{
    char *was = m->was;

    m->was = copy->was;
    copy->was = was;
    m->cluster = copy->cluster;
}

enum sl_err membership_check(const struct membership *m, struct sl_error *err)
{
    uint64_t cluster = m->cluster;

    return m->store == NULL || cluster == 0
               ? SL_OK
               : storemark_check(m->store_fs, m->store, cluster, err);
}
