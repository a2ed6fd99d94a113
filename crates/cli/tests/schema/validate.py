#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Validates TOML files against JSON Schema with the package jsonschema.

Reads one JSON object on standard input: {"schemas": {kind: schema}, "files": [{"kind", "toml"}]}. Prints a JSON list with an entry for each
file: null if it is valid, otherwise the place and the text of its first error. Schemas must be valid themselves.
"""

import json
import sys
import tomllib

import jsonschema


def main():
    task = json.load(sys.stdin)
    validators = {}
    for kind, schema in task["schemas"].items():
        jsonschema.Draft7Validator.check_schema(schema)
        validators[kind] = jsonschema.Draft7Validator(schema)
    found = []
    for file in task["files"]:
        error = next(validators[file["kind"]].iter_errors(tomllib.loads(file["toml"])), None)
        found.append(error and f"{error.json_path}: {error.message[:200]}")
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
