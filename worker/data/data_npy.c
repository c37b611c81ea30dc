// SPDX-License-Identifier: Apache-2.0
// worker/data/data_npy.c -- numpy's .npy, versions 1 to 3.
//
// "\x93NUMPY", version, length, and a header that looks like a Python dict:
// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }. It is read by
// the small grammar below and never evaluated; pickled objects, structured and
// string types are refused. Fortran order is turned round when it is loaded.
#include "worker/data/data_array.h"

#include <string.h>

#include "common/base/mem.h"
#include "worker/data/data_inflate.h"

#define NPY_HEAD_MAX 65536
#define NPY_FIRST 12 // magic, version, length (2 or 4 bytes)
#define NPY_FRONT ((size_t)NPY_FIRST + NPY_HEAD_MAX)
#define TURNED (1 << 20) // elements between two looks whether to go on

struct text {
    const char *at, *end;
};

struct npy_head {
    char descr[16];
    bool fortran, have_descr, have_order, have_shape;
};

static void blanks(struct text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\t'))
        t->at++;
}

static bool eat(struct text *t, const char *word)
{
    size_t n = strlen(word);

    blanks(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0)
        return false;
    t->at += n;
    return true;
}

// Reads 'abc' or "abc", without escapes, shorter than `size`.
static bool npy_parse_quoted(struct text *t, char *out, size_t size)
{
    char quote;
    size_t n = 0;

    blanks(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
        return false;
    quote = *t->at++;
    while (t->at < t->end && *t->at != quote && n + 1 < size)
        out[n++] = *t->at++;
    out[n] = '\0';
    if (t->at == t->end || *t->at != quote)
        return false;
    t->at++;
    return true;
}

static bool npy_parse_number(struct text *t, uint64_t *out)
{
    uint64_t value = 0;
    bool any = false;

    blanks(t);
    while (t->at < t->end && *t->at >= '0' && *t->at <= '9') {
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(*t->at - '0'), &value))
            return false;
        any = true;
        t->at++;
    }
    *out = value;
    return any;
}

// Reads a shape: (), (3,), (3, 4), (3, 4,)
static bool npy_parse_shape(struct text *t, struct array *a)
{
    if (!eat(t, "("))
        return false;
    a->nd = 0;
    while (!eat(t, ")")) {
        if (a->nd == ARRAY_DIMS || !npy_parse_number(t, &a->dim[a->nd]))
            return false;
        a->nd++;
        if (eat(t, ","))
            continue;
        return eat(t, ")");
    }
    return true;
}

static bool npy_parse_entry(struct text *t, struct array *a, struct npy_head *h)
{
    char key[16];

    if (!npy_parse_quoted(t, key, sizeof(key)) || !eat(t, ":"))
        return false;
    if (strcmp(key, "descr") == 0 && !h->have_descr) {
        h->have_descr = true;
        return npy_parse_quoted(t, h->descr, sizeof(h->descr));
    }
    if (strcmp(key, "fortran_order") == 0 && !h->have_order) {
        h->have_order = true;
        h->fortran = eat(t, "True");
        return h->fortran || eat(t, "False");
    }
    if (strcmp(key, "shape") == 0 && !h->have_shape) {
        h->have_shape = true;
        return npy_parse_shape(t, a);
    }
    return false;
}

static bool npy_parse_dict(struct text *t, struct array *a, struct npy_head *h)
{
    if (!eat(t, "{"))
        return false;
    while (!eat(t, "}")) {
        if (!npy_parse_entry(t, a, h))
            return false;
        if (eat(t, ","))
            continue;
        if (!eat(t, "}"))
            return false;
        break;
    }
    blanks(t);
    if (t->at < t->end && *t->at == '\n')
        t->at++;
    return t->at == t->end && h->have_descr && h->have_order && h->have_shape;
}

static enum sl_err npy_parse_type(struct array *a, const char *descr,
                                  struct sl_error *err)
{
    static const struct {
        const char *name;
        enum array_type type;
    } types[] = {
        {"b1", ARRAY_U8},
        {"u1", ARRAY_U8},
        {"i1", ARRAY_I8},
        {"u2", ARRAY_U16},
        {"i2", ARRAY_I16},
        {"u4", ARRAY_U32},
        {"i4", ARRAY_I32},
        {"u8", ARRAY_U64},
        {"i8", ARRAY_I64},
        {"f2", ARRAY_F16},
        {"f4", ARRAY_F32},
        {"f8", ARRAY_F64},
        // numpy knows no bfloat16: ml_dtypes saves it as two bytes of no kind.
        {"V2", ARRAY_BF16},
        {"bfloat16", ARRAY_BF16},
    };
    const char *name = descr;
    bool big = *descr == '>';

    if (*name != '\0' && strchr("<>|=", *name) != NULL)
        name++;
    for (size_t i = 0; i < SL_COUNT(types); i++) {
        if (strcmp(types[i].name, name) != 0)
            continue;
        a->type = types[i].type;
        a->swap = big && array_type_bytes(a->type) > 1;
        return SL_OK;
    }
    return sl_fail(err, SL_ENOTSUP,
                   "sluice does not read its numpy type (descr); save it as a "
                   "plain number type such as float32 or int64");
}

// Computes where the header's text lies, [*from, *to); it must be in the first
// n bytes of p.
static enum sl_err front_bytes(const uint8_t *p, size_t n, size_t *from,
                               size_t *to, struct sl_error *err)
{
    size_t length;

    if (n >= 2 && p[0] == 0x80 && p[1] <= 5)
        return sl_fail(err, SL_ENOTSUP,
                       "is a pickle, which may run code when it is read; save "
                       "arrays with numpy.save(..., allow_pickle=False)");
    if (n < NPY_FIRST || memcmp(p, "\x93NUMPY", 6) != 0)
        return sl_fail(err, SL_ECORRUPT,
                       "no npy file: byte 0 should begin \\x93NUMPY");
    if (p[6] < 1 || p[6] > 3 || p[7] != 0)
        return sl_fail(err, SL_ENOTSUP,
                       "byte 6: an npy version that is not read; 1.0 to 3.0 "
                       "are");
    *from = p[6] == 1 ? 10 : 12;
    length = p[8] | (size_t)p[9] << 8;
    if (p[6] > 1)
        length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (length > NPY_HEAD_MAX)
        return sl_fail(err, SL_ERANGE, "byte 8: a header of over %d bytes",
                       NPY_HEAD_MAX);
    *to = *from + length;
    if (*to > n)
        return sl_fail(err, SL_ECORRUPT, "ends at byte %zu, within its header",
                       n);
    return SL_OK;
}

static enum sl_err npy_parse_head(struct array *a, const uint8_t *p, size_t n,
                                  uint64_t whole, bool *fortran,
                                  size_t *head_bytes, struct sl_error *err)
{
    struct npy_head h = {.fortran = false};
    struct text t;
    size_t from = 0;
    enum sl_err rc = front_bytes(p, n, &from, head_bytes, err);

    if (rc != SL_OK)
        return rc;
    t.at = (const char *)p + from;
    t.end = (const char *)p + *head_bytes;
    if (!npy_parse_dict(&t, a, &h))
        return sl_fail(err, SL_ECORRUPT,
                       "byte %zu: expected a dict of descr, fortran_order "
                       "and shape with at most %d dimensions",
                       (size_t)(t.at - (const char *)p), ARRAY_DIMS);
    rc = npy_parse_type(a, h.descr, err);
    if (rc == SL_OK)
        rc = array_measure(a, err);
    if (rc != SL_OK)
        return rc;
    if (*head_bytes + a->bytes != whole)
        return sl_fail(err, SL_ECORRUPT,
                       "is %llu bytes long; its header promises %s",
                       (unsigned long long)whole,
                       *head_bytes + a->bytes > whole ? "more" : "fewer");
    *fortran = h.fortran && a->nd > 1;
    return SL_OK;
}

// Turns column-major into row-major: walks the target in order and keeps the
// index.
static enum sl_err npy_copy_row_major(uint8_t *to, const uint8_t *from,
                                      const struct array *a,
                                      struct pulse *pulse, struct sl_error *err)
{
    size_t size = array_type_bytes(a->type);
    uint64_t index[ARRAY_DIMS] = {0}, stride[ARRAY_DIMS];
    uint64_t at = 0, step = 1, count = a->bytes / size;

    for (unsigned i = 0; i < a->nd; i++) {
        stride[i] = step;
        step *= a->dim[i];
    }
    for (uint64_t n = 0; n < count; n++) {
        if (n % TURNED == 0 && pulse_piece(pulse, err) != SL_OK)
            return SL_ECANCELED;
        memcpy(to + n * size, from + at * size, size);
        for (unsigned i = a->nd; i-- > 0;) {
            at += stride[i];
            if (++index[i] < a->dim[i])
                break;
            at -= stride[i] * a->dim[i];
            index[i] = 0;
        }
    }
    return SL_OK;
}

static enum sl_err npy_to_row_major(struct array *a, struct pulse *pulse,
                                    struct sl_error *err)
{
    uint8_t *rows;
    enum sl_err rc;

    if (a->memory == NULL)
        return sl_fail(err, SL_ENOTSUP,
                       "is in Fortran order and over %llu bytes; save it with "
                       "numpy.ascontiguousarray",
                       (unsigned long long)ARRAY_MEMORY_BYTES);
    rows = array_memory(a->bytes);
    if (rows == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory to turn it to row order");
    rc = npy_copy_row_major(rows, a->memory, a, pulse, err);
    sl_free(a->memory);
    a->memory = rows;
    return rc;
}

static enum sl_err from_file(struct array *a, struct fs_file *file,
                             uint64_t offset, uint64_t bytes,
                             struct pulse *pulse, struct sl_error *err)
{
    size_t want = NPY_FRONT, got = 0, head_bytes = 0;
    uint8_t *front = sl_malloc(want);
    bool fortran = false;
    enum sl_err rc = SL_ENOMEM;

    if (front != NULL) {
        want = want < bytes ? want : (size_t)bytes;
        rc = fs_pread(file, offset, front, want, &got, err);
        if (rc == SL_OK)
            rc = npy_parse_head(a, front, got, bytes, &fortran, &head_bytes,
                                err);
        sl_free(front);
    }
    if (rc != SL_OK) {
        fs_close(file);
        return rc;
    }
    a->stay = a->stay && !fortran;
    rc = array_take_file(a, file, offset + head_bytes, pulse, err);
    if (rc == SL_OK && fortran)
        rc = npy_to_row_major(a, pulse, err);
    return rc;
}

enum sl_err array_npy_in_file(struct array *out, const char *path,
                              struct fs_file *file, uint64_t offset,
                              uint64_t bytes, struct pulse *pulse,
                              struct sl_error *err)
{
    struct array a = {.type = ARRAY_U8, .stay = out->stay};
    enum sl_err rc = SL_OK;

    a.path = sl_strdup(path);
    rc = a.path == NULL ? SL_ENOMEM : fs_size(file, &a.file_bytes, err);
    a.version = fs_version(file);
    if (rc != SL_OK)
        fs_close(file);
    else
        rc = from_file(&a, file, offset, bytes, pulse, err);
    if (rc != SL_OK) {
        sl_prefix(err, rc, "%s", path);
        array_release(&a);
        return rc;
    }
    *out = a;
    return SL_OK;
}

// Reads the header first, so that memory is made for what it promises and no
// more.
static enum sl_err from_inflater(struct array *a, struct inflater *from,
                                 uint64_t bytes, bool *fortran,
                                 struct sl_error *err)
{
    size_t want = bytes < NPY_FRONT ? (size_t)bytes : NPY_FRONT;
    size_t got = 0, head_bytes = 0;
    uint8_t *front = sl_malloc(want);
    enum sl_err rc;

    if (front == NULL)
        return sl_no_memory(err);
    rc = inflater_read(from, front, want, &got, err);
    if (rc == SL_OK)
        rc = npy_parse_head(a, front, got, bytes, fortran, &head_bytes, err);
    if (rc == SL_OK)
        rc = inflater_rows(from, a, front + head_bytes, got - head_bytes, err);
    sl_free(front);
    return rc;
}

enum sl_err array_npy_inflated(struct array *out, const char *path,
                               struct inflater *from, uint64_t bytes,
                               struct sl_error *err)
{
    struct array a = {.type = ARRAY_U8, .file_bytes = bytes};
    bool fortran = false;
    enum sl_err rc;

    a.path = sl_strdup(path);
    rc = a.path == NULL ? sl_no_memory(err)
                        : from_inflater(&a, from, bytes, &fortran, err);
    if (rc == SL_OK && fortran)
        rc = npy_to_row_major(&a, inflater_pulse(from), err);
    if (rc != SL_OK) {
        array_release(&a);
        return rc;
    }
    *out = a;
    return SL_OK;
}

enum sl_err array_open_npy(struct array *out, const struct roots *roots,
                           const char *path, struct pulse *pulse,
                           struct sl_error *err)
{
    struct fs_file *file = NULL;
    uint64_t bytes = 0;
    enum sl_err rc = roots_file(roots, &file, path, err);

    if (rc != SL_OK)
        return rc;
    rc = fs_size(file, &bytes, err);
    if (rc != SL_OK) {
        fs_close(file);
        return rc;
    }
    return array_npy_in_file(out, path, file, 0, bytes, pulse, err);
}

enum sl_err array_npy_bytes(struct array *a, const uint8_t *bytes, size_t n,
                            size_t *head, struct sl_error *err)
{
    bool fortran = false;
    enum sl_err rc = npy_parse_head(a, bytes, n, n, &fortran, head, err);

    return rc == SL_OK && fortran ? sl_fail(err, SL_ENOTSUP,
                                            "is in Fortran order; save it with "
                                            "numpy.ascontiguousarray")
                                  : rc;
}
