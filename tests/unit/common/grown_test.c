// SPDX-License-Identifier: Apache-2.0
// tests/unit/common/grown_test.c -- below a folder and nowhere else; whole
// pieces or none.
#include "common/base/grown.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/fs.h"
#include "tests/harness/t.h"

static void check_file(const char *folder, const char *name, const char *want)
{
    struct buf b = BUF_INIT;
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    T_OK(fs_read_all(fs_posix(), path, 1 << 20, &b, t_err()));
    T_STR(buf_text(&b), want);
    buf_release(&b);
}

TEST(grown, a_file_grows_in_a_folder_that_is_made)
{
    const char *root = t_tmpdir();
    struct grown g = GROWN_INIT;

    T_OK(grown_create(&g, root, "a/b", "x", t_err()));
    T_OK(grown_write(&g, "one ", 4, t_err()));
    T_OK(grown_write(&g, "two", 3, t_err()));
    check_file(root, "a/b/x", "one two");
    T_EQ(g.bytes, 7);
    grown_close(&g);
    grown_close(&g);
    T_FAILS(SL_EEXIST, grown_create(&g, root, "a/b", "x", t_err()));
    T_OK(grown_create(&g, root, "", "y", t_err()));
    grown_close(&g);
}

TEST(grown, nothing_leads_out_of_the_folder)
{
    static const char *const out[] = {"..",  "a/../..", "/etc", "a//b",
                                      "./a", "a/",      "a/./b"};
    const char *root = t_tmpdir();
    struct grown g = GROWN_INIT;
    char link[512];

    for (size_t i = 0; i < SL_COUNT(out); i++) {
        T_FAILS(SL_EINVAL, grown_check(out[i], t_err()));
        T_FAILS(SL_EINVAL, grown_create(&g, root, out[i], "x", t_err()));
    }
    T_OK(grown_check("a/b-c/..d", t_err()));
    snprintf(link, sizeof(link), "%s/link", root);
    T_EQ(symlink("/tmp", link), 0);
    T_FAILS(SL_EINVAL, grown_create(&g, root, "link", "x", t_err()));
    T_FAILS(SL_EINVAL, grown_create(&g, root, "link/a", "x", t_err()));
    T_FAILS(SL_ENOENT, grown_create(&g, "/nowhere/at/all", "", "x", t_err()));
    T_EQ(g.fd, -1);
}

// The disk takes ten bytes: what was half written is taken back, and when there
// is space again the file goes on.
TEST(grown, a_piece_is_written_whole_or_not_at_all)
{
    const char *root = t_tmpdir();
    struct grown g = GROWN_INIT;
    struct rlimit small, before;

    signal(SIGXFSZ, SIG_IGN);
    T_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    T_OK(grown_create(&g, root, "", "x", t_err()));
    T_OK(grown_write(&g, "123456", 6, t_err()));
    small = (struct rlimit){10, before.rlim_max};
    T_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    T_FAILS(SL_EIO, grown_write(&g, "abcdef", 6, t_err()));
    T_FAILS(SL_EIO, grown_write(&g, "abcdef", 6, t_err()));
    check_file(root, "x", "123456");
    T_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    T_OK(grown_write(&g, "abcdef", 6, t_err()));
    check_file(root, "x", "123456abcdef");
    grown_close(&g);
}
