// SPDX-License-Identifier: Apache-2.0
// A job spec written as YAML: from the text to a checked job.
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/spec_kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spec_text("spec.yaml", data, size);
    return 0;
}
