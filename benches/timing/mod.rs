//! Times of repeated work, shared by all benches here.

use std::time::{Duration, Instant};

/// Does `work` `turns` times, with the number of the turn; returns the times in ascending order.
pub fn times(turns: usize, mut work: impl FnMut(usize)) -> Vec<Duration> {
    let timed = |turn| {
        let began = Instant::now();
        work(turn);
        began.elapsed()
    };
    let mut times: Vec<Duration> = (0..turns).map(timed).collect();
    times.sort_unstable();
    times
}

/// The time that `percent` of these times, which are in ascending order, don't exceed.
pub fn percentile(times: &[Duration], percent: usize) -> Duration {
    times[(times.len() * percent / 100).min(times.len() - 1)]
}
