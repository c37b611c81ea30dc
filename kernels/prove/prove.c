// SPDX-License-Identifier: Apache-2.0
// kernels/prove/prove.c -- running a plan twice, and comparing parts with ref.
#include "kernels/prove/prove.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "kernels/beat.h"
#include "kernels/plans.h"
#include "kernels/prove/answer.h"
#include "kernels/prove/bound.h"
#include "kernels/prove/excerpt.h"
#include "kernels/prove/pages.h"

#define PARTS 3
#define PART_WORK 4e5 // multiplications that ref does for a part: under 1 ms
#define SHIFT 36      // bytes off a cache line, of the second run
#define IMPL 64

// ---- What is known ----------------------------------------------------------

struct known {
    uint64_t desc; // hash
    bool right;
    bool once; // no file keeps it
    char impl[IMPL];
    char *why; // it is wrong, in words; owned; NULL: not said
};

struct prover {
    struct known *known; // owned
    size_t count, space;
    struct proofs counts;
    struct plans kept;
    char *path; // of kept; owned
    uint64_t host;
};

struct prover *prover_new(const char *path, uint64_t host)
{
    struct prover *p = sl_calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->host = host;
    p->path = path ? sl_strdup(path) : NULL;
    if (path && !p->path) {
        sl_free(p);
        return NULL;
    }
    plans_open(&p->kept, p->path);
    return p;
}

void prover_free(struct prover *p)
{
    if (!p)
        return;
    plans_close(&p->kept);
    sl_free(p->path);
    for (size_t i = 0; i < p->count; i++)
        sl_free(p->known[i].why);
    sl_free(p->known);
    sl_free(p);
}

// Returns the key of an op's implementation in the file.
static uint64_t key_of(uint64_t desc, const char *impl)
{
    return sl_mix64(desc ^ sl_hash64(impl, strlen(impl)));
}

static struct known *prover_find(const struct prover *p, uint64_t desc,
                                 const char *impl)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->known[i].desc == desc &&
            strncmp(p->known[i].impl, impl, IMPL - 1) == 0)
            return &p->known[i];
    return NULL;
}

// Returns a new entry, of which nothing is said yet; NULL: no memory.
static struct known *prover_add(struct prover *p, uint64_t desc,
                                const char *impl)
{
    struct known *k;

    if (p->count == p->space) {
        size_t space = p->space ? 2 * p->space : 64;
        struct known *more = sl_realloc(p->known, space * sizeof(*more));

        if (!more)
            return NULL;
        p->known = more;
        p->space = space;
    }
    k = &p->known[p->count++];
    *k = (struct known){.desc = desc};
    snprintf(k->impl, IMPL, "%s", impl);
    return k;
}

// Returns what is known of an implementation, if need be from the file; NULL:
// nothing.
static struct known *prover_recall(struct prover *p, const struct kern_desc *d,
                                   const char *impl)
{
    uint64_t desc = kern_desc_hash(d);
    struct known *k = prover_find(p, desc, impl);
    struct buf payload = BUF_INIT;

    if (!k && plans_find(&payload, &p->kept, ANSWER_KIND, p->host,
                         key_of(desc, impl))) {
        const char *why;
        bool right;

        if (answer_read(buf_text(&payload), &right, &why))
            k = prover_add(p, desc, impl);
        if (k) {
            k->right = right;
            k->why = why ? sl_strdup(why) : NULL;
        }
    }
    buf_release(&payload);
    return k;
}

static void keep(struct prover *p, const struct known *k)
{
    struct buf payload = BUF_INIT;

    if (!p->path || k->once)
        return;
    if (answer_write(&payload, k->right, k->why) == SL_OK)
        plans_add(&p->kept, ANSWER_KIND, p->host, key_of(k->desc, k->impl),
                  &payload);
    buf_release(&payload);
}

bool prover_trusts(struct prover *p, const struct kern_desc *d,
                   const char *impl)
{
    const struct known *k = p ? prover_recall(p, d, impl) : NULL;

    return k && k->right;
}

bool prover_avoids(struct prover *p, const struct kern_desc *d,
                   const char *impl)
{
    const struct known *k = p ? prover_recall(p, d, impl) : NULL;

    return k && !k->right;
}

enum sl_err prover_learn(struct prover *p, const struct kern_desc *d,
                         const char *impl, enum proof_shows shows, uint64_t ms)
{
    uint64_t desc = kern_desc_hash(d);
    struct known *k = prover_find(p, desc, impl);

    if (!k)
        k = prover_add(p, desc, impl);
    if (!k)
        return SL_ENOMEM;
    k->right = shows == PROOF_RIGHT;
    k->once = shows > PROOF_RIGHT;
    keep(p, k);
    p->counts.checked++;
    p->counts.wrong += !k->right && shows != PROOF_REFUSED;
    p->counts.ms += ms;
    return SL_OK;
}

void prover_explain(struct prover *p, const struct kern_desc *d,
                    const char *impl, const char *why)
{
    struct known *k = prover_find(p, kern_desc_hash(d), impl);

    if (!k || k->right)
        return;
    sl_free(k->why);
    k->why = sl_strdup(why);
    keep(p, k);
}

const char *prover_left_out(const struct prover *p, const struct kern_desc *d,
                            unsigned i)
{
    uint64_t desc = d ? kern_desc_hash(d) : 0;

    for (size_t k = 0; p && k < p->count; k++)
        if (!p->known[k].right && (!d || p->known[k].desc == desc) && i-- == 0)
            return p->known[k].why ? p->known[k].why : p->known[k].impl;
    return NULL;
}

bool prover_kept(const struct prover *p, const char *kind,
                 const struct kern_desc *d, struct buf *out)
{
    return p && plans_find(out, &p->kept, kind, p->host, kern_desc_hash(d));
}

void prover_keep(struct prover *p, const char *kind, const struct kern_desc *d,
                 const struct buf *what)
{
    if (p && p->path)
        plans_add(&p->kept, kind, p->host, kern_desc_hash(d), what);
}

// Appends what a line of a file says of a kernel that is wrong.
static enum sl_err list_line(struct buf *out, const char *line, size_t n)
{
    static const char mark[] = " " ANSWER_WRONG;
    const char *why = strstr(line, mark);

    if (strncmp(line, ANSWER_KIND " ", strlen(ANSWER_KIND) + 1) != 0 || !why)
        return SL_OK;
    why += strlen(mark);
    return why < line + n ? buf_appendf(out, "left out: %.*s\n",
                                        (int)(line + n - why), why)
                          : SL_OK;
}

enum sl_err proofs_list(struct buf *out, const char *path)
{
    char *copy = sl_strdup(path);
    enum sl_err rc = copy ? SL_OK : SL_ENOMEM;
    const char *line, *end;
    struct plans kept;

    plans_open(&kept, copy);
    for (line = buf_text(&kept.text); rc == SL_OK && (end = strchr(line, '\n'));
         line = end + 1)
        rc = list_line(out, line, (size_t)(end - line));
    plans_close(&kept);
    sl_free(copy);
    return rc;
}

struct proofs prover_counts(const struct prover *p)
{
    return p ? p->counts : (struct proofs){0};
}

// ---- A part -----------------------------------------------------------------

// A part of the op, as ref has it.
struct part {
    struct excerpt cut;
    struct trial ref;
    double *bound[KERN_IO]; // of the outputs that are compared; owned
};

static void part_free(struct part *p)
{
    for (unsigned i = 0; i < KERN_IO; i++)
        sl_free(p->bound[i]);
    trial_free(&p->ref);
}

static enum sl_err part_fill(struct part *p, struct trial *before,
                             const struct trial *whole)
{
    const struct kern_desc *d = &before->d;
    unsigned tensors = d->inputs + d->outputs;
    enum sl_err rc;

    for (unsigned i = 0; i < tensors; i++)
        excerpt_take(before->io[i], d, whole->io[i], &whole->d, &p->cut, i);
    trial_copy(&p->ref, before);
    rc = trial_run_ref(d, p->ref.io);
    for (unsigned i = d->inputs; i < tensors && rc == SL_OK; i++) {
        if (!(p->cut.outs >> i & 1))
            continue;
        p->bound[i] = trial_bound(before, &p->ref, i);
        rc = p->bound[i] ? SL_OK : SL_ENOMEM;
    }
    return rc;
}

// Takes a part out of the whole op, which has not run yet, and has ref compute
// it.
static enum sl_err part_make(struct part *p, const struct trial *whole)
{
    struct trial before;
    struct kern_desc d;
    enum sl_err rc;

    excerpt_desc(&d, &whole->d, &p->cut);
    rc = trial_new_mapped(&before, &d, 0);
    if (rc != SL_OK)
        return rc;
    rc = trial_new_mapped(&p->ref, &d, 0);
    if (rc == SL_OK)
        rc = part_fill(p, &before, whole);
    trial_free(&before);
    return rc;
}

// Compares one output of a part, which is at `got`, with ref.
static bool part_agrees(const struct part *p, const struct trial *whole,
                        unsigned out, const void *got,
                        struct proof_fault *fault)
{
    const struct kern_shape *s = &p->ref.d.io[out];
    const double *bound = p->bound[out];

    for (int64_t k = 0; k < kern_shape_count(s); k++) {
        double is = trial_get(s, got, k);
        double want = trial_get(s, p->ref.io[out], k);
        int64_t place;

        if (trial_agrees(is, want, bound[k]))
            continue;
        place = excerpt_place(&p->ref.d, &whole->d, &p->cut, out, k);
        if (!trial_owns(whole, out, place))
            continue;
        fault->out = (int)out;
        fault->element = place;
        fault->got = is;
        fault->want = want;
        fault->bound = bound[k];
        return false;
    }
    return true;
}

// Compares what the whole op computed with the part. SL_EINTERNAL: they differ.
static enum sl_err part_compare(const struct part *p, const struct trial *whole,
                                struct proof_fault *fault)
{
    const struct kern_desc *d = &p->ref.d;
    enum sl_err rc = SL_OK;

    for (unsigned out = d->inputs; out < d->inputs + d->outputs && rc == SL_OK;
         out++) {
        void *got;

        if (!p->bound[out] || kern_shape_count(&d->io[out]) == 0)
            continue;
        got = pages_new(p->ref.bytes[out]);
        if (!got)
            return SL_ENOMEM;
        excerpt_take(got, d, whole->io[out], &whole->d, &p->cut, out);
        if (!part_agrees(p, whole, out, got, fault))
            rc = SL_EINTERNAL;
        pages_free(got, p->ref.bytes[out]);
    }
    return rc;
}

// ---- A proof ----------------------------------------------------------------

struct proof {
    struct kern_plan *plan;
    struct part part[PARTS];
    unsigned parts; // 0 before the first run
    void *workspace;
};

// Chooses the parts: all of a small op; of a large one its first and its last
// rows and columns, and some in between.
static void choose_parts(struct proof *p, const struct kern_desc *d,
                         struct rng *rng)
{
    struct excerpt whole;

    excerpt_whole(&whole, d);
    excerpt_shrink(&whole, d, PART_WORK);
    p->parts =
        whole.count[0] == whole.length[0] && whole.count[1] == whole.length[1]
            ? 1
            : PARTS;
    for (unsigned k = 0; k < p->parts; k++) {
        p->part[k].cut = whole;
        for (int which = 0; which < CUT_AXES; which++) {
            int64_t room = whole.length[which] - whole.count[which];

            p->part[k].cut.from[which] =
                k == 0 || room == 0 ? 0
                : k == 1            ? room
                         : (int64_t)rng_below(rng, (uint64_t)room + 1);
        }
    }
}

// Takes the parts out of the tensors of the first run, and has ref compute
// them.
static enum sl_err proof_make_parts(struct proof *p, const struct trial *t,
                                    struct rng *rng)
{
    enum sl_err rc = SL_OK;

    choose_parts(p, &t->d, rng);
    for (unsigned k = 0; k < p->parts && rc == SL_OK; k++) {
        rc = part_make(&p->part[k], t);
        kern_beat();
    }
    return rc;
}

// Fills the tensors of a run: each time with the same values.
static enum sl_err proof_fill(struct proof *p, struct trial *t)
{
    const struct kern_desc *d = &t->d;
    size_t middle[KERN_IO] = {0};
    struct rng rng;
    enum sl_err rc;

    rng_init(&rng, PROVE_SEED, kern_desc_hash(d));
    rc = trial_fill(t, &rng);
    if (rc == SL_OK && p->parts == 0)
        rc = proof_make_parts(p, t, &rng);
    if (rc != SL_OK)
        return rc;
    for (unsigned i = d->inputs; i < d->inputs + d->outputs; i++) {
        const struct part *last = &p->part[p->parts - 1];

        middle[i] = (size_t)excerpt_place(&last->ref.d, d, &last->cut, i, 0) *
                    kern_dtype_bytes((enum kern_dtype)d->io[i].dtype);
    }
    return trial_settle(t, middle);
}

static enum sl_err proof_compare(const struct proof *p, const struct trial *t,
                                 struct proof_fault *fault)
{
    enum sl_err rc = SL_OK;

    for (unsigned k = 0; k < p->parts && rc == SL_OK; k++) {
        rc = part_compare(&p->part[k], t, fault);
        kern_beat();
    }
    if (rc == SL_OK && !trial_holds(t)) {
        fault->element = -1;
        rc = SL_EINTERNAL;
    }
    return rc;
}

// Runs the plan on tensors that are `shift` bytes off a cache line, and
// compares. The tensors of one run are gone before those of the next are made.
static enum sl_err proof_run(struct proof *p, const struct kern_desc *d,
                             size_t shift, const char *when,
                             struct proof_fault *fault)
{
    struct trial t;
    enum sl_err rc = trial_new_thin(&t, d, shift);

    if (rc == SL_OK)
        rc = proof_fill(p, &t);
    if (rc == SL_OK)
        rc = kern_run(p->plan, NULL, t.io, p->workspace);
    if (rc == SL_OK) {
        rc = proof_compare(p, &t, fault);
        fault->when = rc == SL_EINTERNAL ? when : NULL;
    }
    trial_free(&t);
    return rc;
}

enum sl_err prove_plan(struct kern_plan *plan, size_t workspace_bytes,
                       const struct kern_desc *d, struct proof_fault *fault)
{
    struct proof p = {.plan = plan, .workspace = pages_new(workspace_bytes)};
    enum sl_err rc;

    memset(fault, 0, sizeof(*fault));
    if (!p.workspace)
        return SL_ENOMEM;
    memset(p.workspace, 0xFF, workspace_bytes); // NaN: it may count on nothing
    rc = proof_run(&p, d, 0, "the first time", fault);
    if (rc == SL_OK)
        rc = proof_run(&p, d, SHIFT, "the second time", fault);
    for (unsigned k = 0; k < p.parts; k++)
        part_free(&p.part[k]);
    pages_free(p.workspace, workspace_bytes);
    return rc;
}
