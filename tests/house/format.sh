#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formatting is a tool's business. Skipped (77) where the tool is missing.
cd "$(dirname "$0")/../.." || exit 1
command -v clang-format >/dev/null || exit 77
git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror
