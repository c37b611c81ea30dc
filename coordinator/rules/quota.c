// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/quota.c -- a quota's text, and its comparison with what is
// had.
#include "coordinator/rules/quota.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/run/conf.h"

#define WORDS                                                                  \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
#define ASK "or ask the operator for more (coordinator --quota)"

static const struct conf_key quota_keys[QUOTA_KINDS] = {
    [QUOTA_JOBS] = {.name = "jobs", .kind = CONF_INT, .max = INT64_MAX},
    [QUOTA_SHARDS] = {.name = "shards", .kind = CONF_INT, .max = INT64_MAX},
    [QUOTA_PARAMETERS] = {.name = "parameters",
                          .kind = CONF_BYTES,
                          .max = INT64_MAX},
    [QUOTA_CHECKPOINTS] = {.name = "checkpoints",
                           .kind = CONF_BYTES,
                           .max = INT64_MAX},
    [QUOTA_KEPT] = {.name = "kept", .kind = CONF_INT, .max = INT64_MAX},
    [QUOTA_ROWS] = {.name = "rows", .kind = CONF_BYTES, .max = INT64_MAX},
    [QUOTA_ROWS_DISK] = {.name = "rows_disk",
                         .kind = CONF_BYTES,
                         .max = INT64_MAX},
};

// ---- reading

// Reads the tenant before the colon, and moves *text behind it.
static enum sl_err read_tenant(struct quota *q, const char **text,
                               struct sl_error *err)
{
    size_t n = strcspn(*text, ":");
    size_t fits = **text == '*' ? 1 : strspn(*text, WORDS);

    if ((*text)[n] != ':' || n == 0 || n != fits || n >= QUOTA_TENANT)
        return sl_fail(err, SL_EINVAL,
                       "--quota '%.100s': write it as "
                       "TENANT:jobs=3,shards=64,parameters=2GiB,checkpoints="
                       "10GiB,rows=1GiB; "
                       "* is each other tenant, - is callers without a tenant",
                       *text);
    if (n != 1 || **text != '-') { // "-" leaves the tenant ""
        memcpy(q->tenant, *text, n);
        q->tenant[n] = '\0';
    }
    *text += n + 1;
    return SL_OK;
}

// Reads one figure such as "shards=64", of n bytes.
static enum sl_err read_figure(struct quota *q, const char *text, size_t n,
                               struct sl_error *err)
{
    const char *is = memchr(text, '=', n);
    char word[100];

    snprintf(word, sizeof(word), "%.*s", (int)(n < 99 ? n : 99), text);
    for (unsigned i = 0; is != NULL && i < QUOTA_KINDS; i++) {
        size_t name = strlen(quota_keys[i].name);
        int64_t value = 0;
        enum sl_err rc;

        if (name != (size_t)(is - text) ||
            memcmp(text, quota_keys[i].name, name) != 0)
            continue;
        if (q->most[i] != QUOTA_FREE)
            return sl_fail(err, SL_EINVAL, "--quota: %s is said twice",
                           quota_keys[i].name);
        rc = conf_read_number(&quota_keys[i], word + name + 1, &value,
                              "--quota", err);
        if (rc == SL_OK)
            q->most[i] = (uint64_t)value;
        return rc;
    }
    return sl_fail(err, SL_EINVAL,
                   "--quota: '%s' is none of jobs=N, shards=N, "
                   "parameters=BYTES, checkpoints=BYTES, kept=N, rows=BYTES, "
                   "rows_disk=BYTES",
                   word);
}

enum sl_err quota_read(struct quota *out, const char *text,
                       struct sl_error *err)
{
    struct quota q = {.tenant = ""};
    enum sl_err rc;

    for (unsigned i = 0; i < QUOTA_KINDS; i++)
        q.most[i] = QUOTA_FREE;
    rc = read_tenant(&q, &text, err);
    while (rc == SL_OK) {
        size_t n = strcspn(text, ",");

        rc = read_figure(&q, text, n, err);
        if (text[n] == '\0')
            break;
        text += n + 1;
    }
    if (rc == SL_OK)
        *out = q;
    return rc;
}

const struct quota *quota_of(const struct quota *list, size_t count,
                             const char *tenant)
{
    const struct quota *others = NULL;

    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].tenant, tenant) == 0)
            return &list[i];
        if (strcmp(list[i].tenant, "*") == 0)
            others = &list[i];
    }
    return tenant[0] != '\0' ? others : NULL;
}

// ---- comparing

static uint64_t quota_sum_saturated(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

void quota_add(struct quota_use *sum, const struct quota_use *more)
{
    for (unsigned i = 0; i < QUOTA_KINDS; i++)
        sum->n[i] = quota_sum_saturated(sum->n[i], more->n[i]);
}

static const char *quota_format_figure(char out[BYTES_TEXT],
                                       enum quota_kind kind, uint64_t n)
{
    if (quota_keys[kind].kind == CONF_BYTES)
        return bytes_text(out, n);
    snprintf(out, BYTES_TEXT, "%" PRIu64, n);
    return out;
}

static enum sl_err quota_refuse(enum quota_kind kind, const char *tenant,
                                uint64_t used, uint64_t most, uint64_t more,
                                struct sl_error *err)
{
    char who[QUOTA_TENANT + 16], had[BYTES_TEXT], of[BYTES_TEXT];
    char one[BYTES_TEXT];

    if (tenant[0] != '\0')
        snprintf(who, sizeof(who), "tenant %s", tenant);
    else
        snprintf(who, sizeof(who), "tenant '-' (callers without a tenant)");
    quota_format_figure(had, kind, used);
    quota_format_figure(of, kind, most);
    quota_format_figure(one, kind, more);
    switch (kind) {
    case QUOTA_JOBS:
        return sl_fail(err, SL_EBUSY,
                       "%s has %s of %s jobs; stop one of them, " ASK, who, had,
                       of);
    case QUOTA_KEPT:
        return sl_fail(err, SL_EBUSY,
                       "%s has %s of %s jobs kept, ended ones too; delete one "
                       "of those, " ASK,
                       who, had, of);
    case QUOTA_SHARDS:
        return sl_fail(err, SL_EBUSY,
                       "%s has %s of %s shards, and this job would have %s; "
                       "stop a job, " ASK,
                       who, had, of, one);
    case QUOTA_PARAMETERS:
        return sl_fail(err, SL_EBUSY,
                       "%s has %s of %s for parameters and optimizer slots, "
                       "and this job would take %s; stop a job, " ASK,
                       who, had, of, one);
    default:
        return sl_fail(err, SL_EBUSY,
                       "%s has %s of %s for checkpoints, counted as what "
                       "checkpoint.keep may come to, and this job's would take "
                       "%s; delete an ended job, lower checkpoint.keep, " ASK,
                       who, had, of, one);
    }
}

enum sl_err quota_allow(const struct quota *q, const char *tenant,
                        const struct quota_use *used,
                        const struct quota_use *more, struct sl_error *err)
{
    for (unsigned i = 0; i < QUOTA_KINDS; i++) {
        if (more->n[i] > 0 && q->most[i] != QUOTA_FREE &&
            quota_sum_saturated(used->n[i], more->n[i]) > q->most[i])
            return quota_refuse((enum quota_kind)i, tenant, used->n[i],
                                q->most[i], more->n[i], err);
    }
    return SL_OK;
}
