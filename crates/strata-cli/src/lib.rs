//! The command line: one file per noun and verb, one printer.
