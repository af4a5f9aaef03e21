"""Bills of materials from scripts/sbom."""

import json
import os
import pathlib
import subprocess
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from harness.server import BINARY, ROOT


def bill_of(package):
    """Returns the bill of a package. It must be valid by CycloneDX's schema, and identical when it is written again."""
    texts = []
    for _ in range(2):
        environment = {
            **os.environ,
            "BUILD_FOLDER": str(pathlib.Path(BINARY).parent),
            "SOURCE_DATE_EPOCH": "1700000000",
        }
        command = [sys.executable, ROOT / "scripts/sbom", package]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        written = package.with_name(package.name + ".cdx.json")
        texts.append(written.read_text())
        written.unlink()
    assert texts[0] == texts[1]
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(texts[0]) is None
    bill = json.loads(texts[0])
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    return bill
