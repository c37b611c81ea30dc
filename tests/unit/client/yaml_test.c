// SPDX-License-Identifier: Apache-2.0
#include "client/cli/yaml.h"

#include "common/base/buf.h"
#include "common/base/json.h"
#include "tests/harness/t.h"

static void reads_as(const char *yaml, const char *json)
{
    json_t *value = NULL;
    char *text;

    T_OK(yaml_read(&value, NULL, "t.yaml", yaml, strlen(yaml), t_err()));
    text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    T_STR(text, json);
    free(text);
    json_decref(value);
}

static void refused(enum sl_err code, const char *yaml, const char *why)
{
    json_t *value = NULL;
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(code, yaml_read(&value, NULL, "t.yaml", yaml, strlen(yaml), &err));
    T_HAS(err.text, why);
    T_PTR(value, NULL);
}

TEST(yaml, scalars_have_the_types_of_json)
{
    reads_as("a: 1", "{\"a\":1}");
    reads_as("a: -7", "{\"a\":-7}");
    reads_as("a: 0.5", "{\"a\":0.5}");
    reads_as("a: 1e-3", "{\"a\":0.001}");
    reads_as("a: true", "{\"a\":true}");
    reads_as("a: null", "{\"a\":null}");
    reads_as("a: no", "{\"a\":\"no\"}");
    reads_as("a: True", "{\"a\":\"True\"}");
    reads_as("a: ~", "{\"a\":\"~\"}");
    reads_as("a: '1'", "{\"a\":\"1\"}");
    reads_as("a: \"true\"", "{\"a\":\"true\"}");
    reads_as("a: 007", "{\"a\":\"007\"}");
    reads_as("a: 0x10", "{\"a\":\"0x10\"}");
    reads_as("a: 1_000", "{\"a\":\"1_000\"}");
    reads_as("a: .5", "{\"a\":\".5\"}");
    reads_as("a: 2026-07-01", "{\"a\":\"2026-07-01\"}");
    reads_as("a: ''", "{\"a\":\"\"}");
    reads_as("42", "42");
}

TEST(yaml, integers_of_64_bits)
{
    reads_as("a: 9223372036854775807", "{\"a\":9223372036854775807}");
    reads_as("a: -9223372036854775808", "{\"a\":-9223372036854775808}");
    // Beyond a signed one: text that pbjson reads as a number.
    reads_as("a: 18446744073709551615", "{\"a\":\"18446744073709551615\"}");
    refused(SL_EINVAL, "a: 18446744073709551616", "t.yaml:1: ");
    refused(SL_EINVAL, "a: -9223372036854775809", "64 bits");
    refused(SL_EINVAL, "\n\na: 1e999", "t.yaml:3: ");
}

TEST(yaml, blocks_and_flows)
{
    reads_as("a:\n  - 1\n  - {b: [2, 3], c: d}\ne: {}\nf: []",
             "{\"a\":[1,{\"b\":[2,3],\"c\":\"d\"}],\"e\":{},\"f\":[]}");
    reads_as("# comment\na: 1 # more\n", "{\"a\":1}");
    reads_as("a: >\n  one\n  two\n", "{\"a\":\"one two\\n\"}");
    // JSON is YAML.
    reads_as("{\"a\": [1, 2.5, \"x\", null], \"b\":{\"c\":true}}",
             "{\"a\":[1,2.5,\"x\",null],\"b\":{\"c\":true}}");
}

TEST(yaml, what_would_surprise_is_refused_with_its_line)
{
    refused(SL_EINVAL, "a: &x 1\nb: 2", "t.yaml:1: anchors (&x)");
    refused(SL_EINVAL, "a: 1\nb: *x", "t.yaml:2: aliases (*x)");
    refused(SL_EINVAL, "a: 1\nb: !!str 2", "t.yaml:2: tags (");
    refused(SL_EINVAL, "a: !mine {b: 1}", "t.yaml:1: tags (!mine)");
    refused(SL_EINVAL, "a: &x [1]", "anchors (&x)");
    refused(SL_EINVAL, "a: 1\n<<: {b: 1}", "t.yaml:2: merge keys");
    refused(SL_EINVAL, "a: 1\nb: 2\na: 3", "t.yaml:3: key 'a' appears twice");
    refused(SL_EINVAL, "a: 1\n---\nb: 2", "t.yaml:2: only one document");
    refused(SL_EINVAL, "a:\nb: 1", "t.yaml:1: a value is missing");
    refused(SL_EINVAL, "? [a]\n: 1", "a key must be a plain word");
    refused(SL_EINVAL, "? {a: 1}\n: 1", "a key must be a plain word");
    refused(SL_EINVAL, "", "the file is empty");
    refused(SL_EINVAL, "# nothing\n", "the file is empty");
}

TEST(yaml, syntax_errors_name_the_line)
{
    refused(SL_EINVAL, "a: 1\nb: [1, 2\nc: 3\n", "t.yaml:");
    refused(SL_EINVAL, "a: 1\n\tb: 2\n", "t.yaml:2");
    refused(SL_EINVAL, "a: 1\n b: 2\n", "t.yaml:2");
    refused(SL_EINVAL, "a: \"open\n", "t.yaml:");
    refused(SL_EINVAL, "a: \xff\n", "t.yaml:");
}

TEST(yaml, limits)
{
    struct buf text = BUF_INIT;
    json_t *value = NULL;
    struct sl_error err;

    for (int i = 0; i < YAML_DEPTH_MAX; i++)
        T_OK(buf_append_char(&text, '['));
    for (int i = 0; i < YAML_DEPTH_MAX; i++)
        T_OK(buf_append_char(&text, ']'));
    T_OK(yaml_read(&value, NULL, "t", buf_text(&text), text.len, t_err()));
    json_decref(value);

    buf_reset(&text);
    for (int i = 0; i <= YAML_DEPTH_MAX; i++)
        T_OK(buf_append_char(&text, '['));
    T_FAILS(SL_ERANGE,
            yaml_read(&value, NULL, "t", buf_text(&text), text.len, &err));
    T_HAS(err.text, "deeper");

    buf_reset(&text);
    T_OK(buf_append_str(&text, "["));
    for (int i = 0; i < YAML_EVENTS_MAX; i++)
        T_OK(buf_append_str(&text, "1,"));
    T_OK(buf_append_str(&text, "1]"));
    T_FAILS(SL_ERANGE,
            yaml_read(&value, NULL, "t", buf_text(&text), text.len, &err));

    buf_reset(&text);
    T_TRUE(buf_extend(&text, YAML_BYTES_MAX + 1) != NULL);
    memset(text.data, ' ', text.len);
    T_FAILS(SL_ERANGE,
            yaml_read(&value, NULL, "t", buf_text(&text), text.len, &err));
    buf_release(&text);
}

TEST(yaml, lines_of_values_by_path)
{
    const char *yaml = "name: x\n"
                       "model:\n"
                       "  layers:\n"
                       "    - {type: flatten}\n"
                       "    - type: dense\n"
                       "      units: 10\n"
                       "train: {batch: 3}\n";
    json_t *value = NULL, *lines = NULL;
    const struct {
        const char *path;
        int line;
    } wanted[] = {{"name", 1},
                  {"model", 3},
                  {"model.layers", 4},
                  {"model.layers[0]", 4},
                  {"model.layers[0].type", 4},
                  {"model.layers[1]", 5},
                  {"model.layers[1].units", 6},
                  {"train.batch", 7}};

    T_OK(yaml_read(&value, &lines, "t", yaml, strlen(yaml), t_err()));
    for (size_t i = 0; i < SL_COUNT(wanted); i++)
        T_EQ(json_integer_value(json_object_get(lines, wanted[i].path)),
             wanted[i].line);
    json_decref(value);
    json_decref(lines);
}

static size_t refused_at, allocations; // the first allocation is number 0

static void *alloc_but_one(size_t bytes)
{
    return allocations++ == refused_at ? NULL : malloc(bytes);
}

// An object of JSON takes two allocations. Errors without lines were said
// without a place.
TEST(yaml, no_memory_for_the_lines_is_said)
{
    static const char yaml[] = "a: 1\n";
    json_t *value = NULL, *lines = NULL;
    struct sl_error err = SL_ERROR_INIT;

    for (refused_at = 0; refused_at < 2; refused_at++) {
        enum sl_err rc;

        allocations = 0;
        json_set_alloc_funcs(alloc_but_one, free);
        rc = yaml_read(&value, &lines, "t", yaml, strlen(yaml), &err);
        json_set_alloc_funcs(malloc, free);
        T_EQ(rc, SL_ENOMEM);
        T_STR(err.text, "t: out of memory");
        T_PTR(value, NULL);
        T_PTR(lines, NULL);
    }
}

// ---- writing

// JSON with ' for ".
static json_t *json_of(const char *text)
{
    char json[2048];
    json_t *value;
    size_t n = strlen(text);

    T_LT(n, sizeof(json));
    for (size_t i = 0; i <= n; i++)
        json[i] = text[i] == '\'' ? '"' : text[i];
    value = json_loads(json, 0, NULL);
    T_TRUE(value != NULL);
    return value;
}

TEST(yaml, what_is_written_is_what_people_write)
{
    json_t *value = json_of(
        "{'name': 'net', 'model': {'input_shape': [28, 28], 'layers': [{'type':"
        " 'dense', 'units': 3, 'l2': {'l2': 0.5}}, {'type': 'relu'}]}, 'data': "
        "{'train': {'x': '/a/b.npz', 'scale': 0.1}, 'test': {}}, 'none': []}");
    struct buf text = BUF_INIT;

    T_OK(yaml_write(&text, value));
    T_STR(buf_text(&text), "name: net\n"
                           "model:\n"
                           "  input_shape: [28, 28]\n"
                           "  layers:\n"
                           "    - {type: dense, units: 3, l2: {l2: 0.5}}\n"
                           "    - {type: relu}\n"
                           "data:\n"
                           "  train: {x: /a/b.npz, scale: 0.1}\n"
                           "  test: {}\n"
                           "none: []\n");
    buf_release(&text);
    json_decref(value);
}

TEST(yaml, what_is_written_is_read_as_the_same)
{
    json_t *value = json_of(
        "{'words': ['null', 'true', 'false', 'no', '~', '', ' ', '1', '1e3', "
        "'-', '- a', 'a: b', '#', 'a #b', '{', '[', '*a', '&a', '!a', '%', "
        "'@', "
        "'a\\nb', '\\ta', 'ü', '\\u0001', '.inf', '0x1', '<<', '---', "
        "'a\\\\b'],"
        " 'numbers': [0, -1, 0.1, 1e300, -1.5e-7, 3.0], 'rest': [true, null, "
        "[1, [2]], {'a b': {'c': 'd'}, '1': 2}], 'true': {'x': {'y': "
        "{'z': ['a long list', 'of several words', 'that does not stand on one "
        "line', 'whatever is done']}}}}");
    struct buf text = BUF_INIT;
    json_t *again = NULL;

    T_OK(yaml_write(&text, value));
    T_OK(yaml_read(&again, NULL, "a.yaml", buf_text(&text), text.len, t_err()));
    if (!json_equal(again, value))
        T_FAIL("it is another:\n%s", buf_text(&text));
    json_decref(again);
    json_decref(value);
    buf_release(&text);
}
