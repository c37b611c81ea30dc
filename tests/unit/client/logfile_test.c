// SPDX-License-Identifier: Apache-2.0
#include "client/up/logfile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/fs.h"
#include "tests/harness/t.h"

static const char *read_all(const char *name)
{
    static char text[4097];
    struct buf got = BUF_INIT;

    text[0] = '\0';
    if (fs_read_all(fs_posix(), t_path(name), 4096, &got, NULL) == SL_OK)
        snprintf(text, sizeof(text), "%s", buf_text(&got));
    buf_release(&got);
    return text;
}

TEST(logfile, what_is_too_long_goes_beside_and_the_writer_goes_on)
{
    const char *path = t_path("x.log");
    int writer = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);

    T_ASSERT(writer >= 0);
    T_EQ(write(writer, "first\n", 6), 6);
    T_OK(logfile_bound(path, 10, t_err()));
    T_STR(read_all("x.log"), "first\n");
    T_STR(read_all("x.log.1"), "");
    T_EQ(write(writer, "second\n", 7), 7);
    T_OK(logfile_bound(path, 10, t_err()));
    T_STR(read_all("x.log"), "");
    T_STR(read_all("x.log.1"), "first\nsecond\n");
    T_EQ(write(writer, "a third line\n", 13), 13);
    T_STR(read_all("x.log"), "a third line\n"); // not behind a hole
    T_OK(logfile_bound(path, 10, t_err()));
    T_STR(read_all("x.log.1"), "a third line\n");
    close(writer);
}

TEST(logfile, one_that_is_not_there_or_cannot_be_kept)
{
    struct sl_error err = SL_ERROR_INIT;
    const char *path = t_path("y.log");
    int writer = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);

    T_OK(logfile_bound(t_path("nobody.log"), 1, t_err()));
    T_EQ(mkdir(t_path("y.log.1"), 0700), 0);
    T_EQ(write(writer, "too long\n", 9), 9);
    T_TRUE(logfile_bound(path, 1, &err) != SL_OK);
    T_HAS(err.text, "y.log.1");
    T_STR(read_all("y.log"), ""); // bounded all the same
    close(writer);
}
