//! Draws a heat map of many critics: a row for each critic, and a column for one or several steps.
//! Lower scores are darker.

use std::fmt::Write as _;

use crate::analysis::format;
use crate::analysis::scores::{Lane, Scores, share};
use crate::page::part::text::one_line;
use crate::page::run_view::RunView;
use crate::page::scores::plot::{Px, ticks};

/// Maximum number of columns.
const COLUMNS: usize = 300;
/// Maximum number of rows.
const ROWS: usize = 40;
/// The number of shades.
const SHADES: usize = 10;
/// The width of all columns. They are stretched to the width of the page, but names and step labels
/// aren't.
const WIDTH: f64 = 1000.0;
const ROW: f64 = 20.0;

/// A heat map of critics and steps. Each critic is shaded on its own axis. A column shows its
/// lowest score.
pub(crate) struct Heat<'a> {
    view: &'a RunView<'a>,
    scores: &'a Scores,
    columns: usize,
}

impl<'a> Heat<'a> {
    pub(crate) fn new(view: &'a RunView<'a>, scores: &'a Scores) -> Self {
        Self {
            view,
            scores,
            columns: scores.steps.clamp(1, COLUMNS),
        }
    }

    fn lanes(&self) -> &'a [Lane] {
        self.scores.lanes.get(..ROWS).unwrap_or(&self.scores.lanes)
    }

    pub(crate) fn label(&self) -> String {
        format!(
            "Scores of {} by step",
            format::counted(self.lanes().len(), "critic")
        )
    }

    /// Explains a column, and states how many critics aren't drawn.
    pub(crate) fn caption(&self) -> String {
        let per = self.scores.steps.div_ceil(self.columns);
        let mut caption = if per > 1 {
            format!("each column shows the lowest score of {per} steps")
        } else {
            "darker means a lower score".to_owned()
        };
        let more = self.scores.lanes.len() - self.lanes().len();
        if more > 0 {
            let _ = write!(
                caption,
                ", {} not shown",
                format::counted(more, "more critic")
            );
        }
        caption
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.lanes().len() as f64 * ROW
    }

    /// Returns the critics' names, each with the y coordinate of its baseline.
    pub(crate) fn names(&self) -> impl Iterator<Item = (Px, String)> {
        let name =
            |(row, lane): (usize, &Lane)| (Px(row as f64 * ROW + 14.0), one_line(&lane.name, 24).0);
        self.lanes().iter().enumerate().map(name)
    }

    fn column_width(&self) -> f64 {
        WIDTH / self.columns as f64
    }

    /// Returns the step labels along the lower edge, with their position in percent of the width.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = (Px, String)> {
        let steps = self.scores.steps.max(1) as f64;
        ticks(self.scores.steps, 20)
            .map(move |n| (Px((n as f64 + 0.5) * 100.0 / steps), self.view.label(n)))
    }

    /// Returns the opacity and the path of each shade's cells.
    pub(crate) fn shades(&self) -> Vec<(String, String)> {
        let width = self.column_width();
        let mut paths = vec![String::new(); SHADES + 1];
        for (row, lane) in self.lanes().iter().enumerate() {
            let top = row as f64 * ROW + 1.0;
            let cells = self.cells(lane);
            let mut start = 0;
            for stretch in cells.chunk_by(|a, b| a == b) {
                let (x, wide) = (Px(start as f64 * width), Px(stretch.len() as f64 * width));
                start += stretch.len();
                if let Some(path) = stretch
                    .first()
                    .copied()
                    .flatten()
                    .and_then(|shade| paths.get_mut(shade))
                {
                    let _ = write!(path, "M{x} {top}h{wide}v{}h-{wide}z", ROW - 2.0);
                }
            }
        }
        let opacity =
            |shade: usize| format!("{:.2}", 0.06 + 0.94 * (1.0 - shade as f64 / SHADES as f64));
        let shades = paths
            .into_iter()
            .enumerate()
            .filter(|(_, path)| !path.is_empty());
        shades.map(|(shade, path)| (opacity(shade), path)).collect()
    }

    /// Returns the shade of each column. `None` means that none of its steps has a score.
    fn cells(&self, lane: &Lane) -> Vec<Option<usize>> {
        let range = lane.range();
        let mut cells: Vec<Option<usize>> = vec![None; self.columns];
        for (n, score) in lane.scores() {
            let shade = (share(range, score) * SHADES as f64).round() as usize;
            if let Some(cell) = cells.get_mut(n * self.columns / self.scores.steps.max(1)) {
                *cell = Some(cell.map_or(shade, |lowest| lowest.min(shade)));
            }
        }
        cells
    }
}
