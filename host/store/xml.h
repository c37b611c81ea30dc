// SPDX-License-Identifier: Apache-2.0
// host/store/xml.h -- the few answers of S3 that are XML.
//
// expat reads the document in one pass, as UTF-8 whatever it says of itself.
// Prefixes of namespaces are dropped, attributes are passed over; document
// types are refused, so there are no entities but the five of XML and numbers.
// The peer may send any bytes: the first that are not well-formed are an error.
//
// Threads  any.
// Memory   path and value are borrowed for the call of fn.
// Errors   SL_ECORRUPT says at which byte; SL_ENOMEM; what fn returns, without
//          a text. `err` may be NULL.
#ifndef HOST_STORE_XML_H
#define HOST_STORE_XML_H

#include <stddef.h>

#include "common/base/status.h"

#define XML_DEPTH 8
#define XML_NAME 64 // bytes of a name

// Called at the end of each element: `path` is "Result/Contents/Key", `value`
// the text behind its last inner element, without a 0 in it.
typedef enum sl_err (*xml_fn)(void *arg, const char *path, const char *value);

// Calls fn(arg, ...) for each element of the `n` bytes `text` that has ended,
// up to the first fault of the text or the first error of `fn`, and returns
// that; SL_OK at the end of the document.
enum sl_err xml_walk(const char *text, size_t n, xml_fn fn, void *arg,
                     struct sl_error *err);

#endif
