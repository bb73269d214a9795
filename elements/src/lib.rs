//! The element library, one element a file.
