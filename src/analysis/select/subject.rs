//! What does a query see of a run, and of one step?

use crate::analysis::columns::{Column, StepSubject};
use crate::analysis::query::Subject;
use crate::analysis::summary::Summary;

/// A run, as far as its summary tells: what its columns hold, and which keys of the state some step changed.
impl Subject for Summary {
    fn text(&self, out: &mut dyn FnMut(&str)) {
        out(self.key.as_str());
        out(&self.verdict.sentence);
        out(&self.verdict.second);
        [&self.run_id, &self.task, &self.model, &self.answer]
            .into_iter()
            .flatten()
            .for_each(|text| out(text));
        self.titles.iter().for_each(|text| out(text));
    }

    fn words(&self, field: &Column, out: &mut dyn FnMut(&str)) {
        field.words(self, out);
    }

    fn numbers(&self, field: &Column, out: &mut dyn FnMut(f64)) {
        field.number(self).into_iter().for_each(out);
    }

    fn flag(&self, field: &Column) -> Option<bool> {
        field.flag(self)
    }

    fn changed(&self, key: &str) -> bool {
        self.changed
            .iter()
            .any(|changed| changed.eq_ignore_ascii_case(key))
    }
}

/// A step, as far as its index tells. What belongs to runs alone, such as `stop` and `model`, finds no step.
impl Subject for StepSubject<'_> {
    fn text(&self, out: &mut dyn FnMut(&str)) {
        self.texts(out);
    }

    fn words(&self, field: &Column, out: &mut dyn FnMut(&str)) {
        field.words_of_step(self, out);
    }

    fn numbers(&self, field: &Column, out: &mut dyn FnMut(f64)) {
        field.numbers_of_step(self, out);
    }

    fn flag(&self, field: &Column) -> Option<bool> {
        field.flag_of_step(self)
    }

    fn changed(&self, key: &str) -> bool {
        StepSubject::changed(self, key)
    }
}
