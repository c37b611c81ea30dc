// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/peer_access.c -- several devices of one process: copies between
// them.
//
// A copy is enqueued by the one that receives. Where the hardware lets two
// reach each other's memory it goes there directly; elsewhere the driver leads
// it through the host.
#include <stdio.h>

#include "kernels/cuda/cuda.h"

// True if `dev` reaches the memory of `other`; the calling thread's device is
// another one then.
static bool reaches(struct cuda_dev *dev, const struct cuda_dev *other)
{
    int can = 0;
    cudaError_t rc =
        cudaDeviceCanAccessPeer(&can, dev->ordinal, other->ordinal);

    if (rc == cudaSuccess && can)
        rc = cudaSetDevice(dev->ordinal);
    if (rc == cudaSuccess && can)
        rc = cudaDeviceEnablePeerAccess(other->ordinal, 0);
    if (rc != cudaSuccess) // also: it did already
        cudaGetLastError();
    return can &&
           (rc == cudaSuccess || rc == cudaErrorPeerAccessAlreadyEnabled);
}

enum sl_err cuda_join(struct kern_dev *const *devs, unsigned n, char *how,
                      size_t size, struct sl_error *err)
{
    struct cuda_dev *first = cuda_dev(devs[0]);
    unsigned pairs = 0;
    enum sl_err rc;

    if (n > KERN_PEERS)
        return sl_fail(err, SL_ENOTSUP, "%u GPUs, at most %d reach each other",
                       n, KERN_PEERS);
    for (unsigned i = 0; i < n; i++) {
        struct cuda_dev *dev = cuda_dev(devs[i]);

        dev->peers = (struct cuda_peers){.n = n, .self = i};
        for (unsigned k = 0; k < n; k++) {
            dev->peers.ordinal[k] = cuda_dev(devs[k])->ordinal;
            pairs += k != i && reaches(dev, cuda_dev(devs[k]));
        }
    }
    snprintf(how, size, "copies between GPUs, %u of %u directly", pairs,
             n * (n - 1));
    rc = cuda_fail(first, cudaSetDevice(first->ordinal), "choosing the device",
                   err);
    if (rc != SL_OK)
        cuda_part(devs, n);
    return rc;
}

enum sl_err cuda_exchange(struct kern_stream *s, const struct kern_exchange *x)
{
    struct cuda_dev *dev = cuda_dev(s->dev);
    const struct cuda_peers *p = &dev->peers;
    cudaError_t rc = cudaSuccess;

    if (p->n != x->n) { // it has parted: one of them is lost, and says why
        dev->lost = true;
        return SL_ELOST;
    }
    for (unsigned i = 0; i < x->n && rc == cudaSuccess; i++) {
        if (i != x->self && x->bytes[x->self] > 0)
            rc = cudaMemcpyPeerAsync(x->to[i], dev->ordinal, x->theirs[i],
                                     p->ordinal[i], x->bytes[x->self],
                                     cuda_stream(s));
    }
    return cuda_result(dev, rc, "copying from another GPU");
}

// Copies wait for nothing but events that were recorded.
void cuda_part(struct kern_dev *const *devs, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        cuda_dev(devs[i])->peers.n = 0;
}
