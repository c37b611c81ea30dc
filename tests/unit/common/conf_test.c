// SPDX-License-Identifier: Apache-2.0
#include "common/run/conf.h"

#include "common/base/buf.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "tests/harness/t.h"

static const struct conf_about about = {
    .program = "tester",
    .usage = "tester [OPTION]... FILE...",
    .text = "Tests settings. Long enough to be broken at the eightieth column "
            "of a terminal, which is what this sentence is for.",
    .example = "tester --workers 4 --grace 5s job.yaml",
};

static const struct conf_key keys[] = {
    {.name = "bind",
     .kind = CONF_STRING,
     .value = "127.0.0.1:0",
     .help = "Where to listen.",
     .min = 3,
     .max = 40},
    {.name = "workers",
     .kind = CONF_INT,
     .value = "2",
     .help = "How many.",
     .min = 1,
     .max = 100,
     .unit = "workers",
     .letter = 'w'},
    {.name = "shard-size",
     .kind = CONF_BYTES,
     .value = "4MiB",
     .help = "Bytes per shard.",
     .min = 1024,
     .max = INT64_C(1) << 30},
    {.name = "grace",
     .kind = CONF_MS,
     .value = "10s",
     .help = "How long to drain.",
     .max = 3600000},
    {.name = "rate", .kind = CONF_FLOAT, .value = "0.5", .help = "Rate."},
    {.name = "follow", .kind = CONF_BOOL, .value = "true", .help = "Follow."},
    {.name = "quiet",
     .kind = CONF_BOOL,
     .value = "false",
     .help = "Say less.",
     .letter = 'q'},
    {.name = "hosts", .kind = CONF_LIST, .help = "Names."},
    {.name = "set", .kind = CONF_MULTI, .help = "Overrides."},
    {.name = "format",
     .kind = CONF_CHOICE,
     .value = "text",
     .choices = "text|json",
     .help = "Form.",
     .letter = 'o'},
    {.name = "token", .kind = CONF_STRING, .help = "Secret.", .secret = true},
    {.name = NULL},
};

static struct conf *fresh(void)
{
    struct conf *c = NULL;

    T_OK(conf_new(&c, &about, keys));
    return c;
}

// A command line from words that are ended by NULL.
static enum sl_err load(struct conf *c, char *const *env, struct sl_error *err,
                        const char *const *words)
{
    char *argv[20] = {(char *)"tester"};
    int argc = 1;

    for (; words[argc - 1] != NULL; argc++)
        argv[argc] = (char *)words[argc - 1];
    return conf_load(c, fs_posix(), argc, argv, env, err);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

// Each key of the table, from each source: a stronger one wins.
TEST(conf, precedence)
{
    char *env[] = {(char *)"SLUICE_WORKERS=20", (char *)"SLUICE_GRACE=20ms",
                   (char *)"OTHER=1", (char *)"SLUICE_NO_SUCH_KEY=5", NULL};
    const char *file = t_path("conf"), *text = "# comment\n\nworkers = 10\n"
                                               "grace = 10m\r\n"
                                               "bind = \" a b \"\n"
                                               "  shard_size=1KiB";
    struct conf *c = fresh();

    T_OK(fs_write_durable(fs_posix(), file, text, strlen(text), t_err()));
    T_OK(load(c, env, t_err(), WORDS("--workers", "30", "--config", file)));
    T_EQ(conf_int(c, "workers"), 30);
    T_EQ(conf_origin(c, "workers"), CONF_FLAG);
    T_EQ(conf_int(c, "grace"), 20);
    T_EQ(conf_origin(c, "grace"), CONF_ENVIRONMENT);
    T_STR(conf_str(c, "bind"), " a b ");
    T_EQ(conf_origin(c, "bind"), CONF_FILE);
    T_EQ(conf_int(c, "shard-size"), 1024);
    T_EQ(conf_origin(c, "rate"), CONF_DEFAULT);
    T_NEAR(conf_float(c, "rate"), 0.5, 0);
    T_FALSE(conf_is_set(c, "token"));
    T_TRUE(conf_str(c, "token") == NULL);
    conf_free(c);
}

TEST(conf, forms_of_flags)
{
    struct conf *c = fresh();

    T_OK(load(c, NULL, t_err(),
              WORDS("a", "--workers=7", "-ojson", "-q", "--no-follow", "-",
                    "--hosts", "x,y", "--hosts=z,,", "--set", "k=a,b", "--set",
                    "m=1", "--shard-size", "2 MiB", "--", "--workers", "-q")));
    T_EQ(conf_int(c, "workers"), 7);
    T_STR(conf_str(c, "format"), "json");
    T_TRUE(conf_bool(c, "quiet"));
    T_FALSE(conf_bool(c, "follow"));
    T_EQ(conf_int(c, "shard-size"), 2 << 20);
    T_EQ(conf_list_count(c, "hosts"), 3);
    T_STR(conf_list_at(c, "hosts", 0), "x");
    T_STR(conf_list_at(c, "hosts", 2), "z");
    T_EQ(conf_list_count(c, "set"), 2);
    T_STR(conf_list_at(c, "set", 0), "k=a,b");
    T_EQ(conf_arg_count(c), 4);
    T_STR(conf_arg(c, 0), "a");
    T_STR(conf_arg(c, 1), "-");
    T_STR(conf_arg(c, 3), "-q");
    T_TRUE(conf_arg(c, 4) == NULL);
    conf_free(c);
}

TEST(conf, a_list_of_flags_replaces_that_of_the_environment)
{
    char *env[] = {(char *)"SLUICE_HOSTS=a,b", NULL};
    struct conf *c = fresh();

    T_OK(load(c, env, t_err(), WORDS("--hosts", "z")));
    T_EQ(conf_list_count(c, "hosts"), 1);
    conf_free(c);
    c = fresh();
    T_OK(load(c, env, t_err(), WORDS("x")));
    T_EQ(conf_list_count(c, "hosts"), 2);
    conf_free(c);
}

static void refused(const char *const *words, const char *want)
{
    struct conf *c = fresh();
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(SL_EINVAL, load(c, NULL, &err, words));
    T_HAS(err.text, want);
    conf_free(c);
}

TEST(conf, errors_say_what_would_be_right)
{
    refused(WORDS("--wrokers", "3"), "did you mean '--workers'?");
    refused(WORDS("--xyzzy"), "unknown key '--xyzzy'; --help lists all");
    refused(WORDS("-z"), "unknown flag '-z'");
    refused(WORDS("--workers"), "--workers needs a value");
    refused(WORDS("--workers", "101"),
            "workers is 101; from 1 to 100 workers is possible");
    refused(WORDS("--workers", "0x10"), "'0x10' is no value for workers");
    refused(WORDS("--workers", "99999999999999999999"), "is no value");
    refused(WORDS("--workers", ""), "is no value");
    refused(WORDS("--shard-size", "5GB"), "KiB, MiB");
    refused(WORDS("--shard-size", "9223372036854775807KiB"), "is no value");
    refused(WORDS("--shard-size", "1"), "from 1KiB to 1GiB");
    refused(WORDS("--grace", "5 sec"), "ms, s, m");
    refused(WORDS("--rate", "nan"), "is no value for rate");
    refused(WORDS("--rate", "1,5"), "is no value for rate");
    refused(WORDS("--follow=maybe"), "true or false");
    refused(WORDS("--format", "yaml"), "use text|json");
    refused(WORDS("--bind", "x"), "bind has 1 bytes; from 3 to 40");
    refused(WORDS("--no-workers"), "unknown key '--no-workers'");
}

static void refused_file(const char *text, const char *want)
{
    struct conf *c = fresh();
    struct sl_error err = SL_ERROR_INIT;

    T_OK(
        fs_write_durable(fs_posix(), t_path("c"), text, strlen(text), t_err()));
    T_FAILS(SL_EINVAL, load(c, NULL, &err, WORDS("--config", t_path("c"))));
    T_HAS(err.text, want);
    conf_free(c);
}

TEST(conf, file_errors_have_a_line)
{
    struct conf *c = fresh();

    refused_file("workers = 3\nbnid = x\n", "/c:2: unknown key 'bnid'; did you "
                                            "mean 'bind'?");
    refused_file("workers\n", "/c:1: expected `key = value`");
    refused_file("\n\nworkers = many", "/c:3: 'many' is no value");
    T_FAILS(SL_ENOENT,
            load(c, NULL, t_err(), WORDS("--config", "/no/such/file")));
    conf_free(c);
}

TEST(conf, environment_errors_name_the_variable)
{
    char *env[] = {(char *)"SLUICE_WORKERS=x", NULL};
    struct sl_error err = SL_ERROR_INIT;
    struct conf *c = fresh();

    T_FAILS(SL_EINVAL, load(c, env, &err, WORDS("a")));
    T_HAS(err.text, "environment SLUICE_WORKERS: 'x'");
    conf_free(c);
}

// An image may say what is in it.
TEST(conf, a_version_in_the_environment_is_not_ours)
{
    char *env[] = {(char *)"SLUICE_VERSION=1.2", (char *)"SLUICE_HELP=true",
                   (char *)"SLUICE_MAN=true", NULL};
    struct conf *c = fresh();

    T_OK(load(c, env, t_err(), WORDS("a")));
    T_FALSE(conf_wants_version(c));
    T_FALSE(conf_wants_help(c));
    T_FALSE(conf_wants_man(c));
    conf_free(c);
}

TEST(conf, help_may_be_asked_for_as_any_flag)
{
    static const struct {
        const char *word;
        bool wants;
    } forms[] = {{"--help", true},
                 {"-h", true},
                 {"--help=true", true},
                 {"--help=false", false},
                 {"--no-help", false}};

    for (size_t i = 0; i < SL_COUNT(forms); i++) {
        struct conf *c = fresh();

        T_OK(load(c, NULL, t_err(), WORDS("a", forms[i].word)));
        T_EQ(conf_wants_help(c), forms[i].wants);
        conf_free(c);
    }
}

TEST(conf, help_fits_a_terminal)
{
    struct conf *c = fresh();
    struct buf out = BUF_INIT;
    size_t column = 0;

    T_OK(load(c, NULL, t_err(), WORDS("--wrong", "--help")));
    T_TRUE(conf_wants_help(c));
    T_OK(conf_help(&out, c));
    for (size_t i = 0; i < out.len; i++) {
        column = out.data[i] == '\n' ? 0 : column + 1;
        T_LE(column, 80);
    }
    T_HAS(buf_text(&out), "Usage: tester [OPTION]... FILE...\n");
    T_HAS(buf_text(&out), "Example: tester --workers 4");
    T_HAS(buf_text(&out), "  -w, --workers N ");
    T_HAS(buf_text(&out), "From 1 to 100 workers. Default 2.");
    T_HAS(buf_text(&out), "One of text|json.");
    T_HAS(buf_text(&out), "--no-follow");
    T_HAS(buf_text(&out), "SLUICE_SOME_KEY");
    buf_release(&out);
    conf_free(c);
}

TEST(conf, print_shows_origins_and_no_secret_and_reads_back)
{
    char *env[] = {(char *)"SLUICE_RATE=0.25", NULL};
    struct conf *c = fresh(), *again = fresh();
    struct buf out = BUF_INIT;

    T_OK(load(c, env, t_err(),
              WORDS("--print-config", "--token", "canary", "--hosts", "a,b")));
    T_TRUE(conf_wants_print(c));
    T_OK(conf_print(&out, c));
    T_HAS(buf_text(&out), "# environment\nrate = 0.25\n");
    T_HAS(buf_text(&out), "# default\nworkers = 2\n");
    T_HAS(buf_text(&out), "# flag\nhosts = a,b\n");
    T_TRUE(strstr(buf_text(&out), "canary") == NULL);
    T_OK(fs_write_durable(fs_posix(), t_path("c"), out.data, out.len, t_err()));
    T_OK(load(again, NULL, t_err(), WORDS("--config", t_path("c"))));
    T_NEAR(conf_float(again, "rate"), 0.25, 0);
    T_EQ(conf_list_count(again, "hosts"), 2);
    buf_reset(&out);
    T_OK(conf_version(&out, c));
    T_HAS(buf_text(&out), "tester (sluice) ");
    buf_release(&out);
    conf_free(c);
    conf_free(again);
}

// Prints `c` and reads the text as a file into a conf, which is returned.
static struct conf *read_back(const struct conf *c, struct buf *out)
{
    struct conf *again = fresh();

    buf_reset(out);
    T_OK(conf_print(out, c));
    T_OK(fs_write_durable(fs_posix(), t_path("c"), out->data, out->len,
                          t_err()));
    T_OK(load(again, NULL, t_err(), WORDS("--config", t_path("c"))));
    return again;
}

TEST(conf, any_value_of_one_line_reads_back_as_it_was)
{
    static const char *const values[] = {
        "abc",    " abc", "abc\t",     "abc\r", "\"ab\"", " \"ab\" ",
        "\"\"\"", "\"ab", "a = \"b\"", "# ab",  "   ",    "=\"\""};
    struct buf out = BUF_INIT;

    for (size_t i = 0; i < SL_COUNT(values); i++) {
        struct conf *c = fresh(), *again;

        T_OK(load(c, NULL, t_err(),
                  WORDS("--bind", values[i], "--set", values[i], "--set", "",
                        "--set", "d, e", "--hosts", values[i])));
        again = read_back(c, &out);
        T_STR(conf_str(again, "bind"), values[i]);
        T_EQ(conf_list_count(again, "set"), 3);
        T_STR(conf_list_at(again, "set", 0), values[i]);
        T_STR(conf_list_at(again, "set", 1), "");
        T_STR(conf_list_at(again, "set", 2), "d, e");
        T_EQ(conf_list_count(again, "hosts"), 1);
        T_STR(conf_list_at(again, "hosts", 0), values[i]);
        conf_free(c);
        conf_free(again);
    }
    buf_release(&out);
}

TEST(conf, a_value_with_a_line_break_is_printed_as_a_comment)
{
    char *env[] = {(char *)"SLUICE_BIND=abc\nworkers = 9", NULL};
    struct conf *c = fresh(), *again;
    struct buf out = BUF_INIT;

    T_OK(load(c, env, t_err(), WORDS("--set", "a\nworkers = 8", "--set", "b")));
    again = read_back(c, &out);
    T_HAS(buf_text(&out), "# environment\n# bind = (a value with a line break");
    T_EQ(conf_int(again, "workers"), 2);
    T_STR(conf_str(again, "bind"), "127.0.0.1:0");
    T_EQ(conf_list_count(again, "set"), 1);
    T_STR(conf_list_at(again, "set", 0), "b");
    buf_release(&out);
    conf_free(c);
    conf_free(again);
}

TEST(conf, an_earlier_table_wins)
{
    static const struct conf_key more[] = {
        {.name = "grace", .kind = CONF_MS, .value = "1s", .help = "Other."},
        {.name = "extra", .kind = CONF_INT, .value = "9", .help = "More."},
        {.name = NULL}};
    struct conf *c = fresh();

    T_OK(conf_add(c, more));
    T_EQ(conf_int(c, "grace"), 10000);
    T_EQ(conf_int(c, "extra"), 9);
    conf_free(c);
}

TEST(conf, each_allocation_may_fail)
{
    uint64_t before = sl_mem_live();
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        struct conf *c = NULL;
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = conf_new(&c, &about, keys);
        if (rc == SL_OK)
            rc = load(c, NULL, t_err(), WORDS("--hosts", "a,b", "--set", "x"));
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        conf_free(c);
        T_EQ(sl_mem_live(), before);
    }
}
