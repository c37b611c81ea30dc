// SPDX-License-Identifier: Apache-2.0
#include "client/show/shards.h"

#include "client/cli/listing.h"
#include "tests/harness/t.h"

enum { MANY = 2560 };

struct job {
    Sluice__V1__JobStatus status;
    Sluice__V1__ShardStatus shard[MANY], *shards[MANY];
    Sluice__V1__ShardCounts counts[MANY];
};

static struct job j;

static void served(size_t count)
{
    sluice__v1__job_status__init(&j.status);
    j.status.n_shards = count;
    j.status.shards = j.shards;
    for (uint32_t i = 0; i < count; i++) {
        sluice__v1__shard_status__init(&j.shard[i]);
        sluice__v1__shard_counts__init(&j.counts[i]);
        j.shards[i] = &j.shard[i];
        j.shard[i].shard = i;
        j.shard[i].psserver = (char *)(i % 2 == 0 ? "ps-0" : "ps-1");
        j.shard[i].incarnation = 1;
        j.shard[i].bytes = 1024;
        j.shard[i].counts = &j.counts[i];
        j.counts[i].counted = 1200 + i % 5;
    }
}

static void same(struct buf *text, const char *want)
{
    T_EQ(buf_append_char(text, '\0'), SL_OK);
    T_STR((const char *)text->data, want);
    buf_release(text);
}

TEST(shards, many_are_two_lines)
{
    struct buf text = BUF_INIT;

    served(MANY);
    T_EQ(shards_text(&text, &j.status), SL_OK);
    same(&text,
         "2,560 shards, 2.50 MiB, counted 1,200 to 1,204; --shards lists "
         "them\n");

    j.shard[17].incarnation = 0;
    T_EQ(shards_text(&text, &j.status), SL_OK);
    same(&text,
         "2,560 shards, 2.50 MiB, counted 1,200 to 1,204; --shards lists "
         "them\n"
         "1 is not served now; the first is shard 17 of psserver ps-1\n");

    j.shard[2].incarnation = j.shard[2559].incarnation = 0;
    j.counts[2].counted = 7;
    T_EQ(shards_text(&text, &j.status), SL_OK);
    same(&text,
         "2,560 shards, 2.50 MiB, counted 7 to 1,204; --shards lists them\n"
         "3 are not served now; the first is shard 2 of psserver ps-0\n");
}

static enum sl_err table(struct buf *text)
{
    return list_table(text, LIST_SHARDS, false,
                      (ProtobufCMessage *const *)j.status.shards,
                      j.status.n_shards, t_err());
}

TEST(shards, each_has_a_row_of_the_table)
{
    struct buf text = BUF_INIT;

    served(2);
    j.shard[1].incarnation = 0;
    T_OK(table(&text));
    same(
        &text,
        "shard  psserver  incarnation      size  counted  applied  duplicates  "
        "refused  staleness\n"
        "0      ps-0                1  1.00 KiB    1,200        0           0  "
        "      0      p50 -\n"
        "1      ps-1          waiting  1.00 KiB    1,201        0           0  "
        "      0      p50 -\n");
}

TEST(shards, a_job_that_is_not_placed_has_none)
{
    struct buf text = BUF_INIT;

    served(0);
    T_OK(table(&text));
    T_EQ(shards_text(&text, &j.status), SL_OK);
    T_EQ(text.len, 0);
    buf_release(&text);
}
