#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What proto/methods.py refuses: a method without a role, and a number of the
registry that changes its meaning. Each case edits a copy of the .proto files."""
import pathlib
import subprocess
import sys
import tempfile

PROTO = pathlib.Path(__file__).resolve().parents[3] / "proto"
STD = pathlib.Path(sys.argv[1])  # has google/protobuf/descriptor.proto
GET = "rpc Get(JobRequest) returns (JobStatus) {\n" \
      "    option (access) = {may_call: [ADMIN, SUBMITTER, VIEWER]};\n  }"


class Copy:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        for path in PROTO.glob("*.proto"):
            (self.folder / path.name).write_text(path.read_text())
        self.page = self.folder / "REGISTRY.md"
        self.page.write_text((PROTO / "REGISTRY.md").read_text())

    def edit(self, name, old, new):
        text = (self.folder / name).read_text()
        assert text.count(old) == 1, (name, old)
        (self.folder / name).write_text(text.replace(old, new))

    def run(self, *args):
        """(exit status, stderr) of methods.py."""
        names = sorted(path.name for path in self.folder.glob("*.proto"))
        subprocess.run(["protoc", f"-I{self.folder}", f"-I{STD}", "--include_imports",
                        f"--descriptor_set_out={self.folder}/set.bin", *names], check=True)
        ran = subprocess.run([sys.executable, PROTO / "methods.py", self.folder / "set.bin",
                              *args], capture_output=True, text=True)
        return ran.returncode, ran.stderr

    def make(self):
        return self.run(self.folder)

    def write_registry(self):
        return self.run("--registry", self.page)


def the_files_as_they_are_build(copy):
    assert copy.make() == (0, "")
    before = copy.page.read_text()
    assert copy.write_registry() == (0, "")
    assert copy.page.read_text().splitlines()[:8] == before.splitlines()[:8]


def a_method_without_a_role_does_not_build(copy):
    copy.edit("jobs.proto", GET, "rpc Get(JobRequest) returns (JobStatus);")
    code, said = copy.make()
    assert code == 1 and "jobs.proto: Jobs.Get names no role" in said, (code, said)


def a_method_of_a_role_that_nobody_has_does_not_build(copy):
    copy.edit("jobs.proto", GET, GET.replace("[ADMIN, SUBMITTER, VIEWER]", "[ADMIN, NOBODY]"))
    code, said = copy.make()
    assert code == 1 and "Get names NOBODY" in said, (code, said)


def an_option_that_nothing_is_made_of_does_not_build(copy):
    copy.edit("options.proto", "  string audit = 2;", "  bool fast = 3;\n  string audit = 2;")
    copy.edit("jobs.proto", GET, GET.replace("VIEWER]", "VIEWER] fast: true"))
    code, said = copy.make()
    assert code == 1 and "Get has an option 3" in said, (code, said)


def a_method_is_in_what_is_made(copy):
    copy.edit("jobs.proto", GET, GET + "\n  " + GET.replace("Get", "GetTwice").replace(
        "VIEWER]", 'WORKER] audit: "Twice"'))
    assert copy.make() == (0, "")
    made = (copy.folder / "methods.h").read_text()
    for line in ('#define WIRE_GET_TWICE "/sluice.v1.Jobs/GetTwice"',
                 'X(GET_TWICE, MAY(ADMIN) | MAY(SUBMITTER) | MAY(WORKER), "Twice")',
                 "X(get_twice, GET_TWICE, JobRequest, JobStatus, job_status)"):
        assert line in made, line
    assert copy.write_registry() == (0, "")
    assert "| `/sluice.v1.Jobs/GetTwice` | JobRequest | JobStatus |\n" in copy.page.read_text()


def a_number_keeps_its_meaning(copy):
    before = copy.page.read_text()
    copy.edit("jobs.proto", "string request_id = 2;", "string request = 2;")
    code, said = copy.write_registry()
    assert code == 1 and "SubmitRequest.request_id was 2" in said, (code, said)
    assert copy.page.read_text() == before
    copy.edit("jobs.proto", "string request = 2;", "reserved 2;\n  string request = 99;")
    assert copy.write_registry() == (0, "")
    assert "request 99" in copy.page.read_text()


def main():
    for case in (the_files_as_they_are_build, a_method_without_a_role_does_not_build,
                 a_method_of_a_role_that_nobody_has_does_not_build,
                 an_option_that_nothing_is_made_of_does_not_build,
                 a_method_is_in_what_is_made, a_number_keeps_its_meaning):
        with tempfile.TemporaryDirectory() as folder:
            case(Copy(folder))
        print(f"ok {case.__name__}")


if __name__ == "__main__":
    main()
