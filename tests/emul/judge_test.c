// SPDX-License-Identifier: Apache-2.0
// tests/emul/judge_test.c -- engines and algorithms that compute wrong numbers
// are found before they compute, and what computes instead is right.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "kernels/cuda/vendor.h"
#include "kernels/prove/bound.h"
#include "tests/emul/backend.h"
#include "tests/emul/cudart.h"
#include "tests/emul/emul.h"
#include "tests/emul/products.h"
#include "tests/emul/whole.h"
#include "tests/emul/wrong.h"
#include "tests/harness/t.h"

#define OPS 11

static struct sl_error err;

// ---- A plan, and what it computes -------------------------------------------

struct judged {
    const struct kern_backend *b;
    struct kern_dev *dev;
};

static void judged_open(struct judged *g, const char *options)
{
    emul_products_fail = false;
    emul_products_bad = 0;
    emul_products_refusal = REFUSES_FAILING;
    emul_heal();
    g->b = emul_module();
    g->dev = NULL;
    T_OK(g->b->open(&g->dev, 0, options, t_err()));
}

static void judged_close(struct judged *g)
{
    emul_wrong(0, WRONG_NOWHERE);
    g->b->close(g->dev);
}

// Runs the plan on random data. Returns how many elements are not those of ref.
static int64_t wrong_elements(struct judged *g, struct kern_plan *plan,
                              size_t workspace_bytes, const struct kern_desc *d)
{
    unsigned n = d->inputs + d->outputs;
    struct trial before, got, ref;
    struct kern_mem mem[KERN_IO] = {{NULL}}, workspace = {NULL};
    struct kern_stream *s = NULL;
    void *io[KERN_IO];
    int64_t wrong = 0;
    struct rng rng;

    rng_init(&rng, 7, 1);
    T_OK(trial_new(&before, d, 0));
    T_OK(trial_new(&got, d, 0));
    T_OK(trial_new(&ref, d, 0));
    T_OK(trial_fill(&before, &rng));
    trial_copy(&got, &before);
    trial_copy(&ref, &before);
    T_OK(trial_run_ref(d, ref.io));
    T_OK(g->b->stream_new(&s, g->dev, 0));
    T_OK(g->b->alloc(&workspace, g->dev, workspace_bytes, KERN_DEVICE));
    for (unsigned i = 0; i < n; i++) {
        T_OK(g->b->alloc(&mem[i], g->dev, got.bytes[i], KERN_DEVICE));
        io[i] = mem[i].at;
        T_OK(g->b->copy(s, io[i], got.io[i], got.bytes[i], KERN_TO_DEVICE));
    }
    T_OK(g->b->run(plan, s, io, workspace.at));
    for (unsigned i = d->inputs; i < n; i++) {
        double *bound = trial_bound(&before, &ref, i);

        T_OK(g->b->copy(s, got.io[i], io[i], got.bytes[i], KERN_TO_HOST));
        T_OK(g->b->stream_sync(s));
        for (int64_t k = 0; k < kern_shape_count(&d->io[i]); k++) {
            double is = trial_get(&d->io[i], got.io[i], k);
            double want = trial_get(&d->io[i], ref.io[i], k);

            wrong += !(fabs(is - want) <= bound[k]);
        }
        sl_free(bound);
    }
    for (unsigned i = 0; i < n; i++)
        g->b->release(g->dev, &mem[i]);
    g->b->release(g->dev, &workspace);
    g->b->stream_free(s);
    trial_free(&before);
    trial_free(&got);
    trial_free(&ref);
    return wrong;
}

// Plans *d; writes the name of what computes it, and returns how many elements
// of what it computes are wrong.
static int64_t planned(char name[64], struct judged *g,
                       const struct kern_desc *d)
{
    struct kern_plan *p = NULL;
    size_t bytes = 0;
    int64_t wrong;

    T_OK(g->b->plan(&p, &bytes, g->dev, d, SIZE_MAX, t_err()));
    snprintf(name, 64, "%s", p->impl);
    wrong = wrong_elements(g, p, bytes, d);
    g->b->plan_free(p);
    return wrong;
}

static struct proofs counts(const struct judged *g)
{
    return vendor(cuda_dev(g->dev))->book.counts;
}

// ---- Ops --------------------------------------------------------------------

// Small ones, of which all is compared, and ones with more than 4,096 elements.
static unsigned describe(struct kern_desc d[OPS])
{
    const int64_t x[4] = {2, 7, 6, 3}, many[4] = {9, 12, 11, 4};
    const struct kern_window w = {.size = {3, 2},
                                  .stride = {2, 1},
                                  .dilation = {1, 1},
                                  .pad_before = {1, 0},
                                  .pad_after = {1, 1}};
    unsigned n = 0;

    kern_desc_matmul(&d[n++], 9, 16, 24, false, true, KERN_BIAS | KERN_RELU);
    kern_desc_matmul(&d[n], 9, 16, 24, false, true, KERN_BIAS);
    kern_desc_dtype(&d[n++], KERN_BF16);
    kern_desc_matmul(&d[n], 8, 24, 8, true, false, KERN_BIAS | KERN_RELU);
    kern_desc_dtype(&d[n++], KERN_F16);
    kern_desc_matmul(&d[n++], 16, 24, 11, true, false, KERN_ACCUM | KERN_BGRAD);
    kern_desc_matmul(&d[n++], 90, 72, 8, false, false, KERN_ACCUM);
    kern_desc_matmul_batch(&d[n++], 3, 8, 12, 4, true, true, 0);
    kern_desc_conv(&d[n++], KERN_CONV_FWD, x, 5, &w, 1, KERN_BIAS | KERN_RELU);
    kern_desc_conv(&d[n], KERN_CONV_DGRAD, x, 5, &w, 1, 0);
    kern_desc_dtype(&d[n++], KERN_BF16);
    kern_desc_conv(&d[n++], KERN_CONV_WGRAD, x, 5, &w, 1,
                   KERN_ACCUM | KERN_BGRAD);
    kern_desc_conv(&d[n++], KERN_CONV_FWD, many, 8, &w, 1, KERN_RELU);
    kern_desc_conv(&d[n++], KERN_CONV_FWD, (int64_t[]){2, 7, 6, 4}, 6, &w, 2,
                   KERN_BIAS);
    // Convolutions of f32 that may use tensor cores have two engines here.
    for (unsigned i = 0; i < n; i++)
        d[i].math = d[i].op == KERN_MATMUL ? KERN_MATH_F32 : KERN_MATH_TF32;
    T_LE(n, OPS);
    return n;
}

// Returns the number in the name of an implementation.
static uint64_t number_of(const char *name)
{
    return strtoull(name + strcspn(name, "0123456789"), NULL, 10);
}

// Returns true if this mistake shows in the op.
static bool shows(const struct kern_desc *d, enum emul_wrong_how how)
{
    if (how == WRONG_ADDING)
        return kern_has(d, KERN_ACCUM);
    if (how == WRONG_ROUNDING || how == WRONG_BIAS)
        return d->op == KERN_MATMUL && kern_has(d, KERN_BIAS) &&
               (how == WRONG_BIAS || kern_is_half(&d->io[0]));
    return how != WRONG_NOWHERE;
}

// ---- What is found ----------------------------------------------------------

TEST(judge, what_is_right_is_taken)
{
    struct kern_desc d[OPS];
    unsigned n = describe(d);
    struct judged g;
    char name[64];

    judged_open(&g, NULL);
    for (unsigned i = 0; i < n; i++)
        T_EQ(planned(name, &g, &d[i]), 0);
    T_GE(counts(&g).checked, n);
    T_EQ(counts(&g).wrong, 0u);
    judged_close(&g);
}

// The one that the library names first is wrong in one way: another one of its
// own computes, and what it computes is right.
TEST(judge, a_wrong_implementation_is_avoided)
{
    struct kern_desc d[OPS];
    unsigned n = describe(d);

    for (int how = 1; how < WRONG_HOWS; how++)
        for (unsigned i = 0; i < n; i++) {
            char right[64], name[64];
            struct judged g;

            judged_open(&g, "prove=0");
            T_EQ(planned(right, &g, &d[i]), 0);
            judged_close(&g);
            judged_open(&g, NULL);
            emul_wrong(number_of(right), (enum emul_wrong_how)how);
            T_EQ(planned(name, &g, &d[i]), 0);
            T_EQ(counts(&g).wrong, shows(&d[i], (enum emul_wrong_how)how));
            T_EQ(strcmp(name, right) == 0,
                 !shows(&d[i], (enum emul_wrong_how)how));
            judged_close(&g);
        }
}

// Returns how many kernels that only proofs and their answers use have run.
static unsigned kernels_of_proofs(void)
{
    unsigned n = 0;

    for (const struct emul_kernel *k = emul_table; k->name; k++)
        n += emul_of_proofs(k->name) && k->launches > 0;
    return n;
}

// All of them are wrong: our own loops compute, or a kernel of ours adds the
// bias. After that all of those kernels have run.
TEST(judge, where_all_are_wrong_our_own_kernel_computes)
{
    struct kern_desc d[OPS];
    unsigned n = describe(d);

    for (int how = 1; how < WRONG_HOWS; how++)
        for (unsigned i = 0; i < n; i++) {
            struct judged g;
            char name[64];

            judged_open(&g, NULL);
            emul_wrong(EMUL_WRONG_ALL, (enum emul_wrong_how)how);
            T_EQ(planned(name, &g, &d[i]), 0);
            if ((how == WRONG_ROUNDING || how == WRONG_BIAS) &&
                shows(&d[i], (enum emul_wrong_how)how))
                T_HAS(name, ", own bias");
            else
                T_EQ(strcmp(name, "own plain") == 0,
                     shows(&d[i], (enum emul_wrong_how)how));
            judged_close(&g);
        }
    T_EQ(kernels_of_proofs(), 6u);
}

// Without proofs each of them computes wrong numbers: so the tests above find
// what is there.
TEST(judge, without_proofs_wrong_numbers_come_out)
{
    static const enum emul_wrong_how hows[] = {WRONG_FIRST, WRONG_LAST_TILE};
    struct kern_desc d[OPS];
    unsigned n = describe(d);

    for (unsigned k = 0; k < SL_COUNT(hows); k++)
        for (unsigned i = 0; i < n; i++) {
            struct judged g;
            char name[64];

            judged_open(&g, "prove=0");
            emul_wrong(EMUL_WRONG_ALL, hows[k]);
            T_GT(planned(name, &g, &d[i]), 0);
            T_EQ(counts(&g).checked, 0u);
            judged_close(&g);
        }
}

// The fastest is wrong: tuning takes one that is right.
TEST(judge, only_what_is_right_is_timed)
{
    struct kern_desc d[OPS];
    unsigned n = describe(d);

    for (unsigned i = 0; i < n; i++) {
        struct judged g;
        char first[64], name[64];

        judged_open(&g, "autotune=1");
        T_EQ(planned(first, &g, &d[i]), 0);
        judged_close(&g);
        judged_open(&g, "autotune=1");
        emul_wrong(number_of(first), WRONG_LAST_TILE);
        T_EQ(planned(name, &g, &d[i]), 0);
        T_TRUE(strcmp(name, first) != 0);
        judged_close(&g);
    }
}

// ---- What is kept -----------------------------------------------------------

TEST(judge, a_second_start_checks_nothing)
{
    struct kern_desc d[OPS];
    unsigned n = describe(d);
    char options[600], name[64];
    struct judged g;

    snprintf(options, sizeof(options), "plans=%s/plans", t_tmpdir());
    for (int start = 0; start < 3; start++) {
        unsigned launches;

        judged_open(&g, options);
        emul_wrong(2, WRONG_LAST_TILE);
        launches = emul_calls("malloc");
        for (unsigned i = 0; i < n; i++) {
            struct kern_plan *p = NULL;
            size_t bytes;

            T_OK(g.b->plan(&p, &bytes, g.dev, &d[i], SIZE_MAX, t_err()));
            g.b->plan_free(p);
        }
        if (start > 0)
            T_EQ(emul_calls("malloc"), launches);
        else
            T_GT(emul_calls("malloc"), launches);
        T_EQ(counts(&g).checked > 0, start == 0);
        for (unsigned i = 0; i < n; i++)
            T_EQ(planned(name, &g, &d[i]), 0);
        judged_close(&g);
    }
    // Another version is another library.
    emul_blas_version = 130100;
    judged_open(&g, options);
    T_EQ(planned(name, &g, &d[0]), 0);
    T_STR(name, "cublaslt:2");
    T_GT(counts(&g).checked, 0u);
    judged_close(&g);
    emul_blas_version = 0;
}

TEST(judge, a_dev_tells_what_is_wrong_here)
{
    struct kern_desc d[OPS];
    struct judged g;
    char text[200], name[64];

    describe(d);
    judged_open(&g, NULL);
    emul_wrong(2, WRONG_FIRST);
    T_EQ(planned(name, &g, &d[0]), 0);
    g.b->about(text, sizeof(text), g.dev);
    T_HAS(text, "kernels that are wrong here: 1 of 2");
    judged_close(&g);
}

// Returns the kernels that the dev leaves out for an op, or (NULL) for any, one
// behind the other.
static void all_left_out(char out[1200], const struct judged *g,
                         const struct kern_desc *d)
{
    const char *why;

    out[0] = '\0';
    for (unsigned i = 0; (why = kern_left_out(g->dev, d, i)) != NULL; i++)
        snprintf(out + strlen(out), 1200 - strlen(out), "%s\n", why);
}

// What is left out is told in words, of the op alone and of the whole dev, and
// a start that uses kept plans and answers tells the same.
TEST(judge, what_is_left_out_is_told_at_every_start)
{
    const int ops[] = {0, 7};
    char options[600], name[64], first[1200], text[1200];
    struct kern_desc d[OPS];
    struct judged g;

    describe(d);
    for (int all = 0; all < 2; all++) {
        snprintf(options, sizeof(options), "plans=%s/left%d", t_tmpdir(), all);
        for (int start = 0; start < 3; start++) {
            judged_open(&g, options);
            emul_wrong(all ? EMUL_WRONG_ALL : 2, WRONG_FIRST);
            for (unsigned i = 0; i < SL_COUNT(ops); i++)
                T_EQ(planned(name, &g, &d[ops[i]]), 0);
            T_EQ(planned(name, &g, &d[ops[0]]), 0); // is not told twice
            all_left_out(text, &g, NULL);
            T_HAS(text, "matmul");
            T_HAS(text, " where ");
            if (start == 0)
                snprintf(first, sizeof(first), "%s", text);
            T_STR(text, first);
            all_left_out(text, &g, &d[ops[0]]);
            T_HAS(text, "cublaslt:2 of ");
            T_TRUE(strstr(text, "conv") == NULL);
            all_left_out(text, &g, &d[3]);
            T_STR(text, "");
            judged_close(&g);
        }
    }
}

// A bit flips while a candidate is checked: another one computes, and the next
// start asks again.
TEST(judge, what_was_wrong_once_is_left_out_until_the_next_start)
{
    const int ops[] = {0, 7};
    char options[600], first[64], name[64], text[1200];
    struct kern_desc d[OPS];
    struct judged g;

    describe(d);
    snprintf(options, sizeof(options), "plans=%s/once", t_tmpdir());
    for (unsigned i = 0; i < SL_COUNT(ops); i++) {
        judged_open(&g, "prove=0");
        T_EQ(planned(first, &g, &d[ops[i]]), 0);
        judged_close(&g);
        judged_open(&g, options);
        emul_wrong(number_of(first), WRONG_ONCE);
        T_EQ(planned(name, &g, &d[ops[i]]), 0);
        T_TRUE(strcmp(name, first) != 0);
        T_EQ(planned(name, &g, &d[ops[i]]), 0);
        T_TRUE(strcmp(name, first) != 0);
        T_EQ(counts(&g).wrong, 1u);
        all_left_out(text, &g, &d[ops[i]]);
        T_HAS(text, "checked again, it was right");
        judged_close(&g);
        judged_open(&g, options);
        T_EQ(planned(name, &g, &d[ops[i]]), 0);
        T_STR(name, first);
        T_GE(counts(&g).checked, 1u);
        all_left_out(text, &g, NULL);
        T_STR(text, "");
        judged_close(&g);
    }
}

// There is no memory for the second check: nothing is kept of the first one.
TEST(judge, what_cannot_be_checked_again_is_left_out_until_the_next_start)
{
    char options[600], first[64], name[64], text[1200];
    struct kern_desc d[OPS];
    struct judged g;

    describe(d);
    snprintf(options, sizeof(options), "plans=%s/unsure", t_tmpdir());
    judged_open(&g, "prove=0");
    T_EQ(planned(first, &g, &d[0]), 0);
    judged_close(&g);
    for (int start = 0; start < 2; start++) {
        struct kern_plan *p = NULL;
        size_t bytes;

        judged_open(&g, options);
        if (start == 0) {
            emul_wrong(number_of(first), WRONG_ONCE);
            emul_fail("malloc", 2, cudaErrorMemoryAllocation, false);
        }
        T_OK(g.b->plan(&p, &bytes, g.dev, &d[0], SIZE_MAX, t_err()));
        emul_heal();
        T_EQ(strcmp(p->impl, first) == 0, start == 1);
        g.b->plan_free(p);
        all_left_out(text, &g, &d[0]);
        if (start == 0)
            T_HAS(text, "it could not be checked again");
        else
            T_STR(text, "");
        T_EQ(planned(name, &g, &d[0]), 0);
        judged_close(&g);
    }
}

// ---- What is refused
// ---------------------------------------------------------

// Whatever the library's word for it: the next one computes, rightly, and it is
// told once which one is left out and why, also when the op is planned again.
TEST(judge, what_is_refused_is_left_out_and_the_next_is_taken)
{
    struct kern_desc d[OPS];
    unsigned n = describe(d);

    for (int how = 0; how < REFUSALS; how++)
        for (unsigned i = 0; i < n; i++) {
            char right[64], name[64], text[1200];
            struct judged g;

            judged_open(&g, NULL);
            T_EQ(planned(right, &g, &d[i]), 0);
            judged_close(&g);
            judged_open(&g, NULL);
            emul_products_bad = number_of(right);
            emul_products_refusal = (enum emul_refusal)how;
            for (int again = 0; again < 2; again++) {
                T_EQ(planned(name, &g, &d[i]), 0);
                T_TRUE(strcmp(name, right) != 0);
                T_EQ(counts(&g).wrong, 0u);
                all_left_out(text, &g, &d[i]);
                T_HAS(text, "refuses to run: ");
                T_HAS(text, right);
                T_PTR(strchr(text, '\n') + strlen("\n"),
                      text + strlen(text)); // one line
            }
            judged_close(&g);
        }
}

TEST(judge, where_all_are_refused_our_own_kernel_computes)
{
    struct kern_desc d[OPS];
    unsigned n = describe(d);

    for (int tune = 0; tune < 2; tune++)
        for (int how = 0; how < REFUSALS; how++)
            for (unsigned i = 0; i < n; i++) {
                struct judged g;
                char name[64];

                judged_open(&g, tune ? "autotune=1" : NULL);
                emul_products_bad = EMUL_PRODUCTS_ALL;
                emul_products_refusal = (enum emul_refusal)how;
                T_EQ(planned(name, &g, &d[i]), 0);
                T_STR(name, "own plain");
                judged_close(&g);
            }
}

// Without memory it is asked again at the next start; else what was chosen
// instead is kept, and tells what it stands for.
TEST(judge, what_had_no_memory_is_asked_again_at_the_next_start)
{
    char options[600], first[64], name[64], text[1200];
    struct kern_desc d[OPS];
    struct judged g;

    describe(d);
    judged_open(&g, NULL);
    T_EQ(planned(first, &g, &d[0]), 0);
    judged_close(&g);
    for (int how = 0; how < REFUSALS; how++) {
        bool asks = how == REFUSES_NO_MEMORY;

        snprintf(options, sizeof(options), "plans=%s/refused%d", t_tmpdir(),
                 how);
        for (int start = 0; start < 2; start++) {
            judged_open(&g, options);
            emul_products_bad = start == 0 ? number_of(first) : 0;
            emul_products_refusal = (enum emul_refusal)how;
            T_EQ(planned(name, &g, &d[0]), 0);
            T_EQ(strcmp(name, first) == 0, start == 1 && asks);
            all_left_out(text, &g, &d[0]);
            T_EQ(strstr(text, "refuses to run") != NULL, start == 0 || !asks);
            judged_close(&g);
        }
    }
}

// ---- Which elements ---------------------------------------------------------

TEST(judge, the_last_tile_is_always_among_the_elements)
{
    static const int64_t terms[] = {27, 7744, 8388608, (int64_t)1 << 40};
    static int64_t at[1 << 13];
    const struct kern_shape shapes[] = {
        kern_shape(KERN_F32, 4, (int64_t[]){512, 128, 128, 32}),
        kern_shape(KERN_F32, 4, (int64_t[]){128, 11, 11, 64}),
        kern_shape(KERN_F32, 2, (int64_t[]){3, 100000}),
        kern_shape(KERN_F32, 2, (int64_t[]){100000, 3}),
        kern_shape(KERN_F32, 2, (int64_t[]){5, 7}),
        kern_shape(KERN_F32, 1, (int64_t[]){30000}),
    };

    for (unsigned i = 0; i < SL_COUNT(shapes); i++)
        for (unsigned k = 0; k < SL_COUNT(terms); k++) {
            int64_t n = judge_choose(NULL, &shapes[i], terms[k], 132);
            int64_t all = kern_shape_count(&shapes[i]);
            bool first = false, last = false;

            T_LE(n, 4096);
            T_GE(n, all < 64 ? all : 64);
            T_EQ(judge_choose(at, &shapes[i], terms[k], 132), n);
            for (int64_t e = 0; e < n; e++) {
                T_GE(at[e], 0);
                T_LT(at[e], all);
                first |= at[e] == 0;
                last |= at[e] == all - 1;
            }
            T_TRUE(first && last);
        }
}

// ---- Failing ----------------------------------------------------------------

TEST(judge, without_memory_a_kernel_is_used_unchecked)
{
    struct kern_desc d[OPS];
    struct kern_plan *p = NULL;
    struct judged g;
    unsigned checked;
    size_t bytes;

    describe(d);
    judged_open(&g, NULL);
    emul_fail("malloc", 1, cudaErrorMemoryAllocation, false);
    T_OK(g.b->plan(&p, &bytes, g.dev, &d[0], SIZE_MAX, t_err()));
    emul_heal();
    g.b->plan_free(p);
    checked = counts(&g).checked;
    T_OK(g.b->plan(&p, &bytes, g.dev, &d[0], SIZE_MAX, t_err()));
    g.b->plan_free(p);
    T_GT(counts(&g).checked, checked); // it was not taken for checked
    judged_close(&g);
}

// Each call of a proof fails in turn: the plan fails, or something else
// computes, and nothing is left behind.
TEST(judge, a_device_that_fails_ends_the_proof)
{
    static const char *const calls[] = {"malloc", "stream", "copy",
                                        "fill",   "launch", "sync"};
    struct kern_desc d[OPS];

    describe(d);
    for (unsigned k = 0; k < SL_COUNT(calls); k++)
        for (int op = 0; op < 8; op += 7) {
            enum sl_err rc = SL_ENOMEM;

            for (unsigned nth = 1; rc != SL_OK; nth++) {
                struct kern_plan *p = NULL;
                struct judged g;
                unsigned before;
                size_t bytes;

                judged_open(&g, NULL);
                before = emul_alive();
                emul_fail(calls[k], nth,
                          k == 0 ? cudaErrorMemoryAllocation
                                 : cudaErrorIllegalAddress,
                          k != 0);
                rc = g.b->plan(&p, &bytes, g.dev, &d[op], SIZE_MAX, &err);
                emul_heal();
                if (rc != SL_OK)
                    T_EQ(rc, k == 0 ? SL_ENOMEM : SL_ELOST);
                g.b->plan_free(p);
                if (k == 0 || rc == SL_OK)
                    T_EQ(emul_alive(), before);
                judged_close(&g);
                T_LT(nth, 1000u);
            }
        }
}
