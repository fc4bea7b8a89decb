//! Temporary driver.
use forebay_harm::*;
use forebay_lab::engine::Interrupt;
fn main() {
    let arg = |n: usize, d: u64| std::env::args().nth(n).and_then(|a| a.parse().ok()).unwrap_or(d);
    let (cells, seeds, seed) = (arg(1, 46), arg(2, 1) as u32, arg(3, 1));
    let out = std::path::PathBuf::from(std::env::args().nth(4).unwrap_or("/tmp/fb/harm".into()));
    let only = std::env::args().nth(5);
    let drawn: Vec<_> = (0..cells).map(|n| draw(seed, n))
        .filter(|c| only.as_ref().is_none_or(|o| o.split(',').any(|x| x == c.family.name() || x == c.number.to_string()))).collect();
    let options = Options { seed, seeds, cells: out.join("cells"), jobs: None };
    let map = run(&forebay_lab::sim_engine::Sim, drawn, &options, &Interrupt::default()).unwrap();
    map.write(&out, "x").unwrap();
    println!("{} of {} worse, {} by policy", map.worse(), map.cells.len(), map.worse_by_policy());
}
