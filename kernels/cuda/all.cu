// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/all.cu -- all device code in one translation unit: one fatbin,
// and one file for the emulator of tests/emul.
#include "kernels/cuda/flat.cu"
#include "kernels/cuda/loss.cu"
#include "kernels/cuda/norm.cu"
#include "kernels/cuda/optim.cu"
#include "kernels/cuda/oracle.cu"
#include "kernels/cuda/pool.cu"
#include "kernels/cuda/reduce.cu"
#include "kernels/cuda/rows.cu"
#include "kernels/cuda/unary.cu"
