// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/test_vectors.c -- see test_vectors.h.
#include "coordinator/rules/test_vectors.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"

static uint64_t test_vectors_key(const struct vote *vote, uint64_t process)
{
    return sl_mix64(sl_mix64(sl_mix64(process) ^ vote->kind) ^ vote->output);
}

static uint32_t test_vectors_index(const struct test_vectors *v,
                                   const char *name)
{
    uint32_t i = 0;

    while (i < v->count && strcmp(v->list[i].vote.name, name) != 0)
        i++;
    return i;
}

static struct vote test_vectors_cut(struct test_vectors *v, uint32_t i)
{
    struct vote vote = v->list[i].vote;

    v->count--;
    memmove(&v->list[i], &v->list[i + 1], (v->count - i) * sizeof(v->list[0]));
    return vote;
}

static void test_vectors_drop(struct test_vectors *v, uint32_t i)
{
    sl_free(test_vectors_cut(v, i).name);
}

void test_vectors_release(struct test_vectors *v)
{
    while (v->count > 0)
        test_vectors_drop(v, v->count - 1);
    sl_free(v->wrong.name);
    *v = (struct test_vectors){.count = 0};
}

static bool test_vectors_judged(const struct test_vectors *v, uint64_t key)
{
    uint32_t n = v->judged_count < TEST_VECTORS_JUDGED ? v->judged_count
                                                       : TEST_VECTORS_JUDGED;

    for (uint32_t i = 0; i < n; i++)
        if (v->judged[i] == key)
            return true;
    return false;
}

// ---- room

static bool test_vectors_akin(const struct test_vectors *v, uint32_t i,
                              uint32_t k)
{
    const struct vote *pair[] = {&v->list[i].vote, &v->list[k].vote};

    return !votes_independent(pair, 2);
}

// Returns the place of the vector that the most others share a host or a party
// with, the oldest one of several.
static uint32_t test_vectors_least(const struct test_vectors *v)
{
    uint32_t least = 0, most = 0;

    for (uint32_t i = 0; i < v->count; i++) {
        uint32_t kin = 0;

        for (uint32_t k = 0; k < v->count; k++)
            kin += test_vectors_akin(v, i, k);
        if (kin > most) {
            most = kin;
            least = i;
        }
    }
    return least;
}

// ---- the vectors

static bool test_vectors_same(const struct vote *a, const struct vote *b)
{
    return a->kind == b->kind && a->output == b->output &&
           a->witness == b->witness;
}

static bool test_vectors_append(struct test_vectors *v, const struct vote *vote,
                                uint64_t key)
{
    char *name = sl_strdup(vote->name);

    if (name == NULL)
        return false;
    if (v->count == TEST_VECTORS_MOST)
        test_vectors_drop(v, test_vectors_least(v));
    v->list[v->count] = (struct test_vector_vote){*vote, key};
    v->list[v->count++].vote.name = name;
    return true;
}

bool test_vectors_take(struct test_vectors *v, const struct vote *vote,
                       uint64_t process, const struct vote **other)
{
    uint64_t key = test_vectors_key(vote, process);
    uint32_t i = test_vectors_index(v, vote->name);

    *other = NULL;
    if (test_vectors_judged(v, key))
        return false;
    if (i < v->count && test_vectors_same(&v->list[i].vote, vote)) {
        v->list[i].key = key;
        return false;
    }
    if (i < v->count)
        test_vectors_drop(v, i);
    if (!test_vectors_append(v, vote, key))
        return false;
    for (i = 0; i + 1 < v->count && *other == NULL; i++)
        if (v->list[i].vote.kind == vote->kind &&
            v->list[i].vote.output != vote->output)
            *other = &v->list[i].vote;
    return true;
}

// ---- which is wrong

// Takes number `x` out, as one that `a` and `b` have shown to be wrong.
static void test_vectors_found(struct test_vectors *v, uint32_t x, uint32_t a,
                               uint32_t b, struct test_vectors_verdict *out)
{
    v->judged[v->judged_count++ % TEST_VECTORS_JUDGED] = v->list[x].key;
    sl_free(v->wrong.name);
    v->wrong = test_vectors_cut(v, x);
    out->wrong = &v->wrong;
    out->right[0] = &v->list[a - (a > x)].vote;
    out->right[1] = &v->list[b - (b > x)].vote;
}

bool test_vectors_judge(struct test_vectors *v,
                        struct test_vectors_verdict *out)
{
    const struct kinds none = {.count = 0}; // vectors have no sketches
    uint32_t n = v->count, last = n - 1;    // n - 1 is not used without any

    for (uint32_t a = 0; a + 1 < n; a++) {
        for (uint32_t b = 0; b + 1 < n; b++) {
            const struct vote *x = &v->list[a].vote, *y = &v->list[b].vote;

            if (a < b && votes_outvoted(&none, &v->list[last].vote, x, y)) {
                test_vectors_found(v, last, a, b, out);
                return true;
            }
            if (a != b && votes_outvoted(&none, x, y, &v->list[last].vote)) {
                test_vectors_found(v, a, b, last, out);
                return true;
            }
        }
    }
    return false;
}
