// SPDX-License-Identifier: Apache-2.0
// plan/part.c -- the partition of the flat vector into shards, and its
// lookups.
#include "plan/part.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "plan/part_cut.h"

// Ends of shards, ascending; the last is the number of elements.
struct cuts {
    uint64_t *at; // owned
    size_t count; // shards
    size_t capacity;
};

static uint64_t cuts_start(const struct cuts *cuts, size_t i)
{
    return i == 0 ? 0 : cuts->at[i - 1];
}

static void cuts_insert(struct cuts *cuts, size_t i, uint64_t at)
{
    memmove(&cuts->at[i + 1], &cuts->at[i],
            (cuts->count - i) * sizeof(*cuts->at));
    cuts->at[i] = at;
    cuts->count++;
}

// Shards of about equal size from lo to hi: each ideal cut moves to the nearest
// boundary, and vanishes if that one is taken (rows larger than a shard).
static void cut_evenly(struct cuts *cuts, const struct part_cutter *c,
                       uint64_t lo, uint64_t hi, uint64_t shards)
{
    uint64_t last = lo, cut;

    for (uint64_t i = 1; i < shards; i++) {
        uint64_t ideal =
            lo + (uint64_t)((unsigned __int128)(hi - lo) * i / shards);

        if (ideal <= last || ideal >= hi ||
            !part_cutter_pick(c, last, hi, ideal, &cut))
            continue;
        cuts->at[cuts->count++] = cut;
        last = cut;
    }
    cuts->at[cuts->count++] = hi;
}

// The same, but variables of at least a shard's size are cut by themselves: a
// shard leaves with the last of its layers and is wanted with the first, so a
// part of a dense layer must not hold up the first convolutions. What lies
// between two of them and is next to nothing goes with the former.
static void cut_by_variable(struct cuts *cuts, const struct part_cutter *c,
                            uint64_t size)
{
    uint64_t elements = part_cutter_elements(c), least = size / 8, lo = 0;

    for (size_t i = 0; i < c->count; i++) {
        uint64_t begin = c->first[i], end = c->first[i + 1];

        if (end - begin < size)
            continue;
        if (begin - lo > least) {
            cut_evenly(cuts, c, lo, begin, sl_ceil_div(begin - lo, size));
            lo = begin;
        }
        while (i + 1 < c->count && c->first[i + 2] - end <= least)
            i++;
        end = c->first[i + 1];
        cut_evenly(cuts, c, lo, end, sl_ceil_div(end - lo, size));
        lo = end;
    }
    if (lo < elements)
        cut_evenly(cuts, c, lo, elements, sl_ceil_div(elements - lo, size));
}

// Halves the largest shard that can be cut; false if none can.
static bool cut_largest(struct cuts *cuts, const struct part_cutter *c)
{
    uint64_t best_size = 0, best_cut = 0, cut;
    size_t best = 0;

    for (size_t i = 0; i < cuts->count; i++) {
        uint64_t lo = cuts_start(cuts, i), size = cuts->at[i] - lo;

        if (size <= best_size ||
            !part_cutter_pick(c, lo, lo + size, lo + size / 2, &cut))
            continue;
        best_size = size;
        best_cut = cut;
        best = i;
    }
    if (best_size == 0)
        return false;
    cuts_insert(cuts, best, best_cut);
    return true;
}

uint64_t part_target(uint64_t elements, uint64_t target_bytes)
{
    uint64_t bytes = elements * PART_ELEMENT_BYTES / PART_TARGET_SHARDS;

    if (target_bytes != 0)
        return target_bytes;
    // In shards of 512 KiB a push costs the calls as much as the bytes: updates
    // run at 0.74 of a raw stream, and in 1 MiB at 0.96.
    if (bytes < PART_LEAST_BYTES)
        return PART_LEAST_BYTES;
    return sl_min(bytes, PART_TARGET_BYTES);
}

static enum sl_err cuts_make(struct cuts *cuts, const struct part_cutter *c,
                             bool by_variable, uint64_t target_bytes,
                             uint32_t servers)
{
    uint64_t elements = part_cutter_elements(c);
    uint64_t shards = sl_ceil_div(elements * PART_ELEMENT_BYTES, target_bytes);

    if (shards < servers)
        shards = servers;
    if (shards > PART_MAX_SHARDS)
        shards = PART_MAX_SHARDS;
    // A large variable adds a shard at most, and so does what lies before it.
    by_variable =
        by_variable && shards > servers && 3 * shards < PART_MAX_SHARDS;
    *cuts = (struct cuts){.capacity = by_variable ? 3 * shards + 1 : shards};
    cuts->at = sl_malloc_array(cuts->capacity, sizeof(*cuts->at));
    if (cuts->at == NULL)
        return SL_ENOMEM;
    if (by_variable)
        cut_by_variable(cuts, c, target_bytes / PART_ELEMENT_BYTES);
    else
        cut_evenly(cuts, c, 0, elements, shards);
    while (cuts->count < servers && cut_largest(cuts, c))
        continue;
    return SL_OK;
}

// The pieces of shard s: [lo, hi) cut at the ends of variables. Boundaries lie
// at rows, so the divisions are exact.
static void part_fill_shard(struct part_plan *p, const struct part_cutter *c,
                            uint32_t s, uint64_t lo, uint64_t hi)
{
    p->shards[s] = (struct part_shard){.first_element = lo,
                                       .elements = hi - lo,
                                       .first_piece = p->piece_count};
    for (size_t i = part_cutter_variable(c, lo); lo < hi; i++) {
        uint64_t end = c->first[i + 1] < hi ? c->first[i + 1] : hi;
        uint64_t width = c->vars[i].row_elements;

        p->pieces[p->piece_count++] = (struct part_piece){
            .variable = (uint32_t)i,
            .shard = s,
            .first_row = (lo - c->first[i]) / width,
            .rows = (end - lo) / width,
            .first_element = lo,
            .elements = end - lo,
        };
        p->shards[s].pieces++;
        lo = end;
    }
}

static enum sl_err fill_plan(struct part_plan *p, const struct part_cutter *c,
                             const struct cuts *cuts, uint32_t servers)
{
    *p = (struct part_plan){.shard_count = (uint32_t)cuts->count,
                            .servers = servers,
                            .elements = part_cutter_elements(c)};
    // Each cut adds at most one piece to the one that a variable has anyway.
    p->pieces = sl_malloc_array(c->count + cuts->count, sizeof(*p->pieces));
    p->shards = sl_malloc_array(cuts->count, sizeof(*p->shards));
    if (p->pieces == NULL || p->shards == NULL)
        return SL_ENOMEM;
    for (size_t s = 0; s < cuts->count; s++)
        part_fill_shard(p, c, (uint32_t)s, cuts_start(cuts, s), cuts->at[s]);
    return part_assign(p->shards, p->shard_count, servers);
}

// Makes the plan of a model without variables.
static enum sl_err part_plan_rows(struct part_plan *out, uint32_t servers)
{
    struct part_plan plan = {.shard_count = servers, .servers = servers};

    plan.shards = sl_calloc(servers, sizeof(*plan.shards));
    if (plan.shards == NULL)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < servers; i++)
        plan.shards[i].server = i;
    *out = plan;
    return SL_OK;
}

enum sl_err part_plan_more(struct part_plan *p, uint32_t shards)
{
    struct part_shard *more = sl_realloc_array(
        p->shards, p->shard_count + shards, sizeof(*p->shards));

    if (more == NULL)
        return SL_ENOMEM;
    p->shards = more;
    for (uint32_t i = 0; i < shards; i++)
        more[p->shard_count + i] =
            (struct part_shard){.first_element = p->elements,
                                .first_piece = p->piece_count,
                                .server = i};
    p->shard_count += shards;
    if (p->servers < shards)
        p->servers = shards;
    return SL_OK;
}

uint32_t part_plan_empty(const struct part_plan *p)
{
    uint32_t n = 0;

    while (n < p->shard_count && p->shards[p->shard_count - 1 - n].pieces == 0)
        n++;
    return n;
}

enum sl_err part_plan_make(struct part_plan *out, const struct part_var *vars,
                           size_t count, const struct part_rule *rule,
                           uint64_t target_bytes, uint32_t servers,
                           struct sl_error *err)
{
    struct part_plan plan = {0};
    struct part_cutter c;
    struct cuts cuts = {0};
    enum sl_err rc;

    if (servers < 1 || servers > PART_MAX_SHARDS)
        return sl_fail(err, SL_EINVAL,
                       "placement: %u servers; 1 to %d are possible", servers,
                       PART_MAX_SHARDS);
    if (count == 0)
        return part_plan_rows(out, servers);
    rc = part_cutter_init(&c, vars, count, rule, err);
    if (rc != SL_OK)
        return rc;
    target_bytes = part_target(part_cutter_elements(&c), target_bytes);
    rc = cuts_make(&cuts, &c, rule->kind == PART_AUTO, target_bytes, servers);
    if (rc == SL_OK)
        rc = fill_plan(&plan, &c, &cuts, servers);
    part_cutter_release(&c);
    sl_free(cuts.at);
    if (rc != SL_OK) {
        part_plan_release(&plan);
        return sl_fail(err, rc, "placement: %s", sl_err_text(rc));
    }
    *out = plan;
    return SL_OK;
}

static int part_shard_larger_first(const void *a, const void *b)
{
    const struct part_shard *x = *(struct part_shard *const *)a;
    const struct part_shard *y = *(struct part_shard *const *)b;

    if (x->elements != y->elements)
        return x->elements > y->elements ? -1 : 1;
    return x < y ? -1 : x > y; // ties by number, so every machine agrees
}

enum sl_err part_assign(struct part_shard *shards, uint32_t count,
                        uint32_t servers)
{
    struct part_shard **order;
    uint64_t *load;

    if (servers < 1)
        return SL_EINVAL;
    order = sl_malloc_array(count, sizeof(struct part_shard *));
    load = sl_calloc(servers, sizeof(*load));
    if (order == NULL || load == NULL) {
        sl_free(order);
        sl_free(load);
        return SL_ENOMEM;
    }
    for (uint32_t s = 0; s < count; s++)
        order[s] = &shards[s];
    qsort(order, count, sizeof(struct part_shard *), part_shard_larger_first);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t least = 0;

        for (uint32_t j = 1; j < servers; j++) {
            if (load[j] < load[least])
                least = j;
        }
        order[i]->server = least;
        load[least] += order[i]->elements;
    }
    sl_free(order);
    sl_free(load);
    return SL_OK;
}

void part_plan_release(struct part_plan *p)
{
    sl_free(p->pieces);
    sl_free(p->shards);
    *p = (struct part_plan){0};
}

static double mebibytes(uint64_t elements)
{
    return (double)elements * PART_ELEMENT_BYTES / (1 << 20);
}

static enum sl_err explain_server(struct buf *out, const struct part_plan *p,
                                  uint32_t server)
{
    uint64_t elements = 0;
    uint32_t shards = 0;

    for (uint32_t s = 0; s < p->shard_count; s++) {
        if (p->shards[s].server != server)
            continue;
        elements += p->shards[s].elements;
        shards++;
    }
    return buf_appendf(
        out, "server %u: %.3f MiB in %u shards, %.1f %%\n", server,
        mebibytes(elements), shards,
        p->elements == 0 ? 0 : 100.0 * (double)elements / (double)p->elements);
}

enum sl_err part_explain(struct buf *out, const struct part_plan *p,
                         const char *const *names)
{
    enum sl_err rc;

    rc = buf_appendf(out,
                     "%" PRIu64 " elements, %.3f MiB, in %u shards on %u "
                     "servers; largest shard first, each to the server with "
                     "least\n",
                     p->elements, mebibytes(p->elements), p->shard_count,
                     p->servers);
    for (uint32_t i = 0; i < p->servers && rc == SL_OK; i++)
        rc = explain_server(out, p, i);
    for (uint32_t s = 0; s < p->shard_count && rc == SL_OK; s++) {
        const struct part_shard *shard = &p->shards[s];

        rc = buf_appendf(out, "shard %u on server %u: %.3f MiB\n", s,
                         shard->server, mebibytes(shard->elements));
        for (uint32_t i = 0; i < shard->pieces && rc == SL_OK; i++) {
            const struct part_piece *q = &p->pieces[shard->first_piece + i];

            rc = buf_appendf(out, "    %s rows %" PRIu64 " to %" PRIu64 "\n",
                             names[q->variable], q->first_row,
                             q->first_row + q->rows - 1);
        }
    }
    return rc;
}
