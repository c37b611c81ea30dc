// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/gpus.h -- GPUs as cuDNN wants them described (cuDNN 9.8
// and later): one per architecture that the module is compiled for.
//
// The numbers are those of data sheets and of CUDA's table of compute
// capabilities, not dumped from devices.
#ifndef TESTS_UNIT_KERNELS_GPUS_H
#define TESTS_UNIT_KERNELS_GPUS_H

#include <stddef.h>
#include <stdio.h>

struct gpu_facts {
    const char *name;
    int sm, processors, mem_mhz, sm_mhz, pci;
    int shared_optin;    // bytes, of a block
    int threads, blocks; // of a multiprocessor
    int l2_mib, gib;
};

static const struct gpu_facts gpu_facts[] = {
    {"NVIDIA A100-SXM4-80GB", 80, 108, 1593, 1410, 0x20b2, 166912, 2048, 32, 40,
     80},
    {"NVIDIA A10", 86, 72, 6251, 1695, 0x2236, 101376, 1536, 16, 6, 24},
    {"NVIDIA L4", 89, 58, 6251, 2040, 0x27b8, 101376, 1536, 24, 48, 24},
    {"NVIDIA H100 80GB HBM3", 90, 132, 2619, 1980, 0x2330, 232448, 2048, 32, 50,
     80},
    {"NVIDIA H200", 90, 132, 3201, 1980, 0x2335, 232448, 2048, 32, 60, 141},
    {"NVIDIA B200", 100, 148, 3996, 1965, 0x2901, 232448, 2048, 32, 126, 180},
    {"NVIDIA GeForce RTX 5090", 120, 170, 14001, 2407, 0x2b85, 101376, 1536, 24,
     96, 32},
};

// Returns the H200 of the table.
static inline const struct gpu_facts *gpu_h200(void)
{
    return &gpu_facts[4];
}

// Returns the bytes of a GPU's memory.
static inline size_t gpu_bytes(const struct gpu_facts *g)
{
    return (size_t)g->gib << 30;
}

// Writes the description of a GPU as JSON to to[n], cut to n bytes with its 0.
static inline void gpu_json(char *to, size_t n, const struct gpu_facts *g)
{
    snprintf(to, n,
             "{\"deviceName\":\"%s\",\"cudaDeviceId\":0,\"deviceVer\":%d,"
             "\"multiProcessorCount\":%d,\"driverVer\":13000,"
             "\"maxSharedMemoryPerBlockOptin\":%d,\"totalGlobalMem\":%zu,"
             "\"isTccDriver\":0,\"l2CacheSize\":%d,\"maxCtasPerSM\":%d,"
             "\"maxRegistersPerSM\":65536,\"maxSharedMemoryPerBlock\":49152,"
             "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%d,"
             "\"memClockRateKHz\":%d000,\"pciDeviceId\":%d,"
             "\"regsPerBlock\":65536,\"reservedSharedMemoryPerBlock\":1024,"
             "\"smClockRateKHz\":%d000,\"supportCoopLaunch\":1,\"warpSize\":32,"
             "\"maxGridSize\":[2147483647,65535,65535],"
             "\"maxBlockSize\":[1024,1024,64]}",
             g->name, g->sm * 10, g->processors, g->shared_optin, gpu_bytes(g),
             g->l2_mib << 20, g->blocks, g->threads, g->mem_mhz, g->pci,
             g->sm_mhz);
}

#endif
