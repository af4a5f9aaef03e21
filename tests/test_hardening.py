"""Build results are hardened: scripts/check-hardening reports nothing for them, and reports the gaps of other programs.

The packages are checked by the tests that build them: tests/test_wheel.py, tests/test_package.py.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from elftools.elf.elffile import ELFFile
from harness import custom_nodes
from harness.server import BINARY, ROOT

BUILD = pathlib.Path(BINARY).parent
CHECK = [sys.executable, ROOT / "scripts/check-hardening"]
HARDENED = ["-O2", "-fPIE", "-pie", "-fstack-protector-strong", "-fstack-clash-protection", "-fcf-protection"]
HARDENED += ["-D_FORTIFY_SOURCE=2", "-Wl,-z,relro,-z,now,-z,noexecstack", "-Wl,-rpath,$ORIGIN/lib"]
# A stack buffer that receives the caller's text, and a function of Braid's that others can call.
SOURCE = """
#include <stdio.h>
#include <string.h>
namespace braid { __attribute__((noinline)) int Copy(const char* text) {
  char buffer[64];
  strcpy(buffer, text);
  return printf("%s", buffer);
} }
int main(int count, char** arguments) { return braid::Copy(arguments[count - 1]); }
"""


def check(*arguments):
    ran = subprocess.run([*CHECK, *arguments], capture_output=True, text=True, timeout=100)
    return ran.returncode, ran.stdout


def test_what_was_built_is_hardened():
    environment = {**os.environ, "BUILD_FOLDER": str(BUILD)}
    ran = subprocess.run(CHECK, env=environment, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stdout
    lines = ran.stdout.splitlines()
    assert {pathlib.Path(line.partition(": ")[0]).name for line in lines} >= {
        "braid",
        "_braid_worker.abi3.so",
        "libbraid_opencv.so",
        *custom_nodes.FILES,
    }
    assert all(line.endswith(": hardened") for line in lines), ran.stdout


def test_functions_begin_with_endbr64_and_the_note_is_not_set():
    """Functions begin with endbr64, but the program lacks the property note. Debian 12's start files do not have it, so
    the linker omits it; docs/supply-chain.md describes the effect."""
    with open(BINARY, "rb") as stream:
        program = ELFFile(stream)
        assert program.get_section_by_name(".note.gnu.property") is None or not cet_note(program)
        functions = [
            symbol
            for symbol in program.get_section_by_name(".symtab").iter_symbols()
            if symbol.name.startswith("_ZN5braid") and symbol["st_info"]["type"] == "STT_FUNC"
        ]
    assert len(functions) > 3000


def cet_note(program):
    notes = program.get_section_by_name(".note.gnu.property").iter_notes()
    kinds = [one["pr_type"] for note in notes if note["n_type"] == "NT_GNU_PROPERTY_TYPE_0" for one in note["n_desc"]]
    return "GNU_PROPERTY_X86_FEATURE_1_AND" in kinds


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """compiled(*flags) returns a program `braid`, built with the hardening flags and then these."""
    if shutil.which("g++") is None:
        pytest.skip("needs apt-get install g++")

    def make(*flags):
        folder = tmp_path_factory.mktemp("program")
        (folder / "main.cc").write_text(SOURCE)
        command = ["g++", "-w", *HARDENED, folder / "main.cc", "-o", folder / "braid", *flags]
        subprocess.run(command, check=True, timeout=60)
        return folder / "braid"

    return make


def test_a_program_with_all_flags_is_taken(compiled):
    program = compiled()
    assert check(program) == (0, f"{program}: hardened\n")


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (["-no-pie", "-fno-pie"], "PIE: it has a fixed address"),
        (["-Wl,-z,norelro"], "RELRO: what the loader has written stays writable"),
        (["-Wl,-z,lazy"], "RELRO: functions are bound when they are first called"),
        (["-Wl,-z,execstack"], "NX: its stack can run"),
        (["-fno-stack-protector"], "stack: no function checks its stack"),
        (["-U_FORTIFY_SOURCE"], "fortify: of printf, strcpy no call checks the size"),
        (["-fcf-protection=none"], "CET: 1 of 1 functions do not begin with endbr64: _ZN5braid4CopyEPKc"),
        (["-Wl,-rpath,/opt/braid"], "run path: /opt/braid is searched"),
        (["-Wl,--disable-new-dtags", "-Wl,-rpath,/opt/braid:$ORIGIN/x:x"], "run path: x is searched"),
    ],
)
def test_what_is_missing_is_named(compiled, flags, fault):
    program = compiled(*flags)
    code, text = check(program)
    assert code == 1
    assert fault in text


def test_a_segment_that_can_be_written_and_run_is_named(compiled):
    """A segment that is writable and executable is reported. No linker makes one by default, so the test changes the
    flags of the first loaded segment."""
    program = compiled()
    with open(program, "r+b") as stream:
        elf = ELFFile(stream)
        header = next(index for index, one in enumerate(elf.iter_segments()) if one["p_type"] == "PT_LOAD")
        # p_flags is 4 bytes into a program header.
        stream.seek(elf["e_phoff"] + header * elf["e_phentsize"] + 4)
        stream.write((7).to_bytes(4, "little"))
    assert check(program) == (1, f"{program}: NX: a segment can be written and run\n")


def test_of_others_the_stack_and_the_run_path_are_wanted_alone(compiled, tmp_path):
    library = tmp_path / "libother.so"
    shutil.copy(compiled("-fno-stack-protector", "-U_FORTIFY_SOURCE", "-Wl,-z,norelro"), library)
    assert check(library) == (0, f"{library}: of others: no code that can be written\n")
    shutil.copy(compiled("-Wl,-z,execstack", "-Wl,-rpath,/opt/x"), library)
    assert check(library)[0] == 1
    assert check("--run-path", "/opt/x", library)[1] == f"{library}: NX: its stack can run\n"


def test_the_flags_are_those_of_the_page():
    """The build uses the flags that docs/supply-chain.md lists."""
    page = (ROOT / "docs/supply-chain.md").read_text()
    targets = (ROOT / "cmake/BraidTargets.cmake").read_text()
    flags = re.findall(r"`(-f[a-z-]+|-D_FORTIFY_SOURCE=\d|-Wl,\S+)`", page)
    assert len(flags) >= 5
    for flag in flags:
        assert flag in targets, flag
