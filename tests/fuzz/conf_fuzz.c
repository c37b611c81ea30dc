// SPDX-License-Identifier: Apache-2.0
// A configuration file, with a key of every kind.
#include <math.h>

#include "common/base/buf.h"
#include "common/run/conf.h"
#include "common/base/fs.h"
#include "tests/fuzz/fuzz.h"

static const struct conf_key keys[] = {
    {.name = "name", .kind = CONF_STRING, .help = "A name.", .max = 40},
    {.name = "threads",
     .kind = CONF_INT,
     .value = "2",
     .help = "Threads.",
     .min = 1,
     .max = 64},
    {.name = "room", .kind = CONF_BYTES, .value = "1MiB", .help = "Room."},
    {.name = "grace-ms", .kind = CONF_MS, .value = "10s", .help = "Grace."},
    {.name = "rate",
     .kind = CONF_FLOAT,
     .value = "0.5",
     .help = "Rate.",
     .min = 0,
     .max = 1},
    {.name = "shuffle", .kind = CONF_BOOL, .value = "yes", .help = "Shuffle."},
    {.name = "hosts", .kind = CONF_LIST, .help = "Hosts."},
    {.name = "listen", .kind = CONF_MULTI, .help = "Addresses."},
    {.name = "format",
     .kind = CONF_CHOICE,
     .value = "auto",
     .help = "Format.",
     .choices = "auto|text|json"},
    {.name = "token", .kind = CONF_STRING, .help = "Secret.", .secret = true},
    {.name = NULL},
};
static const struct conf_about about = {.program = "fuzz",
                                        .usage = "fuzz [OPTION]...",
                                        .text = "Reads a file.",
                                        .example = "fuzz --config a.conf"};

// Bounds hold and everything can be asked for and printed.
static void check_accepted(const struct conf *c)
{
    struct buf out = BUF_INIT;
    int64_t threads = conf_int(c, "threads");
    double rate = conf_float(c, "rate");

    FUZZ_TRUE(threads >= 1 && threads <= 64);
    FUZZ_TRUE(rate >= 0 && rate <= 1);
    FUZZ_TRUE(conf_int(c, "room") >= 0 && conf_int(c, "grace-ms") >= 0);
    FUZZ_TRUE(conf_str(c, "format") != NULL);
    FUZZ_TRUE(conf_str(c, "name") == NULL || strlen(conf_str(c, "name")) <= 40);
    for (size_t i = 0; i < conf_list_count(c, "hosts"); i++)
        FUZZ_TRUE(conf_list_at(c, "hosts", i) != NULL);
    FUZZ_TRUE(conf_print(&out, c) == SL_OK);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("a.conf", data, size);
    char *const argv[] = {"fuzz", "--config", (char *)path, NULL};
    struct sl_error err = SL_ERROR_INIT;
    struct conf *c = NULL;
    enum sl_err rc;

    FUZZ_TRUE(conf_new(&c, &about, keys) == SL_OK);
    rc = conf_load(c, fs_posix(), 3, argv, NULL, &err);
    if (rc == SL_OK)
        check_accepted(c);
    else
        fuzz_refused(rc, &err);
    conf_free(c);
    return 0;
}
