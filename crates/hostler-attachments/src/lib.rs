//! What people attach to their messages, from bytes to what an agent is given.
//!
//! `received → probed → planned → made deliverable → written as blocks`. A plan is all or nothing: it lists every file
//! with what becomes of it, and if one cannot be sent, none is.
//!
//! **Architecture Invariant:** no I/O, no session, no process. Bytes come in, a plan goes out; whoever calls reads files,
//! stores originals and delivers. A message without attachments never comes here.

#![forbid(unsafe_code)]

mod base64;
mod block;
mod budget;
mod claude;
mod diagnostics;
mod error;
mod fault;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod image;
mod item;
mod limits;
mod pdf;
mod plan;
mod planned;
mod probe;
mod references;
mod summary;
mod text;
mod title;
mod variant;

pub use block::{Block, ImageType};
pub use claude::Claude;
pub use diagnostics::Diagnostics;
pub use error::{Code, Refusal, Rejection};
pub use item::{Item, Reference, ReferenceKind, Selection, Source};
pub use limits::{History, Limits};
pub use plan::{decoded_pixels, plan, plan_unless};
pub use planned::{Kind, Original, Plan, Planned, Warning};
pub use summary::{Decision, Summary};
pub use title::Title;
pub use variant::{OPTIMIZER_VERSION, VariantKey};
