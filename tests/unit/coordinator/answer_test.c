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

// A text of a request, as in /api/v1/jobs/%FF, and one that is cut within a
// character.
TEST(answer, an_error_may_have_any_bytes)
{
    static const struct {
        const char *why, *said;
    } rows[] = {
        {"no job 'a'", "no job 'a'"},
        {"no job '\xff'", "no job '\xef\xbf\xbd'"},
        {"no job 'x\xc3", "no job 'x\xef\xbf\xbd"},
        {"", ""},
    };

    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct http_answer a = {.status = 200};
        json_t *said;

        answer_error(&a, SL_ENOENT, rows[i].why);
        T_EQ(a.status, 404);
        T_STR(a.type, "application/json");
        said = json_loads(buf_text(&a.body), 0, NULL);
        T_STR(json_string_value(json_object_get(said, "error")), rows[i].said);
        json_decref(said);
        buf_release(&a.body);
    }
}
