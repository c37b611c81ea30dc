// SPDX-License-Identifier: Apache-2.0
#include "client/spec/specfile.h"

#include <unistd.h>

#include "common/base/fs.h"
#include "proto/wire.h"
#include "tests/harness/t.h"

static json_t *parsed(const char *text)
{
    json_t *root = NULL, *lines = NULL;

    T_OK(specfile_parse(&root, &lines, "t.yaml", text, strlen(text), t_err()));
    json_decref(lines);
    return root;
}

static void is_json(json_t *root, const char *want)
{
    char *text = json_dumps(root, JSON_COMPACT);

    T_STR(text, want);
    free(text);
}

TEST(specfile, set_replaces_and_adds)
{
    json_t *root = parsed("train: {epochs: 5}\nlayers: [{units: 1}, {u: 2}]\n");

    T_OK(specfile_set(root, "train.epochs=2", t_err()));
    T_OK(specfile_set(root, "train.batch=64", t_err()));
    T_OK(specfile_set(root, "layers[0].units=32", t_err()));
    T_OK(specfile_set(root, "layers[1]={a: b}", t_err()));
    T_OK(specfile_set(root, "optimizer.type=sgd", t_err()));
    T_OK(specfile_set(root, "name=", t_err()));
    is_json(root, "{\"train\":{\"epochs\":2,\"batch\":64},"
                  "\"layers\":[{\"units\":32},{\"a\":\"b\"}],"
                  "\"optimizer\":{\"type\":\"sgd\"},\"name\":\"\"}");
    json_decref(root);
}

TEST(specfile, set_refuses_what_leads_nowhere)
{
    static const char *const wrong[] = {
        "train.epochs", "=3",          "layers[7].units=1", "layers[x]=1",
        "layers[0=1",   "a..b=1",      "name.first=1",      "layers.first=1",
        ".a=1",         "layers[0]x=1"};
    json_t *root = parsed("name: x\nlayers: [{units: 1}]\n");

    for (size_t i = 0; i < SL_COUNT(wrong); i++)
        T_FAILS(SL_EINVAL, specfile_set(root, wrong[i], t_err()));
    T_FAILS(SL_EINVAL, specfile_set(root, "a=[1", t_err()));
    json_decref(root);
}

TEST(specfile, data_paths_are_relative_to_the_file)
{
    json_t *root = parsed("data:\n  train: {x: a/x.npy, y: /abs/y.npy, "
                          "sample_weight: w.npy}\n"
                          "  test: {x: t.npz, sample_weight: w}\n");

    T_OK(specfile_paths(root, "/jobs", t_err()));
    is_json(root, "{\"data\":{\"train\":{\"x\":\"/jobs/a/x.npy\","
                  "\"y\":\"/abs/y.npy\",\"sample_weight\":\"/jobs/w.npy\"},"
                  "\"test\":{\"x\":\"/jobs/t.npz\",\"sample_weight\":\"w\"}}}");
    json_decref(root);
}

TEST(specfile, data_paths_have_no_dots)
{
    json_t *root = parsed("data:\n"
                          "  train: {x: ../data/x.npy, y: ./a/.././b//y.npy}\n"
                          "  test: {x: ../../../../x.npy, y: ..a/...}\n");

    T_OK(specfile_paths(root, "/jobs/mine", t_err()));
    is_json(root, "{\"data\":{\"train\":{\"x\":\"/jobs/data/x.npy\","
                  "\"y\":\"/jobs/mine/b/y.npy\"},\"test\":{"
                  "\"x\":\"/x.npy\",\"y\":\"/jobs/mine/..a/...\"}}}");
    json_decref(root);
}

TEST(specfile, a_spec_is_a_mapping)
{
    json_t *root = NULL, *lines = NULL;

    T_FAILS(SL_EINVAL,
            specfile_parse(&root, &lines, "t.yaml", "[1]", 3, t_err()));
    T_FAILS(SL_EINVAL,
            specfile_parse(&root, &lines, "t.json", "{\"a\":1,}", 8, t_err()));
    T_PTR(root, NULL);
}

static size_t spec_refused, spec_allocations;

static void *spec_alloc(size_t bytes)
{
    return spec_allocations++ == spec_refused ? NULL : malloc(bytes);
}

// Whichever allocation of JSON fails, the lines are there or it is said.
TEST(specfile, no_memory_for_lines_is_said)
{
    static const char *const names[] = {"t.json", "t.yaml"};

    for (size_t i = 0; i < SL_COUNT(names); i++) {
        struct sl_error err = SL_ERROR_INIT;

        spec_refused = 0;
        do {
            json_t *root = NULL, *lines = NULL;
            enum sl_err rc;

            spec_allocations = 0;
            json_set_alloc_funcs(spec_alloc, free);
            rc = specfile_parse(&root, &lines, names[i], "{\"a\": 1}", 8, &err);
            json_set_alloc_funcs(malloc, free);
            T_TRUE(rc == SL_OK ? root != NULL && lines != NULL
                               : root == NULL && lines == NULL);
            json_decref(root);
            json_decref(lines);
        } while (spec_allocations > spec_refused++);
        T_GT(spec_refused, 3);
    }
}

TEST(specfile, errors_get_the_line)
{
    const char *yaml = "train:\n  batch: 0\nmodel:\n  layers: [{a: 1}]\n";
    json_t *root = NULL, *lines = NULL;
    struct sl_error err = {SL_EINVAL, "train.batch: must be 1 or more"};

    T_OK(specfile_parse(&root, &lines, "t.yaml", yaml, strlen(yaml), t_err()));
    specfile_locate(&err, "t.yaml", lines);
    T_STR(err.text, "t.yaml:2: train.batch: must be 1 or more");

    // A name in front, and a path that goes deeper than the file does.
    err =
        (struct sl_error){SL_EINVAL, "t.yaml: model.layers[0].units: missing"};
    specfile_locate(&err, "t.yaml", lines);
    T_STR(err.text, "t.yaml:4: model.layers[0].units: missing");

    err = (struct sl_error){SL_EINVAL, "optimizer: missing"};
    specfile_locate(&err, "t.yaml", lines);
    T_STR(err.text, "t.yaml: optimizer: missing");
    json_decref(root);
    json_decref(lines);
}

static const char small[] =
    "name: small\n"
    "model:\n"
    "  input_shape: [10]\n"
    "  layers:\n"
    "    - {type: dense, units: 1, activation: sigmoid}\n"
    "loss: binary_crossentropy\n"
    "optimizer: {type: sgd, learning_rate: 0.1}\n"
    "data:\n"
    "  train: {format: npy, x: x.npy, y: y.npy}\n"
    "train: {batch: 8, epochs: 1}\n";

TEST(specfile, loads_a_file_with_overrides)
{
    static const char *const sets[] = {"train.epochs=3"};
    Sluice__V1__JobSpec *spec = NULL;
    struct buf missing = BUF_INIT;

    T_OK(fs_write_durable(fs_posix(), t_path("s.yaml"), small,
                          sizeof(small) - 1, t_err()));
    T_OK(specfile_load(&spec, t_path("s.yaml"), sets, 1, t_err()));
    T_EQ(spec->train->epochs, 3);
    T_STR(spec->data->train->x, t_path("x.npy"));
    T_OK(specfile_missing(&missing, spec));
    T_HAS(buf_text(&missing), "train.x");
    buf_release(&missing);
    wire_free(&spec->base);
}

TEST(specfile, a_wrong_key_is_named_with_its_line)
{
    static const char *const sets[] = {"model.layers[0].unitz=1"};
    static const char *const epochs[] = {"train.epochs=x"};
    static const char *const good[] = {"train.epochs=2"};
    static const char misspelt[] = "name: a\ntrain: {bach: 1}\n";
    struct sl_error err = SL_ERROR_INIT;
    Sluice__V1__JobSpec *spec = NULL;

    T_OK(fs_write_durable(fs_posix(), t_path("s.yaml"), small,
                          sizeof(small) - 1, t_err()));
    T_FAILS(SL_EINVAL, specfile_load(&spec, t_path("s.yaml"), sets, 1, &err));
    T_HAS(err.text, "--set model.layers[0].unitz=1: model.layers[0]");
    T_HAS(err.text, "did you mean 'units'");
    // What the file says is a line of the file, whatever else is set.
    T_FAILS(SL_EINVAL, specfile_load(&spec, t_path("s.yaml"), epochs, 1, &err));
    T_HAS(err.text, "--set train.epochs=x: train.epochs: wants an integer");
    T_OK(fs_write_durable(fs_posix(), t_path("bad.yaml"), misspelt,
                          sizeof(misspelt) - 1, t_err()));
    T_FAILS(SL_EINVAL, specfile_load(&spec, t_path("bad.yaml"), good, 1, &err));
    T_HAS(err.text, "bad.yaml:2: ");
    T_FAILS(SL_ENOENT, specfile_load(&spec, t_path("no.yaml"), NULL, 0, &err));
    T_HAS(err.text, "no.yaml");
    T_PTR(spec, NULL);
}

// A key that is proposed stands in the text, too.
TEST(specfile, a_wrong_key_is_of_who_gave_it)
{
    static const char *const right[] = {"train.batch=2"};
    static const char *const top[] = {"epochs=3"};
    static const char *const deep[] = {"train.foo.bar=3"};
    static const char misspelt[] = "name: a\ntrain: {bach: 1}\n";
    struct sl_error err = SL_ERROR_INIT;
    Sluice__V1__JobSpec *spec = NULL;

    T_OK(fs_write_durable(fs_posix(), t_path("s.yaml"), small,
                          sizeof(small) - 1, t_err()));
    T_OK(fs_write_durable(fs_posix(), t_path("bad.yaml"), misspelt,
                          sizeof(misspelt) - 1, t_err()));
    T_FAILS(SL_EINVAL,
            specfile_load(&spec, t_path("bad.yaml"), right, 1, &err));
    T_HAS(err.text, "bad.yaml:2: train");
    T_HAS(err.text, "'bach'; did you mean 'batch'?");
    T_FAILS(SL_EINVAL, specfile_load(&spec, t_path("s.yaml"), top, 1, &err));
    T_HAS(err.text, "--set epochs=3: unknown key 'epochs'");
    T_FAILS(SL_EINVAL, specfile_load(&spec, t_path("s.yaml"), deep, 1, &err));
    T_HAS(err.text, "--set train.foo.bar=3: train: unknown key 'foo'");
    T_PTR(spec, NULL);
}

// The examples are good specs, as they are.
TEST(specfile, the_examples_hold)
{
    static const char *const names[] = {"fashion-cnn", "fashion-mlp", "toy",
                                        "fashion-resnet", "external"};

    for (size_t i = 0; i < SL_COUNT(names); i++) {
        Sluice__V1__JobSpec *spec = NULL;
        char path[512];

        snprintf(path, sizeof(path), "%s/%s.yaml", SLUICE_EXAMPLES, names[i]);
        T_OK(specfile_load(&spec, path, NULL, 0, t_err()));
        wire_free(&spec->base);
    }
}
