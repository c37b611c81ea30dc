// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_ring.c -- generations of a ring, which are the
// incarnations of all its parts, how large its rounds are, and what it lost.
#include "coordinator/journal/journal_sql.h"

#include <stdio.h>

enum sl_err journal_ring_open(struct journal *j, uint64_t job,
                              uint64_t generation, struct sl_error *err)
{
    enum sl_err rc = journal_write(j, err,
                                   "UPDATE shards SET incarnation = ?2"
                                   " WHERE job = ?1 AND incarnation < ?2",
                                   JOURNAL_VALUES(U64(job), U64(generation)));

    if (rc == SL_OK && sqlite3_changes(j->db) < 1)
        return sl_fail(err, SL_EINTERNAL,
                       "journal: generation %llu of job %llu does not rise",
                       (unsigned long long)generation, (unsigned long long)job);
    return rc;
}

// Keys of meta.
#define CONTRIBUTIONS "contributions"
#define REDONE "steps redone"

struct key {
    char text[64];
};

static const char *journal_ring_key(struct key *k, const char *what,
                                    uint64_t job)
{
    snprintf(k->text, sizeof(k->text), "%s of job %llu", what,
             (unsigned long long)job);
    return k->text;
}

static enum sl_err journal_ring_write_number(struct journal *j,
                                             const char *what, uint64_t job,
                                             uint64_t value,
                                             struct sl_error *err)
{
    struct key key;

    return journal_meta_set(j, journal_ring_key(&key, what, job), value, err);
}

static enum sl_err journal_ring_read_number(struct journal *j, const char *what,
                                            uint64_t job, uint64_t *value,
                                            struct sl_error *err)
{
    struct key key;

    return journal_meta(j, journal_ring_key(&key, what, job), value, err);
}

static enum sl_err forget_number(struct journal *j, const char *what,
                                 uint64_t job, struct sl_error *err)
{
    struct key key;

    return journal_write(
        j, err, "DELETE FROM meta WHERE key = ?1",
        JOURNAL_VALUES(TEXT(journal_ring_key(&key, what, job))));
}

enum sl_err journal_ring_contributions(struct journal *j, uint64_t job,
                                       uint32_t contributions,
                                       struct sl_error *err)
{
    return journal_ring_write_number(j, CONTRIBUTIONS, job, contributions, err);
}

enum sl_err journal_ring_read(struct journal *j, uint64_t job,
                              uint32_t *contributions, struct sl_error *err)
{
    uint64_t value;
    enum sl_err rc =
        journal_ring_read_number(j, CONTRIBUTIONS, job, &value, err);

    if (rc == SL_OK)
        *contributions = (uint32_t)value;
    return rc;
}

enum sl_err journal_ring_redone(struct journal *j, uint64_t job, uint64_t steps,
                                struct sl_error *err)
{
    return journal_ring_write_number(j, REDONE, job, steps, err);
}

enum sl_err journal_ring_redone_read(struct journal *j, uint64_t job,
                                     uint64_t *steps, struct sl_error *err)
{
    return journal_ring_read_number(j, REDONE, job, steps, err);
}

enum sl_err journal_ring_forget(struct journal *j, uint64_t job,
                                struct sl_error *err)
{
    enum sl_err rc = forget_number(j, CONTRIBUTIONS, job, err);

    return rc == SL_OK ? forget_number(j, REDONE, job, err) : rc;
}
