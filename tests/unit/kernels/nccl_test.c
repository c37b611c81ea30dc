// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/nccl_test.c -- the real NCCL, if it is installed, has what
// we call of it. It needs no GPU to say its version.
#include "kernels/cuda/nccl_calls.h"

#include "tests/harness/t.h"

TEST(nccl, what_we_call_is_there)
{
    const struct nccl_calls *calls;
    char why[100] = "";
    int version = 0;

    calls = nccl_calls(why, sizeof(why));
    if (calls == NULL)
        T_SKIP(why);
    T_EQ(calls->GetVersion(&version), ncclSuccess);
    T_GE(version, NCCL_VERSION(2, 18, 0)); // sends and receives in groups
    T_TRUE(calls->GetErrorString(ncclSystemError)[0] != '\0');
    T_TRUE(nccl_calls(NULL, 0) == calls);
}
