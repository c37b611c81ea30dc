// SPDX-License-Identifier: Apache-2.0
#include "common/base/status.h"

#include <errno.h>

#include "tests/harness/t.h"

// Numbers cross the wire: this list may only grow at its end.
TEST(status, numbers_never_change)
{
    T_EQ(SL_OK, 0);
    T_EQ(SL_EINVAL, 1);
    T_EQ(SL_ESTALE, 5);
    T_EQ(SL_ECORRUPT, 9);
    T_EQ(SL_EUNAVAIL, 13);
    T_EQ(SL_ENUMERIC, 17);
    T_EQ(SL_EINTERNAL, 20);
}

TEST(status, names_and_sentences)
{
    T_STR(sl_err_name(SL_ESTALE), "SL_ESTALE");
    T_STR(sl_err_text(SL_ENOMEM), "out of memory");
    T_STR(sl_err_name((enum sl_err)999), "SL_UNKNOWN");
    T_TRUE(sl_err_text((enum sl_err)999) != NULL);
}

TEST(status, grpc_round_trip_keeps_the_meaning)
{
    T_EQ(sl_err_to_grpc(SL_ENOENT), 5);
    T_EQ(sl_err_to_grpc(SL_EAUTH), 16);
    T_EQ(sl_err_to_grpc((enum sl_err)999), 2);
    for (int grpc = 0; grpc <= 16; grpc++) {
        enum sl_err code = sl_err_from_grpc(grpc);

        if (grpc != 2 && grpc != 11) // UNKNOWN, OUT_OF_RANGE: never sent
            T_EQ(sl_err_to_grpc(code), grpc);
    }
    T_EQ(sl_err_from_grpc(-1), SL_EINTERNAL);
    T_EQ(sl_err_from_grpc(17), SL_EINTERNAL);
}

TEST(status, transient_is_what_may_go_away)
{
    unsigned count = 0;

    for (int i = 0; i < SL_ERR_COUNT; i++)
        count += sl_err_transient((enum sl_err)i);
    T_EQ(count, 4);
    T_TRUE(sl_err_transient(SL_ELOST));
}

TEST(status, errno)
{
    T_EQ(sl_err_from_errno(0), SL_OK);
    T_EQ(sl_err_from_errno(ENOSPC), SL_EIO);
    T_EQ(sl_err_from_errno(EACCES), SL_EDENIED);
    T_EQ(sl_err_from_errno(ENOENT), SL_ENOENT);
}

TEST(status, prefix_says_where)
{
    struct sl_error err = SL_ERROR_INIT;

    T_EQ(sl_fail(&err, SL_EINVAL, "%d is odd", 3), SL_EINVAL);
    T_EQ(sl_prefix(&err, err.code, "%s:%d", "a.yaml", 7), SL_EINVAL);
    T_STR(err.text, "a.yaml:7: 3 is odd");
    T_EQ(err.code, SL_EINVAL);
    T_EQ(sl_fail(NULL, SL_EIO, "nobody asked"), SL_EIO);
}

TEST(status, prefix_without_words_takes_the_sentence)
{
    struct sl_error err = SL_ERROR_INIT;

    sl_prefix(&err, SL_ENOMEM, "journal");
    T_STR(err.text, "journal: out of memory");
}

TEST(status, long_texts_are_cut)
{
    struct sl_error err = SL_ERROR_INIT;
    char text[2000];

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    sl_fail(&err, SL_EIO, "%s", text);
    T_EQ(strlen(err.text), SL_ERROR_TEXT - 1);
    sl_prefix(&err, SL_EIO, "%s", text);
    T_EQ(strlen(err.text), SL_ERROR_TEXT - 1);
}
