// SPDX-License-Identifier: Apache-2.0
#include "host/http/http.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/resource.h>

#include "common/base/mem.h"
#include "tests/unit/host/http_kit.h"

#define MANY 64

struct world {
    struct talk talk;
    struct loop *loop;
    struct http *http;
    struct http_stream *streams[MANY];
    unsigned opened, gone, asked;
    char seen[256]; // what the last handler saw
    enum sl_err refused;
};

// ---- what is served

static void hello(void *arg, const struct http_request *q,
                  struct http_answer *a)
{
    ((struct world *)arg)->asked++;
    http_say(a, 200, "hello");
}

static void show(void *arg, const struct http_request *q, struct http_answer *a)
{
    const char *who = http_query(q, "who"), *bare = http_query(q, "bare"),
               *token = http_header(q, "authorization");

    ((struct world *)arg)->asked++;
    a->type = "application/json";
    (void)buf_appendf(&a->body,
                      "rest=%s who=%s bare=%s none=%s token=%s post=%d",
                      http_rest(q), who ? who : "-", bare ? bare : "-",
                      http_query(q, "none") ? "?" : "-", token ? token : "-",
                      http_is_post(q));
    (void)buf_appendf(&a->body, " body=%zu", http_body(q)->len);
}

static void page(void *arg, const struct http_request *q, struct http_answer *a)
{
    static const char html[] = "<html></html>";

    a->type = "text/html";
    a->fixed = html;
    a->fixed_bytes = sizeof(html) - 1;
}

static void gone(void *arg)
{
    ((struct world *)arg)->gone++;
}

static void events(void *arg, const struct http_request *q,
                   struct http_answer *a)
{
    struct world *w = arg;
    const char *last = http_header(q, "Last-Event-ID");

    snprintf(w->seen, sizeof(w->seen), "%s", last != NULL ? last : "-");
    w->refused = http_stream_open(&w->streams[w->opened % MANY], q, a, gone, w);
    if (w->refused == SL_OK)
        w->opened++;
}

static const struct http_header own[] = {
    {"Content-Security-Policy", "default-src 'self'"},
    {"X-Own", "yes"},
    {NULL, NULL},
};

static const struct http_route routes[] = {
    {.path = "/hello", .fn = hello, .any_host = true},
    {.path = "/show/*", .fn = show, .methods = HTTP_GET | HTTP_POST},
    {.path = "/page", .fn = page, .headers = own},
    {.path = "/near", .fn = hello, .near_only = true},
    {.path = "/events", .fn = events},
    {.path = NULL},
};

static void open_world(struct world *w, const struct http_setup *like)
{
    static const char *const hosts[] = {"board.example", NULL};
    struct http_setup setup = *like;

    memset(w, 0, sizeof(*w));
    T_OK(loop_new(&w->loop, t_err()));
    setup.loop = w->loop;
    setup.hosts = hosts;
    if (setup.bind == NULL)
        setup.bind = "127.0.0.1:0";
    T_OK(http_new(&w->http, &setup, t_err()));
    T_OK(http_route(w->http, routes, w));
    w->talk = (struct talk){w->loop, http_address(w->http)};
}

static void close_world(struct world *w)
{
    http_free(w->http);
    loop_free(w->loop);
}

// ---- answers

TEST(http, answers_what_a_route_says)
{
    struct world w;
    const char *text;

    open_world(&w, &(struct http_setup){0});
    text = ask(&w.talk, "GET /hello HTTP/1.1\r\n" END);
    T_HAS(text, "HTTP/1.1 200 OK\r\n");
    T_HAS(text, "Content-Type: text/plain; charset=utf-8\r\n");
    T_HAS(text, "X-Content-Type-Options: nosniff\r\n");
    T_HAS(text, "Content-Security-Policy: default-src 'none'");
    T_HAS(text, "\r\n\r\nhello\n");
    text = ask(&w.talk, "GET /show/a/b?who=x%20y&bare HTTP/1.1\r\n"
                        "Authorization: Bearer T\r\n" END);
    T_HAS(text, "Content-Type: application/json\r\n");
    T_HAS(text, "rest=a/b who=x y bare= none=- token=Bearer T post=0");
    close_world(&w);
}

TEST(http, a_route_may_set_headers_of_its_own)
{
    struct world w;
    const char *text;

    open_world(&w, &(struct http_setup){0});
    text = ask(&w.talk, "GET /page HTTP/1.1\r\n" END);
    T_HAS(text, "X-Own: yes\r\n");
    T_HAS(text, "Content-Security-Policy: default-src 'self'\r\n");
    T_TRUE(strstr(text, "frame-ancestors") == NULL);
    T_HAS(text, "nosniff");
    T_HAS(text, "<html></html>");
    close_world(&w);
}

TEST(http, head_has_no_body)
{
    struct world w;
    const char *text;

    open_world(&w, &(struct http_setup){0});
    text = ask(&w.talk, "HEAD /hello HTTP/1.1\r\n" END);
    T_HAS(text, "HTTP/1.1 200 OK\r\n");
    T_HAS(text, "Content-Length: 6\r\n");
    T_TRUE(strstr(text, "\r\n\r\nhello") == NULL);
    T_EQ(w.asked, 1);
    close_world(&w);
}

TEST(http, takes_a_body)
{
    struct world w;

    open_world(&w, &(struct http_setup){0});
    T_HAS(ask(&w.talk,
              "POST /show/x HTTP/1.1\r\nContent-Length: 5\r\n" END "12345"),
          "post=1 body=5");
    T_HAS(ask(&w.talk,
              "POST /show/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" END
              "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"),
          "post=1 body=7");
    close_world(&w);
}

TEST(http, keeps_a_connection_for_more)
{
    struct world w;
    struct buf in = BUF_INIT;
    int fd;

    open_world(&w, &(struct http_setup){0});
    fd = dial(&w.talk);
    for (int i = 0; i < 3; i++) {
        const char *text = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

        buf_reset(&in);
        put(&w.talk, fd, text, strlen(text));
        T_HAS(get_until(&w.talk, fd, &in, "hello\n"), "200 OK");
    }
    T_EQ(w.asked, 3);
    T_EQ(http_connections(w.http), 1);
    close(fd);
    buf_release(&in);
    close_world(&w);
}

// ---- refusals

struct refusal {
    const char *what, *bytes, *answer;
};

static const struct refusal refusals[] = {
    {"another path", "GET /other HTTP/1.1\r\n" END, "404 Not Found"},
    {"a longer path", "GET /hello/x HTTP/1.1\r\n" END, "404 Not Found"},
    {"a path above", "GET /show/../hello HTTP/1.1\r\n" END, "rest=../hello"},
    {"an absolute one", "GET http://a.b/hello HTTP/1.1\r\n" END, "404 "},
    {"a method of other routes", "POST /hello HTTP/1.1\r\n" END,
     "405 Method Not Allowed"},
    {"PUT", "PUT /show/x HTTP/1.1\r\nContent-Length: 1\r\n" END "x", "405 "},
    {"DELETE", "DELETE /show/x HTTP/1.1\r\n" END, "405 "},
    {"TRACE", "TRACE /hello HTTP/1.1\r\n" END, "405 "},
    {"CONNECT", "CONNECT a.b:1 HTTP/1.1\r\n" END, "405 "},
    {"a strange method", "get /hello HTTP/1.1\r\n" END, "405 "},
    {"a body that is too long",
     "POST /show/x HTTP/1.1\r\nContent-Length: 65537\r\n" END, "413 "},
    {"a body without end",
     "POST /show/x HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n" END,
     "413 "},
    {"a length that is none",
     "POST /show/x HTTP/1.1\r\nContent-Length: many\r\n" END, "400 "},
    {"a name of somebody else's",
     "GET /show/x HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
     "421 "},
    {"the same on any path",
     "GET /no HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
     "421 "},
    {"no name", "GET /show/x HTTP/1.0\r\n\r\n", "421 "},
    {"localhost as a part",
     "GET /show/x HTTP/1.1\r\nHost: localhost.evil.example\r\n"
     "Connection: close\r\n\r\n",
     "421 "},
    {"a port that is none",
     "GET /show/x HTTP/1.1\r\nHost: localhost:x\r\nConnection: close\r\n\r\n",
     "421 "},
    {"two lengths",
     "POST /show/x HTTP/1.1\r\nContent-Length: 1\r\ncontent-length: 2\r\n" END
     "ab",
     "400 "},
    {"one length twice",
     "POST /show/x HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n" END
     "a",
     "400 "},
    {"chunks and a length",
     "POST /show/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
     "Content-Length: 3\r\n" END "0\r\n\r\n",
     "400 "},
    {"another encoding",
     "POST /show/x HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n" END
     "0\r\n\r\n",
     "400 "},
    {"two encodings",
     "POST /show/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
     "Transfer-Encoding: identity\r\n" END "0\r\n\r\n",
     "400 "},
    {"chunks in HTTP/1.0",
     "POST /show/x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n" END "0\r\n\r\n",
     "400 "},
    {"two names", "GET /hello HTTP/1.1\r\nHost: board.example\r\n" END, "400 "},
    {"two tokens",
     "GET /hello HTTP/1.1\r\nAuthorization: Bearer a\r\n"
     "Authorization: Bearer b\r\n" END,
     "400 "},
    {"a blank before the colon",
     "POST /show/x HTTP/1.1\r\nContent-Length : 1\r\n" END "a", "400 "},
    {"a carriage return alone",
     "GET /hello HTTP/1.1\r\nX: a\rContent-Length: 5\r\n" END, "400 "},
    {"a control character", "GET /hello HTTP/1.1\r\nX: a\x1b[2J\r\n" END,
     "400 "},
    {"a header without a name", "GET /hello HTTP/1.1\r\n: a\r\n" END, "400 "},
    {"an end within the path", "GET /hello%00x HTTP/1.1\r\n" END, "400 "},
    {"an end within the query", "GET /show/x?who=a%00b HTTP/1.1\r\n" END,
     "400 "},
    {"a slash that is none", "GET /show%2fx HTTP/1.1\r\n" END, "404 "},
    {"a letter that is none", "GET /hell%6f HTTP/1.1\r\n" END, "404 "},
    {"a slash where any name may be", "GET /show/a%2fb HTTP/1.1\r\n" END,
     "rest=a/b who"},
    {"half an escape", "GET /show/%4 HTTP/1.1\r\n" END, "400 "},
    {"an escape of nothing", "GET /show/%zz HTTP/1.1\r\n" END, "400 "},
    {"a byte that no path has", "GET /show/\x1b HTTP/1.1\r\n" END, "400 "},
    {"a path of high bytes", "GET /show/\xc3\xa9 HTTP/1.1\r\n" END, "400 "},
    {"an escaped one", "GET /show/%C3%A9 HTTP/1.1\r\n" END,
     "rest=\xc3\xa9 who"},
    {"a high byte in a header", "GET /hello HTTP/1.1\r\nX: \xff\r\n" END,
     "200 "},
};

// What follows a request that can be read in two ways may be the rest of it.
TEST(http, ends_a_connection_whose_request_is_not_clear)
{
    static const char bytes[] =
        "POST /show/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
        "Content-Length: 0\r\n\r\nabcd"
        "GET /hello HTTP/1.1\r\n" END;
    struct world w;
    const char *text;

    open_world(&w, &(struct http_setup){0});
    text = ask(&w.talk, bytes);
    T_HAS(text, "400 Bad Request");
    T_HAS(text, "Connection: close\r\n");
    T_TRUE(strstr(text, "200 OK") == NULL);
    T_EQ(w.asked, 0);
    close_world(&w);
}

TEST(http, refuses_with_the_right_status)
{
    struct world w;

    open_world(&w, &(struct http_setup){0});
    for (size_t i = 0; i < SL_COUNT(refusals); i++) {
        const char *text = ask(&w.talk, refusals[i].bytes);

        if (strstr(text, refusals[i].answer) == NULL)
            T_FAIL("%s: not %s but: %s", refusals[i].what, refusals[i].answer,
                   text);
    }
    close_world(&w);
}

TEST(http, knows_its_names)
{
    static const char *const names[] = {
        "localhost", "LOCALHOST:80",  "127.0.0.1:9",       "[::1]:9",
        "10.1.2.3",  "board.example", "Board.Example:8443"};
    struct world w;
    char text[256];

    open_world(&w, &(struct http_setup){0});
    for (size_t i = 0; i < SL_COUNT(names); i++) {
        snprintf(text, sizeof(text),
                 "GET /show/x HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n"
                 "\r\n",
                 names[i]);
        T_HAS(ask(&w.talk, text), "200 OK");
    }
    T_HAS(ask(&w.talk, "GET /hello HTTP/1.1\r\nHost: any.example\r\n"
                       "Connection: close\r\n\r\n"),
          "200 OK");
    close_world(&w);
}

TEST(http, off_loopback_some_routes_are_not_there)
{
    struct world w;

    open_world(&w, &(struct http_setup){.bind = "0.0.0.0:0"});
    T_FALSE(http_is_near(w.http));
    T_HAS(ask(&w.talk, "GET /near HTTP/1.1\r\n" END), "404 Not Found");
    T_HAS(ask(&w.talk, "GET /hello HTTP/1.1\r\n" END), "200 OK");
    close_world(&w);
    open_world(&w, &(struct http_setup){0});
    T_TRUE(http_is_near(w.http));
    T_HAS(ask(&w.talk, "GET /near HTTP/1.1\r\n" END), "200 OK");
    close_world(&w);
}

TEST(http, headers_have_a_limit)
{
    struct buf big = BUF_INIT;
    struct world w;

    open_world(&w, &(struct http_setup){0});
    T_OK(buf_append_str(&big, "GET /hello HTTP/1.1\r\n"));
    while (big.len < 4 * HTTP_HEADERS_MAX)
        T_OK(
            buf_append_str(&big, "X-Filler: 0123456789012345678901234567\r\n"));
    T_OK(buf_append_str(&big, END));
    T_TRUE(strstr(ask(&w.talk, buf_text(&big)), "200 OK") == NULL);
    buf_reset(&big);
    T_OK(buf_append_str(&big, "GET /"));
    while (big.len < 4 * HTTP_HEADERS_MAX)
        T_OK(buf_append_char(&big, 'a'));
    T_OK(buf_append_str(&big, " HTTP/1.1\r\n" END));
    T_TRUE(strstr(ask(&w.talk, buf_text(&big)), "200 OK") == NULL);
    T_EQ(w.asked, 0);
    T_HAS(ask(&w.talk, "GET /hello HTTP/1.1\r\n" END), "200 OK");
    buf_release(&big);
    close_world(&w);
}

TEST(http, a_body_in_chunks_has_the_same_limit)
{
    struct buf big = BUF_INIT;
    struct world w;

    open_world(&w, &(struct http_setup){0});
    T_OK(buf_append_str(&big, "POST /show/x HTTP/1.1\r\n"
                              "Transfer-Encoding: chunked\r\n" END));
    for (int i = 0; i < 65; i++) {
        T_OK(buf_append_str(&big, "400\r\n"));
        memset(buf_extend(&big, 1024), 'x', 1024);
        T_OK(buf_append_str(&big, "\r\n"));
    }
    T_OK(buf_append_str(&big, "0\r\n\r\n"));
    T_HAS(ask(&w.talk, buf_text(&big)), "413 ");
    T_EQ(w.asked, 0);
    buf_release(&big);
    close_world(&w);
}

// Where who is idle for a second is closed: one that is starved for so long
// asks again.
static void is_answered(struct world *w)
{
    uint64_t begun;
    const char *text;

    do {
        begun = now_us();
        text = ask(&w->talk, "GET /hello HTTP/1.1\r\n" END);
    } while (text[0] == '\0' && now_us() - begun > 1000000);
    T_HAS(text, "200 OK");
}

// One of many requests that are not quite right; how many bytes it has.
static size_t spoil(char *bytes, size_t most, int kind)
{
    static const char seed[] = "POST /show/a?b=%41&c HTTP/1.1\r\n"
                               "Content-Length: 3\r\nX: y\r\n" END "abc";
    size_t n = sizeof(seed) - 1;

    memcpy(bytes, seed, n);
    if (kind == 0) { // noise alone
        n = 1 + t_below(most);
        for (size_t k = 0; k < n; k++)
            bytes[k] = (char)t_rand();
        return n;
    }
    for (size_t k = 1 + t_below(8); k > 0; k--)
        bytes[t_below(n)] = (char)t_rand();
    return kind == 1 ? t_below(n) : n; // cut off, or whole
}

// Bytes that a stranger may send: nothing of it ends the server.
TEST(http, outlives_any_bytes)
{
    uint64_t until = now_us() + 2 * LIMIT_US;
    struct world w;
    char bytes[512];

    open_world(&w, &(struct http_setup){.idle_s = 1});
    for (int i = 0; i < 1000; i++) {
        int fd = dial(&w.talk);

        put(&w.talk, fd, bytes, spoil(bytes, sizeof(bytes), i % 4));
        for (int k = 0; k < 3; k++)
            loop_turn(w.loop);
        close(fd);
    }
    while (http_connections(w.http) > 0 && now_us() < until)
        turn(&w.talk, -1);
    T_EQ(http_connections(w.http), 0);
    T_GT(w.asked, 0);
    is_answered(&w);
    close_world(&w);
}

// ---- slow and many

TEST(http, closes_who_is_idle)
{
    struct world w;
    struct buf in = BUF_INIT;
    int fd;

    open_world(&w, &(struct http_setup){.idle_s = 1});
    fd = dial(&w.talk);
    put(&w.talk, fd, "GET /hel", 8);
    get_until(&w.talk, fd, &in, NULL); // comes to its end
    T_EQ(w.asked, 0);
    close(fd);
    buf_release(&in);
    close_world(&w);
}

// A byte now and then keeps a connection from being idle.
TEST(http, closes_who_trickles)
{
    struct world w;
    uint64_t until = now_us() + LIMIT_US;
    char c;
    int fd;

    open_world(&w, &(struct http_setup){.request_s = 1});
    fd = dial(&w.talk);
    put(&w.talk, fd, "GET /hello HTTP/1.1\r\nX: ", 24);
    while (recv(fd, &c, 1, 0) < 0 && errno == EAGAIN && now_us() < until) {
        (void)send(fd, "x", 1, MSG_NOSIGNAL);
        turn(&w.talk, fd);
    }
    T_LT(now_us(), until);
    T_EQ(w.asked, 0);
    close(fd);
    close_world(&w);
}

TEST(http, one_address_has_so_many_connections)
{
    struct world w;
    struct buf in = BUF_INIT;
    int fds[3], more;

    open_world(&w, &(struct http_setup){.per_address = 3});
    for (int i = 0; i < 3; i++) {
        fds[i] = dial(&w.talk);
        put(&w.talk, fds[i], "G", 1);
    }
    while (http_connections(w.http) < 3)
        loop_turn(w.loop);
    more = dial(&w.talk);
    T_STR(get_until(&w.talk, more, &in, NULL), ""); // closed at once
    close(more);
    close(fds[0]);
    while (http_connections(w.http) == 3)
        loop_turn(w.loop);
    T_HAS(ask(&w.talk, "GET /hello HTTP/1.1\r\n" END), "200 OK");
    for (int i = 1; i < 3; i++)
        close(fds[i]);
    close_world(&w);
}

// Whatever becomes of connections, however many: the next request is answered.

enum fate { SILENT, HALF, ANSWERED, RESET, CLOSED, TIMED_OUT, FATES };

#define SLOTS 6

static void suffer(struct world *w, int fd, enum fate fate)
{
    static const char half[] = "GET /hello HTTP/1.1\r\nX: ",
                      whole[] =
                          "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct linger now = {.l_onoff = 1};

    if (fate == HALF || fate == RESET)
        put(&w->talk, fd, half, sizeof(half) - 1);
    if (fate == ANSWERED)
        put(&w->talk, fd, whole, sizeof(whole) - 1);
    if (fate == RESET)
        T_ASSERT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
    if (fate == RESET || fate == CLOSED)
        close(fd);
}

static void crowd(struct world *w, enum fate fate, int many)
{
    int fds[MANY];

    T_ASSERT(many <= MANY);
    for (int i = 0; i < many; i++) {
        fds[i] = dial(&w->talk);
        suffer(w, fds[i], fate);
        if (i % 3 == 0)
            loop_turn(w->loop);
    }
    T_LE(http_connections(w->http), SLOTS);
    is_answered(w);
    if (fate == TIMED_OUT) {
        while (http_connections(w->http) > 0)
            turn(&w->talk, -1);
        is_answered(w);
    }
    for (int i = 0; i < many && fate != RESET && fate != CLOSED; i++)
        close(fds[i]);
    is_answered(w);
}

TEST(http, answers_after_any_number_of_any_fate)
{
    static const int many[] = {SLOTS - 1, SLOTS, SLOTS + 1, 5 * SLOTS};
    static const char *const binds[] = {"127.0.0.1:0", "0.0.0.0:0"};

    for (size_t b = 0; b < SL_COUNT(binds); b++) {
        struct world w;

        open_world(&w, &(struct http_setup){.bind = binds[b],
                                            .connections = SLOTS,
                                            .per_address = 2 * SLOTS,
                                            .idle_s = 1});
        for (enum fate fate = SILENT; fate < FATES; fate++) {
            for (size_t i = fate == TIMED_OUT ? SL_COUNT(many) - 1 : 0;
                 i < SL_COUNT(many); i++)
                crowd(&w, fate, many[i]);
        }
        close_world(&w);
    }
}

// An address of this host that is not loopback, as others have; false: none.
static bool far_address(struct sockaddr_in *out)
{
    struct ifaddrs *all, *at;

    T_ASSERT(getifaddrs(&all) == 0);
    for (at = all; at != NULL; at = at->ifa_next) {
        if (at->ifa_addr != NULL && at->ifa_addr->sa_family == AF_INET &&
            (at->ifa_flags & IFF_UP) && !(at->ifa_flags & IFF_LOOPBACK))
            break;
    }
    if (at != NULL)
        *out = *(const struct sockaddr_in *)at->ifa_addr;
    freeifaddrs(all);
    return at != NULL;
}

static bool is_open(int fd)
{
    char c;

    return recv(fd, &c, 1, 0) < 0 && errno == EAGAIN;
}

TEST(http, others_take_no_slot_from_this_host)
{
    struct world w;
    struct sockaddr_in far;
    int near[2], fds[4 * SLOTS];

    if (!far_address(&far))
        T_SKIP("this host has loopback alone");
    open_world(&w, &(struct http_setup){.bind = "0.0.0.0:0",
                                        .connections = SLOTS,
                                        .per_address = 10 * SLOTS,
                                        .idle_s = 600});
    for (size_t i = 0; i < SL_COUNT(near); i++)
        near[i] = dial(&w.talk);
    while (http_connections(w.http) < SL_COUNT(near))
        loop_turn(w.loop);
    far.sin_port = htons((uint16_t)atoi(strrchr(w.talk.address, ':') + 1));
    for (size_t i = 0; i < SL_COUNT(fds); i++) {
        fds[i] = dial_to(&far);
        loop_turn(w.loop);
    }
    T_HAS(ask(&w.talk, "GET /hello HTTP/1.1\r\n" END), "200 OK");
    for (size_t i = 0; i < SL_COUNT(near); i++)
        T_TRUE(is_open(near[i]));
    for (uint64_t until = now_us() + LIMIT_US; is_open(fds[0]);) {
        T_LT(now_us(), until); // it has waited longest of those
        turn(&w.talk, fds[0]);
    }
    for (size_t i = 0; i < SL_COUNT(near); i++)
        close(near[i]);
    for (size_t i = 0; i < SL_COUNT(fds); i++)
        close(fds[i]);
    close_world(&w);
}

// Descriptors may be gone while somebody stays: it must not wait for that one.
TEST(http, answers_once_there_are_descriptors_again)
{
    struct world w;
    struct rlimit old, few;
    struct buf in = BUF_INIT;
    int kept, fd, next;

    open_world(&w, &(struct http_setup){.idle_s = 600});
    kept = dial(&w.talk);
    put(&w.talk, kept, "G", 1);
    while (http_connections(w.http) < 1)
        loop_turn(w.loop);
    fd = dial(&w.talk);
    T_ASSERT(getrlimit(RLIMIT_NOFILE, &old) == 0);
    next = dup(fd);
    close(next);
    few = (struct rlimit){(rlim_t)next, old.rlim_max};
    T_ASSERT(setrlimit(RLIMIT_NOFILE, &few) == 0);
    put(&w.talk, fd, "GET /hello HTTP/1.1\r\n" END,
        sizeof("GET /hello HTTP/1.1\r\n" END) - 1);
    for (int i = 0; i < 20; i++)
        loop_turn(w.loop);
    T_EQ(http_connections(w.http), 1);
    T_ASSERT(setrlimit(RLIMIT_NOFILE, &old) == 0);
    T_HAS(get_until(&w.talk, fd, &in, NULL), "200 OK");
    close(fd);
    close(kept);
    buf_release(&in);
    close_world(&w);
}

// ---- events

#define EVENTS "GET /events HTTP/1.1\r\nHost: localhost\r\n"

static int view(struct world *w, struct buf *in)
{
    unsigned before = w->opened;
    int fd = dial(&w->talk);

    buf_reset(in);
    put(&w->talk, fd, EVENTS "Last-Event-ID: 41\r\n\r\n",
        sizeof(EVENTS "Last-Event-ID: 41\r\n\r\n") - 1);
    T_HAS(get_until(&w->talk, fd, in, "\r\n\r\n"),
          "Content-Type: text/event-stream\r\n");
    T_EQ(w->opened, before + 1);
    return fd;
}

TEST(http, sends_events)
{
    struct world w;
    struct buf in = BUF_INIT;
    int fd;

    open_world(&w, &(struct http_setup){0});
    fd = view(&w, &in);
    T_STR(w.seen, "41");
    T_OK(http_stream_send(w.streams[0], "42", "step", "{\"n\":1}"));
    get_until(&w.talk, fd, &in, "id: 42\nevent: step\ndata: {\"n\":1}\n\n");
    T_OK(http_stream_send(w.streams[0], NULL, NULL, "a\nb\r\nc"));
    T_HAS(get_until(&w.talk, fd, &in, "data: c"),
          "data: a\ndata: b\ndata: c\n\n");
    T_EQ(http_viewers(w.http), 1);
    http_stream_close(w.streams[0]);
    T_HAS(get_until(&w.talk, fd, &in, NULL), "data: c"); // comes to its end
    T_EQ(w.gone, 0);
    T_EQ(http_viewers(w.http), 0);
    close(fd);
    buf_release(&in);
    close_world(&w);
}

TEST(http, tells_that_a_viewer_has_left)
{
    struct world w;
    struct buf in = BUF_INIT;
    uint64_t until = now_us() + LIMIT_US;

    open_world(&w, &(struct http_setup){0});
    close(view(&w, &in));
    while (w.gone == 0 && now_us() < until) {
        (void)http_stream_send(w.streams[0], NULL, NULL, "are you there");
        turn(&w.talk, -1);
    }
    T_EQ(w.gone, 1);
    T_EQ(http_viewers(w.http), 0);
    buf_release(&in);
    close_world(&w);
}

TEST(http, drops_a_viewer_who_does_not_read)
{
    struct world w;
    struct buf in = BUF_INIT;
    uint64_t until = now_us() + LIMIT_US;
    char big[8192];
    enum sl_err rc = SL_OK;
    size_t sent = 0;
    int slow, quick;

    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    open_world(&w, &(struct http_setup){0});
    slow = view(&w, &in);
    buf_reset(&in);
    quick = view(&w, &in);
    while (rc == SL_OK && now_us() < until) {
        loop_turn(w.loop); // which ends what was dropped
        rc = http_stream_send(w.streams[0], NULL, NULL, big);
        sent += sizeof(big);
    }
    T_EQ(rc, SL_EBUSY);
    T_GT(sent, (size_t)HTTP_QUEUE_MAX);
    T_FAILS(SL_EBUSY, http_stream_send(w.streams[0], NULL, NULL, "x"));
    while (w.gone == 0 && now_us() < until)
        turn(&w.talk, -1);
    T_EQ(w.gone, 1);
    T_OK(http_stream_send(w.streams[1], "1", NULL, "still here"));
    get_until(&w.talk, quick, &in, "still here");
    close(slow);
    close(quick);
    buf_release(&in);
    close_world(&w);
    T_EQ(w.gone, 2); // the end tells the others
}

TEST(http, has_so_many_viewers)
{
    struct world w;
    struct buf in = BUF_INIT;
    int fds[2];

    open_world(&w, &(struct http_setup){.viewers = 2});
    for (int i = 0; i < 2; i++)
        fds[i] = view(&w, &in);
    T_HAS(ask(&w.talk, EVENTS "Connection: close\r\n\r\n"), "503 ");
    T_EQ(w.refused, SL_EBUSY);
    T_HAS(ask(&w.talk, "GET /hello HTTP/1.1\r\n" END), "200 OK");
    for (int i = 0; i < 2; i++)
        close(fds[i]);
    buf_release(&in);
    close_world(&w);
}

// A stream that only a HEAD has asked for has no viewer.
TEST(http, a_stream_without_a_viewer_ends)
{
    struct world w;

    open_world(&w, &(struct http_setup){0});
    T_HAS(ask(&w.talk, "HEAD /events HTTP/1.1\r\n" END), "text/event-stream");
    T_EQ(w.gone, 1);
    T_EQ(http_viewers(w.http), 0);
    close_world(&w);
}

// ---- where it listens

TEST(http, says_why_it_cannot_listen)
{
    static const char *const bad[] = {
        "",       "127.0.0.1",     "127.0.0.1:", "x:y",
        "::1:80", "1.2.3.4:65536", "[::1:80",    "a.b:80",
        ":80",    "1.2.3.4:-1"};
    struct http_setup setup = {.bind = NULL};
    struct http *h;
    struct world w;

    open_world(&w, &(struct http_setup){0});
    setup.loop = w.loop;
    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        struct sl_error err = SL_ERROR_INIT;

        setup.bind = bad[i];
        T_FAILS(SL_EINVAL, http_new(&h, &setup, &err));
        T_HAS(err.text, "not an address");
    }
    setup.bind = http_address(w.http);
    struct sl_error err = SL_ERROR_INIT;
    T_NE(http_new(&h, &setup, &err), SL_OK);
    T_HAS(err.text, "Address already in use");
    close_world(&w);
}

TEST(http, every_allocation_may_fail_at_the_start)
{
    struct http_setup setup = {.bind = "127.0.0.1:0"};
    uint64_t live;
    struct http *h = NULL;

    T_OK(loop_new(&setup.loop, t_err()));
    live = sl_mem_live();
    for (uint64_t n = 1;; n++) {
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = http_new(&h, &setup, NULL);
        if (!sl_mem_failed())
            break;
        T_EQ(rc, SL_ENOMEM);
        loop_turn(setup.loop);
        T_EQ(sl_mem_live(), live);
    }
    http_free(h);
    loop_free(setup.loop);
}
