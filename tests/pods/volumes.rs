//! volumes
