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

#include "common/base/buf.h"
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
                                const struct zip_member *m,
                                struct sl_error *err)
{
    uint8_t *chunk = sl_malloc(CHUNK);
    uint64_t done = 0;
    uLong crc = crc32(0, NULL, 0);
    enum sl_err rc = SL_OK;

    if (chunk == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory");
    while (rc == SL_OK && done < m->bytes) {
        uint64_t left = m->bytes - done;
        size_t want = left < CHUNK ? (size_t)left : CHUNK, got = 0;

        rc = fs_pread(file, m->offset + done, chunk, want, &got, err);
        if (rc == SL_OK && got < want)
            rc = sl_fail(err, SL_ECORRUPT, "ends at byte %llu",
                         (unsigned long long)(m->offset + done + got));
        crc = crc32(crc, chunk, (uInt)got);
        done += got;
    }
    sl_free(chunk);
    if (rc == SL_OK && (uint32_t)crc != m->crc)
        rc = wrong_crc(m, err);
    return rc;
}

static enum sl_err inflate_member(uint8_t *to, struct fs_file *file,
                                  const struct zip_member *m,
                                  struct sl_error *err)
{
    uint8_t *packed = sl_malloc((size_t)m->packed_bytes);
    size_t got = 0;
    enum sl_err rc;

    if (packed == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory");
    rc = fs_pread(file, m->offset, packed, (size_t)m->packed_bytes, &got, err);
    if (rc == SL_OK && got < m->packed_bytes)
        rc = sl_fail(err, SL_ECORRUPT, "ends at byte %llu",
                     (unsigned long long)(m->offset + got));
    if (rc == SL_OK)
        rc = inflate_exact(to, (size_t)m->bytes, packed, got, INFLATE_RAW, err);
    sl_free(packed);
    if (rc == SL_OK &&
        crc32_z(crc32(0, NULL, 0), to, (size_t)m->bytes) != (uLong)m->crc)
        rc = wrong_crc(m, err);
    return rc;
}

static enum sl_err deflated(struct array *out, const char *path,
                            struct fs_file *file, const struct zip_member *m,
                            struct sl_error *err)
{
    uint8_t *bytes = NULL;
    enum sl_err rc = inflate_bounds(m->bytes, m->packed_bytes, err);

    if (rc == SL_OK) {
        bytes = sl_malloc((size_t)m->bytes);
        rc = bytes == NULL ? sl_fail(err, SL_ENOMEM, "no memory for its member")
                           : inflate_member(bytes, file, m, err);
    }
    if (rc == SL_OK)
        rc = array_npy_in_memory(out, path, bytes, m->bytes, err);
    else
        sl_prefix(err, rc, "%s", path);
    sl_free(bytes);
    fs_close(file);
    return rc;
}

enum sl_err array_open_npz(struct array *out, const struct roots *roots,
                           const char *path, const char *member,
                           struct sl_error *err)
{
    char name[256];
    struct zip_member m;
    struct fs_file *file = NULL;
    enum sl_err rc;

    if (snprintf(name, sizeof(name), "%s.npy", member) >= (int)sizeof(name))
        return sl_fail(err, SL_EINVAL, "%s: the member's name is too long",
                       path);
    rc = roots_file(roots, &file, path, err);
    if (rc != SL_OK)
        return rc;
    rc = zip_find(&m, file, name, err);
    if (rc == SL_OK && !m.deflated)
        rc = check_stored(file, &m, err);
    if (rc != SL_OK) {
        fs_close(file);
        return sl_prefix(err, rc, "%s", path);
    }
    if (m.deflated)
        return deflated(out, path, file, &m, err);
    return array_npy_in_file(out, path, file, m.offset, m.bytes, err);
}
