// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/fatbin.c -- the machine code of all.cu, as bytes.
#include "kernels/cuda/cuda.h"

__asm__(".section .rodata\n"
        ".balign 64\n"
        ".globl cuda_fatbin\n"
        ".hidden cuda_fatbin\n"
        ".type cuda_fatbin, @object\n"
        "cuda_fatbin:\n"
        ".incbin \"" CUDA_FATBIN_FILE "\"\n"
        ".size cuda_fatbin, .-cuda_fatbin\n"
        ".previous\n");
