//! Typed clients for the server and the node.
