//! Times messages between ranks, and prints a network for `arenagrad scale`: what `tools/measure-network` starts under
//! `mpirun`.
//!
//! `messages NAME SOURCE`: ranks 2i and 2i + 1 send one another messages of each size, all pairs at once. The time of a
//! size is the least of several rounds, and in a round that of the slowest pair. Rank 0 prints.

use arenagrad::prelude::*;
use arenagrad::train::Comm;
use arenagrad_mpi::MpiComm;
use mpi::point_to_point::send_receive_into;
use mpi::topology::SimpleCommunicator;
use mpi::traits::Communicator;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

/// Bytes of the messages: from almost none to those of a bucket.
const SIZES: [usize; 14] = [
    1,
    64,
    256,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
];
/// Rounds of a size.
const ROUNDS: usize = 9;
/// Bytes that a round sends, at least, and messages, at most.
const SENT: usize = 8 << 20;
const MOST: usize = 400;
/// Bytes of a copy: those of a bucket.
const COPIED: usize = 4 << 20;

/// The largest number of all ranks.
fn largest(comm: &MpiComm, own: f64) -> Result<f64> {
    let mut all = vec![0f64; comm.size()];
    let mut bytes = vec![0u8; 8 * comm.size()];
    comm.all_gather(&own.to_le_bytes(), &mut bytes)?;
    all.iter_mut().zip(bytes.as_chunks::<8>().0).for_each(|(x, b)| *x = f64::from_le_bytes(*b));
    Ok(all.into_iter().fold(0.0, f64::max))
}

/// Seconds in which this rank and its peer send one another `bytes` bytes.
fn message(comm: &MpiComm, bytes: usize) -> Result<f64> {
    let world = SimpleCommunicator::world();
    let peer = world.process_at_rank((comm.rank() ^ 1) as i32);
    let (sent, mut received) = (vec![1u8; bytes], vec![0u8; bytes]);
    let times = (SENT / bytes).clamp(2, MOST);
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        comm.barrier()?;
        let start = Instant::now();
        for _ in 0..times {
            send_receive_into(&sent[..], &peer, &mut received[..], &peer);
        }
        best = best.min(largest(comm, start.elapsed().as_secs_f64() / times as f64)?);
    }
    Ok(best)
}

/// Bytes per second, read and written together, that a rank copies while all do.
fn copies(comm: &MpiComm) -> Result<f64> {
    let (from, mut to) = (vec![1u8; COPIED], vec![0u8; COPIED]);
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        comm.barrier()?;
        let start = Instant::now();
        for _ in 0..4 {
            black_box(&mut to).copy_from_slice(black_box(&from));
        }
        best = best.min(largest(comm, start.elapsed().as_secs_f64() / 4.0)?);
    }
    Ok(2.0 * COPIED as f64 / best)
}

fn run(comm: &MpiComm, name: &str, source: &str) -> Result<()> {
    if comm.size() < 2 || !comm.size().is_multiple_of(2) {
        comm.abort(&format!("messages go between pairs of ranks, and there are {}", comm.size()));
    }
    let copied = copies(comm)?;
    let mut least = 0f64;
    let mut text =
        format!("name = {name:?}\nsource = {source:?}\ncopied_bytes_per_second = {copied:.3e}\nmessage = [\n");
    for bytes in SIZES {
        // A larger message that was quicker took as long as the smaller one can take.
        least = least.max(message(comm, bytes)?);
        text.push_str(&format!("    {{ bytes = {bytes}, seconds = {least:.3e} }},\n"));
    }
    text.push_str("]\n");
    if comm.rank() == 0 {
        print!("{text}");
    }
    comm.finish()
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let [_, name, source] = &args[..] else {
        eprintln!("give a name and a source");
        return ExitCode::from(2);
    };
    let comm = match MpiComm::join() {
        Ok(comm) => comm,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::from(2);
        }
    };
    match run(&comm, name, source) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => comm.abort(&e.to_string()),
    }
}
