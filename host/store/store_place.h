// SPDX-License-Identifier: Apache-2.0
// host/store/store_place.h -- the store that a setting names, ready to be used.
//
// Daemons and commands that take a --store take the settings of S3 beside it,
// which are the same everywhere: STORE_KEYS in their tables. The operator sets
// them, never a job.
//
// Threads  any; store_place waits for the store.
// Memory   a file system is never freed; names are the caller's, from
//          sl_malloc.
// Errors   as of store_fs; of a folder also what making it says, of S3 what
//          reading the store's mark says (storemark_read).
#ifndef HOST_STORE_STORE_PLACE_H
#define HOST_STORE_STORE_PLACE_H

#include "common/run/conf.h"
#include "host/store/store.h"

// clang-format off: it takes the list for something else
#define STORE_KEYS                                                             \
    {.name = "s3-endpoint",                                                    \
     .kind = CONF_STRING,                                                      \
     .help = "Endpoint of an S3 store that is not Amazon's: "                  \
             "https://HOST:PORT; without it, AWS_ENDPOINT_URL_S3, "            \
             "AWS_ENDPOINT_URL, or that of the region.",                       \
     .min = 1,                                                                 \
     .max = 1000},                                                             \
        {.name = "s3-region",                                                  \
         .kind = CONF_STRING,                                                  \
         .help = "Region of the bucket; without it, AWS_REGION, "              \
                 "AWS_DEFAULT_REGION, or us-east-1.",                          \
         .min = 1,                                                             \
         .max = 100},                                                          \
        {.name = "s3-credentials",                                             \
         .kind = CONF_STRING,                                                  \
         .help =                                                               \
             "File with the keys, as ~/.aws/credentials has them; without "    \
             "it, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "               \
             "~/.aws/credentials, or a role of this pod or machine.",          \
         .min = 1,                                                             \
         .max = 4096},                                                         \
    {                                                                          \
        .name = "s3-patience", .kind = CONF_MS, .value = "30s", .min = 1000,   \
        .max = 600000,                                                         \
        .help =                                                                \
            "How long a request is made again while S3 does not answer, or "   \
            "says that it cannot."                                             \
    }
// clang-format on

// STORE_KEYS as a table, for daemons (conf_add).
extern const struct conf_key store_keys[];

// Returns the settings of S3 in `conf`, which has STORE_KEYS; strings are
// borrowed from it.
struct store_setup store_setup_of(const struct conf *conf);

// Opens the store *name for a daemon that starts. Replaces *name by the name to
// tell other processes: the absolute path of a folder, which is made, or an S3
// name without a '/' at its end. While S3 does not answer it asks again,
// without an end, and logs that; other failures are errors. *name stays the
// caller's; a failure leaves *out as it was, and may have cut slashes off an S3
// name. `conf` has STORE_KEYS.
enum sl_err store_place(struct fs **out, char **name, const struct conf *conf,
                        struct sl_error *err);

#endif
