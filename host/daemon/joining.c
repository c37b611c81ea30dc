// SPDX-License-Identifier: Apache-2.0
// host/daemon/joining.c -- see joining.h.
#include "host/daemon/joining.h"

#include "common/base/mem.h"
#include "common/run/log.h"
#include "host/store/store_place.h"

enum sl_err joining_open(struct membership *m, struct fs **store_fs,
                         char **store, const char *state,
                         const struct conf *conf, struct sl_error *err)
{
    enum sl_err rc;

    do {
        rc = store_place(store_fs, store, conf, err);
        if (rc == SL_OK)
            rc =
                membership_open(m, fs_private(), state, *store_fs, *store, err);
    } while (rc == SL_EUNAVAIL && store_is_s3(*store));
    return rc;
}

struct joining_work {
    struct joining *of; // NULL: joining_release was called meanwhile
    struct membership copy;
    uint64_t cluster;
    enum sl_err rc;
    struct sl_error err;
};

static void joining_work_free(struct joining_work *w)
{
    membership_release(&w->copy);
    sl_free(w);
}

static void joining_work_run(void *arg)
{
    struct joining_work *w = arg;

    w->rc = membership_join(&w->copy, w->cluster, &w->err);
}

static void joined(void *arg)
{
    struct joining_work *w = arg;

    if (w->of != NULL) {
        w->of->work = NULL;
        if (w->rc == SL_OK)
            membership_take(w->of->membership, &w->copy);
        else
            LOG(WARN, "number of the cluster not saved", "why=%s",
                w->err.text[0] != '\0' ? w->err.text : sl_err_text(w->rc));
    }
    joining_work_free(w);
}

void joining_welcome(struct joining *j, uint64_t cluster)
{
    struct joining_work *w;

    if (cluster == 0 || j->work != NULL ||
        membership_joined(j->membership, cluster))
        return;
    w = sl_calloc(1, sizeof(*w));
    if (w == NULL)
        return; // the next welcome
    w->of = j;
    w->cluster = cluster;
    if (membership_copy(&w->copy, j->membership) == SL_OK &&
        loop_work(j->loop, joining_work_run, joined, w) == SL_OK)
        j->work = w;
    else
        joining_work_free(w);
}

void joining_release(struct joining *j)
{
    if (j->work != NULL)
        j->work->of = NULL;
    j->work = NULL;
}
