//! Worlds for tests: a daemon of one's own, a look at the host before and
//! after, waiting on conditions.
