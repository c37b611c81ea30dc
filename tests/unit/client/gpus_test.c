// SPDX-License-Identifier: Apache-2.0
#include "client/up/gpus.h"

#include "tests/harness/t.h"

static struct sl_error err;

#define HOST                                                                   \
    "{\"device\":\"cpu\",\"usable\":true,\"name\":\"cpu\",\"bytes\":0,"        \
    "\"dtypes\":[\"f32\"]}"
#define GPU(n)                                                                 \
    "{\"device\":\"cuda:" #n "\",\"usable\":true,\"name\":\"NVIDIA H200\","    \
    "\"bytes\":1,\"dtypes\":[\"f32\",\"f16\"]},"
#define BROKEN(n)                                                              \
    "{\"device\":\"cuda:" #n "\",\"usable\":false,\"why\":\"out of memory\"},"
#define NONE                                                                   \
    "{\"device\":\"cuda\",\"usable\":false,\"why\":\"no NVIDIA driver\"},"

TEST(gpus, all_are_those_that_can_be_used)
{
    struct gpus g;

    T_OK(gpus_choose(&g, "[" GPU(0) BROKEN(1) GPU(2) HOST "]\n", "all",
                     t_err()));
    T_EQ(g.count, 2);
    T_EQ(g.ordinal[0], 0);
    T_EQ(g.ordinal[1], 2);
}

TEST(gpus, a_number_takes_the_first)
{
    struct gpus g;

    T_OK(gpus_choose(&g, "[" GPU(0) GPU(1) HOST "]", "1", t_err()));
    T_EQ(g.count, 1);
    T_FAILS(SL_ENOTSUP, gpus_choose(&g, "[" GPU(0) GPU(1) HOST "]", "3", &err));
    T_HAS(err.text, "this host has 2 that can be used");
    T_EQ(g.count, 1);
}

TEST(gpus, none_is_an_error_that_says_why)
{
    struct gpus g;

    T_FAILS(SL_ENOTSUP, gpus_choose(&g, "[" NONE HOST "]\n", "all", &err));
    T_HAS(err.text, "no NVIDIA driver");
    T_HAS(err.text, "leave --gpus out");
    T_FAILS(SL_ENOTSUP, gpus_choose(&g, "[" HOST "]\n", "1", &err));
}

TEST(gpus, other_lines_are_passed_over)
{
    struct gpus g;

    T_OK(gpus_choose(&g, "a warning of some library\n[" GPU(0) HOST "]\nbye",
                     "all", t_err()));
    T_EQ(g.count, 1);
    T_FAILS(SL_EINVAL, gpus_choose(&g, "Illegal instruction", "all", &err));
}

TEST(gpus, what_is_wanted_is_read_strictly)
{
    static const char *const wrong[] = {"", "0", "-1", "two", "1x", "65"};
    struct gpus g;

    for (unsigned i = 0; i < SL_COUNT(wrong); i++) {
        T_FAILS(SL_EINVAL,
                gpus_choose(&g, "[" GPU(0) HOST "]", wrong[i], &err));
        T_HAS(err.text, "is not all or 1 to 64");
    }
    T_FAILS(SL_EINVAL, gpus_find(&g, "/no/such/worker", "x", &err));
    T_FAILS(SL_ENOENT, gpus_find(&g, "/no/such/worker", "all", &err));
}

TEST(gpus, a_worker_may_have_several)
{
    struct gpus g = {.count = 5, .ordinal = {0, 2, 3, 6, 63}};
    char list[GPUS_LIST];

    T_EQ(gpus_workers(&g, 1), 5);
    gpus_list(list, &g, 1, 4);
    T_STR(list, "cuda:63");
    T_EQ(gpus_workers(&g, 2), 3);
    gpus_list(list, &g, 2, 1);
    T_STR(list, "cuda:3,cuda:6");
    gpus_list(list, &g, 2, 2);
    T_STR(list, "cuda:63");
    T_EQ(gpus_workers(&g, GPUS_PER_WORKER), 1);
    gpus_list(list, &g, GPUS_PER_WORKER, 0);
    T_STR(list, "cuda:0,cuda:2,cuda:3,cuda:6,cuda:63");
    g.count = 0;
    T_EQ(gpus_workers(&g, 4), 0);
}
