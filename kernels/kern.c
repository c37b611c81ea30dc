// SPDX-License-Identifier: Apache-2.0
// kernels/kern.c -- choosing a backend, and ref behind every host backend.
#include "kernels/kern.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/run/log.h"
#include "kernels/beat.h"
#include "kernels/cpu/cpu.h"
#include "kernels/desc.h"
#include "kernels/cuda_loader.h"
#include "kernels/flaky.h"
#include "kernels/processor.h"
#include "kernels/prove/answer.h"
#include "kernels/prove/prove.h"
#include "kernels/ref/ref.h"

// Best first. ref is last and always works.
static const struct kern_backend *const backends[] = {&kern_cuda_loader,
                                                      &kern_cpu, &kern_ref};

const struct kern_backend *kern_backend_at(unsigned i)
{
    return i < SL_COUNT(backends) ? backends[i] : NULL;
}

// ---- Opening --------------------------------------------------------------

// Of "threads=2,cuda.tf32=0" the words for this backend: those without a name
// before a dot, and those with its own. NULL: no memory. sl_free.
static char *options_of(const struct kern_backend *backend, const char *options)
{
    size_t name = strlen(backend->name), used = 0;
    char *out = sl_malloc(strlen(options) + 1);

    while (out && *options) {
        size_t n = strcspn(options, ","), key = strcspn(options, "=,.");
        const char *word = options;
        bool named = options[key] == '.';

        options += n + (options[n] == ',');
        if (named && (key != name || memcmp(word, backend->name, name) != 0))
            continue;
        if (named) {
            word += name + 1;
            n -= name + 1;
        }
        if (used > 0)
            out[used++] = ',';
        memcpy(out + used, word, n);
        used += n;
    }
    if (out)
        out[used] = '\0';
    return out;
}

// Returns the first word that begins with `key` ("prove="); NULL: there is
// none.
static char *find_word(char *options, const char *key)
{
    while (*options && strncmp(options, key, strlen(key)) != 0) {
        options += strcspn(options, ",");
        options += *options == ',';
    }
    return *options ? options : NULL;
}

// Takes the words that begin with `key` ("prove=") out of the options. *value
// becomes what is behind the key of the last one, for sl_free; NULL: there is
// none. SL_ENOMEM leaves it as it was.
static enum sl_err take_word(char **value, char *options, const char *key)
{
    size_t skip = strlen(key);
    char *word, *last = NULL;

    while ((word = find_word(options, key)) != NULL) {
        size_t length = strcspn(word, ",");
        char *next = word + length + (word[length] == ',');

        sl_free(last);
        last = sl_strndup(word + skip, length - skip);
        if (!last)
            return SL_ENOMEM;
        memmove(word, next, strlen(next) + 1);
    }
    *value = last;
    return SL_OK;
}

// Returns a hash of all that decides how this device computes.
static uint64_t hash_host(struct kern_dev *dev, const char *options)
{
    const struct processor *cpu = processor_here();
    struct kern_info info;

    dev->backend->info(&info, dev);
    return sl_mix64(
               sl_hash64(cpu->model, strlen(cpu->model)) ^
               sl_mix64(sl_hash64(cpu->microcode, strlen(cpu->microcode))) ^
               sl_hash64(info.name, strlen(info.name))) ^
           sl_mix64(sl_hash64(options, strlen(options)) ^ info.threads) ^
           sl_hash64(SLUICE_VERSION, strlen(SLUICE_VERSION));
}

// A backend's own words; owned.
struct kern_words {
    char *all;
    char *rest;  // the words without prove= and the file of proofs
    char *prove; // value of prove=, "0" or "1"; NULL: the word is not given
    char *file;  // path of the file of proofs; NULL: proofs are not kept
};

static void words_release(struct kern_words *words)
{
    sl_free(words->all);
    sl_free(words->rest);
    sl_free(words->prove);
    sl_free(words->file);
}

// Fills *out, for words_release in any case. SL_ENOMEM.
static enum sl_err words_split(struct kern_words *out,
                               const struct kern_backend *backend,
                               const char *options)
{
    const char *file = backend->host ? "proofs=" : "plans=";
    enum sl_err rc;

    *out = (struct kern_words){.all = options_of(backend, options)};
    out->rest = out->all ? sl_strdup(out->all) : NULL;
    if (!out->rest)
        return SL_ENOMEM;
    rc = take_word(&out->prove, out->rest, "prove=");
    return rc == SL_OK ? take_word(&out->file, out->rest, file) : rc;
}

// Gives a device what it learns of its plans, and a host backend its reference.
// The products of a device prove themselves there, its own kernels here.
static enum sl_err add_prover(struct kern_dev *dev,
                              const struct kern_words *words,
                              struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (dev->backend->host)
        rc = kern_ref.open(&dev->fallback, 0, NULL, err);
    if (rc != SL_OK || (words->prove && strcmp(words->prove, "0") == 0))
        return rc;
    dev->prover = prover_new(words->file, hash_host(dev, words->rest));
    return dev->prover ? SL_OK
                       : sl_fail(err, SL_ENOMEM, "backend %s: out of memory",
                                 dev->backend->name);
}

// Opens a backend with its own words, all of which a device reads as well.
static enum sl_err kern_open_with(struct kern_dev **out,
                                  const struct kern_backend *backend,
                                  int ordinal, const struct kern_words *words,
                                  struct sl_error *err)
{
    const char *given = backend->host ? words->rest : words->all;
    struct kern_dev *dev = NULL;
    enum sl_err rc;

    if (words->prove && strcmp(words->prove, "0") != 0 &&
        strcmp(words->prove, "1") != 0)
        return sl_fail(err, SL_EINVAL, "option \"prove=%s\" is not prove=0|1",
                       words->prove);
    rc = backend->open(&dev, ordinal, *given ? given : NULL, err);
    if (rc == SL_OK && dev->backend != &kern_ref) {
        rc = add_prover(dev, words, err);
        if (rc != SL_OK)
            kern_close(dev);
    }
    if (rc == SL_OK)
        *out = dev;
    return rc;
}

static enum sl_err kern_open_backend(struct kern_dev **out,
                                     const struct kern_backend *backend,
                                     int ordinal, const char *options,
                                     struct sl_error *err)
{
    struct kern_words words;
    enum sl_err rc = words_split(&words, backend, options ? options : "");

    if (rc == SL_OK)
        rc = kern_open_with(out, backend, ordinal, &words, err);
    else
        sl_fail(err, rc, "backend %s: out of memory", backend->name);
    words_release(&words);
    return rc;
}

// The first that is usable and opens; why one above it is not is one line each.
// Wrong options are the caller's mistake, and no reason to go on.
static enum sl_err open_best(struct kern_dev **out, const char *options,
                             struct sl_error *err)
{
    enum sl_err rc = SL_ENOTSUP;

    for (unsigned i = 0; i < SL_COUNT(backends); i++) {
        struct sl_error why = SL_ERROR_INIT;

        if (backends[i]->probe(why.text, sizeof(why.text)) > 0) {
            rc = kern_open_backend(out, backends[i], 0, options, &why);
            if (rc == SL_OK || rc == SL_EINVAL || backends[i]->host)
                return rc == SL_OK ? rc : sl_fail(err, rc, "%s", why.text);
            LOG(WARN, "device cannot be opened; taking the next backend",
                "backend=%s error=%s", backends[i]->name, why.text);
        } else {
            LOG(INFO, "no usable device for this backend; taking the next",
                "backend=%s why=%s", backends[i]->name, why.text);
        }
    }
    return sl_fail(err, rc, "no backend is usable on this host");
}

// "cuda:1" is device 1 of cuda.
static const struct kern_backend *kern_backend_by_name(const char *name,
                                                       int *ordinal)
{
    size_t n = strcspn(name, ":");
    char *end = NULL;
    long number = 0;

    if (name[n] == ':') {
        number = strtol(name + n + 1, &end, 10);
        if (name[n + 1] < '0' || name[n + 1] > '9' || *end != '\0' ||
            number > 1024)
            return NULL;
    }
    *ordinal = (int)number;
    for (unsigned i = 0; i < SL_COUNT(backends); i++)
        if (strlen(backends[i]->name) == n &&
            memcmp(backends[i]->name, name, n) == 0 &&
            (name[n] == '\0' || !backends[i]->host))
            return backends[i];
    return NULL;
}

enum sl_err kern_open(struct kern_dev **out, const char *name,
                      const char *options, struct sl_error *err)
{
    const struct kern_backend *backend;
    char why[300] = "";
    int ordinal = 0, count;

    if (strcmp(name, "auto") == 0)
        return open_best(out, options, err);
#ifdef SLUICE_FAULTS
    if (strncmp(name, FLAKY_PREFIX, strlen(FLAKY_PREFIX)) == 0)
        return flaky_open(out, name + strlen(FLAKY_PREFIX), options, err);
#endif
    backend = kern_backend_by_name(name, &ordinal);
    if (!backend)
        return sl_fail(err, SL_ENOENT,
                       "no compute device is called \"%s\"; there are auto, "
                       "cuda, cuda:N, cpu and ref",
                       name);
    count = backend->probe(why, sizeof(why));
    if (count <= 0)
        return sl_fail(err, SL_ENOTSUP,
                       "device %s: %s; \"auto\" takes what there is", name,
                       why);
    if (ordinal >= count)
        return sl_fail(err, SL_ENOTSUP,
                       "there is no device %s: this host has %d, counted "
                       "from 0",
                       name, count);
    return kern_open_backend(out, backend, ordinal, options, err);
}

void kern_about(char *out, size_t n, struct kern_dev *dev)
{
    const struct kern_backend *b = dev->backend;

    if (n > 0)
        out[0] = '\0';
    if (b->size >= offsetof(struct kern_backend, about) + sizeof(b->about) &&
        b->about)
        b->about(out, n, dev);
}

struct proofs kern_proofs(struct kern_dev *dev)
{
    const struct kern_backend *b = dev->backend;
    struct proofs counts = prover_counts(dev->prover), there = {0};

    if (b->size >= offsetof(struct kern_backend, proofs) + sizeof(b->proofs) &&
        b->proofs)
        b->proofs(&there, dev);
    counts.checked += there.checked;
    counts.wrong += there.wrong;
    counts.ms += there.ms;
    return counts;
}

const char *kern_left_out(struct kern_dev *dev, const struct kern_desc *d,
                          unsigned i)
{
    const struct kern_backend *b = dev->backend;
    const char *why;
    unsigned here = 0;

    while ((why = prover_left_out(dev->prover, d, here)) != NULL)
        if (here++ == i)
            return why;
    return b->size >= offsetof(struct kern_backend, left_out) +
                           sizeof(b->left_out) &&
                   b->left_out
               ? b->left_out(dev, d, i - here)
               : NULL;
}

bool kern_has_optim(const struct kern_backend *b)
{
    return b->size >= offsetof(struct kern_backend, optim) + sizeof(b->optim) &&
           b->optim;
}

bool kern_has_peers(const struct kern_backend *backend)
{
    return backend->size >=
               offsetof(struct kern_backend, part) + sizeof(backend->part) &&
           backend->join != NULL;
}

void kern_close(struct kern_dev *dev)
{
    struct kern_dev *fallback;

    if (!dev)
        return;
    fallback = dev->fallback;
    prover_free(dev->prover);
    dev->backend->close(dev);
    kern_close(fallback);
}

// A backend that names no 16-bit dtype is not asked about mixed precision.
static int kern_dev_score(struct kern_dev *dev, const struct kern_desc *desc)
{
    struct kern_info info;

    if (!kern_desc_plain(desc)) {
        dev->backend->info(&info, dev);
        if (!(info.dtypes & (1u << KERN_F16 | 1u << KERN_BF16)))
            return 0;
    }
    return dev->backend->score(dev, desc);
}

// Returns the device that runs an op: the fallback for an empty op, as a
// library may divide by its size.
static struct kern_dev *kern_pick_dev(struct kern_dev *dev,
                                      const struct kern_desc *desc)
{
    return dev->fallback && kern_desc_empty(desc) ? dev->fallback : dev;
}

int kern_score(struct kern_dev *dev, const struct kern_desc *desc)
{
    int score;

    dev = kern_pick_dev(dev, desc);
    score = kern_dev_score(dev, desc);
    return score > 0 || !dev->fallback ? score
                                       : kern_score(dev->fallback, desc);
}

// Said once per op and device: such an op is slow, and no other log line tells.
static void tell_fallback(struct kern_dev *dev, const struct kern_desc *desc)
{
    uint64_t bit = (uint64_t)1 << (desc->op & 63);

    if (dev->logged & bit)
        return;
    dev->logged |= bit;
    LOG(WARN, "op is computed by the slow reference code", "op=%s backend=%s",
        kern_op_name((enum kern_op)desc->op), dev->backend->name);
}

// Says what a plan computed wrongly: its implementation is left out from then
// on.
static void tell_wrong(struct kern_dev *dev, const struct kern_desc *desc,
                       const struct kern_plan *plan,
                       const struct proof_fault *f, enum proof_shows shows)
{
    struct kern_info info;
    char shape[300], why[ANSWER_WHY];
    int output = f->element < 0 ? -1 : f->out - desc->inputs;

    dev->backend->info(&info, dev);
    log_event(LOG_LEVEL_ERROR, answer_log(shows),
              "op=%s kernel=%s backend=%s output=%d element=%" PRId64
              " got=%.9g want=%.9g bound=%.3g when=%s",
              kern_desc_text(shape, sizeof(shape), desc), plan->impl, info.name,
              output, f->element, f->got, f->want, f->bound, f->when);
    answer_explain(why, plan->impl, info.name, shape, f->element, output,
                   f->got, f->want, answer_again(shows));
    prover_explain(dev->prover, desc, plan->impl, why);
}

// Says that a plan did not run: its implementation is left out from then on,
// until the device is closed.
static void tell_refused(struct kern_dev *dev, const struct kern_desc *desc,
                         const struct kern_plan *plan, enum sl_err rc)
{
    struct kern_info info;
    char shape[300], why[ANSWER_WHY];
    const char *said = dev->backend->host ? "" : dev->backend->fault(dev);

    if (*said == '\0')
        said = sl_err_text(rc);
    dev->backend->info(&info, dev);
    log_event(LOG_LEVEL_ERROR, answer_log(PROOF_REFUSED),
              "op=%s kernel=%s backend=%s error=%s",
              kern_desc_text(shape, sizeof(shape), desc), plan->impl, info.name,
              said);
    answer_refused(why, plan->impl, info.name, shape, said);
    prover_explain(dev->prover, desc, plan->impl, why);
}

// Returns false for what has proved itself on its device, or has nothing to
// compute there.
static bool device_needs_proof(const struct kern_dev *dev,
                               const struct kern_desc *desc)
{
    return dev->backend->host ||
           (desc->op > KERN_CONV_WGRAD && !kern_desc_empty(desc));
}

// Compares a plan with ref. SL_EINTERNAL with fault->when: it is wrong. Without
// it SL_EINTERNAL and SL_ENOTSUP: it refuses to run.
static enum sl_err plan_check(struct kern_dev *dev, struct kern_plan *plan,
                              size_t workspace_bytes,
                              const struct kern_desc *desc,
                              struct proof_fault *fault, struct sl_error *err)
{
    return dev->backend->host ? prove_plan(plan, workspace_bytes, desc, fault)
                              : prove_on_device(dev, desc, fault, err);
}

// Checks what was wrong once more, from the beginning: another plan of the same
// implementation, in other memory, as a bit of this host may have flipped, also
// one of what the plan itself holds. What it was wrong in is told either way,
// and kept only if it is wrong again.
static enum sl_err plan_check_again(enum proof_shows *shows,
                                    struct kern_dev *dev,
                                    const struct kern_plan *first, size_t cap,
                                    const struct kern_desc *desc,
                                    struct sl_error *err)
{
    struct kern_plan *plan = NULL;
    struct proof_fault fault = {.when = NULL};
    size_t bytes = 0;
    enum sl_err rc = dev->backend->plan(&plan, &bytes, dev, desc, cap, err);

    if (rc == SL_OK && strcmp(plan->impl, first->impl) != 0)
        rc = SL_ENOTSUP; // the kernel is not chosen again
    if (rc == SL_OK)
        rc = plan_check(dev, plan, bytes, desc, &fault, err);
    kern_plan_free(plan);
    *shows = rc == SL_OK                        ? PROOF_ONCE
             : rc == SL_EINTERNAL && fault.when ? PROOF_WRONG
                                                : PROOF_UNSURE;
    return rc == SL_ELOST ? rc : SL_OK;
}

// Returns true if a check ended because the plan refuses to run, which is no
// wrong number and no lack of memory.
static bool plan_refused(enum sl_err rc, const struct proof_fault *fault)
{
    return !fault->when && (rc == SL_EINTERNAL || rc == SL_ENOTSUP);
}

// Lets a plan prove itself, unless its implementation has. SL_EINTERNAL: it is
// wrong or refuses to run, and left out from now on.
static enum sl_err plan_prove(struct kern_dev *dev, struct kern_plan *plan,
                              size_t workspace_bytes, size_t cap,
                              const struct kern_desc *desc,
                              struct sl_error *err)
{
    uint64_t began = sl_now_ms(sl_clock_real());
    enum proof_shows shows = PROOF_RIGHT;
    struct proof_fault fault;
    enum sl_err rc, kept;

    if (!dev->prover || prover_trusts(dev->prover, desc, plan->impl))
        return SL_OK;
    if (!device_needs_proof(dev, desc))
        return SL_OK;
    rc = plan_check(dev, plan, workspace_bytes, desc, &fault, err);
    if (rc == SL_EINTERNAL && fault.when)
        rc = plan_check_again(&shows, dev, plan, cap, desc, err);
    else if (plan_refused(rc, &fault))
        shows = PROOF_REFUSED;
    if (rc != SL_OK && shows != PROOF_REFUSED)
        return sl_fail(
            err, rc, "op %s cannot be compared with its reference%s%s",
            kern_op_name((enum kern_op)desc->op), rc == SL_ELOST ? ": " : "",
            rc == SL_ELOST ? dev->backend->fault(dev) : "");
    kept = prover_learn(dev->prover, desc, plan->impl, shows,
                        sl_now_ms(sl_clock_real()) - began);
    if (shows == PROOF_REFUSED)
        tell_refused(dev, desc, plan, rc);
    else if (shows != PROOF_RIGHT)
        tell_wrong(dev, desc, plan, &fault, shows);
    if (kept != SL_OK)
        return sl_fail(err, kept, "backend %s: out of memory",
                       dev->backend->name);
    return shows == PROOF_RIGHT ? SL_OK : SL_EINTERNAL;
}

// Returns what an op ends with that no kernel of its backend computes rightly:
// ref computes it for a host; a device has no other kernel.
static enum sl_err plan_none_right(struct kern_dev *dev,
                                   const struct kern_desc *desc,
                                   struct sl_error *err)
{
    const char *why = kern_left_out(dev, desc, 0);

    if (dev->backend->host)
        return SL_ENOTSUP;
    return sl_fail(err, SL_EINTERNAL,
                   "the only kernel for %s is wrong on this host or does not "
                   "run: %s. Start the worker anew, which checks it again "
                   "unless it was wrong twice; else let it use another device "
                   "(--device), or update the driver and delete the file of "
                   "--plans",
                   kern_op_name((enum kern_op)desc->op), why ? why : "");
}

// Plans on a device until a plan is right. SL_ENOTSUP: it has none;
// SL_EINTERNAL: those that a device has are wrong.
static enum sl_err plan_right(struct kern_plan **out, size_t *workspace_bytes,
                              struct kern_dev *dev,
                              const struct kern_desc *desc, size_t cap,
                              struct sl_error *err)
{
    struct kern_plan *plan = NULL;
    size_t bytes = 0;
    enum sl_err rc;

    for (;;) {
        rc = dev->backend->plan(&plan, &bytes, dev, desc, cap, err);
        if (rc != SL_OK)
            return rc;
        // The backend plans the same implementation again: it has no other.
        if (prover_avoids(dev->prover, desc, plan->impl)) {
            kern_plan_free(plan);
            return plan_none_right(dev, desc, err);
        }
        rc = plan_prove(dev, plan, bytes, cap, desc, err);
        if (rc == SL_OK)
            break;
        kern_plan_free(plan);
        if (rc != SL_EINTERNAL)
            return rc;
    }
    *out = plan;
    *workspace_bytes = bytes;
    return SL_OK;
}

enum sl_err kern_plan_new(struct kern_plan **out, size_t *workspace_bytes,
                          struct kern_dev *dev, const struct kern_desc *desc,
                          size_t workspace_cap_bytes, struct sl_error *err)
{
    size_t cap = workspace_cap_bytes ? workspace_cap_bytes : SIZE_MAX;
    enum sl_err rc = kern_desc_check(desc, err);

    kern_beat();
    if (rc != SL_OK)
        return rc;
    dev = kern_pick_dev(dev, desc);
    rc = SL_ENOTSUP;
    if (kern_dev_score(dev, desc) > 0)
        rc = plan_right(out, workspace_bytes, dev, desc, cap, err);
    if (rc != SL_ENOTSUP)
        return rc;
    if (!dev->fallback)
        return sl_fail(err, SL_ENOTSUP, "backend %s cannot compute op %s",
                       dev->backend->name,
                       kern_op_name((enum kern_op)desc->op));
    tell_fallback(dev, desc);
    dev = dev->fallback;
    return dev->backend->plan(out, workspace_bytes, dev, desc, cap, err);
}

void kern_plan_free(struct kern_plan *plan)
{
    if (plan)
        plan->backend->plan_free(plan);
}
