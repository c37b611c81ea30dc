// SPDX-License-Identifier: Apache-2.0
// kernels/module.c -- the loading of backend modules with dlopen, and the
// question whether there is a driver.
#include "kernels/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "kernels/beat.h"

static const struct kern_host host = {
    .abi = KERN_ABI,
    .size = sizeof(host),
    .malloc = sl_malloc,
    .calloc = sl_calloc,
    .realloc = sl_realloc,
    .free = sl_free,
    .aligned = sl_aligned,
    .log_on = log_on,
    .log = log_vevent,
    .beat = kern_beat,
};

// ---- Loading --------------------------------------------------------------

// PREFIX/bin/worker has PREFIX/lib/sluice/kernels; a build folder as well. No
// environment variable and no current folder has a say in what code runs.
static enum sl_err usual_folder(char *out, size_t n, struct sl_error *err)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    if (len <= 0)
        return sl_fail(err, SL_EIO, "/proc/self/exe cannot be read");
    self[len] = '\0';
    for (int up = 0; up < 2; up++) { // the program, then its folder
        slash = strrchr(self, '/');
        if (slash)
            *slash = '\0';
    }
    if ((size_t)snprintf(out, n, "%s/lib/sluice/kernels", self) >= n)
        return sl_fail(err, SL_EINVAL, "the path of this program is too long");
    return SL_OK;
}

static enum sl_err check_backend(const struct kern_backend *b, const char *path,
                                 struct sl_error *err)
{
    if (!b)
        return sl_fail(err, SL_ENOTSUP,
                       "%s refuses this program (interface %u); install both "
                       "from one build",
                       path, KERN_ABI);
    if (b->abi != KERN_ABI)
        return sl_fail(err, SL_ENOTSUP,
                       "%s was built for interface %u, this program has %u; "
                       "install both from one build",
                       path, b->abi, KERN_ABI);
    return SL_OK;
}

static enum sl_err load_path(const struct kern_backend **out, const char *path,
                             struct sl_error *err)
{
    const struct kern_backend *backend = NULL;
    kern_module_fn enter;
    void *lib;
    enum sl_err rc;

    if (access(path, F_OK) != 0)
        return sl_fail(err, SL_ENOENT, "%s is not installed", path);
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return sl_fail(err, SL_ENOTSUP, "%s", dlerror());
    *(void **)&enter = dlsym(lib, "kern_module");
    if (!enter) {
        dlclose(lib);
        return sl_fail(err, SL_ENOTSUP, "%s is not a Sluice module", path);
    }
    backend = enter(KERN_ABI, &host);
    rc = check_backend(backend, path, err);
    if (rc != SL_OK) {
        dlclose(lib);
        return rc;
    }
    *out = backend;
    return SL_OK;
}

enum sl_err module_load(const struct kern_backend **out, const char *name,
                        const char *folder, struct sl_error *err)
{
    char usual[PATH_MAX], path[PATH_MAX + 64];
    enum sl_err rc;

    if (!folder) {
        rc = usual_folder(usual, sizeof(usual), err);
        if (rc != SL_OK)
            return rc;
        folder = usual;
    }
    snprintf(path, sizeof(path), "%s/sluice-kernels-%.40s.so", folder, name);
    return load_path(out, path, err);
}

// ---- The module of this process -------------------------------------------

static struct {
    pthread_mutex_t lock;
    bool tried; // under lock, as the rest
    const struct kern_backend *backend;
    struct sl_error err;
} cuda_shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

const struct kern_backend *module_cuda(char *why, size_t n)
{
    const struct kern_backend *b;

    pthread_mutex_lock(&cuda_shared.lock);
    if (!cuda_shared.tried)
        (void)module_load(&cuda_shared.backend, "cuda", NULL, &cuda_shared.err);
    cuda_shared.tried = true;
    b = cuda_shared.backend;
    if (!b)
        snprintf(why, n, "%s", cuda_shared.err.text);
    pthread_mutex_unlock(&cuda_shared.lock);
    return b;
}

// ---- The driver -----------------------------------------------------------

typedef int (*cu_init)(unsigned flags);
typedef int (*cu_count)(int *count);
typedef int (*cu_error)(int rc, const char **text);

#define CUDA_NO_DEVICE 100

static int count_devices(void *driver, char *why, size_t n)
{
    cu_init init;
    cu_count count;
    cu_error error;
    const char *text = NULL;
    int rc, devices = 0;

    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&count = dlsym(driver, "cuDeviceGetCount");
    *(void **)&error = dlsym(driver, "cuGetErrorString");
    if (!init || !count) {
        snprintf(why, n, "libcuda.so.1 is not NVIDIA's driver");
        return 0;
    }
    rc = init(0);
    if (rc == 0)
        rc = count(&devices);
    if (rc == 0 && devices > 0)
        return devices;
    if (rc != 0 && rc != CUDA_NO_DEVICE && error)
        error(rc, &text);
    if (rc == 0 || rc == CUDA_NO_DEVICE)
        snprintf(why, n, "NVIDIA's driver sees no device");
    else
        snprintf(why, n, "NVIDIA's driver does not start: %s (%d)",
                 text ? text : "error", rc);
    return 0;
}

// The driver stays open: the module will want it, and it does not like to be
// closed.
int module_driver(char *why, size_t n)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!driver) {
        snprintf(why, n, "no NVIDIA driver (libcuda.so.1)");
        return 0;
    }
    return count_devices(driver, why, n);
}
