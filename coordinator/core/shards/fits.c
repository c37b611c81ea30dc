// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/fits.c -- sizes of a job's messages, before there is
// one.
#include "coordinator/core/shards/fits.h"
#include "coordinator/core/job.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "proto/spec.h"

// fields of a shard, with its tag and its file, without epochs
#define SHARD_FIELDS 64
#define EPOCH_FIELDS 5
#define OTHER_FIELDS 64  // fields of JobOpen, besides spec, layout and map
#define ADDRESS_BYTES 64 // address of a psserver, about
// Most epochs that leave room in a report for the closures that are not below
// its watermark.
#define EPOCHS_MAX (WIRE_MAX_FIELDS * 3 / 4 / EPOCH_FIELDS)

enum sl_err fits_counts(const Sluice__V1__JobSpec *spec, uint32_t shards,
                        struct sl_error *err)
{
    uint64_t epochs = spec->train->epochs;
    uint64_t each = SHARD_FIELDS + epochs * EPOCH_FIELDS;

    if (epochs > EPOCHS_MAX)
        return sl_fail(err, SL_EINVAL,
                       "train.epochs is %llu: a shard reports every epoch in "
                       "one message, which holds %zu",
                       (unsigned long long)epochs, (size_t)EPOCHS_MAX);
    if (shards * each > WIRE_LOAD_FIELDS)
        return sl_fail(err, SL_EINVAL,
                       "%u shards of %llu epochs: a checkpoint counts every "
                       "epoch of every shard, which are at most %llu; take "
                       "fewer shards or epochs",
                       shards, (unsigned long long)epochs,
                       (unsigned long long)(WIRE_LOAD_FIELDS / EPOCH_FIELDS));
    return SL_OK;
}

// Says how a job may have smaller shards, of at most `most` elements.
static void fits_say_how(char *to, size_t size, const Sluice__V1__JobSpec *spec,
                         uint64_t most)
{
    const Sluice__V1__PlacementSpec *p = spec->placement;
    const char *moments =
        spec_moments(spec).vectors > 0 ? ", or train.inner.moments: keep" : "";
    struct part_rule rule;
    uint64_t target;

    spec_part_rule(&rule, &target, p);
    if (spec_optim_whole(spec))
        snprintf(
            to, size,
            "optimizer.type %s never cuts a variable: take another one, or "
            "smaller layers",
            spec->optimizer->type);
    else if (rule.kind != PART_AUTO)
        snprintf(to, size,
                 "leave placement.partitioner (%s) out, or let it make more "
                 "parts%s",
                 p->partitioner, moments);
    else if (p->shard_bytes > most * PART_ELEMENT_BYTES)
        snprintf(to, size,
                 "leave placement.shard_bytes out, or set at most %llu%s",
                 (unsigned long long)(most * PART_ELEMENT_BYTES), moments);
    else
        snprintf(to, size,
                 "a row of a variable is never cut: take variables with "
                 "shorter rows%s",
                 moments);
}

enum sl_err fits_shards(const Sluice__V1__JobSpec *spec,
                        const struct part_plan *plan, struct sl_error *err)
{
    uint64_t each = spec_push_bytes(spec);
    uint64_t most = WIRE_PAYLOAD_BYTES / each;
    char how[200];

    for (uint32_t i = 0; i < plan->shard_count; i++) {
        uint64_t elements = plan->shards[i].elements;

        if (elements <= most)
            continue;
        fits_say_how(how, sizeof(how), spec, most);
        return sl_fail(err, SL_EINVAL,
                       "shard %u of %u would have %llu parameters: a push of "
                       "them%s has %llu bytes, and a message holds %llu; %s",
                       i, plan->shard_count, (unsigned long long)elements,
                       spec_moments(spec).vectors > 0 ? " with their moments"
                                                      : "",
                       (unsigned long long)(elements * each),
                       (unsigned long long)WIRE_PAYLOAD_BYTES, how);
    }
    return SL_OK;
}

static enum sl_err fits_fail_too_large(const char *what, uint32_t shards,
                                       struct sl_error *err)
{
    return sl_fail(err, SL_EINVAL,
                   "%s of %u shards is larger than a message may be (4 MiB, "
                   "%zu fields); take fewer shards",
                   what, shards, WIRE_MAX_FIELDS);
}

// Packs a JobOpen with spec, layout and the largest map.
static enum sl_err pack_open(struct buf *out, const Sluice__V1__JobSpec *spec,
                             const Sluice__V1__CheckpointsReply *layout,
                             uint32_t shards)
{
    Sluice__V1__AttendDown down = SLUICE__V1__ATTEND_DOWN__INIT;
    Sluice__V1__JobOpen open = SLUICE__V1__JOB_OPEN__INIT;
    Sluice__V1__JobMap map = SLUICE__V1__JOB_MAP__INIT;
    Sluice__V1__MapEntry entry = SLUICE__V1__MAP_ENTRY__INIT;
    Sluice__V1__MapEntry **list = sl_malloc_array(shards, sizeof(*list));
    char address[ADDRESS_BYTES + 1];
    enum sl_err rc;

    if (list == NULL)
        return SL_ENOMEM;
    memset(address, 'a', ADDRESS_BYTES);
    address[ADDRESS_BYTES] = '\0';
    entry.shard = shards;
    entry.address = address;
    entry.incarnation = UINT64_MAX;
    for (uint32_t i = 0; i < shards; i++)
        list[i] = &entry;
    map.shards = list;
    map.n_shards = shards;
    open.spec = (Sluice__V1__JobSpec *)spec;
    open.map = &map;
    open.variables = layout->variables;
    open.n_variables = layout->n_variables;
    open.pieces = layout->pieces;
    open.n_pieces = layout->n_pieces;
    open.rows_shards = layout->rows_shards;
    down.kind_case = SLUICE__V1__ATTEND_DOWN__KIND_JOB_OPEN;
    down.job_open = &open;
    rc = wire_pack(&down.base, out);
    sl_free(list);
    return rc;
}

enum sl_err fits_layout(const Sluice__V1__JobSpec *spec,
                        const Sluice__V1__CheckpointsReply *layout,
                        uint32_t shards, struct sl_error *err)
{
    struct wire_limits less = {.max_fields = WIRE_MAX_FIELDS - OTHER_FIELDS};
    struct buf packed = BUF_INIT;
    enum sl_err rc = wire_pack(&layout->base, &packed);

    if (rc == SL_OK && wire_scan(layout->base.descriptor, packed.data,
                                 packed.len, NULL, err) != SL_OK)
        rc = fits_fail_too_large("a layout", shards, err);
    buf_release(&packed);
    if (rc == SL_OK)
        rc = pack_open(&packed, spec, layout, shards);
    if (rc == SL_OK && wire_scan(&sluice__v1__attend_down__descriptor,
                                 packed.data, packed.len, &less, err) != SL_OK)
        rc = fits_fail_too_large("the message to workers about a job", shards,
                                 err);
    buf_release(&packed);
    return rc == SL_ENOMEM ? sl_fail(err, rc, "a layout") : rc;
}
