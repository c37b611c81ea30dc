// SPDX-License-Identifier: Apache-2.0
// worker/data/data_split.c -- a share of a set, or the rest of it, as a set.
//
// Which samples it has is a bit for each; how many came before every 512 of
// them says where sample i is.
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "plan/order.h"
#include "worker/data/data_source.h"

#define WORDS 8 // of a block
#define BLOCK (WORDS * UINT64_C(64))
#define MOST (UINT64_C(1) << 32)
#define LOOK 65536 // blocks between two looks whether to go on

struct split {
    struct data data;
    struct data *whole; // a reference
    uint64_t *bits;     // of all samples of `whole`, in whole blocks
    uint64_t *before;   // by block: samples of the split before it
    uint64_t blocks;
};

static struct split *split_of(const struct data *d)
{
    return sl_container_of((struct data *)(uintptr_t)d, struct split, data);
}

// Returns the place of the set bit `n`, from 0, of a word that has more.
static unsigned nth_bit(uint64_t word, uint64_t n)
{
    while (n-- > 0)
        word &= word - 1;
    return (unsigned)__builtin_ctzll(word);
}

// Returns the last block before which there are at most `number` samples.
static uint64_t split_block(const struct split *s, uint64_t number)
{
    uint64_t low = 0, high = s->blocks;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;

        if (s->before[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// Returns the number in `whole` of sample `number`, one of the split's.
static uint64_t split_number(const struct split *s, uint64_t number)
{
    uint64_t block = split_block(s, number), word = block * WORDS;
    uint64_t left = number - s->before[block];

    for (;; word++) {
        uint64_t here = (uint64_t)__builtin_popcountll(s->bits[word]);

        if (left < here)
            return word * 64 + nth_bit(s->bits[word], left);
        left -= here;
    }
}

static enum sl_err split_read(struct data *d, uint64_t number, void *x, void *y,
                              struct sl_error *err)
{
    const struct split *s = split_of(d);
    enum sl_err rc =
        s->whole->ops->read(s->whole, split_number(s, number), x, y, err);

    if (rc == SL_OK)
        data_take_beside(d, s->whole);
    return rc;
}

static void split_soon(struct data *d, uint64_t number)
{
    data_soon(split_of(d)->whole, split_number(split_of(d), number));
}

static void split_expect(struct data *d, uint64_t number)
{
    data_expect(split_of(d)->whole, split_number(split_of(d), number));
}

static const char *split_class_name(const struct data *d, uint32_t i)
{
    return data_class(split_of(d)->whole, i);
}

// The samples are those of `whole`, which says itself what they take.
static uint64_t split_memory(const struct data *d)
{
    return split_of(d)->blocks * (WORDS + 1) * sizeof(uint64_t);
}

static void split_release(struct data *d)
{
    struct split *s = split_of(d);

    data_free(s->whole);
    sl_free(s->bits);
    sl_free(s->before);
}

static const struct data_ops split_ops = {
    .read = split_read,
    .soon = split_soon,
    .expect = split_expect,
    .class_name = split_class_name,
    .memory = split_memory,
    .release = split_release,
};

// Sets the bits of a block. Returns how many there are.
static uint64_t split_fill_block(struct split *s, uint64_t block,
                                 const struct data_part *p)
{
    uint64_t from = block * BLOCK, count = 0;

    for (uint64_t i = from; i < from + BLOCK && i < s->whole->samples; i++) {
        bool ours = order_held_out(p->seed, i, p->part) == p->held;

        s->bits[i / 64] |= (uint64_t)ours << i % 64;
        count += ours;
    }
    return count;
}

static enum sl_err split_fill(struct split *s, const struct data_part *p,
                              struct pulse *pulse, struct sl_error *err)
{
    uint64_t count = 0;

    s->blocks = sl_ceil_div(s->whole->samples, BLOCK);
    s->bits = sl_calloc((size_t)s->blocks, WORDS * sizeof(*s->bits));
    s->before = sl_malloc_array((size_t)s->blocks, sizeof(*s->before));
    if (s->bits == NULL || s->before == NULL)
        return sl_no_memory(err);
    for (uint64_t i = 0; i < s->blocks; i++) {
        if (i % LOOK == 0 && pulse_piece(pulse, err) != SL_OK)
            return SL_ECANCELED;
        s->before[i] = count;
        count += split_fill_block(s, i, p);
    }
    s->data.samples = count;
    return count > 0 ? SL_OK
                     : sl_fail(err, SL_EINVAL,
                               "none of the %llu samples is %s; give "
                               "data.validation another share",
                               (unsigned long long)s->whole->samples,
                               p->held ? "held out" : "trained with");
}

// Copies what `whole` says of itself.
static enum sl_err split_take_after(struct split *s, const struct data_part *p,
                                    struct sl_error *err)
{
    struct data *d = &s->data, *whole = s->whole;
    struct id_column ids[IDS_COLUMNS_MAX];
    struct data_source of = {.ids = ids, .ids_count = whole->ids_count};
    uint64_t part;

    memcpy(&part, &p->part, sizeof(part));
    d->want.test = p->held;
    d->hash = whole->hash;
    data_hash_number(d, p->seed);
    data_hash_number(d, part ^ p->held);
    d->u8 = whole->u8;
    d->shared = whole->shared;
    d->classes = whole->classes;
    for (size_t i = 0; i < whole->ids_count; i++)
        ids[i] = whole->ids[i].how;
    if (whole->weights != NULL && data_set_weights(d, err) != SL_OK)
        return SL_ENOMEM;
    return data_set_ids(d, &of, err);
}

enum sl_err data_split(struct data **out, struct data *whole,
                       const struct data_part *part, struct data_bad *bad,
                       struct pulse *pulse, struct sl_error *err)
{
    struct data_source s = {.format = "split",
                            .bad = bad,
                            .scale = (double)whole->scale,
                            .offset = (double)whole->offset};
    struct split *p;
    enum sl_err rc;

    if (whole->samples > MOST)
        return sl_fail(err, SL_ERANGE,
                       "over %llu samples cannot be split; give data.test",
                       (unsigned long long)MOST);
    p = sl_calloc(1, sizeof(*p));
    if (p == NULL)
        return sl_no_memory(err);
    data_init(&p->data, &split_ops, &s, &whole->want);
    p->data.strip = whole->strip;
    p->whole = whole;
    whole->refs++;
    rc = split_take_after(p, part, err);
    if (rc == SL_OK)
        rc = split_fill(p, part, pulse, err);
    if (rc != SL_OK) {
        data_free(&p->data);
        return rc;
    }
    *out = &p->data;
    return SL_OK;
}
