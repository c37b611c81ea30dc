// SPDX-License-Identifier: Apache-2.0
// client/keras/keras_compile.c -- what a model was compiled with: optimizer,
// loss and metrics.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/keras/keras_inner.h"
#include "proto/spec.h"

// ---- arguments, by tables

enum how {
    COPY, // copied, unless the value is the default
    ZERO, // copied as COPY does; a JSON null becomes 0
    ONLY, // refused, unless the value is the default
    SKIP, // ignored: changes no result
};

struct argument {
    const char *key;
    enum how how;
    const char *field;     // of the spec; NULL: called as the key
    const char *otherwise; // the default, as JSON
};

// Steps are whole numbers in a job, and may be 1000.0 in Keras.
static json_t *copied(const json_t *value)
{
    double is = json_real_value(value);

    if (json_is_real(value) && fabs(is) >= 1 && fabs(is) < 1e15 &&
        floor(is) == is)
        return json_integer((json_int_t)is);
    return json_deep_copy(value);
}

static enum sl_err argument(json_t *to, const struct argument *a,
                            const json_t *value, const char *what,
                            struct sl_error *err)
{
    char text[KERAS_TEXT];

    if (a->how == SKIP || (json_is_null(value) && a->how != ZERO) ||
        (a->otherwise != NULL && keras_is(value, a->otherwise)))
        return SL_OK;
    if (a->how == ONLY)
        return sl_fail(err, SL_ENOTSUP,
                       "%s has %s: %s, which sluice does not know", what,
                       a->key, keras_text(text, value));
    if (json_object_set_new(to, a->field != NULL ? a->field : a->key,
                            json_is_null(value) ? json_integer(0)
                                                : copied(value)) != 0)
        return sl_no_memory(err);
    return SL_OK;
}

static const struct argument *keras_find_argument(const struct argument *a,
                                                  const char *key)
{
    while (a->key != NULL && strcmp(a->key, key) != 0)
        a++;
    return a->key != NULL ? a : NULL;
}

// Each value of config by its row in one of two tables. `leave` is the
// caller's own business; NULL: nothing is.
static enum sl_err arguments(json_t *to, const json_t *config,
                             const struct argument *own,
                             const struct argument *common, const char *leave,
                             const char *what, struct sl_error *err)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)config, key, value)
    {
        struct argument unknown = {key, ONLY, NULL, "false"}; // off
        const struct argument *a = keras_find_argument(own, key);
        enum sl_err rc = SL_OK;

        if (a == NULL)
            a = keras_find_argument(common, key);
        if (leave == NULL || strcmp(key, leave) != 0)
            rc = argument(to, a != NULL ? a : &unknown, value, what, err);
        if (rc != SL_OK)
            return rc;
    }
    return SL_OK;
}

// ---- schedules

static const struct argument schedule_common[] = {
    {"initial_learning_rate", SKIP, NULL, NULL}, // the optimizer's
    {"decay_steps", COPY, NULL, NULL},
    {"decay_rate", COPY, NULL, NULL},
    {"staircase", COPY, NULL, "false"},
    {"alpha", COPY, NULL, "0"},
    {"name", SKIP, NULL, NULL},
    {.key = NULL}};
static const struct argument piecewise[] = {{"boundaries", COPY, NULL, NULL},
                                            {"values", COPY, NULL, NULL},
                                            {.key = NULL}};
static const struct argument polynomial[] = {
    {"end_learning_rate", COPY, NULL, "0.0001"},
    {"power", COPY, NULL, "1"},
    {"cycle", COPY, NULL, "false"},
    {.key = NULL}};
static const struct argument cosine[] = {{"warmup_target", COPY, NULL, NULL},
                                         {"warmup_steps", COPY, NULL, "0"},
                                         {.key = NULL}};
static const struct argument restarts[] = {
    {"first_decay_steps", COPY, "decay_steps", NULL},
    {"t_mul", COPY, NULL, "2"},
    {"m_mul", COPY, NULL, "1"},
    {.key = NULL}};
static const struct argument nothing[] = {{.key = NULL}};

static const struct known_schedule {
    const char *class_name, *type;
    const struct argument *own;
} schedules[] = {
    {"ExponentialDecay", "exponential_decay", nothing},
    {"PiecewiseConstantDecay", "piecewise_constant_decay", piecewise},
    {"PolynomialDecay", "polynomial_decay", polynomial},
    {"InverseTimeDecay", "inverse_time_decay", nothing},
    {"CosineDecay", "cosine_decay", cosine},
    {"CosineDecayRestarts", "cosine_decay_restarts", restarts},
};

static enum sl_err add_schedule(json_t *optimizer, const json_t *value,
                                struct sl_error *err)
{
    const char *word = keras_word(value);
    const json_t *config = keras_config(value);
    json_t *rate = json_object_get(config, "initial_learning_rate");
    const struct known_schedule *s = NULL;
    json_t *to;
    enum sl_err rc = SL_OK;

    for (size_t i = 0; word != NULL && i < SL_COUNT(schedules); i++)
        if (strcmp(word, schedules[i].class_name) == 0 && keras_own(value))
            s = &schedules[i];
    if (s == NULL)
        return sl_fail(err, SL_ENOTSUP,
                       "the learning rate is a %.60s; known are numbers, "
                       "ExponentialDecay, PiecewiseConstantDecay, "
                       "PolynomialDecay, InverseTimeDecay, CosineDecay and "
                       "CosineDecayRestarts",
                       word != NULL ? word : "function");
    to = json_object();
    if (json_object_set_new(to, "type", json_string(s->type)) != 0)
        rc = sl_no_memory(err);
    if (rc == SL_OK)
        rc = arguments(to, config, s->own, schedule_common, NULL, word, err);
    if (rc == SL_OK && (json_object_set(optimizer, "schedule", to) != 0 ||
                        (json_is_number(rate) &&
                         json_object_set(optimizer, "learning_rate", rate))))
        rc = sl_no_memory(err);
    json_decref(to);
    return rc;
}

// ---- optimizers

static const struct argument optimizer_common[] = {
    {"name", SKIP, NULL, NULL},
    {"weight_decay", COPY, NULL, NULL},
    {"clipnorm", COPY, NULL, "0"}, // 0: no clipping
    {"global_clipnorm", COPY, NULL, "0"},
    {"clipvalue", COPY, NULL, "0"},
    {"use_ema", ONLY, NULL, "false"},
    {"ema_momentum", SKIP, NULL, NULL},
    {"ema_overwrite_frequency", SKIP, NULL, NULL},
    {"jit_compile", SKIP, NULL, NULL},
    {"is_legacy_optimizer", SKIP, NULL, NULL},
    {"gradient_accumulation_steps", SKIP, NULL, NULL}, // of train
    {"decay", ONLY, NULL, "0"},
    {.key = NULL}};
#define ARGUMENTS(...)                                                         \
    (const struct argument[])                                                  \
    {                                                                          \
        __VA_ARGS__,                                                           \
        {                                                                      \
            .key = NULL                                                        \
        }                                                                      \
    }
#define ADAM_ARGUMENTS                                                         \
    ARGUMENTS({"beta_1", COPY, NULL, "0.9"}, {"beta_2", COPY, NULL, "0.999"},  \
              {"epsilon", COPY, NULL, "1e-7"},                                 \
              {"amsgrad", COPY, NULL, "false"})

// clang-format off
static const struct known_optimizer {
    const char *class_name, *type;
    const struct argument *own;
} optimizers[] = {
    {"SGD", "sgd", ARGUMENTS(
        {"momentum", COPY, NULL, "0"}, {"nesterov", COPY, NULL, "false"})},
    {"Adam", "adam", ADAM_ARGUMENTS},
    {"AdamW", "adamw", ADAM_ARGUMENTS},
    {"Adamax", "adamax", ARGUMENTS(
        {"beta_1", COPY, NULL, "0.9"}, {"beta_2", COPY, NULL, "0.999"},
        {"epsilon", COPY, NULL, "1e-7"})},
    {"Nadam", "nadam", ARGUMENTS(
        {"beta_1", COPY, NULL, "0.9"}, {"beta_2", COPY, NULL, "0.999"},
        {"epsilon", COPY, NULL, "1e-7"})},
    {"Lion", "lion", ARGUMENTS(
        {"beta_1", COPY, NULL, "0.9"}, {"beta_2", COPY, NULL, "0.99"})},
    {"Lamb", "lamb", ARGUMENTS(
        {"beta_1", COPY, NULL, "0.9"}, {"beta_2", COPY, NULL, "0.999"},
        {"epsilon", COPY, NULL, "1e-7"})},
    {"Muon", "muon", ARGUMENTS(
        {"momentum", COPY, NULL, "0.95"}, {"nesterov", COPY, NULL, "true"},
        {"rms_rate", ZERO, NULL, "0.2"}, {"adam_beta_1", COPY, "beta_1", "0.9"},
        {"adam_beta_2", COPY, "beta_2", "0.999"},
        {"epsilon", COPY, NULL, "1e-7"},
        {"adam_weight_decay", SKIP, NULL, NULL}, // muon_finish
        {"exclude_embeddings", SKIP, NULL, NULL},
        {"exclude_layers", ONLY, NULL, "[]"}, {"muon_a", ONLY, NULL, "3.4445"},
        {"muon_b", ONLY, NULL, "-4.775"}, {"muon_c", ONLY, NULL, "2.0315"},
        {"adam_lr_ratio", ONLY, NULL, "1"}, {"ns_steps", ONLY, NULL, "5"})},
    {"Adagrad", "adagrad", ARGUMENTS(
        {"initial_accumulator_value", COPY, NULL, "0.1"},
        {"epsilon", COPY, NULL, "1e-7"})},
    {"RMSprop", "rmsprop", ARGUMENTS(
        {"rho", COPY, NULL, "0.9"}, {"momentum", COPY, NULL, "0"},
        {"epsilon", COPY, NULL, "1e-7"}, {"centered", COPY, NULL, "false"})},
};
// clang-format on

// Mixed precision has one around the optimizer; a job scales by itself.
static const json_t *unwrapped(const json_t *value)
{
    const char *word = keras_word(value);

    if (word != NULL && strcmp(word, "LossScaleOptimizer") == 0)
        return json_object_get(keras_config(value), "inner_optimizer");
    return value;
}

static enum sl_err keras_add_learning_rate(json_t *to, const json_t *rate,
                                           struct sl_error *err)
{
    if (rate == NULL || json_is_null(rate))
        return SL_OK;
    if (!json_is_number(rate))
        return add_schedule(to, rate, err);
    return json_object_set_new(to, "learning_rate", json_deep_copy(rate)) == 0
               ? SL_OK
               : sl_no_memory(err);
}

static enum sl_err refuse_optimizer(const char *word, struct sl_error *err)
{
    char known[200] = "";
    size_t used = 0;

    for (size_t i = 0; i < SL_COUNT(optimizers) && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                 i == 0                         ? ""
                                 : i + 1 < SL_COUNT(optimizers) ? ", "
                                                                : " and ",
                                 optimizers[i].class_name);
    return sl_fail(err, SL_ENOTSUP,
                   "optimizer %.60s is not known; known are %s: say another "
                   "one with --set optimizer.type=adam",
                   word != NULL ? word : "(none)", known);
}

static bool has_embeddings(const json_t *spec)
{
    const json_t *layers =
        json_object_get(json_object_get(spec, "model"), "layers");
    const json_t *layer;
    const char *type;
    size_t i;

    json_array_foreach(layers, i, layer)
    {
        type = json_string_value(json_object_get(layer, "type"));
        if (type != NULL && strstr(type, "embedding") != NULL &&
            json_object_get(layer, "rows") == NULL)
            return true;
    }
    return false;
}

// A job has one weight decay, and AdamW's formula for embeddings where a group
// says so.
static enum sl_err muon_finish(json_t *to, const json_t *config,
                               const json_t *spec, struct sl_error *err)
{
    double own = json_number_value(json_object_get(config, "weight_decay"));
    double adam =
        json_number_value(json_object_get(config, "adam_weight_decay"));
    json_t *group;

    if (own != adam)
        return sl_fail(err, SL_ENOTSUP,
                       "Muon has weight_decay: %g and adam_weight_decay: %g; a "
                       "job has one for both",
                       own, adam);
    if (json_object_set_new(to, "weight_decay", json_real(own)) != 0)
        return sl_no_memory(err);
    if (!json_is_true(json_object_get(config, "exclude_embeddings")) ||
        !has_embeddings(spec))
        return SL_OK;
    group = json_pack("[{s:[s], s:b}]", "variables", "*embeddings",
                      "elementwise", 1);
    return group != NULL && json_object_set_new(to, "groups", group) == 0
               ? SL_OK
               : sl_no_memory(err);
}

static enum sl_err add_optimizer(json_t *to, const json_t *value,
                                 const json_t *spec, struct sl_error *err)
{
    const char *word = keras_word(value);
    const json_t *config = keras_config(value);
    const struct known_optimizer *o = NULL;
    enum sl_err rc;

    for (size_t i = 0; word != NULL && i < SL_COUNT(optimizers); i++)
        if (keras_alike(word, optimizers[i].class_name) && keras_own(value))
            o = &optimizers[i];
    if (o == NULL)
        return refuse_optimizer(word, err);
    if (json_object_set_new(to, "type", json_string(o->type)) != 0)
        return sl_no_memory(err);
    rc = keras_add_learning_rate(to, json_object_get(config, "learning_rate"),
                                 err);
    if (rc == SL_OK)
        rc = arguments(to, config, o->own, optimizer_common, "learning_rate",
                       o->class_name, err);
    if (rc == SL_OK && strcmp(o->type, "muon") == 0)
        rc = muon_finish(to, config, spec, err);
    return rc;
}

static enum sl_err fill_optimizer(json_t *spec, const json_t *said,
                                  const json_t *value, struct sl_error *err)
{
    json_t *own = json_object_get(said, "optimizer"), *to;
    enum sl_err rc;

    if (json_object_get(own, "type") != NULL || value == NULL ||
        json_is_null(value))
        return SL_OK;
    to = json_object();
    rc = add_optimizer(to, value, spec, err);
    if (rc == SL_OK && ((own != NULL && json_object_update(to, own) != 0) ||
                        json_object_set(spec, "optimizer", to) != 0))
        rc = sl_no_memory(err);
    json_decref(to);
    return rc;
}

// ---- loss

// Of one output there is one: [x] and {"dense": x} are x.
static const json_t *single(const json_t *value)
{
    void *first = json_object_iter((json_t *)(uintptr_t)value);

    if (json_array_size(value) == 1)
        return json_array_get(value, 0);
    if (json_object_size(value) == 1 && keras_word(value) == NULL)
        return json_object_iter_value(first);
    return value;
}

#define LOSS_WORD(code, name) name ", "
#define LOSS_NAMES SPEC_LOSS_MAP(LOSS_WORD)

static enum sl_err check_reduction(const json_t *config, struct sl_error *err)
{
    const char *word = keras_str(config, "reduction");

    if (word == NULL || strcmp(word, "sum_over_batch_size") == 0 ||
        strcmp(word, "auto") == 0 || strcmp(word, "mean") == 0)
        return SL_OK;
    return sl_fail(err, SL_ENOTSUP,
                   "the loss has reduction: %.60s; a job's is the mean over "
                   "samples",
                   word);
}

// Adds a loss of Keras to `to`: a job spec, or a LossSpec. `said` has what the
// user says of it.
static enum sl_err add_loss(json_t *to, const json_t *said, const json_t *value,
                            struct sl_error *err)
{
    static const struct argument known[] = {
        {"name", SKIP, NULL, NULL},           {"dtype", SKIP, NULL, NULL},
        {"from_logits", SKIP, NULL, NULL},    {"axis", ONLY, NULL, "-1"},
        {"label_smoothing", COPY, NULL, "0"}, {.key = NULL}};
    json_t *smoothing = json_object_get(said, "label_smoothing");
    const char *word = keras_word(value), *name = keras_loss_name(value);
    const json_t *config = keras_config(value);
    enum sl_err rc;

    if (name == NULL)
        return sl_fail(err, SL_ENOTSUP,
                       "loss %.60s is not known; known are " LOSS_NAMES
                       "and no others: say one with --set loss=...",
                       word != NULL ? word : "of several");
    rc = check_reduction(config, err);
    if (rc == SL_OK)
        rc =
            arguments(to, config, known, nothing, "reduction", "the loss", err);
    if (rc != SL_OK)
        return rc;
    if (json_object_set_new(to, "loss", json_string(name)) != 0 ||
        (smoothing != NULL &&
         json_object_set(to, "label_smoothing", smoothing) != 0))
        return sl_no_memory(err);
    // Not said, Keras takes probabilities, and a job what the model ends in.
    if (strstr(name, "crossentropy") != NULL &&
        json_object_get(said, "from_logits") == NULL &&
        json_object_set_new(to, "from_logits",
                            json_boolean(json_is_true(
                                json_object_get(config, "from_logits")))) != 0)
        return sl_no_memory(err);
    return SL_OK;
}

static enum sl_err fill_loss(json_t *spec, const json_t *said,
                             const json_t *value, struct sl_error *err)
{
    if (json_object_get(said, "loss") != NULL || value == NULL ||
        json_is_null(value))
        return SL_OK;
    return add_loss(spec, said, single(value), err);
}

// Returns what `value`, losses or weights, has for output `i` of k->outputs: a
// list has them in order, an object by the names of outputs or their layers,
// and what is neither is that of all. NULL: nothing.
static const json_t *of_output(const json_t *value, const json_t *outputs,
                               size_t i)
{
    const json_t *names = json_array_get(outputs, i), *found = NULL;

    if (json_is_array(value))
        return json_array_get(value, i);
    if (!json_is_object(value) || keras_word(value) != NULL)
        return value;
    for (size_t n = json_array_size(names); n-- > 1;)
        if (found == NULL)
            found = json_object_get(
                value, json_string_value(json_array_get(names, n)));
    return found;
}

// Adds the loss of output `i`.
static enum sl_err add_output_loss(json_t *losses, const struct keras *k,
                                   size_t i, struct sl_error *err)
{
    const json_t *loss =
        of_output(json_object_get(k->compiled, "loss"), k->outputs, i);
    const json_t *weight =
        of_output(json_object_get(k->compiled, "loss_weights"), k->outputs, i);
    json_t *name = json_array_get(json_array_get(k->outputs, i), 0);
    json_t *to = json_object();
    enum sl_err rc = SL_OK;

    if (json_object_set(to, "output", name) != 0)
        rc = sl_no_memory(err);
    if (rc == SL_OK && (loss == NULL || json_is_null(loss)))
        rc = sl_fail(err, SL_ENOTSUP,
                     "output '%.60s' has no loss; in a job each output has "
                     "one: give it a loss, or leave it out of the model",
                     json_string_value(name));
    if (rc == SL_OK)
        rc = add_loss(to, NULL, loss, err);
    if (rc == SL_OK && weight != NULL && !json_is_null(weight)) {
        if (!json_is_number(weight))
            rc = sl_fail(err, SL_ENOTSUP,
                         "the weight of the loss of output '%.60s' is no "
                         "number",
                         json_string_value(name));
        else if (!keras_is(weight, "1") &&
                 json_object_set_new(to, "weight", json_deep_copy(weight)) != 0)
            rc = sl_no_memory(err);
    }
    if (rc == SL_OK && json_array_append(losses, to) != 0)
        rc = sl_no_memory(err);
    json_decref(to);
    return rc;
}

static enum sl_err fill_losses(json_t *spec, const json_t *said,
                               const struct keras *k, struct sl_error *err)
{
    const json_t *value = json_object_get(k->compiled, "loss");
    json_t *losses;
    enum sl_err rc = SL_OK;

    if (json_object_get(said, "losses") != NULL || value == NULL ||
        json_is_null(value))
        return SL_OK;
    losses = json_array();
    for (size_t i = 0; rc == SL_OK && i < json_array_size(k->outputs); i++)
        rc = add_output_loss(losses, k, i, err);
    if (rc == SL_OK && json_object_set(spec, "losses", losses) != 0)
        rc = sl_no_memory(err);
    json_decref(losses);
    return rc;
}

// ---- all of it

static enum sl_err keras_fill_train(json_t *spec, const json_t *said,
                                    const char *field, json_t *value,
                                    struct sl_error *err)
{
    const json_t *own = json_object_get(said, "train");
    json_t *train = json_object_get(spec, "train");
    int rc = 0;

    if (json_object_get(own, field) == NULL) {
        if (train == NULL) {
            rc = json_object_set_new(spec, "train", json_object());
            train = json_object_get(spec, "train");
        }
        if (rc == 0)
            rc = json_object_set(train, field, value);
    }
    json_decref(value);
    return rc == 0 ? SL_OK : sl_no_memory(err);
}

static enum sl_err keras_fill_compiled(json_t *spec, const json_t *said,
                                       const struct keras *k, struct buf *notes,
                                       struct sl_error *err)
{
    const json_t *optimizer =
        unwrapped(json_object_get(k->compiled, "optimizer"));
    const json_t *weights = json_object_get(k->compiled, "loss_weights");
    const json_t *steps =
        json_object_get(keras_config(optimizer), "gradient_accumulation_steps");
    enum sl_err rc = fill_optimizer(spec, said, optimizer, err);

    if (rc == SL_OK)
        rc = k->outputs != NULL
                 ? fill_losses(spec, said, k, err)
                 : fill_loss(spec, said, json_object_get(k->compiled, "loss"),
                             err);
    if (rc == SL_OK && k->outputs == NULL && weights != NULL &&
        !json_is_null(weights) && !keras_is(single(weights), "1"))
        rc = sl_fail(err, SL_ENOTSUP,
                     "the model was compiled with loss_weights, and has one "
                     "output; change the learning rate in their place");
    // Keras' schedules count micro-batches then, a job's count steps.
    if (rc == SL_OK && json_is_integer(steps) &&
        json_object_get(json_object_get(spec, "optimizer"), "schedule") != NULL)
        return sl_fail(err, SL_ENOTSUP,
                       "the optimizer has gradient_accumulation_steps: %lld "
                       "and a schedule, which a job counts in steps; say both "
                       "with --set train.accumulate=N and --set "
                       "optimizer.type=..., optimizer.schedule.type=...",
                       (long long)json_integer_value(steps));
    if (rc == SL_OK && json_is_integer(steps))
        rc = keras_fill_train(spec, said, "accumulate", json_deep_copy(steps),
                              err);
    if (rc == SL_OK && k->precision != NULL)
        rc = keras_fill_train(spec, said, "precision",
                              json_string(k->precision), err);
    if (rc == SL_OK)
        rc = keras_fill_metrics(spec, said, k->compiled, notes, err);
    return rc;
}

enum sl_err keras_fill(json_t *spec, const json_t *said, const struct keras *k,
                       struct buf *notes, const char *name,
                       struct sl_error *err)
{
    struct sl_error inner = SL_ERROR_INIT;
    enum sl_err rc = keras_fill_compiled(spec, said, k, notes, &inner);

    return rc == SL_OK ? rc : sl_fail(err, rc, "%s: %s", name, inner.text);
}
