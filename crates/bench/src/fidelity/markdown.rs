// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scores as Markdown tables, inserted into a page between named marks.

use super::Ablation;
use crate::BenchError;
use crate::score::GroupScore;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Returns `page` with the text between the marks of `name` replaced by `text`.
///
/// # Errors
/// The page lacks these marks.
pub fn insert(page: &str, name: &str, text: &str) -> Result<String, BenchError> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let parts = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, behind) = parts
        .ok_or_else(|| BenchError::Unknown(format!("the page has no `{}` with an end mark", begin.trim())))?;
    Ok(format!("{before}{begin}{text}{end}{behind}"))
}

/// Returns tables of scores: for each group one with a row for each family and a column for each of `columns`, then for each of
/// `columns` one with a row for each server and a column for each family.
pub fn scores(columns: &[(&str, &[GroupScore])]) -> String {
    let groups: BTreeSet<&str> = columns.iter().flat_map(|(_, s)| s.iter().map(|g| g.group)).collect();
    let mut out = String::new();
    for group in groups {
        let of = |scores: &[GroupScore]| scores.iter().find(|g| g.group == group).cloned();
        let found: Vec<Option<GroupScore>> = columns.iter().map(|(_, s)| of(s)).collect();
        let rows = found.iter().flatten().map(|g| g.rows).max().unwrap_or(0);
        let heads: String = columns.iter().map(|(name, _)| format!(" {name} |")).collect();
        let lines: String = columns.iter().map(|_| "---|").collect();
        let _ = writeln!(out, "**{group}** ({rows} rows)\n\n| family |{heads}\n|---|{lines}");
        let families: BTreeSet<&str> =
            found.iter().flatten().flat_map(|g| g.mape_percent.keys().copied()).collect();
        for family in families {
            let cell = |g: &Option<GroupScore>| g.as_ref().and_then(|g| g.mape_percent.get(family).copied());
            line(&mut out, family, found.iter().map(cell));
        }
        line(&mut out, "knees found", found.iter().map(|g| g.as_ref()?.knee_percent));
        line(&mut out, "edges found", found.iter().map(|g| g.as_ref()?.edge_percent));
        line(&mut out, "rank correlation", found.iter().map(|g| g.as_ref()?.rank_percent));
        line(&mut out, "99.9th percentile of latencies", found.iter().map(|g| g.as_ref()?.p999_percent));
        line(&mut out, "maximum of latencies", found.iter().map(|g| g.as_ref()?.max_percent));
        out.push('\n');
    }
    for (name, groups) in columns {
        by_server(&mut out, name, groups);
    }
    out
}

fn by_server(out: &mut String, name: &str, groups: &[GroupScore]) {
    let families: BTreeSet<&str> = groups.iter().flat_map(|g| g.mape_percent.keys().copied()).collect();
    let heads: String = families.iter().map(|family| format!(" {family} |")).collect();
    let lines: String = families.iter().map(|_| "---|").collect();
    let _ = writeln!(out, "**By server, {name}**\n\n| server |{heads}\n|---|{lines}");
    for (server, errors) in groups.iter().flat_map(|g| &g.mape_percent_by_server) {
        line(out, server, families.iter().map(|family| errors.get(family).copied()));
    }
    out.push('\n');
}

/// Returns a table of the effect of each mechanism: the growth of each family's error without the mechanism, in
/// percentage points, in the first group of scores.
pub fn ablation(all: &[GroupScore], ablations: &[Ablation]) -> String {
    let Some(base) = all.first() else { return String::new() };
    let heads: String = base.mape_percent.keys().map(|family| format!(" {family} |")).collect();
    let lines: String = base.mape_percent.keys().map(|_| "---|").collect();
    let mut out = format!("| without |{heads}\n|---|{lines}\n");
    for ablation in ablations {
        let Some(scores) = ablation.scores.iter().find(|g| g.group == base.group) else { continue };
        let _ = write!(out, "| {} |", ablation.name);
        for (family, error) in &base.mape_percent {
            let grown = scores.mape_percent.get(family).map_or(0.0, |e| e - error);
            let _ = match grown.abs() < 0.05 {
                true => write!(out, " |"),
                false => write!(out, " {grown:+.1} |"),
            };
        }
        out.push('\n');
    }
    out
}

fn line(out: &mut String, name: &str, cells: impl Iterator<Item = Option<f64>>) {
    let cells: String = cells.map(|c| c.map_or(" |".into(), |c| format!(" {c:.1} % |"))).collect();
    let _ = writeln!(out, "| {name} |{cells}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insert_replaces_text_between_marks() {
        let page = "a\n<!-- scores -->\nold\n<!-- /scores -->\nb\n";
        let new = insert(page, "scores", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- scores -->\nnew\n<!-- /scores -->\nb\n");
        assert_eq!(insert(&new, "scores", "new\n").unwrap(), new);
        assert!(insert(page, "ablation", "x").is_err());
    }
}
