// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict on an experiment: the paper's numbers next to riser's, and whether the paper's shapes (a step's sign, a
//! knee, an order) are in riser's rows. An experiment computes it from its rows; it does not depend on the paper.

use super::table::{Cell, Column, Table};
use serde::{Serialize, Serializer};

/// The comparison of an experiment with its paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Verdict {
    /// Result of the comparison.
    pub outcome: Outcome,
    /// Shapes of the paper's figure.
    pub shapes: Vec<Shape>,
    /// Numbers that the paper states.
    pub numbers: Vec<Compared>,
}

/// Result of a comparison, in the order of its quality.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every shape is in riser's rows, and every number is within its limit.
    Reproduced,
    /// Every shape is in riser's rows, and some number is not within its limit.
    ShapeReproduced,
    /// Some shape is not in riser's rows.
    NotReproduced,
    /// The experiment compares nothing with a paper.
    #[default]
    NotCompared,
    /// The experiment has no result here.
    NotRun,
}

/// A property of a curve or a set of values in the paper.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Shape {
    /// Kind of the property.
    pub kind: Kind,
    /// The paper's property, in words.
    pub paper: String,
    /// Riser's values.
    pub riser: String,
    /// Whether riser's values have the property.
    pub reproduced: bool,
}

/// Kinds of shapes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Direction of a step from one value to the next.
    Sign,
    /// The first x at which a curve is on the other side of a threshold.
    Knee,
    /// Order of several values.
    Order,
}

/// Direction of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Rises,
    Falls,
}

/// Largest difference that counts as agreement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Limit {
    /// In the unit of the number: percentage points for a percentage.
    Points(f64),
    /// In per cent of the paper's number.
    Percent(f64),
}

/// Limit of a number whose paper states no error, in per cent of the number.
const USUAL_PERCENT: f64 = 10.0;

/// A number of the paper and riser's.
#[derive(Clone, PartialEq, Debug)]
pub struct Compared {
    /// Name of the number.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// The paper's number.
    pub paper: f64,
    /// Riser's number.
    pub riser: f64,
    /// Largest difference that counts as agreement.
    pub limit: Limit,
}

impl Verdict {
    /// Returns the verdict on these shapes and numbers.
    pub(super) fn of(shapes: Vec<Shape>, numbers: Vec<Compared>) -> Verdict {
        let outcome = if shapes.is_empty() && numbers.is_empty() {
            Outcome::NotCompared
        } else if shapes.iter().any(|shape| !shape.reproduced) {
            Outcome::NotReproduced
        } else if numbers.iter().any(|number| !number.is_within()) {
            Outcome::ShapeReproduced
        } else {
            Outcome::Reproduced
        };
        Verdict { outcome, shapes, numbers }
    }

    /// Returns the verdict on an experiment that has no result.
    pub fn not_run() -> Verdict {
        Verdict { outcome: Outcome::NotRun, ..Verdict::default() }
    }

    /// Returns the verdict in one line; `None` if nothing is compared.
    pub fn line(&self) -> Option<String> {
        let missed: Vec<&str> =
            self.shapes.iter().filter(|shape| !shape.reproduced).map(|shape| shape.paper.as_str()).collect();
        let within = self.numbers.iter().filter(|number| number.is_within()).count();
        let numbers = format!("{within} of {} numbers within their limits", self.numbers.len());
        let shapes = format!("{0} of {0} shapes", self.shapes.len());
        match self.outcome {
            Outcome::Reproduced => Some(format!("reproduced: {shapes}, {numbers}")),
            Outcome::ShapeReproduced => {
                Some(format!("shape reproduced, not all numbers: {shapes}, {numbers}"))
            }
            Outcome::NotReproduced => Some(format!("NOT REPRODUCED: {}; {numbers}", missed.join("; "))),
            Outcome::NotRun if self.shapes.is_empty() => Some("not run here, and not reproduced".into()),
            Outcome::NotRun => Some("only a part was run here, and not reproduced".into()),
            Outcome::NotCompared => None,
        }
    }
}

const SHAPES: &[Column] = &[
    Column { key: "paper", head: "the paper's shape" },
    Column { key: "riser", head: "riser" },
    Column { key: "reproduced", head: "reproduced" },
];

const NUMBERS: &[Column] = &[
    Column { key: "what", head: "number" },
    Column { key: "paper", head: "paper" },
    Column { key: "riser", head: "riser" },
    Column { key: "difference", head: "difference" },
    Column { key: "limit", head: "limit" },
    Column { key: "within", head: "within" },
];

fn yes_or_no(is: bool) -> Cell {
    Cell::Text(if is { "yes" } else { "NO" }.into())
}

impl Verdict {
    /// Returns the comparison as tables: shapes, then numbers. A table without rows is left out.
    pub fn tables(&self) -> Vec<Table> {
        let shape = |s: &Shape| {
            vec![Cell::Text(s.paper.clone()), Cell::Text(s.riser.clone()), yes_or_no(s.reproduced)]
        };
        let number = |n: &Compared| {
            let [paper, riser] = n.values_text().map(Cell::Text);
            let (difference, limit) = (Cell::Text(n.difference_text()), Cell::Text(n.limit_text()));
            vec![Cell::Text(n.what.clone()), paper, riser, difference, limit, yes_or_no(n.is_within())]
        };
        let (shapes, numbers) = (self.shapes.iter().map(shape), self.numbers.iter().map(number));
        let tables = [
            Table { title: "The paper's shapes".into(), columns: SHAPES, rows: shapes.collect() },
            Table { title: "The paper's numbers".into(), columns: NUMBERS, rows: numbers.collect() },
        ];
        tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
    }
}

impl Outcome {
    /// All outcomes, in order.
    pub const ALL: [Outcome; 5] = [
        Outcome::Reproduced,
        Outcome::ShapeReproduced,
        Outcome::NotReproduced,
        Outcome::NotCompared,
        Outcome::NotRun,
    ];

    /// Returns the name in summaries.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Reproduced => "reproduced",
            Outcome::ShapeReproduced => "only the shape reproduced",
            Outcome::NotReproduced => "not reproduced",
            Outcome::NotCompared => "without a comparison",
            Outcome::NotRun => "not run here",
        }
    }
}

impl Shape {
    /// Returns the shape "`what` rises (or falls) from `x[0]` to `x[1]`", for the values of `what` at both.
    pub(super) fn sign(what: &str, step: Step, x: [&str; 2], values: [f64; 2]) -> Shape {
        let (verb, reproduced) = match step {
            Step::Rises => ("rises", values[1] > values[0]),
            Step::Falls => ("falls", values[1] < values[0]),
        };
        Shape {
            kind: Kind::Sign,
            paper: format!("{what} {verb} from {} to {}", x[0], x[1]),
            riser: format!("{} to {}", short(values[0]), short(values[1])),
            reproduced,
        }
    }

    /// Returns the shape "`what`": in each pair, the first value is greater than the second.
    pub(super) fn above(what: &str, pairs: &[(f64, f64)]) -> Shape {
        let reproduced = pairs.iter().all(|(over, under)| over > under);
        let riser: Vec<String> = pairs
            .iter()
            .map(|(over, under)| {
                format!("{} {} {}", short(*over), if over > under { ">" } else { "<=" }, short(*under))
            })
            .collect();
        Shape { kind: Kind::Order, paper: what.to_owned(), riser: riser.join(", "), reproduced }
    }

    /// Returns the shape "`what`": each value is less than the one before it. The first value is the paper's greatest.
    pub(super) fn order(what: &str, values: &[f64]) -> Shape {
        let reproduced = values.windows(2).all(|pair| pair[0] > pair[1]);
        let values: Vec<String> = values.iter().map(|value| short(*value)).collect();
        let riser = values.join(if reproduced { " > " } else { ", " });
        Shape { kind: Kind::Order, paper: what.to_owned(), riser, reproduced }
    }

    /// Returns the shape "`what` is at most `threshold` from `paper` on", for points by increasing x.
    pub(super) fn knee(what: &str, threshold: f64, paper: f64, points: &[(f64, f64)]) -> Shape {
        let after_last = points.iter().rposition(|point| point.1 > threshold).map_or(0, |last| last + 1);
        let found = points.get(after_last).map(|point| point.0);
        Shape {
            kind: Kind::Knee,
            paper: format!("{what} at most {} from {} on", short(threshold), short(paper)),
            riser: found.map_or("never".into(), |x| format!("from {} on", short(x))),
            reproduced: found == Some(paper),
        }
    }
}

/// Writes a value with at most two decimals.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Compared {
    /// Returns the comparison of a number of a paper that states no error: within 10 %.
    pub(super) fn usual(what: impl Into<String>, unit: &str, paper: f64, riser: f64) -> Compared {
        let (what, unit, limit) = (what.into(), unit.to_owned(), Limit::Percent(USUAL_PERCENT));
        Compared { what, unit, paper, riser, limit }
    }

    /// Returns riser's number minus the paper's.
    fn difference(&self) -> f64 {
        self.riser - self.paper
    }

    /// Returns whether the difference is within its limit.
    fn is_within(&self) -> bool {
        let most = match self.limit {
            Limit::Points(points) => points,
            Limit::Percent(percent) => self.paper.abs() * percent / 100.0,
        };
        self.difference().abs() <= most
    }

    /// Returns the unit of differences in [`Limit::Points`]: percentage points for a percentage.
    fn points_unit(&self) -> &str {
        if self.unit == "%" { "points" } else { &self.unit }
    }

    /// Returns the difference as text: in points if the limit is in points, otherwise in per cent of the paper's number.
    fn difference_text(&self) -> String {
        match self.limit {
            Limit::Points(_) => format!("{:+.1} {}", self.difference(), self.points_unit()),
            Limit::Percent(_) => format!("{:+.1} %", 100.0 * self.difference() / self.paper),
        }
    }

    /// Returns the limit as text.
    fn limit_text(&self) -> String {
        match self.limit {
            Limit::Points(points) => format!("{} {}", short(points), self.points_unit()),
            Limit::Percent(percent) => format!("{} %", short(percent)),
        }
    }

    /// Returns the numbers as text: the paper's and riser's.
    fn values_text(&self) -> [String; 2] {
        [self.paper, self.riser].map(|value| format!("{} {}", short(value), self.unit).trim_end().to_owned())
    }
}

impl Serialize for Compared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Keys<'a> {
            what: &'a str,
            unit: &'a str,
            paper: f64,
            riser: f64,
            difference: f64,
            limit: String,
            within: bool,
        }
        Keys {
            what: &self.what,
            unit: &self.unit,
            paper: self.paper,
            riser: self.riser,
            difference: self.difference(),
            limit: self.limit_text(),
            within: self.is_within(),
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(paper: f64, riser: f64, limit: Limit) -> Compared {
        Compared { what: "timeouts".into(), unit: "%".into(), paper, riser, limit }
    }

    #[test]
    fn steps_have_the_sign_of_their_values() {
        for (step, values, reproduced) in [
            (Step::Rises, [1.0, 2.0], true),
            (Step::Rises, [2.0, 2.0], false),
            (Step::Falls, [2.0, 1.0], true),
            (Step::Falls, [1.0, 2.0], false),
        ] {
            let shape = Shape::sign("rate", step, ["x4", "x8"], values);
            assert_eq!(shape.reproduced, reproduced, "{shape:?}");
        }
        let shape = Shape::sign("rate", Step::Falls, ["x4", "x8"], [10.07, 6.6]);
        assert_eq!((&*shape.paper, &*shape.riser), ("rate falls from x4 to x8", "10.07 to 6.6"));
    }

    #[test]
    fn orders_are_strict() {
        assert!(Shape::order("a over b", &[3.0, 2.0, 1.0]).reproduced);
        let equal = Shape::order("a over b", &[3.0, 3.0]);
        assert!(!equal.reproduced);
        assert_eq!(equal.riser, "3, 3");
    }

    #[test]
    fn pairs_compare_one_by_one() {
        let shape = Shape::above("a over b", &[(3.0, 2.0), (1.0, 1.0)]);
        assert_eq!((shape.reproduced, &*shape.riser), (false, "3 > 2, 1 <= 1"));
        assert!(Shape::above("a over b", &[(3.0, 2.0), (1.0, 0.5)]).reproduced);
    }

    /// The knee is after the last value above the threshold, not before the first value below it.
    #[test]
    fn knee_is_where_a_curve_stays_below_the_threshold() {
        let knee = |values: [f64; 4], paper| {
            let points: Vec<_> = [16.0, 20.0, 24.0, 28.0].into_iter().zip(values).collect();
            Shape::knee("timeouts", 5.0, paper, &points)
        };
        assert!(knee([27.0, 20.0, 0.0, 0.0], 24.0).reproduced);
        assert_eq!(knee([27.0, 0.0, 7.0, 0.0], 20.0).riser, "from 28 on");
        assert!(!knee([27.0, 0.0, 7.0, 0.0], 20.0).reproduced);
        assert_eq!(knee([27.0, 20.0, 7.0, 6.0], 24.0).riser, "never");
        assert_eq!(knee([0.0; 4], 16.0).riser, "from 16 on");
    }

    #[test]
    fn limits_are_points_or_per_cent_of_the_paper() {
        assert!(number(27.0, 32.0, Limit::Points(5.0)).is_within());
        assert!(!number(27.0, 21.9, Limit::Points(5.0)).is_within());
        assert!(number(1.67, 1.83, Limit::Percent(10.0)).is_within());
        assert!(!number(1.67, 1.88, Limit::Percent(10.0)).is_within());
        assert_eq!(number(27.0, 28.1, Limit::Points(5.0)).difference_text(), "+1.1 points");
        assert_eq!(number(2.0, 1.5, Limit::Percent(10.0)).difference_text(), "-25.0 %");
    }

    /// A missed shape outweighs numbers, and an experiment that did not run is never reproduced.
    #[test]
    fn outcome_is_the_worst_of_shapes_and_numbers() {
        let shape = |values| vec![Shape::sign("rate", Step::Falls, ["x4", "x8"], values)];
        let near = || vec![number(27.0, 28.0, Limit::Points(5.0))];
        let far = || vec![number(27.0, 5.0, Limit::Points(5.0))];
        for (shapes, numbers, outcome) in [
            (shape([2.0, 1.0]), near(), Outcome::Reproduced),
            (shape([2.0, 1.0]), far(), Outcome::ShapeReproduced),
            (shape([1.0, 2.0]), near(), Outcome::NotReproduced),
            (shape([1.0, 2.0]), far(), Outcome::NotReproduced),
            (Vec::new(), near(), Outcome::Reproduced),
            (Vec::new(), Vec::new(), Outcome::NotCompared),
        ] {
            assert_eq!(Verdict::of(shapes, numbers).outcome, outcome);
        }
        let missed = Verdict::of(shape([1.0, 2.0]), near()).line().unwrap();
        assert_eq!(missed, "NOT REPRODUCED: rate falls from x4 to x8; 1 of 1 numbers within their limits");
        assert!(Verdict::not_run().line().unwrap().contains("not reproduced"));
        assert!(Verdict::default().line().is_none());
    }
}
