// SPDX-License-Identifier: Apache-2.0
// kernels/module.h -- backends that are opened when they are wanted.
//
// One build serves hosts with and without a GPU: what needs NVIDIA's libraries
// is sluice-kernels-cuda.so, and a host without them never opens it. Before
// that the driver is asked for devices (0.15 ms), since the module brings 150
// MB of libraries with it.
//
// A module exports one function, kern_module. It gets its memory and its log
// from the host, so that both sides share one allocator and one log.
//
// Threads  module_cuda, module_driver: any. The rest: one at a time.
// Memory   A module stays loaded until the process ends.
// Errors   Nothing here aborts; why a module is not there is a sentence. `err`
//          may be NULL.
#ifndef KERNELS_MODULE_H
#define KERNELS_MODULE_H

#include <stdarg.h>

#include "common/run/log.h"
#include "kernels/kern.h"

// What a module is given. Append-only; `size` tells what the host knows.
struct kern_host {
    uint32_t abi, size;
    void *(*malloc)(size_t bytes);
    void *(*calloc)(size_t count, size_t size);
    void *(*realloc)(void *old, size_t bytes);
    void (*free)(void *p);
    void *(*aligned)(size_t align, size_t bytes);
    bool (*log_on)(enum log_level level);
    void (*log)(enum log_level level, const char *msg, const char *pairs,
                va_list ap);
    void (*beat)(void); // kernels/beat.h
};

// The only symbol of a module: its backend, or NULL if it cannot live with
// this host (another abi).
typedef const struct kern_backend *(*kern_module_fn)(
    uint32_t abi, const struct kern_host *host);

// Opens sluice-kernels-NAME.so of `folder` and sets *out to its backend.
// `folder` NULL: lib/sluice/kernels beside the folder of this program, which is
// where it is built and installed. Returns SL_OK, or SL_ENOENT: there is no
// such file; SL_ENOTSUP: it does not fit this program, or libraries that it
// needs are missing; SL_EIO, SL_EINVAL: the path of this program cannot be
// read, or is too long. On failure *out is untouched.
enum sl_err module_load(const struct kern_backend **out, const char *name,
                        const char *folder, struct sl_error *err);

// Loads module "cuda" from the usual folder with the first call in the process,
// and returns its backend. Returns NULL, with the reason in why[n], if it could
// not be loaded; that is not tried again. `why` is not NULL, and untouched if
// the module is there.
const struct kern_backend *module_cuda(char *why, size_t n);

// Returns the number of devices that NVIDIA's driver has, and leaves `why`
// alone. Starts the driver in this process (cuInit), and leaves it loaded.
// Returns 0, with the reason in why[n], if there is none or no driver.
int module_driver(char *why, size_t n);

#endif
