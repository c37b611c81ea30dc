// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/module_test.c -- finding, loading and refusing modules.
#include "kernels/module.h"

#include <string.h>

#include "tests/harness/t.h"

static struct sl_error err;

TEST(module, a_module_that_fits_is_loaded)
{
    const struct kern_backend *b = NULL;

    T_OK(module_load(&b, "good", FAKE_FOLDER, t_err()));
    T_STR(b->name, "fake");
}

TEST(module, a_missing_module_is_named)
{
    const struct kern_backend *b = NULL;

    T_FAILS(SL_ENOENT, module_load(&b, "none", FAKE_FOLDER, &err));
    T_HAS(err.text, "sluice-kernels-none.so is not installed");
    T_PTR(b, NULL);
}

TEST(module, another_interface_is_refused)
{
    const struct kern_backend *b = NULL;

    T_FAILS(SL_ENOTSUP, module_load(&b, "old", FAKE_FOLDER, &err));
    T_HAS(err.text, "was built for interface 4, this program has 3");
    T_FAILS(SL_ENOTSUP, module_load(&b, "shy", FAKE_FOLDER, &err));
    T_HAS(err.text, "refuses this program (interface 3)");
    T_PTR(b, NULL);
}

TEST(module, a_library_that_is_no_module_is_refused)
{
    const struct kern_backend *b = NULL;

    T_FAILS(SL_ENOTSUP, module_load(&b, "empty", FAKE_FOLDER, &err));
    T_HAS(err.text, "is not a Sluice module");
    T_FAILS(SL_ENOTSUP, module_load(&b, "text", FAKE_FOLDER, &err));
    T_HAS(err.text, "sluice-kernels-text.so");
    T_PTR(b, NULL);
}

// The real one, wherever this build made one: it loads on a host without a
// GPU, and its probe then says why there is nothing to open.
TEST(module, the_cuda_module_loads_and_says_what_it_finds)
{
    const struct kern_backend *b = NULL;
    struct kern_dev *dev = NULL;
    char why[200] = "";
    enum sl_err rc = module_load(&b, "cuda", NULL, &err);

    if (rc == SL_ENOENT)
        T_SKIP("this build has no module sluice-kernels-cuda");
    T_OK(rc);
    T_STR(b->name, "cuda");
    T_FALSE(b->host);
    T_FAILS(SL_EINVAL, b->open(&dev, 0, "tf32=2", &err));
    T_HAS(err.text, "\"tf32=2\"");
    if (b->probe(why, sizeof(why)) > 0)
        return;
    T_TRUE(strlen(why) > 0);
    T_FAILS(SL_ENOTSUP, b->open(&dev, 0, "tf32=0,plans=/nowhere/p", &err));
    T_PTR(dev, NULL);
}

// The driver is asked first, and its absence is a reason, not an error.
TEST(module, the_driver_says_why_it_has_no_device)
{
    char why[200] = "";
    int n = module_driver(why, sizeof(why));

    T_TRUE(n > 0 || strlen(why) > 0);
    T_EQ(module_driver(why, sizeof(why)), n);
}
