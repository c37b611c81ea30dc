// SPDX-License-Identifier: Apache-2.0
// worker/data/data_folder.c -- a folder of images by class as samples.
//
// Reading a sample is opening its file, decoding it and resizing it.
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/run/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "worker/data/data_folder.h"
#include "worker/data/data_decode.h"
#include "worker/data/data_source.h"

struct images {
    struct data data;
    struct folder folder;
    uint32_t shape[3]; // rows, columns, channels

    struct decoders decoders;
    _Atomic bool warned; // of images that seem to use fewer bits than 16
};

// ---- reading

static enum sl_err read_whole(int fd, uint8_t *to, size_t n,
                              struct sl_error *err)
{
    for (size_t have = 0; have < n;) {
        ssize_t got = pread(fd, to + have, n - have, (off_t)have);
        int errnum = errno;

        if (got < 0 && errnum == EINTR)
            continue;
        if (got < 0)
            return sl_fail(err, sl_err_from_errno(errnum), "%s",
                           strerror(errnum));
        if (got == 0)
            return sl_fail(err, SL_ECORRUPT,
                           "was changed while the job runs: it ends at byte "
                           "%zu of %zu",
                           have, n);
        have += (size_t)got;
    }
    return SL_OK;
}

static enum sl_err images_load_file(struct images *s, struct decoder *d,
                                    size_t file, struct sl_error *err)
{
    size_t n = s->folder.files[file].bytes;
    int fd = -1;
    enum sl_err rc = folder_open(&s->folder, file, &fd, err);

    if (rc != SL_OK)
        return rc;
    rc = image_space(&d->file, n > 0 ? n : 1, err);
    if (rc == SL_OK)
        rc = read_whole(fd, d->file.at, n, err);
    close(fd);
    return rc;
}

// Warns once of a file whose 16 bits are used in part, as cameras of 10, 12 and
// 14 bits write it: without data's `depth` such an image is nearly black.
static void look_at_bits(struct images *s, const struct image *im, size_t file)
{
    unsigned bits = 0;

    if (s->decoders.depth != 0 || im->used == 0 || im->used >= 1u << 15)
        return;
    while (im->used >> bits != 0)
        bits++;
    if (!atomic_exchange(&s->warned, true))
        LOG(WARN, "16-bit image uses only its low bits; set depth",
            "file=%s/%s/%s bits=%u", s->folder.root,
            folder_class(&s->folder, s->folder.files[file].class),
            folder_name(&s->folder, file), bits);
}

static enum sl_err read_with(struct images *s, struct decoder *d, size_t file,
                             void *x, struct sl_error *err)
{
    enum sl_err rc = images_load_file(s, d, file, err);

    if (rc == SL_OK)
        rc = decoder_put(d, &s->data, s->shape, d->file.at,
                         s->folder.files[file].bytes, x, err);
    if (rc == SL_OK)
        look_at_bits(s, &d->image, file);
    return rc;
}

static enum sl_err images_read(struct data *d, uint64_t number, void *x,
                               void *y, struct sl_error *err)
{
    struct images *s = sl_container_of(d, struct images, data);
    size_t file = (size_t)number;
    uint32_t label = s->folder.files[file].class;
    struct decoder *decoder = decoders_take(&s->decoders);
    enum sl_err rc;

    if (decoder == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a decoder");
    rc = read_with(s, decoder, file, x, err);
    decoders_give(&s->decoders, decoder);
    if (rc != SL_OK)
        return folder_blame(&s->folder, file, rc, err);
    return data_put_number(d, label, y, err);
}

static const char *images_class(const struct data *d, uint32_t i)
{
    const struct images *s =
        sl_container_of((struct data *)(uintptr_t)d, struct images, data);

    return folder_class(&s->folder, i);
}

static void images_release(struct data *d)
{
    struct images *s = sl_container_of(d, struct images, data);

    decoders_release(&s->decoders);
    folder_release(&s->folder);
}

static uint64_t images_memory(const struct data *d)
{
    const struct images *s =
        sl_container_of((struct data *)(uintptr_t)d, struct images, data);

    return s->folder.capacity * sizeof(*s->folder.files) + s->folder.names.len;
}

static const struct data_ops images_ops = {
    .read = images_read,
    .class_name = images_class,
    .memory = images_memory,
    .release = images_release,
};

// ---- opening

// Returns the first class without an image, or NULL.
static const char *empty_class(const struct folder *f)
{
    uint32_t next = 0; // the files lie in the order of their classes

    for (size_t i = 0; i < f->count; i++) {
        if (f->files[i].class > next)
            break;
        next = f->files[i].class + 1;
    }
    return next < f->classes_count ? folder_class(f, next) : NULL;
}

static enum sl_err images_check_classes(const struct images *s,
                                        struct sl_error *err)
{
    const char *empty = empty_class(&s->folder);

    if (s->folder.count > 0 && empty != NULL && !s->data.want.test)
        return sl_fail(err, SL_EINVAL,
                       "%s/%.80s holds no image: put images there, or remove "
                       "the folder if it is not a class",
                       s->folder.root, empty);
    return data_check_classes(&s->data.want, s->folder.root, s->folder.count,
                              s->folder.classes_count, err);
}

// Hashes the contents of the folder; its place may differ from host to host.
static void hash_folder(struct images *s)
{
    const struct folder *f = &s->folder;

    data_hash_number(&s->data, f->classes_count);
    for (uint32_t i = 0; i < f->classes_count; i++)
        data_hash_name(&s->data, folder_class(f, i));
    for (size_t i = 0; i < f->count; i++) {
        data_hash_number(&s->data, f->files[i].class);
        data_hash_name(&s->data, folder_name(f, i));
        data_hash_number(&s->data, f->files[i].bytes);
    }
}

static enum sl_err open_images(struct images *s,
                               const struct data_source *source,
                               struct sl_error *err)
{
    struct folder *f = &s->folder;
    enum sl_err rc = decoder_shape(&s->data.want, s->shape, err);

    if (rc != SL_OK)
        return rc;
    if (source->x == NULL)
        return sl_fail(err, SL_EINVAL,
                       "data of format images needs the path x of a folder");
    rc = folder_scan(f, source->roots, source->x,
                     (struct folder_names){source->names, source->names_count},
                     source->pulse, err);
    if (rc == SL_OK)
        rc = images_check_classes(s, err);
    if (rc == SL_OK)
        rc = data_set_samples(&s->data, f->count, source, err);
    if (rc != SL_OK)
        return rc;
    hash_folder(s);
    LOG(INFO, "images found",
        "folder=%s classes=%u images=%zu hidden=%llu links=%llu others=%llu",
        f->root, f->classes_count, f->count, (unsigned long long)f->hidden,
        (unsigned long long)f->links, (unsigned long long)f->others);
    return SL_OK;
}

enum sl_err data_open_folder(struct data **out, const struct data_source *s,
                             const struct data_want *want, struct sl_error *err)
{
    struct images *i = sl_calloc(1, sizeof(*i));
    enum sl_err rc;

    if (i == NULL)
        return sl_no_memory(err);
    data_init(&i->data, &images_ops, s, want);
    decoders_init(&i->decoders, s->depth);
    rc = open_images(i, s, err);
    if (rc != SL_OK) {
        data_free(&i->data);
        return rc;
    }
    i->data.u8 = want->u8;
    i->data.shared = true;
    i->data.classes = i->folder.classes_count;
    *out = &i->data;
    return SL_OK;
}
