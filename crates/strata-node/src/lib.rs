//! The node daemon: cells and logs behind runtime.* and observe.*, recovery after a restart.
