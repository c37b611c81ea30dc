// SPDX-License-Identifier: Apache-2.0
// The digest of a gradient; its other operations are tested where they are
// used.
#include "trainer/base/grad.h"

#include <string.h>

#include "tests/harness/t.h"

enum { MOST = 37 };

TEST(grad, a_digest_changes_with_every_bit_and_with_the_length)
{
    float g[MOST], was;
    uint32_t bits;

    for (size_t i = 0; i < MOST; i++)
        g[i] = (float)t_below(1000) / 7;
    for (size_t n = 0; n <= MOST; n++) {
        uint64_t digest = grad_digest(0, g, n);

        T_EQ(digest, grad_digest(0, g, n));
        T_NE(digest, 0);
        T_NE(digest, grad_digest(1, g, n));
        if (n > 0)
            T_NE(digest, grad_digest(0, g, n - 1));
        for (size_t i = 0; i < n; i++) {
            was = g[i];
            memcpy(&bits, &g[i], sizeof(bits));
            bits ^= UINT32_C(1) << (i + n) % 32;
            memcpy(&g[i], &bits, sizeof(bits));
            T_NE(digest, grad_digest(0, g, n));
            g[i] = was;
        }
    }
}
