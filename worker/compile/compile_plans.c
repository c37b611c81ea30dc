// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_plans.c -- plans of ops, shared by those that are
// alike.
//
// A plan keeps nothing between its runs, and the ops of a program run one after
// the other. So ops with equal descriptions have one plan: planning takes about
// a millisecond, and a plan is several KiB that would have to come from memory
// for every op of a model with thousands of layers.
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "kernels/desc.h"
#include "kernels/prove/answer.h"
#include "worker/compile/compile_build.h"

struct build_plan {
    struct kern_desc desc;
    struct kern_plan *plan; // owned by the program; NULL: only scored so far
    int score;
    bool scored;
};

// Returns the entry of an op's description, new if there is none; NULL without
// memory, or if another description has the same hash: then the op has a plan
// of its own.
static struct build_plan *entry_of(struct build *b, const struct kern_desc *d)
{
    uint64_t key = sl_hash64(d, sizeof(*d));
    struct build_plan *e = map_get(&b->plans, key);

    if (e != NULL)
        return memcmp(&e->desc, d, sizeof(*d)) == 0 ? e : NULL;
    e = sl_calloc(1, sizeof(*e));
    if (e == NULL)
        return NULL;
    e->desc = *d;
    if (map_put(&b->plans, key, e) != SL_OK) {
        sl_free(e);
        return NULL;
    }
    return e;
}

static bool grow_plans(struct program *p)
{
    uint32_t capacity = p->plans_capacity == 0 ? 32 : p->plans_capacity * 2;
    struct kern_plan **more;

    if (p->plans_count < p->plans_capacity)
        return true;
    more = sl_realloc_array(p->plans, capacity, sizeof(struct kern_plan *));
    if (more == NULL)
        return false;
    p->plans = more;
    p->plans_capacity = capacity;
    return true;
}

// Notes the kernels that are left out for an op: by their names, not by what
// they computed, which may differ from host to host.
static void compile_note_left_out(struct program_left_out *out,
                                  struct kern_dev *dev,
                                  const struct kern_desc *d)
{
    const char *why;
    char shape[300];

    for (unsigned i = 0; (why = kern_left_out(dev, d, i)) != NULL; i++) {
        const char *end = strstr(why, ANSWER_OF);
        size_t n = end == NULL ? strlen(why) : (size_t)(end - why);

        out->set += sl_mix64(sl_hash64(why, n) ^ kern_desc_hash(d));
        if (out->count++ == 0)
            snprintf(out->first, sizeof(out->first), "%.*s of %s", (int)n, why,
                     kern_desc_text(shape, sizeof(shape), d));
    }
}

enum sl_err compile_plan(struct build *b, const struct kern_desc *d,
                         struct kern_plan **out)
{
    struct build_plan *e = entry_of(b, d);
    struct program *p = b->p;
    size_t workspace = 0;
    enum sl_err rc;

    if (e != NULL && e->plan != NULL) {
        *out = e->plan;
        return SL_OK;
    }
    if (!grow_plans(p))
        return sl_no_memory(&b->err);
    rc = kern_plan_new(out, &workspace, b->dev, d, b->cap, &b->err);
    if (rc != SL_OK)
        return rc;
    p->plans[p->plans_count++] = *out;
    compile_note_left_out(&p->left_out, b->dev, d);
    if (workspace > p->workspace_bytes)
        p->workspace_bytes = workspace;
    if (e != NULL)
        e->plan = *out;
    return SL_OK;
}

static int compile_plan_score(struct build *b, const struct kern_desc *d)
{
    struct build_plan *e = entry_of(b, d);

    if (e == NULL)
        return kern_score(b->dev, d);
    if (!e->scored)
        e->score = kern_score(b->dev, d);
    e->scored = true;
    return e->score;
}

bool compile_fuses(struct build *b, const struct kern_desc *fused,
                   const struct kern_desc *plain)
{
    int score;

    if (b->o->f64)
        return true; // ref has all fused ops
    score = compile_plan_score(b, fused);
    return score > 0 && score >= compile_plan_score(b, plain);
}

void compile_plans_release(struct build *b)
{
    void *entry;
    size_t at = 0;

    while (map_next(&b->plans, &at, NULL, &entry))
        sl_free(entry);
    map_release(&b->plans);
}
