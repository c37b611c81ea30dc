// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recovery/cluster.c -- the id of the cluster, its store, and
// members that are not of it.
#include "coordinator/core/recovery/cluster.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/job.h"
#include "coordinator/core/recovery/stored.h"

// More often than any coordinator is started between a backup and its return; a
// term further away is a mistake, and would use up terms that are left.
#define TERMS_MAX 65536
#define STRANGERS_MAX 64

// ---- the id and the store

static bool has_key(const uint64_t key[4])
{
    return (key[0] | key[1] | key[2] | key[3]) != 0;
}

// Takes a new key if the cluster has none. A cluster of an older version has
// workers that know of no tokens, so only a new one requires them.
static bool add_key(struct coord *c, bool is_new)
{
    if (has_key(c->cluster.key) || !has_key(c->options.secret))
        return false;
    memcpy(c->cluster.key, c->options.secret, sizeof(c->cluster.key));
    c->cluster.required = is_new;
    return true;
}

enum sl_err cluster_open(struct coord *c, struct sl_error *err)
{
    struct journal_cluster had;
    bool keyed;
    enum sl_err rc = journal_cluster(c->journal, &had, err);

    if (rc != SL_OK)
        return rc;
    c->cluster = had;
    rc = stored_cluster(c->stored, &c->cluster.id, &c->cluster.store, err);
    if (rc != SL_OK)
        return rc;
    keyed = add_key(c, had.id == 0 && c->term <= 1);
    if (had.id != c->cluster.id || had.store != c->cluster.store || keyed)
        rc = journal_cluster_set(c->journal, &c->cluster, err);
    return rc;
}

// ---- strangers

static struct cluster_stranger *
cluster_find_stranger(const struct coord *c, bool psserver, const char *name)
{
    for (size_t i = 0; i < c->strangers_count; i++) {
        struct cluster_stranger *s = &c->strangers[i];

        if (s->psserver == psserver && strcmp(s->name, name) == 0)
            return s;
    }
    return NULL;
}

// Returns a new place in the list, or that of the stranger that was not seen
// for longest.
static struct cluster_stranger *cluster_stranger_slot(struct coord *c)
{
    struct cluster_stranger *oldest;

    if (c->strangers == NULL)
        c->strangers = sl_calloc(STRANGERS_MAX, sizeof(*c->strangers));
    if (c->strangers == NULL)
        return NULL;
    if (c->strangers_count < STRANGERS_MAX)
        return &c->strangers[c->strangers_count++];
    oldest = c->strangers;
    for (size_t i = 1; i < c->strangers_count; i++) {
        if (c->strangers[i].seen_ms < oldest->seen_ms)
            oldest = &c->strangers[i];
    }
    return oldest;
}

static void cluster_note_stranger(struct coord *c,
                                  const Sluice__V1__Hello *hello)
{
    bool psserver = hello->role == SLUICE__V1__ROLE__ROLE_PSSERVER;
    struct cluster_stranger *s =
        cluster_find_stranger(c, psserver, hello->name);

    if (s == NULL)
        s = cluster_stranger_slot(c);
    if (s == NULL)
        return; // the stranger dials again
    *s = (struct cluster_stranger){.psserver = psserver,
                                   .cluster = hello->cluster,
                                   .term = hello->term,
                                   .seen_ms = coord_now(c)};
    snprintf(s->name, sizeof(s->name), "%s", hello->name);
}

static enum sl_err note_term(struct coord *c, uint64_t term)
{
    struct journal_cluster now = c->cluster;

    if (term - c->term > TERMS_MAX || term <= now.seen_term)
        return SL_OK;
    now.seen_term = term;
    if (!coord_wrote(c, journal_cluster_set(c->journal, &now, &c->err)))
        return c->err.code;
    c->cluster = now;
    return SL_OK;
}

enum sl_err cluster_judge(struct coord *c, const Sluice__V1__Hello *hello,
                          struct sl_error *err)
{
    if (hello->cluster == 0 ||
        (hello->cluster == c->cluster.id && hello->term <= c->term))
        return SL_OK;
    cluster_note_stranger(c, hello);
    if (hello->cluster != c->cluster.id)
        return sl_fail(err, SL_ESTATE,
                       "'%s' belongs to cluster %016llx, this coordinator is "
                       "of cluster %016llx: give it the address of its own, "
                       "or an empty state folder",
                       hello->name, (ull)hello->cluster, (ull)c->cluster.id);
    if (note_term(c, hello->term) != SL_OK)
        return sl_fail(err, SL_EIO, "the journal could not be written");
    return sl_fail(err, SL_ESTATE,
                   "'%s' has seen term %llu of this cluster, this coordinator "
                   "is at %llu (I5): it was replaced, or its journal is an "
                   "older copy. Restore the newest journal.sqlite; or restart "
                   "this coordinator if it is to go on",
                   hello->name, (ull)hello->term, (ull)c->term);
}

void cluster_release(struct coord *c)
{
    sl_free(c->strangers);
}
