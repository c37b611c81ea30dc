// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/module_fake.c -- modules that do not fit, for module_test.
//
// Built several times: FAKE_OLD has a backend of another interface, FAKE_SHY
// refuses the host, FAKE_GOOD fits (and has a device that does not open);
// without any of them there is no kern_module at all.
#include "kernels/module.h"

#if defined(FAKE_OLD) || defined(FAKE_SHY) || defined(FAKE_GOOD)
#define EXPORT __attribute__((visibility("default")))

const struct kern_backend *kern_module(uint32_t abi,
                                       const struct kern_host *host);

static int probe(char *why, size_t n)
{
    return 1;
}

// sl_fail is the program's; a module this small does without.
static enum sl_err open_dev(struct kern_dev **out, int ordinal,
                            const char *options, struct sl_error *err)
{
    if (err)
        *err = (struct sl_error){SL_ENOMEM, "others have all of its memory"};
    return SL_ENOMEM;
}

static struct kern_backend backend = {
    .size = sizeof(backend),
    .name = "fake",
    .probe = probe,
    .open = open_dev,
};

EXPORT const struct kern_backend *kern_module(uint32_t abi,
                                              const struct kern_host *host)
{
#ifdef FAKE_OLD
    backend.abi = KERN_ABI + 1;
#else
    backend.abi = KERN_ABI;
#endif
#ifdef FAKE_SHY
    return NULL;
#else
    return host->abi == abi && host->size == sizeof(*host) ? &backend : NULL;
#endif
}
#endif
