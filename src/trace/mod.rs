//! How does a trace touch the disk? The only room that opens trace files.
