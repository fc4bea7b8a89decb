//! The arguments of a scenario.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use forebay_units::{Nanos, Rate};

use super::{MAX_TIME, ScenarioError, units};

/// The arguments that have not been read yet.
#[derive(Debug)]
pub(super) struct Arguments(BTreeMap<String, String>);

impl Arguments {
    /// Splits a scenario into its name and its arguments.
    pub(super) fn parse(text: &str) -> Result<(String, Self), ScenarioError> {
        let mut words = text.split_whitespace();
        let name = words.next().ok_or(ScenarioError::Empty)?.to_owned();
        let mut arguments = BTreeMap::new();
        for word in words {
            let form = || ScenarioError::Form(word.to_owned());
            // ns-3 takes one hyphen too.
            let argument = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
            let (name, value) = argument.and_then(|a| a.split_once('=')).ok_or_else(form)?;
            if name.is_empty() {
                return Err(form());
            }
            if arguments.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(ScenarioError::Twice(name.to_owned()));
            }
        }
        Ok((name, Self(arguments)))
    }

    /// Removes an argument and returns its value.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Refuses arguments that were not read.
    pub(super) fn end(&self, scenario: &str) -> Result<(), ScenarioError> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(argument) => Err(ScenarioError::NoArgument {
                scenario: scenario.to_owned(),
                argument: argument.clone(),
            }),
        }
    }

    pub(super) fn time(&mut self, name: &'static str) -> Result<Option<Nanos>, ScenarioError> {
        self.value(name, "a time of at most an hour, such as 15ms", |value| {
            units::time(value).filter(|time| *time <= MAX_TIME)
        })
    }

    pub(super) fn rate(&mut self, name: &'static str) -> Result<Option<Rate>, ScenarioError> {
        self.value(name, "a rate from 1kbps to 100Gbps, such as 10Mbps", |value| {
            let range = Rate::from_bps(1_000)..=Rate::from_mbps(100_000);
            units::rate(value).filter(|rate| range.contains(rate))
        })
    }

    pub(super) fn number(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u32>,
        must: &'static str,
    ) -> Result<Option<u32>, ScenarioError> {
        self.value(name, must, |value| value.parse().ok().filter(|n| range.contains(n)))
    }

    fn value<T>(
        &mut self,
        name: &'static str,
        must: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ScenarioError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match read(&value) {
            Some(read) => Ok(Some(read)),
            None => Err(ScenarioError::Value { name, value, must }),
        }
    }
}
