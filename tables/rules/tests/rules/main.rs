//! The filter from outside: its language, the classifier against the plain evaluator, and what is
//! rendered for the kernel.

mod agree;
mod kernel;
mod language;
mod manual;
mod nftables;
mod pools;
mod samples;
