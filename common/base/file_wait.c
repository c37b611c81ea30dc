// SPDX-License-Identifier: Apache-2.0
// common/base/file_wait.c -- see file_wait.h.
#include "common/base/file_wait.h"

#include <stddef.h>

static _Thread_local const struct file_wait *file_wait_own;

const struct file_wait *file_wait_set(const struct file_wait *p)
{
    const struct file_wait *before = file_wait_own;

    file_wait_own = p;
    return before;
}

bool file_wait_goes_on(void)
{
    return file_wait_own == NULL || file_wait_own->go_on(file_wait_own->arg);
}
