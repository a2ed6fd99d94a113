// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scores as Markdown tables, inserted into a page between named marks.

use super::Ablation;
use crate::BenchError;
use crate::score::GroupScore;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Returns `page` with the text between the marks of `name` replaced by `text`.
///
/// # Errors
/// The page lacks these marks.
pub fn insert(page: &str, name: &str, text: &str) -> Result<String, BenchError> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let parts = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, behind) = parts.ok_or_else(|| {
        BenchError::Unknown(format!("the page has no mark `{}` with an end mark after it", begin.trim()))
    })?;
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

/// Returns tables of the effect of each mechanism, one for each group of scores: the growth of each family's error without the
/// mechanism, in percentage points. Mechanisms without an effect are left out.
pub(super) fn ablation(all: &[GroupScore], ablations: &[Ablation]) -> String {
    all.iter().map(|base| ablation_of(base, ablations)).collect()
}

fn ablation_of(base: &GroupScore, ablations: &[Ablation]) -> String {
    let errors = errors(base);
    let heads: String = errors.iter().map(|(name, _)| format!(" {name} |")).collect();
    let lines: String = errors.iter().map(|_| "---|").collect();
    let mut out = format!("**{}**\n\n| without |{heads}\n|---|{lines}\n", base.group);
    for ablation in ablations {
        let Some(scores) = ablation.scores.iter().find(|g| g.group == base.group) else { continue };
        let is: BTreeMap<_, _> = self::errors(scores).into_iter().collect();
        let grown = |(name, was): &(_, f64)| is.get(name).map_or(0.0, |is| is - was);
        let cells: Vec<f64> = errors.iter().map(grown).collect();
        if cells.iter().all(|grown| grown.abs() < LEAST_POINTS) {
            continue;
        }
        let cells = cells.iter().map(|grown| match grown.abs() < LEAST_POINTS {
            true => " |".to_owned(),
            false => format!(" {grown:+.1} |"),
        });
        let _ = writeln!(out, "| {} |{}", ablation.name, cells.collect::<String>());
    }
    out.push('\n');
    out
}

/// Smallest effect that a table shows, in percentage points.
const LEAST_POINTS: f64 = 0.05;

/// Returns the errors of a group: of each family, and of the tails of latencies.
fn errors(scores: &GroupScore) -> Vec<(&'static str, f64)> {
    let families = scores.mape_percent.iter().map(|(name, error)| (*name, *error));
    let tails = [("99.9 %", scores.p999_percent), ("maximum", scores.max_percent)];
    families.chain(tails.into_iter().filter_map(|(name, error)| Some((name, error?)))).collect()
}

fn line(out: &mut String, name: &str, cells: impl Iterator<Item = Option<f64>>) {
    let cells: String = cells.map(|c| c.map_or(" |".into(), |c| format!(" {c:.1} % |"))).collect();
    let _ = writeln!(out, "| {name} |{cells}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ablation_tables_show_growth_of_errors_by_group() {
        let group = |group, bandwidth, max| GroupScore {
            group,
            rows: 1,
            mape_percent: [("BW_SZ", bandwidth)].into(),
            mape_percent_by_configuration: Default::default(),
            mape_percent_by_server: Default::default(),
            knee_percent: None,
            edge_percent: None,
            rank_percent: None,
            p999_percent: None,
            max_percent: Some(max),
        };
        let all = [group("E5", 2.0, 10.0), group("E3", 20.0, 30.0)];
        let without = |name, scores| Ablation { name, scores };
        let ablations = [
            without("sleep", vec![group("E5", 2.0, 10.01), group("E3", 20.0, 90.0)]),
            without("beats", vec![group("E5", 2.7, 10.0), group("E3", 19.0, 30.0)]),
        ];
        let head = "| without | BW_SZ | maximum |\n|---|---|---|\n";
        let expected = format!(
            "**E5**\n\n{head}| beats | +0.7 | |\n\n**E3**\n\n{head}| sleep | | +60.0 |\n| beats | -1.0 | |\n\n"
        );
        assert_eq!(ablation(&all, &ablations), expected);
    }

    #[test]
    fn insert_replaces_text_between_marks() {
        let page = "a\n<!-- scores -->\nold\n<!-- /scores -->\nb\n";
        let new = insert(page, "scores", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- scores -->\nnew\n<!-- /scores -->\nb\n");
        assert_eq!(insert(&new, "scores", "new\n").unwrap(), new);
        assert!(insert(page, "ablation", "x").is_err());
    }
}
