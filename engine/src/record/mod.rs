//! What is kept of a run while it goes on: marks of finished requests, histograms, counters.

mod decode;
mod encoded;
mod gaps;
mod interval_log;
mod legs;
mod network;
mod recorder;
mod remains;
mod row;
mod seconds_file;
mod seconds_log;
mod server_times;
mod settled;
mod shift;
mod spill;
mod tally;
mod window;

pub(crate) use decode::Decoder;
pub use interval_log::{read_interval_log, write_interval_log};
pub use legs::{Arm, KvFallback, Leg, Legs};
pub use network::NetworkTally;
pub use recorder::{
    ReadNote, Recorder, RecorderRings, RecorderSetup, SecondPooled, WriterRings, rings,
};
pub use remains::Remains;
pub use row::{ErrorClass, Outcome, Phase, Row, TokenSource, WaitCause};
pub use seconds_file::SecondsFile;
pub use seconds_log::SecondsLog;
pub use server_times::{ServerTimings, TimesSource};
pub use settled::{Annotate, Chunk, Marks, NONE, Settled, assign_tokens};
pub use spill::{Spill, Unwritten, read_rows};
pub use tally::{ClassTally, GapSample, HIGHEST_NS, Pooled, Second, Tally, histogram};
pub use window::Window;
