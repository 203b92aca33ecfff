//! Messages with attachments over the wire: their order, the host's requests for files, and what the host stores.

mod client_files;
mod dispatch_queue;
mod fixture;
