// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/nccl.c -- see nccl.h.
#include "kernels/cuda/nccl.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cuda/nccl_calls.h"

// A failure that CUDA knows of is its own. Else the communicator is of no more
// use, and so is the device: others wait for it.
static enum sl_err result(struct cuda_dev *dev, const struct nccl_calls *nccl,
                          ncclResult_t rc)
{
    cudaError_t cuda = rc == ncclSuccess ? cudaSuccess : cudaPeekAtLastError();

    if (rc == ncclSuccess || cuda != cudaSuccess)
        return cuda_result(dev, cuda, "NCCL");
    if (!dev->lost)
        snprintf(dev->fault, sizeof(dev->fault), "GPU %d (%s): NCCL: %.80s",
                 dev->ordinal, dev->name, nccl->GetErrorString(rc));
    dev->lost = true;
    return SL_ELOST;
}

static enum sl_err unable(struct sl_error *err, const char *why)
{
    return sl_fail(err, SL_ENOTSUP, "%s", why);
}

enum sl_err nccl_join(struct kern_dev *const *devs, unsigned n, char *how,
                      size_t size, struct sl_error *err)
{
    struct cuda_dev *first = cuda_dev(devs[0]);
    struct cuda_peers peers = {.n = n};
    ncclComm_t comms[KERN_PEERS];
    char why[100] = "";
    const struct nccl_calls *nccl = nccl_calls(why, sizeof(why));
    enum sl_err chosen;
    int version = 0;
    ncclResult_t rc;

    if (!nccl)
        return unable(err, why);
    if (n > KERN_PEERS)
        return unable(err, "too many GPUs");
    for (unsigned i = 0; i < n; i++)
        peers.ordinal[i] = cuda_dev(devs[i])->ordinal;
    rc = nccl->GetVersion(&version);
    if (rc == ncclSuccess)
        rc = nccl->CommInitAll(comms, (int)n, peers.ordinal);
    if (rc != ncclSuccess) {
        cudaGetLastError(); // nothing is broken: they swap in another way
        return unable(err, nccl->GetErrorString(rc));
    }
    for (unsigned i = 0; i < n; i++) {
        peers.self = i;
        peers.comm = comms[i];
        cuda_dev(devs[i])->peers = peers;
    }
    snprintf(how, size, "NCCL %d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
    chosen = cuda_fail(first, cudaSetDevice(first->ordinal),
                       "choosing the device", err);
    if (chosen != SL_OK)
        nccl_part(devs, n);
    return chosen;
}

enum sl_err nccl_exchange(struct kern_stream *s, const struct kern_exchange *x)
{
    struct cuda_dev *dev = cuda_dev(s->dev);
    const struct nccl_calls *nccl = nccl_calls(NULL, 0);
    ncclComm_t comm = dev->peers.comm;
    ncclResult_t rc = nccl->GroupStart(), end;

    for (unsigned i = 0; i < x->n && rc == ncclSuccess; i++) {
        if (i == x->self)
            continue;
        if (x->bytes[i] > 0)
            rc = nccl->Send(x->mine[i], x->bytes[i], ncclInt8, (int)i, comm,
                            cuda_stream(s));
        if (rc == ncclSuccess && x->bytes[x->self] > 0)
            rc = nccl->Recv(x->to[i], x->bytes[x->self], ncclInt8, (int)i, comm,
                            cuda_stream(s));
    }
    end = nccl->GroupEnd();
    return result(dev, nccl, rc != ncclSuccess ? rc : end);
}

void nccl_part(struct kern_dev *const *devs, unsigned n)
{
    const struct nccl_calls *nccl = nccl_calls(NULL, 0);

    for (unsigned i = 0; i < n; i++) {
        struct cuda_peers *p = &cuda_dev(devs[i])->peers;
        ncclComm_t comm = p->comm;

        p->n = 0;
        p->comm = NULL;
        if (comm)
            // A GPU that is lost in ncclSend never arrives: only an abort ends
            // the wait of the others on their streams.
            nccl->CommAbort(comm);
    }
}

void nccl_leave(struct cuda_dev *dev)
{
    const struct nccl_calls *nccl;
    ncclComm_t comm = dev->peers.comm;

    if (!comm)
        return;
    nccl = nccl_calls(NULL, 0);
    dev->peers = (struct cuda_peers){.n = 0};
    if (dev->lost)
        nccl->CommAbort(comm);
    else
        nccl->CommDestroy(comm);
}
