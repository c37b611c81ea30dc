// SPDX-License-Identifier: Apache-2.0
// worker/data/data_tarset.c -- samples in tar archives.
//
// webdataset: members in a row that share their name up to its first dot are a
// sample; what follows the dot says what a member is. tar: a member is an
// image, and the folder that it lies in is its class.
//
// Two extents of the index are a sample: its features, and its label; a tar's
// second one has the number of the class for its offset.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/buf.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "worker/data/data_array.h"
#include "worker/data/data_decode.h"
#include "worker/data/data_tar.h"

#define LABEL_BYTES ((uint32_t)1 << 20)
#define CLASSES_MAX 100000
#define CLASS_BYTES 255

struct tar_class {
    char *name; // owned
    uint32_t id;
};

struct tarset {
    struct data data;
    struct records records;
    struct decoders decoders;
    uint32_t shape[3];
    enum data_decode decode;
    char *x, *label, *field; // owned; x NULL: any image
    bool numbers;            // x is an npy
    bool by_folder;          // format tar
    int64_t first;
    struct tar_class *class; // in byte order of their names, or as given
    uint32_t classes, classes_capacity;
    bool named; // the job names the classes
    uint64_t others;
    struct pulse *pulse;
};

// The members in a row that share a name.
struct tar_group {
    struct tarset *set;
    uint32_t file;
    char key[TAR_NAME_BYTES];
    size_t key_bytes;
    struct data_extent x, label;
};

static struct tarset *tarset_of(const struct data *d)
{
    return sl_container_of((struct data *)(uintptr_t)d, struct tarset, data);
}

// Returns true if a key such as "json" or "a.json" ends in `word`.
static bool tarset_key_ends(const char *key, const char *word)
{
    const char *dot = strrchr(key, '.');

    return strcasecmp(dot != NULL ? dot + 1 : key, word) == 0;
}

// ---- reading

// Reads an extent to r, with a 0 behind it.
static enum sl_err tarset_load(const struct tarset *t,
                               const struct data_extent *one, const char *what,
                               struct image_space *r, struct sl_error *err)
{
    enum sl_err rc;

    if (one->bytes == RECORD_MISSING)
        return sl_fail(err, SL_EINVAL,
                       "the group has no member that ends in .%.60s", what);
    rc = image_space(r, (size_t)one->bytes + 1, err);
    if (rc == SL_OK)
        rc = records_load(&t->records, one, 0, r->at, err);
    if (rc == SL_OK)
        ((uint8_t *)r->at)[one->bytes] = 0;
    return rc;
}

// Reads an npy of exactly `most` numbers into `out`.
static enum sl_err tarset_npy(const uint8_t *bytes, size_t n, float scale,
                              float offset, size_t most, float *out,
                              struct sl_error *err)
{
    struct array a = {.type = ARRAY_U8};
    size_t head = 0;
    enum sl_err rc = array_npy_bytes(&a, bytes, n, &head, err);

    if (rc == SL_OK && a.rows * a.row_elements != most)
        return sl_fail(err, SL_EINVAL,
                       "its npy has %llu numbers; %zu are expected",
                       (unsigned long long)(a.rows * a.row_elements), most);
    if (rc == SL_OK)
        array_floats(&a, bytes + head, most, scale, offset, out);
    return rc;
}

static enum sl_err tarset_read_x(const struct tarset *t, struct decoder *d,
                                 const struct data_extent *one, void *x,
                                 struct sl_error *err)
{
    const struct data *data = &t->data;
    enum sl_err rc =
        tarset_load(t, one, t->x != NULL ? t->x : "jpg", &d->file, err);

    if (rc != SL_OK)
        return rc;
    return t->numbers ? tarset_npy(d->file.at, one->bytes, data->scale,
                                   data->offset, data->features, x, err)
                      : data_put_image(d, data, t->shape, t->decode, d->file.at,
                                       one->bytes, x, err);
}

// Reads a field of a JSON object; the parser's own words would quote the file.
static enum sl_err tarset_json(const struct tarset *t, const char *text,
                               size_t n, double *out, struct sl_error *err)
{
    json_t *object = NULL, *value;
    bool good;

    if (sl_json_parse(&object, "label", text, n, NULL, NULL) != SL_OK)
        return sl_fail(err, SL_EINVAL, "its .%.60s is no JSON", t->label);
    value = json_object_get(object, t->field);
    *out = json_number_value(value);
    good = json_is_number(value) && isfinite((float)*out);
    json_decref(object);
    return good ? SL_OK
                : sl_fail(err, SL_EINVAL,
                          "its .%.60s has no number '%.60s'; say another with "
                          "features.label.field",
                          t->label, t->field);
}

static enum sl_err tarset_text(const struct tarset *t, char *text, size_t n,
                               double *out, struct sl_error *err)
{
    while (n > 0 && strchr("\r\n", text[n - 1]) != NULL && text[n - 1] != '\0')
        text[--n] = '\0';
    return strlen(text) == n && data_parse_number(text, out)
               ? SL_OK
               : sl_fail(err, SL_EINVAL,
                         "its .%.60s is no number; classes are written as "
                         "numbers from 0",
                         t->label);
}

static enum sl_err tarset_put(const struct tarset *t, double value, void *y,
                              struct sl_error *err)
{
    float one = (float)(value - (double)t->first);

    if (t->data.want.labels == DATA_VALUES && t->data.want.outputs != 1)
        return sl_fail(err, SL_EINVAL,
                       "has one number as its label, but the model has %llu "
                       "outputs; keep values in a .npy",
                       (unsigned long long)t->data.want.outputs);
    return data_put_number(&t->data, (double)one, y, err);
}

static enum sl_err tarset_read_label(const struct tarset *t, struct decoder *d,
                                     const struct data_extent *one, void *y,
                                     struct sl_error *err)
{
    bool values = t->data.want.labels == DATA_VALUES;
    double value = 0;
    float first;
    enum sl_err rc = tarset_load(t, one, t->label, &d->file, err);

    if (rc != SL_OK)
        return rc;
    if (tarset_key_ends(t->label, "npy")) {
        rc = tarset_npy(d->file.at, one->bytes, 1, -(float)t->first,
                        values ? (size_t)t->data.want.outputs : 1,
                        values ? y : &first, err);
        return rc != SL_OK || values
                   ? rc
                   : data_put_class(&t->data, (double)first, y, err);
    }
    rc = tarset_key_ends(t->label, "json")
             ? tarset_json(t, d->file.at, one->bytes, &value, err)
             : tarset_text(t, d->file.at, one->bytes, &value, err);
    return rc == SL_OK ? tarset_put(t, value, y, err) : rc;
}

static enum sl_err tarset_read(struct data *d, uint64_t number, void *x,
                               void *y, struct sl_error *err)
{
    struct tarset *t = tarset_of(d);
    const struct data_extent *one = &t->records.at[2 * number];
    struct decoder *decoder = decoders_take(&t->decoders);
    enum sl_err rc;

    if (decoder == NULL)
        return sl_no_memory(err);
    rc = tarset_read_x(t, decoder, one, x, err);
    if (rc == SL_OK)
        rc = t->by_folder ? tarset_put(t, (double)one[1].offset, y, err)
                          : tarset_read_label(t, decoder, &one[1], y, err);
    decoders_give(&t->decoders, decoder);
    return rc == SL_OK
               ? rc
               : records_blame(&t->records,
                               one->bytes != RECORD_MISSING ? one : one + 1, rc,
                               err);
}

static uint64_t tarset_memory(const struct data *d)
{
    return tarset_of(d)->records.capacity * sizeof(struct data_extent);
}

static const char *tarset_class(const struct data *d, uint32_t i)
{
    return tarset_of(d)->class[i].name;
}

static void tarset_release(struct data *d)
{
    struct tarset *t = tarset_of(d);

    decoders_release(&t->decoders);
    records_release(&t->records);
    for (uint32_t i = 0; i < t->classes; i++)
        sl_free(t->class[i].name);
    sl_free(t->class);
    sl_free(t->x);
    sl_free(t->label);
    sl_free(t->field);
}

static const struct data_ops tarset_ops = {
    .read = tarset_read,
    .class_name = tarset_class,
    .memory = tarset_memory,
    .release = tarset_release,
};

// ---- the classes of a tar

// Returns the place of a class in their byte order: where it is, or belongs.
static uint32_t tarset_class_place(const struct tarset *t, const char *name)
{
    uint32_t low = 0, high = t->classes;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (strcmp(t->class[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum sl_err tarset_insert_class(struct tarset *t, uint32_t at,
                                       const char *name, struct sl_error *err)
{
    if (t->classes == CLASSES_MAX)
        return sl_fail(err, SL_ERANGE, "has over %d folders of images",
                       CLASSES_MAX);
    if (t->classes == t->classes_capacity) {
        uint32_t capacity = t->classes == 0 ? 64 : t->classes * 2;
        struct tar_class *more =
            sl_realloc_array(t->class, capacity, sizeof(*more));

        if (more == NULL)
            return sl_no_memory(err);
        t->class = more;
        t->classes_capacity = capacity;
    }
    memmove(&t->class[at + 1], &t -> class[at],
            (t->classes - at) * sizeof(*t->class));
    t->class[at] = (struct tar_class){sl_strdup(name), t->classes};
    t->classes++;
    return t->class[at].name == NULL ? sl_no_memory(err) : SL_OK;
}

// Finds the number of a class: in the order of appearance, until all are known;
// or that which the job gave it.
static enum sl_err tarset_class_id(struct tarset *t, const char *name,
                                   uint64_t offset, uint64_t *id,
                                   struct sl_error *err)
{
    uint32_t at = tarset_class_place(t, name);
    bool known = at < t->classes && strcmp(t->class[at].name, name) == 0;
    enum sl_err rc = SL_OK;

    if (!known && t->named)
        return sl_fail(err, SL_EINVAL,
                       "byte %llu: an image in a folder that is none of the "
                       "classes (data.classes, or the folders of data.train)",
                       (unsigned long long)offset);
    if (!known)
        rc = tarset_insert_class(t, at, name, err);
    *id = rc == SL_OK ? t->class[at].id : 0;
    return rc;
}

static int tarset_compare_ids(const void *a, const void *b)
{
    uint32_t x = ((const struct tar_class *)a)->id;
    uint32_t y = ((const struct tar_class *)b)->id;

    return x < y ? -1 : x > y;
}

// Gives the classes their last numbers: in byte order of their names, or those
// that the job gave, and then the list is in that order.
static enum sl_err tarset_number_classes(struct tarset *t, struct sl_error *err)
{
    uint32_t *last;

    if (t->named) {
        qsort(t->class, t->classes, sizeof(*t->class), tarset_compare_ids);
        return SL_OK;
    }
    last = sl_malloc_array((size_t)t->classes + 1, sizeof(*last));
    if (last == NULL)
        return sl_no_memory(err);
    for (uint32_t i = 0; i < t->classes; i++)
        last[t->class[i].id] = i;
    for (uint64_t i = 1; i < t->records.count; i += 2)
        t->records.at[i].offset = last[t->records.at[i].offset];
    sl_free(last);
    return SL_OK;
}

static enum sl_err tarset_name_classes(struct tarset *t,
                                       const struct data_source *s,
                                       struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    t->named = s->names_count > 0;
    for (size_t i = 0; rc == SL_OK && i < s->names_count; i++)
        rc = tarset_insert_class(t, tarset_class_place(t, s->names[i]),
                                 s->names[i], err);
    return rc;
}

// ---- looking through an archive

static enum sl_err tarset_extent(const struct tar_member *m, uint64_t most,
                                 uint32_t file, struct data_extent *out,
                                 struct sl_error *err)
{
    if (m->bytes > most)
        return sl_fail(err, SL_ERANGE, "byte %llu: a member of over %llu bytes",
                       (unsigned long long)m->offset, (unsigned long long)most);
    *out = (struct data_extent){m->offset, (uint32_t)m->bytes, file};
    return SL_OK;
}

static enum sl_err tarset_add(struct tarset *t, struct data_extent x,
                              struct data_extent label, struct sl_error *err)
{
    enum sl_err rc = records_add(&t->records, x, err);

    return rc == SL_OK ? records_add(&t->records, label, err) : rc;
}

// Takes an image of a folder.
static enum sl_err tarset_take_image(struct tar_group *g,
                                     const struct tar_member *m,
                                     const char *base, struct sl_error *err)
{
    const char *dot = strrchr(base, '.'), *class = base - 1;
    char name[CLASS_BYTES + 1];
    struct data_extent x, label = {.file = g->file};
    size_t n;
    enum sl_err rc;

    if (base == m->name || dot == NULL || !image_ending(dot + 1)) {
        g->set->others++;
        return SL_OK;
    }
    while (class > m->name && class[-1] != '/')
        class --;
    n = (size_t)(base - 1 - class);
    if (n == 0 || n > CLASS_BYTES)
        return sl_fail(err, SL_EINVAL,
                       "byte %llu: the folder of an image has no name, or one "
                       "of over %d bytes",
                       (unsigned long long)m->offset, CLASS_BYTES);
    memcpy(name, class, n);
    name[n] = '\0';
    rc = tarset_class_id(g->set, name, m->offset, &label.offset, err);
    if (rc == SL_OK)
        rc = tarset_extent(m, RECORD_BYTES, g->file, &x, err);
    return rc == SL_OK ? tarset_add(g->set, x, label, err) : rc;
}

static void tar_group_begin(struct tar_group *g, const char *key, size_t n)
{
    memcpy(g->key, key, n);
    g->key_bytes = n;
    g->x = g->label =
        (struct data_extent){.bytes = RECORD_MISSING, .file = g->file};
}

// Ends a group. One in which nothing is wanted is no sample; if a part is
// missing, reading the sample says so.
static enum sl_err tar_group_end(struct tar_group *g, struct sl_error *err)
{
    if (g->x.bytes == RECORD_MISSING && g->label.bytes == RECORD_MISSING)
        return SL_OK;
    return tarset_add(g->set, g->x, g->label, err);
}

// Takes a member with the name's ending `ending` into the group.
static enum sl_err tar_group_take(struct tar_group *g,
                                  const struct tar_member *m,
                                  const char *ending, struct sl_error *err)
{
    const struct tarset *t = g->set;
    bool x =
        t->x != NULL ? strcasecmp(ending, t->x) == 0 : image_ending(ending);
    bool label = strcasecmp(ending, t->label) == 0;
    struct data_extent *to = x ? &g->x : &g->label;

    if (!x && !label) {
        g->set->others++;
        return SL_OK;
    }
    if (to->bytes != RECORD_MISSING)
        return sl_fail(err, SL_EINVAL,
                       "byte %llu: a second member of its group with the same "
                       "part",
                       (unsigned long long)m->offset);
    return tarset_extent(m, x ? RECORD_BYTES : LABEL_BYTES, g->file, to, err);
}

static enum sl_err tar_group_member(struct tar_group *g,
                                    const struct tar_member *m,
                                    struct sl_error *err)
{
    const char *base = strrchr(m->name, '/'), *dot;
    size_t n;
    enum sl_err rc = SL_OK;

    base = base != NULL ? base + 1 : m->name;
    dot = strchr(base, '.');
    if (*base == '.' || g->set->by_folder)
        return *base == '.' ? SL_OK : tarset_take_image(g, m, base, err);
    if (dot == NULL)
        return SL_OK;
    n = (size_t)(dot - m->name);
    if (n != g->key_bytes || memcmp(g->key, m->name, n) != 0) {
        rc = tar_group_end(g, err);
        tar_group_begin(g, m->name, n);
    }
    return rc == SL_OK ? tar_group_take(g, m, dot + 1, err) : rc;
}

static enum sl_err tarset_walk(struct tar_group *g, struct tar *tar,
                               struct sl_error *err)
{
    struct tar_member m = {.bytes = 0};
    bool more = true;
    enum sl_err rc = SL_OK;

    tar_group_begin(g, "", 0);
    for (unsigned i = 0; rc == SL_OK && more; i++) {
        rc = i % 1024 == 0 ? pulse_piece(g->set->pulse, err) : SL_OK;
        if (rc == SL_OK)
            rc = tar_next(tar, &m, &more, err);
        if (rc == SL_OK && more)
            rc = tar_group_member(g, &m, err);
    }
    return rc == SL_OK ? tar_group_end(g, err) : rc;
}

static enum sl_err tarset_scan(void *arg, struct records_scan *s, uint32_t file,
                               struct sl_error *err)
{
    struct tar *tar = sl_calloc(1, sizeof(*tar));
    struct tar_group *g = sl_calloc(1, sizeof(*g));
    enum sl_err rc = tar == NULL || g == NULL ? sl_no_memory(err) : SL_OK;

    if (rc == SL_OK) {
        tar->scan = s;
        g->set = arg;
        g->file = file;
        rc = tarset_walk(g, tar, err);
    }
    sl_free(g);
    sl_free(tar);
    return rc;
}

// ---- opening

static enum sl_err tarset_copy(char **to, const char *from, const char * or,
                               struct sl_error *err)
{
    if (from == NULL)
        from = or ;
    if (from == NULL)
        return SL_OK;
    *to = sl_strdup(from);
    return *to == NULL ? sl_no_memory(err) : SL_OK;
}

static enum sl_err tarset_choose(struct tarset *t, const struct data_source *s,
                                 struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    t->by_folder = strcmp(s->format, "tar") == 0;
    t->numbers = s->number.key != NULL;
    t->decode = s->image.decode;
    t->first = s->label.first;
    if (!t->numbers && t->decode != DATA_DECODE_RAW)
        rc = decoder_shape(&t->data.want, t->shape, err);
    if (rc == SL_OK)
        rc = tarset_copy(&t->x, t->numbers ? s->number.key : s->image.key, NULL,
                         err);
    if (rc == SL_OK)
        rc = tarset_copy(&t->label, s->label.key, "cls", err);
    if (rc == SL_OK)
        rc = tarset_copy(&t->field, s->label.field, "label", err);
    return rc == SL_OK && t->by_folder ? tarset_name_classes(t, s, err) : rc;
}

// An index has no room for the names of folders, so those are read each time.
static enum sl_err tarset_look_through(struct tarset *t, struct sl_error *err)
{
    struct buf recipe = BUF_INIT;
    enum sl_err rc = buf_appendf(&recipe, "webdataset %s/%s",
                                 t->x != NULL ? t->x : "", t->label);

    if (rc == SL_OK)
        rc = records_scan(&t->records, t->by_folder ? NULL : buf_text(&recipe),
                          tarset_scan, t, err);
    else
        sl_no_memory(err);
    buf_release(&recipe);
    return rc;
}

static enum sl_err tarset_index(struct tarset *t, const struct data_source *s,
                                struct sl_error *err)
{
    enum sl_err rc = records_open(&t->records, s, err);

    if (rc == SL_OK)
        rc = tarset_look_through(t, err);
    if (rc == SL_OK && t->by_folder)
        rc = tarset_number_classes(t, err);
    if (rc == SL_OK && t->by_folder)
        rc = data_check_classes(&t->data.want, s->x, t->records.count,
                                t->classes, err);
    if (rc == SL_OK && t->records.count == 0)
        rc = sl_fail(err, SL_EINVAL,
                     "%s: no group has a member that ends in .%s or .%s", s->x,
                     t->x != NULL ? t->x : "jpg", t->label);
    if (rc == SL_OK)
        rc = data_set_samples(&t->data, t->records.count / 2, s, err);
    return rc;
}

static enum sl_err tarset_open(struct tarset *t, const struct data_source *s,
                               struct sl_error *err)
{
    enum sl_err rc =
        s->x == NULL ? sl_fail(err, SL_EINVAL,
                               "data of format %s needs the path x", s->format)
                     : tarset_choose(t, s, err);

    if (rc == SL_OK)
        rc = tarset_index(t, s, err);
    if (rc != SL_OK)
        return rc;
    records_hash(&t->records, &t->data);
    for (uint32_t i = 0; i < t->classes; i++)
        data_hash_name(&t->data, t->class[i].name);
    LOG(INFO, "archives looked through",
        "path=%s files=%zu samples=%llu others=%llu", s->x,
        t->records.paths.count, (unsigned long long)t->data.samples,
        (unsigned long long)t->others);
    return SL_OK;
}

enum sl_err data_open_tar(struct data **out, const struct data_source *s,
                          const struct data_want *want, struct sl_error *err)
{
    struct tarset *t = sl_calloc(1, sizeof(*t));
    enum sl_err rc;

    if (t == NULL)
        return sl_no_memory(err);
    data_init(&t->data, &tarset_ops, s, want);
    decoders_init(&t->decoders, s->depth);
    t->pulse = s->pulse;
    rc = tarset_open(t, s, err);
    if (rc != SL_OK) {
        data_free(&t->data);
        return rc;
    }
    t->data.u8 = !t->numbers && want->u8;
    t->data.shared = true;
    t->data.classes = t->by_folder ? t->classes : 0;
    *out = &t->data;
    return SL_OK;
}
