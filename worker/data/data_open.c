// SPDX-License-Identifier: Apache-2.0
// worker/data/data_open.c -- the choice of a source by its format.
#include <string.h>

#include "common/base/paths.h"
#include "common/base/file_wait.h"
#include "worker/data/data_source.h"

static const struct {
    const char *format;
    data_open_fn open;
    bool joined;  // several files are several sources
    bool rows;    // a label may have several classes
    bool weights; // samples may have weights
} formats[] = {
    {"idx", data_open_arrays, true, true, true},
    {"npy", data_open_arrays, true, true, true},
    {"npz", data_open_arrays, true, true, true},
    {"csv", data_open_csv, true, false, true},
    {"libsvm", data_open_libsvm, true, false, false},
    {"synthetic", data_open_synthetic, false, false, false},
    {"images", data_open_folder, false, false, false},
    {"tfrecord", data_open_tfrecord, false, false, false},
    {"webdataset", data_open_tar, false, false, false},
    {"tar", data_open_tar, false, false, false},
};

static enum sl_err data_open_format(struct data **out,
                                    const struct data_source *source,
                                    const struct data_want *want,
                                    struct sl_error *err)
{
    const char *format = source->format != NULL ? source->format : "";

    for (size_t i = 0; i < SL_COUNT(formats); i++) {
        if (strcmp(formats[i].format, format) != 0)
            continue;
        if (!formats[i].rows && want->rows > 1)
            return sl_fail(err, SL_ENOTSUP,
                           "format %s has one class for a sample, and the "
                           "model has outputs for %llu; keep labels in an npy "
                           "or npz",
                           format, (unsigned long long)want->rows);
        if (!formats[i].weights && source->weights != NULL)
            return sl_fail(err, SL_ENOTSUP, "format %s has no weights", format);
        if (formats[i].joined &&
            (paths_is_pattern(source->x) || paths_is_pattern(source->y)))
            return source->x == NULL
                       ? sl_fail(err, SL_EINVAL, "data needs the path x")
                       : data_open_join(out, source, want, formats[i].open,
                                        err);
        return formats[i].open(out, source, want, err);
    }
    return sl_fail(err, SL_ENOTSUP,
                   "data format '%s' is not read by this worker; update it, or "
                   "convert the data to npz or csv",
                   format);
}

enum sl_err data_open(struct data **out, const struct data_source *source,
                      const struct data_want *want, struct sl_error *err)
{
    struct file_wait own = pulse_file_wait(source->pulse);
    const struct file_wait *before = file_wait_set(&own);
    enum sl_err rc = data_open_format(out, source, want, err);

    file_wait_set(before);
    return rc;
}
