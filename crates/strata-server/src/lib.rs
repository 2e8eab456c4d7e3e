//! The control plane: its faces, its rules, its reconcilers.
