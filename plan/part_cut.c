// SPDX-License-Identifier: Apache-2.0
// plan/part_cut.c -- the places where a flat vector may be cut, found by
// variable and row.
#include "plan/part_cut.h"

#include <inttypes.h>

#include "common/base/mem.h"
#include "common/base/num.h"

static enum sl_err bad_rule(struct sl_error *err, const char *name)
{
    return sl_fail(err, SL_EINVAL, "partitioner: %s has to be at least 1",
                   name);
}

enum sl_err part_count(uint64_t *out, const struct part_rule *rule,
                       const struct part_var *var, struct sl_error *err)
{
    uint64_t row_bytes = var->row_elements * PART_ELEMENT_BYTES;
    uint64_t parts, per_part;

    switch (rule->kind) {
    case PART_AUTO:
        *out = var->rows;
        return SL_OK;
    case PART_FIXED:
        if (rule->count < 1)
            return bad_rule(err, "the number of parts");
        *out = sl_min(rule->count, var->rows);
        return SL_OK;
    case PART_MIN_SIZE:
        if (rule->shard_bytes < 1)
            return bad_rule(err, "min_shard_bytes");
        if (rule->max_shards < 1)
            return bad_rule(err, "max_shards");
        parts = sl_ceil_div(var->rows * row_bytes, rule->shard_bytes);
        parts = sl_min(sl_min(parts, rule->max_shards), var->rows);
        *out = parts > 1 ? parts : 1;
        return SL_OK;
    case PART_MAX_SIZE:
        if (rule->shard_bytes < 1)
            return bad_rule(err, "max_shard_bytes");
        per_part = rule->shard_bytes / row_bytes;
        parts = sl_ceil_div(var->rows, per_part > 1 ? per_part : 1);
        if (rule->max_shards != 0)
            parts = sl_min(parts, rule->max_shards);
        *out = parts;
        return SL_OK;
    }
    return sl_fail(err, SL_EINVAL, "partitioner: kind %d is not known",
                   (int)rule->kind);
}

void part_div(uint64_t rows, uint64_t n, uint64_t k, uint64_t *first,
              uint64_t *count)
{
    uint64_t each = rows / n, longer = rows % n;

    *first = k * each + sl_min(k, longer);
    *count = k == n ? 0 : each + (k < longer);
}

// The part of a div split that a row lies in.
static uint64_t part_of_row(uint64_t rows, uint64_t n, uint64_t row)
{
    uint64_t each = rows / n, longer = rows % n;

    if (row < longer * (each + 1))
        return row / (each + 1);
    return longer + (row - longer * (each + 1)) / each;
}

static enum sl_err check_var(const struct part_var *v, size_t i,
                             uint64_t *elements, struct sl_error *err)
{
    if (v->rows < 1 || v->row_elements < 1)
        return sl_fail(err, SL_EINVAL,
                       "variable %zu has %" PRIu64 " rows of %" PRIu64
                       " elements; both have to be at least 1",
                       i, v->rows, v->row_elements);
    if (__builtin_mul_overflow(v->rows, v->row_elements, elements) ||
        *elements > PART_MAX_ELEMENTS)
        return sl_fail(err, SL_EINVAL, "variable %zu has over 2^44 elements",
                       i);
    return SL_OK;
}

static enum sl_err part_cutter_measure(struct part_cutter *c,
                                       const struct part_rule *rule,
                                       struct sl_error *err)
{
    uint64_t at = 0, elements = 0;
    enum sl_err rc;

    for (size_t i = 0; i < c->count; i++) {
        const struct part_var *v = &c->vars[i];

        rc = check_var(v, i, &elements, err);
        if (rc != SL_OK)
            return rc;
        rc = part_count(&c->parts[i], rule, v, err);
        if (rc != SL_OK)
            return rc;
        if (v->whole)
            c->parts[i] = 1;
        c->first[i] = at;
        at += elements; // cannot overflow: 10^6 variables of 2^44 elements
        if (at > PART_MAX_ELEMENTS)
            return sl_fail(err, SL_EINVAL, "the model has over 2^44 elements");
    }
    c->first[c->count] = at;
    return SL_OK;
}

enum sl_err part_cutter_init(struct part_cutter *c, const struct part_var *vars,
                             size_t count, const struct part_rule *rule,
                             struct sl_error *err)
{
    enum sl_err rc;

    if (count < 1 || count > PART_MAX_VARIABLES)
        return sl_fail(err, SL_EINVAL,
                       "the model has %zu variables; 1 to %d are possible",
                       count, PART_MAX_VARIABLES);
    *c = (struct part_cutter){.vars = vars, .count = count};
    c->first = sl_malloc_array(count + 1, sizeof(*c->first));
    c->parts = sl_malloc_array(count, sizeof(*c->parts));
    if (c->first == NULL || c->parts == NULL)
        rc = sl_fail(err, SL_ENOMEM, "placement: out of memory");
    else
        rc = part_cutter_measure(c, rule, err);
    if (rc != SL_OK)
        part_cutter_release(c);
    return rc;
}

void part_cutter_release(struct part_cutter *c)
{
    sl_free(c->first);
    sl_free(c->parts);
    *c = (struct part_cutter){0};
}

uint64_t part_cutter_elements(const struct part_cutter *c)
{
    return c->first[c->count];
}

size_t part_cutter_variable(const struct part_cutter *c, uint64_t e)
{
    size_t lo = 0, hi = c->count; // first[lo] <= e < first[hi]

    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;

        if (c->first[mid] <= e)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

bool part_cutter_pick(const struct part_cutter *c, uint64_t lo, uint64_t hi,
                      uint64_t ideal, uint64_t *cut)
{
    size_t i = part_cutter_variable(c, ideal);
    const struct part_var *v = &c->vars[i];
    uint64_t row = (ideal - c->first[i]) / v->row_elements;
    uint64_t k = part_of_row(v->rows, c->parts[i], row);
    uint64_t first, count, below, above;
    bool low_fits, high_fits;

    // The part that `ideal` lies in ends at the two nearest boundaries. If
    // neither lies between lo and hi, no other does.
    part_div(v->rows, c->parts[i], k, &first, &count);
    below = c->first[i] + first * v->row_elements;
    above = c->first[i] + (first + count) * v->row_elements;
    low_fits = below > lo && below < hi;
    high_fits = above > lo && above < hi;
    if (!low_fits && !high_fits)
        return false;
    if (low_fits && high_fits)
        low_fits = ideal - below <= above - ideal;
    *cut = low_fits ? below : above;
    return true;
}
