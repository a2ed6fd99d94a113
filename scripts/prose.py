#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Finds English that has to be read twice, in pages, comments, messages and names of tests. CONTRIBUTING.md has the rules of writing.

Without FILE, checks the repository against LIMITS: rules marked NEVER have no finding, the others few per 1,000 sentences.
With FILE or --since, each finding is an error.

Examples:
  scripts/prose.py                              check the repository, as `make check-prose` does
  scripts/prose.py docs/speed.md crates/link    list every finding of these files and folders
  scripts/prose.py --since main                 list the findings in lines that differ from the branch main
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Most findings, and most sentences over LONG_WORDS words, per 1,000 sentences (of MIN_WORDS words or more). Fewest examples with a finding.
LIMITS = {"docs": 10, "code": 5, "strings": 5, "names": 5}
LONG_LIMIT, LONG_WORDS, LONG = 15, 30, "long sentence"
MIN_WORDS, MIN_EXAMPLES = 4, 37

NEVER, SELDOM = True, False
# Name, how often the repository may break it, pattern, what to write instead.
RULES = [
    ("clause as subject", SELDOM, r"(?:^|[;:] )(?:what|who|whom|whose|whoever|whatever|whichever)\b(?!.*\?)", "begin with the thing: `Ports without output are ...`"),
    ("what as object", SELDOM, r"\b(?:of|for|to|by|with|from|at|than|but|or|gives?|takes?|keeps?) what\b", "name the thing: `the payload`, not `what it carries`"),
    ("who for a thing", SELDOM, r"\b(?:is|are|beside|of|to|for|by|with|from) who(?:ever)?\b", "name the component: `the requester`"),
    ("where for if", SELDOM, r"^where\b(?!.*\?)|, where (?:no|nothing|one|there (?:is|are)|it is not)\b|\b(?:only|but|one|that) where\b", "`if` for a condition, `when` for a time"),
    ("nobody", NEVER, r"(?-i:\b(?:[Nn]o|[Ss]ome|[Aa]ny)body\b)", "name the component: `no port`, `a reader`"),
    ("nothing as subject", SELDOM, r"(?:^|[;:,] |\bwhere |\bthat )nothing \w+s\b", "say what does happen: `the port ignores it`"),
    ("none as predicate", SELDOM, r"\b(?:which|that|it|this) (?:is|are|was|were) none\b|\blegal (?:is|are)\b", "name the fault: `invalid code range`"),
    ("passive of speech", SELDOM, r"\b(?:is|are|was|were|be) (?:told(?! apart)|said|asked for|spoken of|looked at)\b|\band said\b|\btold (?:when|who|what|of|by)\b", "name the speaker: `riser reports the lane`"),
    ("behind or beside", SELDOM, r"\bbehind (?:it|that|this|them|these|which|each|those)\b|\bbeside\b", "`after` for order, `downstream of` for topology, `next to`"),
    ("inverted opening", SELDOM, r"^(?-i:Of|Beside|Beyond|Behind|Nor|So (?:does|do|is|are))\b(?! (?:course|these|the \d))|; of (?:one|those|that|a|an|each|the)\b", "subject first: `The last piece ...`"),
    ("short clause at the end", SELDOM, r", (?:if|where|as|when) (?:it|they|that) (?:is|are|was|were|does|do)\W*$", "state the condition in full: `if tracing is on`"),
    ("but for except", SELDOM, r"\bbut (?:for|by)\b(?! (?:example|a|an|each|every|default)\b)", "`except`, or `only by`"),
    ("come of", NEVER, r"\b(?:comes?|came|becomes?|became) of\b", "`result of`, `state of`"),
    ("old word", NEVER, r"\b(?:whence|thence|there(?:of|upon)|where(?:of|upon)|henceforth|lest|aught|naught|anew|forthwith|meanwhile|by lot|as it were)\b", "a word of today: `of it`, `again`, `at random`"),
]
RULES = {name: (never, re.compile(pattern, re.I), hint) for name, never, pattern, hint in RULES}
HINTS = {name: hint for name, (_, _, hint) in RULES.items()} | {LONG: f"one idea per sentence, at most 25 words (error above {LONG_WORDS})"}

STRING = r'"(?P<string>(?:[^"\\]|\\.)*)"'
C_LIKE = re.compile(r'//(?P<comment>[^\n]*)|/\*(?P<block>.*?)\*/|r(?P<hashes>#+)".*?"(?P=hashes)|\'(?:\\[^\n\']+|[^\'\\\n])\'|' + STRING, re.S)
HASH = re.compile(r'(?<!\S)#(?P<comment>[^\n]*)|"""(?P<block>.*?)"""|\'(?:[^\'\\\n]|\\.)*\'|' + STRING, re.S)
LUA = re.compile(r"--(?P<comment>[^\n]*)|(?!)(?P<block>)|" + STRING, re.S)
SCANNERS = dict.fromkeys((".rs", ".c", ".h", ".cpp", ".sv", ".svh", ".v", ".js"), C_LIKE) | dict.fromkeys((".py", ".sh", ".toml"), HASH) | {".lua": LUA}
TEST_FILE = re.compile(r"(?:^|/)tests?(?:/|\.rs$)|_?tests?\.(?:rs|py)$|/test_")
TEST_NAME = re.compile(r"#\[test\]\s*(?:#\[[^\]]*\]\s*)*fn (\w+)|^def test_(\w+)", re.M)


def paragraphs(lines):
    """Yields (line, text) of paragraphs, list items and cells of tables in numbered lines of Markdown. Code and headings are left out."""
    start, block, in_code = 0, [], False
    for number, line in [*lines, (0, "")]:
        body = line.strip()
        fence = body.startswith("```")
        in_code ^= fence
        cells = body.strip("|").split("|") if body.startswith("|") and not in_code else []
        skip = fence or in_code or cells or not body or body.startswith(("#", "<")) or "SPDX" in body or (line.startswith("    ") and not block)
        item = re.match(r"(?:[-*+]|\d+\.)\s+", body)
        if block and (skip or item):
            yield start, "\n".join(block)
            block = []
        yield from ((number, cell) for cell in cells)
        if not skip:
            start = start if block else number
            block.append(body[item.end():] if item else body)


def code(path, text):
    """Yields (kind, line, text) of comments, and of string literals outside tests."""
    tests = 0 if TEST_FILE.search(path) else text.find("#[cfg(test)]\nmod tests {") % (len(text) + 1)
    lines, number, last = [], 1, 0
    for token in SCANNERS[pathlib.Path(path).suffix].finditer(text):
        number += text.count("\n", last, token.start())
        if lines and text[last:token.start()].strip():
            yield from (("code", *paragraph) for paragraph in paragraphs(lines))
            lines = []
        comment = token["block"] if token["comment"] is None else token["comment"]
        if comment is not None:
            lines += [(number + at, re.sub(r"^\s*[/!*]* ?", "", line)) for at, line in enumerate(comment.split("\n"))]
        elif path.endswith((".rs", ".py")) and token["string"] and token.start() < tests:
            literal = re.sub(r"\\\n\s*", "\v", token["string"]).replace("\\n", "\r")
            for part in re.finditer(r"[^\r\n]+", literal):
                if len(re.findall(r"\b[a-z]{2,}\b", part[0])) > MIN_WORDS and not re.search(r"^  |::|=>|[;{}] *$", part[0]):
                    yield "strings", number + len(re.findall(r"[\v\n]", literal[:part.start()])), re.sub(r"\v|\{[^{}]*\}", lambda gap: "X" * (gap[0] != "\v"), part[0])
        number += token[0].count("\n")
        last = token.end()
    yield from (("code", *paragraph) for paragraph in paragraphs(lines))
    for name in TEST_NAME.finditer(text):
        yield "names", text.count("\n", 0, name.end()) + 1, (name[1] or name[2]).replace("_", " ")


def texts(path, text):
    """Yields (kind, line, text) of all prose in a file."""
    if path.endswith(".md"):
        yield from (("docs", *paragraph) for paragraph in paragraphs(enumerate(text.split("\n"), 1)))
    elif path.endswith(".ipynb"):
        for cell in json.loads(text)["cells"]:
            lines = [(text.count("\n", 0, text.find(json.dumps(line, ensure_ascii=False))) + 1, line) for line in cell["source"]]
            yield from (("docs", *paragraph) for paragraph in paragraphs(lines) if cell["cell_type"] == "markdown")
    else:
        yield from code(path, text)


def sentences(path, text):
    """Yields (kind, line, sentence); code in backticks is X."""
    for kind, line, block in texts(path, text):
        block = re.sub(r"`[^`]*`", lambda code: "X" + "\n" * code[0].count("\n"), block)
        block = re.sub(r"\[([^\]]*)\]\([^)]*\)|\*\*", r"\1", block)
        for part in re.finditer(r"\S.*?(?:(?<!e\.g)(?<!i\.e)[.!?:;](?=\s+(?:[-A-Z\d(\"]|riser\b))|\Z)", block, re.S):
            if len(part[0].split()) >= MIN_WORDS or kind == "names":
                yield kind, line + block.count("\n", 0, part.start()), " ".join(part[0].split())


def broken_rules(sentence):
    return [name for name, (_, pattern, _) in RULES.items() if pattern.search(sentence)] + [LONG] * (len(re.findall(r"\b[A-Za-z'-]+\b", sentence)) > LONG_WORDS)


def git(*words):
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else sys.exit(f"prose.py: git: {done.stderr.strip()}")


def files(paths):
    """Returns the files of these paths that hold prose. Seeds, snapshots and the examples of this check are left out."""
    names = git("ls-files", "--cached", "--others", "--exclude-standard", "--error-unmatch", "--", *paths).splitlines()
    names = [name for name in names if not re.search(r"^scripts/prose|/seeds/|/snapshots/", name) and (ROOT / name).exists()]
    return [name for name in names if pathlib.Path(name).suffix in {*SCANNERS, ".md", ".ipynb"}]


def changed_lines(commit, paths):
    """Returns the lines of each of these files, or of all, that differ from the last common commit."""
    diff = git("diff", "-U0", "--no-prefix", "--diff-filter=d", "--merge-base", commit, "--", *paths)
    lines, name = collections.defaultdict(set), None
    for mark in re.finditer(r"^\+\+\+ (\S+)|^@@ -\S+ \+(\d+)(?:,(\d+))? @@", diff, re.M):
        name = mark[1] or name
        lines[name].update(range(int(mark[2] or 0), int(mark[2] or 0) + int(mark[3] or 1)))
    return lines


def check(paths, has_limits):
    """Returns (path, line, rule, sentence) of each finding; with limits, of those that exceed them."""
    total, findings = collections.Counter(), collections.defaultdict(list)
    for path in files(paths):
        for kind, line, sentence in sentences(path, (ROOT / path).read_text(encoding="utf-8")):
            total[kind] += 1
            for rule in broken_rules(sentence):
                findings[kind, rule == LONG].append((path, line, rule, sentence))
    if not has_limits:
        return sum(findings.values(), [])
    errors = []
    for (kind, is_long), found in sorted(findings.items()):
        limit, rate = LONG_LIMIT if is_long else LIMITS[kind], 1000 * len(found) / total[kind]
        print(f"prose.py: {kind}: {rate:.1f} {'long sentences' if is_long else 'findings'} per 1,000 sentences, limit {limit}")
        errors += [finding for finding in found if rate > limit or not is_long and RULES[finding[2]][0]]
    return errors


def self_test():
    """Returns whether the examples have findings, each rule has an example, and each kind of text is found in its line."""
    plain = lambda text: re.sub(r"`[^`]*`", "X", text) if " " in text else text.replace("_", " ")
    pairs = re.findall(r"^- (.*)\n\+ (.*)$", (ROOT / "scripts/prose-examples.txt").read_text(), re.M)
    broken = [(before, broken_rules(plain(before)), broken_rules(plain(after))) for before, after in pairs]
    found, wrong = sum(bool(rules) for _, rules, _ in broken), [rules for _, _, rules in broken if rules]
    unused = RULES.keys() - {rule for _, rules, _ in broken for rule in rules}
    sample = '//! Nobody reads all\n//! of this. Nor\n//! does a port: Nobody hears of it.\nlet x = "nobody reads this long text"; // nobody has a port\n#[test]\nfn nobody_reads() {}\n'
    places = [(kind, line) for kind, line, text in sentences("src/x.rs", sample) if broken_rules(text)]
    print(f"prose.py: findings in {found} of {len(pairs)} examples, in rewrites: {wrong}; rules without an example: {[*unused]}")
    return found >= MIN_EXAMPLES and not wrong and not unused and places == [("code", 1), ("code", 2), ("code", 3), ("strings", 4), ("code", 4), ("names", 6)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="*", help="check these files and folders")
    parser.add_argument("--since", metavar="COMMIT", help="check the lines that differ from COMMIT")
    parser.add_argument("--self-test", action="store_true", help="check the rules with scripts/prose-examples.txt")
    args = parser.parse_args()
    if args.self_test:
        return not self_test()
    paths = [os.path.relpath(file, ROOT) for file in args.file]
    changed = changed_lines(args.since, paths) if args.since else {}
    errors = [] if args.since and not changed else check([*changed] or paths, not paths and not args.since)
    errors = [error for error in errors if not args.since or error[1] in changed[error[0]]]
    for path, line, rule, sentence in sorted(errors):
        print(f"{path}:{line}: {rule}: {sentence}\n    hint: {HINTS[rule]}")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
