//! Commands of the command line that a server does: what is sent, what comes back, the client that
//! sends it, and what a command on the server sees of its caller instead of a terminal and a disk.
//!
//! A command line flows in as an order ([`CommandOrder`]); lines for stdout and stderr, files and an
//! exit code flow back as frames ([`CommandFrame`]). Which commands there are, and what they do, is
//! not known here; the server's gate and the right of each verb are `lope-server`'s.

pub mod caller;
mod command_call;
mod following;
mod order;
mod server_client;

pub use command_call::{CommandCall, CommandHost, FrameReceiver};
pub use order::{
    Attached, Attachment, CommandFrame, CommandOrder, LastTold, Need, OutputFile, ScreenSize,
};
pub use server_client::{CallError, OrderGiver, ServerClient, ServerTrust};

/// Most bytes of one file, or of standard input, that go with an order.
pub const ATTACHMENT_MAX: usize = 14 * 1024 * 1024;
