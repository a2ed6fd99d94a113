# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A bill of materials in CycloneDX 1.6: every component of riser's binaries, with its licence, checksum and dependencies."""

import datetime
import json
import uuid

from components import PRODUCTS


def entry(component):
    """Returns a component as CycloneDX has it."""
    fields = {
        "type": "library",
        "bom-ref": component.key,
        "name": component.name,
        "version": component.version,
        "description": component.description,
        "licenses": [{"expression": component.licence}],
        "purl": component.purl,
    }
    if component.checksum:
        fields["hashes"] = [{"alg": "SHA-256", "content": component.checksum}]
    return fields


def bill(components, version, target, epoch):
    """Returns the bill of materials as text. Its time and serial number follow from the arguments."""
    name = f"riser-{version}-{target}"
    time = datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    products = [component.key for component in components if component.name in PRODUCTS]
    root = {
        "type": "application",
        "bom-ref": "riser",
        "name": "riser",
        "version": version,
        "description": "A PCI Express slot in software",
        "licenses": [{"expression": "Apache-2.0 OR MIT"}],
        "externalReferences": [{"type": "vcs", "url": "https://github.com/riser-pcie/riser"}],
    }
    depends = [{"ref": "riser", "dependsOn": products}]
    depends += [{"ref": component.key, "dependsOn": component.needs} for component in components]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"https://github.com/riser-pcie/riser/{name}").urn,
        "version": 1,
        "metadata": {"timestamp": time, "component": root},
        "components": [entry(component) for component in components],
        "dependencies": depends,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
