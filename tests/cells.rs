//! Cells, end to end: every call of `runtime.CellService` and
//! `strata.v1.Cells` against a daemon of its own, held against the kernel's
//! own files.

#[path = "cells/allocate.rs"]
mod allocate;
#[path = "cells/end.rs"]
mod end;
#[path = "cells/executables.rs"]
mod executables;
#[path = "cells/free.rs"]
mod free;
#[path = "cells/inside.rs"]
mod inside;
#[path = "cells/limits.rs"]
mod limits;
#[path = "cells/look.rs"]
mod look;
#[path = "cells/races.rs"]
mod races;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
