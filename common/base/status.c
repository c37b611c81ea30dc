// SPDX-License-Identifier: Apache-2.0
// common/base/status.c -- the names and sentences of errors, and their texts.
#include "common/base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

// gRPC's numbers, so that this file needs none of its headers.
enum grpc_number {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_ABORTED = 10,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_DATA_LOSS = 15,
    GRPC_UNAUTHENTICATED = 16,
};

struct err_row {
    const char *name, *text;
    int grpc;
};

static const struct err_row rows[SL_ERR_COUNT] = {
#define SL_ERR_ROW(code, grpc, text)                                           \
    [SL_##code] = {"SL_" #code, text, GRPC_##grpc},
    SL_ERR_MAP(SL_ERR_ROW)
#undef SL_ERR_ROW
};

static bool err_code_is_known(enum sl_err code)
{
    return (unsigned)code < SL_ERR_COUNT;
}

static void err_set_text(struct sl_error *err, enum sl_err code,
                         const char *fmt, va_list ap)
{
    err->code = code;
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
}

enum sl_err sl_fail(struct sl_error *err, enum sl_err code, const char *fmt,
                    ...)
{
    va_list ap;

    if (err == NULL)
        return code;
    va_start(ap, fmt);
    err_set_text(err, code, fmt, ap);
    va_end(ap);
    return code;
}

enum sl_err sl_no_memory(struct sl_error *err)
{
    return sl_fail(err, SL_ENOMEM, "out of memory");
}

enum sl_err sl_prefix(struct sl_error *err, enum sl_err code, const char *fmt,
                      ...)
{
    char old[SL_ERROR_TEXT];
    size_t used;
    va_list ap;

    if (err == NULL)
        return code;
    // A callee may return a code and have no words for it.
    snprintf(old, sizeof(old), "%s",
             err->text[0] != '\0' ? err->text : sl_err_text(code));
    va_start(ap, fmt);
    err_set_text(err, code, fmt, ap);
    va_end(ap);
    used = strlen(err->text);
    snprintf(err->text + used, sizeof(err->text) - used, ": %s", old);
    return code;
}

const char *sl_err_name(enum sl_err code)
{
    return err_code_is_known(code) ? rows[code].name : "SL_UNKNOWN";
}

const char *sl_err_text(enum sl_err code)
{
    return err_code_is_known(code) ? rows[code].text
                                   : "an error without a name here";
}

int sl_err_to_grpc(enum sl_err code)
{
    return err_code_is_known(code) ? rows[code].grpc : GRPC_UNKNOWN;
}

enum sl_err sl_err_from_grpc(int grpc_status)
{
    // Several codes share a status; these are the nearest where the first of
    // the table would mislead. UNKNOWN and what gRPC adds later is a bug on
    // the other side.
    static const enum sl_err nearest[] = {
        [GRPC_OK] = SL_OK,
        [GRPC_CANCELLED] = SL_ECANCELED,
        [GRPC_UNKNOWN] = SL_EINTERNAL,
        [GRPC_INVALID_ARGUMENT] = SL_EINVAL,
        [GRPC_DEADLINE_EXCEEDED] = SL_ETIMEDOUT,
        [GRPC_NOT_FOUND] = SL_ENOENT,
        [GRPC_ALREADY_EXISTS] = SL_EEXIST,
        [GRPC_PERMISSION_DENIED] = SL_EDENIED,
        [GRPC_RESOURCE_EXHAUSTED] = SL_EBUSY,
        [GRPC_FAILED_PRECONDITION] = SL_ESTATE,
        [GRPC_ABORTED] = SL_ELOST,
        [GRPC_OUT_OF_RANGE] = SL_ERANGE,
        [GRPC_UNIMPLEMENTED] = SL_ENOTSUP,
        [GRPC_INTERNAL] = SL_EINTERNAL,
        [GRPC_UNAVAILABLE] = SL_EUNAVAIL,
        [GRPC_DATA_LOSS] = SL_ECORRUPT,
        [GRPC_UNAUTHENTICATED] = SL_EAUTH,
    };

    if (grpc_status < 0 || (size_t)grpc_status >= SL_COUNT(nearest))
        return SL_EINTERNAL;
    return nearest[grpc_status];
}

bool sl_err_transient(enum sl_err code)
{
    return code == SL_EUNAVAIL || code == SL_ETIMEDOUT || code == SL_EBUSY ||
           code == SL_ELOST;
}

enum sl_err sl_err_from_errno(int errnum)
{
    switch (errnum) {
    case 0:
        return SL_OK;
    case ENOENT:
    case ENOTDIR:
        return SL_ENOENT;
    case EEXIST:
    case ENOTEMPTY:
        return SL_EEXIST;
    case ENOMEM:
        return SL_ENOMEM;
    case EACCES:
    case EPERM:
    case EROFS:
        return SL_EDENIED;
    case EAGAIN:
    case EBUSY:
    case EMFILE:
    case ENFILE:
        return SL_EBUSY;
    case EINVAL:
    case ENAMETOOLONG:
    case EISDIR:
        return SL_EINVAL;
    case ETIMEDOUT:
        return SL_ETIMEDOUT;
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EPIPE:
        return SL_EUNAVAIL;
    case ENOSYS:
    case EOPNOTSUPP:
        return SL_ENOTSUP;
    case ECANCELED:
        return SL_ECANCELED;
    default:
        return SL_EIO;
    }
}
