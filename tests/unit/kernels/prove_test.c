// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/prove_test.c -- kernels that are wrong in one way each are
// found, and what is left out is not chosen again.
#include "kernels/prove/prove.h"

#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "kernels/prove/excerpt.h"
#include "tests/harness/t.h"

// A stand-in for a library's kernel: right but for one element.
enum wrong {
    NOWHERE,
    FIRST,  // the first element of the first output
    LAST,   // the last one: its tile is not full
    MIDDLE, // a whole row in the middle is 0
    ADDING, // the last one, where the op adds to what is there
    ASTRAY, // the last one, unless the output begins at a cache line
    AGAIN,  // the last one, from the second run on
    BEYOND, // writes an element behind the output
    REFUSES // computes nothing, and says so
};

static enum wrong wrong;
static struct kern_plan *right; // the plan that computes
static struct kern_desc desc;
static unsigned runs;
static size_t most_memory; // of this process, when a plan has run; 0: not asked

// Returns the bytes of memory that this process has; shared ones count once.
static size_t memory_now(void)
{
    FILE *f = fopen("/proc/self/smaps_rollup", "re");
    unsigned long kib = 0;
    char line[200];

    T_TRUE(f != NULL);
    while (kib == 0 && fgets(line, sizeof(line), f))
        sscanf(line, "Pss: %lu", &kib);
    fclose(f);
    return (size_t)kib << 10;
}

static enum sl_err stand_in_run(struct kern_plan *plan, struct kern_stream *s,
                                void *const *io, void *workspace)
{
    enum sl_err rc = kern_run(right, s, io, workspace);
    const struct kern_shape *y = &desc.io[desc.inputs];
    float *out = io[desc.inputs];
    int64_t n = kern_shape_count(y), row = kern_cols(y);
    bool spoil = wrong == LAST || (wrong == ADDING && trial_adds(&desc)) ||
                 (wrong == ASTRAY && (uintptr_t)out % 64 != 0) ||
                 (wrong == AGAIN && runs > 0);

    if (wrong == REFUSES)
        return SL_ENOTSUP;
    if (most_memory > 0)
        most_memory = memory_now();
    runs++;
    if (wrong == FIRST)
        out[0] += 1;
    if (wrong == MIDDLE)
        memset(out + n / 2 / row * row, 0, (size_t)row * sizeof(float));
    if (wrong == BEYOND)
        out[n] = 0;
    if (spoil)
        out[n - 1] += 1;
    return rc;
}

static const struct kern_backend stand_in = {
    .name = "stand-in", .host = true, .run = stand_in_run};

// Proves the stand-in for *d. Returns what prove_plan says.
static enum sl_err proved(const struct kern_desc *d, enum wrong how,
                          struct proof_fault *fault)
{
    struct kern_plan plan = {&stand_in, "stand-in"};
    struct kern_dev *dev = NULL;
    size_t bytes = 0;
    enum sl_err rc;

    T_OK(kern_open(&dev, "cpu", "prove=0", t_err()));
    T_OK(kern_plan_new(&right, &bytes, dev, d, 0, t_err()));
    desc = *d;
    wrong = how;
    runs = 0;
    rc = prove_plan(&plan, bytes, d, fault);
    kern_plan_free(right);
    kern_close(dev);
    return rc;
}

static const struct kern_window three = {.size = {3, 3},
                                         .stride = {1, 1},
                                         .dilation = {1, 1},
                                         .pad_before = {1, 1},
                                         .pad_after = {1, 1}};

// Products that are compared whole, and ones of which parts are.
static unsigned describe_products(struct kern_desc *out)
{
    unsigned n = 0;

    kern_desc_matmul(&out[n++], 7, 5, 9, false, true, KERN_BIAS);
    kern_desc_matmul(&out[n++], 500, 130, 784, false, true, 0);
    kern_desc_matmul(&out[n++], 784, 129, 320, true, false, KERN_ACCUM);
    kern_desc_conv(&out[n++], KERN_CONV_FWD, (int64_t[]){2, 6, 6, 3}, 5, &three,
                   1, KERN_BIAS);
    for (int op = KERN_CONV_FWD; op <= KERN_CONV_WGRAD; op++)
        kern_desc_conv(&out[n++], (enum kern_op)op, (int64_t[]){32, 14, 14, 32},
                       33, &three, 1, op == KERN_CONV_WGRAD ? KERN_ACCUM : 0);
    return n;
}

TEST(prove, a_kernel_that_is_right_is_trusted)
{
    struct kern_desc d[12];
    struct proof_fault fault;
    unsigned n = describe_products(d);

    for (unsigned i = 0; i < n; i++)
        T_EQ(proved(&d[i], NOWHERE, &fault), SL_OK);
}

TEST(prove, one_wrong_element_is_found)
{
    static const enum wrong hows[] = {FIRST, LAST, ASTRAY, AGAIN, BEYOND};
    struct kern_desc d[12];
    struct proof_fault fault;
    unsigned n = describe_products(d);

    for (unsigned i = 0; i < n; i++)
        for (size_t k = 0; k < SL_COUNT(hows); k++) {
            int64_t count = kern_shape_count(&d[i].io[d[i].inputs]);

            T_EQ(proved(&d[i], hows[k], &fault), SL_EINTERNAL);
            T_EQ(fault.element, hows[k] == FIRST    ? 0
                                : hows[k] == BEYOND ? -1
                                                    : count - 1);
            T_STR(fault.when, hows[k] == ASTRAY || hows[k] == AGAIN
                                  ? "the second time"
                                  : "the first time");
        }
}

// It is not taken for a wrong number.
TEST(prove, a_kernel_that_refuses_to_run_is_told_from_a_wrong_one)
{
    struct proof_fault fault;
    struct kern_desc d;

    kern_desc_matmul(&d, 7, 5, 9, false, true, 0);
    T_EQ(proved(&d, REFUSES, &fault), SL_ENOTSUP);
    T_PTR(fault.when, NULL);
}

TEST(prove, what_is_wrong_only_where_it_adds_is_found_there)
{
    struct kern_desc d[12];
    struct proof_fault fault;
    unsigned n = describe_products(d);

    for (unsigned i = 0; i < n; i++)
        T_EQ(proved(&d[i], ADDING, &fault),
             trial_adds(&d[i]) ? SL_EINTERNAL : SL_OK);
}

// ---- Large ops
// ----------------------------------------------------------------

#define LARGE 40 // most descriptors

static const int64_t image[4] = {7, 75, 77, 32}, rows[2] = {1600, 1000};

static unsigned describe_large_products(struct kern_desc *out)
{
    unsigned n = 0;

    kern_desc_matmul(&out[n++], 16, 1500, 1000, false, true,
                     KERN_BIAS | KERN_RELU);
    kern_desc_matmul(&out[n++], 1200, 1000, 9, true, false,
                     KERN_BGRAD | KERN_ACCUM);
    kern_desc_matmul_batch(&out[n++], 30, 200, 300, 7, false, true, 0);
    for (int op = KERN_CONV_FWD; op <= KERN_CONV_WGRAD; op++) {
        uint32_t sums = op == KERN_CONV_WGRAD ? KERN_BGRAD | KERN_ACCUM : 0;

        kern_desc_conv(&out[n++], (enum kern_op)op, image, 33, &three, 1, sums);
        kern_desc_conv(&out[n++], (enum kern_op)op, image, 32, &three, 32,
                       sums);
    }
    return n;
}

static unsigned describe_large_layers(struct kern_desc *out)
{
    const struct kern_window two = kern_window(2, 2, 2, 2);
    unsigned n = 0;

    for (int op = KERN_POOL_FWD; op <= KERN_POOL_BWD; op++) {
        kern_desc_pool(&out[n++], (enum kern_op)op, KERN_POOL_MAX, image, &two,
                       op == KERN_POOL_FWD ? KERN_AUX : KERN_BGRAD);
        kern_desc_pool(&out[n++], (enum kern_op)op, KERN_POOL_AVG, image,
                       &three, 0);
    }
    for (int op = KERN_BN_FWD; op <= KERN_BN_BWD; op++)
        kern_desc_norm(&out[n++], (enum kern_op)op, 4, image, 1e-3f,
                       op == KERN_BN_BWD ? KERN_DRELU | KERN_BGRAD : 0);
    for (int op = 0; op < 2; op++) {
        kern_desc_unary(&out[n++], KERN_UNARY_FWD + op, KERN_UNARY_GELU, 0, 2,
                        rows);
        kern_desc_softmax(&out[n++], KERN_SOFTMAX_FWD + op, 2, rows);
        kern_desc_ln(&out[n++], KERN_LN_FWD + op, 2, rows, 1e-3f);
        kern_desc_gather(&out[n++], KERN_GATHER + op, 1200, 1100, 1000);
        kern_desc_xent(&out[n++], rows[0], rows[1], op == 0, 0);
    }
    return n;
}

static unsigned describe_large_loops(struct kern_desc *out)
{
    struct kern_shape s = kern_shape(KERN_F32, 2, rows);
    unsigned n = 0;

    kern_desc_binary(&out[n++], KERN_ADD, 3, 2, rows);
    kern_desc_axpby(&out[n++], &s, &s, 2, 1);
    kern_desc_fill(&out[n++], &s, 3);
    kern_desc_bce(&out[n++], KERN_BCE_LOGITS, 2, rows, 0);
    kern_desc_mse(&out[n++], 2, rows, 0);
    kern_desc_dropout(&out[n++], 0.5f, 3, 2, rows);
    kern_desc_image_u8(&out[n++], 2, rows, 0.5f, 1);
    kern_desc_reduce(&out[n++], 2, rows, KERN_ACCUM);
    kern_desc_unscale_check(&out[n++], 2, rows, 0);
    kern_desc_pick(&out[n++], KERN_MAX, 3, 1, 2, rows);
    kern_desc_penalty(&out[n++], 0.1f, 0.2f, 3, 2, rows, KERN_ACCUM);
    return n;
}

static unsigned describe_large(struct kern_desc *out, enum kern_dtype dtype)
{
    unsigned n = describe_large_products(out);

    n += describe_large_layers(out + n);
    n += describe_large_loops(out + n);
    T_LE(n, LARGE);
    for (unsigned i = 0; i < n; i++)
        kern_desc_dtype(&out[i], dtype);
    return n;
}

// Whatever op it is, its elements are right where they are compared, though
// those of a large tensor share memory elsewhere.
TEST(prove, a_large_op_that_is_right_is_trusted)
{
    static const enum kern_dtype dtypes[] = {KERN_F32, KERN_BF16};
    struct kern_desc d[LARGE];
    struct proof_fault fault;
    char text[300];

    for (size_t k = 0; k < SL_COUNT(dtypes); k++) {
        unsigned n = describe_large(d, dtypes[k]);

        for (unsigned i = 0; i < n; i++)
            if (proved(&d[i], NOWHERE, &fault) != SL_OK)
                T_STR(kern_desc_text(text, sizeof(text), &d[i]),
                      "is called wrong");
    }
}

TEST(prove, one_wrong_element_of_a_large_op_is_found)
{
    static const enum wrong hows[] = {FIRST, LAST, ASTRAY, AGAIN, BEYOND};
    struct kern_desc d[LARGE];
    struct proof_fault fault;
    unsigned n = describe_large(d, KERN_F32);

    for (unsigned i = 0; i < n; i++)
        T_EQ(proved(&d[i], hows[i % SL_COUNT(hows)], &fault), SL_EINTERNAL);
}

// A product of 98 MB takes a few MiB, and leaves nothing behind.
TEST(prove, a_proof_takes_little_memory)
{
    struct proof_fault fault;
    size_t before = memory_now();
    struct kern_desc d;

    kern_desc_matmul(&d, 2, 6000, 4096, false, true, 0);
    most_memory = 1;
    T_EQ(proved(&d, LAST, &fault), SL_EINTERNAL);
    T_LE(most_memory, before + ((size_t)40 << 20));
    T_LE(memory_now(), before + ((size_t)8 << 20)); // maybe less than before
}

// The numbers in the log are those of the element.
TEST(prove, a_fault_names_both_values)
{
    struct kern_desc d;
    struct proof_fault fault;

    kern_desc_fill(&d,
                   &(struct kern_shape){
                       .dtype = KERN_F32, .nd = 1, .dim = {4}, .stride = {1}},
                   2);
    T_EQ(proved(&d, LAST, &fault), SL_EINTERNAL);
    T_EQ(fault.out, 0);
    T_EQ(fault.element, 3);
    T_NEAR(fault.got, 3, 0);
    T_NEAR(fault.want, 2, 0);
}

// Each implementation that is called wrong is followed by another one, and the
// last of them is the reference.
TEST(prove, the_next_implementation_is_taken_until_none_is_left)
{
    const int64_t x[4] = {64, 13, 13, 32};
    struct kern_dev *dev = NULL;
    struct kern_desc d;
    char last[64] = "";

    T_OK(kern_open(&dev, "cpu", NULL, t_err()));
    for (int op = KERN_CONV_FWD; op <= KERN_CONV_WGRAD; op++) {
        unsigned count = 0;

        kern_desc_conv(&d, (enum kern_op)op, x, 32, &three, 1, 0);
        for (strcpy(last, ""); strcmp(last, "ref") != 0; count++) {
            struct kern_plan *plan = NULL;
            size_t bytes = 0;

            T_OK(kern_plan_new(&plan, &bytes, dev, &d, 0, t_err()));
            T_TRUE(strcmp(last, plan->impl) != 0);
            snprintf(last, sizeof(last), "%s", plan->impl);
            T_OK(prover_learn(dev->prover, &d, last, PROOF_WRONG, 0));
            kern_plan_free(plan);
            T_LT(count, 20u);
        }
        T_GT(count, 1u);
    }
    kern_close(dev);
}

// Also at a later start, which does not check it again.
TEST(prove, what_is_left_out_is_told_in_words)
{
    struct kern_dev *dev = NULL;
    struct kern_plan *plan = NULL;
    struct kern_desc d;
    struct buf list = BUF_INIT;
    char options[600], first[64];
    size_t bytes = 0;

    snprintf(options, sizeof(options), "proofs=%s/plans", t_tmpdir());
    kern_desc_softmax(&d, KERN_SOFTMAX_FWD, 2, (int64_t[]){9, 10});
    for (int start = 0; start < 2; start++) {
        T_OK(kern_open(&dev, "cpu", options, t_err()));
        T_PTR(kern_left_out(dev, NULL, 0), NULL);
        T_OK(kern_plan_new(&plan, &bytes, dev, &d, 0, t_err()));
        if (start == 0) {
            snprintf(first, sizeof(first), "%s", plan->impl);
            T_OK(prover_learn(dev->prover, &d, first, PROOF_WRONG, 0));
            prover_explain(dev->prover, &d, first, "1 is 2");
        }
        T_TRUE(start == 0 || strcmp(plan->impl, first) != 0);
        for (int all = 0; all < 2; all++) {
            T_STR(kern_left_out(dev, all ? NULL : &d, 0), "1 is 2");
            T_PTR(kern_left_out(dev, all ? NULL : &d, 1), NULL);
        }
        d.epilogue ^= KERN_RELU;
        T_PTR(kern_left_out(dev, &d, 0), NULL);
        d.epilogue ^= KERN_RELU;
        kern_plan_free(plan);
        kern_close(dev);
    }
    snprintf(options, sizeof(options), "%s/plans", t_tmpdir());
    T_OK(proofs_list(&list, options));
    T_STR(buf_text(&list), "left out: 1 is 2\n");
    buf_release(&list);
}

TEST(prove, loops_of_narrower_vectors_stand_in_for_wider_ones)
{
    struct kern_dev *dev = NULL;
    struct kern_desc d;
    struct kern_plan *plan = NULL;
    size_t bytes = 0;
    char first[64];

    T_OK(kern_open(&dev, "cpu", NULL, t_err()));
    kern_desc_softmax(&d, KERN_SOFTMAX_FWD, 2, (int64_t[]){9, 10});
    T_OK(kern_plan_new(&plan, &bytes, dev, &d, 0, t_err()));
    snprintf(first, sizeof(first), "%s", plan->impl);
    kern_plan_free(plan);
    T_OK(prover_learn(dev->prover, &d, first, PROOF_WRONG, 0));
    T_OK(kern_plan_new(&plan, &bytes, dev, &d, 0, t_err()));
    T_STR(plan->impl, strcmp(first, "avx512") == 0 ? "avx2"
                      : strcmp(first, "avx2") == 0 ? "base"
                                                   : "ref");
    kern_plan_free(plan);
    kern_close(dev);
}

// An op of which all loops are wrong is the reference's, and its score says so.
TEST(prove, loops_that_are_wrong_have_no_score)
{
    static const char *const loops[] = {"avx512", "avx2", "base"};
    struct kern_dev *dev = NULL;
    struct kern_desc d;

    T_OK(kern_open(&dev, "cpu", NULL, t_err()));
    kern_desc_softmax(&d, KERN_SOFTMAX_FWD, 2, (int64_t[]){9, 10});
    T_EQ(kern_score(dev, &d), 100);
    for (size_t i = 0; i < SL_COUNT(loops); i++)
        T_OK(prover_learn(dev->prover, &d, loops[i], PROOF_WRONG, 0));
    T_EQ(kern_score(dev, &d), kern_score(dev->fallback, &d));
    kern_close(dev);
}

// ---- A library that is wrong on some processors
// ---------------------------------

// Stand-ins for implementations of oneDNN 2.6 on a host with AMX, of which the
// first one's weight gradients of dilated windows are NaN.
static const char *const amx_impls[] = {"jit:avx512_core_amx_bf16",
                                        "jit:avx512_core_bf16"};
static struct kern_dev *amx_inner; // computes, rightly on any host
static unsigned amx_flips;         // runs that are wrong from now on
static unsigned amx_bad_plans;     // plans that hold a flipped bit, from now on
static bool amx_beyond;            // the first one writes behind the output
static enum sl_err amx_refuses;    // what the first one's runs say; SL_OK: none

struct amx_plan {
    struct kern_plan base;
    struct kern_plan *inner; // owned
    struct kern_desc d;
    bool bad; // each of its runs is wrong
};

static const struct kern_backend amx;

static void amx_info(struct kern_info *info, struct kern_dev *dev)
{
    amx_inner->backend->info(info, amx_inner);
}

static int amx_score(struct kern_dev *dev, const struct kern_desc *d)
{
    return 100;
}

static enum sl_err amx_plan_new(struct kern_plan **out, size_t *bytes,
                                struct kern_dev *dev, const struct kern_desc *d,
                                size_t cap, struct sl_error *err)
{
    struct amx_plan *p;
    size_t i = 0;

    while (i < SL_COUNT(amx_impls) &&
           prover_avoids(dev->prover, d, amx_impls[i]))
        i++;
    if (i == SL_COUNT(amx_impls))
        return sl_fail(err, SL_ENOTSUP, "no implementation is left");
    p = sl_calloc(1, sizeof(*p));
    *p = (struct amx_plan){.base = {&amx, amx_impls[i]}, .d = *d};
    p->bad = amx_bad_plans > 0 && amx_bad_plans--;
    T_OK(kern_plan_new(&p->inner, bytes, amx_inner, d, cap, err));
    *out = &p->base;
    return SL_OK;
}

static void amx_plan_free(struct kern_plan *plan)
{
    struct amx_plan *p = (struct amx_plan *)plan;

    kern_plan_free(p->inner);
    sl_free(p);
}

static enum sl_err amx_run(struct kern_plan *plan, struct kern_stream *s,
                           void *const *io, void *workspace)
{
    struct amx_plan *p = (struct amx_plan *)plan;
    const struct kern_shape *dw = &p->d.io[p->d.inputs];
    enum sl_err rc = kern_run(p->inner, s, io, workspace);

    if (plan->impl == amx_impls[0] && amx_refuses != SL_OK)
        return amx_refuses;
    if (plan->impl == amx_impls[0] && p->d.op == KERN_CONV_WGRAD &&
        p->d.u.conv.win.dilation[0] > 1)
        memset(io[p->d.inputs], 0xFF, kern_shape_bytes(dw)); // NaN
    if (p->bad || (amx_flips > 0 && amx_flips--))
        ((uint8_t *)io[p->d.inputs])[kern_shape_bytes(dw) - 1] ^= 0x40;
    if (plan->impl == amx_impls[0] && amx_beyond)
        ((uint8_t *)io[p->d.inputs])[kern_shape_bytes(dw)] = 0;
    return rc;
}

static const struct kern_backend amx = {
    .abi = KERN_ABI,
    .size = sizeof(struct kern_backend),
    .name = "amx",
    .host = true,
    .info = amx_info,
    .score = amx_score,
    .plan = amx_plan_new,
    .plan_free = amx_plan_free,
    .run = amx_run,
};

// Plans *d on the stand-in, and checks that what is taken computes as ref does.
static void amx_planned(const struct kern_desc *d, const char *want)
{
    struct kern_dev dev = {.backend = &amx, .prover = prover_new(NULL, 0)};
    struct kern_plan *plan = NULL;
    struct proof_fault fault;
    size_t bytes = 0;

    T_OK(kern_open(&amx_inner, "cpu", NULL, t_err()));
    T_OK(kern_plan_new(&plan, &bytes, &dev, d, 0, t_err()));
    T_STR(plan->impl, want);
    T_EQ(prover_counts(dev.prover).wrong, want == amx_impls[0] ? 0u : 1u);
    T_EQ(prove_plan(plan, bytes, d, &fault), SL_OK);
    kern_plan_free(plan);
    prover_free(dev.prover);
    kern_close(amx_inner);
}

TEST(prove, what_amx_computes_wrongly_another_implementation_computes)
{
    struct kern_window window = three;
    struct kern_desc d;

    for (int far = 1; far <= 2; far++) {
        for (int axis = 0; axis < 2; axis++)
            window.dilation[axis] = window.pad_before[axis] =
                window.pad_after[axis] = far;
        for (int op = KERN_CONV_FWD; op <= KERN_CONV_WGRAD; op++) {
            bool wrongly = far == 2 && op == KERN_CONV_WGRAD;

            kern_desc_conv(&d, (enum kern_op)op, (int64_t[]){2, 9, 9, 33}, 17,
                           &window, 1, 0);
            kern_desc_dtype(&d, KERN_BF16);
            amx_planned(&d, amx_impls[wrongly]);
        }
    }
}

// Plans *d at a start of its own; returns the name of what was taken.
static const char *amx_started(const char *path, const struct kern_desc *d,
                               unsigned flips, bool told)
{
    struct kern_dev dev = {.backend = &amx, .prover = prover_new(path, 1)};
    struct kern_plan *plan = NULL;
    const char *impl, *why;
    size_t bytes = 0;

    amx_flips = flips;
    T_OK(kern_plan_new(&plan, &bytes, &dev, d, 0, t_err()));
    T_EQ(amx_flips, 0u);
    impl = plan->impl;
    kern_plan_free(plan);
    T_OK(kern_plan_new(&plan, &bytes, &dev, d, 0, t_err()));
    T_STR(plan->impl, impl); // and no other from then on
    kern_plan_free(plan);
    why = kern_left_out(&dev, d, 0);
    T_EQ(why != NULL, told);
    T_EQ(why != NULL && strstr(why, "checked again, it was right") != NULL,
         flips == 1);
    prover_free(dev.prover);
    return impl;
}

// One bit flips while a kernel is checked: another one computes until the next
// start, which asks again. One that is wrong twice is not asked again.
TEST(prove, what_was_wrong_once_is_left_out_until_the_next_start)
{
    struct kern_desc d;
    char path[600];

    T_OK(kern_open(&amx_inner, "cpu", NULL, t_err()));
    snprintf(path, sizeof(path), "%s/proofs", t_tmpdir());
    kern_desc_matmul(&d, 7, 5, 9, false, true, 0);
    T_STR(amx_started(path, &d, 1, true), amx_impls[1]);
    T_STR(amx_started(path, &d, 0, false), amx_impls[0]);
    T_EQ(unlink(path), 0);
    T_STR(amx_started(path, &d, 2, true), amx_impls[1]);
    T_STR(amx_started(path, &d, 0, true), amx_impls[1]);
    kern_close(amx_inner);
}

// A bit of a plan's own memory flips, such as of code that was made for it:
// another plan of the kernel is right.
TEST(prove, a_plan_that_is_wrong_leaves_its_kernel_out_until_the_next_start)
{
    struct kern_desc d;
    char path[600];

    T_OK(kern_open(&amx_inner, "cpu", NULL, t_err()));
    snprintf(path, sizeof(path), "%s/plan", t_tmpdir());
    kern_desc_matmul(&d, 7, 5, 9, false, true, 0);
    for (unsigned bad = 1; bad <= 2; bad++) {
        struct kern_dev dev = {.backend = &amx, .prover = prover_new(path, 1)};
        struct kern_plan *plan = NULL;
        size_t bytes = 0;

        amx_bad_plans = bad;
        T_OK(kern_plan_new(&plan, &bytes, &dev, &d, 0, t_err()));
        T_STR(plan->impl, amx_impls[1]);
        T_EQ(amx_bad_plans, 0u);
        kern_plan_free(plan);
        T_EQ(strstr(kern_left_out(&dev, &d, 0), ", once") != NULL, bad == 1);
        prover_free(dev.prover);
        T_STR(amx_started(path, &d, 0, bad == 2), amx_impls[bad == 2]);
        T_EQ(unlink(path), 0);
    }
    kern_close(amx_inner);
}

// A kernel that refuses to run: another one computes, nobody is told of wrong
// numbers, and the next start asks it again.
TEST(prove, what_refuses_to_run_is_left_out_until_the_next_start)
{
    static const enum sl_err words[] = {SL_EINTERNAL, SL_ENOTSUP};
    struct kern_desc d;
    char path[600];

    T_OK(kern_open(&amx_inner, "cpu", NULL, t_err()));
    snprintf(path, sizeof(path), "%s/refused", t_tmpdir());
    kern_desc_matmul(&d, 7, 5, 9, false, true, 0);
    for (size_t i = 0; i < SL_COUNT(words); i++) {
        struct kern_dev dev = {.backend = &amx, .prover = prover_new(path, 1)};
        struct kern_plan *plan = NULL;
        size_t bytes = 0;

        amx_refuses = words[i];
        for (int again = 0; again < 2; again++) {
            T_OK(kern_plan_new(&plan, &bytes, &dev, &d, 0, t_err()));
            T_STR(plan->impl, amx_impls[1]);
            kern_plan_free(plan);
        }
        T_EQ(prover_counts(dev.prover).wrong, 0u);
        T_HAS(kern_left_out(&dev, &d, 0), "refuses to run: ");
        T_TRUE(strstr(kern_left_out(&dev, &d, 0), " is right") == NULL);
        T_PTR(kern_left_out(&dev, &d, 1), NULL);
        prover_free(dev.prover);
        amx_refuses = SL_OK;
        // The other one was kept as right; the first one is asked again.
        T_STR(amx_started(path, &d, 0, false), amx_impls[0]);
        T_EQ(unlink(path), 0);
    }
    kern_close(amx_inner);
}

// No output has the fault, and no element.
TEST(prove, what_writes_beside_its_output_is_told_as_that)
{
    struct kern_dev dev = {.backend = &amx, .prover = prover_new(NULL, 0)};
    struct kern_plan *plan = NULL;
    struct kern_desc d;
    size_t bytes = 0;

    T_OK(kern_open(&amx_inner, "cpu", NULL, t_err()));
    kern_desc_matmul(&d, 7, 5, 9, false, true, 0);
    amx_beyond = true;
    T_OK(kern_plan_new(&plan, &bytes, &dev, &d, 0, t_err()));
    amx_beyond = false;
    T_STR(plan->impl, amx_impls[1]);
    T_HAS(kern_left_out(&dev, &d, 0), ": writes beside a tensor, twice");
    kern_plan_free(plan);
    prover_free(dev.prover);
    kern_close(amx_inner);
}

// A plan proves itself once per device and op.
TEST(prove, a_proof_is_made_once)
{
    struct kern_dev *dev = NULL;
    struct kern_desc d;
    struct proofs counts;

    T_OK(kern_open(&dev, "cpu", NULL, t_err()));
    kern_desc_matmul(&d, 7, 5, 9, false, true, 0);
    for (int i = 0; i < 3; i++) {
        struct kern_plan *plan = NULL;
        size_t bytes = 0;

        T_OK(kern_plan_new(&plan, &bytes, dev, &d, 0, t_err()));
        kern_plan_free(plan);
    }
    counts = prover_counts(dev->prover);
    T_EQ(counts.checked, 1u);
    T_EQ(counts.wrong, 0u);
    kern_close(dev);
}

// A part of an op is an op: its descriptor passes the check, ref computes it,
// and what it computes is what the whole op does there.
TEST(prove, a_part_of_an_op_is_an_op)
{
    struct kern_desc d[12], part;
    unsigned n = describe_products(d);

    for (unsigned i = 0; i < n; i++) {
        struct excerpt c;

        excerpt_whole(&c, &d[i]);
        excerpt_shrink(&c, &d[i], 1000);
        excerpt_desc(&part, &d[i], &c);
        T_OK(kern_desc_check(&part, t_err()));
        T_LE(excerpt_work(&part), excerpt_work(&d[i]));
    }
}

// Plans *d on a device with these options. Writes the name of what computes it;
// returns how many proofs that took.
static unsigned planned(char name[64], const char *options,
                        const struct kern_desc *d, bool call_it_wrong)
{
    struct kern_dev *dev = NULL;
    struct kern_plan *plan = NULL;
    size_t bytes = 0;
    unsigned checked;

    T_OK(kern_open(&dev, "cpu", options, t_err()));
    T_OK(kern_plan_new(&plan, &bytes, dev, d, 0, t_err()));
    snprintf(name, 64, "%s", plan->impl);
    checked = prover_counts(dev->prover).checked;
    if (call_it_wrong)
        T_OK(prover_learn(dev->prover, d, name, PROOF_WRONG, 0));
    kern_plan_free(plan);
    kern_close(dev);
    return checked;
}

TEST(prove, a_file_keeps_what_proofs_have_shown)
{
    char options[600], more[620], first[64], next[64];
    struct kern_desc d;

    snprintf(options, sizeof(options), "proofs=%s/plans", t_tmpdir());
    snprintf(more, sizeof(more), "%s,threads=2", options);
    kern_desc_matmul(&d, 7, 5, 9, false, true, 0);
    T_EQ(planned(first, options, &d, false), 1u);
    T_EQ(planned(next, options, &d, false), 0u);
    T_STR(next, first);
    T_EQ(planned(next, more, &d, false), 1u); // other options, another proof
    T_EQ(planned(next, options, &d, true), 0u);
    T_EQ(planned(next, options, &d, false), next[0] == 'r' ? 0u : 1u);
    T_TRUE(strcmp(next, first) != 0);
    // Without the file the host is as it was.
    T_EQ(planned(next, NULL, &d, false), 1u);
    T_STR(next, first);
}

TEST(prove, a_long_path_of_the_file_is_taken_whole)
{
    char options[1400], name[64];
    size_t n = 1200;
    struct kern_desc d;

    memset(options, '/', sizeof(options));
    snprintf(options + n, sizeof(options) - n, "/plans");
    n = (size_t)snprintf(options, n, "proofs=%s", t_tmpdir());
    options[n] = '/';
    kern_desc_matmul(&d, 7, 5, 9, false, true, 0);
    T_EQ(planned(name, options, &d, false), 1u);
    T_EQ(planned(name, options, &d, false), 0u);
}

TEST(prove, proofs_can_be_switched_off)
{
    struct kern_desc d;
    char name[64];

    kern_desc_matmul(&d, 7, 5, 9, false, true, 0);
    T_EQ(planned(name, "prove=0", &d, false), 0u);
}
