// SPDX-License-Identifier: Apache-2.0
// Which file system a store is of, and which keys are taken. No service is
// asked, but for a child that answers: tests/system/store_test.py does that.
#include "host/store/store.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "host/store/credentials_inner.h"
#include "host/store/s3.h"
#include "tests/harness/t.h"

static struct sl_error err;

static void nothing_set(void)
{
    static const char *const names[] = {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_ROLE_ARN",
        "AWS_STS_REGIONAL_ENDPOINTS",
        "AWS_ENDPOINT_URL_STS"};

    for (size_t i = 0; i < SL_COUNT(names); i++)
        unsetenv(names[i]);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    setenv("HOME", t_tmpdir(), 1);
    err = (struct sl_error)SL_ERROR_INIT;
}

TEST(store, a_folder_is_one)
{
    struct fs *fs = NULL;

    T_OK(store_fs(&fs, "/var/lib/x", NULL, t_err()));
    T_PTR(fs, fs_posix());
    T_OK(store_fs(&fs, "s3", NULL, t_err()));
    T_PTR(fs, fs_posix());
    T_FALSE(store_is_s3("/s3://x"));
    T_TRUE(store_is_s3("s3://x"));
}

TEST(store, names_that_are_none)
{
    static const char *const rows[] = {
        "",          "gs://bucket/x", "http://x/",    "S3://bucket",
        "s3://",     "s3:///x",       "s3://ab",      "s3://Bucket/x",
        "s3://a_b/", "s3://-ab/x",    "s3://ab-/x",   "s3://a..b/x",
        "s3://a b/", "s3://abc/../x", "s3://abc/./x", "s3://abc/x/..",
        "s3://ab\n", "s3://abc/x\ny", "s3://abc@d/x", "s3://abc:80/x",
        "s3://abc%", "s3://abcé/x"};
    struct fs *fs = NULL;

    nothing_set();
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        err.text[0] = '\0';
        T_FAILS(SL_EINVAL, store_fs(&fs, rows[i], NULL, &err));
        T_TRUE(err.text[0] != '\0');
        T_PTR(fs, NULL);
    }
}

TEST(store, keys_have_a_length)
{
    char path[2048] = "s3://bucket/";
    struct s3_name name;
    size_t begins = strlen(path);

    memset(path + begins, 'k', S3_KEY);
    path[begins + S3_KEY] = '\0';
    T_FAILS(SL_EINVAL, s3_name_of(&name, path, &err));
    path[begins + 1] = '/';
    T_FAILS(SL_EINVAL, s3_name_of(&name, path, &err));
    path[begins + S3_KEY - 1] = '\0';
    T_OK(s3_name_of(&name, path, t_err()));
    T_EQ(strlen(name.key), 1024);
    path[begins + 1] = 'k';
    T_OK(s3_name_of(&name, path, t_err()));
    T_EQ(strlen(name.key), 1024);
    T_OK(s3_name_of(&name, "s3://bucket//a///b/", t_err()));
    T_STR(name.bucket, "bucket");
    T_STR(name.key, "a/b");
    T_OK(s3_name_of(&name, "s3://bucket", t_err()));
    T_STR(name.key, "");
}

// What is no name of S3 is refused before a byte behind its end is read.
TEST(store, names_of_s3_begin_with_its_scheme)
{
    static const char *const rows[] = {
        "", "s3", "s3:/", "bucket/key", "S3://abc/", "/x/s3://abc"};
    struct s3_name name;

    for (size_t i = 0; i < SL_COUNT(rows); i++)
        T_FAILS(SL_EINVAL, s3_name_of(&name, rows[i], &err));
    T_OK(s3_name_of(&name, "s3://abc", t_err()));
    T_FAILS(SL_EINVAL, s3_file_name_of(&name, "s3://abc//", &err));
    T_OK(s3_file_name_of(&name, "s3://abc//x", t_err()));
}

// Each is refused before keys are looked for, of which there are none here.
TEST(store, requests_that_cannot_be_are_not_sent)
{
    struct s3_upload upload = {.name = {"bucket", "key", false}, .id = "id"};
    struct s3_name name = {"bucket", "key", false};
    struct fs *fs = NULL;
    struct fs_file *file = NULL;
    uint8_t byte;
    size_t got = 7;

    nothing_set();
    if (!web_known())
        T_SKIP("built without libcurl");
    T_OK(store_fs(&fs, "s3://bucket/a", NULL, t_err()));
    upload.s = s3_of(fs);
    T_FAILS(SL_ERANGE, s3_upload_part(&upload, 0, "x", 1, &err));
    T_FAILS(SL_ERANGE, s3_upload_part(&upload, 10001, "x", 1, &err));
    T_FAILS(SL_EAUTH, s3_upload_part(&upload, 1, "x", 1, &err));
    T_FAILS(SL_EINVAL,
            s3_get(s3_of(fs), &name, NULL, 0, &byte, 0, &got, NULL, &err));
    T_EQ(got, 7); // as it was
    T_OK(fs_open(fs, &file, "s3://bucket/a", FS_WRITE, t_err()));
    T_FAILS(SL_EINVAL, fs_commit(file, "s3://bucket", &err));
    T_FAILS(SL_EINVAL, fs_unlink(fs, "s3://bucket/", &err));
}

// Answers `count` requests with a body of one byte, as S3 answers for a part,
// each on a connection of its own, and ends the process.
static void answer_parts(int listener, int count)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nETag: \"e\"\r\n"
                                 "Content-Length: 0\r\n"
                                 "Connection: close\r\n\r\n";

    alarm(60);
    for (; count > 0; count--) {
        int fd = accept(listener, NULL, NULL);
        char text[8192];
        ssize_t n = 1;
        size_t len = 0;
        const char *end = NULL;

        while (n > 0 && (end == NULL || end + 4 == text + len)) {
            n = read(fd, text + len, sizeof(text) - len);
            len += n > 0 ? (size_t)n : 0;
            end = memmem(text, len, "\r\n\r\n", 4);
        }
        if (n <= 0 || write(fd, answer, sizeof(answer) - 1) < 0)
            _exit(1);
        close(fd);
    }
    _exit(0);
}

// As in a file that is published again after that has failed.
TEST(store, a_part_that_is_sent_again_takes_no_more_memory)
{
    struct s3_upload upload = {.name = {"bucket", "key", false}, .id = "id"};
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), status = 1;
    struct store_setup setup = {.region = "here"};
    socklen_t size = sizeof(at);
    struct fs *fs = NULL;
    char endpoint[64];
    uint64_t live;
    pid_t pid;

    nothing_set();
    if (!web_known())
        T_SKIP("built without libcurl");
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
    setenv("no_proxy", "*", 1);
    T_ASSERT(bind(listener, (struct sockaddr *)&at, size) == 0);
    T_ASSERT(listen(listener, 8) == 0);
    T_ASSERT(getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    pid = fork();
    if (pid == 0)
        answer_parts(listener, 2);
    snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d",
             ntohs(at.sin_port));
    setup.endpoint = endpoint;
    T_OK(store_fs(&fs, "s3://bucket/a", &setup, t_err()));
    upload.s = s3_of(fs);
    T_OK(s3_upload_part(&upload, 1, "x", 1, t_err()));
    live = sl_mem_live();
    T_OK(s3_upload_part(&upload, 1, "x", 1, t_err()));
    T_EQ(sl_mem_live(), live);
    T_EQ(upload.count, 1);
    T_STR(upload.etag[0], "\"e\"");
    T_EQ(waitpid(pid, &status, 0), pid);
    T_EQ(status, 0);
    upload.id = NULL; // nobody is there to end it
    s3_upload_end(&upload);
    close(listener);
    nothing_set();
}

// A file that is being written can be neither read nor mapped: S3 has no bytes
// of it before it is published.
TEST(store, a_file_that_is_written_cannot_be_mapped)
{
    struct fs_map map = {NULL, 7, NULL};
    struct fs *s3 = NULL;
    struct fs_file *file = NULL;
    uint8_t byte;
    size_t got;

    nothing_set();
    if (!web_known())
        T_SKIP("built without libcurl");
    T_OK(store_fs(&s3, "s3://bucket/a", NULL, t_err()));
    T_OK(fs_open(s3, &file, "s3://bucket/a", FS_WRITE, t_err()));
    T_FAILS(SL_ENOTSUP, fs_pread(file, 0, &byte, 1, &got, &err));
    T_FAILS(SL_ENOTSUP, fs_map_file(file, &map, &err));
    T_EQ(map.bytes, 7); // as it was
    fs_close(file);
}

TEST(store, the_same_for_the_same_setup)
{
    const struct store_setup near = {.endpoint = "http://127.0.0.1:9"};
    const struct store_setup wrong[] = {{.endpoint = "ftp://x"},
                                        {.endpoint = "https://"},
                                        {.endpoint = "https://id:key@host"},
                                        {.endpoint = "https://host/?x"},
                                        {.region = "no/region"}};
    struct fs *a = NULL, *b = NULL;

    nothing_set();
    if (!web_known()) { // built without libcurl
        T_FAILS(SL_ENOTSUP, store_fs(&a, "s3://bucket/a", NULL, &err));
        T_HAS(err.text, "libcurl");
        return;
    }
    T_OK(store_fs(&a, "s3://bucket/a", NULL, t_err()));
    T_OK(store_fs(&b, "s3://another/b", NULL, t_err()));
    T_PTR(a, b);
    T_STR(s3_of(a)->host, "s3.us-east-1.amazonaws.com");
    T_FALSE(s3_of(a)->by_path);
    T_OK(store_fs(&b, "s3://bucket/a", &near, t_err()));
    T_TRUE(a != b);
    T_STR(s3_of(b)->host, "127.0.0.1:9");
    T_TRUE(s3_of(b)->by_path && !s3_of(b)->tls);
    setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9", 1);
    T_OK(store_fs(&a, "s3://bucket/a", NULL, t_err()));
    T_PTR(a, b);
    setenv("AWS_ENDPOINT_URL_S3", "https://minio/base/", 1);
    setenv("AWS_DEFAULT_REGION", "eu-west-1", 1);
    T_OK(store_fs(&a, "s3://bucket/a", NULL, t_err()));
    T_STR(s3_of(a)->base, "/base");
    T_STR(s3_of(a)->region, "eu-west-1");
    nothing_set();
    for (size_t i = 0; i < SL_COUNT(wrong); i++)
        T_FAILS(SL_EINVAL, store_fs(&a, "s3://bucket/a", &wrong[i], &err));
}

// ---- keys

static void has(struct credentials *c, const char *id, const char *token)
{
    struct credential key;

    T_OK(credentials_get(c, &key, t_err()));
    T_STR(key.id, id);
    T_TRUE(token == NULL ? key.token == NULL : key.token != NULL);
    if (token != NULL)
        T_STR(key.token, token);
    credential_release(&key);
}

static void write_keys(const char *path, const char *text)
{
    T_OK(fs_write_durable(fs_posix(), path, text, strlen(text), t_err()));
}

TEST(store, keys_come_from_the_first_place_that_has_any)
{
    struct credentials *c = NULL;
    struct credential key;

    nothing_set();
    T_OK(credentials_new(&c, NULL, t_err()));
    T_FAILS(SL_EAUTH, credentials_get(c, &key, &err));
    T_HAS(err.text, "AWS_ACCESS_KEY_ID");
    T_OK(fs_mkdirs(fs_posix(), t_path(".aws"), t_err()));
    write_keys(t_path(".aws/credentials"), "[default]\naws_access_key_id=HOME\n"
                                           "aws_secret_access_key=s\n");
    has(c, "HOME", NULL);
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
    setenv("AWS_SESSION_TOKEN", "t", 1);
    has(c, "HOME", NULL); // which are good for a while
    credentials_refused(c);
    has(c, "ENV", "t");
    credentials_free(c);
    write_keys(t_path("own"), "[default]\naws_access_key_id=OWN\n"
                              "aws_secret_access_key=s\n");
    T_OK(credentials_new(&c, t_path("own"), t_err()));
    has(c, "OWN", NULL);
    credentials_free(c);
    T_OK(credentials_new(&c, t_path("none"), t_err()));
    T_FAILS(SL_EAUTH, credentials_get(c, &key, &err));
    T_HAS(err.text, t_path("none"));
    credentials_free(c);
}

// The token goes to whoever is asked: what looks like this host has to be it.
TEST(store, a_container_is_asked_on_this_host_alone)
{
    static const struct {
        const char *url;
        enum sl_err rc; // SL_EUNAVAIL: it was asked, and nobody is there
    } rows[] = {
        {"http://127.0.0.1:1/x", SL_EUNAVAIL},
        {"HTTP://LocalHost:1", SL_EUNAVAIL},
        {"https://localhost:1/x?a=@b", SL_EUNAVAIL},
        {"http://192.0.2.1/x", SL_EAUTH},
        {"http://127.0.0.1.example/x", SL_EAUTH},
        {"http://127.0.0.1:80@localhost:1/x", SL_EAUTH},
        {"http://localhost:a@127.0.0.1:1/x", SL_EAUTH},
        {"http://localhost@127.0.0.1:1/x", SL_EAUTH},
        {"http://127.0.0.1\\@localhost:1/x", SL_EAUTH},
        {"http://127.0.0.1:1x/", SL_EAUTH},
        {"http://127.0.0.1:1 @localhost/", SL_EAUTH},
        {"http://127.0.0.1%2f@localhost:1/", SL_EAUTH},
        {"https://user:word@localhost:1/x", SL_EAUTH},
        {"https:///x", SL_EAUTH},
        {"file:///etc/passwd", SL_EAUTH},
        {"127.0.0.1:1", SL_EAUTH},
    };
    char large[1200] = "";
    struct credential key;

    if (!web_known())
        T_SKIP("built without libcurl");
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct credentials *c = NULL;

        nothing_set();
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", rows[i].url, 1);
        T_OK(credentials_new(&c, NULL, t_err()));
        T_FAILS(rows[i].rc, credentials_get(c, &key, &err));
        T_TRUE(strstr(err.text, "word") == NULL);
        credentials_free(c);
    }
    nothing_set();
    // What is too long is not cut and asked for.
    memset(large + snprintf(large, sizeof(large), "http://127.0.0.1:1/"), 'x',
           1100);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", large, 1);
    T_FAILS(SL_EAUTH, credential_from_container(&key, &err));
    T_HAS(err.text, "more than");
    nothing_set();
    setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", ":80@127.0.0.1:1/x", 1);
    T_FAILS(SL_EAUTH, credential_from_container(&key, &err));
    // A token that is not there is no reason to ask the machine's role.
    nothing_set();
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/x", 1);
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", t_path("gone"), 1);
    T_FAILS(SL_EAUTH, credential_from_container(&key, &err));
    T_HAS(err.text, "TOKEN_FILE");
    nothing_set();
}

// Which of the sources is asked shows in the error of the one that fails.
TEST(store, a_web_identity_is_asked_before_files_and_after_keys)
{
    struct credentials *c = NULL;
    struct credential key;

    nothing_set();
    if (!web_known())
        T_SKIP("built without libcurl");
    T_OK(fs_mkdirs(fs_posix(), t_path(".aws"), t_err()));
    write_keys(t_path(".aws/credentials"), "[default]\naws_access_key_id=HOME\n"
                                           "aws_secret_access_key=s\n");
    setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
    T_OK(credentials_new(&c, NULL, t_err()));
    has(c, "HOME", NULL); // a role without a token is none
    unsetenv("AWS_ROLE_ARN");
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", t_path("token"), 1);
    credentials_refused(c);
    T_FAILS(SL_EAUTH, credentials_get(c, &key, &err));
    T_HAS(err.text, "not AWS_ROLE_ARN");
    setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
    T_FAILS(SL_EAUTH, credentials_get(c, &key, &err));
    T_HAS(err.text, t_path("token"));
    write_keys(t_path("token"), " \n");
    T_FAILS(SL_EAUTH, credentials_get(c, &key, &err));
    T_HAS(err.text, "is empty");
    write_keys(t_path("token"), "a.web.identity\n");
    setenv("AWS_ENDPOINT_URL_STS", "http://192.0.2.1/", 1);
    T_FAILS(SL_EAUTH, credentials_get(c, &key, &err));
    T_HAS(err.text, "nor on this host");
    setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1/", 1);
    T_FAILS(SL_EUNAVAIL, credentials_get(c, &key, &err));
    T_HAS(err.text, "STS at http://127.0.0.1:1/");
    T_HAS(err.text, "arn:aws:iam::1:role/r");
    T_TRUE(strstr(err.text, "a.web.identity") == NULL);
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
    has(c, "ENV", NULL);
    credentials_free(c);
    nothing_set();
}

TEST(store, sts_is_asked_in_the_region_of_the_environment)
{
    static const struct {
        const char *name, *value, *url; // url NULL: SL_EAUTH
    } rows[] = {
        {"AWS_ROLE_ARN", "x", "https://sts.amazonaws.com"},
        {"AWS_DEFAULT_REGION", "eu-west-1",
         "https://sts.eu-west-1.amazonaws.com"},
        {"AWS_REGION", "cn-north-1", "https://sts.cn-north-1.amazonaws.com.cn"},
        {"AWS_STS_REGIONAL_ENDPOINTS", "legacy",
         "https://sts.cn-north-1.amazonaws.com.cn"},
        {"AWS_REGION", "eu-central-1", "https://sts.amazonaws.com"},
        {"AWS_STS_REGIONAL_ENDPOINTS", "regional",
         "https://sts.eu-central-1.amazonaws.com"},
        {"AWS_REGION", "x.example/", NULL},
        {"AWS_ENDPOINT_URL", "https://minio/", "https://minio/"},
        {"AWS_ENDPOINT_URL_STS", "http://localhost:1/sts",
         "http://localhost:1/sts"},
        {"AWS_ENDPOINT_URL_STS", "http://minio", NULL},
        {"AWS_ENDPOINT_URL_STS", "https://a:word@minio", NULL},
    };

    nothing_set();
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct buf url = BUF_INIT;
        enum sl_err rc;

        setenv(rows[i].name, rows[i].value, 1);
        rc = credential_sts_url(&url, &err);
        T_EQ(rc, rows[i].url != NULL ? SL_OK : SL_EAUTH);
        if (rc == SL_OK)
            T_STR(buf_text(&url), rows[i].url);
        else
            T_TRUE(strstr(err.text, "word") == NULL);
        buf_release(&url);
    }
    nothing_set();
}

#define STS(keys)                                                              \
    "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult>"     \
    "<Credentials>" keys "</Credentials></AssumeRoleWithWebIdentityResult>"    \
    "</AssumeRoleWithWebIdentityResponse>"

TEST(store, keys_of_sts)
{
    static const char good[] =
        STS("<AccessKeyId>X</AccessKeyId><SecretAccessKey>y</SecretAccessKey>"
            "<SessionToken>t</SessionToken>"
            "<Expiration>2013-05-24T00:00:00.123Z</Expiration>");
    static const char *const bad[] = {
        "",
        "{}",
        "<a/>",
        "<AssumeRole",
        STS(""),
        STS("<AccessKeyId>X</AccessKeyId><SecretAccessKey>y</SecretAccessKey>"
            "<SessionToken>t</SessionToken>"),
        STS("<AccessKeyId>X</AccessKeyId><SecretAccessKey>y</SecretAccessKey>"
            "<SessionToken>t</SessionToken><Expiration>soon</Expiration>"),
        STS("<AccessKeyId>X</AccessKeyId><SecretAccessKey>y</SecretAccessKey>"
            "<Expiration>2013-05-24T00:00:00Z</Expiration>"),
        STS("<AccessKeyId>X</AccessKeyId><SecretAccessKey>y z</SecretAccessKey>"
            "<SessionToken>t</SessionToken>"
            "<Expiration>2013-05-24T00:00:00Z</Expiration>")};
    struct credential key = {NULL, NULL, NULL, 0};

    T_OK(credential_from_sts(&key, good, strlen(good), "there", t_err()));
    T_STR(key.id, "X");
    T_STR(key.secret, "y");
    T_STR(key.token, "t");
    T_EQ(key.expires_s, 1369353600);
    credential_release(&key);
    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        T_FAILS(SL_EAUTH, credential_from_sts(&key, bad[i], strlen(bad[i]),
                                              "there", &err));
        T_PTR(key.id, NULL);
    }
}

// With the n-th allocation missing, of the request and of its answer, for each
// n until none is missing.
TEST(store, each_allocation_for_sts_may_fail)
{
    static const char text[] =
        STS("<AccessKeyId>X</AccessKeyId><SecretAccessKey>y</SecretAccessKey>"
            "<SessionToken>t</SessionToken>"
            "<Expiration>2013-05-24T00:00:00Z</Expiration>");
    struct credential key = {NULL, NULL, NULL, 0};
    enum sl_err rc = SL_ENOMEM;
    uint64_t n;

    nothing_set();
    write_keys(t_path("token"), "a.web.identity");
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", t_path("token"), 1);
    setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
    setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1/", 1);
    for (n = 1; rc == SL_ENOMEM; n++) {
        sl_mem_fail_at(n);
        rc = credential_from_sts(&key, text, strlen(text), "there", &err);
        T_TRUE(rc == (sl_mem_failed() ? SL_ENOMEM : SL_OK));
        T_TRUE(rc == SL_OK || key.id == NULL);
    }
    T_TRUE(n > 8);
    credential_release(&key);
    for (n = 1;; n++) {
        sl_mem_fail_at(n);
        rc = credential_from_web_identity(&key, &err);
        T_TRUE(rc != SL_OK && rc != SL_ENOENT && key.id == NULL);
        if (!sl_mem_failed())
            break;
    }
    T_TRUE(n > 5);
    nothing_set();
}

TEST(store, a_file_of_keys)
{
    static const struct {
        const char *text, *profile, *id, *words;
    } rows[] = {
        {"[a]\naws_access_key_id = X\naws_secret_access_key\t=\ty\r\n", "a",
         "X", NULL},
        {" [ a ] ; c\n#x\n;y\naws_access_key_id=X\naws_secret_access_key=y=z/+",
         "a", "X", NULL},
        {"[profile a]\naws_access_key_id=X\naws_secret_access_key=y\n"
         "[b]\naws_access_key_id=Z\n",
         "a", "X", NULL},
        {"aws_access_key_id=X\naws_secret_access_key=y\n", "default", NULL,
         "no profile 'default'"},
        {"[a]\naws_access_key_id=X\n[b]\naws_secret_access_key=y\n", "a", NULL,
         "has no aws_access_key_id"},
        {"[a]\naws_access_key_id=X Y\naws_secret_access_key=y\n", "a", NULL,
         "holds a blank"},
        {"[a\naws_access_key_id=X\n", "a", NULL, "no profile"},
        {"", "a", NULL, "no profile"},
    };
    struct credential key;

    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        enum sl_err rc =
            credential_parse(&key, "file", rows[i].text, rows[i].profile, &err);

        T_TRUE((rc == SL_OK) == (rows[i].id != NULL));
        if (rc == SL_OK) {
            T_STR(key.id, rows[i].id);
            credential_release(&key);
        } else {
            T_HAS(err.text, rows[i].words);
        }
    }
}

TEST(store, keys_of_a_role)
{
    static const char good[] =
        "{\"Code\":\"Success\",\"AccessKeyId\":\"X\",\"SecretAccessKey\":\"y\","
        "\"Token\":\"t\",\"Expiration\":\"2013-05-24T00:00:00Z\"}";
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "null",
        "{\"Code\":\"Failed\"}",
        "{\"AccessKeyId\":\"X\"}",
        "{\"AccessKeyId\":1,\"SecretAccessKey\":\"y\"}",
        "{\"AccessKeyId\":\"X\",\"SecretAccessKey\":\"y\\r\\nz\"}",
        "{\"AccessKeyId\":\"X\",\"SecretAccessKey\":\"y\",\"Expiration\":\"?"
        "\"}"};
    struct credential key;

    T_OK(credential_from_json(&key, good, strlen(good), "there", t_err()));
    T_STR(key.secret, "y");
    T_STR(key.token, "t");
    T_EQ(key.expires_s, 1369353600);
    credential_release(&key);
    for (size_t i = 0; i < SL_COUNT(bad); i++)
        T_FAILS(SL_EAUTH, credential_from_json(&key, bad[i], strlen(bad[i]),
                                               "there", &err));
}
