// SPDX-License-Identifier: Apache-2.0
// worker/data/data_pattern.c -- images out of (seed, number) alone: generator
// "images" of synthetic data.
//
// Each class has a pattern: waves of its own direction and length over a ground
// of its own colour, which repeats after TILE rows and columns. A sample is the
// mean of its class's pattern, begun at an offset of its own, and noise: what a
// convolutional net learns fast, but not in one step. All is done in integers,
// eight bytes at a time, so that hosts agree and that drawing an image costs
// less than decoding one would.
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "worker/data/data_source.h"

#define TILE 16
#define TILES_BYTES ((uint64_t)1 << 30)

struct pattern {
    struct data data;
    uint64_t seed;
    uint32_t classes;
    size_t row;     // bytes of a row
    size_t tile;    // bytes of TILE rows: a multiple of eight
    uint8_t *tiles; // [classes, TILE, row]
};

static uint64_t load8(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

// Returns the means of two times eight bytes, each rounded down.
static uint64_t mean8(uint64_t a, uint64_t b)
{
    const uint64_t low7 = UINT64_C(0x7f7f7f7f7f7f7f7f);

    return ((a >> 1) & low7) + ((b >> 1) & low7);
}

// Returns eight bytes of noise, the same on hosts of either byte order.
static uint64_t noise8(uint64_t key, size_t i)
{
    uint64_t v = sl_mix64(key + i);

    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(v) : v;
}

static void pattern_draw_image(const struct pattern *p, uint32_t label,
                               uint64_t key, uint8_t *out)
{
    const uint8_t *tile = p->tiles + label * p->tile;
    size_t n = p->data.features, whole = n / 8 * 8;
    size_t at = (size_t)(key % TILE) * p->row / 8 * 8;
    uint64_t last;

    for (size_t i = 0; i < whole; i += 8) {
        uint64_t v = mean8(load8(tile + at), noise8(key, i / 8));

        memcpy(out + i, &v, sizeof(v));
        at = at + 8 == p->tile ? 0 : at + 8;
    }
    last = mean8(load8(tile + at), noise8(key, whole / 8));
    memcpy(out + whole, &last, n - whole);
}

static enum sl_err pattern_read(struct data *d, uint64_t number, void *x,
                                void *y, struct sl_error *err)
{
    struct pattern *p = sl_container_of(d, struct pattern, data);
    uint64_t key =
        sl_mix64(p->seed ^ sl_mix64(number ^ (uint64_t)d->want.test << 60));
    uint32_t label = (uint32_t)((key >> 32) % p->classes);
    // Bytes lie behind the floats' space, and become floats in place.
    uint8_t *bytes = (uint8_t *)x + (d->u8 ? 0 : 3 * d->features);

    pattern_draw_image(p, label, key, bytes);
    if (!d->u8)
        data_floats(bytes, d->features, d->scale, d->offset, x);
    return data_put_number(d, label, y, err);
}

static void pattern_release(struct data *d)
{
    sl_free(sl_container_of(d, struct pattern, data)->tiles);
}

static const struct data_ops pattern_ops = {.read = pattern_read,
                                            .release = pattern_release};

// Returns a wave: 0 to 128 and back, in whole lengths per tile.
static unsigned wave(unsigned phase)
{
    return phase % 256 < 128 ? phase % 256 : 256 - phase % 256;
}

static void make_tile(struct pattern *p, uint32_t label, uint32_t channels)
{
    uint64_t key = sl_mix64(sl_mix64(p->seed) ^ ~(uint64_t)label);
    unsigned down = (unsigned)(key & 7), right = (unsigned)(key >> 3 & 7);
    uint8_t *out = p->tiles + label * p->tile;

    for (unsigned r = 0; r < TILE; r++)
        for (size_t i = 0; i < p->row; i++) {
            unsigned c = (unsigned)(i % channels);
            unsigned ground = (unsigned)(key >> (8 + 6 * (c % 9)) & 63) * 2;
            unsigned phase = r * (down + 1) + (unsigned)(i / channels) * right;

            *out++ = (uint8_t)(ground + wave(phase * 256 / TILE) * 127 / 128);
        }
}

static enum sl_err pattern_check_source(const struct pattern *p,
                                        const struct data_source *s,
                                        struct sl_error *err)
{
    const struct data_want *want = &p->data.want;

    if (s->samples == 0 || s->samples > UINT64_C(1) << 60)
        return sl_fail(err, SL_EINVAL, "synthetic data: say how many samples");
    if (want->labels == DATA_VALUES ? want->outputs != 1
                                    : p->classes > want->outputs)
        return sl_fail(err, SL_EINVAL,
                       "synthetic data of %u classes does not fit the model's "
                       "%llu outputs",
                       p->classes, (unsigned long long)want->outputs);
    if (p->classes < 2 || p->classes > TILES_BYTES / p->tile)
        return sl_fail(err, SL_EINVAL,
                       "synthetic data: images have 2 to %llu classes, not %u",
                       (unsigned long long)(TILES_BYTES / p->tile), p->classes);
    return SL_OK;
}

static enum sl_err pattern_init(struct pattern *p, const struct data_source *s,
                                struct sl_error *err)
{
    uint32_t shape[3];
    enum sl_err rc = data_image_shape(&p->data.want, shape, err);

    if (rc != SL_OK)
        return rc;
    p->seed = s->seed;
    p->classes = s->classes;
    p->row = (size_t)shape[1] * shape[2];
    p->tile = TILE * p->row;
    rc = pattern_check_source(p, s, err);
    if (rc == SL_OK)
        rc = data_set_samples(&p->data, s->samples, s, err);
    if (rc != SL_OK)
        return rc;
    p->tiles = sl_malloc_array(p->classes, p->tile);
    if (p->tiles == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for %u patterns", p->classes);
    for (uint32_t i = 0; i < p->classes; i++)
        make_tile(p, i, shape[2]);
    return SL_OK;
}

enum sl_err data_open_pattern(struct data **out, const struct data_source *s,
                              const struct data_want *want,
                              struct sl_error *err)
{
    struct pattern *p = sl_calloc(1, sizeof(*p));
    enum sl_err rc;

    if (p == NULL)
        return sl_no_memory(err);
    data_init(&p->data, &pattern_ops, s, want);
    rc = pattern_init(p, s, err);
    if (rc != SL_OK) {
        data_free(&p->data);
        return rc;
    }
    p->data.u8 = want->u8;
    p->data.shared = true;
    data_hash_number(&p->data, sl_hash64("images", 6));
    data_hash_number(&p->data, p->seed);
    data_hash_number(&p->data, p->classes);
    *out = &p->data;
    return SL_OK;
}
