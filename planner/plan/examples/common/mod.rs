//! The networks that examples run on.

use std::error::Error;
use std::path::Path;

use forebay_plan::input;
use forebay_plan::synthetic::{Draw, plane};
use forebay_plan::topology::Topology;

/// Reads the topology of a file; `plane-N` generates one of N routers.
pub(crate) fn topology(name: &str) -> Result<Topology, Box<dyn Error>> {
    if let Some(routers) = name.strip_prefix("plane-") {
        return Ok(plane(routers.parse()?, 1.25, &mut Draw::new(1)));
    }
    let path = Path::new(name);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(input::topology(path, &std::fs::read_to_string(path)?)?.named(&stem))
}
