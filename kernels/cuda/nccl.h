// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/nccl.h -- several devices of one process: what they swap goes by
// NCCL, where there is one.
//
// NCCL only moves: it knows the links between the devices. What has come is
// added up elsewhere, so the bits do not depend on it. The library is loaded
// when devices join; without it, or built without its header, they swap by
// copies (cuda_join).
//
// Threads  nccl_join: that of the first dev. nccl_exchange: the stream's dev's.
//          nccl_part: any.
// Memory   nccl_part, or nccl_leave before cuda_close, ends a communicator.
// Errors   nccl_join: SL_ENOTSUP and why. If NCCL itself fails later, its devs
//          are lost: what the others wait for does not come. `err` may be NULL.
#ifndef KERNELS_CUDA_NCCL_H
#define KERNELS_CUDA_NCCL_H

#include "kernels/cuda/cuda.h"

// Joins n devs by a communicator each and writes so, with NCCL's version, to
// how[size]; waits until all have joined. Changes the calling thread's device
// to that of devs[0]. Returns SL_OK; SL_ENOTSUP: no NCCL, or it cannot; nothing
// has changed then, `how` included. SL_ELOST, SL_ENOMEM, SL_EINTERNAL: an error
// of the device; none has a communicator, and `how` is undefined.
enum sl_err nccl_join(struct kern_dev *const *devs, unsigned n, char *how,
                      size_t size, struct sl_error *err);
// Enqueues on `s` sending to and receiving from all other devs
// (kern_backend.exchange). Returns SL_OK; SL_ELOST: NCCL failed, and the dev
// counts as lost; or an error of the device, as above. Only for a dev that
// nccl_join joined.
enum sl_err nccl_exchange(struct kern_stream *s, const struct kern_exchange *x);
// Aborts the communicators of n devs, so that waits for them end; they count as
// not joined. One that has none is only marked so. In a build without NCCL's
// header it does nothing.
void nccl_part(struct kern_dev *const *devs, unsigned n);
// Ends the communicator of one dev that closes, by an abort if the dev is lost.
// Does nothing if it has none.
void nccl_leave(struct cuda_dev *dev);

#endif
