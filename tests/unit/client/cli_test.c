// SPDX-License-Identifier: Apache-2.0
#include "client/cli/cli.h"
#include "client/cli/help.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"

static size_t widest(const char *text)
{
    size_t most = 0;

    while (*text != '\0') {
        size_t n = strcspn(text, "\n");

        most = n > most ? n : most;
        text += n + (text[n] != '\0');
    }
    return most;
}

static unsigned lines(const char *text)
{
    unsigned n = 0;

    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

TEST(cli, help_fits_80_columns_and_one_screen)
{
    struct buf text = BUF_INIT;

    T_OK(cli_help(&text));
    T_LE(widest(buf_text(&text)), 80);
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++) {
        buf_reset(&text);
        T_OK(cli_verb_help(&text, v));
        if (widest(buf_text(&text)) > 80 || lines(buf_text(&text)) > 50)
            T_FAIL("sluice %s --help is too large:\n%s", v->name,
                   buf_text(&text));
        T_HAS(buf_text(&text), v->example);
        T_HAS(buf_text(&text), "Exit status: 0 ok");
    }
    buf_release(&text);
}

// The caller frees the settings in any case.
TEST(cli, settings_that_could_not_be_made_are_not_there)
{
    bool refused = true;

    for (uint64_t n = 1; refused; n++) {
        uint64_t live = sl_mem_live();
        struct buf exits = BUF_INIT;
        struct conf_about about;
        struct conf *conf = NULL;
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = cli_conf(&conf, cli_find("submit"), &about, &exits);
        refused = sl_mem_failed();
        T_EQ(rc, refused ? SL_ENOMEM : SL_OK);
        T_TRUE(refused == (conf == NULL));
        conf_free(conf);
        buf_release(&exits);
        T_EQ(sl_mem_live(), live);
    }
}

// The table against itself: each example calls its verb, each verb has words.
TEST(cli, the_table_is_whole)
{
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++) {
        char begin[64];

        snprintf(begin, sizeof(begin), "sluice %s", v->name);
        T_HAS(v->example, begin);
        T_TRUE(strncmp(v->usage, begin, strlen(begin)) == 0);
        T_TRUE(v->brief != NULL && v->text != NULL && v->run != NULL);
        T_LE(v->min_args, v->max_args);
        T_PTR(cli_find(v->name), v);
    }
    T_PTR(cli_find("subnit"), NULL);
}

TEST(cli, flags_may_stand_before_the_verb)
{
    static const struct {
        const char *const words[6];
        int verb;
    } cases[] = {
        {{"sluice", "jobs"}, 1},
        {{"sluice", "--coordinator", "a:1", "jobs"}, 3},
        {{"sluice", "--coordinator=a:1", "jobs"}, 2},
        {{"sluice", "-o", "json", "status", "j-1"}, 3},
        {{"sluice", "--no-color", "jobs"}, 2},
        {{"sluice", "--timeout", "2s", "-o", "json"}, 5},
        {{"sluice", "--bogus", "jobs"}, 2},
        {{"sluice", "--config", "x", "jobs"}, 3},
        {{"sluice"}, 1},
    };

    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        char *argv[7] = {NULL};
        int argc = 0;

        while (argc < 6 && cases[i].words[argc] != NULL) {
            argv[argc] = (char *)cases[i].words[argc];
            argc++;
        }
        T_EQ(cli_verb_index(argc, argv), cases[i].verb);
    }
}

TEST(cli, every_error_has_an_exit_code_of_the_table)
{
    T_EQ(cli_exit_of(SL_OK), 0);
    T_EQ(cli_exit_of(SL_EINVAL), 2);
    T_EQ(cli_exit_of(SL_ENOENT), 3);
    T_EQ(cli_exit_of(SL_EUNAVAIL), 4);
    T_EQ(cli_exit_of(SL_ETIMEDOUT), 4);
    T_EQ(cli_exit_of(SL_EAUTH), 5);
    T_EQ(cli_exit_of(SL_EDENIED), 5);
    T_EQ(cli_exit_of(SL_EEXIST), 6);
    T_EQ(cli_exit_of(SL_ESTATE), 6);
    T_EQ(cli_exit_of(SL_ECANCELED), 130);
    for (int code = 0; code < SL_ERR_COUNT; code++) {
        int got = cli_exit_of((enum sl_err)code);

        T_TRUE((got >= 0 && got <= 6) || got == 130);
    }
}

static int run(const char *const *words)
{
    char *argv[8] = {NULL};
    int argc = 0;

    for (; words[argc] != NULL; argc++)
        argv[argc] = (char *)words[argc];
    return cli_main(argc, argv);
}
#define RUN(...) run((const char *const[]){"sluice", __VA_ARGS__, NULL})

TEST(cli, bad_usage_is_2)
{
    T_EQ(RUN("subnit"), 2);
    T_EQ(RUN("jobs", "--limt", "3"), 2);
    T_EQ(RUN("jobs", "--limit", "0"), 2);
    T_EQ(RUN("jobs", "more"), 2);
    T_EQ(RUN("submit"), 2);
    T_EQ(RUN("jobs", "-o", "toml"), 2);
    T_EQ(RUN("export"), 2);
    T_EQ(RUN("cert", "renew", "x", "--host", "a"), 2);
    T_EQ(RUN("help", "subnit"), 2);
    T_EQ(RUN("--no-color"), 2);
    T_EQ(RUN("submit", "x.yaml", "--no-wait", "--summary", "s"), 2);
    T_EQ(RUN("status", "--shards"), 2);
}

TEST(cli, what_is_not_there_is_said_by_the_exit_code)
{
    T_EQ(RUN("submit", "/nowhere/x.yaml"), 3);
    T_EQ(RUN("down", "--dir", "/nowhere"), 3);
    T_EQ(RUN("export", "--from", "/nowhere/cut-1.json"), 3);
    T_EQ(RUN("jobs", "--coordinator", "unix:/nowhere/c.sock"), 4);
    T_EQ(RUN("version"), 0);
    T_EQ(RUN("help", "submit"), 0);
}
