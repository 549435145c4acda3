//! Places the steps of one run on the axis of another, so that steps with the same tool calls
//! overlap.

use crate::analysis::compare::align;
use crate::model::Index;

/// Returns the position of each step of `b`, in steps of `a`.
///
/// A step that is aligned with one of `a` has its position. Steps found only in `b` share the space
/// between their neighbors. After the end of `a`, each takes a whole step.
pub fn aligned(a: &Index, b: &Index) -> Vec<f64> {
    let mut places = vec![0.0; b.steps().len()];
    let mut last = -1.0;
    let mut own: Vec<usize> = Vec::new();
    for pair in align(a, b) {
        match (pair.a, pair.b) {
            (Some(a), b) => {
                spread(&mut places, &own, last, 1.0 / (own.len() as f64 + 1.0));
                own.clear();
                last = a as f64;
                if let Some(place) = b.and_then(|b| places.get_mut(b)) {
                    *place = last;
                }
            }
            (None, Some(b)) => own.push(b),
            (None, None) => {}
        }
    }
    spread(&mut places, &own, last, 1.0);
    places
}

fn spread(places: &mut [f64], steps: &[usize], from: f64, distance: f64) {
    for (at, step) in steps.iter().enumerate() {
        if let Some(place) = places.get_mut(*step) {
            *place = (from + (at as f64 + 1.0) * distance).max(0.0);
        }
    }
}
