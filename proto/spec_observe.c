// SPDX-License-Identifier: Apache-2.0
// proto/spec_observe.c -- what the coordinator writes about a job. Nothing is
// filled in for a job that says nothing of it.
#include "proto/spec_check.h"

#include <string.h>

#include "common/base/grown.h"

#define PATH_BYTES 200

enum sl_err spec_check_observe(Sluice__V1__JobSpec *spec, struct sl_error *err)
{
    Sluice__V1__ObserveSpec *o = spec->observe;
    struct sl_error why = SL_ERROR_INIT;

    if (o == NULL)
        return SL_OK;
    if (o->tensorboard == NULL)
        return sl_fail(err, SL_EINVAL,
                       "observe.tensorboard is missing: a folder, as "
                       "'experiments/one'");
    if (o->tensorboard[0] == '\0' || strlen(o->tensorboard) > PATH_BYTES)
        return sl_fail(err, SL_EINVAL,
                       "observe.tensorboard: wants 1 to %d bytes, got %zu",
                       PATH_BYTES, strlen(o->tensorboard));
    if (grown_check(o->tensorboard, &why) != SL_OK)
        return sl_fail(err, SL_EINVAL,
                       "observe.tensorboard: %.400s; it lies below the folder "
                       "of the coordinator's --observe-dir",
                       why.text);
    SPEC_DEFAULT(o, histograms, false);
    return SL_OK;
}
