// SPDX-License-Identifier: Apache-2.0
// worker/data/data_open.c -- the choice of a source by its format.
#include <string.h>

#include "worker/data/data_source.h"

static const struct {
    const char *format;
    enum sl_err (*open)(struct data **out, const struct data_source *s,
                        const struct data_want *want, struct sl_error *err);
} formats[] = {
    {"idx", data_open_arrays},          {"npy", data_open_arrays},
    {"npz", data_open_arrays},          {"csv", data_open_csv},
    {"synthetic", data_open_synthetic}, {"images", data_open_folder},
};

enum sl_err data_open(struct data **out, const struct data_source *source,
                      const struct data_want *want, struct sl_error *err)
{
    const char *format = source->format != NULL ? source->format : "";

    for (size_t i = 0; i < SL_COUNT(formats); i++) {
        if (strcmp(formats[i].format, format) == 0)
            return formats[i].open(out, source, want, err);
    }
    return sl_fail(err, SL_ENOTSUP,
                   "data format '%s' is not read by this worker; idx, npy, "
                   "npz, csv, images and synthetic are",
                   format);
}
