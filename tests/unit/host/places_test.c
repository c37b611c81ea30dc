// SPDX-License-Identifier: Apache-2.0
// Which places may be read; what they answer: tests/system/places_test.py.
#include "host/place/places.h"

#include "common/base/file_wait.h"
#include "host/store/s3.h"
#include "tests/harness/t.h"

static struct sl_error err;

static struct places *made(void)
{
    const struct places_setup setup = {.store = {.patience_ms = 1000}};
    struct places *p = NULL;

    if (!web_known())
        T_SKIP("built without libcurl");
    T_OK(places_new(&p, &setup, t_err()));
    T_OK(places_allow(p, "s3://bucket/a", t_err()));
    T_OK(places_allow(p, "s3://whole", t_err()));
    T_OK(places_allow(p, "https://data.example:8443/in/", t_err()));
    return p;
}

static enum sl_err no_name(void *arg, const char *name)
{
    return SL_EINTERNAL;
}

TEST(places, what_is_not_below_a_prefix_is_refused)
{
    static const char *const rows[] = {
        "s3://bucket/ab/x",
        "s3://bucket/b",
        "s3://bucket/",
        "s3://bucket2/a/x",
        "https://bucket/a/x",
        "https://data.example/in/x",
        "https://data.example:8443/inner/x",
        "https://data.example:443/in/x",
        "https://169.254.169.254/latest/meta-data",
        "https://localhost/in/x",
    };
    struct places *p = made();
    struct roots_places r = places_reader(p);
    struct fs_file *file = NULL;

    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        err = (struct sl_error)SL_ERROR_INIT;
        T_FAILS(SL_EDENIED, r.open(r.arg, &file, rows[i], &err));
        T_HAS(err.text, rows[i]);
        T_HAS(err.text, "--data-allow s3://bucket/a, s3://whole, "
                        "https://data.example:8443/in:");
        T_PTR(file, NULL);
    }
    T_FAILS(SL_EDENIED, r.list(r.arg, "s3://bucket/ab/", no_name, NULL, &err));
    T_FAILS(SL_EINVAL, r.list(r.arg, "https://data.example:8443/in/", no_name,
                              NULL, &err));
    places_free(p);
}

// Names that a server may read otherwise than we do are no names.
TEST(places, names_have_one_meaning)
{
    static const char *const rows[] = {
        "s3://bucket/a/../b",
        "s3://bucket/a/./b",
        "https://data.example:8443/in/../x",
        "https://data.example:8443/in/x?key=1",
        "https://data.example:8443/in/x#y",
        "https://data.example:8443/in/x\\..\\y",
        "https://user@data.example:8443/in/x",
        "https://Data.example:8443/in/x",
        "https://data.example:/in/x",
        "https://data.example:123456/in/x",
        "https:///in/x",
        "http://data.example:8443/in/x",
        "https://-x/in",
        "s3://whole",
    };
    struct places *p = made();
    struct roots_places r = places_reader(p);
    struct fs_file *file = NULL;

    for (size_t i = 0; i < SL_COUNT(rows); i++)
        T_FAILS(SL_EINVAL, r.open(r.arg, &file, rows[i], &err));
    T_FAILS(SL_EINVAL, places_allow(p, "https://", &err));
    T_FAILS(SL_EINVAL, places_allow(p, "s3://", &err));
    T_FAILS(SL_EINVAL, places_allow(p, "s3://bucket/*", &err));
    T_FAILS(SL_EINVAL, places_allow(p, "/srv/data", &err));
    places_free(p);
}

static bool count_and_end(void *arg)
{
    unsigned *asked = arg;

    return ++*asked < 3;
}

// Nothing answers at that port, and there is patience for a minute.
TEST(places, an_attempt_that_is_over_waits_no_more)
{
    const struct places_setup setup = {.store = {.patience_ms = 60000}};
    unsigned asked = 0;
    struct file_wait own = {count_and_end, &asked};
    struct fs_file *file = NULL;
    struct roots_places r;
    struct places *p;

    if (!web_known())
        T_SKIP("built without libcurl");
    T_OK(places_new(&p, &setup, t_err()));
    T_OK(places_allow(p, "https://127.0.0.1:1", t_err()));
    r = places_reader(p);
    T_PTR(file_wait_set(&own), NULL);
    T_FAILS(SL_ECANCELED,
            r.open(r.arg, &file, "https://127.0.0.1:1/in/x", &err));
    T_HAS(err.text, "the attempt that it was for is over");
    T_GT(asked, 2);
    T_TRUE(file_wait_set(NULL) == &own);
    places_free(p);
}

TEST(places, a_process_that_ends_asks_no_more)
{
    struct places *p = made();
    struct roots_places r = places_reader(p);
    struct fs_file *file = NULL;

    places_leave(p);
    T_FAILS(SL_ECANCELED,
            r.open(r.arg, &file, "https://data.example:8443/in/x", &err));
    places_free(p);
}
