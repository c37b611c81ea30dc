// SPDX-License-Identifier: Apache-2.0
// Rows as numbers: of bytes at every length, and of files too large to be
// loaded, which are read row by row.
#include "tests/harness/roots.h"
#include "tests/harness/t.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "worker/data/data.h"
#include "worker/data/data_array.h"

#define LONGEST 100

TEST(rows, bytes_become_the_same_floats_at_every_length)
{
    struct array a = {.type = ARRAY_U8};
    uint8_t raw[LONGEST];
    float out[LONGEST + 1];

    for (size_t i = 0; i < LONGEST; i++)
        raw[i] = (uint8_t)(i * 37);
    for (size_t n = 0; n <= LONGEST; n++) {
        out[n] = -1;
        array_floats(&a, raw, n, 1.0f / 255, -0.5f, out);
        for (size_t i = 0; i < n; i++) {
            volatile float product = (float)raw[i] * (1.0f / 255);

            T_TRUE(out[i] == product + -0.5f);
        }
        T_TRUE(out[n] == -1);
    }
}

#define COLS 1024
#define ROWS (ARRAY_MEMORY_BYTES / (COLS * sizeof(float)) + 3)

// A file of holes, but for the last row: 0, 1, 2, ..
static const char *large_npy(void)
{
    static char path[600];
    char head[128];
    float row[COLS];
    int fd, n;

    for (int i = 0; i < COLS; i++)
        row[i] = (float)i;
    memset(head, ' ', sizeof(head));
    n = snprintf(head + 10, sizeof(head) - 10,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%llu, "
                 "%d), }",
                 (unsigned long long)ROWS, COLS);
    head[10 + n] = ' ';
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    head[sizeof(head) - 1] = '\n';
    snprintf(path, sizeof(path), "%s/large.npy", t_tmpdir());
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    T_TRUE(fd >= 0);
    T_EQ(write(fd, head, sizeof(head)), (ssize_t)sizeof(head));
    T_EQ(pwrite(fd, row, sizeof(row),
                (off_t)(sizeof(head) + (ROWS - 1) * sizeof(row))),
         (ssize_t)sizeof(row));
    close(fd);
    return path;
}

static const char *labels_npy(void)
{
    static char path[600];
    static uint8_t bytes[128 + ROWS];
    FILE *f;
    int n;

    memset(bytes, ' ', 128);
    n = snprintf((char *)bytes + 10, 100,
                 "{'descr': '|u1', 'fortran_order': False, 'shape': (%llu,), }",
                 (unsigned long long)ROWS);
    bytes[10 + n] = ' ';
    memcpy(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
    bytes[127] = '\n';
    memset(bytes + 128, 0, ROWS);
    bytes[128 + ROWS - 1] = 7;
    snprintf(path, sizeof(path), "%s/labels.npy", t_tmpdir());
    f = fopen(path, "wb");
    T_TRUE(f != NULL);
    T_EQ(fwrite(bytes, 1, sizeof(bytes), f), sizeof(bytes));
    T_EQ(fclose(f), 0);
    return path;
}

TEST(rows, of_a_large_file_are_read_when_they_are_wanted)
{
    struct data_source s = {
        .format = "npy", .scale = 0.5, .offset = 3, .roots = t_roots()};
    struct data_want w = {
        .rank = 1, .dim = {COLS}, .outputs = 10, .labels = DATA_INDEX};
    struct sl_error err = SL_ERROR_INIT;
    float x[COLS];
    struct data *d;
    int32_t y = -1;

    s.x = large_npy();
    s.y = labels_npy();
    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(data_samples(d), ROWS);
    T_LT(data_memory(d), ROWS * 16); // the labels alone
    for (int again = 0; again < 2; again++) {
        T_OK(data_read(d, 0, x, &y, t_err()));
        T_EQ(y, 0);
        T_TRUE(x[0] == 3 && x[COLS - 1] == 3);
        T_OK(data_read(d, ROWS - 1, x, &y, t_err()));
        T_EQ(y, 7);
        for (int i = 0; i < COLS; i++)
            T_TRUE(x[i] == (float)i * 0.5f + 3);
    }
    T_EQ(truncate(s.x, 128 + COLS), 0); // somebody shortens it
    T_FAILS(SL_ECORRUPT, data_read(d, ROWS - 1, x, &y, &err));
    T_HAS(err.text, "has changed since it was opened");
    data_free(d);
}
