//! What the product is measured by.

fn main() {}
