// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/parallel.c -- chunks among threads.
//
// The only file with OpenMP in it. Without OpenMP, or with one thread, it is
// a plain loop; results are the same either way, for chunks are fixed by shape
// and joined in order.
#include "kernels/cpu/cpu.h"

#ifdef _OPENMP
#include <omp.h>

int cpu_thread(void)
{
    return omp_get_thread_num();
}
#else
int cpu_thread(void)
{
    return 0;
}
#endif

void cpu_for(int threads, int64_t chunks, void (*fn)(void *arg, int64_t chunk),
             void *arg)
{
    if (threads <= 1 || chunks <= 1) {
        for (int64_t i = 0; i < chunks; i++)
            fn(arg, i);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel for schedule(static) num_threads(threads)
#endif
    for (int64_t i = 0; i < chunks; i++)
        fn(arg, i);
}
