//! How is a threshold taken hold of? A handle at the edge of a picture, for the pointer and for the keyboard.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::page::scores::plot::{Frame, Level, Px};

/// The handle of a threshold, at the lower edge where there is none. It needs scripts; without them the field is typed.
#[derive(Debug, Clone, Template)]
#[template(path = "scores/hand.html")]
pub(crate) struct Hand<'a> {
    frame: Frame,
    /// The critic whose lane it stands in; empty where it is for all.
    critic: &'a str,
    threshold: Option<f64>,
    level: Option<Level>,
}

impl HtmlSafe for Hand<'_> {}

impl<'a> Hand<'a> {
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
        self.level.as_ref().map_or("≤", |level| level.text.as_str())
    }
}
