# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Licence texts: one text with the licences of all third-party components, and the copyright file of a Debian package."""

import re

from components import ROOT

HEAD = """riser {version}
Licence: Apache-2.0 OR MIT, at your option
Source: https://github.com/riser-pcie/riser

riser's programs contain the third-party components below, each under its own licence. The licences of Rust's standard library are in
{library}.

"""
APACHE = re.compile(
    r"[ \t]*Apache License\s+Version 2\.0, January 2004.*?END OF TERMS AND CONDITIONS(.*?limitations under the License\.)?", re.DOTALL
)
"""The Apache licence, with its appendix."""
COMMON_APACHE = "Apache License, Version 2.0: see /usr/share/common-licenses/Apache-2.0\n"
"""Debian packages refer to the Apache licence."""


def words(text):
    """Returns the words of a text, without commas, which are the same in copies with other line breaks."""
    return " ".join(text.replace(",", " ").split())


def grouped(components):
    """Returns each different text with the components that it is of, sorted by the first component."""
    groups = {}
    for component in components:
        for text in component.texts:
            groups.setdefault(words(text), (text, []))[1].append(component)
    return sorted(groups.values(), key=lambda group: group[1][0].key)


def third_party(components, version, library, debian=False):
    """Returns the licences of all third-party components. `library` names the page of the standard library's."""
    others = [component for component in components if not component.is_ours]
    parts = [HEAD.format(version=version, library=library)]
    parts += [f"{component.name} {component.version}: {component.licence}\n" for component in others]
    for text, owners in grouped(others):
        if debian:
            text = APACHE.sub(COMMON_APACHE, text)
        names = ", ".join(f"{component.name} {component.version}" for component in owners)
        parts.append(f"\n{'=' * 100}\n{names}\n\n{text.strip()}\n")
    return "".join(parts)


def debian_copyright(components, version):
    """Returns the copyright file of a Debian package."""
    mit = (ROOT / "LICENSE-MIT").read_text().strip()
    ours = f"riser's own licences\n\n{COMMON_APACHE}\nor\n\n{mit}\n\n{'=' * 100}\n"
    return ours + third_party(components, version, "/usr/share/doc/riser/rust-library.html", debian=True)
