// SPDX-License-Identifier: Apache-2.0
#include "common/run/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/json.h"
#include "tests/harness/t.h"

static struct buf lines;

static void keep(void *arg, enum log_level level, const char *line, size_t len)
{
    T_ASSERT(buf_append(&lines, line, len) == SL_OK);
}

static void start(enum log_format format)
{
    log_init(format, LOG_LEVEL_INFO, "worker", "w-3");
    log_set_sink(keep, NULL);
    buf_release(&lines);
}

// The last line as JSON; a line that does not parse fails the test.
static json_t *parsed(void)
{
    json_t *out = NULL;

    T_OK(sl_json_parse(&out, "line", buf_text(&lines), lines.len, NULL,
                       t_err()));
    return out;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

TEST(log, json_has_the_five_keys_and_the_pairs)
{
    json_t *line;

    start(LOG_FORMAT_JSON);
    LOG(WARN, "worker lost", "worker=%s closure=%llu loss=%.2f", "w 9", 17ull,
        0.25);
    line = parsed();
    T_STR(text_of(line, "level"), "warn");
    T_STR(text_of(line, "role"), "worker");
    T_STR(text_of(line, "node"), "w-3");
    T_STR(text_of(line, "msg"), "worker lost");
    T_STR(text_of(line, "worker"), "w 9");
    T_EQ(json_integer_value(json_object_get(line, "closure")), 17);
    T_NEAR(json_real_value(json_object_get(line, "loss")), 0.25, 0);
    T_EQ(strlen(text_of(line, "ts")), 27);
    json_decref(line);
}

TEST(log, integers_that_readers_do_not_know_are_strings)
{
    start(LOG_FORMAT_JSON);
    LOG(INFO, "count", "all=%llu most=%lld", ~0ull, 999999999999999999ll);
    T_HAS(buf_text(&lines), "\"all\":\"18446744073709551615\"");
    T_HAS(buf_text(&lines), "\"most\":999999999999999999");
}

// Nor is there anything in a line that a terminal or an eye takes otherwise.
TEST(log, what_is_hidden_is_shown)
{
    static const char said[] = "a\x1b[2J\x7f\xc2\x9b\xe2\x80\xae\xe2\x81\xa6";

    start(LOG_FORMAT_JSON);
    LOG(INFO, "x", "why=%s", said);
    T_HAS(buf_text(&lines),
          "\"why\":\"a\\u001b[2J\\u007f\\u009b\\u202e\\u2066\"");
    start(LOG_FORMAT_TEXT);
    LOG(INFO, "x", "why=%s", said);
    T_HAS(buf_text(&lines), "why=\"a\\u001b[2J\\u007f\\u009b\\u202e\\u2066\"");
    start(LOG_FORMAT_TEXT);
    LOG(INFO, "x", "why=%s", "\xc2\x9b");
    T_HAS(buf_text(&lines), "why=\"\\u009b\"");
}

// A value cannot forge a pair, a line or a quote.
TEST(log, values_are_quoted)
{
    json_t *line;

    start(LOG_FORMAT_JSON);
    LOG(INFO, "x", "name=%s other=%d", "a\" b=1\n\x01\xff\xc3\xa4", 7);
    line = parsed();
    T_STR(text_of(line, "name"),
          "a\" b=1\n\x01\xef\xbf\xbd\xc3\xa4"); // U+FFFD for the bad byte
    T_EQ(json_integer_value(json_object_get(line, "other")), 7);
    T_EQ(json_object_size(line), 7);
    json_decref(line);
}

TEST(log, only_whole_finite_numbers_are_numbers)
{
    json_t *line;

    start(LOG_FORMAT_JSON);
    LOG(INFO, "x", "nan=%f inf=%f pad=%03d hex=%x addr=%s:%d pct=%d%% n=%zu",
        0.0 / 0.0, 1 / 0.0, 7, 255u, "::1", 80, 5, (size_t)9);
    line = parsed();
    T_TRUE(json_is_string(json_object_get(line, "nan")));
    T_TRUE(json_is_string(json_object_get(line, "inf")));
    T_STR(text_of(line, "pad"), "007");
    T_STR(text_of(line, "hex"), "ff");
    T_STR(text_of(line, "addr"), "::1:80");
    T_STR(text_of(line, "pct"), "5%");
    T_EQ(json_integer_value(json_object_get(line, "n")), 9);
    json_decref(line);
}

TEST(log, star_width_and_null_string)
{
    const char *volatile none = NULL; // so that the compiler cannot complain

    start(LOG_FORMAT_TEXT);
    LOG(INFO, "x", "cut=%.*s wide=%*d none=%s last=%c", 2, "abcdef", 4, 7, none,
        'z');
    T_HAS(buf_text(&lines), "cut=ab wide=\"   7\" none=(null) last=z\n");
}

TEST(log, text_quotes_only_where_needed)
{
    start(LOG_FORMAT_TEXT);
    LOG(ERROR, "disk", "path=%s why=%s empty=%s", "/a/b", "no space", "");
    T_HAS(buf_text(&lines), "error disk path=/a/b why=\"no space\" empty=\"\"");
}

TEST(log, level_holds_back)
{
    start(LOG_FORMAT_TEXT);
    LOG(DEBUG, "quiet", "x=%d", 1);
    T_EQ(lines.len, 0);
    log_set_level(LOG_LEVEL_DEBUG);
    LOG(DEBUG, "loud");
    T_HAS(buf_text(&lines), "debug loud\n");
}

TEST(log, long_lines_are_cut_but_stay_json)
{
    static char text[3 * LOG_LINE];

    memset(text, '"', sizeof(text) - 1);
    for (size_t len = 0; len < 3 * LOG_LINE; len += 1021) {
        json_t *line;

        start(LOG_FORMAT_JSON);
        LOG(INFO, "x", "a=%.*s b=%.*s c=%.*s d=%d", (int)len, text, (int)len,
            text, (int)len, text, 5);
        T_LE(lines.len, LOG_LINE);
        line = parsed();
        json_decref(line);
    }
}

TEST(log, words_of_level_and_format)
{
    enum log_level level;
    enum log_format format;

    T_OK(log_level_parse("error", &level));
    T_EQ(level, LOG_LEVEL_ERROR);
    T_FAILS(SL_EINVAL, log_level_parse("loud", &level));
    T_OK(log_format_parse("json", &format));
    T_EQ(format, LOG_FORMAT_JSON);
    T_FAILS(SL_EINVAL, log_format_parse("", &format));
}

static char taken[LOG_KEPT + LOG_LINE];

// Bytes of what is kept behind *after; what was taken is terminated.
static size_t take(uint64_t *after, size_t size)
{
    size_t n = log_kept(taken, size, after);

    taken[n] = '\0';
    return n;
}

TEST(log, keeps_lines_as_json_whatever_is_written)
{
    uint64_t after = 0;
    char *line;
    json_t *json = NULL;

    start(LOG_FORMAT_TEXT);
    take(&after, LOG_KEPT);
    LOG(WARN, "kept", "job=%d who=%s", 7, "a b");
    T_HAS(buf_text(&lines), " warn  kept job=7 who=\"a b\"\n");
    T_GT(take(&after, LOG_KEPT), 0);
    line = strchr(taken, '\n');
    T_STR(line, "\n");
    T_OK(sl_json_parse(&json, "line", taken, (size_t)(line - taken), NULL,
                       t_err()));
    T_STR(text_of(json, "node"), "w-3");
    T_EQ(json_integer_value(json_object_get(json, "job")), 7);
    json_decref(json);
    T_EQ(take(&after, LOG_KEPT), 0); // nothing twice
}

TEST(log, keeps_the_newest_whole_lines)
{
    static char text[1000];
    uint64_t after = 0, before, none = UINT64_MAX;
    unsigned last = 2 * LOG_KEPT / sizeof(text), next;

    memset(text, 'x', sizeof(text) - 1);
    start(LOG_FORMAT_JSON);
    take(&after, LOG_KEPT);
    before = after;
    for (unsigned i = 1; i <= last; i++)
        LOG(INFO, "long", "i=%u text=%s", i, text);
    T_GT(take(&after, LOG_KEPT), LOG_KEPT - 2 * LOG_LINE);
    T_EQ(strncmp(taken, "{\"ts\":", 6), 0); // a line's beginning
    T_LE(after - before, (uint64_t)last * LOG_LINE);

    // In pieces: each of whole lines, none left out, up to the last.
    next = (unsigned)atoi(strstr(taken, "\"i\":") + 4);
    T_GT(next, 1);
    for (before = 0; take(&before, LOG_LINE) > 0;) {
        for (char *at = taken; (at = strstr(at, "\"i\":")) != NULL; at++)
            T_EQ(atoi(at + 4), next++);
    }
    T_EQ(next, last + 1);
    T_EQ(before, after);

    // No position of this program's: from the oldest.
    T_GT(take(&none, LOG_KEPT), LOG_KEPT - 2 * LOG_LINE);
    T_EQ(none, after);
    buf_release(&lines);
}

static void *shout(void *arg)
{
    for (int i = 0; i < 200; i++)
        LOG(INFO, "shout", "who=%d i=%d", *(int *)arg, i);
    return NULL;
}

TEST(log, threads_do_not_mix_lines)
{
    pthread_t threads[4];
    int who[4] = {0, 1, 2, 3};
    size_t count = 0;

    start(LOG_FORMAT_JSON);
    for (int i = 0; i < 4; i++)
        T_EQ(pthread_create(&threads[i], NULL, shout, &who[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (char *line = (char *)lines.data, *end;
         (end = strchr(line, '\n')) != NULL; line = end + 1) {
        json_t *json = NULL;

        T_OK(sl_json_parse(&json, "line", line, (size_t)(end - line), NULL,
                           t_err()));
        json_decref(json);
        count++;
    }
    T_EQ(count, 800);
    buf_release(&lines);
    log_set_sink(NULL, NULL);
}

// Not by strstr: the address sanitizer measures all that is left at each call,
// which took half a minute, and a share of lines is of one minute.
static unsigned count(const char *part)
{
    const char *at = buf_text(&lines), *end = at + lines.len;
    unsigned n = 0;

    while ((at = memmem(at, (size_t)(end - at), part, strlen(part))) != NULL)
        n++, at++;
    return n;
}

TEST(log, lines_that_one_account_pays_for_end)
{
    struct log_share share = {0};

    start(LOG_FORMAT_JSON);
    log_charge(&share);
    for (int i = 0; i < LOG_SHARE_CHARGED + 100; i++)
        LOG(INFO, "worker says", "i=%d", i);
    T_EQ(count("worker says"), LOG_SHARE_CHARGED);
    LOG(ERROR, "disk full", "i=%d", 1); // has room of its own
    T_EQ(count("disk full"), 1);
    log_charge(NULL);
    LOG(INFO, "worker says", "i=%d", 1);
    T_EQ(count("worker says"), LOG_SHARE_CHARGED + 1);
    share.since_ms -= 60000; // a minute later
    log_charge(&share);
    LOG(INFO, "worker says", "i=%d", 1);
    log_charge(NULL);
    T_EQ(count("left out"), 1);
    T_EQ(count("\"count\":100"), 1);
    T_EQ(count("worker says"), LOG_SHARE_CHARGED + 2);
}

// A member can cause errors too: a hello that says that its shard cannot be
// loaded.
TEST(log, errors_that_a_member_causes_are_counted)
{
    struct log_share share = {0};

    start(LOG_FORMAT_JSON);
    log_charge(&share);
    for (int i = 0; i < LOG_SHARE_CHARGED + 10; i++)
        LOG(WARN, "worker says", "i=%d", i);
    for (int i = 0; i < LOG_SHARE_ERRORS; i++)
        LOG(ERROR, "cannot be loaded", "i=%d", i);
    T_EQ(count("worker says"), LOG_SHARE_CHARGED);
    T_EQ(count("cannot be loaded"), LOG_SHARE_ERRORS - LOG_SHARE_CHARGED);
    LOG(WARN, "worker says", "i=%d", 1); // errors left no room for it
    T_EQ(count("worker says"), LOG_SHARE_CHARGED);
    T_EQ(count("left out"), 0);
    share.since_ms -= 60000; // a minute later
    LOG(ERROR, "cannot be loaded", "i=%d", 1);
    log_charge(NULL);
    T_EQ(count("\"count\":6011"), 1);
}

// Whoever can cause lines has some of them a minute, and then their number.
TEST(log, a_share_of_lines)
{
    struct log_share share = {0};
    unsigned left_out = 0, had = 0;

    for (unsigned i = 0; i < 1000; i++)
        had += log_share(&share, 7, 5000 + i, &left_out);
    T_EQ(had, 7);
    T_FALSE(log_share(&share, 7, 64999, &left_out));
    T_TRUE(log_share(&share, 7, 65000, &left_out));
    T_EQ(left_out, 994);
    T_TRUE(log_share(&share, 7, 65001, &left_out));
    T_EQ(left_out, 0);
}
