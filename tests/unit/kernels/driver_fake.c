// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/driver_fake.c -- a libcuda.so.1 with DRIVER_DEVICES
// devices that do not exist; below 0 it does not start.
#define EXPORT __attribute__((visibility("default")))

EXPORT int cuInit(unsigned flags);
EXPORT int cuDeviceGetCount(int *count);
EXPORT int cuGetErrorString(int rc, const char **text);

int cuInit(unsigned flags)
{
    return DRIVER_DEVICES < 0 ? 999 : 0;
}

int cuDeviceGetCount(int *count)
{
    *count = DRIVER_DEVICES;
    return 0;
}

int cuGetErrorString(int rc, const char **text)
{
    *text = "the fan is stuck";
    return 0;
}
