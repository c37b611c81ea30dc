// SPDX-License-Identifier: Apache-2.0
// Files of a label and numbered values: values as a row, numbers as ids.
#include "tests/harness/roots.h"
#include "tests/harness/t.h"

#include <string.h>

#include "common/base/fs.h"
#include "worker/data/data.h"
#include "worker/data/data_ids.h"

static const char *put_text(const char *name, const char *text)
{
    T_OK(fs_write_durable(fs_posix(), t_path(name), text, strlen(text),
                          t_err()));
    return t_path(name);
}

static struct data_want classes_of(uint64_t features, uint64_t outputs)
{
    return (struct data_want){
        .rank = 1, .dim = {features}, .outputs = outputs, .labels = DATA_INDEX};
}

static struct data_source source_of(const char *path)
{
    return (struct data_source){.format = "libsvm",
                                .roots = t_roots(),
                                .x = path,
                                .scale = 1,
                                .first_index = 1};
}

// Checks the row of four numbers of a sample, and its class.
static void row_is(struct data *d, uint64_t number, const float want[4],
                   int32_t label)
{
    float x[4] = {9, 9, 9, 9};
    int32_t y = 9;

    T_OK(data_read(d, number, x, &y, t_err()));
    T_MEM(x, want, sizeof(x));
    T_EQ(y, label);
}

TEST(libsvm, values_lie_where_their_numbers_say)
{
    struct data_source s =
        source_of(put_text("t.svm", "+1 1:0.5 4:-2e1 # a note\r\n"
                                    "-1\n"
                                    "0 2:3\t3:4 \n"
                                    "1 1:1 2:2 3:3 4:4\n\n"));
    struct data_want w = classes_of(4, 2);
    struct data *d, *other;

    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(data_samples(d), 4);
    row_is(d, 3, (float[]){1, 2, 3, 4}, 1);
    row_is(d, 0, (float[]){0.5f, 0, 0, -20}, 1);
    row_is(d, 1, (float[]){0, 0, 0, 0}, 0); // -1
    row_is(d, 2, (float[]){0, 3, 4, 0}, 0);
    s.first_index = 0;
    T_OK(data_open(&other, &s, &w, t_err()));
    row_is(other, 2, (float[]){0, 0, 3, 4}, 0);
    T_NE(data_hash(other), data_hash(d));
    data_free(other);
    data_free(d);
}

TEST(libsvm, what_a_line_does_not_name_is_scaled_as_well)
{
    struct data_source s = source_of(put_text("t.svm", "2.5 2:3\n-1 1:1\n"));
    struct data_want w = {.rank = 1, .dim = {2}, .outputs = 1};
    float x[2], y;
    struct data *d;

    w.labels = DATA_VALUES;
    s.scale = 2;
    s.offset = 1;
    T_OK(data_open(&d, &s, &w, t_err()));
    T_OK(data_read(d, 0, x, &y, t_err()));
    T_EQ(x[0], 1);
    T_EQ(x[1], 7);
    T_EQ(y, 2.5f);
    T_OK(data_read(d, 1, x, &y, t_err()));
    T_EQ(y, -1); // no class
    data_free(d);
}

static void bag_is(struct data *d, size_t n, const uint64_t *want)
{
    struct ids ids = {0};

    T_EQ(data_id_columns(d), 1);
    T_OK(ids_begin(&ids, 1, t_err()));
    T_OK(data_gather_ids(d, &ids, t_err()));
    T_EQ(ids_bags(&ids)[0].offsets[1], n);
    if (n > 0)
        T_MEM(ids_bags(&ids)[0].ids, want, n * sizeof(*want));
    ids_release(&ids);
}

TEST(libsvm, numbers_behind_the_input_are_ids)
{
    struct data_source s = source_of(put_text(
        "t.svm", "1 1:0.5 3:1 7:0 18446744073709551615:1\n0 2:2\n1 9:0.5\n"));
    const struct id_column column = {.name = "feature"};
    struct data_want w = classes_of(2, 2);
    struct sl_error err = SL_ERROR_INIT;
    struct data *d;
    float x[2];
    int32_t y;

    s.ids = &column;
    s.ids_count = 1;
    T_OK(data_open(&d, &s, &w, t_err()));
    T_OK(data_read(d, 0, x, &y, t_err()));
    T_EQ(x[0], 0.5f);
    T_EQ(x[1], 0);
    bag_is(d, 2, (uint64_t[]){3, UINT64_MAX});
    T_OK(data_read(d, 1, x, &y, t_err()));
    T_EQ(x[1], 2);
    bag_is(d, 0, NULL);
    T_FAILS(SL_EINVAL, data_read(d, 2, x, &y, &err));
    T_HAS(err.text, "t.svm: line 3: '9:0.5' is an id, which has the value 1");
    data_free(d);
}

static void line_fails(const char *text, const char *says)
{
    struct data_source s = source_of(put_text("bad.svm", text));
    struct data_want w = classes_of(3, 2);
    struct sl_error err = SL_ERROR_INIT;
    struct data *d;
    float x[3];
    int32_t y;
    enum sl_err rc = data_open(&d, &s, &w, &err);

    if (rc == SL_OK) {
        rc = data_read(d, 0, x, &y, &err);
        data_free(d);
    }
    T_NE(rc, SL_OK);
    T_HAS(err.text, says);
}

TEST(libsvm, says_what_is_wrong_and_where)
{
    line_fails("", "bad.svm: is empty");
    line_fails("\n0 1:1\n", "line 1: is empty");
    line_fails("# nothing\n", "line 1: is empty");
    line_fails("x 1:1\n", "line 1: 'x' is not a number, as the label");
    line_fails("1,2 1:1\n", "line 1: '1,2' has several labels");
    line_fails("2 1:1\n", "line 1: its label is too large");
    line_fails("-2 1:1\n", "line 1: its label");
    line_fails("0 4:1\n",
               "line 1: '4:1' is beyond the model's input of 3 numbers");
    line_fails("0 18446744073709551616:1\n", "is not of the form number:value");
    line_fails("0 0:1 1:1\n", "'0:1' is numbered from 0; say first_index: 0");
    line_fails("0 2:1 1:1\n", "'1:1' breaks the rising order of numbers");
    line_fails("0 2:1 2:1\n", "'2:1' breaks the rising order of numbers");
    line_fails("0 1\n", "'1' is not of the form number:value");
    line_fails("0 -1:1\n", "'-1:1' is not of the form number:value");
    line_fails("0 1:\n", "'1:' lacks a number behind the colon");
    line_fails("0 1:nan\n", "'1:nan' lacks a number behind the colon");
    line_fails("0 1:1:1\n", "lacks a number behind the colon");
    line_fails("0 qid:7 1:1\n", "'qid:7' belongs to a ranking");
}

// A model of several values has no label for each.
TEST(libsvm, a_line_has_one_label)
{
    struct data_source s = source_of(put_text("t.svm", "1 1:1\n"));
    struct data_want w = {.rank = 1, .dim = {2}, .outputs = 2};
    struct sl_error err = SL_ERROR_INIT;
    struct data *d;

    w.labels = DATA_VALUES;
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "a line has one label, but the model has 2 outputs");
}

TEST(libsvm, files_of_a_pattern_are_one_set)
{
    struct data_want w = classes_of(4, 2);
    struct data_source s;
    struct data *d;

    put_text("p0.svm", "1 1:1\n0 2:1\n");
    put_text("p1.svm", "1 3:1\n");
    s = source_of(t_path("p{0..1}.svm"));
    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(data_samples(d), 3);
    row_is(d, 2, (float[]){0, 0, 1, 0}, 1);
    row_is(d, 1, (float[]){0, 1, 0, 0}, 0);
    data_free(d);
}
