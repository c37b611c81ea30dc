// SPDX-License-Identifier: Apache-2.0
#include "client/cli/out.h"

#include <fcntl.h>
#include <unistd.h>

#include "client/doctor/findings.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "proto/wire.h"
#include "tests/harness/t.h"
#include "tests/unit/client/json_short.h"

// What is printed between the two lies in `got`.
static int aside;

static void catch_begin(void)
{
    int fd = open(t_path("stdout"), O_CREAT | O_TRUNC | O_WRONLY, 0600);

    fflush(stdout);
    aside = dup(STDOUT_FILENO);
    T_ASSERT(fd >= 0 && aside >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
    close(fd);
}

static void catch_end(struct buf *got)
{
    fflush(stdout);
    T_ASSERT(dup2(aside, STDOUT_FILENO) >= 0);
    close(aside);
    T_OK(fs_read_all(fs_posix(), t_path("stdout"), 4096, got, t_err()));
}

TEST(out, a_text_is_printed_and_released)
{
    struct buf text = BUF_INIT, got = BUF_INIT;
    uint64_t before = sl_mem_live();
    enum sl_err rc;

    T_OK(buf_append_str(&text, "one\n"));
    catch_begin();
    rc = out_text(&text, SL_OK, t_err());
    catch_end(&got);
    T_OK(rc);
    T_STR(buf_text(&got), "one\n");
    buf_release(&got);
    T_EQ(sl_mem_live(), before);
}

TEST(out, a_text_that_was_not_built_is_told_and_released)
{
    struct buf text = BUF_INIT, got = BUF_INIT;
    uint64_t before = sl_mem_live();
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    T_OK(buf_append_str(&text, "half"));
    catch_begin();
    rc = out_text(&text, SL_ENOMEM, &err);
    catch_end(&got);
    T_FAILS(SL_ENOMEM, rc);
    T_HAS(err.text, "out of memory");
    T_EQ(got.len, 0);
    buf_release(&got);
    T_EQ(sl_mem_live(), before);
}

TEST(out, a_message_has_a_schema_version)
{
    Sluice__V1__JobRequest m = SLUICE__V1__JOB_REQUEST__INIT;
    struct buf got = BUF_INIT;
    enum sl_err rc;

    m.id = (char *)"j-1";
    catch_begin();
    rc = out_message(&m.base, t_err());
    catch_end(&got);
    T_OK(rc);
    T_HAS(buf_text(&got), "\"schema_version\": 1,\n");
    T_HAS(buf_text(&got), "\"id\": \"j-1\"");
    buf_release(&got);
}

TEST(out, numbers_for_people)
{
    char text[OUT_NUMBER];

    T_STR(out_count(text, 0), "0");
    T_STR(out_count(text, 999), "999");
    T_STR(out_count(text, 1000), "1,000");
    T_STR(out_count(text, UINT64_MAX), "18,446,744,073,709,551,615");
    T_STR(out_bytes(text, 1023), "1023 B");
    T_STR(out_bytes(text, 1536), "1.50 KiB");
    T_STR(out_bytes(text, (uint64_t)20 << 20), "20.0 MiB");
    T_STR(out_time(text, 0.3), "0.3s");
    T_STR(out_time(text, 9.96), "10s");
    T_STR(out_time(text, 124), "2m04s");
    T_STR(out_time(text, 3660), "1h01m");
    T_STR(out_time(text, 90000), "1d01h");
    T_STR(out_time(text, -1), "-");
    T_STR(out_time(text, 0.0 / 0.0), "-");
    T_STR(out_when(text, 0), "-");
    setenv("TZ", "EST+5", 1);
    tzset();
    T_STR(out_when(text, 1782909296), "2026-07-01 07:34:56 -0500");
}

TEST(out, a_table_is_as_wide_as_its_cells)
{
    static const char *const head[] = {"id", "steps", "note", NULL};
    struct table t;
    struct buf text = BUF_INIT;

    table_init(&t, 1u << 1, head);
    table_cell(&t, "j-1");
    table_cell(&t, "%d", 12345678);
    table_cell(&t, "größer");
    table_cell(&t, "j-100");
    table_cell(&t, "7");
    table_cell(&t, "x");
    T_OK(table_text(&text, &t));
    T_STR(buf_text(&text), "id        steps  note\n"
                           "j-1    12345678  größer\n"
                           "j-100         7  x\n");
    table_release(&t);
    buf_release(&text);
}

TEST(out, a_table_without_room_cuts_its_widest_words)
{
    static const char *const head[] = {"id", "steps", "note", "words", NULL};
    struct table t;
    struct buf text = BUF_INIT;

    table_init(&t, 1u << 1, head);
    table_cell(&t, "j-1");
    table_cell(&t, "%d", 12345678);
    table_cell(&t, "größer als der Platz");
    table_cell(&t, "short");
    t.room = 33;
    T_OK(table_text(&text, &t));
    T_STR(buf_text(&text), "id      steps  note         words\n"
                           "j-1  12345678  größer als…  short\n");
    T_EQ(out_width(buf_text(&text), text.len), 33 * 2 + 2);
    buf_reset(&text);
    t.room = 5; // no less than what can be read; numbers are whole
    T_OK(table_text(&text, &t));
    T_STR(buf_text(&text), "id      steps  note      words\n"
                           "j-1  12345678  größer …  short\n");
    table_release(&t);
    buf_release(&text);
}

TEST(out, a_list_is_one_document_or_a_line_each)
{
    static const char document[] = "{\n"
                                   "  \"schema_version\": 1,\n"
                                   "  \"tasks\": [],\n"
                                   "  \"gone\": [\n",
                      lines[] = "{\"schema_version\":1,\"term\":1,\"n\":2}\n"
                                "{\"schema_version\":1,\"term\":3,\"n\":4}\n";
    Sluice__V1__Attempt one = SLUICE__V1__ATTEMPT__INIT, two = one;
    Sluice__V1__TaskWorkReply all = SLUICE__V1__TASK_WORK_REPLY__INIT;
    ProtobufCMessage *items[] = {&one.base, &two.base};
    struct buf got = BUF_INIT;
    uint64_t gone[] = {7};
    struct out o;
    enum sl_err rc;

    one.term = 1, one.n = 2, two.term = 3, two.n = 4;
    all.gone = gone;
    all.n_gone = 1;
    out_init(&o, out_form_of("json"), false);
    T_TRUE(o.json);
    catch_begin();
    rc = out_list(&o, &all.base, items, 2, t_err());
    catch_end(&got);
    T_OK(rc);
    T_EQ(strncmp(buf_text(&got), document, strlen(document)), 0);
    buf_release(&got);
    out_init(&o, out_form_of("jsonl"), false);
    T_TRUE(o.json);
    catch_begin();
    rc = out_list(&o, &all.base, items, 2, t_err());
    catch_end(&got);
    T_OK(rc);
    T_STR(buf_text(&got), lines);
    buf_release(&got);
    out_init(&o, out_form_of("text"), false);
    T_FALSE(o.json);
}

// As of the name of a file.
TEST(out, a_finding_may_have_any_bytes)
{
    const struct out json = {.form = OUT_JSON, .json = true};
    struct buf got = BUF_INIT;
    struct findings f = {0};
    enum sl_err rc;

    finding(&f, FINDING_BAD, "place", "no file '\xff'");
    catch_begin();
    rc = findings_print(&f, &json, NULL);
    catch_end(&got);
    T_OK(rc);
    T_HAS(buf_text(&got), "no file '\xef\xbf\xbd'");
    findings_release(&f);
    buf_release(&got);
}

TEST(out, findings_are_printed_all_or_none)
{
    const struct out json = {.form = OUT_JSON, .json = true};
    struct buf got = BUF_INIT;
    struct findings f = {0};
    enum sl_err rc = SL_ENOMEM;
    size_t left;

    finding(&f, FINDING_OK, "place", "one");
    finding(&f, FINDING_BAD, "place", "two");
    catch_begin();
    for (left = 0; rc == SL_ENOMEM; left++) {
        json_short(left);
        rc = findings_print(&f, &json, NULL);
        json_enough();
    }
    catch_end(&got);
    T_OK(rc);
    T_GT(left, 1);
    T_HAS(buf_text(&got), "one");
    T_HAS(buf_text(&got), "two");
    findings_release(&f);
    buf_release(&got);
}
