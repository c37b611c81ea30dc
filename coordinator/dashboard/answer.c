// SPDX-License-Identifier: Apache-2.0
// coordinator/dashboard/answer.c -- see answer.h.
#include "coordinator/dashboard/answer.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/json.h"
#include "proto/wire.h"

bool answer_number(uint64_t *out, const struct http_request *q,
                   struct http_answer *a, const char *name, uint64_t otherwise,
                   uint64_t most)
{
    const char *text = http_query(q, name);
    struct sl_error err = SL_ERROR_INIT;
    char *end;

    *out = otherwise;
    if (text == NULL)
        return true;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 &&
        *out <= most)
        return true;
    sl_fail(&err, SL_EINVAL, "?%s= must be a number from 0 to %llu", name,
            (unsigned long long)most);
    answer_error(a, err.code, err.text);
    return false;
}

void answer_add(json_t **list, json_t *one)
{
    if (json_array_append_new(*list, one) == 0)
        return;
    json_decref(*list);
    *list = NULL;
}

void answer_set(json_t **object, const char *key, json_t *one)
{
    if (json_object_set_new(*object, key, one) == 0)
        return;
    json_decref(*object);
    *object = NULL;
}

void answer_json(struct http_answer *a, json_t *object)
{
    json_t *all = json_object();
    enum sl_err rc = SL_ENOMEM;

    if (all != NULL && object != NULL &&
        json_object_set_new(all, "schema_version",
                            json_integer(PBJSON_SCHEMA_VERSION)) == 0 &&
        json_object_update(all, object) == 0)
        rc = sl_json_write(&a->body, all, false);
    json_decref(all);
    json_decref(object);
    if (rc != SL_OK) {
        http_say(a, 503, "out of memory");
        return;
    }
    a->type = "application/json";
}

enum sl_err answer_text(struct buf *out, const ProtobufCMessage *message)
{
    json_t *object = NULL;
    enum sl_err rc = pbjson_write(&object, message);

    if (rc == SL_OK)
        rc = sl_json_write(out, object, false);
    json_decref(object);
    return rc;
}

void answer_message(struct http_answer *a, ProtobufCMessage *message)
{
    json_t *object = NULL;

    (void)pbjson_write(&object, message); // without memory the object is NULL
    wire_free(message);
    answer_json(a, object);
}

void answer_error(struct http_answer *a, enum sl_err rc, const char *why)
{
    a->status = rc == SL_ENOENT                        ? 404
                : rc == SL_EINVAL || rc == SL_ERANGE   ? 400
                : rc == SL_EAUTH                       ? 401
                : rc == SL_EDENIED                     ? 403
                : rc == SL_ESTATE || rc == SL_ESTALE   ? 409
                : rc == SL_EUNAVAIL || rc == SL_ENOMEM ? 503
                                                       : 500;
    answer_json(a, json_pack("{s:o}", "error", pbjson_string(why)));
}
