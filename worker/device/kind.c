// SPDX-License-Identifier: Apache-2.0
// worker/device/kind.c -- see kind.h.
#include "worker/device/kind.h"

#include <string.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "common/base/rng.h"
#include "kernels/processor.h"

// Elementary functions are the C library's; what the compiler made of loops may
// differ in bits, too.
static const char *kind_libc(void)
{
#ifdef __GLIBC__
    return gnu_get_libc_version();
#else
    return "";
#endif
}

bool kind_repeats(const struct kern_dev *dev)
{
    return dev->backend->host;
}

uint64_t kind_with(uint64_t kernels, const char *impl)
{
    return sl_mix64(kernels ^ sl_hash64(impl, strlen(impl)));
}

uint64_t kind_of(struct kern_dev *dev, uint64_t kernels)
{
    uint64_t kind = kind_with(kernels, SLUICE_VERSION);
    struct kern_info info;

    dev->backend->info(&info, dev);
    kind = sl_mix64(kind ^ info.threads);
    kind = kind_with(kind_with(kind, info.name), processor_here()->model);
    kind = kind_with(kind_with(kind, __VERSION__), kind_libc());
    return kind == 0 ? 1 : kind;
}
