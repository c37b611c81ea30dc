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

    T_OK(chain_open(&c, fs_posix(), path, t_err()));
    T_OK(chain_add(c, "\"who\":\"ann\"", t_err()));
    T_OK(chain_add(c, "\"who\":\"bob\"", t_err()));
    chain_free(c);
    T_OK(chain_open(&c, fs_posix(), path, t_err())); // another start
    T_OK(chain_add(c, "\"who\":\"eve\"", t_err()));
    chain_free(c);
    return path;
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

    T_OK(chain_verify(fs_posix(), path, &end, t_err()));
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
        if (chain_verify(fs_posix(), path, &end, NULL) != SL_ECORRUPT)
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
    T_FAILS(SL_ECORRUPT, chain_verify(fs_posix(), path, &end, &err));
    T_HAS(err.text, "line 2 does not follow");
    T_OK(buf_append(&other, LINE(1)));
    write_text(path, other.data, other.len);
    T_FAILS(SL_ECORRUPT, chain_verify(fs_posix(), path, &end, &err));
    other.len = 0;
    T_OK(buf_append(&other, LINE(0)));
    T_OK(buf_append(&other, LINE(0)));
    write_text(path, other.data, other.len);
    T_FAILS(SL_ECORRUPT, chain_verify(fs_posix(), path, &end, &err));
    // Off the end: it holds, with another last hash.
    write_text(path, line[0], (size_t)(line[2] - line[0]));
    T_OK(chain_verify(fs_posix(), path, &end, t_err()));
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
        T_FAILS(SL_ECORRUPT, chain_verify(fs_posix(), path, &end, t_err()));
        T_OK(chain_open(&c, fs_posix(), path, t_err()));
        T_OK(chain_add(c, "\"who\":\"dan\"", t_err()));
        chain_free(c);
        T_OK(chain_verify(fs_posix(), path, &end, t_err()));
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
    T_FAILS(SL_ECORRUPT, chain_open(&c, fs_posix(), path, t_err()));
    buf_release(&text);
}
