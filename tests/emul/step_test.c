// SPDX-License-Identifier: Apache-2.0
// tests/emul/step_test.c -- steps on the emulated device: the numbers of ref,
// whatever the order in which streams get on.
#include <math.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "kernels/prove/prove.h"
#include "tests/emul/cudart.h"
#include "tests/emul/products.h"
#include "tests/emul/rig.h"
#include "tests/emul/wrong.h"
#include "tests/unit/worker/nets.h"
#include "trainer/base/figures.h"

#ifndef GPU // CMakeLists.txt: or two that compute each step together
#define ONE // device: rows of tables come to no more
#define GPU "cuda"
#define REF "ref"
#endif

// Variables that begin and end anywhere.
static const char odd[] =
    "{'input_shape': [7, 6, 3], 'layers': ["
    "{'type': 'conv2d', 'filters': 5, 'kernel_size': [3, 2],"
    " 'padding': 'same', 'activation': 'relu'},"
    "{'type': 'batch_normalization'},"
    "{'type': 'average_pooling2d', 'pool_size': 2},"
    "{'type': 'flatten'},"
    "{'type': 'dense', 'units': 7, 'activation': 'tanh'},"
    "{'type': 'dropout', 'rate': 0.2},"
    "{'type': 'dense', 'units': 10}]}";

// Arena and slots grow, together and alone, after steps have been recorded.
static const uint32_t sizes[] = {4, 4, 4, 6, 4, 4, 4, 4, 6, 4, 4, 6, 6, 4};
#define STEPS SL_COUNT(sizes)

static void train_some(struct rig *r, double *losses, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t next = i + 1 < steps && i % 5 != 3 ? sizes[i + 1] : 0;

        if (rig_train(r, i, sizes[i], next) != SL_OK)
            T_FAIL("step %u: %s", i, r->err.text);
        losses[i] = r->loss;
    }
}

static void train_all(struct rig *r, double *losses)
{
    unsigned met = emul_calls("copy_peer") + emul_calls("nccl_recv");

    train_some(r, losses, STEPS);
    if (r->team != NULL) // their gradients meet on them
        T_GE(emul_calls("copy_peer") + emul_calls("nccl_recv"),
             met + STEPS * RANGES);
}

static void near(const struct rig *a, const struct rig *b, double most)
{
    for (uint64_t i = 0; i < a->model->elements; i++)
        T_NEAR(a->step.params[i], b->step.params[i], most);
}

static void same_bits(const struct rig *a, const struct rig *b)
{
    T_MEM(a->step.params, b->step.params, a->model->elements * sizeof(float));
}

static void as_ref(uint32_t steps, double loss_apart, double apart)
{
    double here[STEPS], there[STEPS];
    struct rig ref, gpu;

    T_OK(rig_open(&ref, REF, RANGES));
    T_OK(rig_open(&gpu, GPU, RANGES));
    train_some(&ref, here, steps);
    train_some(&gpu, there, steps);
    for (uint32_t i = 0; i < steps; i++)
        T_NEAR(here[i], there[i], loss_apart);
    near(&ref, &gpu, apart);
    rig_close(&ref);
    rig_close(&gpu);
}

TEST(step, trains_as_ref_does)
{
    unsigned before = emul_alive();

    emul_lazy(0);
    as_ref(STEPS, 1e-3, 1e-4);
    rig_net = odd;
    as_ref(STEPS, 1e-3, 1e-4);
    rig_net = NULL;
    T_EQ(emul_alive(), before);
}

// What the worker's heartbeats say that it leaves out has this word in it.
static void told(const char *word)
{
    char words[500];

    figures_read_left_out(words, sizeof(words));
    T_HAS(words, word);
    figures_left_out("");
}

// Every engine and algorithm is wrong in one way: what is trained is what ref
// trains, since none of them computes.
TEST(step, trains_as_ref_does_where_the_libraries_are_wrong)
{
    static const enum emul_wrong_how hows[] = {
        WRONG_FIRST, WRONG_LAST_TILE, WRONG_ADDING, WRONG_AGAIN, WRONG_BIAS};

    rig_proves = true;
    for (unsigned i = 0; i < SL_COUNT(hows); i++) {
        emul_wrong(EMUL_WRONG_ALL, hows[i]);
        as_ref(3, 1e-3, 1e-4);
    }
    told(" of emulated, ");
    emul_wrong(0, WRONG_NOWHERE);
    as_ref(3, 1e-3, 1e-4);
    rig_proves = false;
}

// A program knows which kernels were left out for its own ops, by their names:
// equal for all devices where the same ones are.
TEST(step, a_program_knows_what_was_left_out_of_it)
{
    const uint64_t which[] = {0, 2, 2, 3};
    struct program_left_out seen[SL_COUNT(which)];

    rig_proves = true;
    for (unsigned i = 0; i < SL_COUNT(which); i++) {
        struct placed *p = NULL;
        struct rig r;

        T_OK(rig_open(&r, GPU, 1));
        emul_wrong(which[i], i == 2 ? WRONG_LAST_TILE : WRONG_FIRST);
        T_OK(rig_place(&r, true, 4, &p));
        seen[i] = p->program->left_out;
        team_left_out(&seen[i], p->mates);
        T_EQ(seen[i].count > p->program->left_out.count,
             p->mates != NULL && i > 0);
        rig_close(&r);
    }
    emul_wrong(0, WRONG_NOWHERE);
    rig_proves = false;
    T_EQ(seen[0].count, 0u);
    T_EQ(seen[0].set, 0u);
    T_STR(seen[0].first, "");
    T_GT(seen[1].count, 0u);
    T_HAS(seen[1].first, "2 of ");
    T_EQ(seen[2].set, seen[1].set);
    T_TRUE(seen[3].set != seen[1].set);
    T_TRUE(seen[3].set != 0);
}

// A kernel of ours that computes nothing: there is no other one for its op, and
// no step begins, by no fault of the job.
TEST(step, does_not_train_with_a_wrong_kernel_of_ours)
{
    static const char *const kernels[] = {"pool_max_fwd_f32", "bn_apply_f32",
                                          "stats_end", "reduce_end"};

    rig_proves = true;
    for (unsigned i = 0; i < SL_COUNT(kernels); i++) {
        struct rig r;

        T_OK(rig_open(&r, GPU, 1));
        emul_skip(kernels[i]);
        T_EQ(rig_train(&r, 0, 4, 0), SL_EINTERNAL);
        T_HAS(r.err.text, "layer '");
        T_HAS(r.err.text, " where ");
        T_HAS(r.err.text, "--device");
        told("own of cuda:0: emulated, ");
        emul_skip(NULL);
        rig_close(&r);
    }
    rig_proves = false;
}

// The last prove= counts, and a path ends at a comma.
TEST(step, our_kernels_read_the_words_of_proofs_as_the_products_do)
{
    char path[600], options[640];
    struct kern_dev *dev = NULL;
    struct kern_desc d;

    snprintf(path, sizeof(path), "%s/plans", t_tmpdir());
    snprintf(options, sizeof(options), "plans=%s,prove=0,prove=1", path);
    kern_desc_softmax(&d, KERN_SOFTMAX_FWD, 2, (int64_t[]){9, 10});
    T_OK(kern_open(&dev, "cuda", options, t_err()));
    T_TRUE(dev->prover != NULL);
    T_OK(prover_learn(dev->prover, &d, "own", PROOF_RIGHT, 0));
    kern_close(dev);
    T_EQ(access(path, F_OK), 0);
    snprintf(options, sizeof(options), "prove=1,plans=%s,prove=0", path);
    T_OK(kern_open(&dev, "cuda", options, t_err()));
    T_PTR(dev->prover, NULL);
    kern_close(dev);
}

// What it does not fuse is done in parts.
TEST(step, trains_as_ref_does_with_an_older_cudnn)
{
    emul_dnn_version = 90000;
    as_ref(5, 1e-3, 1e-4);
    rig_net = odd;
    as_ref(5, 1e-3, 1e-4);
    rig_net = NULL;
    emul_dnn_version = 0;
}

TEST(step, trains_all_layers_as_ref_does)
{
    static const char *const nets[] = {
        NET_VIEWS,     NET_GROUPS,   NET_PICKS,         NET_TOKENS,
        NET_PENALTIES, NET_ROWS,     NET_MANY,          NET_FEATURES,
        NET_LINE,      NET_COMPOSED, NET_PRODUCTS,      NET_FROZEN,
        NET_RECURRENT, NET_SHARED,   NET_SHARED_TOKENS, NET_ENCODED};
    unsigned before = emul_alive();

    for (size_t i = 0; i < SL_COUNT(nets); i++) {
        rig_net = nets[i];
        emul_lazy(0);
        as_ref(4, 1e-3, 1e-4);
        emul_lazy(3);
        rig_compute = KERN_F16;
        as_ref(4, 0.2, 0.01);
        rig_compute = KERN_F32;
    }
    rig_net = NULL;
    emul_lazy(0);
    T_EQ(emul_alive(), before);
}

#ifdef ONE
// Computes a step whose rows are of `seed`, and copies their gradients, without
// the loss scale, to `out`.
static uint32_t step_of_tables(struct rig *r, uint32_t seed, float *out)
{
    struct placed *p = NULL;
    struct step_program run;
    struct batch b = rig_batch(r, seed, 4);
    uint32_t n = 0;

    T_OK(rig_place(r, true, 4, &p));
    for (size_t i = 0; i < p->program->rows_bytes / sizeof(float); i++)
        ((float *)(void *)p->program->rows)[i] =
            (float)((i * 7 + seed * 3) % 11) / 11 - 0.5f;
    if (rig_compute == KERN_F16)
        program_set_loss_scale(p->program, 1 << (seed % 5 + 4));
    run = rig_step_program(p);
    T_OK(step_begin(&r->step, &run, &b, &r->err));
    T_OK(rig_run_all(r, p));
    T_OK(step_stats(&r->step, &r->err));
    T_OK(step_take_rows(&r->step, &r->err));
    for (uint32_t i = 0; i < r->ranges_count; i++)
        T_OK(step_take(&r->step, p->overlap.by_send[i], &r->err));
    for (uint32_t t = 0; t < p->program->tables_count; t++)
        for (uint32_t i = 0; i < 4 * p->program->tables[t].dim; i++)
            out[n++] =
                program_row_grads(p->program, t)[i] * p->program->unscale;
    return n;
}

TEST(step, rows_of_tables_go_there_and_their_gradients_come_back)
{
    rig_net = NET_TABLES;
    for (int half = 0; half < 2; half++) {
        struct rig ref, gpu;

        emul_lazy((unsigned)half);
        rig_compute = half ? KERN_F16 : KERN_F32;
        T_OK(rig_open(&ref, REF, RANGES));
        T_OK(rig_open(&gpu, GPU, RANGES));
        for (uint32_t i = 0; i < 5; i++) {
            float here[100], there[100];
            uint32_t n = step_of_tables(&ref, i, here);

            T_EQ(step_of_tables(&gpu, i, there), n);
            T_EQ(n, 2u * 4 * 5);
            for (uint32_t k = 0; k < n; k++)
                T_NEAR(here[k], there[k], half ? 2e-3 : 1e-5);
            T_TRUE(here[0] != 0);
        }
        rig_close(&ref);
        rig_close(&gpu);
    }
    rig_net = NULL;
    rig_compute = KERN_F32;
    emul_lazy(0);
}
#endif

// The scale of the loss changes with every step, and recordings do not.
TEST(step, trains_as_ref_does_in_16_bits)
{
    static const struct {
        enum kern_dtype compute;
        double apart; // of a parameter
    } cases[] = {{KERN_F16, 0.01}, {KERN_BF16, 0.05}};

    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        rig_compute = cases[i].compute;
        emul_lazy(3);
        as_ref(7, 20 * cases[i].apart, cases[i].apart);
        rig_net = odd;
        as_ref(7, 20 * cases[i].apart, cases[i].apart);
        rig_net = NULL;
        rig_compute = KERN_F32;
    }
    emul_lazy(0);
}

// The loss of a step that is clipped is the next one's business, too.
TEST(step, clips_as_ref_does)
{
    unsigned before = emul_alive();
    double losses[STEPS];
    struct rig far, ref;

    for (unsigned seed = 0; seed < 4; seed++) {
        emul_lazy(seed);
        T_OK(rig_open(&far, GPU, RANGES)); // not clipped
        train_some(&far, losses, 6);
        *(seed % 2 == 0 ? &rig_clipnorm : &rig_global_clipnorm) = 0.3;
        rig_net = seed == 3 ? odd : NULL;
        as_ref(6, 1e-3, 1e-4);
        T_OK(rig_open(&ref, REF, RANGES));
        train_some(&ref, losses, 6);
        T_NE(memcmp(far.step.params, ref.step.params, 4000), 0);
        rig_close(&ref);
        rig_clipnorm = rig_global_clipnorm = 1e6; // longer than any
        rig_global_clipnorm = 0;
        rig_net = NULL;
        T_OK(rig_open(&ref, GPU, RANGES));
        train_some(&ref, losses, 6);
        same_bits(&far, &ref);
        rig_close(&ref);
        rig_clipnorm = 0;
        rig_close(&far);
    }
    rig_net = NULL;
    emul_lazy(0);
    T_EQ(emul_alive(), before);
}

// The rig holds what the device says of each range against what has come out.
TEST(step, what_is_not_finite_is_said_of_its_range)
{
    static const char *const devices[] = {REF, GPU};

    for (unsigned i = 0; i < 2 * SL_COUNT(devices); i++) {
        struct rig r;

        emul_lazy(i);
        T_OK(rig_open(&r, devices[i % 2], RANGES));
        for (uint32_t k = 0; k < 3; k++) // the last of them is recorded
            T_OK(rig_train(&r, k, 4, 0));
        T_EQ(r.bad, 0);
        r.step.params[r.model->elements - 1] = INFINITY; // of the last bias
        T_OK(rig_train(&r, 3, 4, 0));
        T_GT(r.bad, 0);
        rig_close(&r);
        // Some of the ranges only: where a gradient overflows.
        T_OK(rig_open(&r, devices[i % 2], RANGES));
        T_OK(rig_train(&r, 0, 4, 0));
        r.step.params[0] = 3e38f;
        T_OK(rig_train(&r, 1, 4, 0));
        T_GT(r.bad, 0);
        rig_close(&r);
    }
    emul_lazy(0);
}

TEST(step, recorded_and_directly_run_give_equal_bits)
{
    unsigned before = emul_alive();
    double here[STEPS], there[STEPS];
    struct rig recorded, direct;
    unsigned graphs, launches;

    emul_lazy(0);
    T_OK(rig_open(&recorded, GPU, RANGES));
    T_OK(rig_open(&direct, GPU, RANGES));
    graphs = emul_calls("graph");
    train_all(&recorded, here);
    T_GT(emul_calls("graph"), graphs);
    // Once refused, it is not tried again: two programs.
    graphs = emul_calls("graph");
    launches = emul_calls("launch");
    for (uint32_t i = 0; i < STEPS; i++) {
        emul_fail("capture", 1, cudaErrorNotSupported, false);
        T_OK(rig_train(&direct, i, sizes[i], 0));
        there[i] = direct.loss;
    }
    emul_heal();
    if (strchr(GPU, ',') == NULL) // of two one records
        T_EQ(emul_calls("graph"), graphs);
    T_GT(emul_calls("launch"), launches);
    T_MEM(here, there, sizeof(here));
    same_bits(&recorded, &direct);
    rig_close(&recorded);
    rig_close(&direct);
    T_EQ(emul_alive(), before);
}

// Streams get on in another order with every seed, and some only when somebody
// waits for them.
TEST(step, any_order_of_streams_gives_equal_bits)
{
    unsigned before = emul_alive();
    double here[STEPS], there[STEPS];
    struct rig plain, lazy;

    emul_lazy(0);
    T_OK(rig_open(&plain, GPU, RANGES));
    train_all(&plain, here);
    for (unsigned seed = 1; seed <= 24; seed++) {
        emul_lazy(seed);
        T_OK(rig_open(&lazy, GPU, RANGES));
        train_all(&lazy, there);
        T_MEM(here, there, sizeof(here));
        same_bits(&plain, &lazy);
        rig_close(&lazy);
    }
    emul_lazy(0);
    rig_close(&plain);
    T_EQ(emul_alive(), before);
}

TEST(step, evaluates_between_steps)
{
    unsigned before = emul_alive();
    struct rig ref, gpu;
    float *other;

    for (unsigned seed = 0; seed < 6; seed++) {
        emul_lazy(seed);
        T_OK(rig_open(&ref, REF, RANGES));
        T_OK(rig_open(&gpu, GPU, RANGES));
        other = sl_calloc(ref.model->elements, sizeof(float));
        memcpy(other, ref.step.params, ref.model->elements * sizeof(float));
        for (uint32_t i = 0; i < 3; i++) {
            T_OK(rig_train(&ref, i, 4, 0));
            T_OK(rig_train(&gpu, i, 4, 0));
            T_OK(rig_evaluate(&ref, other, 1 + i / 2));
            T_OK(rig_evaluate(&gpu, other, 1 + i / 2));
            T_NEAR(ref.loss, gpu.loss, 1e-3);
            T_OK(rig_evaluate(&gpu, other, 1 + i / 2));
            T_NEAR(ref.loss, gpu.loss, 1e-3);
            if (i == 1) // the next cut
                memcpy(other, ref.step.params,
                       ref.model->elements * sizeof(float));
        }
        near(&ref, &gpu, 1e-4);
        sl_free(other);
        rig_close(&ref);
        rig_close(&gpu);
    }
    emul_lazy(0);
    T_EQ(emul_alive(), before);
}

// Batches that the device copies from where they were read, into which the
// next one but one is read as soon as they are given back.
TEST(step, pinned_batches_are_not_copied_by_the_host)
{
    unsigned before = emul_alive();
    double here[STEPS], there[STEPS];
    struct rig copied, pinned;

    for (unsigned seed = 0; seed < 12; seed++) {
        emul_lazy(seed);
        T_OK(rig_open(&copied, GPU, RANGES));
        rig_pinned = true;
        T_OK(rig_open(&pinned, GPU, RANGES));
        rig_pinned = false;
        train_all(&copied, here);
        train_all(&pinned, there);
        T_MEM(here, there, sizeof(here));
        same_bits(&copied, &pinned);
        rig_close(&copied);
        rig_close(&pinned);
    }
    emul_lazy(0);
    T_EQ(emul_alive(), before);
}

static unsigned given_back; // batches, to any input

void __wrap_input_put(struct input *in, const struct batch *batch);
void __wrap_input_put(struct input *in, const struct batch *batch)
{
    given_back++;
}

// A batch that cannot be staged stays its caller's: only one that was staged,
// and that no step begins with, is given back when the step ends.
TEST(step, a_batch_that_cannot_be_staged_is_not_kept)
{
    enum sl_err rc = SL_ENOMEM;

    for (unsigned nth = 1; rc != SL_OK; nth++) {
        struct sl_error err = SL_ERROR_INIT;
        struct input *in = (struct input *)&err; // no call reads it
        struct rig r;
        struct batch b;

        rig_pinned = true;
        T_OK(rig_open(&r, GPU, RANGES));
        rig_pinned = false;
        T_OK(rig_train(&r, 0, 4, 0));
        b = rig_batch(&r, 1, 1); // a mate has no part of it
        given_back = 0;
        emul_fail("copy", nth, cudaErrorInvalidValue, false);
        rc = step_stage(&r.step, &r.run, in, &b, &err);
        emul_heal();
        T_EQ(given_back, 0u);
        step_stop(&r.step);
        T_EQ(given_back, rc == SL_OK ? 1u : 0u);
        T_TRUE(nth > 1 || rc != SL_OK);
        rig_close(&r);
    }
}

// A step is given up in the middle; the next one begins anew.
TEST(step, one_that_is_given_up_leaves_nothing)
{
    unsigned before = emul_alive();
    struct rig plain, broken;
    struct step_program run;
    struct placed *p = NULL;
    struct batch b;

    for (unsigned seed = 0; seed < 6; seed++) {
        emul_lazy(seed);
        T_OK(rig_open(&plain, GPU, RANGES));
        T_OK(rig_open(&broken, GPU, RANGES));
        for (uint32_t i = 0; i < 4; i++) {
            T_OK(rig_train(&plain, i, 4, 0));
            b = rig_batch(&broken, 50 + i, 4);
            T_OK(rig_place(&broken, true, 4, &p));
            run = rig_step_program(p);
            T_OK(step_begin(&broken.step, &run, &b, t_err()));
            if (i % 2 == 0) // all is under way, or next to nothing
                T_OK(rig_run_all(&broken, p));
            else
                T_OK(step_fresh(&broken.step, 0, t_err()));
            step_stop(&broken.step);
            T_OK(rig_train(&broken, i, 4, 0));
        }
        same_bits(&plain, &broken);
        rig_close(&plain);
        rig_close(&broken);
    }
    emul_lazy(0);
    T_EQ(emul_alive(), before);
}
