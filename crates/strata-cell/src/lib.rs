//! Cells: cgroups, namespaces, the tiny init inside, executables and their logs.
