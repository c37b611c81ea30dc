// SPDX-License-Identifier: Apache-2.0
// client/main.c -- the sluice command; everything is in cli.c and verb_table.c.
#include <string.h>

#include "client/cli/cli.h"
#include "common/base/fault.h"

int main(int argc, char **argv)
{
    // As the daemons do, in a build for tests.
    if (argc == 2 && strcmp(argv[1], "--list-faults") == 0 && fault_list())
        return CLI_EXIT_OK;
    return cli_main(argc, argv);
}
