// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_image.c -- an image of all rows, written to etcd
// part by part while the journal goes on; then one transaction puts it in
// force.
#include "coordinator/journal/journal_image.h"

#include <sqlite3.h>

#include "common/base/mem.h"

#define DELETES 4

// Deletes what the image makes superfluous: records up to its own, and the
// parts of every other image, also of one that was never finished.
static void image_deletes(const struct journal_image *image,
                          char keys[2 * DELETES][LOG_KEY_BYTES],
                          struct etcd_op out[DELETES])
{
    const struct log_place *at = &image->writer.place;
    Journal__Record next = image->record;

    next.sequence++;
    next.nonce = 0;
    log_name(keys[0], at, "log/");
    log_key(keys[1], at, next.sequence);
    log_name(keys[2], at, "part/");
    log_folder(keys[3], at, &next, false); // before all parts of later records
    log_name(keys[4], at, "bases/");
    log_folder(keys[5], at, &image->record, true);
    log_folder_end(keys[6], at, &image->record, true);
    log_name(keys[7], at, "bases0");
    for (size_t i = 0; i < DELETES; i++)
        out[i] = (struct etcd_op){ETCD_DELETE, .key = keys[2 * i],
                                  .end = keys[2 * i + 1]};
}

void image_write(struct journal_image *image)
{
    char base[LOG_KEY_BYTES], keys[2 * DELETES][LOG_KEY_BYTES];
    struct etcd_op deletes[DELETES];
    struct log_put put = {
        .key = base,
        .version = image->version,
        .also = deletes,
        .also_count = DELETES,
    };

    log_name(base, &image->writer.place, "base");
    image->rc = log_nonce(&image->record, &image->err);
    if (image->rc == SL_OK) {
        image_deletes(image, keys, deletes);
        image->rc = log_put_record(&image->writer, &put, &image->record, true,
                                   image->bytes, &image->err);
    }
    atomic_store(&image->done, true);
}

static void *image_main(void *arg)
{
    image_write(arg);
    return NULL;
}

void image_start(struct journal_image *image)
{
    image->threaded =
        pthread_create(&image->thread, NULL, image_main, image) == 0;
    if (!image->threaded)
        image_write(image);
}

void image_free(struct journal_image *image)
{
    if (image == NULL)
        return;
    if (image->threaded)
        pthread_join(image->thread, NULL);
    sqlite3_free((void *)image->bytes.data);
    sl_free(image);
}
