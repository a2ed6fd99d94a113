# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Conversion of cocotbext-pcie TLPs to and from riser's bytes.

    from cocotbext.pcie.core.tlp import Tlp
    from riser.cocotb import from_bytes, to_bytes

    riser.tlp_text(to_bytes(tlp))

cocotbext-pcie (`pip install cocotbext-pcie`) is imported on first use; riser itself does not need it.
"""

from __future__ import annotations

import importlib
from typing import Any

from riser._riser import RiserError, emit_tlp, parse_tlp

__all__ = ["from_bytes", "to_bytes"]

_DIGEST_BYTES = 4


def to_bytes(tlp: Any) -> bytes:
    """Return the bytes of a `cocotbext.pcie.core.tlp.Tlp` as riser sends it: header, data, and the ECRC if `tlp.td` is set.

    A header of four DWs with an address below 4 GiB becomes one of three (PCIe 5.0 §2.2.4.1); reserved bits are zero.

    Raises:
        RiserError: it breaks a rule of the specification, which the text names; or its type has no codec in cocotbext-pcie:
            messages and prefixes.
    """
    if not isinstance(tlp, _tlp_class()):
        raise RiserError(f"a {type(tlp).__name__}: expected an object of cocotbext.pcie.core.tlp.Tlp")
    try:
        packed = bytes(tlp.pack())
    except Exception as error:
        raise RiserError(f"cocotbext-pcie cannot pack it: {error}") from error
    return emit_tlp(packed)


def from_bytes(data: bytes | bytearray | memoryview) -> Any:
    """Return the `cocotbext.pcie.core.tlp.Tlp` in these bytes; an ECRC is ignored.

    Raises:
        RiserError: the bytes are not a TLP, or the class has no fields for it: messages, and TLPs with prefixes.
    """
    fields = parse_tlp(data)
    if "message_code" in fields or "prefixes" in fields:
        raise RiserError(f"a {fields['type']} with a message or prefixes: cocotbext-pcie has no fields for these")
    whole = bytes(data)
    packed = whole[: len(whole) - _DIGEST_BYTES] if fields["td"] else whole
    try:
        tlp = _tlp_class().unpack(packed)
    except Exception as error:
        raise RiserError(f"cocotbext-pcie cannot unpack a {fields['type']}: {error}") from error
    tlp.data = bytearray(tlp.data)
    return tlp


def _tlp_class() -> Any:
    try:
        return importlib.import_module("cocotbext.pcie.core.tlp").Tlp
    except ImportError as error:
        raise ImportError("riser.cocotb needs cocotbext-pcie: pip install cocotbext-pcie") from error
