#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every line that a daemon logs (INFO and above) has its entry in
deploy/RUNBOOK.md, and every `sluice VERB` that a page names is a verb."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/house"))
from layering import MAY
CALL = re.compile(r'\bLOG\(\s*(?:INFO|WARN|ERROR),\s*((?:"[^"]*"\s*)+)')

book = (ROOT / "deploy/RUNBOOK.md").read_text()
said = {}
for room in MAY:
    for path in sorted((ROOT / room).rglob("*.c")):
        for call in CALL.finditer(path.read_text()):
            text = "".join(re.findall(r'"([^"]*)"', call.group(1)))
            said.setdefault(text, path.relative_to(ROOT))
    for path in sorted((ROOT / room).rglob("*.h")):  # texts that two files log
        for text in re.findall(r'#define \w+_LOG_\w+ "([^"]*)"', path.read_text()):
            said.setdefault(text, path.relative_to(ROOT))

missing = {text: where for text, where in said.items()
           if f"`{text}`" not in book}
for text, where in missing.items():
    print(f"{where}: '{text}' has no entry in deploy/RUNBOOK.md")
print(f"{len(said)} log lines, {len(missing)} without an entry")

verbs = set(re.findall(r'\{\.name = "([a-z-]+)",\s*\.usage', (ROOT / "client/verb_table.c").read_text()))
verbs |= {"help", "VERB", "COMMAND"}
unknown = 0
for page in [*ROOT.glob("*.md"), *(p for d in ("deploy", "docs", "client", "examples")
                                   for p in (ROOT / d).rglob("*.md"))]:
    for verb in re.findall(r"`sluice ([a-zA-Z]+)", page.read_text()):
        if verb not in verbs:
            unknown += 1
            print(f"{page.relative_to(ROOT)}: there is no 'sluice {verb}'")
sys.exit(1 if missing or not said or unknown or len(verbs) < 5 else 0)
