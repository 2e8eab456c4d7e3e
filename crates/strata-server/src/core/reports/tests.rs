//! What follows from reports.
