// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/judge.c -- data, samples and verdicts of the proofs on a device.
#include "kernels/cuda/judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/run/log.h"
#include "kernels/beat.h"
#include "kernels/cuda/own.h"
#include "kernels/cuda/plain.h"
#include "kernels/cuda/vendor.h"

#define GUARD CUDA_THREADS // bytes on either side; the kernel looks at so many
#define GUARD_BYTE 0xA5

// So many per multiprocessor, each of 64 bytes of traffic at worst: on an H100
// a billion for an op, which are tens of milliseconds.
#define TERMS_MOST ((int64_t)1 << 23)
#define ELEMENTS_MOST 4096
#define ELEMENTS_LEAST 64
#define TILE_COLS 64

// ---- What is known ----------------------------------------------------------

void judge_book_release(struct judge_book *b)
{
    for (size_t i = 0; i < b->count; i++)
        sl_free(b->at[i].why);
    sl_free(b->at);
    *b = (struct judge_book){.at = NULL};
}

// Returns a hash of the driver's version, from where Linux has it.
static uint64_t driver_hash(void)
{
    FILE *f = fopen("/proc/driver/nvidia/version", "re");
    char line[256];
    uint64_t hash = 0;

    if (f && fgets(line, sizeof(line), f))
        hash = sl_hash64(line, strlen(line));
    if (f)
        fclose(f);
    return hash;
}

static uint64_t judge_key(const struct judge *j,
                          const struct judge_candidate *c)
{
    return sl_mix64(j->host ^ sl_mix64(c->identity));
}

static struct judge_answer *judge_find(const struct judge_book *b, uint64_t key)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->at[i].key == key)
            return &b->at[i];
    return NULL;
}

// Notes an answer; `why` (copied; NULL: it is right) says in what it is wrong.
static enum sl_err judge_note(struct judge_book *b, uint64_t key, uint64_t op,
                              const char *why, bool once)
{
    char *copy = why ? sl_strdup(why) : NULL;

    if (why && !copy)
        return SL_ENOMEM;
    if (b->count == b->space) {
        size_t space = b->space ? 2 * b->space : 32;
        struct judge_answer *more = sl_realloc(b->at, space * sizeof(*more));

        if (!more) {
            sl_free(copy);
            return SL_ENOMEM;
        }
        b->at = more;
        b->space = space;
    }
    b->at[b->count++] = (struct judge_answer){key, op, copy, once};
    return SL_OK;
}

const char *judge_left_out(const struct judge_book *b,
                           const struct kern_desc *d, unsigned i)
{
    uint64_t op = d ? kern_desc_hash(d) : 0;

    for (size_t k = 0; k < b->count; k++)
        if (b->at[k].why && (!d || b->at[k].op == op) && i-- == 0)
            return b->at[k].why;
    return NULL;
}

bool judge_sure(const struct judge_book *b, const struct kern_desc *d)
{
    uint64_t op = kern_desc_hash(d);

    for (size_t k = 0; k < b->count; k++)
        if (b->at[k].once && b->at[k].op == op)
            return false;
    return true;
}

// Looks an answer up, here and in the file. False: nothing is known. *why is
// from the file, appended to *text, and NULL for one that is known here.
static bool judge_finds(const struct judge *j, const struct judge_candidate *c,
                        struct buf *text, bool *right, const char **why)
{
    struct vendor *v = vendor(j->dev);
    uint64_t key = judge_key(j, c);
    const struct judge_answer *a = judge_find(&v->book, key);

    *why = NULL;
    if (a)
        *right = a->why == NULL;
    return a || (plans_find(text, &v->plans, ANSWER_KIND, c->version, key) &&
                 answer_read(buf_text(text), right, why));
}

// Looks the answer up that decides whether a candidate is left out, and notes
// one that is in the file only.
static bool judge_knows(const struct judge *j, const struct judge_candidate *c,
                        bool *right)
{
    struct buf text = BUF_INIT;
    const char *why;
    bool known = judge_finds(j, c, &text, right, &why);

    if (known && why) // without memory status does not name it
        (void)judge_note(&vendor(j->dev)->book, judge_key(j, c),
                         kern_desc_hash(&j->desc), why, false);
    buf_release(&text);
    return known;
}

static enum sl_err judge_learn(struct judge *j, const struct judge_candidate *c,
                               enum proof_shows shows, uint64_t ms)
{
    struct vendor *v = vendor(j->dev);
    uint64_t key = judge_key(j, c);
    bool right = shows == PROOF_RIGHT, once = shows > PROOF_RIGHT;
    struct buf text = BUF_INIT;

    v->book.counts.checked++;
    v->book.counts.wrong += !right;
    v->book.counts.ms += ms;
    if (v->plans.path && !once && answer_write(&text, right, j->why) == SL_OK)
        plans_add(&v->plans, ANSWER_KIND, c->version, key, &text);
    buf_release(&text);
    return judge_note(&v->book, key, kern_desc_hash(&j->desc),
                      right ? NULL : j->why, once);
}

bool judge_trusts(const struct judge *j, const struct judge_candidate *c)
{
    struct buf text = BUF_INIT;
    const char *why;
    bool right = true, trusts;

    if (!vendor(j->dev)->options.prove)
        return true;
    trusts = judge_finds(j, c, &text, &right, &why) && right;
    buf_release(&text);
    return trusts;
}

// ---- What a kept plan stands for --------------------------------------------

#define LEFT_OUT_KIND "left" // of a line of the file
#define LEFT_OUT_END '|'     // of each text

void judge_keep_left_out(struct cuda_dev *dev, const struct kern_desc *d,
                         size_t version, uint64_t key)
{
    struct vendor *v = vendor(dev);
    struct buf text = BUF_INIT, before = BUF_INIT;
    enum sl_err rc = SL_OK;
    const char *why;

    for (unsigned i = 0;
         rc == SL_OK && (why = judge_left_out(&v->book, d, i)) != NULL; i++)
        rc = buf_appendf(&text, "%s%c", why, LEFT_OUT_END);
    // Without anything to keep only an older line is worth a new one.
    if (rc == SL_OK &&
        (text.len > 0 ||
         plans_find(&before, &v->plans, LEFT_OUT_KIND, version, key)))
        plans_add(&v->plans, LEFT_OUT_KIND, version, key, &text);
    buf_release(&before);
    buf_release(&text);
}

void judge_recall_left_out(struct cuda_dev *dev, const struct kern_desc *d,
                           size_t version, uint64_t key)
{
    struct vendor *v = vendor(dev);
    uint64_t op = kern_desc_hash(d);
    struct buf text = BUF_INIT;
    char *why = NULL, *end;

    if (v->options.prove && judge_left_out(&v->book, d, 0) == NULL &&
        plans_find(&text, &v->plans, LEFT_OUT_KIND, version, key))
        why = (char *)text.data;
    for (; why && (end = memchr(why, LEFT_OUT_END,
                                text.len - (size_t)(why - (char *)text.data)));
         why = end + 1) {
        *end = '\0';
        (void)judge_note(&v->book, sl_mix64(key ^ sl_hash64(why, strlen(why))),
                         op, why, false); // as in judge_knows
    }
    buf_release(&text);
}

// ---- Which elements ---------------------------------------------------------

// Adds the elements of a tile of rows x cols at (row, col), at most `most`.
static int64_t choose_tile(int64_t *at, int64_t most, int64_t row, int64_t col,
                           int64_t rows, int64_t cols, int64_t apart)
{
    int64_t n = 0;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols && n < most; c++)
            at[n++] = (row + r) * apart + col + c;
    return n;
}

int64_t judge_choose(int64_t *at, const struct kern_shape *s, int64_t terms,
                     int multiprocessors)
{
    int64_t all = kern_shape_count(s), cols = kern_cols(s), n = 0;
    int64_t most = TERMS_MOST * multiprocessors / (terms + 1), wide, high;
    struct rng rng;

    most = most > ELEMENTS_MOST    ? ELEMENTS_MOST
           : most < ELEMENTS_LEAST ? ELEMENTS_LEAST
                                   : most;
    most = all < most ? all : most;
    if (!at)
        return most;
    if (most == all)
        return choose_tile(at, all, 0, 0, 1, all, 0);
    wide = cols < TILE_COLS ? cols : TILE_COLS;
    high = own_ceil(most / 2, wide);
    high = high < all / cols ? high : all / cols;
    n = choose_tile(at, most / 2, all / cols - high, cols - wide, high, wide,
                    cols);
    at[0] = all - 1; // also where the tile was cut
    n += choose_tile(at + n, most / 8, 0, 0, high, wide, cols);
    rng_init(&rng, PROVE_SEED, (uint64_t)all);
    while (n < most)
        at[n++] = (int64_t)rng_below(&rng, (uint64_t)all);
    return n;
}

// ---- Memory -----------------------------------------------------------------

static void *judge_at(const struct judge *j, size_t place)
{
    return (char *)j->mem.at + place;
}

// Where tensor i of io[] lies in run number `again`.
static void *judge_tensor(const struct judge *j, unsigned i, unsigned again)
{
    return judge_at(j, j->place[i] + GUARD + (again ? KERN_ALIGN : 0));
}

// Takes so many bytes of what is to be allocated; returns their place.
static size_t judge_reserve(size_t *used, size_t bytes)
{
    size_t place = *used;

    *used += (bytes + 255) & ~(size_t)255;
    return place;
}

// Settles what is compared, and where everything lies; returns the bytes.
static size_t judge_lay_out(struct judge *j)
{
    const struct kern_desc *d = &j->desc;
    void *none[KERN_IO] = {NULL};
    size_t used = 0;

    for (unsigned i = 0; i < d->inputs + d->outputs; i++)
        j->place[i] = judge_reserve(&used, kern_shape_bytes(&d->io[i]) +
                                               2 * GUARD + KERN_ALIGN);
    j->workspace = judge_reserve(&used, j->workspace_bytes);
    j->sides = 0;
    for (unsigned out = d->inputs; out < d->inputs + d->outputs; out++) {
        struct judge_side *side = &j->side[j->sides++];
        struct args_oracle a;

        plain_args(&a, d, out, none, false);
        side->out = out;
        side->count =
            judge_choose(NULL, &d->io[out], a.terms, j->dev->multiprocessors);
        side->at = judge_reserve(&used, (size_t)side->count * sizeof(int64_t));
        side->want = judge_reserve(&used, (size_t)side->count * sizeof(double));
        side->bound =
            judge_reserve(&used, (size_t)side->count * sizeof(double));
        side->verdict = judge_reserve(&used, sizeof(struct oracle_verdict));
    }
    return used;
}

// ---- Contents ---------------------------------------------------------------

static enum sl_err judge_fill_random(struct judge *j, unsigned i, void *to)
{
    const struct kern_shape *s = &j->desc.io[i];
    const struct args_oracle_fill a = {
        .y = to,
        .n = kern_shape_count(s),
        .seed = sl_mix64(PROVE_SEED + i),
        .dtype = s->dtype,
    };

    return CUDA_LAUNCH(j->dev, cuda_stream(j->stream), CUDA_oracle_fill,
                       own_ceil(a.n, CUDA_THREADS), 1, &a);
}

// Random inputs, and outputs that hold NaN or what the op adds to, between
// guards.
static enum sl_err judge_fill(struct judge *j, unsigned again)
{
    const struct kern_desc *d = &j->desc;
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < d->inputs + d->outputs && rc == SL_OK; i++) {
        size_t bytes = kern_shape_bytes(&d->io[i]);
        char *at = judge_tensor(j, i, again);
        bool out = i >= d->inputs;

        if (out)
            rc = cuda_fill(j->stream, at - GUARD, GUARD_BYTE, GUARD);
        if (rc == SL_OK && out)
            rc = cuda_fill(j->stream, at + bytes, GUARD_BYTE, GUARD);
        if (rc == SL_OK && (!out || kern_has(d, KERN_ACCUM)))
            rc = judge_fill_random(j, i, at);
        else if (rc == SL_OK)
            rc = cuda_fill(j->stream, at, 0xFF, bytes);
    }
    if (rc == SL_OK && j->workspace_bytes > 0)
        rc = cuda_fill(j->stream, judge_at(j, j->workspace), 0xFF,
                       j->workspace_bytes);
    return rc;
}

static void judge_io(const struct judge *j, unsigned again, void *io[KERN_IO])
{
    for (unsigned i = 0; i < j->desc.inputs + j->desc.outputs; i++)
        io[i] = judge_tensor(j, i, again);
}

// Computes what is right for the chosen elements of one output.
static enum sl_err judge_ask(struct judge *j, const struct judge_side *side)
{
    const struct kern_desc *d = &j->desc;
    int64_t *at = sl_malloc((size_t)side->count * sizeof(*at));
    void *io[KERN_IO] = {NULL};
    struct args_oracle a;
    enum sl_err rc;

    if (!at)
        return SL_ENOMEM;
    judge_io(j, 0, io);
    plain_args(&a, d, side->out, io, vendor_tf32(vendor(j->dev), d));
    judge_choose(at, &d->io[side->out], a.terms, j->dev->multiprocessors);
    rc = cuda_copy(j->stream, judge_at(j, side->at), at,
                   (size_t)side->count * sizeof(*at), KERN_TO_DEVICE);
    a.at = judge_at(j, side->at);
    a.want = judge_at(j, side->want);
    a.bound = judge_at(j, side->bound);
    a.count = side->count;
    if (rc == SL_OK)
        rc = plain_launch(j->dev, cuda_stream(j->stream), &a);
    if (rc == SL_OK)
        rc = cuda_stream_sync(j->stream);
    sl_free(at);
    kern_beat();
    return rc;
}

static void judge_tell_choice(const struct judge *j)
{
    const struct judge_side *side = &j->side[0];
    char shape[300];

    if (log_on(LOG_LEVEL_DEBUG))
        log_event(LOG_LEVEL_DEBUG, "kernels for an op are compared",
                  "op=%s elements=%" PRId64 " of=%" PRId64 " seed=%d",
                  kern_desc_text(shape, sizeof(shape), &j->desc), side->count,
                  kern_shape_count(&j->desc.io[side->out]), PROVE_SEED);
}

static enum sl_err judge_make(struct judge *j)
{
    enum sl_err rc = SL_OK;

    if (j->mem.at)
        return SL_OK;
    if (!j->stream)
        rc = cuda_stream_new(&j->stream, &j->dev->base, 0);
    if (rc == SL_OK)
        rc = cuda_alloc(&j->mem, &j->dev->base, judge_lay_out(j), KERN_DEVICE);
    if (rc == SL_OK)
        rc = judge_fill(j, 0);
    for (unsigned k = 0; k < j->sides && rc == SL_OK; k++)
        rc = judge_ask(j, &j->side[k]);
    if (rc == SL_OK)
        judge_tell_choice(j);
    else
        cuda_release(&j->dev->base, &j->mem); // without the oracle's sums
    return rc;
}

void judge_init(struct judge *j, struct cuda_dev *dev,
                const struct kern_desc *d, size_t workspace_bytes)
{
    *j = (struct judge){
        .dev = dev,
        .desc = *d,
        .workspace_bytes = workspace_bytes,
        .host = vendor_key(dev, d, 0) ^ sl_mix64(driver_hash()) ^
                sl_hash64(SLUICE_VERSION, strlen(SLUICE_VERSION)),
    };
}

void judge_release(struct judge *j)
{
    cuda_release(&j->dev->base, &j->mem);
    cuda_stream_free(j->stream);
    j->stream = NULL;
}

// ---- Verdicts ---------------------------------------------------------------

static void judge_tell_wrong(struct judge *j, const struct judge_candidate *c,
                             enum proof_shows shows)
{
    const struct judge_side *side = &j->side[j->fault.side];
    const struct oracle_verdict *v = &j->fault.verdict;
    char shape[300];

    log_event(LOG_LEVEL_ERROR, answer_log(shows),
              "op=%s kernel=%s backend=%s version=%zu output=%u "
              "element=%" PRId64 " got=%.9g want=%.9g bound=%.3g when=%s "
              "wrong=%" PRId64 " of=%" PRId64 " beside=%" PRId64 " seed=%d",
              kern_desc_text(shape, sizeof(shape), &j->desc), c->impl,
              j->dev->name, c->version, side->out - j->desc.inputs, v->element,
              v->got, v->want, v->bound,
              j->fault.again ? "the second time" : "the first time", v->wrong,
              side->count, v->beyond, PROVE_SEED);
    answer_explain(j->why, c->impl, j->dev->name, shape,
                   v->wrong == 0 ? -1 : v->element,
                   (int)(side->out - j->desc.inputs), v->got, v->want,
                   answer_again(shows));
}

static enum sl_err judge_compare(struct judge *j, const struct judge_side *side,
                                 unsigned again, struct oracle_verdict *v)
{
    const struct kern_shape *s = &j->desc.io[side->out];
    const uint8_t *y = judge_tensor(j, side->out, again);
    const struct args_oracle_compare a = {
        .y = y,
        .before = y - GUARD,
        .behind = y + kern_shape_bytes(s),
        .at = judge_at(j, side->at),
        .want = judge_at(j, side->want),
        .bound = judge_at(j, side->bound),
        .out = judge_at(j, side->verdict),
        .count = side->count,
        .dtype = s->dtype,
        .guard = GUARD_BYTE,
    };
    enum sl_err rc = CUDA_LAUNCH(j->dev, cuda_stream(j->stream),
                                 CUDA_oracle_compare, 1, 1, &a);

    if (rc == SL_OK)
        rc = cuda_copy(j->stream, v, a.out, sizeof(*v), KERN_TO_HOST);
    return rc == SL_OK ? cuda_stream_sync(j->stream) : rc;
}

// Runs a candidate once, and compares.
static enum sl_err judge_run(struct judge *j, const struct judge_candidate *c,
                             unsigned again, bool *wrong)
{
    void *io[KERN_IO] = {NULL};
    enum sl_err rc;

    judge_io(j, again, io);
    rc = c->run(c->arg, c->i, cuda_stream(j->stream), io,
                judge_at(j, j->workspace));
    for (unsigned k = 0; k < j->sides && rc == SL_OK && !*wrong; k++) {
        struct oracle_verdict v;

        rc = judge_compare(j, &j->side[k], again, &v);
        *wrong = rc == SL_OK && (v.wrong > 0 || v.beyond > 0);
        if (*wrong)
            j->fault = (struct judge_fault){k, again, v};
    }
    kern_beat();
    return rc;
}

// Returns true if an error of a candidate's run is its library's refusal, and
// not the device's failure.
static bool judge_refused(enum sl_err rc)
{
    return rc == SL_EINTERNAL || rc == SL_ENOTSUP || rc == SL_ENOMEM;
}

// Notes that a candidate is refused, and says why: once, as it is not asked
// again. One without memory is asked again at the next start.
static enum sl_err judge_refuse(struct judge *j,
                                const struct judge_candidate *c, enum sl_err rc)
{
    char shape[300];

    vendor_tell_next(j->dev, &j->desc, c->impl);
    answer_refused(j->why, c->impl, j->dev->name,
                   kern_desc_text(shape, sizeof(shape), &j->desc),
                   j->dev->fault);
    return judge_note(&vendor(j->dev)->book, judge_key(j, c),
                      kern_desc_hash(&j->desc), j->why, rc == SL_ENOMEM);
}

// Runs a candidate at both alignments, or up to its first mistake.
static enum sl_err judge_check(struct judge *j, const struct judge_candidate *c,
                               bool *wrong)
{
    enum sl_err rc = SL_OK;

    *wrong = false;
    for (unsigned again = 0; again < 2 && rc == SL_OK && !*wrong; again++) {
        rc = judge_fill(j, again);
        if (rc == SL_OK)
            rc = judge_run(j, c, again, wrong);
    }
    return rc;
}

// Checks a candidate that was wrong once more, from the beginning: a bit of
// this host may have flipped. Without memory for that nothing is kept.
static enum sl_err judge_check_again(struct judge *j,
                                     const struct judge_candidate *c,
                                     enum proof_shows *shows)
{
    struct judge_fault first = j->fault;
    bool wrong = false;
    enum sl_err rc;

    cuda_release(&j->dev->base, &j->mem);
    rc = judge_make(j);
    if (rc == SL_OK)
        rc = judge_check(j, c, &wrong);
    *shows = rc != SL_OK ? PROOF_UNSURE : wrong ? PROOF_WRONG : PROOF_ONCE;
    j->fault = first;
    return rc == SL_ENOMEM || judge_refused(rc) ? SL_OK : rc;
}

static void judge_tell_unchecked(const struct judge *j,
                                 const struct judge_candidate *c)
{
    char shape[300];

    LOG(WARN, "no memory to check a kernel; it is used unchecked",
        "op=%s kernel=%s backend=%s",
        kern_desc_text(shape, sizeof(shape), &j->desc), c->impl, j->dev->name);
}

enum sl_err judge_try(bool *right, struct judge *j,
                      const struct judge_candidate *c)
{
    uint64_t began = sl_now_ms(sl_clock_real());
    enum proof_shows shows = PROOF_RIGHT;
    bool wrong;
    enum sl_err rc;

    *right = true;
    if (!vendor(j->dev)->options.prove || judge_knows(j, c, right))
        return SL_OK;
    rc = judge_make(j);
    // A job that fills the GPU's memory must not fail because of its proofs.
    if (rc == SL_ENOMEM) {
        judge_tell_unchecked(j, c);
        return SL_OK;
    }
    if (rc != SL_OK)
        return rc;
    rc = judge_check(j, c, &wrong);
    if (rc == SL_OK && wrong)
        rc = judge_check_again(j, c, &shows);
    *right = rc == SL_OK && !wrong;
    if (judge_refused(rc))
        return judge_refuse(j, c, rc);
    if (rc != SL_OK)
        return rc;
    if (wrong)
        judge_tell_wrong(j, c, shows);
    return judge_learn(j, c, shows, sl_now_ms(sl_clock_real()) - began);
}

enum sl_err judge_fail(const struct judge *j, enum sl_err rc,
                       struct sl_error *err)
{
    return sl_fail(err, rc, "op %s cannot be compared with what is right: %s",
                   kern_op_name((enum kern_op)j->desc.op),
                   rc == SL_ENOMEM ? "out of memory; use a smaller batch"
                                   : j->dev->fault);
}
