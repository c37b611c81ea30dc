// SPDX-License-Identifier: Apache-2.0
// worker/data/data_decode.c -- see data_decode.h.
#include "worker/data/data_decode.h"

#include <string.h>

#include "common/base/mem.h"

void decoders_init(struct decoders *s, uint32_t depth)
{
    pthread_mutex_init(&s->lock, NULL);
    s->idle = NULL;
    s->depth = depth;
}

void decoders_release(struct decoders *s)
{
    struct decoder *next;

    for (struct decoder *d = s->idle; d != NULL; d = next) {
        next = d->next;
        image_release(&d->image);
        sl_free(d->file.at);
        sl_free(d->bytes.at);
        sl_free(d);
    }
    pthread_mutex_destroy(&s->lock);
}

struct decoder *decoders_take(struct decoders *s)
{
    struct decoder *d;

    pthread_mutex_lock(&s->lock);
    d = s->idle;
    if (d != NULL)
        s->idle = d->next;
    pthread_mutex_unlock(&s->lock);
    if (d == NULL)
        d = sl_calloc(1, sizeof(*d));
    if (d != NULL)
        d->image.depth = s->depth;
    return d;
}

void decoders_give(struct decoders *s, struct decoder *d)
{
    pthread_mutex_lock(&s->lock);
    d->next = s->idle;
    s->idle = d;
    pthread_mutex_unlock(&s->lock);
}

enum sl_err decoder_shape(const struct data_want *want, uint32_t shape[3],
                          struct sl_error *err)
{
    enum sl_err rc = data_image_shape(want, shape, err);

    return rc == SL_OK && shape[2] != 3 && shape[2] != 1
               ? sl_fail(err, SL_EINVAL,
                         "images have 3 channels or, as grey, 1; the model "
                         "reads %u",
                         shape[2])
               : rc;
}

enum sl_err decoder_put(struct decoder *d, const struct data *data,
                        const uint32_t shape[3], const uint8_t *bytes, size_t n,
                        void *x, struct sl_error *err)
{
    void *to = x;
    enum sl_err rc = image_decode(&d->image, bytes, n, err);

    if (rc == SL_OK && !data->u8) {
        rc = image_space(&d->bytes, data->features, err);
        to = d->bytes.at;
    }
    if (rc == SL_OK)
        rc = image_put(&d->image, shape[0], shape[1], shape[2], to, err);
    if (rc == SL_OK && !data->u8)
        data_floats(to, data->features, data->scale, data->offset, x);
    return rc;
}

static enum sl_err data_put_raw(const struct data *data, const uint8_t *bytes,
                                size_t n, void *x, struct sl_error *err)
{
    if (n != data->features)
        return sl_fail(err, SL_EINVAL,
                       "has %zu bytes; the model reads %zu (decode: raw)", n,
                       data->features);
    if (data->u8)
        memcpy(x, bytes, n);
    else
        data_floats(bytes, n, data->scale, data->offset, x);
    return SL_OK;
}

enum sl_err data_put_image(struct decoder *d, const struct data *data,
                           const uint32_t shape[3], enum data_decode decode,
                           const uint8_t *bytes, size_t n, void *x,
                           struct sl_error *err)
{
    bool jpeg = n > 0 && bytes[0] == 0xff;

    if (decode == DATA_DECODE_RAW)
        return data_put_raw(data, bytes, n, x, err);
    if ((decode == DATA_DECODE_JPEG && !jpeg) ||
        (decode == DATA_DECODE_PNG && jpeg))
        return sl_fail(err, SL_EINVAL,
                       "is no %s; leave out decode to take either kind",
                       jpeg ? "PNG" : "JPEG");
    return decoder_put(d, data, shape, bytes, n, x, err);
}
