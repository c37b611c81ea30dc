// SPDX-License-Identifier: Apache-2.0
#include "common/base/list.h"

#include "tests/harness/t.h"

struct item {
    int n;
    struct list_node node;
};

static int number(struct list_node *n)
{
    return list_entry(n, struct item, node)->n;
}

TEST(list, order_and_removal)
{
    struct item a = {.n = 1}, b = {.n = 2}, c = {.n = 3};
    struct list l;
    int sum = 0;

    list_init(&l);
    T_TRUE(list_first(&l) == NULL && list_pop_front(&l) == NULL);
    list_push_back(&l, &b.node);
    list_push_back(&l, &c.node);
    list_push_front(&l, &a.node);
    list_for(at, &l) sum = sum * 10 + number(at);
    T_EQ(sum, 123);
    list_remove(&b.node);
    T_FALSE(list_on(&b.node));
    list_remove(&b.node); // twice is allowed
    T_PTR(list_next(&l, &a.node), &c.node);
    T_TRUE(list_next(&l, &c.node) == NULL);
    T_PTR(list_last(&l), &c.node);
    list_for_safe(at, &l) list_remove(at);
    T_TRUE(list_empty(&l));
}

TEST(list, take_all)
{
    struct item a = {.n = 1}, b = {.n = 2}, c = {.n = 3};
    struct list to, from;
    int sum = 0;

    list_init(&to);
    list_init(&from);
    list_take_all(&to, &from);
    T_TRUE(list_empty(&to));
    list_push_back(&to, &a.node);
    list_push_back(&from, &b.node);
    list_push_back(&from, &c.node);
    list_take_all(&to, &from);
    T_TRUE(list_empty(&from));
    list_for(at, &to) sum = sum * 10 + number(at);
    T_EQ(sum, 123);
    T_PTR(list_last(&to), &c.node);
}
