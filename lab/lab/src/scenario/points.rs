//! A scenario with some of its keys set from outside: once, or along the axes of a grid.

use std::collections::BTreeSet;
use std::path::Path;

use forebay_config::{ConfigError, Edited, MAX_FILE, Setting, read_text};

use super::rules::MAX_RUNS;
use super::{Experiment, parse};

/// The largest number of different errors that [`Points::errors`] returns.
pub const MAX_ERRORS: usize = 100;

/// The values along one axis. The settings of one value are made together: usually one, several if
/// keys change together.
pub type Axis = Vec<Vec<Setting>>;

/// An error of a scenario.
struct Mistake {
    error: ConfigError,
    /// The setting that the error is about, if there is one.
    cause: Option<Setting>,
}

impl Mistake {
    fn is_of(&self, settings: &[Setting]) -> bool {
        self.cause.as_ref().is_some_and(|cause| settings.contains(cause))
    }
}

/// The text of a scenario with settings, and with axes along which further settings differ. Its
/// points are the cross product of the axes; the last axis varies fastest.
///
/// Points are made when they are asked for, so a grid of any size takes no memory.
#[derive(Clone, Debug)]
pub struct Points<'a> {
    file: &'a Path,
    text: &'a str,
    settings: Vec<Setting>,
    axes: Vec<Axis>,
}

impl<'a> Points<'a> {
    /// Creates the points of the scenario `text`, which errors call `file`. Files that it names are
    /// looked for beside `file`.
    pub fn new(file: &'a Path, text: &'a str, settings: Vec<Setting>, axes: Vec<Axis>) -> Self {
        Self { file, text, settings, axes }
    }

    /// The number of points; zero if an axis has no values.
    pub fn len(&self) -> usize {
        self.axes.iter().fold(1, |points: usize, axis| points.saturating_mul(axis.len()))
    }

    /// Whether an axis has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the settings of the axes at point `index`, which must be below [`Points::len`].
    pub fn point(&self, index: usize) -> Vec<Setting> {
        let mut rest = index;
        let mut values: Vec<_> = (self.axes.iter().rev())
            .map(|axis| {
                let value = &axis[rest % axis.len()];
                rest /= axis.len();
                value
            })
            .collect();
        values.reverse();
        values.into_iter().flatten().cloned().collect()
    }

    /// Returns the experiment with the settings of all points, and with those of one point.
    ///
    /// # Errors
    ///
    /// If a key has no place in the scenario, or the scenario cannot be run with these values.
    pub fn experiment(&self, point: &[Setting]) -> Result<Experiment, ConfigError> {
        self.read(&self.with(point)).map_err(|mistake| mistake.error)
    }

    /// Reads an experiment with some settings.
    fn read(&self, settings: &[Setting]) -> Result<Experiment, Box<Mistake>> {
        let edited = Edited::new(self.file, self.text, settings).map_err(|error| {
            let cause = settings.iter().find(|s| s.key() == error.key).cloned();
            Box::new(Mistake { error, cause })
        })?;
        parse(self.file, edited.text()).map_err(|error| {
            let cause = edited.cause(&error).cloned();
            Box::new(Mistake { error: edited.explain(error), cause })
        })
    }

    /// Returns the settings of all points, followed by those of one point.
    fn with(&self, point: &[Setting]) -> Vec<Setting> {
        self.settings.iter().chain(point).cloned().collect()
    }

    /// Returns the error that `value` causes with the settings of all points, or alone if others of
    /// these cause another error first.
    fn error_of(&self, value: &[Setting]) -> Option<ConfigError> {
        let mistake = self.read(&self.with(value)).err()?;
        if mistake.is_of(value) {
            return Some(mistake.error);
        }
        mistake.cause?;
        self.read(value).err().filter(|mistake| mistake.is_of(value)).map(|mistake| mistake.error)
    }

    /// Returns what is wrong with the points: each error once, at most [`MAX_ERRORS`].
    ///
    /// Each setting, and each value of an axis, is tried alone too, so that an error does not hide
    /// those of others. Calls `checked` with the number of points checked so far, now and then; if
    /// it returns false, the check ends.
    pub fn errors(&self, mut checked: impl FnMut(usize) -> bool) -> Vec<ConfigError> {
        let (mut seen, mut errors) = (BTreeSet::new(), Vec::new());
        // An error that no setting alone causes is told with the first point that has it.
        let mut add = |mut error: ConfigError, point: &[Setting]| {
            if seen.insert(error.to_string()) {
                if !point.is_empty() {
                    let point: Vec<_> = point.iter().map(ToString::to_string).collect();
                    error.message = format!("{} (at {})", error.message, point.join(", "));
                }
                errors.push(error);
            }
            errors.len() < MAX_ERRORS
        };
        let settings = self.settings.iter().map(std::slice::from_ref);
        for value in settings.chain(self.axes.iter().flatten().map(Vec::as_slice)) {
            if let Some(error) = self.error_of(value)
                && !add(error, &[])
            {
                return errors;
            }
        }
        for index in 0..self.len() {
            if index % 256 == 0 && !checked(index) {
                break;
            }
            let point = self.point(index);
            if let Err(mistake) = self.read(&self.with(&point))
                && !add(mistake.error, if mistake.cause.is_some() { &[] } else { &point })
            {
                break;
            }
        }
        errors
    }

    /// Joins the experiments of all points to one, whose cells have the axes' values as labels.
    ///
    /// # Errors
    ///
    /// Returns all errors of [`Points::errors`]. It also fails if an axis is empty or sets `seeds`,
    /// or if there are more runs than an experiment may have.
    pub fn joined(&self) -> Result<Experiment, Vec<ConfigError>> {
        let fail = |key: &str, message: String| {
            let file = self.file.to_owned();
            vec![ConfigError { file, line: None, key: key.to_owned(), message }]
        };
        if self.is_empty() {
            return Err(fail("", "an axis of the grid has no values".to_owned()));
        }
        if self.axes.iter().flatten().flatten().any(|s| s.key() == "seeds") {
            let what = "is no axis of a grid: set all seeds, such as --set seeds=[1,2,3]";
            return Err(fail("seeds", what.to_owned()));
        }
        let too_many = |runs: usize| {
            fail("", format!("the grid makes {runs} runs or more, {MAX_RUNS} are allowed"))
        };
        if self.len() > MAX_RUNS {
            return Err(too_many(self.len()));
        }
        let errors = self.errors(|_| true);
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut joined: Option<Experiment> = None;
        for index in 0..self.len() {
            let point = self.point(index);
            let mut experiment = self.experiment(&point).map_err(|error| vec![error])?;
            for cell in &mut experiment.cells {
                let labels = point.iter().map(|s| (s.key().to_owned(), s.shown()));
                cell.labels.extend(labels);
            }
            let all = match &mut joined {
                None => joined.insert(experiment),
                Some(all) => {
                    all.cells.append(&mut experiment.cells);
                    all
                }
            };
            let runs = all.cells.iter().map(|c| c.arms.len()).sum::<usize>() * all.seeds.len();
            if runs > MAX_RUNS {
                return Err(too_many(runs));
            }
        }
        joined.ok_or_else(|| fail("", "the grid has no points".to_owned()))
    }
}

/// Reads the scenario file at `path`, sets `settings`, and joins the points of `axes`.
///
/// # Errors
///
/// If the file cannot be read, and under the conditions of [`Points::joined`].
pub fn load_joined(
    path: &Path,
    settings: Vec<Setting>,
    axes: Vec<Axis>,
) -> Result<Experiment, Vec<ConfigError>> {
    let text = read_text(path, MAX_FILE).map_err(|error| vec![error])?;
    Points::new(path, &text, settings, axes).joined()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::DEMO;

    fn points(settings: &[&str], axes: &[&str]) -> Points<'static> {
        let settings = settings.iter().map(|s| Setting::parse(s).unwrap()).collect();
        let axis =
            |text: &&str| Setting::parse_all(text).unwrap().into_iter().map(|s| vec![s]).collect();
        Points::new("demo.toml".as_ref(), DEMO, settings, axes.iter().map(axis).collect())
    }

    fn errors(settings: &[&str], axes: &[&str]) -> Vec<String> {
        let errors = points(settings, axes).joined().unwrap_err();
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_grid_is_the_product_of_its_axes() {
        let grid = ["path.rate=24 Mbit/s,48 Mbit/s", "traffic.web.load=10%,50%,90%"];
        let points = points(&["seeds=[4,5]"], &grid);
        assert_eq!(points.len(), 6);
        let shown: Vec<_> = points.point(4).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["path.rate=\"48 Mbit/s\"", "traffic.web.load=\"50%\""]);
        let joined = points.joined().unwrap();
        assert_eq!((joined.seeds, joined.cells.len()), (vec![4, 5], 6));
        let cell = &joined.cells[4];
        assert_eq!(cell.path.rate, forebay_units::Rate::from_mbps(48));
        assert_eq!(cell.labels["path.rate"], "48 Mbit/s");
        assert_eq!(cell.labels["traffic.web.load"], "50%");
        let one = points.experiment(&points.point(4)).unwrap();
        assert_eq!(one.cells[0].traffic, cell.traffic);
    }

    #[test]
    fn a_wrong_setting_of_all_points_hides_no_wrong_value() {
        let found = errors(&["path.rat=3", "sites=many"], &["traffic.w.load=1", "path.rtt=3 s,x"]);
        let starts = [
            "demo.toml:12: path.rat: unknown field `rat`",
            "demo.toml:1: sites: invalid type: string \"many\"",
            "demo.toml:17: traffic.w.load: there is no `w`: give one of web, bulk",
            "demo.toml:14: path.rtt: must be at most 2 s (set by path.rtt=\"3 s\")",
            "demo.toml:14: path.rtt: \"x\" is not a span of time",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found}");
        }
    }

    #[test]
    fn without_settings_it_is_the_file() {
        let plain = parse("demo.toml".as_ref(), DEMO).unwrap();
        assert_eq!(points(&[], &[]).joined().unwrap(), plain);
    }

    #[test]
    fn all_errors_come_at_once_and_each_one_once() {
        let found = errors(
            &[],
            &["path.rat=1,2", "traffic.bulk.flows=1,many", "path.rtt=50 ms,3 s", "cooldown=1 s"],
        );
        let starts = [
            "demo.toml:12: path.rat: unknown field `rat`",
            "demo.toml:12: path.rat: unknown field `rat`",
            "demo.toml:29: traffic.flows: invalid type: string \"many\", expected u32 (set by \
             traffic.bulk.flows=\"many\")",
            "demo.toml:14: path.rtt: must be at most 2 s (set by path.rtt=\"3 s\")",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found}");
        }
        assert!(found[0].ends_with("did you mean `rate`? (set by path.rat=1)"), "{}", found[0]);
    }

    #[test]
    fn a_point_that_the_scenario_refuses_is_an_error() {
        let found =
            errors(&[], &["path.rate=96 Mbit/s,40 Mbit/s", "traffic.web.load=30 Mbit/s,48 Mbit/s"]);
        assert_eq!(found.len(), 1, "{found:#?}");
        let end = "offer 48.000 Mbit/s to a path of 40.000 Mbit/s: at most the path's rate is \
                   allowed (at path.rate=\"40 Mbit/s\", traffic.web.load=\"48 Mbit/s\")";
        assert!(found[0].ends_with(end), "{}", found[0]);
    }

    #[test]
    fn a_grid_has_a_bound_and_no_axis_of_seeds() {
        assert_eq!(errors(&[], &["seeds=[1],[2]"]).len(), 1);
        let many = (0..200).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        let axes = [format!("largest_burst={many}"), format!("sites={many}")];
        let found = errors(&[], &[&axes[0], &axes[1]]);
        assert!(found[0].contains("makes 40000 runs or more, 10000 are allowed"), "{}", found[0]);
    }
}
