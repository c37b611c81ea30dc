// SPDX-License-Identifier: Apache-2.0
// proto/model_words.c -- the names of layers, activations and initializers.
#include "proto/model_build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/suggest.h"

static const char *const layer_names[] = {
#define LAYER(code, name, ...) name,
#include "proto/layers.def"
};

static const char *const act_names[] = {
    "linear",
#define ACTIVATION(code, name, ...) name,
#include "proto/layers.def"
};

unsigned model_edition_known(void)
{
    static const unsigned editions[] = {
        MODEL_EDITION_INPUTS,       MODEL_EDITION_TABLES,
        MODEL_EDITION_ROWS,         MODEL_EDITION_ROUNDS,
        MODEL_EDITION_PARTS,        MODEL_EDITION_INT8,
        MODEL_EDITION_LOCAL,        MODEL_EDITION_OPEN,
        MODEL_EDITION_CODED,        MODEL_EDITION_AUDITED,
        MODEL_EDITION_SETS,         MODEL_EDITION_PACES,
        MODEL_EDITION_AVERAGES,     MODEL_EDITION_BESIDE,
        MODEL_EDITION_FRAGMENTS,    MODEL_EDITION_BESIDE_RINGS,
        MODEL_EDITION_MOMENTS,      MODEL_EDITION_MOVES,
        MODEL_EDITION_FORMED,       MODEL_EDITION_FROZEN,
        MODEL_EDITION_FILES,        MODEL_EDITION_RECORDS,
        MODEL_EDITION_ARCHIVES,     MODEL_EDITION_FEEDS,
        MODEL_EDITION_ORTHOGONAL,   MODEL_EDITION_RING_PROGRAMS,
        MODEL_EDITION_REPLICAS,     MODEL_EDITION_PLACES,
        MODEL_EDITION_AUGMENT,      MODEL_EDITION_LABELS,
        MODEL_EDITION_VALIDATION,   MODEL_EDITION_WEIGHTS,
        MODEL_EDITION_MASKS,        MODEL_EDITION_WEIGHED,
        MODEL_EDITION_SHARES,       MODEL_EDITION_ENCODES,
        MODEL_EDITION_FOLLOWS,      MODEL_EDITION_LIBSVM,
        MODEL_EDITION_PROGRAM_SETS, MODEL_EDITION_OUTPUTS,
#define LAYER(code, name, edition, ...) edition,
#include "proto/layers.def"
#define OPTIMIZER(code, name, edition, ...) edition,
#include "plan/optimizers.def"
    };
    unsigned known = 0;

    for (size_t i = 0; i < SL_COUNT(editions); i++)
        if (editions[i] > known)
            known = editions[i];
    return known;
}

const char *model_layer_name(enum model_layer type)
{
    return type == MODEL_INPUT ? "input" : layer_names[type - 1];
}

const char *model_act_name(enum model_act act)
{
    return act_names[act];
}

enum model_layer model_layer_by_name(const char *name)
{
    for (unsigned i = 0; i < SL_COUNT(layer_names); i++)
        if (strcmp(name, layer_names[i]) == 0)
            return (enum model_layer)(i + 1);
    return MODEL_LAYER_COUNT;
}

bool model_recurrent(const char *name)
{
    enum model_layer type =
        name != NULL ? model_layer_by_name(name) : MODEL_LAYER_COUNT;

    return type == MODEL_LSTM || type == MODEL_GRU || type == MODEL_SIMPLE_RNN;
}

enum model_act model_act_by_name(const char *name)
{
    for (unsigned i = 0; i < SL_COUNT(act_names); i++)
        if (strcmp(name, act_names[i]) == 0)
            return (enum model_act)i;
    return MODEL_ACT_COUNT;
}

// Appends the names, without those that end in 1d, which all have a twin that
// ends in 2d: all names are more than an error's text has room for.
static void append_names(struct buf *list, const char *const *names,
                         size_t count)
{
    bool twins = false;

    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(names[i]);
        bool line = n > 2 && strcmp(names[i] + n - 2, "1d") == 0;

        twins = twins || line;
        if (!line)
            (void)buf_appendf(list, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    if (twins)
        (void)buf_appendf(list, "; each with 2d also with 1d");
}

static enum sl_err model_unknown_word(const char *where, const char *what,
                                      const char *word,
                                      const char *const *names, size_t count,
                                      struct sl_error *err)
{
    const char *near = sl_suggest(word, names, count);
    struct buf list = BUF_INIT;
    enum sl_err rc;

    append_names(&list, names, count);
    rc = sl_fail(err, SL_EINVAL, "%s: unknown %s '%.60s'%s%s%s known are %s",
                 where, what, word, near != NULL ? "; did you mean '" : ";",
                 near != NULL ? near : "", near != NULL ? "'?" : "",
                 buf_text(&list));
    buf_release(&list);
    return rc;
}

enum sl_err model_unknown_layer(const char *where, const char *word,
                                struct sl_error *err)
{
    return model_unknown_word(where, "layer type", word, layer_names,
                              SL_COUNT(layer_names), err);
}

enum sl_err model_unknown_act(const char *where, const char *word,
                              struct sl_error *err)
{
    return model_unknown_word(where, "activation", word, act_names,
                              SL_COUNT(act_names), err);
}

bool model_name_ok(const char *name, const char *also, size_t max)
{
    size_t len = strlen(name);

    if (len == 0 || len > max)
        return false;
    for (; *name != '\0'; name++)
        if (!(*name >= 'a' && *name <= 'z') &&
            !(*name >= 'A' && *name <= 'Z') &&
            !(*name >= '0' && *name <= '9') && strchr(also, *name) == NULL)
            return false;
    return true;
}

// ---- initializers

enum scaling { FAN_NONE, FAN_IN, FAN_AVG, FAN_OUT };

// With a fan, b is Keras' VarianceScaling `scale`; else a and b as they are.
static const struct named_initializer {
    const char *name;
    enum model_init_kind kind;
    enum scaling fan;
    double a, b;
} initializers[] = {
    {"zeros", MODEL_INIT_CONSTANT, FAN_NONE, 0, 0},
    {"ones", MODEL_INIT_CONSTANT, FAN_NONE, 1, 0},
    {"random_normal", MODEL_INIT_NORMAL, FAN_NONE, 0, 0.05},
    {"random_uniform", MODEL_INIT_UNIFORM, FAN_NONE, -0.05, 0.05},
    {"truncated_normal", MODEL_INIT_TRUNCATED_NORMAL, FAN_NONE, 0, 0.05},
    {"glorot_uniform", MODEL_INIT_UNIFORM, FAN_AVG, 0, 1},
    {"glorot_normal", MODEL_INIT_TRUNCATED_NORMAL, FAN_AVG, 0, 1},
    {"he_uniform", MODEL_INIT_UNIFORM, FAN_IN, 0, 2},
    {"he_normal", MODEL_INIT_TRUNCATED_NORMAL, FAN_IN, 0, 2},
    {"lecun_uniform", MODEL_INIT_UNIFORM, FAN_IN, 0, 1},
    {"lecun_normal", MODEL_INIT_TRUNCATED_NORMAL, FAN_IN, 0, 1},
};

// Standard deviation of a standard normal cut at two deviations: Keras divides
// by it, so that what is drawn has the deviation that was asked for.
#define TRUNCATED_STDDEV 0.87962566103423978

static struct model_init model_scale_init(const struct named_initializer *from,
                                          double fan_in, double fan_out)
{
    double fan = from->fan == FAN_IN    ? fan_in
                 : from->fan == FAN_OUT ? fan_out
                                        : (fan_in + fan_out) / 2;
    double scale = from->b / fmax(1, fan);

    if (from->kind == MODEL_INIT_UNIFORM)
        return (struct model_init){MODEL_INIT_UNIFORM, -sqrt(3 * scale),
                                   sqrt(3 * scale)};
    if (from->kind == MODEL_INIT_NORMAL)
        return (struct model_init){from->kind, 0, sqrt(scale)};
    return (struct model_init){from->kind, 0, sqrt(scale) / TRUNCATED_STDDEV};
}

// ---- with arguments: "random_normal(0, 0.01)"

static const struct formed_initializer {
    const char *name, *form; // form: of what stands behind the name
    enum model_init_kind kind;
    unsigned numbers;
} formed[] = {
    {"constant", "(value)", MODEL_INIT_CONSTANT, 1},
    {"random_normal", "(mean, stddev)", MODEL_INIT_NORMAL, 2},
    {"random_uniform", "(min, max)", MODEL_INIT_UNIFORM, 2},
    {"truncated_normal", "(mean, stddev)", MODEL_INIT_TRUNCATED_NORMAL, 2},
    {"variance_scaling",
     "(scale, fan_in | fan_out | fan_avg, uniform | "
     "truncated_normal | untruncated_normal)",
     MODEL_INIT_UNIFORM, 1},
};

bool model_initializer_formed(const char *name)
{
    return strchr(name, '(') != NULL;
}

// Reads `from`, "(1, fan_in, uniform)", after the name variance_scaling.
static bool read_scaling(struct named_initializer *to, const char *from)
{
    static const char *const fans[] = {"fan_in", "fan_avg", "fan_out"};
    static const char *const kinds[] = {"uniform", "untruncated_normal",
                                        "truncated_normal"};
    char fan[10] = "", kind[20] = "";
    int end = 0;

    if (sscanf(from, "(%lf , %9[a-z_] , %19[a-z_] )%n", &to->b, fan, kind,
               &end) != 3 ||
        end == 0 || from[end] != '\0' || !(to->b > 0))
        return false;
    for (unsigned i = 0; i < SL_COUNT(fans); i++) {
        if (strcmp(fan, fans[i]) == 0)
            to->fan = FAN_IN + i;
        if (strcmp(kind, kinds[i]) == 0)
            to->kind = MODEL_INIT_UNIFORM + i;
    }
    return to->fan != FAN_NONE && to->kind != MODEL_INIT_CONSTANT;
}

// Reads `from`, "(0, 0.01)", after the name of `f`.
static bool read_formed(struct named_initializer *to,
                        const struct formed_initializer *f, const char *from)
{
    bool one = f->numbers == 1;
    int end = 0, got;

    *to = (struct named_initializer){.kind = f->kind};
    if (strcmp(f->name, "variance_scaling") == 0) {
        to->kind = MODEL_INIT_CONSTANT;
        return read_scaling(to, from);
    }
    got = one ? sscanf(from, "(%lf )%n", &to->a, &end)
              : sscanf(from, "(%lf , %lf )%n", &to->a, &to->b, &end);
    return got == (int)f->numbers && end > 0 && from[end] == '\0' &&
           (one || to->b > (f->kind == MODEL_INIT_UNIFORM ? to->a : 0));
}

// Makes *out of `name`, which has arguments.
static enum sl_err make_formed(struct model_init *out, const char *name,
                               double fan_in, double fan_out, const char *where,
                               struct sl_error *err)
{
    size_t len = strcspn(name, "(");
    const char *names[SL_COUNT(formed)];
    struct named_initializer is;

    for (unsigned i = 0; i < SL_COUNT(formed); i++) {
        const struct formed_initializer *f = &formed[i];

        names[i] = f->name;
        if (strlen(f->name) != len || strncmp(f->name, name, len) != 0)
            continue;
        if (!read_formed(&is, f, name + len) || !isfinite((float)is.a) ||
            !isfinite((float)is.b))
            return sl_fail(err, SL_EINVAL,
                           "%s: wants %s%s, of finite numbers%s, got '%.60s'",
                           where, f->name, f->form,
                           f->kind == MODEL_INIT_CONSTANT ? ""
                           : f->kind == MODEL_INIT_UNIFORM && f->numbers > 1
                               ? ", min below max"
                               : " above 0 but for a mean",
                           name);
        *out = is.fan == FAN_NONE ? (struct model_init){is.kind, is.a, is.b}
                                  : model_scale_init(&is, fan_in, fan_out);
        return SL_OK;
    }
    return model_unknown_word(where, "initializer with arguments", name, names,
                              SL_COUNT(names), err);
}

enum sl_err model_orthogonal(struct model_init *out,
                             const struct model_shape *shape, uint64_t *work,
                             const char *where, struct sl_error *err)
{
    uint64_t all, fewer, rows = shape->dim[0], columns;

    if (shape_product(&all, shape) != SL_OK)
        return sl_fail(err, SL_EINVAL, "%s: a kernel has at most %llu elements",
                       where, (unsigned long long)MODEL_VARIABLE_MAX);
    columns = all / rows;
    fewer = rows < columns ? rows : columns;
    if (all > MODEL_ORTHOGONAL_MOST / fewer)
        return sl_fail(
            err, SL_EINVAL,
            "%s: a kernel of %llu x %llu is too large for the "
            "initializer orthogonal: say another one (of a recurrent "
            "layer recurrent_initializer: glorot_uniform)",
            where, (unsigned long long)rows, (unsigned long long)columns);
    *work += all * fewer;
    if (*work > MODEL_ORTHOGONAL_ALL)
        return sl_fail(err, SL_EINVAL,
                       "%s: the initializer orthogonal of this and of the "
                       "layers before would take each psserver minutes: say "
                       "another one (of a recurrent layer "
                       "recurrent_initializer: glorot_uniform)",
                       where);
    *out = (struct model_init){MODEL_INIT_ORTHOGONAL, (double)rows,
                               (double)columns};
    return SL_OK;
}

enum sl_err model_initializer(struct model_init *out, const char *name,
                              double fan_in, double fan_out, const char *where,
                              struct sl_error *err)
{
    const char *names[SL_COUNT(initializers)];

    if (model_initializer_formed(name))
        return make_formed(out, name, fan_in, fan_out, where, err);
    for (unsigned i = 0; i < SL_COUNT(initializers); i++) {
        const struct named_initializer *from = &initializers[i];

        names[i] = from->name;
        if (strcmp(name, from->name) != 0)
            continue;
        *out = from->fan == FAN_NONE
                   ? (struct model_init){from->kind, from->a, from->b}
                   : model_scale_init(from, fan_in, fan_out);
        return SL_OK;
    }
    return model_unknown_word(where, "initializer", name, names,
                              SL_COUNT(names), err);
}
