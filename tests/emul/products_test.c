// SPDX-License-Identifier: Apache-2.0
// tests/emul/products_test.c -- how the CUDA module chooses and fails, over the
// stand-ins for NVIDIA's libraries. What products compute is conformance's.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "kernels/beat.h"
#include "kernels/cuda/vendor.h"
#include "tests/emul/cudart.h"
#include "tests/emul/products.h"
#include "tests/emul/whole.h"
#include "tests/harness/t.h"

static struct sl_error err;

struct gpu {
    const struct kern_backend *b;
    struct kern_dev *dev;
    struct kern_stream *s;
    struct kern_desc dense, conv;
};

static void gpu_open(struct gpu *g, const char *options)
{
    struct kern_window w = kern_window(3, 3, 1, 1);

    *g = (struct gpu){.b = emul_module()};
    emul_products_fail = false;
    emul_products_bad = 0;
    emul_heal();
    T_OK(g->b->open(&g->dev, 0, options, t_err()));
    T_OK(g->b->stream_new(&g->s, g->dev, 0));
    kern_desc_matmul(&g->dense, 4, 8, 16, false, true, 0);
    kern_desc_conv(&g->conv, KERN_CONV_FWD, (int64_t[]){2, 6, 6, 3}, 5, &w, 1,
                   0);
}

static void gpu_close(struct gpu *g)
{
    g->b->stream_free(g->s);
    g->b->close(g->dev);
}

// What a plan for `d` says of itself.
static const char *impl(struct gpu *g, const struct kern_desc *d, size_t cap)
{
    static char text[48];
    struct kern_plan *p = NULL;
    size_t bytes = 0;

    T_OK(g->b->plan(&p, &bytes, g->dev, d, cap, t_err()));
    T_TRUE(bytes <= cap);
    T_EQ(bytes % 64, 0);
    snprintf(text, sizeof(text), "%s", p->impl);
    g->b->plan_free(p);
    return text;
}

struct made {
    struct kern_plan *plan;
    struct kern_mem mem[3], workspace;
    void *io[3];
};

static void make(struct made *m, struct gpu *g, const struct kern_desc *d)
{
    size_t bytes;

    *m = (struct made){.plan = NULL};
    T_OK(g->b->plan(&m->plan, &bytes, g->dev, d, SIZE_MAX, t_err()));
    T_OK(g->b->alloc(&m->workspace, g->dev, bytes, KERN_DEVICE));
    for (unsigned i = 0; i < 3; i++) {
        T_OK(g->b->alloc(&m->mem[i], g->dev,
                         kern_shape_bytes(&d->io[i]) + KERN_ALIGN,
                         KERN_DEVICE));
        m->io[i] = m->mem[i].at;
        T_OK(g->b->fill(g->s, m->io[i], 0, kern_shape_bytes(&d->io[i])));
    }
}

static enum sl_err run(struct made *m, struct gpu *g)
{
    return m->plan->backend->run(m->plan, g->s, m->io, m->workspace.at);
}

static void unmake(struct made *m, struct gpu *g)
{
    for (unsigned i = 0; i < 3; i++)
        g->b->release(g->dev, &m->mem[i]);
    g->b->release(g->dev, &m->workspace);
    g->b->plan_free(m->plan);
}

TEST(products, the_rules_choose_the_engine)
{
    struct gpu g;
    struct kern_desc strict;

    gpu_open(&g, NULL);
    T_STR(impl(&g, &g.conv, SIZE_MAX), "cudnn:engine 7"); // TF32, first choice
    strict = g.conv;
    strict.math = KERN_MATH_F32;
    T_STR(impl(&g, &strict, SIZE_MAX), "cudnn:engine 2");
    kern_desc_dtype(&strict, KERN_BF16); // has no stricter way
    T_STR(impl(&g, &strict, SIZE_MAX), "cudnn:engine 7");
    gpu_close(&g);
    gpu_open(&g, "tf32=0,deterministic=0");
    T_STR(impl(&g, &g.conv, SIZE_MAX), "cudnn:engine 5");
    g.conv.math = KERN_MATH_TF32;
    T_STR(impl(&g, &g.conv, SIZE_MAX), "cudnn:engine 7");
    gpu_close(&g);
    gpu_open(&g, "autotune=1"); // the last that may run is the fastest here
    T_STR(impl(&g, &g.conv, SIZE_MAX), "cudnn:engine 2, no tensor cores");
    T_STR(impl(&g, &g.dense, SIZE_MAX), "cublaslt:3");
    gpu_close(&g);
}

// By what they can do, op by op, and not by their number; but of their major
// one, for which the module was built.
TEST(products, any_minor_version_of_the_libraries_is_taken)
{
    static const size_t minor[] = {90000, 90800, 91900, 99999};
    static const size_t major[] = {8907, 100000};
    struct kern_window w = kern_window(3, 3, 1, 1);
    struct kern_desc fused;
    struct gpu g;

    kern_desc_conv(&fused, KERN_CONV_FWD, (int64_t[]){2, 6, 6, 3}, 5, &w, 1,
                   KERN_BIAS | KERN_RELU);
    for (unsigned i = 0; i < SL_COUNT(minor); i++) {
        emul_dnn_version = minor[i];
        emul_blas_version = 130000 + 100 * i; // 13.0, 13.1, ...
        gpu_open(&g, NULL);
        T_STR(impl(&g, &g.conv, SIZE_MAX), "cudnn:engine 7");
        T_STR(impl(&g, &g.dense, SIZE_MAX), "cublaslt:2");
        T_EQ(g.b->score(g.dev, &fused) > 0, minor[i] >= 91000);
        gpu_close(&g);
    }
    for (unsigned i = 0; i < SL_COUNT(major); i++) {
        emul_dnn_version = major[i];
        g.dev = NULL;
        T_FAILS(SL_ENOTSUP, emul_module()->open(&g.dev, 0, NULL, &err));
        T_HAS(err.text, "this build needs cuDNN 9; version");
        T_TRUE(g.dev == NULL);
    }
    emul_dnn_version = emul_blas_version = 0;
}

TEST(products, the_workspace_cap_holds)
{
    struct kern_plan *p = NULL;
    size_t bytes = 77;
    struct gpu g;

    gpu_open(&g, NULL);
    T_STR(impl(&g, &g.dense, SIZE_MAX), "cublaslt:2");
    T_STR(impl(&g, &g.dense, 100), "cublaslt:3"); // wants none
    T_FAILS(SL_ENOMEM, g.b->plan(&p, &bytes, g.dev, &g.conv, 10, &err));
    T_HAS(err.text, "bytes of workspace");
    T_PTR(p, NULL);
    T_EQ(bytes, 77);
    gpu_close(&g);
    gpu_open(&g, "workspace=0");
    T_STR(impl(&g, &g.dense, SIZE_MAX), "cublaslt:3");
    gpu_close(&g);
}

// Tensor cores want copies of channels that do not fill 16 bytes: more than a
// cap from some batch on, as on a device.
TEST(products, what_tensor_cores_want_grows_with_the_batch)
{
    struct kern_window w = kern_window(3, 3, 1, 1);
    struct kern_desc small, large;
    struct gpu g;

    gpu_open(&g, NULL);
    kern_desc_conv(&small, KERN_CONV_FWD, (int64_t[]){2, 8, 8, 3}, 5, &w, 1, 0);
    kern_desc_conv(&large, KERN_CONV_FWD, (int64_t[]){8, 8, 8, 3}, 5, &w, 1, 0);
    T_HAS(impl(&g, &small, 17000), "cudnn:engine 7");
    T_HAS(impl(&g, &large, 17000), "cudnn:engine 2");
    T_HAS(impl(&g, &large, 19000), "cudnn:engine 7");
    gpu_close(&g);
}

// Mode A has nothing for it but an engine that sums in 16 bits.
TEST(products, sums_of_16_bits_are_never_chosen)
{
    struct kern_window w = kern_window(3, 3, 1, 1);
    struct kern_desc d;
    struct gpu g;

    gpu_open(&g, NULL);
    kern_desc_conv(&d, KERN_CONV_WGRAD, (int64_t[]){2, 8, 8, 8}, 8, &w, 1, 0);
    kern_desc_dtype(&d, KERN_F16);
    T_FALSE(strstr(impl(&g, &d, SIZE_MAX), "engine 9"));
    gpu_close(&g);
}

TEST(products, kept_plans_are_found_by_the_next_process)
{
    char path[] = "/tmp/sluice-plans-XXXXXX", options[64];
    int fd = mkstemp(path);
    struct made m;
    struct gpu g;

    T_TRUE(fd >= 0);
    close(fd);
    snprintf(options, sizeof(options), "plans=%s", path);
    gpu_open(&g, options);
    T_STR(impl(&g, &g.dense, SIZE_MAX), "cublaslt:2");
    T_STR(impl(&g, &g.dense, SIZE_MAX), "cublaslt:kept");
    gpu_close(&g);
    gpu_open(&g, options);
    T_STR(impl(&g, &g.dense, SIZE_MAX), "cublaslt:kept");
    make(&m, &g, &g.dense);
    emul_products_bad = 2; // that which was kept
    T_OK(run(&m, &g));
    T_STR(m.plan->impl, "cublaslt:3");
    emul_products_bad = 0;
    unmake(&m, &g);
    T_STR(impl(&g, &g.dense, 100), "cublaslt:3"); // too hungry for this cap
    g.dense.math = KERN_MATH_F32;
    T_STR(impl(&g, &g.dense, SIZE_MAX), "cublaslt:2"); // another way to compute
    kern_desc_matmul(&g.dense, 4, 8, 16, false, true, KERN_BIAS);
    T_STR(impl(&g, &g.dense, SIZE_MAX), "cublaslt:2");
    T_STR(impl(&g, &g.dense, SIZE_MAX), "cublaslt:kept");
    gpu_close(&g);
    unlink(path);
}

// ---- Failing --------------------------------------------------------------

// A kernel that fails takes the context with it, as CUDA says when it is asked:
// from then on everything is lost, and the dev says why.
static void lose(const char *options, bool dense, const char *why)
{
    struct kern_plan *p = NULL;
    struct made m;
    struct gpu g;
    size_t bytes;

    gpu_open(&g, options);
    make(&m, &g, dense ? &g.dense : &g.conv);
    T_OK(run(&m, &g));
    T_STR(g.b->fault(g.dev), "");
    emul_products_fail = true;
    emul_fail("sync", 1, cudaErrorLaunchFailure, true);
    T_EQ(run(&m, &g), SL_ELOST);
    emul_products_fail = false;
    T_HAS(g.b->fault(g.dev), why);
    T_EQ(run(&m, &g), SL_ELOST);
    T_FAILS(SL_ELOST, g.b->plan(&p, &bytes, g.dev, &g.dense, SIZE_MAX, &err));
    T_HAS(err.text, why);
    emul_heal();
    unmake(&m, &g);
    gpu_close(&g);
}

TEST(products, a_lost_device_stays_lost)
{
    lose(NULL, true, "unspecified launch failure");
    lose(NULL, false, "a convolution: unspecified launch failure");
}

// A library that says that its kernel failed, on a device that is well, ends
// that run and nothing else.
TEST(products, a_refusal_is_no_loss)
{
    struct made m;
    struct gpu g;

    gpu_open(&g, NULL);
    for (int dense = 0; dense < 2; dense++) {
        make(&m, &g, dense ? &g.dense : &g.conv);
        emul_products_fail = true;
        T_EQ(run(&m, &g), SL_EINTERNAL);
        T_HAS(g.b->fault(g.dev), "the library refused");
        emul_products_fail = false;
        T_OK(run(&m, &g));
        unmake(&m, &g);
    }
    gpu_close(&g);
}

TEST(products, what_refuses_is_replaced)
{
    struct made m;
    struct gpu g;

    gpu_open(&g, NULL);
    make(&m, &g, &g.dense);
    T_STR(m.plan->impl, "cublaslt:2");
    emul_products_bad = 2;
    T_OK(run(&m, &g));
    T_STR(m.plan->impl, "cublaslt:3");
    emul_products_bad = 0;
    unmake(&m, &g);
    make(&m, &g, &g.conv);
    T_STR(m.plan->impl, "cudnn:engine 7");
    emul_products_bad = 7;
    T_OK(run(&m, &g));
    T_STR(m.plan->impl, "cudnn:engine 2, no tensor cores");
    emul_products_bad = 0;
    T_OK(run(&m, &g));
    unmake(&m, &g);
    gpu_close(&g);
}

// While a step is recorded nothing is replaced: the recording is spoilt, and
// the op itself may be well.
TEST(products, what_cannot_be_recorded_is_run)
{
    struct kern_plan *step = NULL;
    struct made m;
    struct gpu g;

    gpu_open(&g, NULL);
    make(&m, &g, &g.dense);
    T_OK(g.b->record_begin(g.s));
    emul_products_fail = true;
    T_EQ(run(&m, &g), SL_EINTERNAL);
    emul_products_fail = false;
    (void)g.b->record_end(&step, g.s);
    g.b->plan_free(step);
    T_OK(run(&m, &g));
    T_STR(m.plan->impl, "cublaslt:2");
    unmake(&m, &g);
    gpu_close(&g);
}

// The last of each is the fastest here, and fails.
TEST(products, tuning_drops_what_fails)
{
    struct gpu g;

    gpu_open(&g, "autotune=1");
    emul_products_bad = 2;
    T_STR(impl(&g, &g.conv, SIZE_MAX), "cudnn:engine 7");
    emul_products_bad = 3;
    T_STR(impl(&g, &g.dense, SIZE_MAX), "cublaslt:2");
    emul_products_bad = 0;
    T_STR(impl(&g, &g.dense, SIZE_MAX), "cublaslt:2"); // as before
    gpu_close(&g);
    gpu_open(&g, "autotune=1");
    T_STR(impl(&g, &g.dense, SIZE_MAX), "cublaslt:3"); // and nothing is lost
    gpu_close(&g);
}

static void count_beat(void *arg)
{
    ++*(unsigned *)arg;
}

TEST(products, tuning_shows_signs_of_life)
{
    unsigned beats = 0;
    struct gpu g;

    gpu_open(&g, "autotune=1");
    kern_beat_to(count_beat, &beats);
    impl(&g, &g.dense, SIZE_MAX);
    kern_beat_to(NULL, NULL);
    T_GE(beats, 2 * 3); // rounds of two candidates
    gpu_close(&g);
}

// The second candidate is run twice, and not three rounds more.
TEST(products, tuning_leaves_what_is_hopeless)
{
    unsigned beats = 0;
    struct gpu g;

    T_TRUE(tune_hopeless(30, 10));
    T_FALSE(tune_hopeless(15, 10));
    T_FALSE(tune_hopeless(0.5f, 0.01f)); // one run may have waited so long
    gpu_open(&g, "autotune=1,prove=0");
    kern_beat_to(count_beat, &beats);
    emul_slower = 1.3f;
    T_STR(impl(&g, &g.dense, SIZE_MAX), "cublaslt:2");
    emul_slower = 0;
    kern_beat_to(NULL, NULL);
    T_EQ(beats, 3 + 2); // rounds of the first, and an end of each
    gpu_close(&g);
}

// A kernel of a microsecond is timed by twenty, one of a second by itself.
TEST(products, short_ops_are_timed_by_many)
{
    T_EQ(tune_runs(0.001f), 20);
    T_EQ(tune_runs(0.5f), 20);
    T_EQ(tune_runs(1), 10);
    T_EQ(tune_runs(4), 2);
    T_EQ(tune_runs(1000), 1);
}

TEST(products, a_dev_tells_what_it_goes_without)
{
    char text[160];
    struct gpu g;

    gpu_open(&g, NULL);
    g.b->about(text, sizeof(text), g.dev);
    T_STR(text, "up to 256 MiB of workspace for an op"); // of 1 GiB
    gpu_close(&g);
    gpu_open(&g, "autotune=1,workspace=7");
    for (int twice = 0; twice < 2; twice++)
        impl(&g, &g.conv, SIZE_MAX);
    g.b->about(text, sizeof(text), g.dev);
    T_STR(text, "up to 7 MiB of workspace for an op; ops without tensor "
                "cores: 1");
    gpu_close(&g);
}

TEST(products, unaligned_tensors_are_refused_and_nothing_is_lost)
{
    struct made m;
    struct gpu g;

    gpu_open(&g, NULL);
    for (int dense = 0; dense < 2; dense++) {
        make(&m, &g, dense ? &g.dense : &g.conv);
        m.io[1] = (char *)m.io[1] + 4;
        T_EQ(run(&m, &g), SL_EINTERNAL);
        m.io[1] = (char *)m.io[1] - 4;
        T_OK(run(&m, &g));
        unmake(&m, &g);
    }
    gpu_close(&g);
}

// A stream may have the address of one that has ended: its work goes to the
// new one all the same.
TEST(products, a_stream_that_has_ended_is_forgotten)
{
    struct made m;
    struct gpu g;

    gpu_open(&g, NULL);
    make(&m, &g, &g.conv);
    T_OK(run(&m, &g));
    g.b->stream_free(g.s);
    T_OK(g.b->stream_new(&g.s, g.dev, 0));
    T_OK(run(&m, &g));
    T_STR(g.b->fault(g.dev), "");
    unmake(&m, &g);
    gpu_close(&g);
}

// What the stand-ins say of a candidate that fails, or that cannot be
// recorded.
TEST(products, a_candidate_that_fails_is_named)
{
    struct kern_plan *step = NULL;
    struct made m;
    struct gpu g;

    for (int dense = 0; dense < 2; dense++) {
        gpu_open(&g, NULL);
        make(&m, &g, dense ? &g.dense : &g.conv);
        emul_products_bad = dense ? 2 : 7;
        run(&m, &g);
        emul_products_bad = 0;
        T_HAS(emul_products_why(), "that always fails");
        unmake(&m, &g);
        gpu_close(&g);
        gpu_open(&g, NULL);
        make(&m, &g, dense ? &g.dense : &g.conv);
        T_OK(g.b->record_begin(g.s));
        emul_products_unrecordable = dense ? 2 : 7;
        run(&m, &g);
        emul_products_unrecordable = 0;
        T_HAS(emul_products_why(), "that cannot be recorded");
        T_TRUE(g.b->record_end(&step, g.s) != SL_OK);
        emul_heal();
        unmake(&m, &g);
        gpu_close(&g);
    }
}

// Every allocation of opening and planning fails in turn. A plan that is not
// kept for want of memory is no failure.
TEST(products, out_of_memory_is_an_answer)
{
    struct gpu g;

    gpu_open(&g, NULL);
    gpu_close(&g);
    for (uint64_t n = 1;; n++) {
        uint64_t live = sl_mem_live();
        struct kern_plan *p = NULL;
        struct kern_dev *dev = NULL;
        size_t bytes;
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = g.b->open(&dev, 0, "plans=/nowhere/plans", NULL);
        if (rc == SL_OK)
            rc = g.b->plan(&p, &bytes, dev, &g.dense, SIZE_MAX, NULL);
        g.b->plan_free(p);
        g.b->close(dev);
        T_EQ(sl_mem_live(), live);
        if (!sl_mem_failed())
            break;
        T_TRUE(rc == SL_ENOMEM || rc == SL_OK);
    }
}

// NCCL has joined the devices, and then the first cannot be chosen again: its
// communicators end, and the devices join by copies.
TEST(products, a_join_that_fails_keeps_no_communicator)
{
    struct kern_dev *devs[2] = {NULL, NULL};
    const struct kern_backend *b = emul_module();
    unsigned made, ended = emul_calls("nccl_destroy");
    char how[64] = "";

    emul_heal();
    emul_devices(2);
    T_EQ(setenv("EMUL_NCCL", "1", 1), 0);
    for (int i = 0; i < 2; i++)
        T_OK(b->open(&devs[i], i, NULL, t_err()));
    made = emul_calls("nccl_init");
    emul_fail("set", 1, cudaErrorInvalidValue, false);
    T_OK(b->join(devs, 2, how, sizeof(how), &err));
    T_HAS(how, "copies between GPUs");
    made = emul_calls("nccl_init") - made;
    T_EQ(emul_calls("nccl_destroy") - ended, 2 * made);
    for (int i = 2; i-- > 0;)
        b->close(devs[i]);
    T_EQ(unsetenv("EMUL_NCCL"), 0);
    emul_devices(1);
    if (strstr(how, "built without") != NULL)
        T_SKIP(how);
    T_EQ(made, 1);
}
