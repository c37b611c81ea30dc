// SPDX-License-Identifier: Apache-2.0
#include "host/launch/hostlist.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"

// The names with blanks between.
static const char *names(const char *text)
{
    static struct buf all;
    struct hostlist list = HOSTLIST_INIT;

    T_OK(hostlist_read(&list, "NODES", text, t_err()));
    buf_reset(&all);
    for (size_t i = 0; i < list.count; i++)
        T_OK(
            buf_appendf(&all, "%s%s", i > 0 ? " " : "", hostlist_at(&list, i)));
    hostlist_release(&list);
    return buf_text(&all);
}

TEST(hostlist, brackets_keep_zeroes_and_multiply)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"a", "a"},
        {"n[01-04,07]", "n01 n02 n03 n04 n07"},
        {"a,b[9-11]", "a b9 b10 b11"},
        {"n[09-11]", "n09 n10 n11"},
        {"r[1-2]n[0-1]", "r1n0 r1n1 r2n0 r2n1"},
        {"r[1-2]n[0-1]-ib.lan,x", "r1n0-ib.lan r1n1-ib.lan r2n0-ib.lan "
                                  "r2n1-ib.lan x"},
        {"[1-3]", "1 2 3"},
        {"a,a", "a a"},
        {"n[5]", "n5"},
        {"n[000-001]_[1]", "n000_1 n001_1"},
    };

    for (size_t i = 0; i < SL_COUNT(rows); i++)
        T_STR(names(rows[i].text), rows[i].want);
}

TEST(hostlist, what_is_no_list_is_refused_with_the_place)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "NODES:1: a name is missing here"},
        {"a,", "NODES:3: a name is missing here"},
        {",a", "NODES:1: a name is missing here"},
        {"a,,b", "NODES:3: a name is missing here"},
        {"n[3-1]", "NODES:3: a range must not count down"},
        {"n[", "NODES:3: a number of 1 to 9 digits is missing here"},
        {"n[1-2", "NODES:2: the bracket is never closed"},
        {"n[1-]", "NODES:5: a number"},
        {"n[1,]", "NODES:5: a number"},
        {"n[]", "NODES:3: a number"},
        {"n[1;2]", "NODES:4: ',', '-' or ']' must stand here"},
        {"n[1-2-3]", "NODES:6: ',', '-' or ']' must stand here"},
        {"n[0123456789]", "NODES:3: a number of 1 to 9 digits"},
        {"n]1", "NODES:2: this character cannot be part of a name"},
        {"a b", "NODES:2: this character cannot be part of a name"},
        {"n[[1]]", "NODES:3: a number"},
    };

    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct hostlist list = HOSTLIST_INIT;
        struct sl_error err = SL_ERROR_INIT;

        T_FAILS(SL_EINVAL, hostlist_read(&list, "NODES", rows[i].text, &err));
        T_HAS(err.text, rows[i].says);
        T_EQ(list.count, 0);
    }
}

TEST(hostlist, names_and_bytes_have_limits)
{
    struct hostlist list = HOSTLIST_INIT;
    struct sl_error err = SL_ERROR_INIT;
    char *text = malloc(HOSTLIST_TEXT_MAX + 2);

    T_OK(hostlist_read(&list, "NODES", "n[1-65536]", t_err()));
    T_EQ(list.count, HOSTLIST_NAMES_MAX);
    T_STR(hostlist_at(&list, 65535), "n65536");
    hostlist_release(&list);

    T_FAILS(SL_ERANGE, hostlist_read(&list, "NODES", "n[0-65536]", &err));
    T_FAILS(SL_ERANGE, hostlist_read(&list, "NODES", "a,n[1-65536]", &err));
    T_FAILS(SL_ERANGE, hostlist_read(&list, "NODES", "n[1-300]m[1-300]", &err));
    T_HAS(err.text, "more than 65536 names");
    T_FAILS(SL_ERANGE, hostlist_read(&list, "NODES", "n[0-999999999]", &err));

    memset(text, 'a', HOSTLIST_TEXT_MAX + 1);
    text[HOSTLIST_TEXT_MAX + 1] = '\0';
    T_FAILS(SL_ERANGE, hostlist_read(&list, "NODES", text, &err));
    T_HAS(err.text, "more than 65536 bytes");
    text[HOSTLIST_NAME_MAX + 1] = '\0';
    T_FAILS(SL_ERANGE, hostlist_read(&list, "NODES", text, &err));
    T_HAS(err.text, "longer than 253 bytes");
    text[HOSTLIST_NAME_MAX] = '\0';
    T_OK(hostlist_read(&list, "NODES", text, t_err()));
    hostlist_release(&list);
    free(text);
}

TEST(hostlist, every_allocation_may_fail)
{
    struct hostlist list = HOSTLIST_INIT;
    uint64_t before = sl_mem_live();
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = hostlist_read(&list, "NODES", "r[1-2]n[0-1],x", NULL);
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        T_EQ(list.count, failed ? 0 : 5);
    }
    hostlist_release(&list);
    T_EQ(sl_mem_live(), before);
}
