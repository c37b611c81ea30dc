// SPDX-License-Identifier: Apache-2.0
// tests/emul/planted_calls_test.c -- do the stand-ins for cuBLASLt and cuDNN
// find mistakes in what they are asked? Each of planted_calls.def is made, and
// the rest is as always.
#include "kernels/cuda/cuda.h"
#include "kernels/desc.h"
#include "tests/emul/cudart.h"
#include "tests/emul/planted_calls.h"
#include "tests/emul/products.h"
#include "tests/emul/typed.h"
#include "tests/emul/whole.h"
#include "tests/harness/t.h"
#include "tests/unit/kernels/window_same.h"

#define OPS 8

struct op {
    struct kern_desc d;
    struct kern_plan *plan;
    struct kern_mem mem[KERN_IO], workspace;
    void *io[KERN_IO];
};

// What became of all ops.
struct outcome {
    enum sl_err rc;
    enum planted_how at; // where it failed
    uint64_t bits;       // of all results
    uint64_t engines;
    char said[400];
};

struct bench {
    const struct kern_backend *b;
    struct kern_dev *dev;
    struct kern_stream *s;
    struct kern_plan *step;
    struct op op[OPS];
    struct sl_error err;
};

static void describe(struct op op[OPS])
{
    const int64_t x[4] = {2, 10, 10, 16};
    struct kern_window w = kern_window(5, 5, 2, 2);

    window_same(&w, 0, x[1]);
    window_same(&w, 1, x[2]);
    kern_desc_matmul(&op[0].d, 8, 16, 24, false, true, KERN_BIAS | KERN_RELU);
    kern_desc_matmul(&op[1].d, 8, 16, 24, false, true, KERN_BIAS);
    kern_desc_dtype(&op[1].d, KERN_BF16);
    kern_desc_matmul_batch(&op[2].d, 3, 8, 16, 24, false, false, 0);
    kern_desc_matmul(&op[3].d, 24, 16, 8, true, false, KERN_ACCUM | KERN_BGRAD);
    kern_desc_conv(&op[4].d, KERN_CONV_FWD, x, 24, &w, 1,
                   KERN_BIAS | KERN_RELU);
    kern_desc_conv(&op[5].d, KERN_CONV_DGRAD, x, 24, &w, 1, 0);
    kern_desc_dtype(&op[5].d, KERN_BF16);
    kern_desc_conv(&op[6].d, KERN_CONV_WGRAD, x, 24, &w, 1, KERN_ACCUM);
    kern_desc_conv(&op[7].d, KERN_CONV_FWD, (int64_t[]){2, 10, 10, 3}, 5, &w, 1,
                   KERN_BIAS);
}

static unsigned tensors(const struct op *op)
{
    return op->d.inputs + op->d.outputs;
}

static uint64_t mix(uint64_t bits, const void *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bits = (bits ^ ((const uint8_t *)at)[i]) * 0x100000001b3u;
    return bits;
}

// ---- Steps ----------------------------------------------------------------

static enum sl_err plan_all(struct bench *t, uint64_t *engines)
{
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < OPS && rc == SL_OK; i++) {
        struct op *op = &t->op[i];
        size_t bytes;

        rc = t->b->plan(&op->plan, &bytes, t->dev, &op->d, SIZE_MAX, &t->err);
        if (rc != SL_OK)
            break;
        *engines = mix(*engines, op->plan->impl, strlen(op->plan->impl));
        T_OK(t->b->alloc(&op->workspace, t->dev, bytes, KERN_DEVICE));
        for (unsigned k = 0; k < tensors(op); k++) {
            T_OK(t->b->alloc(&op->mem[k], t->dev,
                             kern_shape_bytes(&op->d.io[k]) + KERN_ALIGN,
                             KERN_DEVICE));
            // No better aligned than is promised.
            op->io[k] = (char *)op->mem[k].at + KERN_ALIGN;
        }
    }
    return rc;
}

// The same numbers each time.
static void fill(struct bench *t)
{
    static float host[1 << 14];

    for (unsigned i = 0; i < OPS; i++)
        for (unsigned k = 0; k < tensors(&t->op[i]); k++) {
            const struct kern_shape *s = &t->op[i].d.io[k];
            int64_t n = kern_shape_count(s);

            T_LE(n, SL_COUNT(host));
            for (int64_t l = 0; l < n; l++)
                typed_put((enum kern_dtype)s->dtype, host, l,
                          (float)((l * 7 + k * 5 + i) % 11) / 8 - 0.5f);
            T_OK(t->b->copy(t->s, t->op[i].io[k], host, kern_shape_bytes(s),
                            KERN_TO_DEVICE));
        }
}

static uint64_t results(struct bench *t)
{
    static float host[1 << 14];
    uint64_t bits = 0;

    for (unsigned i = 0; i < OPS; i++)
        for (unsigned k = t->op[i].d.inputs; k < tensors(&t->op[i]); k++) {
            size_t bytes = kern_shape_bytes(&t->op[i].d.io[k]);

            T_OK(t->b->copy(t->s, host, t->op[i].io[k], bytes, KERN_TO_HOST));
            bits = mix(bits, host, bytes);
        }
    return bits;
}

static enum sl_err run_all(struct bench *t)
{
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < OPS && rc == SL_OK; i++)
        rc = t->b->run(t->op[i].plan, t->s, t->op[i].io, t->op[i].workspace.at);
    return rc;
}

// On another stream than run_all's: that one has ended.
static enum sl_err record_all(struct bench *t)
{
    enum sl_err rc, end;

    t->b->stream_free(t->s);
    T_OK(t->b->stream_new(&t->s, t->dev, 0));
    fill(t);
    T_OK(t->b->record_begin(t->s));
    rc = run_all(t);
    end = t->b->record_end(&t->step, t->s);
    if (rc == SL_OK)
        rc = end;
    if (rc != SL_OK)
        return rc;
    fill(t); // what has run already, has run in vain
    return t->b->run(t->step, t->s, NULL, NULL);
}

static void steps(struct bench *t, struct outcome *out)
{
    out->at = PLAN;
    out->rc = plan_all(t, &out->engines);
    if (out->rc != SL_OK)
        return;
    out->at = RUN;
    fill(t);
    out->rc = run_all(t);
    if (out->rc != SL_OK)
        return;
    out->bits = results(t);
    out->at = RECORD;
    out->rc = record_all(t);
    if (out->rc == SL_OK)
        out->bits = out->bits * 3 + results(t);
}

static void take_down(struct bench *t)
{
    emul_heal();
    for (unsigned i = 0; i < OPS; i++) {
        t->b->plan_free(t->op[i].plan);
        t->b->release(t->dev, &t->op[i].workspace);
        for (unsigned k = 0; k < KERN_IO; k++)
            t->b->release(t->dev, &t->op[i].mem[k]);
    }
    t->b->plan_free(t->step);
    t->b->stream_free(t->s);
    t->b->close(t->dev);
}

static struct outcome make(enum planted_call call)
{
    struct bench t = {.b = emul_module()};
    struct outcome out = {.rc = SL_OK};

    emul_heal();
    emul_products_say("");
    describe(t.op);
    // A proof would take another engine instead of one that a mistake spoils.
    T_OK(t.b->open(&t.dev, 0, "prove=0", t_err()));
    T_OK(t.b->stream_new(&t.s, t.dev, 0));
    planted_make(call);
    steps(&t, &out);
    planted_make(PLANTED_NOTHING);
    snprintf(out.said, sizeof(out.said), "%s", emul_products_why());
    take_down(&t);
    return out;
}

// ---- What is found --------------------------------------------------------

static const struct {
    const char *name;
    enum planted_how how;
    const char *words;
} calls[PLANTED_CALLS] = {
#define PLANTED_CALL(name, how, words) [PLANTED_##name] = {#name, how, words},
#include "tests/emul/planted_calls.def"
};

static bool found(const struct outcome *out, const struct outcome *right,
                  enum planted_how how, const char *words)
{
    switch (how) {
    case OTHER:
        return out->rc == SL_OK && out->bits != right->bits;
    case SLOW:
        return out->rc == SL_OK && out->engines != right->engines;
    default: // where another way could be taken, the refusal is what remains
        if (out->rc == SL_OK)
            return *words && strstr(out->said, words);
        return out->at == (how == GRAPH ? PLAN : how) &&
               strstr(out->said, words);
    }
}

TEST(planted_calls, without_a_mistake_nothing_is_refused)
{
    struct outcome one = make(PLANTED_NOTHING), two = make(PLANTED_NOTHING);

    T_STR(one.said, "");
    T_EQ(one.rc, SL_OK);
    T_EQ(one.bits, two.bits);
    T_EQ(one.engines, two.engines);
}

TEST(planted_calls, every_mistake_is_found)
{
    struct outcome right = make(PLANTED_NOTHING);
    unsigned missed = 0;

    for (unsigned i = 1; i < PLANTED_CALLS; i++) {
        struct outcome out = make(i);

        if (found(&out, &right, calls[i].how, calls[i].words))
            continue;
        printf("%s: not found: %s at %d: \"%s\"\n", calls[i].name,
               sl_err_name(out.rc), out.at, out.said);
        missed++;
    }
    T_EQ(missed, 0);
}
