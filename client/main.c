// SPDX-License-Identifier: Apache-2.0
// client/main.c -- the sluice command; everything is in cli.c and verbs.c.
#include "client/cli.h"

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
