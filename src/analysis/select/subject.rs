//! Makes runs and steps available to queries.

use crate::analysis::columns::{Column, StepSubject};
use crate::analysis::query::Subject;
use crate::analysis::summary::Summary;

/// A run, as far as its summary describes it: the values of its columns, and the state keys that
/// some step changed.
impl Subject for Summary {
    fn text(&self, out: &mut dyn FnMut(&str)) {
        out(self.key.as_str());
        out(&self.verdict.sentence);
        out(&self.verdict.second);
        let texts = [
            self.run_id.as_deref(),
            self.task.as_deref(),
            self.model.as_deref(),
            self.answer.as_deref(),
        ];
        texts.into_iter().flatten().for_each(&mut *out);
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

    fn is_recorded(&self, field: &Column) -> bool {
        field.is_recorded(self)
    }

    fn changed(&self, key: &str) -> bool {
        self.changed
            .iter()
            .any(|changed| changed.eq_ignore_ascii_case(key))
    }
}

/// A step, as far as its index describes it. Fields of whole runs, such as `stop` and `model`,
/// match no step.
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

    fn is_recorded(&self, field: &Column) -> bool {
        field.is_recorded_in_step(self)
    }

    fn changed(&self, key: &str) -> bool {
        StepSubject::changed(self, key)
    }
}
