//! The CA, certificates, tokens and roles, and the one table that says who may call what.
