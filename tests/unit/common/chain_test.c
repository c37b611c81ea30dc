// SPDX-License-Identifier: Apache-2.0
#include "common/base/chain.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "tests/harness/t.h"

static const char *write_three(void)
{
    const char *path = t_path("log");
    struct chain *c;

    T_OK(chain_open(&c, fs_posix(), path, NULL, t_err()));
    T_OK(chain_add(c, "\"who\":\"ann\"", t_err()));
    T_OK(chain_add(c, "\"who\":\"bob\"", t_err()));
    T_OK(chain_sync(c, t_err()));
    chain_free(c);
    T_OK(chain_open(&c, fs_posix(), path, NULL, t_err())); // another start
    T_OK(chain_add(c, "\"who\":\"eve\"", t_err()));
    chain_free(c);
    return path;
}

static enum sl_err verify(const char *path, struct chain_end *end,
                          struct sl_error *e)
{
    chain_begin(end);
    return chain_verify(fs_posix(), path, end, e);
}

static void read_text(struct buf *out, const char *path)
{
    out->len = 0;
    T_OK(fs_read_all(fs_posix(), path, 1 << 20, out, t_err()));
}

static void write_text(const char *path, const void *text, size_t n)
{
    T_OK(fs_write_durable(fs_posix(), path, text, n, t_err()));
}

TEST(chain, lines_are_gone_on_with_and_hold)
{
    const char *path = write_three();
    struct buf text = BUF_INIT;
    struct chain_end end;

    T_OK(verify(path, &end, t_err()));
    T_EQ(end.lines, 3);
    read_text(&text, path);
    T_HAS(buf_text(&text), "{\"n\":1,\"prev\":\"0000");
    T_HAS(buf_text(&text), ",\"who\":\"eve\",\"hash\":\"");
    T_HAS(buf_text(&text), end.hash);
    buf_release(&text);
}

// Every byte, one at a time, but for the newline at the end, which only moves.
TEST(chain, no_byte_can_be_changed)
{
    const char *path = write_three();
    struct buf text = BUF_INIT;
    struct chain_end end;

    read_text(&text, path);
    for (size_t i = 0; i < text.len; i++) {
        text.data[i] ^= 1;
        write_text(path, text.data, text.len);
        if (verify(path, &end, NULL) != SL_ECORRUPT)
            T_FAIL("byte %zu can be changed", i);
        text.data[i] ^= 1;
    }
    buf_release(&text);
}

TEST(chain, no_line_can_be_taken_out_put_in_or_moved)
{
    const char *path = write_three(), *line[4];
    struct sl_error err = SL_ERROR_INIT;
    struct buf text = BUF_INIT, other = BUF_INIT;
    struct chain_end end;

    read_text(&text, path);
    line[0] = buf_text(&text);
    for (int i = 1; i < 4; i++)
        line[i] = strchr(line[i - 1], '\n') + 1;
#define LINE(i) line[i], (size_t)(line[(i) + 1] - line[i])
    T_OK(buf_append(&other, LINE(0)));
    T_OK(buf_append(&other, LINE(2)));
    write_text(path, other.data, other.len);
    T_FAILS(SL_ECORRUPT, verify(path, &end, &err));
    T_HAS(err.text, "line 2 does not follow");
    T_OK(buf_append(&other, LINE(1)));
    write_text(path, other.data, other.len);
    T_FAILS(SL_ECORRUPT, verify(path, &end, &err));
    other.len = 0;
    T_OK(buf_append(&other, LINE(0)));
    T_OK(buf_append(&other, LINE(0)));
    write_text(path, other.data, other.len);
    T_FAILS(SL_ECORRUPT, verify(path, &end, &err));
    // Off the end: it holds, with another last hash.
    write_text(path, line[0], (size_t)(line[2] - line[0]));
    T_OK(verify(path, &end, t_err()));
    T_EQ(end.lines, 2);
    buf_release(&text);
    buf_release(&other);
}

TEST(chain, a_line_that_a_crash_cut_short_is_taken_off)
{
    const char *path = write_three();
    struct buf text = BUF_INIT;
    struct chain_end end;
    struct chain *c;

    read_text(&text, path);
    for (size_t cut = 1; cut < 100; cut += 7) {
        write_text(path, text.data, text.len - cut);
        T_FAILS(SL_ECORRUPT, verify(path, &end, t_err()));
        T_OK(chain_open(&c, fs_posix(), path, NULL, t_err()));
        T_OK(chain_add(c, "\"who\":\"dan\"", t_err()));
        chain_free(c);
        T_OK(verify(path, &end, t_err()));
        T_EQ(end.lines, 3);
    }
    buf_release(&text);
}

TEST(chain, a_last_line_that_was_changed_is_not_gone_on_with)
{
    const char *path = write_three();
    struct buf text = BUF_INIT;
    struct chain *c;

    read_text(&text, path);
    text.data[text.len - 5] ^= 1;
    write_text(path, text.data, text.len);
    T_FAILS(SL_ECORRUPT, chain_open(&c, fs_posix(), path, NULL, t_err()));
    buf_release(&text);
}

// ---- more than one file

// Four lines in each of "a", "b" and "c".
static void write_files(void)
{
    static const char *const names[] = {"a", "b", "c"};
    struct chain_end before;

    chain_begin(&before);
    for (size_t i = 0; i < 3; i++) {
        struct chain *c;

        (void)fs_unlink(fs_posix(), t_path(names[i]), NULL);
        T_OK(chain_open(&c, fs_posix(), t_path(names[i]), &before, t_err()));
        for (int line = 0; line < 4; line++)
            T_OK(chain_add(c, "\"who\":\"ann\"", t_err()));
        chain_free(c);
        T_OK(chain_find_end(&before, fs_posix(), t_path(names[i]), t_err()));
    }
    T_EQ(before.lines, 12);
}

static enum sl_err verify_files(const char *names, struct chain_end *end,
                                struct sl_error *e)
{
    enum sl_err rc = SL_OK;

    chain_begin(end);
    for (; *names != '\0' && rc == SL_OK; names++) {
        char name[2] = {*names, '\0'};

        rc = chain_verify(fs_posix(), t_path(name), end, e);
    }
    return rc;
}

TEST(chain, goes_on_in_another_file)
{
    struct sl_error err = SL_ERROR_INIT;
    struct chain_end end, first;

    write_files();
    T_OK(verify_files("abc", &end, t_err()));
    T_EQ(end.lines, 12);
    T_OK(chain_first(fs_posix(), t_path("b"), &first, t_err()));
    T_EQ(first.lines, 4);
    T_OK(verify_files("a", &end, t_err()));
    T_STR(first.hash, end.hash);
    T_FAILS(SL_ECORRUPT, verify_files("ac", &end, &err));
    T_HAS(err.text, "begins with number 9: the lines 5 to 8 before it are ");
    T_FAILS(SL_ECORRUPT, verify_files("bc", &end, &err));
    T_HAS(err.text, "the lines 1 to 4 before it are missing");
    T_FAILS(SL_ECORRUPT, verify_files("abb", &end, &err));
    T_HAS(err.text, "line 1 does not follow");
    T_FAILS(SL_ECORRUPT, verify_files("aba", &end, &err));
    T_HAS(err.text, "or a new log was begun with it");
}

// Another chain of the same length in the place of one file.
TEST(chain, no_file_can_be_put_in_the_place_of_another)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf text = BUF_INIT;
    struct chain_end end;
    struct chain *c;

    write_files();
    T_OK(fs_unlink(fs_posix(), t_path("a"), t_err()));
    T_OK(chain_open(&c, fs_posix(), t_path("a"), NULL, t_err()));
    for (int line = 0; line < 4; line++)
        T_OK(chain_add(c, "\"who\":\"eve\"", t_err()));
    chain_free(c);
    T_FAILS(SL_ECORRUPT, verify_files("abc", &end, &err));
    T_HAS(err.text, "b: line 1 does not follow");
    // A file whose last lines are gone is found by the next one.
    write_files();
    read_text(&text, t_path("b"));
    write_text(t_path("b"), text.data, text.len / 2);
    T_FAILS(SL_ECORRUPT, verify_files("abc", &end, &err));
    buf_release(&text);
}

// Longer than what is read at once, with lines across the borders.
TEST(chain, a_long_file_is_read_in_pieces)
{
    const char *path = t_path("long");
    struct buf text = BUF_INIT, body = BUF_INIT;
    struct chain_end end;
    struct chain *c;

    for (int i = 0; i < 3000; i++)
        T_OK(buf_append_str(&body, "x"));
    T_OK(buf_append_str(&text, "\"x\":\""));
    T_OK(buf_append(&text, body.data, body.len));
    T_OK(buf_append_str(&text, "\""));
    T_OK(chain_open(&c, fs_posix(), path, NULL, t_err()));
    for (int i = 0; i < 300; i++)
        T_OK(chain_add(c, buf_text(&text), t_err()));
    T_GT(chain_bytes(c), 900000u);
    chain_free(c);
    T_OK(verify(path, &end, t_err()));
    T_EQ(end.lines, 300);
    buf_release(&text);
    buf_release(&body);
}

static enum sl_err open_fails(struct fs *fs, struct fs_file **out,
                              const char *path, enum fs_mode mode,
                              struct sl_error *err)
{
    return mode == FS_READ ? sl_fail(err, SL_EIO, "%s: a bad sector", path)
                           : fs_posix()->ops->open(fs, out, path, mode, err);
}

static enum sl_err stat_fails(struct fs *fs, const char *path,
                              struct fs_stat *out, struct sl_error *err)
{
    return sl_fail(err, SL_EIO, "%s: a bad sector", path);
}

TEST(chain, is_not_begun_anew_where_the_disk_fails)
{
    const char *path = write_three();
    struct fs_ops ops = *fs_posix()->ops;
    struct fs bad = {&ops};
    struct sl_error err;
    struct chain_end end;
    struct chain *c;

    ops.open = open_fails;
    ops.stat = stat_fails;
    T_FAILS(SL_EIO, chain_open(&c, &bad, path, NULL, &err));
    T_HAS(err.text, "a bad sector");
    T_OK(verify(path, &end, t_err()));
    T_EQ(end.lines, 3);
}
