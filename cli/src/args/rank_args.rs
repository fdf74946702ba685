//! Arguments of runs under `mpirun`.

use super::ByteSize;
use clap::Args;

/// What ranks of a training run choose.
#[derive(Args, Clone, Default, Debug)]
pub struct RankArgs {
    /// Resume at another number of ranks than the checkpoint was written at. Sums of gradients get other last bits, and
    /// dropout draws other numbers; data and order stay.
    #[arg(long, requires = "resume")]
    pub rescale: bool,
    /// Under mpirun: each rank keeps the optimiser's states of its share of the params alone. The weights do not depend
    /// on it.
    #[arg(long)]
    pub shard_states: bool,
    /// Under mpirun: exchange gradients behind their computation, not beside it. The weights do not depend on it.
    #[arg(long)]
    pub no_overlap: bool,
}

/// What ranks of a bench choose.
#[derive(Args, Clone, Default, Debug)]
pub struct BenchRankArgs {
    /// Under mpirun: exchange gradients behind their computation, not beside it.
    #[arg(long)]
    pub no_overlap: bool,
    /// Under mpirun: the largest bucket of gradients, in bytes or like 64KiB [default: as in training].
    #[arg(long, value_name = "SIZE")]
    pub bucket: Option<ByteSize>,
}
