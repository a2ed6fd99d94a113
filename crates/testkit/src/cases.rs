// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cases of tests in text files. The first block of a file describes it. An empty line ends a block.

/// A case: a block of lines. A line may begin with a mark: `# ` (a comment), `== ` (its name), `=> ` or another word (an expected result).
#[derive(Clone, Copy)]
pub struct Case<'a> {
    /// All lines of the case.
    pub text: &'a str,
}

/// Returns the cases of a file: all blocks but the first.
pub fn cases(file: &str) -> impl Iterator<Item = Case<'_>> {
    file.trim_end().split("\n\n").skip(1).map(|text| Case { text })
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
