// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/arrivals.c -- see arrivals.h.
#include "coordinator/core/leases/arrivals.h"

#include <stdio.h>

#include "common/run/log.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/leases/suspects.h"

static void arrivals_differ(struct coord *c, const struct member *m,
                            const struct vote *other)
{
    LOG(WARN, "workers computed different test vectors",
        "worker=%s vector=%016llx other=%s others=%016llx", m->name,
        (ull)m->test_vector, other->name, (ull)other->output);
    happened_once(c, EVENT_AUDIT_DIFFERS, m->name,
                  "the test vector of %.60s is %016llx, that of %.60s, which "
                  "is of the same kind, %016llx",
                  m->name, (ull)m->test_vector, other->name,
                  (ull)other->output);
}

static void arrivals_blame(struct coord *c,
                           const struct test_vectors_verdict *v)
{
    char why[EVENT_TEXT];

    if (suspects_is(c, v->wrong->name))
        return; // the reason it is suspect for names closures in doubt
    snprintf(why, sizeof(why),
             "its test vector is %016llx; %.60s and %.60s, of the same kind, "
             "computed %016llx",
             (ull)v->wrong->output, v->right[0]->name, v->right[1]->name,
             (ull)v->right[0]->output);
    suspects_make(c, v->wrong->name, NULL, why);
}

// Called before the worker is leased anything (A7).
void arrivals_hear(struct coord *c, struct member *m)
{
    const struct vote vote = {.name = m->name,
                              .witness = m->witness,
                              .kind = m->test_kind,
                              .output = m->test_vector};
    struct test_vectors_verdict verdict;
    const struct vote *other;

    if (m->role != MEMBER_WORKER || m->test_kind == 0 ||
        !test_vectors_take(&c->vectors, &vote, m->process, &other))
        return;
    if (other != NULL)
        arrivals_differ(c, m, other);
    while (!c->dead && test_vectors_judge(&c->vectors, &verdict))
        arrivals_blame(c, &verdict);
}
