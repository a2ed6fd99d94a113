# SPDX-License-Identifier: Apache-2.0 OR MIT
"""TLPs of cocotbext-pcie to and from riser's bytes.

    from cocotbext.pcie.core.tlp import Tlp
    from riser.cocotb import from_bytes, to_bytes

    riser.tlp_text(to_bytes(tlp))

cocotbext-pcie (`pip install cocotbext-pcie`) is imported where it is first needed; riser itself does not need it.
"""

from __future__ import annotations

import importlib
from typing import Any

from riser._riser import RiserError, emit_tlp, parse_tlp

__all__ = ["from_bytes", "to_bytes"]

_DIGEST_BYTES = 4


def to_bytes(tlp: Any) -> bytes:
    """The bytes of a `cocotbext.pcie.core.tlp.Tlp` as riser sends it: header, data, and the ECRC where `tlp.td` says that there is one.

    A header of four DWs with an address below 4 GiB becomes one of three (PCIe 5.0 §2.2.4.1); reserved bits are zero.

    Raises:
        RiserError: it breaks a rule of the specification, which the text names; or is of a type without a codec there: messages
            and prefixes.
    """
    if not isinstance(tlp, _tlp_class()):
        raise RiserError(f"a {type(tlp).__name__}: legal are objects of cocotbext.pcie.core.tlp.Tlp")
    try:
        packed = bytes(tlp.pack())
    except Exception as error:
        raise RiserError(f"cocotbext-pcie cannot pack it: {error}") from error
    return emit_tlp(packed)


def from_bytes(data: bytes | bytearray | memoryview) -> Any:
    """The `cocotbext.pcie.core.tlp.Tlp` in these bytes; an ECRC is not looked at.

    Raises:
        RiserError: the bytes are no TLP, or one that their class has no fields for: messages, and those with prefixes.
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
