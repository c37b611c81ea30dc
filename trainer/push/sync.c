// SPDX-License-Identifier: Apache-2.0
// trainer/push/sync.c -- the calls of a sync for a thread that may wait.
#include "trainer/push/sync.h"

enum sync_result sync_wait(struct sync *s, uint32_t range, struct sl_error *err)
{
    enum sync_result result;

    while ((result = s->ops->wait(s, range, err)) == SYNC_BUSY)
        s->ops->await(s);
    return result;
}

enum sync_result sync_settle(struct sync *s, struct sl_error *err)
{
    enum sync_result result;

    while ((result = s->ops->settle(s, err)) == SYNC_BUSY)
        s->ops->await(s);
    return result;
}

enum sync_result sync_pull(struct sync *s, uint32_t from, uint32_t end,
                           struct sl_error *err)
{
    enum sync_result result;

    while ((result = s->ops->pull(s, from, end, err)) == SYNC_BUSY)
        s->ops->await(s);
    return result;
}

enum sync_result sync_rows(struct sync *s, const struct sync_rows *rows,
                           struct sl_error *err)
{
    enum sync_result result;

    while ((result = s->ops->rows(s, rows, err)) == SYNC_BUSY)
        s->ops->await(s);
    return result;
}

enum sync_result sync_rest(struct sync *s, uint32_t range, struct sl_error *err)
{
    enum sync_result result;

    while ((result = s->ops->rest(s, range, err)) == SYNC_BUSY)
        s->ops->await(s);
    return result;
}

enum sync_result sync_pull_cut(struct sync *s, const struct wire_tag *tags,
                               struct gate *gate, float *to,
                               struct sl_error *err)
{
    enum sync_result result;

    while ((result = s->ops->pull_cut(s, tags, gate, to, err)) == SYNC_BUSY)
        s->ops->await(s);
    return result;
}

enum sync_result sync_moments(struct sync *s, const struct sync_moments *m,
                              uint64_t *t, struct sl_error *err)
{
    enum sync_result result;

    while ((result = s->ops->moments(s, m, t, err)) == SYNC_BUSY)
        s->ops->await(s);
    return result;
}
