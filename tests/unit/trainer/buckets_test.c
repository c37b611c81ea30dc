// SPDX-License-Identifier: Apache-2.0
// The buckets of models whose layers are small, large, and both.
#include "tests/harness/t.h"

#include "common/base/mem.h"
#include "tests/unit/worker/nets.h"
#include "trainer/ring/buckets.h"

#define MOST 2048

static struct elements *of;
static uint32_t count;

static void make(const char *layers, uint64_t most)
{
    struct model *m = t_model(layers);
    uint64_t at = 0;

    T_OK(buckets_make(&of, &count, m, most));
    for (uint32_t i = 0; i < count; i++) {
        T_EQ(of[i].first, at);
        T_TRUE(of[i].count > 0 && of[i].count <= most);
        at += of[i].count;
    }
    T_EQ(at, m->elements);
    model_free(m);
}

// A kernel of in * out, and a bias of out.
#define DENSE(in, out)                                                         \
    "{'type': 'dense', 'name': 'd" #in "', 'units': " #out "}"
#define NET(in, layers) "{'input_shape': [" #in "], 'layers': [" layers "]}"

// What comes before and behind a large layer does not wait for it.
TEST(buckets, a_large_layer_shares_none)
{
    make(NET(10, DENSE(10, 40) "," DENSE(40, 100) "," DENSE(100, 5)), MOST);
    T_EQ(count, 5);
    T_EQ(of[0].count, 10 * 40 + 40);
    T_EQ(of[1].count + of[2].count + of[3].count, 40 * 100 + 100);
    T_EQ(of[4].count, 100 * 5 + 5);
    sl_free(of);
}

TEST(buckets, small_layers_share_one)
{
    make(NET(10, DENSE(10, 40) "," DENSE(40, 20) "," DENSE(20, 5)), MOST);
    T_EQ(count, 1);
    sl_free(of);
    // 440, 820, 630, 620: three of them are too many.
    make(NET(10, DENSE(10, 40) "," DENSE(40, 20) "," DENSE(20, 30) "," DENSE(
                     30, 20)),
         MOST);
    T_EQ(count, 2);
    T_EQ(of[0].count, 440 + 820 + 630);
    sl_free(of);
}

// Parts are alike: none of them is a remainder that costs a message.
TEST(buckets, a_large_layer_is_cut_evenly)
{
    make(NET(41, DENSE(41, 100)), MOST); // 4,200: 1,400 each, by 16
    T_EQ(count, 3);
    T_EQ(of[0].count, 1408);
    T_EQ(of[1].count, 1408);
    T_EQ(of[2].count, 4200 - 2 * 1408);
    sl_free(of);
    make(NET(41, DENSE(41, 100)), 1401); // no multiple of 16 fits
    T_EQ(count, 3);
    T_EQ(of[0].count, 1400);
    sl_free(of);
}

// First layers that are small beside the rest have a way of their own; of a
// small model none has.
TEST(buckets, early_ones_are_a_small_part)
{
    make(NET(64, DENSE(64, 128) "," DENSE(128, 4096) "," DENSE(4096, 10)),
         1 << 16);
    T_EQ(of[0].count, 64 * 128 + 128);
    T_EQ(buckets_early(of, count), 1);
    sl_free(of);
    make(NET(64, DENSE(64, 1024) "," DENSE(1024, 300) "," DENSE(300, 10)),
         1 << 16);
    T_EQ(buckets_early(of, count), 0); // the first is more than a sixteenth
    sl_free(of);
    // Of 24 million elements 1.5 are a sixteenth, and the first two are 1.3.
    make(NET(512, DENSE(512, 1024) "," DENSE(1024, 800) "," DENSE(
                      800, 16000) "," DENSE(16000, 640)),
         1 << 20);
    T_EQ(buckets_early(of, count), 1);
    sl_free(of);
    make(NET(8, DENSE(8, 16) "," DENSE(16, 1024) "," DENSE(1024, 10)), 1 << 14);
    T_EQ(of[0].count, 8 * 16 + 16);
    T_EQ(buckets_early(of, count), 0);
    sl_free(of);
}

TEST(buckets, one_element_each_is_possible)
{
    make(NET(2, DENSE(2, 2)), 1);
    T_EQ(count, 6);
    sl_free(of);
}
