// SPDX-License-Identifier: Apache-2.0
// client/doctor/doctor_places.c -- the places where workers may read data.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/doctor/findings.h"
#include "common/base/mem.h"
#include "host/place/places.h"
#include "host/store/store_place.h"

static enum sl_err count_name(void *arg, const char *name)
{
    ++*(uint64_t *)arg;
    return SL_OK;
}

// Counts the objects right below a prefix of a bucket, which it lists as a
// pattern of a job's does; without one, the folders there.
static enum sl_err count_below(uint64_t *objects, uint64_t *folders,
                               const struct roots_places *p, const char *prefix,
                               const struct conf *conf, struct sl_error *err)
{
    struct store_setup setup = store_setup_of(conf);
    size_t n = strlen(prefix);
    char *folder = sl_malloc(n + 2);
    struct fs *fs = NULL;
    enum sl_err rc;

    if (folder == NULL)
        return sl_no_memory(err);
    snprintf(folder, n + 2, "%s%s", prefix,
             n > 0 && prefix[n - 1] == '/' ? "" : "/");
    rc = p->list(p->arg, folder, count_name, objects, err);
    sl_free(folder);
    if (rc != SL_OK || *objects > 0)
        return rc;
    rc = store_fs(&fs, prefix, &setup, err);
    return rc == SL_OK ? fs_list(fs, prefix, count_name, folders, err) : rc;
}

static void check_bucket(struct findings *f, const struct roots_places *p,
                         const char *prefix, const struct conf *conf)
{
    struct sl_error err = SL_ERROR_INIT;
    uint64_t objects = 0, folders = 0, names;

    if (count_below(&objects, &folders, p, prefix, conf, &err) != SL_OK) {
        finding(f, FINDING_BAD, "place", "%s", err.text);
        return;
    }
    names = objects + folders;
    if (names == 0)
        finding(f, FINDING_WARN, "place", "%s can be read, and has no objects",
                prefix);
    else
        finding(f, FINDING_OK, "place", "%s can be read: %" PRIu64 " %s%s",
                prefix, names, objects > 0 ? "object" : "folder",
                names == 1 ? "" : "s");
}

// Asks a web server for the prefix itself, which it need not have.
static void check_server(struct findings *f, const struct roots_places *p,
                         const char *prefix)
{
    struct sl_error err = SL_ERROR_INIT;
    struct fs_file *file = NULL;
    enum sl_err rc = p->open(p->arg, &file, prefix, &err);

    if (rc == SL_OK)
        fs_close(file);
    if (rc == SL_OK || rc == SL_ENOENT)
        finding(f, FINDING_OK, "place", "%s: the server answers", prefix);
    else if (rc == SL_EDENIED)
        finding(f, FINDING_NOTE, "place",
                "%s: the server answers, and shows nobody the folder itself",
                prefix);
    else
        finding(f, FINDING_BAD, "place", "%s", err.text);
}

static enum sl_err open_places(struct places **out, const struct conf *conf,
                               struct sl_error *err)
{
    struct places_setup setup = {.store = store_setup_of(conf)};
    size_t count = conf_list_count(conf, "data-allow");
    enum sl_err rc = places_new(out, &setup, err);

    for (size_t i = 0; rc == SL_OK && i < count; i++)
        rc = places_allow(*out, conf_list_at(conf, "data-allow", i), err);
    return rc;
}

void doctor_places(struct findings *f, const struct conf *conf)
{
    size_t count = conf_list_count(conf, "data-allow");
    struct sl_error err = SL_ERROR_INIT;
    struct places *places = NULL;
    struct roots_places p;

    if (count == 0)
        return;
    if (open_places(&places, conf, &err) != SL_OK) {
        finding(f, FINDING_BAD, "place", "%s", err.text);
        places_free(places);
        return;
    }
    p = places_reader(places);
    for (size_t i = 0; i < count; i++) {
        const char *prefix = conf_list_at(conf, "data-allow", i);

        if (store_is_s3(prefix))
            check_bucket(f, &p, prefix, conf);
        else
            check_server(f, &p, prefix);
    }
    places_free(places);
}
