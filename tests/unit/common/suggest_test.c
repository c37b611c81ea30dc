// SPDX-License-Identifier: Apache-2.0
#include "common/base/suggest.h"

#include "common/base/status.h"
#include "tests/harness/t.h"

TEST(suggest, distances)
{
    static const struct {
        const char *a, *b;
        unsigned want;
    } rows[] = {{"", "", 0},
                {"", "abc", 3},
                {"abc", "abc", 0},
                {"abc", "acb", 1},
                {"ca", "abc", 3},
                {"modle", "model", 1},
                {"kitten", "sitting", 3},
                {"a", "b", 1}};

    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        T_EQ(sl_edit_distance(rows[i].a, rows[i].b), rows[i].want);
        T_EQ(sl_edit_distance(rows[i].b, rows[i].a), rows[i].want);
    }
}

TEST(suggest, only_what_is_near)
{
    static const char *const words[] = {"model", "mode", "data", "optimizer"};

    T_STR(sl_suggest("modle", words, 4), "model");
    T_STR(sl_suggest("optimiser", words, 4), "optimizer");
    T_STR(sl_suggest("mode", words, 4), "mode");
    T_TRUE(sl_suggest("zebra", words, 4) == NULL);
    T_TRUE(sl_suggest("", words, 4) == NULL);
    T_TRUE(sl_suggest("model", NULL, 0) == NULL);
}

TEST(suggest, long_words)
{
    char a[200], b[200];

    memset(a, 'a', 199);
    memset(b, 'b', 199);
    a[199] = b[199] = '\0';
    T_EQ(sl_edit_distance(a, b), 63);
    T_EQ(sl_edit_distance(a, a), 0);
}
