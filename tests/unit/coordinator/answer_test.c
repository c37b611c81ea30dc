// SPDX-License-Identifier: Apache-2.0
// Answers of the dashboard: whole, or 503.
#include "coordinator/dashboard/answer.h"

#include <stdlib.h>

#include "tests/harness/t.h"

static size_t left; // allocations of JSON that succeed

static void *json_alloc(size_t bytes)
{
    return left == 0 ? NULL : (left--, malloc(bytes));
}

static json_t *numbers(void)
{
    json_t *list = json_array(), *object = json_object();

    for (int i = 0; i < 40; i++)
        answer_add(&list, json_integer(i));
    answer_set(&object, "count", json_integer(40));
    return json_pack("{s:o, s:o}", "list", list, "object", object);
}

static bool is_whole(const json_t *answer)
{
    return json_array_size(json_object_get(answer, "list")) == 40 &&
           json_object_size(json_object_get(answer, "object")) == 1;
}

// Raises the point at which memory is out until there is enough.
TEST(answer, has_all_of_its_lists_or_is_none)
{
    struct http_answer a = {.status = 200};
    json_t *answer = NULL;

    for (size_t n = 0; answer == NULL; n++) {
        left = n;
        json_set_alloc_funcs(json_alloc, free);
        answer = numbers();
        json_set_alloc_funcs(malloc, free);
        T_LT(n, 1000);
    }
    T_TRUE(is_whole(answer));
    json_decref(answer);
    answer_json(&a, NULL);
    T_EQ(a.status, 503);
    buf_release(&a.body);
}
