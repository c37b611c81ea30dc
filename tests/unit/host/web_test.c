// SPDX-License-Identifier: Apache-2.0
// Calls of a web service that never answers.
#include "host/web/web.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/harness/t.h"

// Calls a port that takes connections and says nothing, and returns the answer,
// for web_answer_release.
static struct web_answer call_silence(bool (*leave)(void *arg), void *arg)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct web_ask ask = {.method = "GET",
                          .connect_ms = 60000,
                          .timeout_ms = 60000,
                          .most = 1000,
                          .leave = leave,
                          .arg = arg};
    socklen_t size = sizeof(at);
    struct web *w = web_new();
    struct web_answer answer;
    char url[64];

    T_ASSERT(w != NULL);
    T_ASSERT(bind(listener, (struct sockaddr *)&at, size) == 0);
    T_ASSERT(listen(listener, 8) == 0);
    T_ASSERT(getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", ntohs(at.sin_port));
    ask.url = url;
    web_call(w, &ask, &answer);
    web_free(w);
    close(listener);
    return answer;
}

static bool leave_now(void *arg)
{
    return arg == NULL;
}

TEST(web, a_call_that_is_left_says_so)
{
    struct web_answer a;

    if (!web_known())
        T_SKIP("built without libcurl");
    a = call_silence(leave_now, NULL);
    T_EQ(a.status, 0);
    T_STR(a.why, "left");
    T_FALSE(a.final);
    web_answer_release(&a);
}

// From here on this process may wait for no descriptor.
static bool forbid_waits(void *limit)
{
    struct rlimit none = *(const struct rlimit *)limit;

    none.rlim_cur = 0;
    T_ASSERT(setrlimit(RLIMIT_NOFILE, &none) == 0);
    return false;
}

TEST(web, a_wait_that_fails_is_not_told_as_left)
{
    struct rlimit limit;
    struct web_answer a;

    if (!web_known())
        T_SKIP("built without libcurl");
    T_ASSERT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    a = call_silence(forbid_waits, &limit);
    T_ASSERT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    T_EQ(a.status, 0);
    T_HAS(a.why, "poll");
    T_FALSE(a.final);
    web_answer_release(&a);
}
