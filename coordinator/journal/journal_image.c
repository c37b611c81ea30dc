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
                          char keys[DELETES][LOG_KEY_BYTES],
                          struct etcd_op out[DELETES])
{
    Journal__Record next = image->record;

    next.sequence++;
    next.nonce = 0;
    log_key(keys[0], next.sequence);
    log_folder(keys[1], &next, false); // before all parts of later records
    log_folder(keys[2], &image->record, true);
    log_folder_end(keys[3], &image->record, true);
    out[0] = (struct etcd_op){ETCD_DELETE, .key = "log/", .end = keys[0]};
    out[1] = (struct etcd_op){ETCD_DELETE, .key = "part/", .end = keys[1]};
    out[2] = (struct etcd_op){ETCD_DELETE, .key = "bases/", .end = keys[2]};
    out[3] = (struct etcd_op){ETCD_DELETE, .key = keys[3], .end = "bases0"};
}

void image_write(struct journal_image *image)
{
    char keys[DELETES][LOG_KEY_BYTES];
    struct etcd_op deletes[DELETES];
    struct log_put put = {
        .key = LOG_BASE,
        .version = image->version,
        .also = deletes,
        .also_count = DELETES,
    };

    image->rc = log_nonce(&image->record, &image->err);
    if (image->rc == SL_OK) {
        image_deletes(image, keys, deletes);
        image->rc = log_put_record(&image->writer, &put, &image->record,
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
