// SPDX-License-Identifier: Apache-2.0
// tests/unit/worker/team_test.c -- the devices of a team: their names, what is
// posted to them, who computes which samples.
#include "worker/device/team.h"

#include "tests/harness/t.h"

static struct sl_error err; // of calls whose text is looked at

TEST(team, names_are_read_as_they_stand)
{
    struct team_names n = {.count = 77};

    T_OK(team_names_read(&n, "auto", t_err()));
    T_EQ(n.count, 1);
    T_STR(n.name[0], "auto");
    T_OK(team_names_read(&n, "cuda:3,cuda:1", t_err()));
    T_EQ(n.count, 2);
    T_STR(n.name[0], "cuda:3");
    T_STR(n.name[1], "cuda:1");
    T_OK(team_names_read(&n, "cpu,cpu,cpu", t_err()));
    T_EQ(n.count, 3);
}

TEST(team, names_that_do_not_fit_are_refused)
{
    static const struct {
        const char *list, *word;
    } cases[] = {
        {"", "commas"},
        {"cpu,", "commas"},
        {",cpu", "commas"},
        {"cpu,ref", "do not compute together"},
        {"cuda:0,cpu", "do not compute together"},
        {"cuda:1,cuda:0,cuda:1", "cuda:1 is named twice"},
        {"cuda,cuda:0", "named twice"},
        {"auto,cuda:1", "auto"},
        {"cpu,auto", "auto"},
        {"ref,ref,ref,ref,ref,ref,ref,ref,ref,ref,ref,ref,ref,ref,ref,ref,ref",
         "at most 16"},
        {"a-name-that-is-longer-than-any-backend-and-any-number-of-it:0",
         "commas"},
    };

    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct team_names n = {.count = 77};

        T_FAILS(SL_EINVAL, team_names_read(&n, cases[i].list, &err));
        T_HAS(err.text, cases[i].word);
        T_EQ(n.count, 77);
    }
}

static struct team *team_of(unsigned devices, struct kern_dev **first)
{
    struct team_names n = {.count = devices};
    struct team *t = NULL;

    for (unsigned i = 0; i < devices; i++)
        memcpy(n.name[i], "ref", 4);
    T_OK(kern_open(first, "ref", NULL, t_err()));
    T_OK(team_new(&t, *first, &n, NULL, t_err()));
    return t;
}

static void close(struct team *t, struct kern_dev *first)
{
    team_free(t);
    kern_close(first);
}

TEST(team, parts_are_the_batch)
{
    for (unsigned devices = 1; devices <= 5; devices++) {
        struct kern_dev *first = NULL;
        struct team *t = team_of(devices, &first);

        T_EQ(team_mates(t), devices - 1);
        for (uint32_t n = 1; n < 20; n++) {
            uint32_t at = 0, from, most = team_part(t, 0, n, &from);

            for (unsigned k = 0; k < devices; k++) {
                uint32_t count = team_part(t, k, n, &from);

                T_EQ(from, at);
                T_TRUE(count <= most && count + 1 >= most);
                at += count;
            }
            T_EQ(at, n);
            T_GT(most, 0);
        }
        close(t, first);
    }
}

// ---- what is posted

struct note {
    unsigned *list, *count, number;
    enum sl_err rc;
};

static enum sl_err note(struct kern_dev *dev, const void *args,
                        struct sl_error *e)
{
    const struct note *n = args;

    T_STR(dev->backend->name, "ref");
    n->list[(*n->count)++] = n->number;
    return n->rc == SL_OK ? SL_OK : sl_fail(e, n->rc, "number %u", n->number);
}

// More than a mate may be behind.
TEST(team, a_mate_does_all_in_order)
{
    struct kern_dev *first = NULL;
    struct team *t = team_of(3, &first);
    unsigned list[2][200], count[2] = {0, 0};

    for (unsigned i = 0; i < 400; i++) {
        struct note n = {list[i % 2], &count[i % 2], i, SL_OK};

        team_post(t, i % 2, note, &n, sizeof(n));
    }
    T_OK(team_wait_all(t, t_err()));
    for (unsigned k = 0; k < 2; k++) {
        T_EQ(count[k], 200);
        for (unsigned i = 0; i < 200; i++)
            T_EQ(list[k][i], 2 * i + k);
    }
    close(t, first);
}

TEST(team, behind_a_failure_nothing_is_done_until_it_is_taken)
{
    struct kern_dev *first = NULL;
    struct team *t = team_of(2, &first);
    unsigned list[100], count = 0;

    for (unsigned i = 0; i < 50; i++) {
        struct note n = {list, &count, i, i == 5 ? SL_ENOMEM : SL_OK};

        team_post(t, 0, note, &n, sizeof(n));
    }
    T_FAILS(SL_ENOMEM, team_wait(t, 0, &err));
    T_HAS(err.text, "number 5");
    T_EQ(count, 6);
    T_OK(team_wait(t, 0, t_err())); // it is told of once
    team_post(t, 0, note, &(struct note){list, &count, 77, SL_OK},
              sizeof(struct note));
    T_OK(team_wait_all(t, t_err()));
    T_EQ(count, 7);
    T_EQ(list[6], 77);
    close(t, first);
}

TEST(team, one_that_does_not_open_is_named)
{
    struct team_names n = {.count = 2, .name = {"ref", "cuda:77"}};
    struct kern_dev *first = NULL;
    struct team *t = NULL;

    T_OK(kern_open(&first, "ref", NULL, t_err()));
    T_TRUE(team_new(&t, first, &n, NULL, &err) != SL_OK);
    T_TRUE(t == NULL);
    T_HAS(err.text, "cuda");
    kern_close(first);
}
