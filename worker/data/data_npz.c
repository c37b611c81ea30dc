// SPDX-License-Identifier: Apache-2.0
// worker/data/data_npz.c -- numpy's .npz: a zip file of .npy members.
//
// A stored member stays in the file (or is read into memory, if it is small);
// a deflated one is inflated, once. The CRC-32 of either is verified, so that
// a damaged sample is an error and not noise in the training.
#include "worker/data/data_array.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "common/base/mem.h"
#include "worker/data/data_inflate.h"
#include "worker/data/data_zip.h"

#define CHUNK ((size_t)1 << 20)

static enum sl_err wrong_crc(const struct zip_member *m, struct sl_error *err)
{
    return sl_fail(err, SL_ECORRUPT,
                   "the member at byte %llu has another CRC than its "
                   "directory says",
                   (unsigned long long)m->offset);
}

static enum sl_err check_stored(struct fs_file *file,
                                const struct zip_member *m, struct pulse *pulse,
                                struct sl_error *err)
{
    uint8_t *chunk = sl_malloc(CHUNK);
    uint64_t done = 0;
    uLong crc = crc32(0, NULL, 0);
    enum sl_err rc = SL_OK;

    if (chunk == NULL)
        return sl_no_memory(err);
    while (rc == SL_OK && done < m->bytes) {
        uint64_t left = m->bytes - done;
        size_t want = left < CHUNK ? (size_t)left : CHUNK, got = 0;

        rc = fs_pread(file, m->offset + done, chunk, want, &got, err);
        if (rc == SL_OK && got < want)
            rc = sl_fail(err, SL_ECORRUPT, "ends at byte %llu",
                         (unsigned long long)(m->offset + done + got));
        crc = crc32(crc, chunk, (uInt)got);
        done += got;
        if (rc == SL_OK)
            rc = pulse_piece(pulse, err);
    }
    sl_free(chunk);
    if (rc == SL_OK && (uint32_t)crc != m->crc)
        rc = wrong_crc(m, err);
    return rc;
}

static enum sl_err inflate_member(struct array *out, const char *path,
                                  const struct inflate_source *packed,
                                  const struct zip_member *m,
                                  struct sl_error *err)
{
    struct inflater *from = NULL;
    enum sl_err rc = inflater_new(&from, packed, err);

    if (rc == SL_OK)
        rc = array_npy_inflated(out, path, from, m->bytes, err);
    if (rc == SL_OK && inflater_crc(from) != m->crc) {
        rc = wrong_crc(m, err);
        array_release(out);
    }
    inflater_free(from);
    return rc;
}

static enum sl_err deflated(struct array *out, const char *path,
                            struct fs_file *file, const struct zip_member *m,
                            struct pulse *pulse, struct sl_error *err)
{
    const struct inflate_source packed = {
        .file = file,
        .offset = m->offset,
        .bytes = m->packed_bytes,
        .form = INFLATE_RAW,
        .pulse = pulse,
    };
    struct array a = {.type = ARRAY_U8};
    enum sl_err rc = inflate_bounds(m->bytes, m->packed_bytes, err);

    if (rc == SL_OK)
        rc = inflate_member(&a, path, &packed, m, err);
    a.version = fs_version(file);
    fs_close(file);
    if (rc != SL_OK)
        return sl_prefix(err, rc, "%s", path);
    *out = a;
    return SL_OK;
}

// Sets *none to whether the file was read and has no such member.
static enum sl_err npz_open(struct array *out, const struct roots *roots,
                            const char *path, const char *member, bool *none,
                            struct pulse *pulse, struct sl_error *err)
{
    char name[256];
    struct zip_member m;
    struct fs_file *file = NULL;
    enum sl_err rc;

    *none = false;
    if (snprintf(name, sizeof(name), "%s.npy", member) >= (int)sizeof(name))
        return sl_fail(err, SL_EINVAL, "%s: the member's name is too long",
                       path);
    rc = roots_file(roots, &file, path, err);
    if (rc != SL_OK)
        return rc;
    rc = zip_find(&m, file, name, none, err);
    if (rc == SL_OK && !m.deflated)
        rc = check_stored(file, &m, pulse, err);
    if (rc != SL_OK) {
        fs_close(file);
        return sl_prefix(err, rc, "%s", path);
    }
    if (m.deflated)
        return deflated(out, path, file, &m, pulse, err);
    return array_npy_in_file(out, path, file, m.offset, m.bytes, pulse, err);
}

enum sl_err array_open_npz(struct array *out, const struct roots *roots,
                           const char *path, const char *member,
                           struct pulse *pulse, struct sl_error *err)
{
    bool none;

    return npz_open(out, roots, path, member, &none, pulse, err);
}

enum sl_err array_open_npz_any(struct array *out, const struct roots *roots,
                               const char *path, const char *member,
                               struct pulse *pulse, struct sl_error *err)
{
    bool none;
    enum sl_err rc = npz_open(out, roots, path, member, &none, pulse, err);

    return none ? SL_OK : rc;
}
