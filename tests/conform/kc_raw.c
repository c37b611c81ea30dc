// SPDX-License-Identifier: Apache-2.0
// tests/conform/kc_raw.c -- what each implementation computes that a host
// backend could take, those too that a proof leaves out.
#include "tests/conform/kc.h"

#include <stdio.h>
#include <string.h>

#include "kernels/prove/prove.h"

#define IMPLS 64
#define TRIES 20 // implementations of one op

static struct tally {
    char impl[64];
    unsigned right, wrong;
} tallies[IMPLS];

static struct tally *tally_of(const char *impl)
{
    unsigned i = 0;

    while (i + 1 < IMPLS && tallies[i].impl[0] != '\0' &&
           strcmp(tallies[i].impl, impl) != 0)
        i++;
    snprintf(tallies[i].impl, sizeof(tallies[i].impl), "%s", impl);
    return &tallies[i];
}

static void judge(struct kern_plan *plan, size_t bytes,
                  const struct kern_desc *d)
{
    struct tally *tally = tally_of(plan->impl);
    struct proof_fault f;
    char text[300];
    enum sl_err rc = prove_plan(plan, bytes, d, &f);

    tally->right += rc == SL_OK;
    tally->wrong += rc != SL_OK;
    if (rc == SL_OK)
        return;
    printf("wrong: %s: %s: ", plan->impl,
           kern_desc_text(text, sizeof(text), d));
    if (rc == SL_EINTERNAL)
        printf("output %d element %lld is %.9g, ref %.9g, bound %.3g, %s\n",
               f.out - d->inputs, (long long)f.element, f.got, f.want, f.bound,
               f.when);
    else
        printf("%s\n", sl_err_name(rc));
}

void kc_raw(struct kern_dev *dev, const struct kern_desc *d)
{
    for (int i = 0; i < TRIES && !kern_desc_empty(d); i++) {
        struct sl_error err = SL_ERROR_INIT;
        struct kern_plan *plan = NULL;
        size_t bytes = 0;
        bool last;

        if (dev->backend->score(dev, d) <= 0 ||
            dev->backend->plan(&plan, &bytes, dev, d, SIZE_MAX, &err) != SL_OK)
            return;
        last = prover_avoids(dev->prover, d, plan->impl);
        if (!last)
            judge(plan, bytes, d);
        // What the backend would take if it were not for this one.
        if (prover_learn(dev->prover, d, plan->impl, PROOF_WRONG, 0) != SL_OK)
            last = true;
        kern_plan_free(plan);
        if (last)
            return;
    }
}

void kc_raw_print(void)
{
    printf("%-40s %8s %8s\n", "implementation", "right", "wrong");
    for (unsigned i = 0; i < IMPLS && tallies[i].impl[0] != '\0'; i++)
        printf("%-40s %8u %8u\n", tallies[i].impl, tallies[i].right,
               tallies[i].wrong);
}
