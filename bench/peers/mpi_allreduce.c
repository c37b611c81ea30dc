// SPDX-License-Identifier: Apache-2.0
// bench/peers/mpi_allreduce.c -- MPI_Allreduce of floats in place, again and
// again, for so many seconds; rank 0 prints the median in milliseconds.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    enum { MOST = 1 << 20 };
    int elements, rank, count = 0;
    double seconds, until, *ms = malloc(MOST * sizeof(*ms));
    float *data;

    MPI_Init(&argc, &argv);
    elements = atoi(argv[1]) / 4;
    seconds = atof(argv[2]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    data = malloc((size_t)elements * sizeof(*data));
    for (int i = 0; i < elements; i++)
        data[i] = 1;
    for (int i = 0; i < 3; i++)
        MPI_Allreduce(MPI_IN_PLACE, data, elements, MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
    until = MPI_Wtime() + seconds;
    for (;;) {
        double began = MPI_Wtime();

        data[0] = rank == 0 && began >= until ? 1 : 0;
        MPI_Allreduce(MPI_IN_PLACE, data, elements, MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
        if (data[0] != 0)
            break;
        if (count < MOST)
            ms[count++] = (MPI_Wtime() - began) * 1000;
        if (data[1] > 1e30f)
            for (int i = 1; i < elements; i++)
                data[i] = 1;
    }
    qsort(ms, (size_t)count, sizeof(*ms), by_size);
    if (rank == 0)
        printf("{\"p50_ms\": %.6f, \"count\": %d}\n", ms[count / 2], count);
    MPI_Finalize();
    return 0;
}
