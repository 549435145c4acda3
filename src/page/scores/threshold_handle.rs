//! Provides the handle that moves a threshold, at the edge of a picture, for pointer and keyboard.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::page::scores::plot::{Frame, Level, Px};

/// The handle of a threshold, at the lower edge if there is no threshold. It needs scripts. Without
/// them, the user types into the field.
#[derive(Debug, Clone, Template)]
#[template(path = "scores/threshold_handle.html")]
pub(crate) struct ThresholdHandle<'a> {
    frame: Frame,
    /// The critic of the lane. Empty if the threshold is for all critics.
    critic: &'a str,
    threshold: Option<f64>,
    level: Option<Level>,
}

impl HtmlSafe for ThresholdHandle<'_> {}

impl<'a> ThresholdHandle<'a> {
    pub(crate) fn new(frame: Frame, critic: &'a str, threshold: Option<f64>) -> Self {
        Self {
            frame,
            critic,
            threshold,
            level: frame.level(threshold),
        }
    }

    fn y(&self) -> Px {
        self.level
            .as_ref()
            .map_or(Px(self.frame.bottom), |level| level.y)
    }

    fn now(&self) -> f64 {
        self.threshold
            .filter(|_| self.level.is_some())
            .unwrap_or(self.frame.range.0)
    }

    fn text(&self) -> &str {
        self.level.as_ref().map_or("<", |level| level.text.as_str())
    }
}
