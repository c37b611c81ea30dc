// SPDX-License-Identifier: Apache-2.0
// Labels of several outputs: numbers stay, and classes are spread out.
#include "tests/harness/roots.h"
#include "tests/harness/t.h"

#include <string.h>

#include "common/base/fs.h"
#include "worker/data/data.h"

static const char *put(const char *name, const char *text)
{
    T_OK(fs_write_durable(fs_posix(), t_path(name), text, strlen(text),
                          t_err()));
    return t_path(name);
}

// One feature; a class of three, two numbers, and two classes of two.
static struct data_want parts(void)
{
    return (struct data_want){.rank = 1,
                              .dim = {1},
                              .outputs = 5,
                              .labels = DATA_VALUES,
                              .parts = 3,
                              .part = {{1, 3}, {2, 0}, {2, 2}}};
}

static char *const columns[] = {"k", "u", "v", "p", "q"};

static struct data_source csv(const char *path)
{
    return (struct data_source){.format = "csv",
                                .roots = t_roots(),
                                .scale = 1,
                                .header = true,
                                .x = path,
                                .label_columns = columns,
                                .label_columns_count = 5};
}

#define SPREAD 9

static void check_label(const float *y, const float want[SPREAD])
{
    for (unsigned i = 0; i < SPREAD; i++)
        if (y[i] != want[i])
            T_FAIL("number %u is %g, not %g", i, (double)y[i], (double)want[i]);
}

TEST(labels, classes_of_parts_are_spread_out)
{
    struct data_source s =
        csv(put("a.csv", "q,a,k,u,v,p\n1,7,2,0.5,-3,0\n0,8,0,4,5,1\n"));
    struct data_want w = parts();
    struct data *d;
    float x, y[SPREAD];

    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(data_label_bytes(d), sizeof(y));
    T_OK(data_read(d, 0, &x, y, t_err()));
    T_NEAR((double)x, 7, 0);
    check_label(y, (const float[]){0, 0, 1, 0.5f, -3, 1, 0, 0, 1});
    T_OK(data_read(d, 1, &x, y, t_err()));
    check_label(y, (const float[]){1, 0, 0, 4, 5, 0, 1, 1, 0});
    data_free(d);
}

// Of a part of several files too, which read through each other.
TEST(labels, weights_stand_behind_them)
{
    const struct data_part part = {.seed = 1, .part = 0.5, .held = true};
    struct data_source s;
    struct data_want w = parts();
    struct data *d, *held;
    float x, y[SPREAD + 1];

    put("b0.csv", "k,u,v,p,q,w,a\n1,2,3,0,0,0.5,6\n1,2,3,0,0,0.5,6\n"
                  "1,2,3,0,0,0.5,6\n1,2,3,0,0,0.5,6\n");
    put("b1.csv", "k,u,v,p,q,w,a\n1,2,3,0,0,0.5,6\n1,2,3,0,0,0.5,6\n"
                  "1,2,3,0,0,0.5,6\n1,2,3,0,0,0.5,6\n");
    s = csv(t_path("b{0..1}.csv"));
    s.weights = "w";
    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(data_label_bytes(d), sizeof(y));
    T_OK(data_split(&held, d, &part, NULL, NULL, t_err()));
    for (uint64_t i = 0; i < data_samples(held); i++) {
        T_OK(data_read(held, i, &x, y, t_err()));
        check_label(y, (const float[]){0, 1, 0, 2, 3, 1, 0, 1, 0});
        T_NEAR((double)y[SPREAD], 0.5, 0);
    }
    data_free(held);
    data_free(d);
}

TEST(labels, what_does_not_fit_is_refused)
{
    struct data_source s = csv(put("c.csv", "a,k,u,v,p,q\n1,3,0,0,0,0\n"
                                            "1,0,0,0,0.5,0\n"));
    struct data_want w = parts();
    struct sl_error err = SL_ERROR_INIT;
    struct data *d;
    float x, y[SPREAD];

    T_OK(data_open(&d, &s, &w, t_err()));
    T_FAILS(SL_ERANGE, data_read(d, 0, &x, y, &err));
    T_HAS(err.text, "sample 0, part 0 of its label: its label is too large; "
                    "the model has 3 outputs, so labels are 0 to 2");
    T_FAILS(SL_ERANGE, data_read(d, 1, &x, y, &err));
    T_HAS(err.text, "sample 1, part 2 of its label: its label is no whole "
                    "number");
    data_free(d);
    w.outputs = 6;
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "a label is 5 columns, and 6 numbers are wanted");
}
