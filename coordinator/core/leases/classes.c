// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/classes.c -- names of classes, kept in the journal.
#include "coordinator/core/leases/classes.h"

#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/job.h"
#include "proto/spec.h"

enum sl_err classes_take(struct coord *c, const struct job *job,
                         const Sluice__V1__DataFacts *facts)
{
    Sluice__V1__DataFacts only = SLUICE__V1__DATA_FACTS__INIT;
    struct sl_error err = SL_ERROR_INIT;
    struct buf packed = BUF_INIT;
    enum sl_err rc;

    if (facts->n_classes == 0 || job->spec->data->n_classes > 0)
        return SL_OK;
    if (spec_check_classes(facts->classes, facts->n_classes, &err) != SL_OK) {
        LOG(WARN, "names of classes left out", "job=%s why=\"%s\"",
            job->id_text, err.text);
        return SL_OK;
    }
    only.classes = facts->classes;
    only.n_classes = facts->n_classes;
    rc = wire_pack(&only.base, &packed);
    if (rc != SL_OK)
        (void)sl_fail(&c->err, rc, "names of classes");
    else
        rc = journal_job_classes(c->journal, job->id,
                                 (struct journal_blob){packed.data, packed.len},
                                 &c->err);
    buf_release(&packed);
    return rc;
}

void classes_put(const struct coord *c, const struct job *job, size_t *count,
                 char ***list)
{
    struct sl_error err = SL_ERROR_INIT;
    ProtobufCMessage *message = NULL;
    struct buf packed = BUF_INIT;
    Sluice__V1__DataFacts *facts;

    if (*count > 0 ||
        journal_job_classes_of(c->journal, job->id, &packed, &err) != SL_OK ||
        packed.len == 0 ||
        wire_load(&message, &sluice__v1__data_facts__descriptor, packed.data,
                  packed.len, &err) != SL_OK) {
        buf_release(&packed);
        return;
    }
    buf_release(&packed);
    facts = (Sluice__V1__DataFacts *)message;
    *count = facts->n_classes;
    *list = facts->classes;
    facts->n_classes = 0;
    facts->classes = NULL;
    wire_free(message);
}
