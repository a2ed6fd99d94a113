#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks bills of materials against the schema of CycloneDX, and that each reference has its component. Needs the wheels of requirements.txt."""

import json
import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator


def errors(text):
    """Returns what is wrong with a bill of materials."""
    document = json.loads(text)
    error = JsonStrictValidator(SchemaVersion.from_version(document.get("specVersion", ""))).validate_str(text)
    if error:
        return [str(error)]
    known = {component["bom-ref"] for component in [document["metadata"]["component"], *document["components"]]}
    used = {ref for entry in document["dependencies"] for ref in [entry["ref"], *entry["dependsOn"]]}
    return [f"no component {ref}" for ref in sorted(used - known)] + [f"no dependencies of {ref}" for ref in sorted(known - used)]


def main(files):
    found = [f"validate.py: {file}: {error}" for file in files for error in errors(Path(file).read_text())]
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
