// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_cluster.c -- rows that are of no job: the
// identity of the cluster, and numbers that members have shown and it did not
// give.
#include "coordinator/journal/journal_sql.h"

static const char *const cluster_keys[4] = {"token_key_0", "token_key_1",
                                            "token_key_2", "token_key_3"};

enum sl_err journal_cluster(struct journal *j, struct journal_cluster *out,
                            struct sl_error *err)
{
    struct journal_cluster found = {0};
    enum sl_err rc = journal_meta(j, "cluster", &found.id, err);

    if (rc == SL_OK)
        rc = journal_meta(j, "store", &found.store, err);
    if (rc == SL_OK)
        rc = journal_meta(j, "seen_term", &found.seen_term, err);
    for (int i = 0; rc == SL_OK && i < 4; i++)
        rc = journal_meta(j, cluster_keys[i], &found.key[i], err);
    if (rc == SL_OK)
        rc = journal_meta(j, "tokens_required", &found.required, err);
    if (rc == SL_OK)
        *out = found;
    return rc;
}

enum sl_err journal_cluster_set(struct journal *j,
                                const struct journal_cluster *now,
                                struct sl_error *err)
{
    enum sl_err rc = journal_begin(j, err);

    if (rc != SL_OK)
        return rc;
    rc = journal_meta_set(j, "cluster", now->id, err);
    if (rc == SL_OK)
        rc = journal_meta_set(j, "store", now->store, err);
    if (rc == SL_OK)
        rc = journal_meta_set(j, "seen_term", now->seen_term, err);
    for (int i = 0; rc == SL_OK && i < 4; i++)
        rc = journal_meta_set(j, cluster_keys[i], now->key[i], err);
    if (rc == SL_OK)
        rc = journal_meta_set(j, "tokens_required", now->required, err);
    return journal_end(j, rc, err);
}

enum sl_err journal_jobs_skip(struct journal *j, uint64_t first, uint64_t last,
                              struct sl_error *err)
{
    enum sl_err rc = journal_begin(j, err);

    if (rc != SL_OK)
        return rc;
    rc = journal_write(j, err, "INSERT INTO gaps(first, last) VALUES(?1, ?2)",
                       JOURNAL_VALUES(U64(first), U64(last)));
    // The table has no row before the first job was given.
    if (rc == SL_OK)
        rc = journal_write(
            j, err,
            "INSERT INTO sqlite_sequence(name, seq) SELECT 'jobs', 0 WHERE NOT"
            " EXISTS(SELECT 1 FROM sqlite_sequence WHERE name = 'jobs')",
            NULL, 0);
    if (rc == SL_OK)
        rc = journal_write(j, err,
                           "UPDATE sqlite_sequence SET seq = ?1"
                           " WHERE name = 'jobs' AND seq < ?1",
                           JOURNAL_VALUES(U64(last)));
    return journal_end(j, rc, err);
}

enum sl_err journal_job_skipped(struct journal *j, uint64_t job, bool *skipped,
                                struct sl_error *err)
{
    uint64_t found;
    enum sl_err rc = journal_number(
        j, &found, err, "SELECT 1 FROM gaps WHERE first <= ?1 AND last >= ?1",
        JOURNAL_VALUES(U64(job)));

    if (rc == SL_OK)
        *skipped = found != 0;
    return rc;
}

enum sl_err journal_given_job(struct journal *j, uint64_t *id,
                              struct sl_error *err)
{
    uint64_t last = 0, first = 1;
    enum sl_err rc = journal_last_job(j, &last, err);

    while (rc == SL_OK && first != 0) {
        rc = journal_number(j, &first, err,
                            "SELECT first FROM gaps WHERE last = ?1",
                            JOURNAL_VALUES(U64(last)));
        if (rc == SL_OK && first != 0)
            last = first - 1;
    }
    if (rc == SL_OK)
        *id = last;
    return rc;
}
