// SPDX-License-Identifier: Apache-2.0
// client/keras/import.c -- import: a model of Keras as a job spec.
#include <string.h>

#include "client/cli/cli.h"
#include "client/keras/keras.h"
#include "client/spec/specfile.h"
#include "client/cli/target.h"
#include "client/cli/verbs.h"
#include "client/cli/yaml.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "proto/model.h"
#include "proto/wire.h"

// What a job needs, in the order of examples/, and what stands for it where
// neither Keras nor the user has said it.
static const struct import_part {
    const char *key;
    const char *advice; // a comment in the file; NULL: not needed
    const char *stand_in;
} parts[] = {
    {"api_version", NULL, NULL},
    {"kind", NULL, NULL},
    {"name", NULL, NULL},
    {"model", NULL, NULL},
    {"loss",
     "The model was not compiled with a loss. For example:\n"
     "# loss: sparse_categorical_crossentropy\n",
     "\"mean_squared_error\""},
    {"label_smoothing", NULL, NULL},
    {"from_logits", NULL, NULL},
    {"top_k", NULL, NULL},
    {"optimizer",
     "The model was not compiled with an optimizer. For example:\n"
     "# optimizer: {type: adam, learning_rate: 0.001}\n",
     "{\"type\": \"sgd\"}"},
    {"evaluate", NULL, NULL},
    {"data",
     "A file of Keras does not say where samples are. For example:\n"
     "# data:\n"
     "#   train: {format: npz, x: train.npz}\n",
     "{\"train\": {\"format\": \"npz\", \"x\": \"train.npz\"}, "
     "\"test\": {\"format\": \"npz\", \"x\": \"train.npz\"}}"},
};

// Returns the key of a part: a model with several outputs has losses.
static const char *part_key(const struct import_part *part,
                            const struct keras *k)
{
    return k->outputs != NULL && strcmp(part->key, "loss") == 0 ? "losses"
                                                                : part->key;
}

// Appends what the file says in place of a part, as a comment.
static enum sl_err part_advice(struct buf *out, const struct import_part *part,
                               const struct keras *k)
{
    enum sl_err rc;
    json_t *names;
    size_t i;

    if (strcmp(part_key(part, k), "losses") != 0)
        return buf_appendf(out, "\n# %s", part->advice);
    rc = buf_appendf(out, "\n# The model was not compiled with losses. For "
                          "example:\n# losses:\n");
    json_array_foreach(k->outputs, i, names)
    {
        if (rc == SL_OK)
            rc = buf_appendf(out,
                             "#   - {output: %s, loss: mean_squared_error}\n",
                             json_string_value(json_array_get(names, 0)));
    }
    return rc;
}

// Returns what stands for a missing part in the check; NULL: no memory.
static json_t *part_stand_in(const struct import_part *part,
                             const struct keras *k)
{
    json_t *losses, *names;
    size_t i;

    if (strcmp(part_key(part, k), "losses") != 0)
        return json_loads(part->stand_in, JSON_DECODE_ANY, NULL);
    losses = json_array();
    json_array_foreach(k->outputs, i, names)
    {
        (void)json_array_append_new(
            losses, json_pack("{s:O, s:s}", "output", json_array_get(names, 0),
                              "loss", "mean_squared_error"));
    }
    return losses;
}

static const char *import_target(const struct cli *cli)
{
    // Of the other verbs this is text or json, also in the environment.
    return conf_origin(cli->conf, "output") == CONF_FLAG
               ? conf_str(cli->conf, "output")
               : "-";
}

// ---- the spec

static enum sl_err set_all(const struct cli *cli, json_t *spec,
                           struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < conf_list_count(cli->conf, "set");
         i++)
        rc = specfile_set(spec, conf_list_at(cli->conf, "set", i), err);
    return rc;
}

// The model, and around it what --base says.
static enum sl_err import_base_spec(const struct cli *cli, json_t **out,
                                    const struct keras *k, struct sl_error *err)
{
    const char *base = conf_str(cli->conf, "base");
    json_t *said = NULL, *lines = NULL, *spec;
    enum sl_err rc = SL_OK;

    if (base != NULL)
        rc = specfile_open(&said, &lines, base, err);
    json_decref(lines);
    if (rc != SL_OK)
        return rc;
    spec = json_pack("{s:s, s:s, s:s}", "api_version", "sluice/v1", "kind",
                     "Job", "name", k->name);
    if (spec == NULL || (said != NULL && json_object_update(spec, said) != 0) ||
        json_object_set(spec, "model", k->model) != 0)
        rc = sl_no_memory(err);
    json_decref(said);
    if (rc == SL_OK)
        *out = spec;
    else
        json_decref(spec);
    return rc;
}

// A net of convolutions may take images of any size; a job's are of one.
static enum sl_err import_check_shape(const struct cli *cli, const json_t *spec,
                                      struct sl_error *err)
{
    const json_t *shape =
        json_object_get(json_object_get(spec, "model"), "input_shape");
    size_t i;
    json_t *axis;

    json_array_foreach(shape, i, axis)
    {
        if (json_is_integer(axis) && json_integer_value(axis) == 0)
            return sl_fail(err, SL_EINVAL,
                           "%s: axis %zu of the input may have any length, and "
                           "a job's samples are all of one size: say it, as "
                           "--set 'model.input_shape=[224,224,3]'",
                           specfile_name(cli_arg(cli, 0)), i + 1);
    }
    return SL_OK;
}

// Neither of the two is asked what the other has said: --set changes single
// fields of what the model was compiled with.
static enum sl_err import_fill_spec(const struct cli *cli, json_t *spec,
                                    const struct keras *k, struct sl_error *err)
{
    json_t *said = json_deep_copy(spec);
    struct buf notes = BUF_INIT;
    enum sl_err rc = said != NULL ? set_all(cli, said, err) : sl_no_memory(err);

    if (rc == SL_OK)
        rc = keras_fill(spec, said, k, &notes, specfile_name(cli_arg(cli, 0)),
                        err);
    if (rc == SL_OK)
        rc = set_all(cli, spec, err);
    if (rc == SL_OK)
        rc = keras_fill_augment(spec, k, &notes, err);
    if (rc == SL_OK)
        rc = import_check_shape(cli, spec, err);
    if (rc == SL_OK)
        rc = keras_tell_inputs(k, &notes);
    if (rc == SL_OK)
        out_tell_lines(buf_text(&notes));
    buf_release(&notes);
    json_decref(said);
    return rc;
}

// ---- its text

static enum sl_err import_append_key(struct buf *out, const char *key,
                                     json_t *value)
{
    json_t *one = json_object();
    enum sl_err rc = SL_ENOMEM;

    if (json_object_set(one, key, value) == 0)
        rc = yaml_write(out, one);
    json_decref(one);
    return rc;
}

static bool import_is_part(const char *key, const struct keras *k)
{
    for (size_t i = 0; i < SL_COUNT(parts); i++)
        if (strcmp(part_key(&parts[i], k), key) == 0)
            return true;
    return false;
}

static enum sl_err as_yaml(struct buf *out, json_t *spec, const char *from,
                           const struct keras *k)
{
    enum sl_err rc =
        buf_appendf(out, "# Made by `sluice import` of %s.\n", from);
    const char *key;
    json_t *value;

    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(parts); i++) {
        const char *at = part_key(&parts[i], k);

        value = json_object_get(spec, at);
        if (value != NULL)
            rc = import_append_key(out, at, value);
        else if (parts[i].advice != NULL)
            rc = part_advice(out, &parts[i], k);
    }
    json_object_foreach(spec, key, value)
    {
        if (rc == SL_OK && !import_is_part(key, k))
            rc = import_append_key(out, key, value);
    }
    return rc;
}

static bool import_path_is_json(const char *path)
{
    size_t n = strlen(path);

    return n >= 5 && strcmp(path + n - 5, ".json") == 0;
}

static enum sl_err import_make_text(const struct cli *cli, struct buf *out,
                                    json_t *spec, const struct keras *k,
                                    struct sl_error *err)
{
    const char *from = specfile_name(cli_arg(cli, 0));
    enum sl_err rc;

    // A name may have anything in it, and a comment ends with its line.
    if (from[strcspn(from, "\r\n")] != '\0')
        from = "a file";
    if (import_path_is_json(import_target(cli))) {
        rc = sl_json_write(out, spec, true);
        if (rc == SL_OK)
            rc = buf_append_str(out, "\n");
    } else {
        rc = as_yaml(out, spec, from, k);
    }
    return rc == SL_OK ? rc : sl_no_memory(err);
}

// ---- its check

// Checks the written spec as `submit` reads it, with placeholders for missing
// values.
static enum sl_err import_check_text(const struct cli *cli,
                                     const struct keras *k,
                                     const struct buf *text,
                                     struct sl_error *err)
{
    const char *name = specfile_name(cli_arg(cli, 0));
    size_t count = conf_list_count(cli->conf, "set");
    const char **sets = sl_malloc_array(count, sizeof(*sets));
    json_t *root = NULL, *lines = NULL;
    Sluice__V1__JobSpec *spec = NULL;
    struct model *m = NULL;
    enum sl_err rc = sets != NULL ? SL_OK : sl_no_memory(err);

    for (size_t i = 0; rc == SL_OK && i < count; i++)
        sets[i] = conf_list_at(cli->conf, "set", i);
    if (rc == SL_OK && text->len > YAML_BYTES_MAX)
        rc = sl_fail(err, SL_ENOTSUP,
                     "%s: its job spec would be %zu bytes; at most %zu are "
                     "read",
                     name, text->len, YAML_BYTES_MAX);
    if (rc == SL_OK)
        rc = specfile_parse(
            &root, &lines,
            import_path_is_json(import_target(cli)) ? "job.json" : "job.yaml",
            buf_text(text), text->len, err);
    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(parts); i++)
        if (parts[i].stand_in != NULL &&
            json_object_get(root, part_key(&parts[i], k)) == NULL &&
            json_object_set_new(root, part_key(&parts[i], k),
                                part_stand_in(&parts[i], k)) != 0)
            rc = sl_no_memory(err);
    if (rc == SL_OK) {
        rc = specfile_spec(&spec, root, name, err);
        if (rc != SL_OK && !specfile_blame_set(err, name, sets, count))
            specfile_locate(err, name, NULL);
    }
    if (rc == SL_OK)
        rc = model_make(&m, spec->model, err);
    if (rc == SL_OK)
        rc = keras_check_masks(k, m, err);
    model_free(m);
    if (spec != NULL)
        wire_free(&spec->base);
    json_decref(root);
    json_decref(lines);
    sl_free(sets);
    return rc;
}

// ---- all of it

static void import_print_missing(const char *to, const json_t *spec,
                                 const struct keras *k)
{
    for (size_t i = 0; i < SL_COUNT(parts); i++)
        if (parts[i].stand_in != NULL &&
            json_object_get(spec, part_key(&parts[i], k)) == NULL)
            cli_say("%s has no '%s' yet: say it there, or with --set, before "
                    "you submit it",
                    target_is_stdout(to) ? "The spec" : to,
                    part_key(&parts[i], k));
}

static enum sl_err import_write_target(const char *to, const struct buf *text,
                                       struct sl_error *err)
{
    return target_is_stdout(to) ? out_write(buf_text(text), text->len, err)
                                : target_write(to, text->data, text->len, err);
}

static enum sl_err import(const struct cli *cli, const struct keras *k,
                          struct sl_error *err)
{
    struct buf text = BUF_INIT;
    json_t *spec = NULL;
    enum sl_err rc = import_base_spec(cli, &spec, k, err);

    if (rc == SL_OK)
        rc = import_fill_spec(cli, spec, k, err);
    if (rc == SL_OK)
        rc = import_make_text(cli, &text, spec, k, err);
    if (rc == SL_OK)
        rc = import_check_text(cli, k, &text, err);
    if (rc == SL_OK)
        rc = import_write_target(import_target(cli), &text, err);
    if (rc == SL_OK)
        import_print_missing(import_target(cli), spec, k);
    json_decref(spec);
    buf_release(&text);
    return rc;
}

static enum sl_err read_model(const struct cli *cli, struct keras *k,
                              struct sl_error *err)
{
    const char *path = cli_arg(cli, 0);
    struct buf text = BUF_INIT;
    enum sl_err rc = specfile_read(&text, path, KERAS_BYTES_MAX, err);

    if (rc == SL_OK)
        rc = keras_read(k, specfile_name(path), buf_text(&text), text.len, err);
    buf_release(&text);
    return rc;
}

int verb_import(struct cli *cli)
{
    const char *base = conf_str(cli->conf, "base");
    struct sl_error err = SL_ERROR_INIT;
    struct keras k = {.model = NULL};
    struct buf known = BUF_INIT;
    int code = CLI_EXIT_OK;

    if (base != NULL && strcmp(base, "-") == 0 &&
        strcmp(cli_arg(cli, 0), "-") == 0)
        return cli_usage(cli, "standard input is one file: name the model or "
                              "--base");
    if (!target_is_stdout(import_target(cli)) &&
        target_check(import_target(cli), &err) != SL_OK)
        return cli_fail(&err);
    if (read_model(cli, &k, &err) != SL_OK || import(cli, &k, &err) != SL_OK)
        code = cli_fail(&err);
    if (err.code == SL_ENOTSUP && keras_known(&known) == SL_OK)
        cli_say("Known are models of %s", buf_text(&known));
    buf_release(&known);
    keras_release(&k);
    return code;
}
