// SPDX-License-Identifier: Apache-2.0
// Which files a pattern names, and several files as one source.
#include "tests/harness/roots.h"
#include "tests/harness/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/paths.h"
#include "worker/data/data.h"

static void write_text(const char *name, const char *text)
{
    FILE *f = fopen(t_path(name), "wb");

    T_TRUE(f != NULL);
    T_EQ(fputs(text, f) >= 0, 1);
    T_EQ(fclose(f), 0);
}

// Returns the names that a pattern below the test's folder has, joined by
// blanks; the folder is left out.
static const char *names_of(const char *pattern)
{
    static char text[4096];
    struct paths f = {.path = NULL};
    size_t folder = strlen(t_tmpdir()) + 1;

    text[0] = '\0';
    T_OK(paths_expand(&f, t_roots(), t_path(pattern), t_err()));
    for (size_t i = 0; i < f.count; i++) {
        strcat(text, i > 0 ? " " : "");
        strcat(text, f.path[i] + folder);
    }
    paths_release(&f);
    return text;
}

TEST(files, stars_name_the_files_of_a_folder_in_byte_order)
{
    static const char *const names[] = {"b-10.csv", "b-2.csv",  "a.csv",
                                        "B.csv",    ".b-3.csv", "b-2.csv.old"};

    for (size_t i = 0; i < SL_COUNT(names); i++)
        write_text(names[i], "");
    T_STR(names_of("*.csv"), "B.csv a.csv b-10.csv b-2.csv");
    T_STR(names_of("b-*.csv"), "b-10.csv b-2.csv");
    T_STR(names_of("*b*2*"), "b-2.csv b-2.csv.old");
    T_STR(names_of("a.csv*"), "a.csv");
    T_STR(names_of(".b*"), ".b-3.csv");
}

TEST(files, braces_count_and_list)
{
    T_STR(names_of("p-{008..011}.tar"), "p-008.tar p-009.tar p-010.tar "
                                        "p-011.tar");
    T_STR(names_of("{b,a}/{1..2}"), "b/1 b/2 a/1 a/2");
    T_STR(names_of("{x,}y"), "xy y");
    T_STR(names_of("{7}.csv"), "{7}.csv");
    T_STR(names_of("{1..a}.csv"), "{1..a}.csv");
    T_STR(names_of("a}{.csv"), "a}{.csv");
    T_STR(names_of("{..}{1..1}"), "{..}1");
}

TEST(files, a_pattern_is_told_from_a_name)
{
    T_TRUE(paths_is_pattern("a*.csv"));
    T_TRUE(paths_is_pattern("{1..2}"));
    T_TRUE(!paths_is_pattern("a[1]?.csv"));
    T_TRUE(!paths_is_pattern("{7}"));
    T_TRUE(!paths_is_pattern(NULL));
}

static void refused(const char *pattern, enum sl_err code, const char *why)
{
    struct paths f = {.count = 77};
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(code, paths_expand(&f, t_roots(), pattern, &err));
    T_HAS(err.text, why);
    T_EQ(f.count, 77);
}

TEST(files, what_names_no_files_is_refused_with_words)
{
    char *deep = calloc(1, 5000), wide[3100];

    T_TRUE(deep != NULL);
    memset(deep, 'a', 4999);
    refused(t_path("none-*.csv"), SL_ENOENT, "no file has such a name");
    refused(t_path("none/*.csv"), SL_ENOENT, "does not exist");
    refused(t_path("*/x.csv"), SL_EINVAL, "in a folder's name");
    refused("{9..1}", SL_EINVAL, "falls");
    refused("{a,{b,c}}", SL_EINVAL, "within braces");
    refused("{0..99999999}", SL_ERANGE, "65536");
    refused("{0..999}{0..999}", SL_ERANGE, "65536");
    refused("{{{{{{{{{{{{{{{{{1..2}", SL_ERANGE, "more than 16 braces");
    snprintf(wide, sizeof(wide), "%.3000s{0..9999}", deep);
    refused(wide, SL_ERANGE, "bytes in all");
    refused(deep, SL_ERANGE, "longer than");
    free(deep);
}

TEST(files, folders_are_listed_below_the_roots_alone)
{
    struct paths f = {.count = 77};
    struct roots *roots = NULL;
    struct sl_error err = SL_ERROR_INIT;

    T_OK(roots_new(&roots, "worker", "--data-root", t_err()));
    T_OK(roots_add(roots, t_tmpdir(), t_err()));
    T_FAILS(SL_EDENIED, paths_expand(&f, roots, "/etc/*.conf", &err));
    T_HAS(err.text, "lies elsewhere");
    T_FAILS(SL_EDENIED, paths_expand(&f, roots, "../*.conf", &err));
    T_FAILS(SL_EDENIED, paths_expand(&f, NULL, "*.conf", &err));
    T_EQ(f.count, 77);
    roots_free(roots);
}

// ---- several files as one source

static const struct data_want two_numbers = {
    .rank = 1, .dim = {2}, .outputs = 1, .labels = DATA_VALUES};

static struct data_source csv_of(const char *pattern)
{
    return (struct data_source){.format = "csv",
                                .x = pattern,
                                .header = true,
                                .label_column = "y",
                                .scale = 1,
                                .roots = t_roots()};
}

static void check_row(struct data *d, uint64_t i, float a, float b, float y)
{
    float x[2], label;

    T_OK(data_read(d, i, x, &label, t_err()));
    T_NEAR(x[0], a, 0);
    T_NEAR(x[1], b, 0);
    T_NEAR(label, y, 0);
}

TEST(join, files_follow_each_other_and_each_has_its_own_header)
{
    static char *columns[] = {"a", "b"};
    struct data_source s = csv_of(t_path("c-*.csv"));
    struct data *d = NULL;

    s.columns = columns;
    s.columns_count = 2;
    write_text("c-1.csv", "a,b,y\n1,2,3\n4,5,6\n");
    write_text("c-2.csv", "y,b,a\n9,8,7\n");
    T_OK(data_open(&d, &s, &two_numbers, t_err()));
    T_EQ(data_samples(d), 3);
    check_row(d, 2, 7, 8, 9);
    check_row(d, 0, 1, 2, 3);
    check_row(d, 1, 4, 5, 6);
    data_soon(d, 2);
    data_expect(d, 1);
    T_TRUE(data_memory(d) > 0);
    data_free(d);
}

TEST(join, the_hash_tells_a_file_more_and_another_order)
{
    struct data_source s = csv_of(t_path("c-{1..2}.csv"));
    struct data *d = NULL;
    uint64_t first;

    write_text("c-1.csv", "a,b,y\n1,2,3\n");
    write_text("c-2.csv", "a,b,y\n1,2,3\n");
    write_text("c-3.csv", "a,b,y\n1,2,3\n");
    T_OK(data_open(&d, &s, &two_numbers, t_err()));
    first = data_hash(d);
    data_free(d);
    s.x = t_path("c-{2,1}.csv");
    T_OK(data_open(&d, &s, &two_numbers, t_err()));
    T_TRUE(data_hash(d) != first);
    data_free(d);
    s.x = t_path("c-*.csv");
    s.limit = 2; // so the third file is not opened
    T_OK(data_open(&d, &s, &two_numbers, t_err()));
    T_EQ(data_samples(d), 2);
    T_TRUE(data_hash(d) == first);
    data_free(d);
}

TEST(join, a_bad_sample_is_passed_over_by_its_number_in_the_whole)
{
    struct sl_error err = SL_ERROR_INIT;
    struct data_source s = csv_of(t_path("c-*.csv"));
    struct data *d = NULL;
    float x[2], y;

    write_text("c-1.csv", "a,b,y\n1,2,3\n");
    write_text("c-2.csv", "a,b,y\n1,secret,3\n4,5,6\n");
    T_OK(data_open(&d, &s, &two_numbers, t_err()));
    T_FAILS(SL_EINVAL, data_read(d, 1, x, &y, &err));
    T_HAS(err.text, "c-2.csv: line 2, column 1 is not a number");
    T_TRUE(strstr(err.text, "secret") == NULL);
    data_free(d);
    s.bad = bad_new(1);
    T_TRUE(s.bad != NULL);
    T_OK(data_open(&d, &s, &two_numbers, t_err()));
    check_row(d, 1, 4, 5, 6);
    T_TRUE(bad_has(s.bad, false, 1));
    data_free(d);
    bad_unref(s.bad);
}

TEST(join, ids_are_those_of_the_sample_that_was_read)
{
    static const struct id_column users[] = {{.name = "user"}};
    struct data_source s = csv_of(t_path("c-*.csv"));
    struct ids ids = {0};
    const struct id_bag *bag;
    struct data *d = NULL;

    s.ids = users;
    s.ids_count = 1;
    write_text("c-1.csv", "a,b,y,user\n1,2,3,11|12\n");
    write_text("c-2.csv", "user,a,b,y\n13,4,5,6\n");
    T_OK(data_open(&d, &s, &two_numbers, t_err()));
    T_OK(ids_begin(&ids, 1, t_err()));
    for (unsigned i = 0; i < 4; i++) {
        check_row(d, i % 2, i % 2 ? 4 : 1, i % 2 ? 5 : 2, i % 2 ? 6 : 3);
        T_OK(data_gather_ids(d, &ids, t_err()));
    }
    bag = ids_bags(&ids);
    T_EQ(bag->samples, 4);
    T_EQ(bag->offsets[4], 6);
    ids_release(&ids);
    data_free(d);
}

TEST(join, each_file_of_samples_needs_one_of_labels)
{
    struct sl_error err = SL_ERROR_INIT;
    struct data_source s = {.format = "npy", .scale = 1, .roots = t_roots()};
    struct data *d = NULL;

    write_text("x-1.npy", "");
    write_text("x-2.npy", "");
    write_text("y-1.npy", "");
    s.x = t_path("x-*.npy");
    s.y = t_path("y-*.npy");
    T_FAILS(SL_EINVAL, data_open(&d, &s, &two_numbers, &err));
    T_HAS(err.text, "each file of samples needs one of labels");
}

// Writes a npy of bytes, `rows` rows of 2 that count from `first`.
static void write_npy(const char *name, unsigned rows, unsigned first)
{
    FILE *f = fopen(t_path(name), "wb");
    char head[118];

    T_TRUE(f != NULL);
    memset(head, ' ', sizeof(head));
    head[snprintf(head, sizeof(head),
                  "{'descr': '|u1', 'fortran_order': False, 'shape': (%u, 2), "
                  "}",
                  rows)] = ' ';
    head[sizeof(head) - 1] = '\n';
    T_EQ(fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, f), 10);
    T_EQ(fwrite(head, 1, sizeof(head), f), sizeof(head));
    for (unsigned i = 0; i < 2 * rows; i++)
        T_TRUE(fputc((int)(first + i), f) >= 0);
    T_EQ(fclose(f), 0);
}

TEST(join, rows_of_arrays_may_stay_in_their_files)
{
    struct data_source s = {.format = "npy", .scale = 1, .roots = t_roots()};
    struct data_want want = two_numbers;
    struct data *d = NULL;

    want.outputs = 2;
    write_npy("x-1.npy", 3, 0);
    write_npy("x-2.npy", 2, 6);
    s.x = s.y = t_path("x-*.npy");
    for (unsigned stay = 0; stay < 2; stay++) {
        s.stay = stay == 1;
        T_OK(data_open(&d, &s, &want, t_err()));
        T_EQ(data_samples(d), 5);
        for (unsigned i = 0; i < 5; i++) {
            float x[2], y[2];

            T_OK(data_read(d, i, x, y, t_err()));
            T_NEAR(x[0], 2 * (float)i, 0);
            T_NEAR(y[1], 2 * (float)i + 1, 0);
        }
        T_TRUE(s.stay ? data_memory(d) < 60 : data_memory(d) >= 20 + 32);
        data_free(d);
    }
}
