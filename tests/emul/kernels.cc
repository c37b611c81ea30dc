// SPDX-License-Identifier: Apache-2.0
// tests/emul/kernels.cc -- device code, and the table of its kernels.
#include EMUL_SOURCE

#define KERNEL(name, args, kinds)                                              \
    {#name, (emul_function)name, emul_enter<struct args_##args>::go,           \
     sizeof(struct args_##args), 0, 0},
struct emul_kernel emul_table[] = {
    // extern "C" by emul.h
#include EMUL_LIST
    {nullptr, nullptr, nullptr, 0, 0, 0},
};
