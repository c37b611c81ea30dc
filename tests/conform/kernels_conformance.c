// SPDX-License-Identifier: Apache-2.0
// tests/conform/kernels_conformance.c -- what every backend has to pass.
//
//   kernels-conformance --backend ref|cpu [--options threads=2] [--op name]
//                       [--mode eval|grad|det|fuse|async|fuzz|fail|perf|raw]
//                       [--seed n] [--dtype f32|f16|bf16|all] [--math tf32]
//                       [--count n] [--batch n] [--most elements]
//                       [--threads n] [--limit seconds]
//
// eval  every op on the shapes of kc_cases.c, against ref, and in place where
//       the op allows it
// grad  backward against central differences in double, on ref
// det   three runs, shifted alignment, other thread counts: equal bits
// fuse  an op with its epilogue against the op and its parts
// async streams, events and recordings: the bits of a run alone; --threads n:
//       the same bits on n devices at once. Host backends have none: 77
// fuzz  random descriptors, --count per op; the seed is printed
// fail  no memory, little workspace, nonsense: refused, and it goes on
// perf  prints times of the fashion net; fails nothing
// raw   prints what each implementation computes, those too that the product
//       leaves out as wrong (kernels/prove); fails nothing. All other modes
//       run what the product would run. Device backends: 77
//
// --dtype is mixed precision: kern_desc_dtype. --math tf32: products of f32
// may use TF32, and have that bound. --op own leaves out products. --most
// leaves out cases with a tensor of more elements, for builds that are slow.
// --limit: no case begins later; it says so, and judges what was run.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/mem.h"
#include "tests/conform/kc.h"

struct run {
    const char *backend, *options, *mode;
    enum kern_op only;
    enum kern_dtype dtype;
    bool all_dtypes, own; // own: no products
    uint64_t seed;
    int64_t most;
    int count, batch;
    unsigned threads;
    enum kern_math math;
    double until_s; // no case begins later; 0: all are run
    struct kern_dev *dev;
    bool no_products; // a build without oneDNN leaves them to ref
    bool mixed;       // the backend knows 16-bit dtypes
    unsigned done, failed;
    bool stopped; // at --limit, with cases left
};

static double run_now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Returns false for a case that would begin after --limit, and notes that.
static bool has_time(struct run *r)
{
    r->stopped |= r->until_s > 0 && run_now_s() > r->until_s;
    return !r->stopped;
}

const struct kern_backend *__attribute__((weak))
kc_extra_backend(const char *name)
{
    return NULL;
}

unsigned __attribute__((weak))
kc_extra_finish(struct kern_dev *dev, bool everything)
{
    return 0;
}

static void fail(struct run *r, const struct kern_desc *d, const char *why)
{
    if (r->failed++ < 20)
        printf("FAILED %s: %s\n       seed %llu\n", kc_text(d), why,
               (unsigned long long)r->seed);
}

// kern_open, and the backends that only this program has.
static enum sl_err open_dev(struct run *r, struct sl_error *err)
{
    const struct kern_backend *extra = kc_extra_backend(r->backend);

    return extra ? extra->open(&r->dev, 0, r->options, err)
                 : kern_open(&r->dev, r->backend, r->options, err);
}

// ---- Running one op --------------------------------------------------------

// Runs the plan where the tensors lie, with a canary behind the workspace.
static enum sl_err run_here(struct run *r, struct kern_plan *plan,
                            struct trial *b, size_t bytes)
{
    char *workspace = sl_aligned(64, bytes + 64);
    enum sl_err rc;

    memset(workspace, 0xFF, bytes); // NaN: it may count on nothing
    memset(workspace + bytes, 0x5A, 64);
    rc = kern_run(plan, NULL, b->io, workspace);
    for (int i = 0; i < 64; i++)
        if (workspace[bytes + (size_t)i] != 0x5A) {
            fail(r, &b->d, "wrote beyond its workspace");
            break;
        }
    sl_free(workspace);
    return rc;
}

// Plans and runs the op on b; false, and said, if that fails.
static bool run_op(struct run *r, struct kern_dev *dev, struct trial *b,
                   char impl[48])
{
    struct sl_error err = SL_ERROR_INIT;
    struct kern_plan *plan = NULL;
    size_t bytes = 0;
    enum sl_err rc = kern_plan_new(&plan, &bytes, dev, &b->d, 0, &err);

    if (rc != SL_OK) {
        fail(r, &b->d, err.text);
        return false;
    }
    snprintf(impl, 48, "%s", plan->impl);
    rc = dev->backend->host ? run_here(r, plan, b, bytes)
                            : kc_device_run(dev, plan, b, bytes);
    if (rc != SL_OK)
        fail(r, &b->d, sl_err_name(rc));
    if (!trial_holds(b))
        fail(r, &b->d, "wrote beyond a tensor");
    kern_plan_free(plan);
    return rc == SL_OK;
}

// How far off a cache line tensors may lie: products on a device want
// KERN_ALIGN, everything else takes any multiple of an element.
static size_t shifted(const struct run *r, const struct kern_desc *d,
                      size_t by_bytes)
{
    bool product = d->op == KERN_MATMUL || d->op == KERN_CONV_FWD ||
                   d->op == KERN_CONV_DGRAD || d->op == KERN_CONV_WGRAD;

    if (!product || r->dev->backend->host)
        return by_bytes;
    return (by_bytes + KERN_ALIGN - 1) / KERN_ALIGN * KERN_ALIGN;
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

// Compares one output; says the worst element.
static void compare(struct run *r, const struct trial *before,
                    const struct trial *ref, const struct trial *got,
                    unsigned out, const char *impl)
{
    const struct kern_shape *s = &ref->d.io[out];
    double *bound = trial_bound(before, ref, out), worst = 0;
    int64_t at = -1;
    char why[200];

    for (int64_t i = 0; i < kern_shape_extent(s); i++) {
        double a = trial_get(s, ref->io[out], i),
               b = trial_get(s, got->io[out], i);
        double off = fabs(a - b);

        if (same(a, b) || off <= bound[i])
            continue;
        off = isnan(off) || bound[i] == 0 ? INFINITY : off / bound[i];
        if (at < 0 || off > worst) {
            worst = off;
            at = i;
        }
    }
    if (at >= 0) {
        snprintf(why, sizeof(why),
                 "%s: output %u element %lld is %.9g, ref %.9g, bound %.3g, "
                 "%.3g times",
                 impl, out - ref->d.inputs, (long long)at,
                 trial_get(s, got->io[out], at), trial_get(s, ref->io[out], at),
                 bound[at], worst);
        fail(r, &ref->d, why);
    }
    free(bound);
}

// What cpu may leave to ref: nothing that a model of ours is made of.
static bool may_fall_back(const struct run *r, const struct kern_desc *d)
{
    if (r->no_products && d->op <= KERN_CONV_WGRAD)
        return true;
    if (!kern_desc_plain(d) && !r->mixed)
        return true;
    for (unsigned i = 0; i < d->inputs + d->outputs; i++)
        if (d->io[i].dtype == KERN_I32 && d->op != KERN_XENT)
            return true; // the aux of huge windows
    if (d->op == KERN_BN_BWD && kern_has(d, KERN_BGRAD))
        return true; // asked of devices alone
    return kern_desc_empty(d) ||
           (d->op == KERN_MATMUL && kern_has(d, KERN_BGRAD) &&
            !d->u.matmul.trans_a);
}

static bool equal_bits(const struct trial *a, const struct trial *b)
{
    for (unsigned i = a->d.inputs; i < a->d.inputs + a->d.outputs; i++)
        if (memcmp(a->io[i], b->io[i], a->bytes[i]) != 0)
            return false;
    return true;
}

// The same op with its first output in place of an input: equal bits.
static void in_place(struct run *r, const struct trial *before,
                     const struct trial *want)
{
    int from = kc_in_place(&before->d);
    struct trial got;
    char impl[48];

    if (from < 0 || (before->d.op == KERN_AXPBY && trial_adds(&before->d)))
        return;
    trial_new(&got, &before->d, shifted(r, &before->d, 4));
    trial_copy(&got, before);
    got.io[before->d.inputs] = got.io[from];
    if (run_op(r, r->dev, &got, impl) && !equal_bits(&got, want))
        fail(r, &before->d, "other bits in place");
    trial_free(&got);
}

static void eval_one(struct run *r, const struct kern_desc *d, struct rng *rng)
{
    struct trial before, ref, got;
    char impl[48] = "?";

    trial_new(&before, d, 0);
    trial_new(&ref, d, 0);
    trial_new(&got, d, shifted(r, d, 4));
    trial_fill(&before, rng);
    trial_copy(&ref, &before);
    trial_copy(&got, &before);
    trial_run_ref(d, ref.io);
    r->done++;
    if (run_op(r, r->dev, &got, impl)) {
        for (unsigned i = 0; i < d->inputs; i++)
            if (memcmp(got.io[i], before.io[i], before.bytes[i]) != 0)
                fail(r, d, "changed an input");
        for (unsigned i = d->inputs; i < d->inputs + d->outputs; i++)
            compare(r, &before, &ref, &got, i, impl);
        if (strcmp(r->backend, "ref") != 0 && strstr(impl, "ref") &&
            !may_fall_back(r, d))
            fail(r, d, "fell back to reference code");
        in_place(r, &before, &got);
    }
    trial_free(&before);
    trial_free(&ref);
    trial_free(&got);
}

// ---- Modes ----------------------------------------------------------------

typedef void (*case_fn)(struct run *r, const struct kern_desc *d,
                        struct rng *rng);

static bool wanted(const struct run *r, const struct kern_desc *d)
{
    if (!kc_within(d, r->most))
        return false;
    if (d->op > KERN_CONV_WGRAD)
        return true;
    return !r->own && kc_knows(r->dev, d);
}

static void one_case(struct run *r, const struct kern_desc *d, struct rng *rng,
                     case_fn fn)
{
    struct kern_desc as = *d;

    if (d->op <= KERN_CONV_WGRAD)
        as.math = (uint8_t)r->math;
    if (wanted(r, &as))
        fn(r, &as, rng);
}

// The case in the dtype that was asked for, and where an op allows mixtures
// (casts; sums of products in f32) in those too.
static void typed_case(struct run *r, const struct kern_desc *f32,
                       struct rng *rng, case_fn fn)
{
    struct kern_desc d = *f32;
    bool product = d.op == KERN_MATMUL || d.op == KERN_CONV_WGRAD;

    kern_desc_dtype(&d, r->dtype);
    one_case(r, &d, rng, fn);
    if (r->dtype == KERN_F32)
        return;
    if (product && d.io[d.inputs].dtype != KERN_F32) {
        d.io[d.inputs].dtype = KERN_F32;
        one_case(r, &d, rng, fn);
    }
    for (int i = 0; d.op == KERN_AXPBY && i < 3; i++) {
        d.io[0].dtype = (uint8_t)(i == 0 ? KERN_F32 : r->dtype);
        d.io[1].dtype = i == 0   ? (uint8_t)r->dtype
                        : i == 1 ? KERN_F32
                                 : KERN_F16 + KERN_BF16 - (uint8_t)r->dtype;
        one_case(r, &d, rng, fn);
    }
}

// Calls fn on every case of every op that was asked for.
static void each_case(struct run *r, case_fn fn)
{
    struct kern_desc *d = calloc(KC_CASES, sizeof(*d));
    struct rng rng;

    for (unsigned op = 1; op < KERN_OP_COUNT; op++) {
        unsigned n = kc_cases((enum kern_op)op, d);

        if (n == 0 || n > KC_CASES) {
            printf("FAILED op %s has %u cases\n",
                   kern_op_name((enum kern_op)op), n);
            r->failed++;
        }
        rng_init(&rng, r->seed, op);
        for (unsigned i = 0;
             i < n && (!r->only || r->only == op) && has_time(r); i++)
            typed_case(r, &d[i], &rng, fn);
    }
    free(d);
}

// One more run, `shift` bytes off, on `dev`; must equal `want`.
static void det_again(struct run *r, struct kern_dev *dev,
                      const struct trial *before, const struct trial *want,
                      size_t shift, const char *why)
{
    struct trial got;
    char impl[48];

    trial_new(&got, &before->d, shift);
    trial_copy(&got, before);
    if (run_op(r, dev, &got, impl) && !equal_bits(&got, want))
        fail(r, &before->d, why);
    trial_free(&got);
}

// libgomp is not built for the thread sanitizer, which then sees races.
#ifdef __SANITIZE_THREAD__
#define MORE_THREADS 0
#else
#define MORE_THREADS 1
#endif

// The same bits on a device that was opened otherwise: with more threads, or
// (emulated) with another order of lanes, warps and blocks.
static void det_otherwise(struct run *r, const struct trial *before,
                          const struct trial *want)
{
    static const char *const options[] = {
        "threads=2",  "threads=4",  "schedule=1", "schedule=2",
        "schedule=3", "schedule=4", "schedule=5"};
    struct run other = *r;
    char words[200];

    for (size_t i = 0; MORE_THREADS && i < SL_COUNT(options); i++) {
        snprintf(words, sizeof(words), "%s%s%s", r->options ? r->options : "",
                 r->options ? "," : "", options[i]);
        other.options = words;
        if (open_dev(&other, NULL) != SL_OK)
            continue;
        det_again(r, other.dev, before, want, 0, options[i]);
        kern_close(other.dev);
    }
}

static void det_one(struct run *r, const struct kern_desc *d, struct rng *rng)
{
    struct trial before, want;
    char impl[48] = "?";
    bool own;

    trial_new(&before, d, 0);
    trial_new(&want, d, 0);
    trial_fill(&before, rng);
    trial_copy(&want, &before);
    r->done++;
    if (run_op(r, r->dev, &want, impl)) {
        det_again(r, r->dev, &before, &want, 0, "other bits in a second run");
        det_again(r, r->dev, &before, &want, shifted(r, d, 36),
                  "other bits when shifted");
        own = strcmp(impl, "base") == 0 || strncmp(impl, "avx", 3) == 0 ||
              strcmp(impl, "own") == 0;
        if (own) // oneDNN only promises this at one thread count
            det_otherwise(r, &before, &want);
    }
    trial_free(&before);
    trial_free(&want);
}

static void fuse_one(struct run *r, const struct kern_desc *d, struct rng *rng)
{
    const char *why;

    if (!kc_fuses(d))
        return;
    r->done++;
    why = kc_fuse(r->dev, d, rng);
    if (why)
        fail(r, d, why);
}

static void async_one(struct run *r, const struct kern_desc *d, struct rng *rng)
{
    const char *why = kc_async(r->dev, d, rng);

    r->done++;
    if (why)
        fail(r, d, why);
}

static void raw_one(struct run *r, const struct kern_desc *d, struct rng *rng)
{
    r->done++;
    kc_raw(r->dev, d);
}

static void fuzz(struct run *r)
{
    struct kern_desc d;
    struct rng rng;

    for (unsigned op = 1; op < KERN_OP_COUNT; op++) {
        rng_init(&rng, r->seed, 1000 + op);
        for (int i = 0;
             i < r->count && (!r->only || r->only == op) && has_time(r); i++) {
            kc_random((enum kern_op)op, &d, &rng);
            typed_case(r, &d, &rng, eval_one);
        }
    }
}

// ---- The command ----------------------------------------------------------

static bool set_dtype(struct run *r, const char *name)
{
    r->all_dtypes = strcmp(name, "all") == 0;
    r->dtype = strcmp(name, "f16") == 0    ? KERN_F16
               : strcmp(name, "bf16") == 0 ? KERN_BF16
                                           : KERN_F32;
    return r->dtype != KERN_F32 || r->all_dtypes || strcmp(name, "f32") == 0;
}

static bool set_math(struct run *r, const char *name)
{
    r->math = strcmp(name, "tf32") == 0 ? KERN_MATH_TF32 : KERN_MATH_F32;
    return r->math == KERN_MATH_TF32 || strcmp(name, "f32") == 0;
}

static enum kern_op op_by_name(const char *name)
{
    for (unsigned op = 1; op < KERN_OP_COUNT; op++)
        if (strcmp(kern_op_name((enum kern_op)op), name) == 0)
            return (enum kern_op)op;
    return KERN_OP_NONE;
}

static bool option(struct run *r, const char *name, const char *value)
{
    if (strcmp(name, "--backend") == 0)
        r->backend = value;
    else if (strcmp(name, "--options") == 0)
        r->options = value;
    else if (strcmp(name, "--mode") == 0)
        r->mode = value;
    else if (strcmp(name, "--op") == 0 && strcmp(value, "own") == 0)
        r->own = true;
    else if (strcmp(name, "--op") == 0)
        return (r->only = op_by_name(value)) != KERN_OP_NONE;
    else if (strcmp(name, "--seed") == 0)
        r->seed = strcmp(value, "random") == 0 ? (uint64_t)time(NULL)
                                               : strtoull(value, NULL, 0);
    else if (strcmp(name, "--dtype") == 0)
        return set_dtype(r, value);
    else if (strcmp(name, "--math") == 0)
        return set_math(r, value);
    else if (strcmp(name, "--most") == 0)
        r->most = atoll(value);
    else if (strcmp(name, "--threads") == 0)
        r->threads = (unsigned)atoi(value);
    else if (strcmp(name, "--count") == 0)
        r->count = atoi(value);
    else if (strcmp(name, "--batch") == 0)
        r->batch = atoi(value);
    else if (strcmp(name, "--limit") == 0)
        r->until_s = run_now_s() + atof(value);
    else
        return false;
    return true;
}

static int usage(void)
{
    fprintf(
        stderr,
        "usage: kernels-conformance --backend ref|cpu|cuda [--options text]\n"
        "           [--mode eval|grad|det|fuse|async|fuzz|fail|perf|raw]\n"
        "           [--op name] [--dtype f32|f16|bf16|all] [--math f32|tf32]\n"
        "           [--seed n|random] [--count n] [--batch n]\n"
        "           [--most elements] [--threads n] [--limit seconds]\n");
    return 2;
}

static const char *dtype_name(const struct run *r)
{
    return r->all_dtypes           ? "all"
           : r->dtype == KERN_F16  ? "f16"
           : r->dtype == KERN_BF16 ? "bf16"
                                   : "f32";
}

static const struct {
    const char *mode;
    case_fn fn;
} case_modes[] = {{"eval", eval_one},   {"det", det_one}, {"fuse", fuse_one},
                  {"async", async_one}, {"raw", raw_one}, {"fuzz", NULL}};

// False: it is no mode that goes through cases.
static bool run_cases(struct run *r)
{
    for (size_t i = 0; i < SL_COUNT(case_modes); i++) {
        if (strcmp(r->mode, case_modes[i].mode) != 0)
            continue;
        if (case_modes[i].fn)
            each_case(r, case_modes[i].fn);
        else
            fuzz(r);
        return true;
    }
    return false;
}

// Every dtype that was asked for. False: no such mode.
static bool run_dtypes(struct run *r)
{
    static const enum kern_dtype dtypes[] = {KERN_F32, KERN_F16, KERN_BF16};

    for (size_t i = 0; i < SL_COUNT(dtypes); i++) {
        if (r->all_dtypes)
            r->dtype = dtypes[i];
        if ((r->all_dtypes || i == 0) && !run_cases(r))
            return false;
    }
    return true;
}

static int run_raw(struct run *r)
{
    if (!r->dev->prover) {
        printf("%s: its kernels do not prove themselves\n", r->backend);
        return 77;
    }
    run_dtypes(r);
    kc_raw_print();
    return 0;
}

static int run_mode(struct run *r)
{
    bool cases = false;
    struct rng rng;

    rng_init(&rng, r->seed, 0);
    if (strcmp(r->mode, "perf") == 0)
        return kc_perf(r->dev, r->batch, r->dtype);
    if (strcmp(r->mode, "raw") == 0)
        return run_raw(r);
    if (strcmp(r->mode, "async") == 0 && !r->dev->backend->record_begin) {
        printf("%s: everything has happened on return\n", r->backend);
        return 77;
    }
    if (strcmp(r->mode, "grad") == 0)
        r->failed += (unsigned)kc_grad(&rng);
    else if (strcmp(r->mode, "fail") == 0)
        r->failed += (unsigned)kc_fail(r->dev, r->most);
    else if (!(cases = run_dtypes(r)))
        return usage();
    if (cases && !r->own && r->only == KERN_OP_NONE && !r->stopped &&
        kern_has_optim(r->dev->backend))
        r->failed += kc_optim(r->dev);
    if (r->threads > 0)
        r->failed += kc_threads(r->backend, r->options, r->most, r->threads);
    r->failed +=
        kc_extra_finish(r->dev, cases && r->all_dtypes && !r->own &&
                                    !r->stopped && r->only == KERN_OP_NONE);
    if (r->stopped)
        printf("stopped at the limit; other cases were not run\n");
    printf("%s %s %s: %u cases, %u failures, seed %llu\n", r->backend, r->mode,
           dtype_name(r), r->done, r->failed, (unsigned long long)r->seed);
    return r->failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct run r = {.backend = "ref",
                    .mode = "eval",
                    .dtype = KERN_F32,
                    .seed = 7,
                    .count = 40,
                    .batch = 64};
    struct sl_error err = SL_ERROR_INIT;
    struct kern_info info;
    int rc;

    for (int i = 1; i < argc; i += 2)
        if (i + 1 == argc || !option(&r, argv[i], argv[i + 1]))
            return usage();
    if (open_dev(&r, &err) != SL_OK) {
        bool elsewhere = r.options && strncmp(r.options, "isa=", 4) == 0;

        fprintf(stderr, "%s\n", err.text);
        return err.code == SL_ENOTSUP || elsewhere ? 77 : 2;
    }
    r.dev->backend->info(&info, r.dev);
    r.no_products = strstr(info.name, "without oneDNN") != NULL;
    r.mixed = info.dtypes & (1u << KERN_F16 | 1u << KERN_BF16);
    printf("%s, threads %u\n", info.name, info.threads);
    rc = run_mode(&r);
    kern_close(r.dev);
    return rc;
}
