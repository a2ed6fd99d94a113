// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cases of tests in text files. The first block of a file, of comments, describes it. An empty line ends a block.

/// A case: a block of lines. A line may begin with a mark: `# ` (a comment), `== ` (its name), `=> ` (an expected result), `++ ` (more of it), or
/// a mark of the file's own, which [`marked`](Case::marked) reads.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    /// All lines of the case.
    pub text: &'a str,
}

/// Returns the cases of a file: all blocks but the first.
pub fn cases(file: &str) -> impl Iterator<Item = Case<'_>> {
    let (head, cases) = file.trim_end().split_once("\n\n").unwrap_or_else(|| panic!("no case in:\n{file}"));
    assert!(
        head.lines().all(|line| line.starts_with('#')),
        "the first block has only comments, but is:\n{head}"
    );
    cases.split("\n\n").map(|text| Case { text })
}

impl<'a> Case<'a> {
    /// Returns the rest of each line that begins with `mark`.
    pub fn marked(self, mark: &'static str) -> impl Iterator<Item = &'a str> {
        self.text.lines().filter_map(move |line| line.strip_prefix(mark))
    }

    /// Returns the name: the line that begins with `== `.
    pub fn name(self) -> &'a str {
        self.marked("== ").next().unwrap_or_else(|| panic!("no `== NAME` in:\n{}", self.text))
    }

    /// Returns the expected results: the lines that begin with `=> `.
    pub fn expected(self) -> Vec<&'a str> {
        self.marked("=> ").collect()
    }

    /// Returns the lines without a mark: the input.
    pub fn input(self) -> String {
        let is_marked = |line: &str| ["# ", "== ", "=> ", "++ "].iter().any(|mark| line.starts_with(mark));
        self.text.split_inclusive('\n').filter(|line| !is_marked(line)).collect()
    }
}
