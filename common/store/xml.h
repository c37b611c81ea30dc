// SPDX-License-Identifier: Apache-2.0
// common/store/xml.h -- the few answers of S3 that are XML.
//
// A walk over elements, without recursion and in one pass; of a document that
// is well formed in what it nests. Namespaces' prefixes are dropped, attributes
// are passed over; document types, and entities beyond the five of XML and
// numbers, are refused. Whoever answers may send anything: what is not
// understood is an error, never read further.
//
// Threads  any.
// Memory   path and value are borrowed for the call of fn.
// Errors   SL_ECORRUPT says at which byte; what fn returns.
#ifndef COMMON_STORE_XML_H
#define COMMON_STORE_XML_H

#include <stddef.h>

#include "common/base/status.h"

#define XML_DEPTH 8
#define XML_NAME 64 // bytes of a name

// Called at the end of each element, "Result/Contents/Key", with the text in it
// (behind the last element in it). It holds no 0.
typedef enum sl_err (*xml_fn)(void *arg, const char *path, const char *value);

enum sl_err xml_walk(const char *text, size_t n, xml_fn fn, void *arg,
                     struct sl_error *err);

#endif
