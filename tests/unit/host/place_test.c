// SPDX-License-Identifier: Apache-2.0
// The store that --store names. One in S3 is asked: tests/system/s3_test.py.
#include "host/store/store_place.h"

#include <stdio.h>

#include "common/base/mem.h"
#include "tests/harness/t.h"

static struct sl_error err;

static const struct conf_about about = {
    .program = "t", .usage = "t", .text = "t", .example = "t"};

static struct conf *load(int argc, char *const *argv)
{
    struct conf *c = NULL;

    err = (struct sl_error)SL_ERROR_INIT;
    T_OK(conf_new(&c, &about, store_keys));
    T_OK(conf_load(c, fs_posix(), argc, argv, NULL, t_err()));
    return c;
}

TEST(place, settings_are_those_of_s3)
{
    char *argv[] = {"t",
                    "--s3-endpoint=https://s3.lan:9000",
                    "--s3-region=eu-central-1",
                    "--s3-credentials=/etc/keys",
                    "--s3-patience=5s",
                    NULL};
    struct conf *c = load(5, argv);
    struct store_setup setup = store_setup_of(c);

    T_STR(setup.endpoint, "https://s3.lan:9000");
    T_STR(setup.region, "eu-central-1");
    T_STR(setup.credentials, "/etc/keys");
    T_EQ(setup.patience_ms, 5000);
    conf_free(c);
    c = load(1, argv);
    setup = store_setup_of(c);
    T_PTR(setup.endpoint, NULL);
    T_EQ(setup.patience_ms, 30000);
    conf_free(c);
}

TEST(place, a_folder_is_made_and_named_from_the_root)
{
    char *argv[] = {"t", NULL};
    struct conf *c = load(1, argv);
    struct fs *fs = NULL;
    char path[4200], want[4200], *name;

    snprintf(path, sizeof(path), "%s/./a/b/", t_tmpdir());
    snprintf(want, sizeof(want), "%s/a/b", t_tmpdir());
    name = sl_strdup(path);
    T_OK(store_place(&fs, &name, c, t_err()));
    T_PTR(fs, fs_posix());
    T_STR(name, want);
    T_TRUE(fs_exists(fs, want));
    sl_free(name);
    conf_free(c);
}

TEST(place, what_is_no_store_is_said_and_nothing_is_made)
{
    char *argv[] = {"t", NULL};
    struct conf *c = load(1, argv);
    struct fs *fs = NULL;
    char *name = sl_strdup("gs://bucket/x");

    T_FAILS(SL_EINVAL, store_place(&fs, &name, c, &err));
    T_HAS(err.text, "s3://BUCKET/PREFIX");
    T_PTR(fs, NULL);
    sl_free(name);
    conf_free(c);
}
