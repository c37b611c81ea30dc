// SPDX-License-Identifier: Apache-2.0
// coordinator/dashboard/actions.h -- what an admin may do from the page.
//
//   GET  /api/v1/actions          the actions; with a token also the caller
//   POST /api/v1/actions/ACTION   drain, undrain, pause, resume, stop
//
// The body is the request of the same call of the Jobs service as JSON, the
// answer its reply. The caller is the bearer of the token (tls_bearer.h) in
// `Authorization` and nowhere else: no cookie, so a page of another site has
// nothing that a browser would send for it. What such a page asks to be done is
// refused for its Origin as well, before the action or the token is looked at.
//
// The table of roles (proto/access.c) decides as for a call, and here an admin
// alone may act: a page shows all tenants' jobs.
//
// Threads  the loop.
// Memory   nothing is kept.
// Errors   404: there are no actions, or not this one, or what the request
//          names is not there; 401: there is no token, or it does not hold;
//          403: it is not an admin's, or another page asks; 415, 400: the body;
//          409: not possible in this state; 503: there is no coordinator or no
//          memory; 500: others of the call. Each with words.
#ifndef COORDINATOR_DASHBOARD_ACTIONS_H
#define COORDINATOR_DASHBOARD_ACTIONS_H

#include "host/http/http.h"

// Answers with the list of actions, which is empty if the dashboard only reads.
// If there are actions and the request has a token, also with the caller's role
// and name, and when the token ends; then 401 and 403 may come. A handler of
// http: `arg` is the struct dashboard.
void actions_list(void *arg, const struct http_request *q,
                  struct http_answer *a);

// Does the action that the path names, by the same code as a call of the API
// (api_ask), and answers with its reply; waits for the disk of the audit log. A
// token that is missing, does not hold or is not an admin's is noted there
// (api_refused); other requests that make no call are not. Undrain sets
// `undrain` of the body; drain takes it as it stands. A handler of http: `arg`
// is the struct dashboard.
void actions_do(void *arg, const struct http_request *q, struct http_answer *a);

#endif
