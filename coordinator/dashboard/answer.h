// SPDX-License-Identifier: Apache-2.0
// coordinator/dashboard/answer.h -- questions with numbers, answers in JSON.
//
// Threads  the loop.
// Memory   what is answered with is taken over.
// Errors   without memory: 503.
#ifndef COORDINATOR_DASHBOARD_ANSWER_H
#define COORDINATOR_DASHBOARD_ANSWER_H

#include <jansson.h>

#include "host/http/http.h"
#include "proto/pbjson.h"

// Sets *out to the number of ?name= in the request's query, or to `otherwise`
// if the request has none, and returns true. Returns false if it is no number
// or above `most`: then *a is an answer with 400, and *out is undefined.
bool answer_number(uint64_t *out, const struct http_request *q,
                   struct http_answer *a, const char *name, uint64_t otherwise,
                   uint64_t most);

// Appends a message, which stays the caller's, as JSON of one line. SL_ENOMEM,
// after which a part of it may be there.
enum sl_err answer_text(struct buf *out, const ProtobufCMessage *message);

// Appends `one` to the JSON array *list and takes it over. Without memory,
// which may also be why `one` or *list is NULL, the list is freed and *list is
// NULL from then on: an answer has all of it or is 503.
void answer_add(json_t **list, json_t *one);

// Sets (*object)[key], of a JSON object, to `one`, which it takes over. Without
// memory, which may also be why `one` or *object is NULL, *object is freed and
// NULL from then on, as in answer_add.
void answer_set(json_t **object, const char *key, json_t *one);

// Sets the answer's body, empty so far, to the members of `object` after
// "schema_version", and its type; frees the caller's reference to `object`.
// NULL, which stands for no memory, becomes 503. Leaves a->status as it is
// otherwise.
void answer_json(struct http_answer *a, json_t *object);

// Answers with a message, which is not NULL, as JSON, as answer_json does, and
// frees it.
void answer_message(struct http_answer *a, ProtobufCMessage *message);

// Answers with {"error": why}, which is copied (bytes that are not UTF-8 are
// replaced), and the HTTP status of rc: 404 for SL_ENOENT, 400 for SL_EINVAL
// and SL_ERANGE, 401 for SL_EAUTH, 403 for SL_EDENIED, 409 for SL_ESTATE and
// SL_ESTALE, 503 for SL_EUNAVAIL and SL_ENOMEM, 500 for a code without one.
void answer_error(struct http_answer *a, enum sl_err rc, const char *why);

#endif
