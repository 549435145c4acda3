//! How do many critics look at once? A row for each critic, a column for each step or several, dark where it is low.

use std::fmt::Write as _;

use crate::analysis::format;
use crate::analysis::scores::{Lane, Scores, share};
use crate::page::part::text::Line;
use crate::page::scores::plot::{Tick, at, ticks};

/// At most so many columns.
const COLUMNS: usize = 300;
/// At most so many rows.
const ROWS: usize = 40;
/// Scores are told apart in so many shades.
const SHADES: usize = 10;
const LEFT: f64 = 180.0;
const WIDTH: f64 = 1182.0;
const ROW: f64 = 20.0;

/// A map of critics and steps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heat {
    /// What it shows.
    pub label: Line,
    /// What is left out, and what a column is.
    pub caption: Line,
    /// Its height.
    pub height: String,
    /// The critics, each with the foot of its name.
    pub rows: Vec<Tick>,
    /// The steps along the lower edge.
    pub ticks: Vec<Tick>,
    /// Where the labels of the steps stand.
    pub ticks_y: String,
    /// The cells of each shade: how opaque it is, and its path.
    pub shades: Vec<(String, String)>,
}

impl Heat {
    /// Draws all lanes; each is shaded on its own axis, and a column has its lowest score.
    pub(crate) fn new(scores: &Scores, label: impl Fn(usize) -> String) -> Self {
        let columns = scores.steps.clamp(1, COLUMNS);
        let width = (WIDTH / columns as f64).min(40.0);
        let mut shades = vec![String::new(); SHADES + 1];
        let mut rows = Vec::new();
        for (row, lane) in scores.lanes.iter().take(ROWS).enumerate() {
            let top = row as f64 * ROW;
            let (name, whole) = crate::page::part::text::one_line(&lane.name, 24);
            rows.push(Tick { at: at(top + 14.0), text: if whole { name } else { name.to_owned() } });
            let cells = cells(lane, scores.steps, columns);
            let mut start = 0;
            for stretch in cells.chunk_by(|a, b| a == b) {
                let x = LEFT + start as f64 * width;
                start += stretch.len();
                let Some(path) = stretch.first().copied().flatten().and_then(|shade| shades.get_mut(shade)) else {
                    continue;
                };
                let wide = stretch.len() as f64 * width;
                let _ = write!(path, "M{x:.1} {}h{wide:.1}v{}h-{wide:.1}z", top + 1.0, ROW - 2.0);
            }
        }
        let height = rows.len() as f64 * ROW;
        let shown = rows.len();
        let opacity = |shade: usize| format!("{:.2}", 0.06 + 0.94 * (1.0 - shade as f64 / SHADES as f64));
        let per = scores.steps.div_ceil(columns);
        let mut caption = if per > 1 {
            format!("a column is {per} steps and has the lowest score of them")
        } else {
            "the lower the score, the darker".to_owned()
        };
        if shown < scores.lanes.len() {
            let _ =
                write!(caption, "; {} more critics are not drawn", format::count((scores.lanes.len() - shown) as u64));
        }
        let place = |n: usize| LEFT + (n as f64 + 0.5) * width * columns as f64 / scores.steps.max(1) as f64;
        Self {
            label: format!("Scores of {} by step", format::counted(shown, "critic")).into(),
            caption: caption.into(),
            height: at(height + 22.0),
            rows,
            ticks: ticks(scores.steps, 20).into_iter().map(|n| Tick { at: at(place(n)), text: label(n) }).collect(),
            ticks_y: at(height + 16.0),
            shades: shades
                .into_iter()
                .enumerate()
                .filter(|(_, path)| !path.is_empty())
                .map(|(shade, path)| (opacity(shade), path))
                .collect(),
        }
    }
}

/// The shade of each column; `None` where no step of it has a score.
fn cells(lane: &Lane, steps: usize, columns: usize) -> Vec<Option<usize>> {
    let range = lane.range();
    let mut cells: Vec<Option<usize>> = vec![None; columns];
    for (n, score) in lane.scores() {
        let shade = (share(range, score) * SHADES as f64).round() as usize;
        if let Some(cell) = cells.get_mut(n * columns / steps.max(1)) {
            *cell = Some(cell.map_or(shade, |lowest| lowest.min(shade)));
        }
    }
    cells
}
