//! Draws the steps of a run under a rule as a row of cells, using a few paths.

use askama::Template;
use askama::filters::HtmlSafe;

/// The result of a rule at one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    /// The rule was evaluated, and the run would have continued.
    Requested,
    Fires,
    /// The run would have ended earlier.
    Beyond,
    /// The result is unknown.
    Unknown,
}

/// Limits the columns. In longer runs, each column covers several steps.
const MAX_COLUMNS: usize = 200;
const WIDTH: f64 = 190.0;
/// The minimum width of a firing cell, so that it stays easy to see.
const MIN_FIRES: f64 = 3.0;

/// Returns how many steps one column covers in a run of `steps` steps.
pub(super) fn steps_per_column(steps: usize) -> usize {
    steps.div_ceil(MAX_COLUMNS).max(1)
}

/// A row of cells as four paths. Each kind has its own shape, so that color isn't the only
/// difference.
#[derive(Debug, Clone, Default, PartialEq, Eq, Template)]
#[template(path = "whatif/cells.html")]
pub(super) struct Cells {
    /// Steps after which the run would have continued: a tall block.
    pub requested: String,
    /// Steps where the rule fires: the tallest block.
    pub fires: String,
    /// Steps that would not have run: a line.
    pub beyond: String,
    /// Steps with an unknown result: two lines.
    pub unknown: String,
}

impl HtmlSafe for Cells {}

impl Cells {
    /// Draws the cells of all steps.
    pub(super) fn new(cells: &[Cell]) -> Self {
        let columns: Vec<Cell> = cells
            .chunks(steps_per_column(cells.len()))
            .map(column)
            .collect();
        let pitch = (WIDTH / columns.len().max(1) as f64).min(14.0);
        // Gaps separate the steps if there is room.
        let gap = if pitch >= 5.0 { 2.0 } else { 0.0 };
        let mut drawn = Self::default();
        let mut start = 0;
        for stretch in columns.chunk_by(|a, b| a == b && gap == 0.0 && *a != Cell::Fires) {
            let x = start as f64 * pitch;
            let width = stretch.len() as f64 * pitch - gap;
            start += stretch.len();
            let block = |x: f64, width: f64, y: f64, height: f64| {
                format!("M{x:.1} {y}h{width:.1}v{height}h-{width:.1}z")
            };
            match stretch.first() {
                Some(Cell::Requested) => drawn.requested.push_str(&block(x, width, 2.0, 10.0)),
                Some(Cell::Fires) => {
                    let wide = width.max(MIN_FIRES);
                    drawn
                        .fires
                        .push_str(&block(x.min(WIDTH - wide), wide, 0.0, 14.0));
                }
                Some(Cell::Beyond) => drawn.beyond.push_str(&block(x, width, 6.0, 2.0)),
                Some(Cell::Unknown) => {
                    drawn.unknown.push_str(&block(x, width, 2.0, 2.0));
                    drawn.unknown.push_str(&block(x, width, 10.0, 2.0));
                }
                None => {}
            }
        }
        drawn
    }
}

/// Returns the cell for a column of several steps. Rare results take precedence so that they stay
/// visible.
fn column(steps: &[Cell]) -> Cell {
    let rank = |cell: &Cell| match cell {
        Cell::Fires => 0,
        Cell::Unknown => 1,
        Cell::Requested => 2,
        Cell::Beyond => 3,
    };
    steps
        .iter()
        .copied()
        .min_by_key(rank)
        .unwrap_or(Cell::Beyond)
}

#[cfg(test)]
mod tests {
    use crate::page::whatif::cells::*;

    fn row(requested: usize, then: Cell, beyond: usize) -> Vec<Cell> {
        let mut cells = vec![Cell::Requested; requested];
        cells.push(then);
        cells.extend(vec![Cell::Beyond; beyond]);
        cells
    }

    #[test]
    fn a_short_run_has_a_cell_for_each_step() {
        let cells = Cells::new(&row(2, Cell::Fires, 1));
        assert_eq!(
            cells.requested,
            "M0.0 2h12.0v10h-12.0zM14.0 2h12.0v10h-12.0z"
        );
        assert_eq!(cells.fires, "M28.0 0h12.0v14h-12.0z");
        assert_eq!(cells.beyond, "M42.0 6h12.0v2h-12.0z");
        assert_eq!(cells.unknown, "");
        assert_eq!(Cells::new(&[]), Cells::default());
    }

    #[test]
    fn a_long_run_is_thinned_and_still_shows_where_it_fires() {
        assert_eq!(
            (
                steps_per_column(200),
                steps_per_column(201),
                steps_per_column(0)
            ),
            (1, 2, 1)
        );
        for at in [0, 777, 19_999] {
            let cells = Cells::new(&row(at, Cell::Fires, 19_999 - at));
            assert_eq!(cells.fires.matches('M').count(), 1, "{cells:?}");
            assert!(cells.fires.contains("h3.0"), "{cells:?}");
            assert!(
                cells.requested.len() + cells.beyond.len() < 120,
                "{cells:?}"
            );
        }
        let end = Cells::new(&row(19_999, Cell::Fires, 0)).fires;
        assert!(end.starts_with("M187.0 "), "it stays inside: {end}");
        let unknown = Cells::new(&row(1000, Cell::Unknown, 0));
        assert_eq!(
            unknown.unknown.matches('M').count(),
            2,
            "two lines: {unknown:?}"
        );
    }
}
